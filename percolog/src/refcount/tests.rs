//! What models cannot reach: places that many objects share, versions, and rounds that nobody asked for.

use super::candidates::Candidates;
use super::collector::Collector;
use super::count::{Count, ReadMostly, Then};
use super::heat::{self, Heat};
use super::row::{LEAST_WEIGHT, Row, WAYS};
use crate::cpu::barrier;
use core::ops::Deref;
use core::ptr;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

unsafe fn never(_: *const ReadMostly) -> usize {
    unreachable!("nothing is found dead here")
}

/// A count of no object.
struct Alone {
    count: Count,
    _rest: Box<ReadMostly>,
}

impl Deref for Alone {
    type Target = Count;

    fn deref(&self) -> &Count {
        &self.count
    }
}

/// A count of one hot reference.
fn hot(weight: u32) -> Alone {
    let (mut count, rest) = (Count::one(), Box::new(ReadMostly::new(never, weight)));
    // SAFETY: a box stays where it is, and both are dropped together.
    unsafe { count.link(&raw const *rest) };
    assert!(count.become_hot());
    Alone { count, _rest: rest }
}

fn add(row: &Row, count: &Count, one: i16, candidates: &Candidates) -> Then {
    // SAFETY: one thread uses the row.
    unsafe { row.add(barrier::mode(), count, one, candidates) }
}

#[test]
fn what_happened_and_was_undone_is_seen() {
    let (row, count, candidates) = (Row::new(), hot(1), Candidates::new());
    let before = row.look(&count);
    let _ = add(&row, &count, 1, &candidates);
    let with = row.look(&count);
    let _ = add(&row, &count, -1, &candidates);
    let after = row.look(&count);
    assert_eq!(
        [before, with, after].map(|seen| seen.amount_for(&count)),
        [0, 1, 0]
    );
    assert!(before != after && with != after);
    // Emptied, of nothing.
    row.empty_all(&candidates);
    assert!(row.look(&count) != after);
    assert_eq!(row.look(&count), row.look(&count));
}

#[test]
fn more_counts_than_places_lose_nothing() {
    let counts: Vec<Alone> = (0..4 * WAYS).map(|_| hot(1)).collect();
    let (row, candidates) = (Row::new(), Candidates::new());
    for round in 0..3 {
        for count in &counts {
            let _ = add(&row, count, if round == 1 { -1 } else { 1 }, &candidates);
        }
    }
    let total = |row: &Row| -> i64 {
        counts
            .iter()
            .map(|count| count.central() + i64::from(row.look(count).amount_for(count)))
            .sum()
    };
    assert_eq!(total(&row), 2 * counts.len() as i64);
    row.empty_all(&candidates);
    assert!(row.looks_empty());
    assert!(counts.iter().all(|count| count.central() == 2));
}

#[test]
fn a_place_is_emptied_before_it_overflows() {
    let (row, count, candidates) = (Row::new(), hot(1), Candidates::new());
    for one in [1, -1, -1, 1] {
        for _ in 0..100_000 {
            let _ = add(&row, &count, one, &candidates);
        }
    }
    row.empty_all(&candidates);
    assert_eq!(count.central(), 1);
}

#[test]
fn what_takes_away_uses_the_budget() {
    use super::row::BUDGET;
    let (row, candidates) = (Row::new(), Candidates::new());
    let count = hot(LEAST_WEIGHT);
    // Clones and drops in turns take nothing away.
    for _ in 0..100_000 {
        assert_eq!(add(&row, &count, 1, &candidates), Then::Nothing);
        assert_eq!(add(&row, &count, -1, &candidates), Then::Nothing);
    }
    let due: Vec<i64> = (1..=3 * BUDGET / i64::from(LEAST_WEIGHT))
        .filter(|_| add(&row, &count, -1, &candidates) == Then::Look)
        .collect();
    let once = BUDGET / i64::from(LEAST_WEIGHT);
    assert_eq!(due, [once, 2 * once, 3 * once]);
}

