use super::*;
use crate::model::CoreSet;

const SLICE: Ticks = 1000;
const SWITCH: Ticks = 10;

fn threads(count: usize) -> Vec<Thread> {
    (0..count).map(|_| Thread::new(0, 0)).collect()
}

/// A schedule with this many cores, and threads that have been placed in order at time 0.
fn placed(cores: usize, count: usize) -> (Schedule, Vec<Thread>) {
    let mut schedule = Schedule::new(cores, 1, SLICE, SWITCH);
    let mut threads = threads(count);
    for thread in 0..count {
        schedule.place(&mut threads, thread, 0);
    }
    (schedule, threads)
}

#[test]
fn the_earliest_runs_and_equals_run_in_order_of_their_numbers() {
    let (mut schedule, mut threads) = placed(3, 3);
    schedule.make_ready(&mut threads, 0, 50);
    schedule.make_ready(&mut threads, 1, 20);
    schedule.make_ready(&mut threads, 2, 20);
    let order: Vec<_> = (0..3).map(|_| schedule.next(&mut threads, false)).collect();
    assert_eq!(order, [Next::Run(1), Next::Run(2), Next::Run(0)]);
}

#[test]
fn threads_take_the_lowest_free_core_and_come_back_to_theirs() {
    let (mut schedule, mut threads) = placed(4, 3);
    let cores: Vec<_> = threads.iter().map(|thread| thread.processor).collect();
    assert_eq!(cores, [Some(0), Some(1), Some(2)]);
    schedule.sleep(&mut threads, 1, Sleep::Time, None);
    schedule.wake(&mut threads, 1, 500, Woken::Woken);
    assert_eq!(threads[1].processor, Some(1));
    // It was the last on that core: nothing has to be switched.
    assert_eq!(threads[1].time, 500);
}

#[test]
fn threads_come_to_cores_of_their_own_first() {
    let mut schedule = Schedule::new(2, 2, SLICE, SWITCH);
    let mut threads = threads(5);
    let has_core: Vec<bool> = (0..5)
        .map(|thread| schedule.place(&mut threads, thread, 0))
        .collect();
    assert_eq!(has_core, [true, true, true, true, false]);
    let at: Vec<_> = threads[..4].iter().map(|thread| thread.processor).collect();
    assert_eq!(at, [0, 1, 2, 3].map(Some));
    assert_eq!(schedule.threads_on(0).collect::<Vec<_>>(), [0, 2]);
    schedule.end(&mut threads, 4);
    schedule.end(&mut threads, 3);
    assert_eq!([0, 1].map(|core| schedule.threads_on(core).count()), [2, 1]);
    let core = |change: &Change| (change.thread, change.core);
    let changes = schedule.changes();
    let expected = [
        (0, Some(0)),
        (1, Some(1)),
        (2, Some(0)),
        (3, Some(1)),
        (3, None),
    ];
    assert_eq!(changes.iter().map(core).collect::<Vec<_>>(), expected);
}

#[test]
fn a_thread_too_many_waits_for_the_first_core_that_is_left() {
    let (mut schedule, mut threads) = placed(2, 3);
    assert_eq!(threads[2].state, State::Waiting);
    assert!(schedule.is_crowded());
    threads[1].time = 300;
    schedule.sleep(&mut threads, 1, Sleep::Futex(64), None);
    assert_eq!(threads[2].processor, Some(1));
    // It begins when the core is free, after the switch.
    assert_eq!(threads[2].time, 300 + SWITCH);
    assert!(!schedule.is_crowded());
}

#[test]
fn a_slice_ends_only_if_somebody_waits() {
    let (schedule, threads) = placed(1, 1);
    assert_eq!(schedule.slice_end(&threads[0]), None);
    let (mut schedule, mut threads) = placed(1, 2);
    assert_eq!(schedule.slice_end(&threads[0]), Some(SLICE));
    threads[0].time = SLICE;
    schedule.preempt(&mut threads, 0);
    assert_eq!(threads[0].state, State::Waiting);
    assert_eq!(threads[1].processor, Some(0));
    assert_eq!(threads[1].slice_end, SLICE + SWITCH + SLICE);
}

