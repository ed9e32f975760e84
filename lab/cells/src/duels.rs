//! Duels: the workloads of `percolog-bench` that are driven through each structure alike.

use std::num::NonZeroU64;

use percolog_bench::counters::CounterKind;
use percolog_bench::sets::{Answers, Load, Pattern, Question, SetKind};

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 2] = [
    Program {
        name: "counters",
        about: "every thread adds one to a counter; it is read after every `updates_per_read` of a thread",
        run: counters,
    },
    Program {
        name: "sets",
        about: "every thread opens and closes ids in a set; it is asked after every `updates_per_read` of a thread",
        run: sets,
    },
];

/// After how many updates a thread reads; missing or 0: never.
pub(super) fn updates_per_read(given: &mut Given) -> Result<Option<NonZeroU64>, ProgramError> {
    let updates = given.optional_number("updates_per_read", 0..=u64::MAX)?;
    Ok(updates.and_then(NonZeroU64::new))
}

/// Whether changes have to say what they found.
pub(super) fn answers(given: &mut Given) -> Result<Answers, ProgramError> {
    let answers = [("ignored", Answers::Ignored), ("used", Answers::Used)];
    given.choice_or_first("answers", &answers)
}

fn counters(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.choice(
        "structure",
        &[
            ("percolog", CounterKind::Percolog),
            ("atomic", CounterKind::Atomic),
            ("contatori", CounterKind::Contatori),
            ("long-adder", CounterKind::LongAdder),
            ("sloppy", CounterKind::Sloppy),
            ("reducer", CounterKind::Reducer),
        ],
    )?;
    let reads = updates_per_read(given)?;
    let cell = kind
        .run(given.settings(), reads)
        .map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

fn sets(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.choice(
        "structure",
        &[
            ("mutex", SetKind::Mutex),
            ("logged", SetKind::Logged),
            ("absorbing", SetKind::Absorbing),
            ("ordered", SetKind::Ordered),
            ("hashed", SetKind::Hashed),
            ("dashmap", SetKind::Dash),
        ],
    )?;
    let load = Load {
        pattern: given.choice_or_first(
            "pattern",
            &[
                ("connections", Pattern::Connections),
                ("fresh-ids", Pattern::FreshIds),
            ],
        )?,
        changes_per_read: updates_per_read(given)?,
        question: given.choice_or_first(
            "question",
            &[("contains", Question::Contains), ("count", Question::Count)],
        )?,
        answers: answers(given)?,
    };
    let cell = kind
        .run(given.settings(), load)
        .map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}
