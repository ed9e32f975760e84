//! `lab figures list`, `run` and `render`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{assert_fine, assert_plain_and_narrow, assert_refused, folder, run, stderr};

/// The figures, as `list` tells programs.
fn list(folder: &Path) -> Vec<Value> {
    let text = assert_fine(&run(folder, &["figures", "list", "--json"]));
    let list: Value = serde_json::from_str(&text).expect("JSON");
    list.as_array().expect("a list").clone()
}

/// The measured figure with the fewest cells, and how many it has.
fn smallest(folder: &Path) -> (String, u64) {
    let cells = |figure: &Value| figure["quick_cells"].as_u64().expect("a number");
    let list = list(folder);
    let here = list.iter().filter(|figure| figure["machine"] == "here");
    let smallest = here
        .min_by_key(|figure| cells(figure))
        .expect("there is one");
    let name = smallest["name"].as_str().expect("a name");
    (name.to_owned(), cells(smallest))
}

#[test]
fn figures_are_listed_by_group() {
    let folder = folder();
    let text = assert_fine(&run(folder.path(), &["figures", "list"]));
    assert_plain_and_narrow(&text);
    for figure in list(folder.path()) {
        let name = figure["name"].as_str().expect("a name");
        assert!(text.contains(name), "{name}");
    }
}

#[test]
fn a_figure_is_made_once_and_its_page_as_often_as_wanted() {
    let folder = folder();
    let (name, cells) = smallest(folder.path());
    let arguments = ["figures", "run", &name, "--quick", "--json"];
    let first = run(folder.path(), &arguments);
    let said: Value = serde_json::from_str(&assert_fine(&first)).expect("JSON");
    assert_eq!(said["figures"][0]["cells"], cells);
    assert_eq!(said["figures"][0]["failed"], 0, "{said}");
    assert!(said["figures"][0]["in_doubt"].is_array(), "{said}");
    let results = folder.path().join("figures/quick");
    let page = fs::read_to_string(results.join("index.html")).expect("the page");
    assert!(page.contains(&format!("id=\"{name}\"")) && page.ends_with("</html>\n"));
    assert!(results.join("summary.md").is_file());

    // All is there.
    let file = results.join("evaluation.jsonl");
    let before = fs::read(&file).expect("the results");
    let again = run(folder.path(), &arguments);
    assert_fine(&again);
    assert!(stderr(&again).contains(&format!("{cells} cells are there")));
    assert_eq!(fs::read(&file).expect("the results"), before);

    fs::remove_file(results.join("index.html")).expect("it was there");
    let text = assert_fine(&run(folder.path(), &["figures", "render"]));
    assert_plain_and_narrow(&text);
    assert!(results.join("index.html").is_file() && text.contains("index.html"));
}

#[test]
fn what_is_wrong_is_told_in_a_line_and_left_as_it_is() {
    let folder = folder();
    let (name, _) = smallest(folder.path());
    let refused = |arguments: &[&str], part: &str| {
        assert_refused(&run(folder.path(), arguments), part);
    };
    refused(&["figures", "run", &format!("{name}x")], &name);
    refused(&["figures", "run", &name, "--quick", "--full"], "--full");
    refused(&["figures"], "command is missing");
    refused(&["figures", "render"], "figures run");
    refused(&["figures", "render", "--results", "nowhere"], "--results");

    fs::write(folder.path().join("file"), "").expect("there is space");
    refused(&["figures", "run", &name, "--results", "file"], "--results");
    refused(&["figures", "render", "--results", "file"], "--results");

    let results = folder.path().join("results");
    fs::create_dir(&results).expect("there is space");
    refused(
        &["figures", "render", "--results", "results"],
        "figures run",
    );
    let file = results.join("evaluation.jsonl");
    for (text, part) in [
        ("{\"version\":2,\"figu", "no results"),
        ("{\"version\":77,\"figures\":0}\n", "another version"),
    ] {
        fs::write(&file, text).expect("there is space");
        for arguments in [
            &["figures", "render", "--results", "results"][..],
            &["figures", "run", &name, "--quick", "--results", "results"],
        ] {
            refused(arguments, part);
        }
        assert_eq!(fs::read_to_string(&file).expect("it is there"), text);
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on() {
    let folder = folder();
    let (name, cells) = smallest(folder.path());
    let arguments = ["figures", "run", &name, "--quick"];
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("lab"))
        .current_dir(folder.path())
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let unfinished = folder
        .path()
        .join(format!("figures/quick/unfinished/{name}.jsonl"));
    while !unfinished.exists() && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("there is kill").success());
    let output = child.wait_with_output().expect("it ends");
    if output.status.success() {
        // It was faster than the key.
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("goes on from there"),
        "{}",
        stderr(&output)
    );
    // A line for the version, one for the figure, one for each cell.
    let found = fs::read_to_string(&unfinished).expect("what was found");
    let kept = found.lines().count() as u64 - 2;
    assert!(kept >= 1 && kept < cells);

    let second = run(folder.path(), &arguments);
    assert_fine(&second);
    assert!(stderr(&second).contains(&format!("{kept} cells are there")));
    assert!(!unfinished.exists());
}