#[test]
fn a_thread_bound_to_a_core_waits_for_that_core() {
    let mut schedule = Schedule::new(2, 1, SLICE, SWITCH);
    let mut threads = threads(3);
    schedule.place(&mut threads, 0, 0);
    threads[1].affinity = Some(CoreSet::only(0));
    assert!(!schedule.place(&mut threads, 1, 0));
    schedule.place(&mut threads, 2, 0);
    assert_eq!(threads[2].processor, Some(1));
    schedule.sleep(&mut threads, 2, Sleep::Time, None);
    assert_eq!(threads[1].processor, None, "core 1 is not for it");
    schedule.sleep(&mut threads, 0, Sleep::Time, None);
    assert_eq!(threads[1].processor, Some(0));
}

#[test]
fn a_deadline_wakes_at_its_time_and_before_later_threads() {
    let (mut schedule, mut threads) = placed(2, 2);
    schedule.unready(&threads, 0);
    schedule.sleep(&mut threads, 0, Sleep::Time, Some(400));
    schedule.make_ready(&mut threads, 1, 600);
    assert_eq!(schedule.horizon(), Some((400, 0)));
    assert_eq!(schedule.next(&mut threads, false), Next::Run(0));
    assert_eq!(threads[0].time, 400);
    assert_eq!(threads[0].woken, Woken::Deadline);
}

#[test]
fn waking_before_the_deadline_removes_it() {
    let (mut schedule, mut threads) = placed(2, 2);
    schedule.sleep(&mut threads, 0, Sleep::Futex(8), Some(400));
    schedule.wake(&mut threads, 0, 100, Woken::Woken);
    schedule.sleep(&mut threads, 0, Sleep::Futex(8), None);
    schedule.sleep(&mut threads, 1, Sleep::Futex(8), None);
    assert_eq!(schedule.next(&mut threads, false), Next::Deadlock);
}

#[test]
fn all_asleep_without_a_deadline_is_a_deadlock_unless_the_host_may_answer() {
    let (mut schedule, mut threads) = placed(2, 2);
    schedule.sleep(&mut threads, 0, Sleep::Futex(8), None);
    schedule.sleep(&mut threads, 1, Sleep::Host(0), None);
    assert_eq!(
        schedule.next(&mut threads, false),
        Next::Idle { deadline: None }
    );
    schedule.wake(&mut threads, 1, 900, Woken::Woken);
    assert_eq!(schedule.next(&mut threads, false), Next::Run(1));
    schedule.sleep(&mut threads, 1, Sleep::Futex(8), None);
    assert_eq!(schedule.next(&mut threads, false), Next::Deadlock);
}

#[test]
fn deadlines_wait_for_the_host_until_they_are_fired() {
    let (mut schedule, mut threads) = placed(2, 2);
    schedule.sleep(&mut threads, 0, Sleep::Time, Some(400));
    schedule.sleep(&mut threads, 1, Sleep::Host(0), None);
    let idle = Next::Idle {
        deadline: Some(400),
    };
    assert_eq!(schedule.next(&mut threads, false), idle);
    assert_eq!(schedule.next(&mut threads, true), Next::Run(0));
}

#[test]
fn who_spins_gives_way_when_its_slice_is_over_and_somebody_waits() {
    let (mut schedule, mut threads) = placed(1, 1);
    schedule.unready(&threads, 0);
    schedule.spin(&mut threads, 0);
    assert_eq!(schedule.horizon(), None, "nobody else: it spins for ever");
    threads.push(Thread::new(0, 0));
    schedule.place(&mut threads, 1, 100);
    assert_eq!(schedule.next(&mut threads, false), Next::Run(0));
    // Whoever has the turn does not wait for it, also if somebody comes meanwhile.
    schedule.end(&mut threads, 1);
    threads.push(Thread::new(0, 0));
    schedule.place(&mut threads, 2, 200);
    assert_eq!(schedule.horizon(), None);
    threads[0].time = SLICE;
    schedule.preempt(&mut threads, 0);
    assert_eq!(threads[2].processor, Some(0));
}