/// The count had no place in the row when it was first looked at, and has none when it is looked at again; but it had one in
/// between. Whoever compares only the places that are the count's misses what was added there.
#[test]
fn a_place_that_is_anothers_both_times_tells_of_what_was_between() {
    let (row, candidates) = (Row::new(), Candidates::new());
    let counts: Vec<Alone> = (0..=WAYS).map(|_| hot(1)).collect();
    let has = |count: &Count| row.look(count).amount_for(count) != 0;
    // More of them than places: two share one.
    let (count, other) = counts
        .iter()
        .enumerate()
        .find_map(|(at, count)| {
            let _ = add(&row, count, 1, &candidates);
            let pushed_out = counts[..at].iter().find(|earlier| !has(earlier))?;
            Some((pushed_out, count))
        })
        .expect("there are more counts than places");
    let before = row.look(count);
    assert!(has(other) && !has(count));
    let _ = add(&row, count, 1, &candidates);
    let _ = add(&row, other, 1, &candidates);
    let after = row.look(count);
    assert!(has(other) && !has(count));
    assert_ne!(before, after);
    row.empty_all(&candidates);
    assert_eq!((count.central(), other.central()), (3, 3));
}

/// Nobody ticks. Whoever takes away enough looks for what is dead in all rows, also in that of a thread which does nothing any
/// more.
#[test]
fn who_drops_finds_what_is_dead_in_every_row() {
    static COLLECTOR: Collector = Collector::new(|| {});
    const IDLE: usize = 0;
    const BUSY: usize = 1;
    let counts: Vec<Alone> = (0..8 * WAYS).map(|_| hot(LEAST_WEIGHT)).collect();
    let mode = barrier::mode();
    let add = |lease, count: &Count, one| {
        // SAFETY: the collector is this test's own, and one thread uses its rows in turn.
        unsafe { COLLECTOR.add(mode, Some(lease), count, one) }
    };
    let (first, others) = counts.split_first().expect("there are counts");
    // Cloned on a row whose thread then sleeps; both references are dropped on the other one.
    let _ = add(IDLE, first, 1);
    let _ = add(BUSY, first, -1);
    let _ = add(BUSY, first, -1);
    let due = others
        .iter()
        .position(|other| matches!(add(BUSY, other, -1), Then::Look));
    assert!(due.is_some(), "nobody looks");
    let dead = COLLECTOR.round(mode).dead;
    assert!(dead.contains(&ptr::NonNull::from(&first.count)));
    // All that are dead by now, and no other one.
    assert_eq!(dead.len(), due.map_or(0, |at| at + 2));
}

/// A thread that has dropped one more than it has cloned clones and drops without end: nobody has to look for that.
#[test]
fn clones_beside_one_more_drop_make_no_rounds() {
    let (row, count, candidates) = (Row::new(), hot(1), Candidates::new());
    let mut then = vec![add(&row, &count, -1, &candidates)];
    for _ in 0..10_000 {
        then.push(add(&row, &count, 1, &candidates));
        then.push(add(&row, &count, -1, &candidates));
    }
    assert!(then.iter().all(|then| *then == Then::Nothing));
}

/// Whatever their number is, and so how often it comes round.
#[test]
fn values_that_are_cloned_in_turn_are_all_noted() {
    for values in 1..=100 {
        let heat = Heat::new();
        let mut noted = vec![false; values];
        for at in 0..values * 1000 {
            if heat::is_noted() {
                let _ = heat.is_contended();
                noted[at % values] = true;
            }
        }
        assert!(noted.iter().all(|noted| *noted), "{values}: {noted:?}");
    }
}

/// An owner comes while another thread forks, says that it is inside, and is copied before it looks whether it may be.
#[test]
fn nobody_in_a_child_waits_for_an_owner_that_was_about_to_look() {
    static COLLECTOR: Collector = Collector::new(|| {});
    const ROW: usize = 0;
    let count = hot(LEAST_WEIGHT);
    let mode = barrier::mode();
    // SAFETY: the collector is this test's own, and one thread uses its rows.
    let _ = unsafe { COLLECTOR.add(mode, Some(ROW), &count, 1) };
    COLLECTOR.hold(mode);
    COLLECTOR.begin_to_own(ROW, mode);
    // SAFETY: held above.
    unsafe { COLLECTOR.go_on(true) };
    assert_eq!(COLLECTOR.sum(mode, &count), 2);
}
