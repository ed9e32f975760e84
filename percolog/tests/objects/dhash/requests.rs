//! Requests and who keeps them out.

use crate::common::history::{Done, is_linearizable, record, together};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::requests::{
    RequestCounter, RequestGuard, RequestState, Requests, SharedRequestCounter, StopError,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use todc_utils::specifications::Specification;

/// Runs a test of both counters.
macro_rules! both {
    ($($test:ident)*) => {
        mod distributed {
            $(#[test] fn $test() { super::$test::<super::RequestCounter>(); })*
        }
        mod shared {
            $(#[test] fn $test() { super::$test::<super::SharedRequestCounter>(); })*
        }
    };
}

both! {
    states_follow_calls
    a_blocked_request_waits_and_is_let_in
    a_blocked_request_is_refused_when_the_counter_refuses
    who_will_not_wait_finds_out_who_is_inside
    passes_may_be_left_by_other_threads
    kept_passes_count
    a_stop_that_is_undone_is_over
    a_panic_while_blocked_opens_the_counter
    nobody_is_inside_while_it_is_blocked
    histories_are_linearizable
}

fn states_follow_calls<C: Requests + Default>() {
    let counter = C::default();
    assert_eq!(counter.state(), RequestState::Open);
    drop(counter.enter().expect("it is open"));
    assert_eq!(counter.block(), Ok(()));
    assert_eq!(counter.state(), RequestState::Blocked);
    assert_eq!(
        counter.try_enter().map(drop).map_err(|kept| kept.state()),
        Err(RequestState::Blocked)
    );
    assert_eq!(
        counter.block(),
        Err(StopError::NotOpen(RequestState::Blocked))
    );
    assert_eq!(counter.refuse(), Ok(()));
    assert_eq!(counter.state(), RequestState::Refusing);
    assert!(counter.enter().is_err());
    assert_eq!(
        counter.try_enter().map(drop).map_err(|kept| kept.state()),
        Err(RequestState::Refusing)
    );
    assert_eq!(
        counter.block(),
        Err(StopError::NotOpen(RequestState::Refusing))
    );
    // Twice is no harm.
    assert_eq!(counter.refuse(), Ok(()));
    assert_eq!(counter.open(), RequestState::Refusing);
    assert_eq!(counter.open(), RequestState::Open);
    drop(counter.try_enter().expect("it is open"));
    assert_eq!(counter.try_block(), Ok(()));
    assert_eq!(counter.open(), RequestState::Blocked);
    // Whoever was turned away does not count.
    assert_eq!(counter.try_refuse(), Ok(()));
}

fn a_blocked_request_waits_and_is_let_in<C: Requests + Default>() {
    let counter = C::default();
    counter.block().expect("it is open");
    let (entered, is_open) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let pass = counter.enter();
            assert!(is_open.load(Ordering::Acquire), "it came in too early");
            entered.store(true, Ordering::Release);
            drop(pass.expect("it is not refused"));
        });
        // Time enough to go to sleep, on most days.
        thread::sleep(Duration::from_millis(20));
        assert!(!entered.load(Ordering::Acquire));
        is_open.store(true, Ordering::Release);
        counter.open();
    });
    assert!(entered.load(Ordering::Acquire));
}

fn a_blocked_request_is_refused_when_the_counter_refuses<C: Requests + Default>() {
    let counter = C::default();
    counter.block().expect("it is open");
    thread::scope(|scope| {
        let request = scope.spawn(|| counter.enter().is_err());
        thread::sleep(Duration::from_millis(20));
        counter.refuse().expect("nobody is inside");
        assert!(request.join().expect("no panic"));
    });
}

fn who_will_not_wait_finds_out_who_is_inside<C: Requests + Default>() {
    let counter = C::default();
    let passes = [counter.enter(), counter.enter()].map(|pass| pass.expect("it is open"));
    assert_eq!(counter.try_block(), Err(StopError::Inside(2)));
    assert_eq!(counter.state(), RequestState::Open);
    let soon = || Instant::now() + Duration::from_millis(5);
    assert_eq!(counter.block_until(soon()), Err(StopError::Inside(2)));
    assert_eq!(counter.state(), RequestState::Open);
    assert_eq!(counter.try_refuse(), Err(StopError::Inside(2)));
    // It goes on refusing.
    assert_eq!(counter.state(), RequestState::Refusing);
    assert_eq!(counter.refuse_until(soon()), Err(StopError::Inside(2)));
    let [first, second] = passes;
    drop(first);
    assert_eq!(counter.try_refuse(), Err(StopError::Inside(1)));
    drop(second);
    assert_eq!(counter.refuse_until(soon()), Ok(()));
}

