//! What `percolog sim` and `percolog advise` show: sweeps, pages, differences, the schema.

use std::fs;
use std::path::{Path, PathBuf};

use percolog_sim::report::FORMAT;
use serde_json::Value;

use crate::sim::{
    COUNTER, RESULTS, VERSION, answering, compiled, leave, pretended_qemu, raw, with_qemu,
};
use crate::{
    assert_fine, assert_plain_and_narrow, assert_refused, folder, run, simulated, stderr, stdout,
};

/// A QEMU that leaves a result on each machine but that with 4 cores, where it fails, and that with 8, where it leaves none.
fn of_several_sizes(folder: &Path) -> PathBuf {
    let file = folder.join("result");
    fs::write(&file, raw(8, FORMAT)).expect("the folder can be written");
    let script = format!(
        "{VERSION}\n{RESULTS}\n\
         cores=$(sed -n 's/^machine.cores //p' \"$config\")\n\
         echo \"$cores $PERCOLOG_SIM_CORES $*\" >>'{folder}/said'\n\
         [ $cores = 8 ] && exit 0\n\
         {leave}\n\
         [ $cores = 4 ] && echo 'it went wrong' >&2 && exit 9\nexit 0",
        folder = folder.display(),
        leave = leave(&file)
    );
    pretended_qemu(folder, &script)
}

#[test]
fn a_sweep_goes_on_when_a_run_fails() {
    let folder = folder();
    let qemu = of_several_sizes(folder.path());
    let output = with_qemu(
        folder.path(),
        &qemu,
        &[
            "sim",
            "--no-what-if",
            "--sweep",
            "1,2,4,…,16",
            "--",
            "true",
            "-t{n}",
            "{cores}",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = stderr(&output);
    assert_plain_and_narrow(&report);
    for part in [
        "/bin/guest on opteron-48: 16 cores",
        "more cores never make it",
        "4 cores: it ended with status 9: it went wrong",
        "8 cores: ",
    ] {
        assert!(report.contains(part), "{report} lacks {part}");
    }
    let said = fs::read_to_string(folder.path().join("said")).expect("it was started");
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said.len(), 5, "{said:?}");
    for (line, cores) in said.iter().zip([1, 2, 4, 8, 16]) {
        assert!(line.starts_with(&format!("{cores} {cores} ")), "{line}");
        assert!(line.ends_with(&format!(" -t{cores} {cores}")), "{line}");
    }

    let output = with_qemu(
        folder.path(),
        &qemu,
        &["sim", "--json", "--sweep", "1,4,16", "--", "true"],
    );
    let json: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    let scaling = &json["scaling"];
    assert_eq!(scaling["measure"], "operations");
    assert_eq!(scaling["points"][1]["cores"], 4);
    assert_eq!(scaling["points"][1]["speedup"], Value::Null);
    assert_eq!(scaling["points"][2]["speedup"], 1.0);
    assert_eq!(scaling["stops_at"], 1);
    assert_eq!(json["machine"]["cores"], 16);
    assert_eq!(json["one_core"]["speedup"], 1.0);
}

#[test]
fn a_sweep_in_which_all_fails_says_why() {
    let folder = folder();
    let qemu = of_several_sizes(folder.path());
    let output = with_qemu(
        folder.path(),
        &qemu,
        &["sim", "--sweep", "4,8", "--", "true"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let message = stderr(&output);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.contains("4 cores: it ended with status 9"),
        "{message}"
    );
}

#[test]
fn wrong_sweeps_and_pages_are_refused() {
    let folder = folder();
    let qemu = of_several_sizes(folder.path());
    fs::write(folder.path().join("mine.html"), "<p>mine").expect("the folder can be written");
    for (arguments, part) in [
        (&["--sweep", "0", "--", "true"][..], "from 1 to 1024"),
        (
            &["--sweep", "1,3,4,…,9", "--", "true"][..],
            "neither a step nor a factor",
        ),
        (
            &["--sweep", "1,2", "--cores", "4", "--", "true"][..],
            "--cores",
        ),
        (&["--sweep", "1,2"][..], "a program to run is missing"),
        (
            &["--html", "mine.html", "--", "true"][..],
            "mine.html exists",
        ),
        (&["--html", "none/a.html", "--", "true"][..], "cannot write"),
    ] {
        let typed: Vec<&str> = ["sim"].iter().chain(arguments).copied().collect();
        assert_refused(&with_qemu(folder.path(), &qemu, &typed), part);
    }
    assert!(!folder.path().join("said").exists(), "something was run");
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let folder = folder();
    let qemu = answering(folder.path(), &raw(8, FORMAT), 0);
    let made = || {
        let typed = ["sim", "--sweep", "1,2,48", "--html", "a.html", "--", "true"];
        let output = with_qemu(folder.path(), &qemu, &typed);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("the page: "),
            "{}",
            stderr(&output)
        );
        fs::read_to_string(folder.path().join("a.html")).expect("it is there")
    };
    let page = made();
    for outside in [
        "http:", "https:", "<script", "src=", "url(", "@import", "<link",
    ] {
        assert!(!page.contains(outside), "the page contains {outside}");
    }
    for part in [
        "prefers-color-scheme: dark",
        "<h2>1. it</h2>",
        "class=\"curve\"",
        "class=\"heat\"",
        "core 1: ",
        "Not modelled: the bandwidth of memory and links",
        "Not simulated:</strong> the helper",
    ] {
        assert!(page.contains(part), "the page lacks {part}");
    }
    // It is its own to replace, and the same each time.
    assert_eq!(made(), page);
}

#[test]
fn advice_begins_with_its_conclusion() {
    let folder = folder();
    let qemu = answering(folder.path(), &raw(8, FORMAT), 0);
    let typed = ["advise", "--cores", "6", "--", "true"];
    let output = with_qemu(folder.path(), &qemu, &typed);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let advice = stderr(&output);
    assert_plain_and_narrow(&advice);
    assert!(
        advice.starts_with(
            "NOT SIMULATED: the helper\nMore cores never make it faster: 50 % of the time"
        ),
        "{advice}"
    );
    for part in [
        "cores           1      2      4      6",
        "No type is suggested",
    ] {
        assert!(advice.contains(part), "{advice} lacks {part}");
    }
    let typed = ["advise", "--json", "--sweep", "1,2", "--", "true"];
    let output = with_qemu(folder.path(), &qemu, &typed);
    let json: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    assert_eq!(json["version"], 1);
    assert_eq!(json["advice"][0]["name"], "it");
    assert_eq!(json["advice"][0]["fits"], Value::Null);
    assert_eq!(json["summary"]["scaling"]["points"][1]["cores"], 2);
    assert_refused(
        &run(folder.path(), &["advise"]),
        "a program to run is missing",
    );
}

#[test]
fn differences_are_told_and_other_files_refused() {
    let folder = folder();
    let report = |name: &str, result: &str| {
        let qemu = answering(folder.path(), result, 0);
        let output = with_qemu(folder.path(), &qemu, &["sim", "--json", "--", "true"]);
        fs::write(folder.path().join(name), output.stdout).expect("the folder can be written");
    };
    report("a.json", &raw(8, FORMAT));
    report(
        "b.json",
        &raw(8, FORMAT)
            .replace("\"label\":\"it\"", "\"label\":\"other\"")
            .replace("\"elapsed\":1000", "\"elapsed\":500"),
    );
    let text = assert_fine(&run(folder.path(), &["sim", "diff", "a.json", "b.json"]));
    assert_plain_and_narrow(&text);
    assert!(
        text.starts_with("better: 2.00 times as fast; it is gone; now that is other\n"),
        "{text}"
    );
    let json = assert_fine(&run(
        folder.path(),
        &["sim", "diff", "--json", "a.json", "a.json"],
    ));
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["speedup"], 1.0);
    assert_eq!(json["lines"][0]["change"], "same");
    fs::write(folder.path().join("new.json"), "{\"version\": 2}")
        .expect("the folder can be written");
    for (other, part) in [
        ("none.json", "none.json: No such file"),
        ("result", "result: it is no report"),
        ("new.json", "its version is 2"),
    ] {
        assert_refused(&run(folder.path(), &["sim", "diff", "a.json", other]), part);
    }
}

