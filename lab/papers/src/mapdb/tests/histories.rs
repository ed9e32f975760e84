//! What threads have seen of each other, against the contract: for each history there is an order of single steps that explains it.
//!
//! The steps are those of the contract: a page is given at one moment; a removal takes the pages at its top one by one, or
//! notes what lies directly below them, and then takes what is below, page by page. When it returns, none of it is left.

use super::super::{MapUnmap, Mapping, MappingDatabase, Mappings, SoftwareTables, Space};
use percolog::reclaim::Domain;
use std::collections::{HashMap, HashSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A page's number in a history: those that were there at the beginning, and then one for each alias.
type Page = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Makes the second from the first.
    Alias(Page, Page),
    Revoke(Page),
    Release(Page),
}

/// A call that has been made.
#[derive(Clone, Debug)]
struct Made {
    call: Call,
    began: u64,
    ended: u64,
    /// How many mappings it has given or taken away; `None` for an error.
    result: Option<u64>,
}

/// The pages, and how far each call has come: one state of the search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    /// By page: what it was made from, and whether it is there.
    pages: Vec<Option<(Option<Page>, bool)>>,
    calls: Vec<Progress>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Progress {
    #[default]
    Waiting,
    /// A removal that has begun, with what it has still to take or to see gone, and how much it has taken.
    Removing {
        left: Vec<Page>,
        taken: u64,
    },
    Over,
}

impl State {
    fn is_there(&self, page: Page) -> bool {
        matches!(self.pages[page as usize], Some((_, true)))
    }

    fn below(&self, page: Page) -> impl Iterator<Item = Page> {
        let all = (0..).zip(&self.pages);
        all.filter(move |(_, made)| matches!(made, Some((Some(parent), _)) if *parent == page))
            .map(|(number, _)| number)
    }

    /// Takes a page, if it is there; says how many that were.
    fn take(&mut self, page: Page) -> u64 {
        match &mut self.pages[page as usize] {
            Some((_, there)) => u64::from(std::mem::replace(there, false)),
            None => 0,
        }
    }

    /// The call's next step; several, if it can take one of several pages.
    fn steps(&self, at: usize, made: &Made) -> Vec<State> {
        let mut next = self.clone();
        match (&self.calls[at], made.call) {
            (Progress::Waiting, Call::Alias(from, to)) => {
                if self.is_there(from) != made.result.is_some() {
                    return Vec::new();
                }
                if made.result.is_some() {
                    next.pages[to as usize] = Some((Some(from), true));
                }
                next.calls[at] = Progress::Over;
            }
            (Progress::Waiting, Call::Revoke(page) | Call::Release(page)) => {
                if self.is_there(page) != made.result.is_some() {
                    return Vec::new();
                }
                let is_release = matches!(made.call, Call::Release(_));
                let taken = if is_release { next.take(page) } else { 0 };
                next.calls[at] = match made.result {
                    Some(_) => Progress::Removing {
                        left: self.below(page).collect(),
                        taken,
                    },
                    None => Progress::Over,
                };
            }
            (Progress::Removing { left, taken }, _) => {
                if left.is_empty() {
                    if made.result != Some(*taken) {
                        return Vec::new();
                    }
                    next.calls[at] = Progress::Over;
                    return vec![next];
                }
                // Whatever has been taken has nothing new below it, so what is there can be noted at once.
                let after = |index: usize| {
                    let mut next = self.clone();
                    let mut left = left.clone();
                    let page = left.swap_remove(index);
                    let taken = taken + next.take(page);
                    left.extend(next.below(page));
                    left.sort_unstable();
                    next.calls[at] = Progress::Removing { left, taken };
                    next
                };
                return (0..left.len()).map(after).collect();
            }
            (Progress::Over, _) => return Vec::new(),
        }
        vec![next]
    }
}

/// Whether there is an order that explains what was made, of pages that are one below the other at the
/// beginning; with what is there at the end.
fn is_explained(first: Page, history: &[Made], at_the_end: &HashMap<Page, bool>) -> bool {
    let mut start = State {
        pages: vec![None; history.len() + first as usize],
        calls: vec![Progress::Waiting; history.len()],
    };
    for page in 0..first {
        start.pages[page as usize] = Some((page.checked_sub(1), true));
    }
    let mut seen = HashSet::new();
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        let is_over = |at: usize| state.calls[at] == Progress::Over;
        if (0..history.len()).all(is_over) {
            if at_the_end
                .iter()
                .all(|(page, there)| state.is_there(*page) == *there)
            {
                return true;
            }
            continue;
        }
        // A call that began after another one had ended makes no step before that is over.
        let first_end = (0..history.len())
            .filter(|at| !is_over(*at))
            .map(|at| history[at].ended)
            .min();
        for (at, made) in history.iter().enumerate() {
            if first_end.is_some_and(|end| made.began < end) {
                for next in state.steps(at, made) {
                    if seen.insert(next.clone()) {
                        open.push(next);
                    }
                }
            }
        }
    }
    false
}

/// Numbers in no order.
fn dice(seed: &mut u64, bound: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 33) % bound
}

