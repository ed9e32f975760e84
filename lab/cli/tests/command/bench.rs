//! `lab bench`.

use serde_json::Value;

use crate::{assert_fine, assert_plain_and_narrow, assert_refused, folder, run, simulated};

#[test]
fn a_mixture_is_measured_on_ours_and_on_others() {
    let folder = folder();
    let arguments = [
        "bench",
        "map",
        "--threads",
        "1,2",
        "--milliseconds",
        "2",
        "--repetitions",
        "1",
        "--keys",
        "100",
        "--reads",
        "50%",
        "--distribution",
        "zipf:1.1",
    ];
    let text = assert_fine(&run(folder.path(), &arguments));
    assert_plain_and_narrow(&text);
    for name in ["* Map", "DashMap", "50 % reads", "2 threads"] {
        assert!(text.to_lowercase().contains(&name.to_lowercase()), "{text}");
    }
    let arguments = [
        "bench",
        "set",
        "--only",
        "hashed,mutex",
        "--threads",
        "1",
        "--milliseconds",
        "2",
        "--repetitions",
        "2",
        "--keys",
        "100",
        "--json",
    ];
    let data: Value =
        serde_json::from_str(&assert_fine(&run(folder.path(), &arguments))).expect("JSON");
    let cells = data["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    for cell in cells {
        assert_eq!(cell["values"].as_array().map(Vec::len), Some(2), "{cell}");
        assert!(cell["values"][0]["rate"].as_f64() > Some(0.0), "{cell}");
    }
    assert_eq!(data["reads"], 900_000);
}

#[test]
fn by_a_timetable_times_are_shown() {
    let folder = folder();
    let arguments = [
        "bench",
        "counter",
        "--only",
        "percolog,atomic",
        "--threads",
        "1",
        "--milliseconds",
        "20",
        "--repetitions",
        "1",
        "--rate",
        "20000",
    ];
    let text = assert_fine(&run(folder.path(), &arguments));
    assert_plain_and_narrow(&text);
    for word in ["99.9 %", "longest", "due 20000 a second"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn a_mixture_can_be_simulated() {
    if !simulated() {
        return;
    }
    let folder = folder();
    let arguments = [
        "bench",
        "counter",
        "--only",
        "percolog,atomic",
        "--machine",
        "opteron-48",
        "--threads",
        "1,12",
        "--reads",
        "0",
        "--json",
    ];
    let data: Value =
        serde_json::from_str(&assert_fine(&run(folder.path(), &arguments))).expect("JSON");
    let rate = |at: usize| {
        data["cells"][at]["values"][0]["rate"]
            .as_f64()
            .expect("a rate")
    };
    // The counter's first, on one and on twelve; the atomic's behind.
    assert!(rate(1) > 8.0 * rate(0) && rate(3) < 3.0 * rate(2), "{data}");
    assert!(
        data["cells"][1]["values"][0]["lines"].as_f64() < Some(0.01),
        "{data}"
    );
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = folder();
    for (arguments, part) in [
        (&["bench"][..], "STRUCTURE"),
        (&["bench", "tree"], "tree"),
        (&["bench", "map", "--only", "hashmap"], "dashmap"),
        (&["bench", "map", "--reads", "2"], "share"),
        (&["bench", "map", "--distribution", "normal"], "zipf"),
        (&["bench", "map", "--threads", "0"], "thread"),
        (&["bench", "map", "--machine", "pdp-11"], "machines"),
        (
            &["bench", "map", "--machine", "opteron-48", "--threads", "49"],
            "48 cores",
        ),
    ] {
        assert_refused(&run(folder.path(), arguments), part);
    }
}