#[test]
fn the_schema_is_printed() {
    let folder = folder();
    let text = assert_fine(&run(folder.path(), &["sim", "schema"]));
    assert_eq!(text, percolog_sim::report::SCHEMA);
    let text = assert_fine(&run(folder.path(), &["sim", "schema", "--machine"]));
    assert_eq!(text, percolog_sim::machine::SCHEMA);
}

#[test]
fn a_counter_stops_growing_and_is_called_one() {
    let folder = folder();
    if !simulated() || !compiled(folder.path(), "counter", COUNTER, &["-g"]) {
        return;
    }
    let output = run(
        folder.path(),
        &["advise", "--sweep", "1,4", "--json", "--", "./counter"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).expect("stdout is JSON");
    let worst = &json["summary"]["lines"][0];
    assert_eq!(worst["suggestion"]["pattern"], "counter", "{worst}");
    assert_eq!(json["advice"][0]["fits"], "percolog::counter::Counter");
    assert!(
        worst["by_core"]
            .as_array()
            .is_some_and(|cores| cores.len() == 4),
        "{worst}"
    );
    assert_eq!(json["summary"]["scaling"]["measure"], "operations");
}

/// The simulator's README begins with a report. Figures depend on the compiler; what is said with them must be what is said now.
#[test]
fn the_first_screen_of_the_readme_is_what_is_printed() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../percolog-sim");
    let read =
        |file: &str| fs::read_to_string(sources.join(file)).expect("it is in the repository");
    let folder = folder();
    let place = format!("-ffile-prefix-map={}=.", folder.path().display());
    let header = format!("-I{}", sources.join("../percolog-roi/include").display());
    let flags = ["-g", "-O2", &place, &header];
    if !simulated() || !compiled(folder.path(), "server", &read("examples/server.c"), &flags) {
        return;
    }
    let readme = read("README.md");
    let shown = readme
        .split("```text\n")
        .nth(1)
        .and_then(|behind| behind.split("```").next())
        .expect("there is a report");
    let sim = ["sim", "--sweep", "1,2,4,…,48", "--", "./server", "{n}"];
    let report = stderr(&run(folder.path(), &sim));
    let (shown, printed) = (without_figures(shown), without_figures(&report));
    assert!(
        printed.starts_with(&shown),
        "the README shows\n{shown}\nand this is printed\n{report}"
    );
}

/// Words alone: each number is a sign, and neither how high bars are nor where lines break is told.
fn without_figures(report: &str) -> String {
    let mut words = String::new();
    for sign in report.chars().filter(|sign| !('▁'..='█').contains(sign)) {
        if sign.is_ascii_digit() {
            if !words.ends_with('#') {
                words.push('#');
            }
        } else if sign.is_whitespace() {
            if !words.ends_with(' ') {
                words.push(' ');
            }
        } else if !(sign == '.' && words.ends_with('#')) {
            words.push(sign);
        }
    }
    words.trim().to_owned()
}