#[test]
fn who_spins_beyond_its_slice_gives_way_when_somebody_comes() {
    let (mut schedule, mut threads) = placed(1, 1);
    schedule.unready(&threads, 0);
    schedule.spin(&mut threads, 0);
    threads.push(Thread::new(0, 0));
    schedule.place(&mut threads, 1, 5 * SLICE);
    assert_eq!(schedule.slice_end(&threads[0]), Some(5 * SLICE));
    assert_eq!(schedule.horizon(), Some((5 * SLICE, 0)));
    schedule.end(&mut threads, 0);
    assert_eq!(schedule.next(&mut threads, false), Next::Run(1));
    assert_eq!(schedule.horizon(), None, "it waits for no turn");
}

#[test]
fn who_spins_goes_on_when_its_line_is_taken() {
    let (mut schedule, mut threads) = placed(2, 2);
    schedule.spin(&mut threads, 0);
    schedule.make_ready(&mut threads, 0, 70);
    schedule.make_ready(&mut threads, 1, 80);
    assert_eq!(schedule.next(&mut threads, false), Next::Run(0));
}

#[test]
fn an_ended_thread_leaves_its_core_and_its_queue() {
    let (mut schedule, mut threads) = placed(1, 3);
    schedule.end(&mut threads, 1);
    assert_eq!(threads[1].state, State::Gone);
    threads[0].time = 40;
    schedule.end(&mut threads, 0);
    assert_eq!(threads[2].processor, Some(0));
    assert_eq!(schedule.next(&mut threads, false), Next::Run(2));
}

#[test]
fn changes_tell_when_each_thread_had_a_core() {
    let (mut schedule, mut threads) = placed(1, 2);
    threads[0].time = 25;
    schedule.sleep(&mut threads, 0, Sleep::Time, None);
    let changes = schedule.changes();
    let expected = [(0, Some(0), 0), (0, None, 25), (1, Some(0), 25 + SWITCH)];
    let found: Vec<_> = changes
        .iter()
        .map(|change| (change.thread, change.core, change.at))
        .collect();
    assert_eq!(found, expected);
    assert!(schedule.changes().is_empty());
}

#[test]
fn a_thread_that_is_bound_elsewhere_leaves_its_core_at_its_turn() {
    let (mut schedule, mut threads) = placed(3, 2);
    assert_eq!(threads[1].processor, Some(1));
    schedule.rebind(&mut threads, 1, CoreSet::only(2), 40);
    assert_eq!(threads[1].processor, Some(1));
    assert_eq!(schedule.slice_end(&threads[1]), Some(0));
    threads[1].time = 50;
    schedule.preempt(&mut threads, 1);
    assert_eq!((threads[1].processor, threads[1].time), (Some(2), 50));
    assert_eq!(schedule.slice_end(&threads[1]), None);
    // Where it is already.
    schedule.rebind(&mut threads, 1, CoreSet::only(2), 60);
    assert_eq!(schedule.slice_end(&threads[1]), None);
}

#[test]
fn a_thread_that_waits_for_a_core_gets_one_that_it_may_have_now() {
    let mut schedule = Schedule::new(2, 1, SLICE, SWITCH);
    let mut threads = threads(2);
    schedule.place(&mut threads, 0, 0);
    threads[1].affinity = Some(CoreSet::only(0));
    assert!(!schedule.place(&mut threads, 1, 0));
    schedule.rebind(&mut threads, 1, CoreSet::only(1), 70);
    assert_eq!((threads[1].processor, threads[1].time), (Some(1), 70));
    assert!(!schedule.is_crowded());
}
