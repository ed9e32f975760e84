//! What is said of a program that uses percolog's own objects already.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use percolog::oplog::{Logged, LoggedBuilder, Mode, Operation};
use percolog_sim::assert::Assertion;

struct Put(u64);

impl Operation<BTreeMap<u64, u64>> for Put {
    fn exec(self, map: &mut BTreeMap<u64, u64>) {
        map.insert(self.0 % 64, self.0);
    }
}

/// What is reported of eight cores that update one object in this mode, as one line; nothing where there is no simulator.
#[track_caller]
fn reported(mode: Mode) -> Option<String> {
    const CORES: usize = 8;
    let measured = Assertion::on(CORES).measure_or_skip(|| {
        let map: Logged<_, Put> = LoggedBuilder::new().mode(mode).build(BTreeMap::new());
        let start = Barrier::new(CORES);
        thread::scope(|scope| {
            for core in 0..CORES as u64 {
                let (map, start) = (&map, &start);
                scope.spawn(move || {
                    start.wait();
                    percolog_roi::begin();
                    for at in 0..200 {
                        map.queue(Put(at + core));
                        if at % 50 == 49 {
                            assert!(!map.synchronize().is_empty());
                        }
                    }
                    percolog_roi::end(200);
                });
            }
        });
    })?;
    let words: Vec<&str> = measured.report.split_whitespace().collect();
    Some(words.join(" "))
}

#[test]
fn an_object_that_is_eager_is_told_from_one_that_defers() {
    let eager = reported(Mode::Eager);
    let deferring = reported(Mode::Deferring);
    let (Some(eager), Some(deferring)) = (eager, deferring) else {
        return;
    };
    for (report, is, is_not) in [
        (&eager, "evidently eager", "evidently deferring"),
        (&deferring, "evidently deferring", "evidently eager"),
    ] {
        assert!(
            report.contains(&format!("percolog's own Logged, {is}")),
            "{report}"
        );
        assert!(!report.contains(is_not), "{report}");
    }
    assert!(
        eager.contains("stats().mode_reason says why; LoggedBuilder::mode"),
        "{eager}"
    );
}