const THREADS: usize = 3;
const CALLS: usize = 3;
/// Pages at the beginning, each aliased from the one before.
const FIRST: Page = 3;

/// One thread's calls. It knows the first pages and those that it has made.
fn calls(
    database: &MappingDatabase<'_, SoftwareTables>,
    spaces: &[Space],
    mut known: Vec<(Page, Mapping)>,
    own: Page,
    seed: &mut u64,
    clock: &AtomicU64,
) -> (Vec<Made>, Vec<(Page, Mapping)>) {
    let mut history = Vec::new();
    for number in own..own + CALLS as Page {
        let (page, mapping) = known[dice(seed, known.len() as u64) as usize];
        let call = match dice(seed, 8) {
            0..2 => Call::Revoke(page),
            2..4 => Call::Release(page),
            _ => Call::Alias(page, number),
        };
        let space = spaces[dice(seed, spaces.len() as u64) as usize];
        // One counter for all: what has ended before another begins has the smaller number.
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let (result, aliased) = match call {
            Call::Alias(..) => {
                let aliased = database.alias(mapping, space).ok();
                (aliased.map(|_| 1), aliased)
            }
            Call::Revoke(_) => (database.revoke(mapping).ok(), None),
            Call::Release(_) => (database.release(mapping).ok(), None),
        };
        let ended = clock.fetch_add(1, Ordering::SeqCst);
        known.extend(aliased.map(|mapping| (number, mapping)));
        history.push(Made {
            call,
            began,
            ended,
            result,
        });
    }
    (history, known)
}

#[test]
fn what_threads_see_can_be_explained_step_by_step() {
    let domain = Domain::new();
    let database = super::database(&domain);
    let spaces = [(); 2].map(|()| database.create().expect("there is room"));
    for round in 1..=200_u64 {
        let mut known = vec![(0, database.grant(spaces[0], 1).expect("there is room"))];
        for page in 1..FIRST {
            let from = known[page as usize - 1].1;
            let aliased = database.alias(from, spaces[page as usize % 2]);
            known.push((page, aliased.expect("there is room")));
        }
        let (clock, barrier) = (AtomicU64::new(0), Barrier::new(THREADS));
        let parts: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (database, clock, barrier) = (&database, &clock, &barrier);
                    let known = known.clone();
                    let mut seed = (round * 8 + thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let own = FIRST + (thread * CALLS) as Page;
                    scope.spawn(move || {
                        barrier.wait();
                        calls(database, &spaces, known, own, &mut seed, clock)
                    })
                })
                .collect();
            let ends = threads.into_iter().map(thread::ScopedJoinHandle::join);
            ends.map(|end| end.expect("no panic")).collect()
        });
        let mut history = Vec::new();
        let mut at_the_end = HashMap::new();
        for (made, known) in parts {
            history.extend(made);
            for (page, mapping) in known {
                at_the_end.insert(page, database.frame(mapping, 0).is_some());
            }
        }
        assert!(
            is_explained(FIRST, &history, &at_the_end),
            "round {round}: {history:#?}\nleft: {at_the_end:?}"
        );
        let _ = database.release(known[0].1);
        let check = database.check().expect("it fits together");
        assert_eq!((check.pages, check.frames), (0, 0));
        // Errors are to be those of the calls, not for want of addresses that wait.
        database.collect();
    }
}

/// The search itself: it finds what is, and nothing that is not.
#[test]
fn the_search_refuses_what_cannot_be() {
    let made = |call, began, ended, result| Made {
        call,
        began,
        ended,
        result,
    };
    let there = HashMap::new();
    // A revoke that has counted what came after it.
    let late = [
        made(Call::Revoke(0), 0, 1, Some(3)),
        made(Call::Alias(0, 4), 2, 3, Some(1)),
    ];
    assert!(!is_explained(3, &late, &there));
    // Two that have both taken the same page.
    let twice = [
        made(Call::Release(2), 0, 3, Some(1)),
        made(Call::Revoke(1), 1, 2, Some(1)),
    ];
    assert!(!is_explained(3, &twice, &there));
    // An alias from what had been taken, and one that came before.
    let alias = |began, ended| {
        [
            made(Call::Revoke(0), 0, 2, Some(2)),
            made(Call::Alias(1, 4), began, ended, Some(1)),
        ]
    };
    assert!(!is_explained(3, &alias(3, 4), &there));
    assert!(!is_explained(3, &alias(1, 3), &HashMap::from([(4, true)])));
    assert!(!is_explained(3, &alias(1, 3), &there), "it is not counted");
    let counted = [
        made(Call::Revoke(0), 0, 2, Some(3)),
        made(Call::Alias(1, 4), 1, 3, Some(1)),
    ];
    assert!(is_explained(3, &counted, &HashMap::from([(4, false)])));
    // One from the root can come after it and still be there.
    let root = [
        made(Call::Revoke(0), 0, 3, Some(2)),
        made(Call::Alias(0, 4), 1, 2, Some(1)),
    ];
    assert!(is_explained(
        3,
        &root,
        &HashMap::from([(4, true), (1, false)])
    ));
}
