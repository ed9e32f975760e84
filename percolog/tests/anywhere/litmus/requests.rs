//! Requests that are counted in two words, and who stops them: nobody is let through who is then not waited for.
//!
//! Whoever changes `requests::places` changes this too. A request passes at one place; another one, which was let in before, is
//! left at a second place. The old object of the other tests is what a request reads and what is destroyed when nobody is inside.

use crate::litmus::program::Order::{Acquire, Relaxed, Release};
use crate::litmus::program::{Order, Place, Program, Register, Thread, Value};
use crate::litmus::protocol::{Break, Case, Clock, POISON, Protocol, everywhere};

/// A line that is missing or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slip {
    Nothing,
    /// The request looks at the state before it counts itself.
    LookedFirst,
    NoHeavyBarrier,
    NoLightBarrier,
    /// What went in is added up before what went out.
    EnteredFirst,
    LeftRelaxed,
    SumRelaxed,
}

struct Words {
    state: Place,
    entered: [Place; 2],
    left: [Place; 2],
    object: Place,
}

#[derive(Clone, Copy)]
struct Requests {
    protocol: Protocol,
    slip: Slip,
}

impl Requests {
    fn order(self, order: Order, relaxed_if: Slip) -> Order {
        if self.slip == relaxed_if {
            Relaxed
        } else {
            order
        }
    }

    fn leave(self, thread: &mut Thread, left: Place) {
        thread.store(left, 1, self.order(Release, Slip::LeftRelaxed));
    }

    /// A whole request at the first place; what it saw of the state, and of the object if it was let in.
    fn request(self, thread: &mut Thread, words: &Words) -> [Register; 2] {
        let early =
            (self.slip == Slip::LookedFirst).then(|| thread.load(words.state, Acquire, "state"));
        thread.store(words.entered[0], 1, Relaxed);
        if self.slip != Slip::NoLightBarrier {
            self.protocol.light_barrier(thread);
        }
        let state = early.unwrap_or_else(|| thread.load(words.state, Acquire, "state"));
        let used = thread.load(words.object, Relaxed, "use");
        self.leave(thread, words.left[0]);
        [state, used]
    }

    /// Destroys the object if nobody is inside. Other executions are left out.
    fn stop(self, thread: &mut Thread, words: &Words) {
        thread.store(words.state, 1, Release);
        if self.slip != Slip::NoHeavyBarrier {
            self.protocol.heavy_barrier(thread);
        }
        let order = self.order(Acquire, Slip::SumRelaxed);
        let left = |thread: &mut Thread| words.left.map(|it| thread.load(it, order, "left"));
        let entered =
            |thread: &mut Thread| words.entered.map(|it| thread.load(it, Relaxed, "entered"));
        let (out, within) = if self.slip == Slip::EnteredFirst {
            let within = entered(thread);
            (left(thread), within)
        } else {
            let out = left(thread);
            (out, entered(thread))
        };
        let all = [out[0], out[1], within[0], within[1]];
        thread.only_if(Value::of(all, |[first, second, third, fourth]| {
            (first + second == third + fourth).into()
        }));
        thread.store(words.object, POISON, Relaxed);
    }

    /// A request that comes while another one, which was let in before, is about to be left at the second place.
    fn case(self) -> Case {
        let mut program = Program::default();
        let words = Words {
            state: program.place("state", 0),
            // The earlier one came in at the second place, or has not if it is left out.
            entered: [
                program.place("entered", 0),
                program.place("entered there", 1),
            ],
            left: [program.place("left", 0), program.place("left there", 0)],
            object: program.place("object", 0),
        };
        let [state, used] = program.thread("request", |thread| self.request(thread, &words));
        let elsewhere = program.thread("elsewhere", |thread| {
            let used = thread.load(words.object, Relaxed, "use there");
            self.leave(thread, words.left[1]);
            used
        });
        program.thread("stop", |thread| self.stop(thread, &words));
        Case {
            program,
            early: Box::new(move |end| {
                end.got(state) == Some(0) && end.got(used) == Some(POISON)
                    || end.got(elsewhere) == Some(POISON)
            }),
            happens: vec![
                Box::new(move |end| end.got(state) == Some(0)),
                Box::new(move |end| end.got(state) == Some(1)),
            ],
        }
    }
}

fn everywhere_with(slip: Slip) -> impl Iterator<Item = Requests> {
    everywhere(Clock::Tick)
        .into_iter()
        .map(move |protocol| Requests { protocol, slip })
}

#[test]
fn nobody_is_inside_when_the_sums_are_equal() {
    for requests in everywhere_with(Slip::Nothing) {
        assert_eq!(requests.protocol.broken, Break::Nothing);
        requests.protocol.holds("requests", requests.case());
    }
}

#[test]
fn every_slip_is_found_where_it_matters() {
    // On x86 with fences and with membarrier, then on ARM: `F` is an object destroyed early, `.` is none.
    let rows = [
        (Slip::LookedFirst, "FFFF"),
        (Slip::NoHeavyBarrier, "FFFF"),
        // With membarrier there is none.
        (Slip::NoLightBarrier, "F.F."),
        (Slip::EnteredFirst, "FFFF"),
        // x86 stores and loads in order.
        (Slip::LeftRelaxed, "..FF"),
        (Slip::SumRelaxed, "..FF"),
    ];
    for (slip, expected) in rows {
        for (requests, expected) in everywhere_with(slip).zip(expected.chars()) {
            let early = requests
                .protocol
                .frees_early(&format!("{slip:?}"), &requests.case());
            let protocol = requests.protocol;
            assert_eq!(
                early.is_some(),
                expected == 'F',
                "{slip:?}: {protocol:?}: {early:?}"
            );
        }
    }
}
