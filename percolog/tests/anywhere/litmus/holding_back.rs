//! A swap that holds calls back, and looks which sections are open: a call either finds nothing bound, or its section is waited for.
//!
//! Whoever changes `clustered::exchange` or `reclaim::open` changes this too. What the call finds bound it adds to; the swap reads what was counted
//! when the section has ended that it found open, and nothing may be added to the old implementation that it did not see.

use crate::litmus::program::Order::{Acquire, Relaxed, Release};
use crate::litmus::program::{Program, Value};
use crate::litmus::protocol::{Case, Clock, Protocol, everywhere};

/// A line that is missing or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slip {
    Nothing,
    /// The call looks for its entry before it has opened its section.
    LookedFirst,
    NoHeavyBarrier,
    NoLightBarrier,
    /// The swap looks at the sections before it takes the binding away.
    UnboundLast,
    EndedRelaxed,
    SeenRelaxed,
}

fn case(protocol: Protocol, slip: Slip) -> Case {
    let order = |order, relaxed_if| if slip == relaxed_if { Relaxed } else { order };
    let mut program = Program::default();
    let section = program.place("section", 0);
    let entry = program.place("entry", 1);
    let count = program.place("count", 0);
    let found = program.thread("call", |thread| {
        let early = (slip == Slip::LookedFirst).then(|| thread.load(entry, Acquire, "entry"));
        thread.store(section, 1, Relaxed);
        if slip != Slip::NoLightBarrier {
            protocol.light_barrier(thread);
        }
        let found = early.unwrap_or_else(|| thread.load(entry, Acquire, "entry"));
        thread.store(count, 1, Relaxed);
        thread.store(section, 0, order(Release, Slip::EndedRelaxed));
        found
    });
    let seen = program.thread("swap", |thread| {
        if slip != Slip::UnboundLast {
            thread.store(entry, 0, Release);
        }
        if slip != Slip::NoHeavyBarrier {
            protocol.heavy_barrier(thread);
        }
        let open = thread.load(section, order(Acquire, Slip::SeenRelaxed), "open");
        if slip == Slip::UnboundLast {
            thread.store(entry, 0, Release);
        }
        // Executions in which it waits for the section are those in which it looks again, later.
        thread.only_if(Value::of([open], |[open]| (open == 0).into()));
        thread.load(count, Relaxed, "count")
    });
    Case {
        program,
        early: Box::new(move |end| end.got(found) == Some(1) && end.got(seen) == Some(0)),
        happens: vec![
            Box::new(move |end| end.got(found) == Some(0)),
            Box::new(move |end| end.got(found) == Some(1)),
        ],
    }
}

#[test]
fn a_call_finds_nothing_bound_or_is_waited_for() {
    for protocol in everywhere(Clock::Tick) {
        protocol.holds("holding back", case(protocol, Slip::Nothing));
    }
}

#[test]
fn every_slip_is_found_where_it_matters() {
    // On x86 with fences and with membarrier, then on ARM: `F` is a count that is lost, `.` is none.
    let rows = [
        (Slip::LookedFirst, "FFFF"),
        (Slip::NoHeavyBarrier, "FFFF"),
        // With membarrier there is none.
        (Slip::NoLightBarrier, "F.F."),
        (Slip::UnboundLast, "FFFF"),
        // x86 stores and loads in order.
        (Slip::EndedRelaxed, "..FF"),
        (Slip::SeenRelaxed, "..FF"),
    ];
    for (slip, expected) in rows {
        for (protocol, expected) in everywhere(Clock::Tick).into_iter().zip(expected.chars()) {
            let early = protocol.frees_early(&format!("{slip:?}"), &case(protocol, slip));
            assert_eq!(
                early.is_some(),
                expected == 'F',
                "{slip:?}: {protocol:?}: {early:?}"
            );
        }
    }
}