fn passes_may_be_left_by_other_threads<C: Requests + Default>() {
    let counter = C::default();
    let (hand_over, passes) = mpsc::channel::<RequestGuard<'_, C>>();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                let pass = counter.enter().expect("it is open");
                hand_over.send(pass).expect("there is a receiver");
            }
            drop(hand_over);
        });
        scope.spawn(|| passes.into_iter().for_each(drop));
    });
    assert_eq!(counter.try_refuse(), Ok(()));
}

fn kept_passes_count<C: Requests + Default>() {
    let counter = C::default();
    counter.enter().expect("it is open").keep();
    assert_eq!(counter.try_block(), Err(StopError::Inside(1)));
    // SAFETY: the pass that was kept.
    thread::scope(|scope| scope.spawn(|| unsafe { counter.leave_kept() }).join())
        .expect("no panic");
    assert_eq!(counter.try_block(), Ok(()));
}

fn a_stop_that_is_undone_is_over<C: Requests + Default>() {
    let counter = C::default();
    let pass = counter.enter().expect("it is open");
    thread::scope(|scope| {
        let blocker = scope.spawn(|| counter.block());
        while counter.state() != RequestState::Blocked {
            thread::yield_now();
        }
        assert_eq!(counter.open(), RequestState::Blocked);
        // Who was inside may have left by the time that the other one looks: others can be by then.
        drop(pass);
        assert_eq!(blocker.join().expect("no panic"), Err(StopError::Reopened));
    });
    // What refuses while somebody blocks is not undone by that one.
    counter
        .blocked(|| counter.refuse().expect("nobody is inside"))
        .expect("it is open");
    assert_eq!(counter.state(), RequestState::Refusing);
}

fn a_panic_while_blocked_opens_the_counter<C: Requests + Default>() {
    let counter = C::default();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = counter.blocked(|| panic!("on purpose"));
    }));
    assert!(outcome.is_err());
    assert_eq!(counter.state(), RequestState::Open);
}

/// Threads that come and go, some of whose passes are left by others, and two that block.
fn nobody_is_inside_while_it_is_blocked<C: Requests + Default>() {
    let counter = C::default();
    let inside = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    let rounds = share(4000);
    thread::scope(|scope| {
        let blockers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut blocked = 0;
                    // Until it has, if it comes late: then nobody else is there.
                    while blocked == 0 || !done.load(Ordering::Relaxed) {
                        let looked = counter.blocked(|| {
                            for _ in 0..50 {
                                // Relaxed: the counter is what orders this.
                                assert_eq!(inside.load(Ordering::Relaxed), 0);
                            }
                        });
                        match looked {
                            Ok(()) => blocked += 1,
                            Err(error) => {
                                assert_eq!(error, StopError::NotOpen(RequestState::Blocked))
                            }
                        }
                        thread::yield_now();
                    }
                })
            })
            .collect();
        let (hand_over, passes) = mpsc::channel::<RequestGuard<'_, C>>();
        let leave = |pass| {
            inside.fetch_sub(1, Ordering::Relaxed);
            drop(pass);
        };
        let users: Vec<_> = (0..2)
            .map(|user| {
                let (counter, inside, hand_over) = (&counter, &inside, hand_over.clone());
                scope.spawn(move || {
                    for generation in 0..20 {
                        thread::scope(|scope| {
                            scope.spawn(|| {
                                for round in 0..rounds / 20 {
                                    let pass = counter.enter().expect("nobody refuses");
                                    inside.fetch_add(1, Ordering::Relaxed);
                                    if (round + generation + user) % 7 == 0 {
                                        hand_over.send(pass).expect("there is a receiver");
                                    } else {
                                        leave(pass);
                                    }
                                }
                            });
                        });
                    }
                })
            })
            .collect();
        drop(hand_over);
        scope.spawn(move || passes.into_iter().for_each(leave));
        for user in users {
            user.join().expect("no panic");
        }
        done.store(true, Ordering::Relaxed);
        for blocker in blockers {
            blocker.join().expect("no panic");
        }
    });
    assert_eq!(counter.try_refuse(), Ok(()));
}

/// What happens to a counter. A call that stops requests is two things: that nobody is let in any more, and that nobody is inside.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Enter,
    Refused,
    KeptOut(RequestState),
    Leave,
    Blocking,
    Blocked,
    NotOpen(RequestState),
    /// A call that blocks gives up, which changes nothing if others have changed the state since.
    GivesUp,
    Refusing,
    HasRefused,
    /// Opened; what it was before.
    Open(RequestState),
}

struct Sequential;

impl Specification for Sequential {
    /// Whether requests are stopped, and how; and how many are inside.
    type State = (RequestState, usize);
    type Operation = Act;

    fn init() -> Self::State {
        (RequestState::Open, 0)
    }

