//! Random histories: of one thread against a model, and of several.

use super::{Node, Owned, insert};
use crate::common::share::share;
use percolog::reclaim::{Domain, DomainOptions, Link};
use percolog::slab::{InSlab, Slab, SlabBuilder};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[derive(Debug, Clone, Copy)]
enum Step {
    Insert,
    /// Nobody has seen it.
    Drop(usize),
    /// Somebody may be reading it.
    Free(usize),
    /// On another thread.
    DropElsewhere(usize),
    TakeOut(usize),
    EnterOrLeave,
    Collect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Insert),
        1 => any::<usize>().prop_map(Step::Drop),
        2 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::DropElsewhere),
        1 => any::<usize>().prop_map(Step::TakeOut),
        1 => Just(Step::EnterOrLeave),
        1 => Just(Step::Collect),
    ];
    // Each is done many times, so that chunks fill and empty.
    prop::collection::vec(step, 1..80)
}

const TIMES: usize = 40;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn as_a_vector_of_boxes(steps in steps(), keep in 0_usize..4) {
        let domain = Domain::with(DomainOptions::new());
        let slab: Slab<'_, Node> = SlabBuilder::new().keep(keep).build(&domain);
        let mut live: Vec<(u64, Owned)> = Vec::new();
        // Freed while a section is open, which has not ended since.
        let mut seen: Vec<(u64, *const Node)> = Vec::new();
        let mut section = None;
        let mut inserted = 0_u64;
        for step in steps {
            for _ in 0..TIMES {
                let mut any = |at: usize| (!live.is_empty()).then(|| live.swap_remove(at % live.len()));
                match step {
                    Step::Insert => {
                        live.push((inserted, insert(&slab, inserted)));
                        inserted += 1;
                    }
                    Step::Drop(at) => drop(any(at)),
                    Step::TakeOut(at) => {
                        if let Some((number, owned)) = any(at) {
                            prop_assert_eq!(Slab::into_inner(owned).number(), number);
                        }
                    }
                    Step::Free(at) => {
                        if let Some((number, owned)) = any(at) {
                            if section.is_some() {
                                seen.push((number, std::ptr::from_ref(&*owned)));
                            }
                            // SAFETY: no link leads to it. References are looked at in sections only.
                            unsafe { slab.free(owned.into()) };
                        }
                    }
                    Step::DropElsewhere(at) => {
                        let some = any(at);
                        if some.is_some() {
                            thread::scope(|scope| scope.spawn(move || drop(some)).join().expect("no panic"));
                        }
                        break;
                    }
                    Step::EnterOrLeave => {
                        section = match section.take() {
                            Some(_) => { seen.clear(); None }
                            None => Some(domain.enter()),
                        };
                        break;
                    }
                    Step::Collect => {
                        slab.collect();
                        break;
                    }
                }
            }
            for (number, owned) in &live {
                prop_assert_eq!(owned.number(), *number);
            }
            for (number, node) in &seen {
                // SAFETY: it was freed in a section that is still open.
                prop_assert_eq!(unsafe { &**node }.number(), *number);
            }
            let stats = slab.stats();
            prop_assert_eq!(stats.inserted, inserted);
            prop_assert!(stats.objects >= live.len() as u64);
            prop_assert_eq!(stats.objects, live.len() as u64 + domain.stats().unreclaimed);
        }
        drop(section);
        live.clear();
        while domain.stats().unreclaimed != 0 {
            domain.collect();
        }
        slab.collect();
        prop_assert_eq!(slab.stats().objects, 0);
        prop_assert_eq!(slab.stats().chunks, 0);
    }
}

/// Threads exchange each other's objects, and read them in sections. What is destroyed too early is
/// poison, or another one.
fn exchange<T: Send + Sync + 'static>(make: fn(u64) -> T, number_of: fn(&T) -> u64) {
    const LINKS: usize = 32;
    let domain = Domain::new();
    let times = share(20_000);
    let slab: Slab<'_, T> = SlabBuilder::new().keep(0).build(&domain);
    let insert = |number| match slab.insert(make(number)) {
        Ok(owned) => owned,
        Err(exhausted) => panic!("{exhausted}"),
    };
    let mut links: [Link<T, InSlab>; LINKS] = std::array::from_fn(|_| Link::null());
    thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (domain, slab, links, insert) = (&domain, &slab, &links, &insert);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for time in 0..times {
                    let section = domain.enter();
                    let found = links[random.usize(..LINKS)].load(&section);
                    let number = found.map(|found| number_of(&found));
                    if random.bool() {
                        let at = random.usize(..LINKS);
                        let new = random.bool().then(|| insert(time as u64));
                        if let Some(old) = links[at].swap(new) {
                            number_of(&old);
                            // SAFETY: no other link led to it, and they are read in sections only.
                            unsafe { slab.free(old) };
                        }
                    }
                    assert_eq!(found.map(|found| number_of(&found)), number);
                    drop(section);
                    if random.u32(..2000) == 0 {
                        slab.collect();
                    }
                }
            });
        }
    });
    links.iter_mut().for_each(|link| drop(link.take()));
    while slab.stats().objects != 0 {
        domain.collect();
    }
    slab.collect();
    assert_eq!(slab.stats().chunks, 0);
}

/// Objects that poison themselves.
#[test]
fn nobody_reads_what_was_destroyed() {
    exchange(Node::new, Node::number);
}

/// Objects that have no destructor: with debug assertions the slab poisons them.
#[test]
fn nobody_reads_memory_that_was_given_back() {
    exchange(
        |number| std::array::from_fn::<_, 12, _>(|at| AtomicU64::new(word(number, at))),
        |words| {
            let number = words[0].load(Ordering::Relaxed);
            for (at, there) in words.iter().enumerate() {
                assert_eq!(there.load(Ordering::Relaxed), word(number, at), "not whole");
            }
            number
        },
    );
}

/// No word of an object is the same as the one before it.
fn word(number: u64, at: usize) -> u64 {
    if at.is_multiple_of(2) {
        number
    } else {
        !number
    }
}
