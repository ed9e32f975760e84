//! Every structure runs every workload for a moment, and ends in the right state.

use std::num::NonZeroU64;

use percolog_bench::counters::CounterKind;
use percolog_bench::runner::Settings;
use percolog_bench::sets::{Answers, Load, Pattern, Question, SetKind};

fn moment(threads: usize) -> Settings {
    Settings::until(threads, 5000)
}

/// All counters in one test: they are statics, so two cells of one kind must not run at the same time.
#[test]
fn counters_end_with_the_right_sum() {
    for kind in CounterKind::ALL {
        for threads in [1, 2, 8] {
            for adds_per_read in [None, NonZeroU64::new(1000), NonZeroU64::new(3)] {
                let cell = kind
                    .run(moment(threads), adds_per_read)
                    .unwrap_or_else(|error| {
                        panic!("{} on {threads} threads: {error}", kind.name())
                    });
                assert!(cell.operations > 0);
            }
        }
    }
}

#[test]
fn sets_end_with_the_right_contents() {
    for kind in SetKind::ALL {
        for pattern in [Pattern::Connections, Pattern::FreshIds] {
            for threads in [1, 2, 8] {
                for changes_per_read in [None, NonZeroU64::new(1000), NonZeroU64::new(3)] {
                    for question in [Question::Contains, Question::Count] {
                        // Half of the loads ask every change for its answer.
                        let answers = match question {
                            Question::Contains => Answers::Ignored,
                            Question::Count => Answers::Used,
                        };
                        let load = Load {
                            pattern,
                            changes_per_read,
                            question,
                            answers,
                        };
                        let cell = kind.run(moment(threads), load).unwrap_or_else(|error| {
                            panic!("{} on {threads} threads, {load:?}: {error}", kind.name())
                        });
                        assert!(cell.operations > 0);
                    }
                }
            }
        }
    }
}
