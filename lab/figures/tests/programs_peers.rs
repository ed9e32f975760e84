//! Every contender of the figures about peers, crossings, regret and memory runs for a moment, on two threads, and gives what its figure shows.

use std::collections::BTreeMap;

use percolog_figures::catalogue;

const GROUPS: [&str; 4] = ["peers", "crossover", "regret", "memory"];

/// So that nothing takes long that is filled before it is measured.
const MOST: [(&str, u64); 4] = [
    ("keys", 2000),
    ("objects", 500),
    ("idle", 10),
    ("values", 1000),
];

/// In one test: some structures are statics, and what one takes of memory is not to be taken for another's.
#[test]
fn every_contender_gives_what_its_figure_shows() {
    let figures = catalogue::all().expect("the catalogue is right");
    let ours = figures
        .iter()
        .filter(|figure| GROUPS.contains(&&*figure.group));
    let mut cells = 0;
    for figure in ours {
        for contender in figure.contenders.iter().filter(|contender| {
            // The command's own tests run the servers: they are processes of it.
            contender.program != "memcached"
                && (contender.needs.is_none() || cfg!(feature = "c-peers"))
        }) {
            let mut given: BTreeMap<String, String> = BTreeMap::new();
            for (key, word) in figure.parameters.iter().chain(&contender.with) {
                given.insert(key.clone(), word.to_string());
            }
            let axes = [Some(&figure.x), figure.rows.as_ref()];
            for axis in axes.into_iter().flatten() {
                let values = axis.values(1);
                let last = values.last().expect("an axis has values");
                given.insert(axis.parameter.clone(), last.to_string());
            }
            for (key, most) in MOST {
                if let Some(value) = given.get_mut(key)
                    && value.parse::<u64>().is_ok_and(|value| value > most)
                {
                    *value = most.to_string();
                }
            }
            if contender.program == "caches" {
                given.insert("trace".to_owned(), "4096".to_owned());
            }
            given.insert("threads".to_owned(), "2".to_owned());
            given.insert("milliseconds".to_owned(), "1".to_owned());
            let pairs: Vec<String> = given
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let called = format!("{}: {} {pairs:?}", figure.name, contender.program);
            let values = percolog_cells::run(&contender.program, pairs.iter().map(String::as_str))
                .unwrap_or_else(|error| panic!("{called}: {error}"));
            let shown = values.get(&figure.y.value);
            assert!(
                shown.is_some_and(|value| value.is_finite()),
                "{called} gives no {}",
                figure.y.value
            );
            for column in &figure.columns {
                // What only a simulated machine gives.
                if !["lines", "waiting"].contains(&&**column) {
                    assert!(values.get(column).is_some(), "{called} gives no {column}");
                }
            }
            cells += 1;
        }
    }
    assert!(cells > 100, "only {cells} contenders were found");
}

#[test]
fn parameters_that_are_wrong_are_named() {
    let run = |name, pairs: &[&str]| {
        let time = ["threads=1", "milliseconds=1"];
        let error = percolog_cells::run(name, time.into_iter().chain(pairs.iter().copied()))
            .expect_err("a parameter is wrong");
        error.to_string()
    };
    assert!(run("maps", &["structure=percolog", "keys=0"]).contains("keys=0"));
    assert!(run("maps", &["structure=tree"]).contains("node-replication"));
    assert!(run("caches", &["structure=moka", "keys=100"]).contains("`sets=VALUE` is missing"));
    assert!(run("heaps", &["structure=box", "place=there"]).contains("elsewhere"));
    assert!(run("references", &["structure=rc"]).contains("there are percolog, arc"));
    let cycles = ["threads=1", "warm_up=1", "cycles=1"];
    let natively = cycles.into_iter().chain(["payload=plain"]);
    let error = percolog_cells::run("freeing", natively).expect_err("it is measured here only");
    assert!(error.to_string().contains("milliseconds"), "{error}");
    let waits = ["structure=percolog", "stalled_reader=maybe", "updates=50"];
    assert!(run("shared-elements", &waits).contains("there are no, yes"));
}
