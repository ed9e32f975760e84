use std::cell::Cell as Count;
use std::ffi::OsString;

use super::*;
use crate::catalogue::{self, Need};

/// Stops after so many cells.
#[derive(Default)]
struct Until {
    cells: Count<usize>,
    stop_after: Option<usize>,
    told: (usize, usize),
}

impl Progress for Until {
    fn begins(&mut self, cells: usize, kept: usize) {
        self.told = (cells, kept);
    }

    fn runs(&mut self, _: &Figure, _: &Place) {}

    fn ran(&mut self, _: &Figure, _: &Place, _: &Found) {
        self.cells.set(self.cells.get() + 1);
    }

    fn finishes(&mut self, _: &Figure) {}

    fn is_interrupted(&self) -> bool {
        self.stop_after == Some(self.cells.get())
    }
}

/// A figure that is measured here.
fn figure() -> Figure {
    let all = catalogue::all().expect("the catalogue is right");
    let here = |figure: &Figure| figure.machine == catalogue::Where::Here;
    all.into_iter().find(here).expect("there is one")
}

fn order() -> Order {
    Order {
        size: Size::Quick,
        build: Build::this(),
        host: Host::describe(),
        again: false,
        features: Vec::new(),
    }
}

/// Counts its runs in a file.
fn laboratory(folder: &tempfile::TempDir) -> Laboratory {
    let count = folder.path().join("count");
    let script = format!("echo >> {}; echo '{{\"rate\": 2}}'", count.display());
    Laboratory::new(
        "/bin/sh".into(),
        [OsString::from("-c"), OsString::from(script)],
    )
}

fn runs(folder: &tempfile::TempDir) -> usize {
    let text = std::fs::read_to_string(folder.path().join("count"));
    text.map_or(0, |text| text.lines().count())
}

/// What is kept of a complete figure.
fn kept(store: &Store, figure: &str) -> Option<Results> {
    store.read().expect("it can be read").remove(figure)
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::create(folder.path().join("results")).expect("a folder");
    let (figure, order, laboratory) = (figure(), order(), laboratory(&folder));
    let figures = std::slice::from_ref(&figure);
    let mut progress = Until {
        stop_after: Some(2),
        ..Until::default()
    };
    let stopped = run(figures, &order, &laboratory, &store, &mut progress);
    assert!(matches!(stopped, Err(RunError::Interrupted)));
    assert_eq!(kept(&store, &figure.name), None);

    let mut progress = Until::default();
    run(figures, &order, &laboratory, &store, &mut progress).expect("it goes on");
    let results = kept(&store, &figure.name).expect("it is complete");
    let all = places(&figure, Size::Quick, order.host.processors);
    assert_eq!(progress.told, (all.len() - 2, 2));
    assert_eq!(results.cells.len(), all.len());
    let wanted: u32 = all.iter().map(|place| place.cell.repetitions).sum();
    // Cells that were run before anybody saw that it is interrupted are run again: on a busy machine any number of them.
    let wanted = wanted as usize;
    assert!((wanted..=2 * wanted).contains(&runs(&folder)));

    // All is there.
    let mut progress = Until::default();
    run(figures, &order, &laboratory, &store, &mut progress).expect("nothing to do");
    assert_eq!(progress.told, (0, all.len()));
    // Unless it is wanted again, or something else was built.
    for order in [
        Order {
            again: true,
            ..order.clone()
        },
        Order {
            build: Build {
                commit: "another".to_owned(),
                ..order.build.clone()
            },
            ..order.clone()
        },
    ] {
        let mut progress = Until::default();
        run(figures, &order, &laboratory, &store, &mut progress).expect("once more");
        assert_eq!(progress.told, (all.len(), 0));
    }
}

#[test]
fn what_fails_is_in_the_results_and_tried_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::create(folder.path().to_path_buf()).expect("a folder");
    let (mut figure, order) = (figure(), order());
    figure.contenders[0].needs = Some(Need::Feature("a-feature".to_owned()));
    figure.contenders[1].needs = Some(Need::Command("no-such-command".to_owned()));
    let figures = std::slice::from_ref(&figure);
    let failing = Laboratory::new("/bin/false".into(), []);
    let mut progress = Until::default();
    run(figures, &order, &failing, &store, &mut progress).expect("failures are kept");
    let results = kept(&store, &figure.name).expect("it is complete");
    assert!(results.cells.iter().all(|found| found.failure.is_some()));
    let skipped = results.cells[0].failure.as_deref().unwrap_or_default();
    assert!(skipped.contains("--features a-feature"), "{skipped}");
    let skipped = results.cells[1].failure.as_deref().unwrap_or_default();
    assert!(skipped.contains("`no-such-command`"), "{skipped}");
    assert!(results.cells[1].skipped);

    let mut progress = Until::default();
    let laboratory = laboratory(&folder);
    run(figures, &order, &laboratory, &store, &mut progress).expect("it works now");
    assert_eq!(progress.told.1, 0);
    let cells = kept(&store, &figure.name).expect("it is complete").cells;
    assert!(cells[2..].iter().any(|found| found.failure.is_none()));
}

#[test]
fn a_cell_of_two_figures_is_run_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::create(folder.path().join("results")).expect("a folder");
    let (one, order, laboratory) = (figure(), order(), laboratory(&folder));
    let mut other = one.clone();
    other.name = "the-same-again".to_owned();
    let wanted = places(&one, Size::Quick, order.host.processors);
    let wanted: u32 = wanted.iter().map(|place| place.cell.repetitions).sum();
    let mut progress = Until::default();
    run(&[one, other], &order, &laboratory, &store, &mut progress).expect("it works");
    assert_eq!(runs(&folder), wanted as usize);
    assert!(kept(&store, "the-same-again").is_some());
}

#[test]
fn a_quick_look_does_not_take_the_place_of_a_full_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::create(folder.path().join("results")).expect("a folder");
    let (figure, laboratory) = (figure(), laboratory(&folder));
    let figures = std::slice::from_ref(&figure);
    let full = Order {
        size: Size::Full,
        ..order()
    };
    run(figures, &full, &laboratory, &store, &mut Until::default()).expect("it works");
    let before = kept(&store, &figure.name).expect("it is complete");
    let refused = run(
        figures,
        &order(),
        &laboratory,
        &store,
        &mut Until::default(),
    );
    let error = refused.expect_err("it is refused").to_string();
    assert!(error.contains("--results"), "{error}");
    assert_eq!(kept(&store, &figure.name), Some(before));
}