    fn apply(act: &Act, (state, inside): &Self::State) -> (bool, Self::State) {
        use RequestState::{Blocked, Open, Refusing};
        let (state, inside) = (*state, *inside);
        let (is_right, next, inside) = match *act {
            Act::Enter => (state == Open, state, inside + 1),
            Act::Refused => (state == Refusing, state, inside),
            Act::KeptOut(by) | Act::NotOpen(by) => (state == by && by != Open, state, inside),
            Act::Leave => (true, state, inside.wrapping_sub(1)),
            Act::Blocking => (state == Open, Blocked, inside),
            Act::Blocked => (state == Blocked && inside == 0, state, inside),
            Act::GivesUp if state == Blocked => (true, Open, inside),
            Act::GivesUp => (true, state, inside),
            Act::Refusing => (true, Refusing, inside),
            Act::HasRefused => (state == Refusing && inside == 0, state, inside),
            Act::Open(before) => (state == before, Open, inside),
        };
        (is_right, (next, inside))
    }
}

/// Threads of a window.
const PROCESSES: usize = 4;

/// Runs a call that is two things: all of it happened at moments between the call and the return, in some order.
fn record_both(
    process: usize,
    history: &mut Vec<Done<Act>>,
    call: impl FnOnce() -> (Act, Option<Act>),
) {
    let mut second = None;
    record(process, history, || {
        let (first, then) = call();
        second = then;
        Some(first)
    });
    let whole = history.last().expect("it was recorded");
    let second = second.map(|act| Done {
        process: process + PROCESSES,
        act,
        ..*whole
    });
    history.extend(second);
}

/// Two threads of requests, one that keeps them out and lets them in, and one that opens the counter whatever others do.
fn window<C: Requests + Default>(chance: &mut fastrand::Rng) -> Vec<Done<Act>> {
    let counter = C::default();
    together(PROCESSES, chance, |process, chance, mine| match process {
        0 | 1 => come_and_go(&counter, process, chance.bool(), mine),
        2 => {
            for _ in 0..3 {
                let way = chance.u32(..6);
                record_both(process, mine, || stop(&counter, way));
                record(process, mine, || Some(Act::Open(counter.open())));
            }
        }
        _ => {
            for _ in 0..chance.u32(..3) {
                record(process, mine, || Some(Act::Open(counter.open())));
            }
        }
    })
}

/// Some requests, one after the other, that wait to be let in or not.
fn come_and_go(counter: &impl Requests, process: usize, waits: bool, mine: &mut Vec<Done<Act>>) {
    for _ in 0..3 {
        let mut pass = None;
        record(process, mine, || {
            let entered = if waits {
                counter.enter().map_err(|_| Act::Refused)
            } else {
                counter
                    .try_enter()
                    .map_err(|kept| Act::KeptOut(kept.state()))
            };
            Some(entered.map_or_else(
                |kept| kept,
                |entered| {
                    pass = Some(entered);
                    Act::Enter
                },
            ))
        });
        if let Some(pass) = pass {
            record(process, mine, || {
                drop(pass);
                Some(Act::Leave)
            });
        }
    }
}

/// Stops requests in one of six ways; what came of it.
fn stop(counter: &impl Requests, way: u32) -> (Act, Option<Act>) {
    let soon = || Instant::now() + Duration::from_micros(20);
    let (result, begun, ended) = match way {
        0 => (counter.block(), Act::Blocking, Act::Blocked),
        1 => (counter.try_block(), Act::Blocking, Act::Blocked),
        2 => (counter.block_until(soon()), Act::Blocking, Act::Blocked),
        3 => (counter.refuse(), Act::Refusing, Act::HasRefused),
        4 => (counter.try_refuse(), Act::Refusing, Act::HasRefused),
        _ => (counter.refuse_until(soon()), Act::Refusing, Act::HasRefused),
    };
    match result {
        Ok(()) => (begun, Some(ended)),
        Err(StopError::NotOpen(state)) => (Act::NotOpen(state), None),
        Err(StopError::Reopened) => (begun, None),
        Err(StopError::Inside(_)) if begun == Act::Blocking => (begun, Some(Act::GivesUp)),
        Err(StopError::Inside(_)) => (begun, None),
        Err(other) => panic!("{other}"),
    }
}

fn histories_are_linearizable<C: Requests + Default>() {
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(400) {
        let history = window::<C>(&mut chance);
        assert!(
            is_linearizable::<Sequential>(&history),
            "no order of operations explains this:\n{history:#?}"
        );
    }
}

/// The checker tells good from bad.
#[test]
fn a_block_while_a_request_is_inside_is_not_linearizable() {
    let history = [
        (0, 0, 1, Act::Enter),
        (1, 2, 3, Act::Blocking),
        (1 + PROCESSES, 2, 3, Act::Blocked),
        (0, 4, 5, Act::Leave),
    ];
    assert!(!is_linearizable::<Sequential>(&history.map(Done::from)));
}
