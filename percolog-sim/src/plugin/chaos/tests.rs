use super::*;

const SLICE: Ticks = TICKS_PER_CYCLE << 20;

/// What a run does at so many points: reads and writes of one line by three threads.
fn run(seed: u64, points: u64) -> (Vec<(Ticks, Ticks)>, Interleaving) {
    let mut chaos = Chaos::new(seed, SLICE);
    for thread in 0..3 {
        chaos.birth(thread);
    }
    let delays = (0..points)
        .map(|point| {
            let (thread, writes) = ((point / 2 % 3) as usize, point % 2 == 1);
            let before = chaos.before(thread, 7, writes);
            (
                before,
                chaos.after(thread, 7, writes, false, 0x1000 + point % 2),
            )
        })
        .collect();
    (delays, chaos.interleaving())
}

#[test]
fn a_seed_gives_the_same_delays_each_time_and_another_seed_others() {
    for seed in 0..10 {
        assert_eq!(run(seed, 300), run(seed, 300), "seed {seed}");
        assert_ne!(run(seed, 300).0, run(seed + 5, 300).0, "seed {seed}");
    }
}

#[test]
fn successive_seeds_try_every_strategy() {
    let mut seen = [false; 4];
    for seed in 100..105 {
        seen[match Chaos::new(seed, SLICE).strategy {
            Strategy::Delays { .. } => 0,
            Strategy::Priorities { .. } => 1,
            Strategy::HoldsBeforeWrites { .. } => 2,
            Strategy::HoldsAfterWrites { .. } => 3,
        }] = true;
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn threads_are_held_back_both_before_and_after_an_access() {
    let (mut before, mut after) = (0, 0);
    for seed in 0..20 {
        for (one, other) in run(seed, 500).0 {
            before += u64::from(one > 0);
            after += u64::from(other > 0);
        }
    }
    assert!(before > 100 && after > 100, "{before} and {after}");
}

#[test]
fn lengths_come_from_many_scales_and_few_are_longer_than_a_slice() {
    let mut lengths: Vec<Ticks> = (0..200)
        .flat_map(|seed| run(seed, 200).0)
        .flat_map(|(before, after)| [before, after])
        .filter(|&delay| delay > 0)
        .map(|delay| delay / TICKS_PER_CYCLE)
        .collect();
    lengths.sort_unstable();
    let (shortest, longest) = (lengths[0], lengths[lengths.len() - 1]);
    assert!((8..32).contains(&shortest), "{shortest}");
    assert!(longest > 1 << 23 && longest <= 1 << 25, "{longest}");
    let longer = lengths.iter().filter(|&&length| length > 1 << 20).count();
    assert!(longer > 0 && longer < lengths.len() / 4, "{longer} longer");
    for power in 4..18 {
        assert!(
            lengths.iter().any(|&length| length.ilog2() == power),
            "none of about 2^{power} cycles"
        );
    }
}

#[test]
fn all_delays_together_are_bounded() {
    for seed in 0..20 {
        let long = run(seed, 100_000)
            .0
            .into_iter()
            .flat_map(|(before, after)| [before, after])
            .filter(|&delay| delay >= TICKS_PER_CYCLE << SHORT);
        let sum: Ticks = long.sum();
        assert!(sum <= SLICE * BUDGET, "seed {seed}: {sum}");
    }
}

#[test]
fn a_thread_that_holds_is_held_between_its_read_and_its_write() {
    // Any seed of this strategy will do in which one such gap in a few is used.
    let seed = (0..)
        .find(|&seed| {
            matches!(
                Chaos::new(seed, SLICE).strategy,
                Strategy::HoldsBeforeWrites { one_in: 4 }
            )
        })
        .expect("there is one");
    let mut chaos = Chaos::new(seed, SLICE);
    chaos.birth(0);
    let long = TICKS_PER_CYCLE << SHORT;
    let (mut held, mut within) = (0, 0);
    for _ in 0..200 {
        assert!(chaos.before(0, 7, false) < long, "before the read");
        assert_eq!(chaos.after(0, 7, false, false, 1), 0);
        // What else it reads does not matter.
        assert!(chaos.before(0, 8, false) < long, "before another read");
        assert_eq!(chaos.after(0, 8, false, false, 2), 0);
        held += u64::from(chaos.before(0, 7, true) >= long);
        assert_eq!(chaos.after(0, 7, true, false, 3), 0);
        assert!(chaos.before(0, 7, true) < long, "a write after a write");
        within += u64::from(chaos.between(0, 7) >= long);
    }
    assert!((20..100).contains(&held), "{held} of 200");
    assert!((20..100).contains(&within), "{within} of 200");
}

#[test]
fn a_thread_that_holds_after_writes_is_held_where_it_may_have_a_lock() {
    let seed = (0..)
        .find(|&seed| Chaos::new(seed, SLICE).strategy == Strategy::HoldsAfterWrites { one_in: 4 })
        .expect("there is one");
    let mut chaos = Chaos::new(seed, SLICE);
    chaos.birth(0);
    let long = TICKS_PER_CYCLE << SHORT;
    let mut held = 0;
    for _ in 0..200 {
        assert!(chaos.before(0, 7, true) < long, "before it has the lock");
        held += u64::from(chaos.after(0, 7, true, false, 1) >= long);
        assert_eq!(chaos.after(0, 8, false, false, 2), 0, "after a read");
    }
    assert!((20..100).contains(&held), "{held} of 200");
}

#[test]
fn a_thread_that_reads_again_what_it_knows_is_told_nothing() {
    let mut chaos = Chaos::new(1, SLICE);
    chaos.birth(0);
    chaos.birth(1);
    let (line, place) = (7, 0x1000);
    assert!(!chaos.knows(0, line, place));
    chaos.after(0, line, false, true, place);
    chaos.after(0, 8, false, false, 0x1010);
    assert!(chaos.knows(0, line, place) && chaos.knows(0, 8, 0x1010));
    assert!(!chaos.knows(0, line, 0x1010), "elsewhere in the program");
    assert!(!chaos.knows(1, line, place), "another thread");
    // One of the lines comes with something new.
    chaos.after(0, 8, false, true, 0x1010);
    assert!(!chaos.knows(0, line, place) && chaos.knows(0, 8, 0x1010));
    // It has changed something itself.
    chaos.after(0, 9, true, false, 0x1020);
    assert!(!chaos.knows(0, 8, 0x1010));
}

#[test]
fn few_changes_make_a_thread_the_slowest() {
    let seed = (0..)
        .find(|&seed| {
            let strategy = Chaos::new(seed, SLICE).strategy;
            strategy == Strategy::Priorities { changes: vec![1] }
        })
        .expect("there is one");
    let mut chaos = Chaos::new(seed, SLICE);
    for thread in 0..4 {
        chaos.birth(thread);
    }
    assert!(
        chaos.after(2, 7, false, false, 1) >= SLICE / 2,
        "it waits at once"
    );
    for _ in 0..3 {
        assert_eq!(chaos.after(1, 7, false, false, 1), 0, "no further change");
        let slow = chaos.before(2, 7, false);
        let others = (0..4).filter(|&thread| thread != 2);
        for other in others {
            assert!(chaos.before(other, 7, false) < slow);
        }
    }
}

#[test]
fn a_line_is_shared_when_a_thread_takes_it_that_is_not_the_only_one() {
    let mut chaos = Chaos::new(1, SLICE);
    assert!(!chaos.is_shared(7));
    // It moves to another core.
    assert!(!chaos.fetched(0, 7, true));
    assert!(!chaos.fetched(0, 7, true));
    assert!(chaos.fetched(1, 7, true), "another takes it");
    assert!(chaos.is_shared(7) && !chaos.is_shared(8));
    assert!(!chaos.fetched(2, 7, true), "that is known");
    // One thread writes, another reads.
    assert!(!chaos.fetched(1, 8, false));
    assert!(chaos.fetched(0, 8, true));
    // What is only read is nobody's concern.
    for thread in 0..9 {
        assert!(!chaos.fetched(thread, 9, false));
    }
    assert!(!chaos.is_shared(9));
}

#[test]
fn the_order_of_the_threads_is_what_tells_runs_apart() {
    let order = |threads: &[usize]| {
        let mut chaos = Chaos::new(1, SLICE);
        for &thread in threads {
            chaos.after(thread, 7, true, false, 0x1000);
        }
        chaos.interleaving()
    };
    let one = order(&[0, 0, 1]);
    assert_eq!(one.points, 3);
    assert_eq!(one.order, order(&[0, 0, 1]).order);
    assert_ne!(one.order, order(&[0, 1, 0]).order);
}
