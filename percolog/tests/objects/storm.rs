//! Everything that can be done with references, reducers and counters, by threads that come and go and fork, with panics everywhere; in
//! the end nothing is left, and the sums are right.

use crate::common::alive::Alive;
use crate::common::eventually::eventually;
use crate::common::storm::{
    Last, Part, fail, fails, maybe_fail, storm, storm_with_forks, with_failing_parts,
};
use percolog::counter::{Counter, SloppyCounter};
use percolog::cpu::{self, CoreId};
use percolog::reduce::{CounterMap, HdrHistogram, Merge, Reducer, Sum, Summary, TopK};
use percolog::refcount::{self, CoreArc, CoreWeak, Generation};
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Whether an object was found alive by its own destructor.
static UPGRADED: AtomicBool = AtomicBool::new(false);

/// A value that refers to others, and weakly to itself.
struct Node {
    part: Part,
    own: Mutex<Option<CoreWeak<Node>>>,
    next: Option<CoreArc<Node>>,
    depth: u8,
}

impl Drop for Node {
    fn drop(&mut self) {
        let own = self.own.get_mut().expect("nobody panics with it").take();
        if own.is_some_and(|own| own.upgrade().is_some()) {
            UPGRADED.store(true, Ordering::Relaxed);
        }
        // A reference that comes and goes while the value does.
        drop(self.next.clone());
    }
}

trait Whole: Send + Sync {
    fn number(&self) -> u64;
}

impl Whole for Part {
    fn number(&self) -> u64 {
        self.number()
    }
}

type Shelf<T> = [Mutex<Option<T>>; 4];

/// References that all threads clone and replace.
#[derive(Default)]
struct References {
    nodes: Shelf<CoreArc<Node>>,
    boxed: Shelf<CoreArc<dyn Whole>>,
    slices: Shelf<CoreArc<[Part]>>,
    weak: Shelf<CoreWeak<Node>>,
}

/// Something of a shelf; nothing if another thread is there, which in a forked child may stay so.
fn find<T: Clone>(shelf: &Shelf<T>, chance: &mut fastrand::Rng) -> Option<T> {
    shelf[chance.usize(..4)].try_lock().ok()?.clone()
}

fn put<T>(shelf: &Shelf<T>, new: Option<T>, chance: &mut fastrand::Rng) -> Option<T> {
    match shelf[chance.usize(..4)].try_lock() {
        Ok(mut place) => mem::replace(&mut *place, new),
        Err(_) => new,
    }
}

impl References {
    fn step(&self, alive: &Alive, key: u64, chance: &mut fastrand::Rng) {
        match chance.u8(..20) {
            0..4 => {
                let next = find(&self.nodes, chance).filter(|next| next.depth < 8);
                let new = CoreArc::new(Node {
                    part: Part::new(alive, key),
                    own: Mutex::default(),
                    depth: next.as_ref().map_or(0, |next| next.depth + 1),
                    next,
                });
                let new = if chance.bool() {
                    CoreArc::into_hot(new)
                } else {
                    new
                };
                let own = CoreArc::downgrade(&new);
                *new.own.lock().expect("nobody panics with it") = Some(own);
                drop(put(&self.weak, Some(CoreArc::downgrade(&new)), chance));
                drop(put(&self.nodes, Some(new), chance));
            }
            4 => {
                let new: Box<dyn Whole> = Box::new(Part::new(alive, key));
                drop(put(&self.boxed, Some(CoreArc::from(new)), chance));
            }
            5 => {
                let new: Vec<_> = (0..3).map(|at| Part::new(alive, key + at)).collect();
                drop(put(&self.slices, Some(CoreArc::from(new)), chance));
            }
            6 => drop(put(&self.nodes, None, chance)),
            7 => drop(put(&self.boxed, None, chance)),
            8 => drop(put(&self.slices, None, chance)),
            9 => drop(put(&self.weak, None, chance)),
            10 => {
                if let Some(node) = find(&self.weak, chance).and_then(|weak| weak.upgrade()) {
                    node.part.number();
                    maybe_fail(chance);
                    drop(put(&self.nodes, Some(node), chance));
                }
            }
            11 => {
                let switched = match chance.u8(..3) {
                    0 => find(&self.nodes, chance).map(|it| CoreArc::switch_to_atomic(&it)),
                    1 => find(&self.boxed, chance).map(|it| CoreArc::switch_to_atomic(&it)),
                    _ => find(&self.slices, chance).map(|it| CoreArc::switch_to_atomic(&it)),
                };
                assert_ne!(switched, Some(false));
            }
            12 => {
                let Some(node) = put(&self.nodes, None, chance) else {
                    return;
                };
                match CoreArc::try_unwrap(node) {
                    Ok(node) => {
                        let own = node.own.lock().expect("nobody panics with it").clone();
                        assert!(own.is_some_and(|own| own.upgrade().is_none()));
                        maybe_fail(chance);
                    }
                    Err(node) => drop(put(&self.nodes, Some(node), chance)),
                }
            }
            13 => {
                if let Some(mut slice) = put(&self.slices, None, chance)
                    && let Some(parts) = CoreArc::get_mut(&mut slice)
                {
                    parts[0] = Part::new(alive, key);
                }
            }
            14 => {
                let parts = with_failing_parts(chance, || {
                    let one = CoreArc::new(Part::new(alive, key));
                    let parts = vec![(*one).clone(), (*one).clone()];
                    assert_eq!(CoreArc::count(&one), 1);
                    parts
                });
                drop(put(&self.slices, Some(CoreArc::from(parts)), chance));
            }
            15 => cpu::bind(CoreId::new(chance.u32(..3))),
            16 if chance.u8(..8) == 0 => _ = refcount::reclaim(),
            17 => {
                // Only ever here: with the last reference the value is gone.
                let one = CoreArc::new(Part::new(alive, key));
                let (other, weak) = (one.clone(), CoreArc::downgrade(&one));
                assert!(CoreArc::switch_to_atomic(&one));
                assert_eq!((CoreArc::count(&one), CoreArc::weak_count(&one)), (2, 1));
                drop((one, other));
                assert!(weak.upgrade().is_none());
            }
            _ => {
                let found = (
                    find(&self.nodes, chance),
                    find(&self.boxed, chance),
                    find(&self.slices, chance),
                );
                maybe_fail(chance);
                if let (Some(node), Some(boxed), Some(slice)) = found {
                    node.part.number();
                    boxed.number();
                    assert_eq!(slice.len() | 1, 3);
                }
            }
        }
    }
}

#[test]
fn nothing_is_left_of_references() {
    let alive = Alive::default();
    let all = Arc::new(References::default());
    storm_with_forks(
        |chance| {
            let (all, alive, mut chance) = (all.clone(), alive.clone(), chance.fork());
            let kept = (
                find(&all.nodes, &mut chance),
                find(&all.boxed, &mut chance),
                find(&all.weak, &mut chance),
                CoreArc::new(Part::new(&alive, 0)),
            );
            let last = Last(move || {
                for key in 0..20 {
                    fails(|| all.step(&alive, key, &mut chance));
                }
            });
            (kept, last)
        },
        |key, chance| all.step(&alive, key, chance),
    );
    drop(Arc::into_inner(all).expect("all threads are gone"));
    let gone = eventually(|| {
        refcount::reclaim();
        alive.count() == 0
    });
    assert!(gone, "{} values are left", alive.count());
    assert!(!UPGRADED.load(Ordering::Relaxed));
}

/// A share that cannot always be made or merged.
#[derive(Default)]
struct Parts(Vec<Part>);

impl Merge for Parts {
    fn merge(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }
}

/// Key numbers of which no part's destructor panics.
const CALM: u64 = 8;

struct Reducers {
    alive: Alive,
    sum: Reducer<Sum<u64>>,
    parts: Reducer<Parts>,
    counts: CounterMap<Part>,
    top: TopK<Part>,
    /// What was added to the sum, to the counts and to the heaviest keys, less what was taken.
    expected: [AtomicU64; 3],
}

impl Reducers {
    fn expect(&self, at: usize, amount: u64) {
        self.expected[at].fetch_add(amount, Ordering::Relaxed);
    }

    fn step(&self, key: u64, chance: &mut fastrand::Rng) {
        let calm = Part::new(&self.alive, key * CALM);
        let amount = chance.u64(1..5);
        match chance.u8(..16) {
            0 | 1 => self.sum.update(|sum| {
                maybe_fail(chance);
                sum.add(amount);
                self.expect(0, amount);
                maybe_fail(chance);
            }),
            2 | 3 => self.parts.update(|parts| {
                parts.0.push(Part::new(&self.alive, key));
                maybe_fail(chance);
                parts.0.truncate(20);
            }),
            4 => self.parts.update(|parts| parts.0.clear()),
            // One inside of the other, always in this order.
            5 => self.sum.update(|sum| {
                self.parts
                    .update(|parts| parts.0.push(Part::new(&self.alive, key)));
                sum.add(amount);
                self.expect(0, amount);
                fail();
            }),
            6 | 7 => {
                with_failing_parts(chance, || self.counts.add(&calm, amount));
                self.expect(1, amount);
            }
            8 | 9 => {
                with_failing_parts(chance, || self.top.add(&calm, amount));
                self.expect(2, amount);
            }
            10 => match chance.u8(..3) {
                0 => self.expect(0, self.sum.take().0.wrapping_neg()),
                1 => self.expect(1, self.counts.take().total().wrapping_neg()),
                _ => self.expect(2, self.top.take().total().wrapping_neg()),
            },
            11 => {
                let all = with_failing_parts(chance, || self.parts.read());
                all.0.iter().for_each(|part| _ = part.number());
            }
            12 => drop(self.parts.take()),
            13 => drop(with_failing_parts(chance, || self.counts.read())),
            14 => {
                let top = with_failing_parts(chance, || self.top.read());
                top.top(3).iter().for_each(|it| _ = it.key.number());
            }
            _ => {
                let own = Reducer::<Parts>::new();
                own.update(|parts| parts.0.push(Part::new(&self.alive, key)));
                drop(own.into_inner());
                cpu::bind(CoreId::new(chance.u32(..3)));
            }
        }
    }
}

#[test]
fn nothing_is_left_of_reducers() {
    let alive = Alive::default();
    let all = Arc::new(Reducers {
        alive: alive.clone(),
        sum: Reducer::new(),
        parts: Reducer::new(),
        // Fewer than there are keys.
        counts: CounterMap::new(25),
        top: TopK::new(5),
        expected: [const { AtomicU64::new(0) }; 3],
    });
    storm_with_forks(
        |chance| {
            let (all, mut chance) = (all.clone(), chance.fork());
            Last(move || {
                for key in 0..20 {
                    fails(|| all.step(key, &mut chance));
                }
            })
        },
        |key, chance| all.step(key, chance),
    );
    let all = Arc::into_inner(all).expect("all threads are gone");
    let totals = [
        all.sum.read().0,
        all.counts.read().total(),
        all.top.read().total(),
    ];
    assert_eq!(all.expected.map(AtomicU64::into_inner), totals);
    fails(|| drop(all.parts));
    drop((all.counts, all.top));
    assert_eq!(alive.count(), 0);
}

#[test]
fn sums_are_right_after_a_storm() {
    static CENTRAL: AtomicI64 = AtomicI64::new(0);
    struct All {
        counters: [Counter; 3],
        sloppy: SloppyCounter<&'static AtomicI64>,
        expected: [AtomicI64; 4],
    }
    impl All {
        fn step(&self, chance: &mut fastrand::Rng) {
            let at = chance.usize(..3);
            let (counter, amount) = (&self.counters[at], chance.i64(-100..100));
            let expect = |at: usize, amount| {
                self.expected[at].fetch_add(amount, Ordering::Relaxed);
            };
            match chance.u8(..16) {
                0..6 => {
                    counter.add(amount);
                    expect(at, amount);
                }
                6 => _ = (counter.sum(), counter.estimate()),
                7..10 => {
                    self.sloppy.acquire(amount.unsigned_abs());
                    expect(3, amount.abs());
                }
                10..13 => {
                    self.sloppy.release(amount.unsigned_abs());
                    expect(3, -amount.abs());
                }
                13 => _ = self.sloppy.reconcile(),
                14 => {
                    // Its place in each thread's memory is another one's before and after.
                    let own = Counter::with_batch(10);
                    own.add(amount);
                    own.increment();
                    assert_eq!(own.sum(), amount + 1);
                    let own = SloppyCounter::new(10);
                    own.release(5);
                    assert_eq!(own.in_use(), -5);
                }
                _ => cpu::bind(CoreId::new(chance.u32(..3))),
            }
        }
    }
    let all = Arc::new(All {
        counters: [
            Counter::new(),
            Counter::with_batch(1),
            Counter::with_batch(1000),
        ],
        sloppy: SloppyCounter::beside(&CENTRAL, 64),
        expected: [const { AtomicI64::new(0) }; 4],
    });
    storm_with_forks(
        |chance| {
            let (all, mut chance) = (all.clone(), chance.fork());
            Last(move || (0..20).for_each(|_| all.step(&mut chance)))
        },
        |_, chance| all.step(chance),
    );
    let All {
        counters,
        sloppy,
        expected,
    } = Arc::into_inner(all).expect("all threads are gone");
    let [one, other, third] = counters.map(|counter| counter.sum());
    let expected = expected.map(AtomicI64::into_inner);
    assert_eq!([one, other, third, sloppy.in_use()], expected);
    drop(sloppy);
    assert_eq!(CENTRAL.load(Ordering::Relaxed), expected[3]);
}

#[test]
fn nothing_that_was_recorded_is_lost_in_a_storm() {
    #[derive(Default)]
    struct All {
        histogram: HdrHistogram,
        summary: Summary,
        /// What was recorded in each, less what was taken.
        expected: [AtomicU64; 2],
    }
    impl All {
        fn step(&self, key: u64, chance: &mut fastrand::Rng) {
            let expect = |at: usize, amount| {
                self.expected[at].fetch_add(amount, Ordering::Relaxed);
            };
            match chance.u8(..16) {
                0..4 => {
                    self.histogram.record(1 + key);
                    expect(0, 1);
                }
                4 => {
                    self.histogram.record_n(chance.u64(..), 3);
                    expect(0, 3);
                }
                5 => {
                    self.histogram.record_duration(Duration::from_micros(key));
                    expect(0, 1);
                }
                6 => {
                    let seen = self.histogram.read();
                    let all: u64 = seen.iter().map(|(_, times)| times).sum();
                    assert_eq!(all, seen.count());
                    assert!(seen.min() <= seen.max());
                    assert_eq!(seen.quantile(0.5).is_none(), seen.is_empty());
                    maybe_fail(chance);
                }
                7 => expect(0, self.histogram.take().count().wrapping_neg()),
                8..12 => {
                    self.summary.record(key as f64);
                    expect(1, 1);
                }
                // Counted apart.
                12 => self.summary.record(f64::NAN),
                13 => {
                    let seen = self.summary.read();
                    assert!(seen.min() <= seen.mean() && seen.mean() <= seen.max());
                    maybe_fail(chance);
                }
                14 => expect(1, self.summary.take().count().wrapping_neg()),
                _ => {
                    let own = Self::default();
                    own.histogram.record(key);
                    own.summary.record(1.0);
                    assert_eq!(
                        (own.histogram.read().count(), own.summary.read().count()),
                        (1, 1)
                    );
                    cpu::bind(CoreId::new(chance.u32(..3)));
                }
            }
        }
    }
    let all = Arc::new(All::default());
    storm_with_forks(
        |chance| {
            let (all, mut chance) = (all.clone(), chance.fork());
            Last(move || {
                for key in 0..20 {
                    fails(|| all.step(key, &mut chance));
                }
            })
        },
        |key, chance| all.step(key, chance),
    );
    let counts = [all.histogram.read().count(), all.summary.read().count()];
    assert_eq!(
        all.expected.each_ref().map(|it| it.load(Ordering::Relaxed)),
        counts
    );
}

/// Without forks: a change that another thread is in the middle of is a lock.
#[test]
fn nothing_is_left_of_what_lookups_found() {
    struct Entry {
        generation: Generation,
        /// Alike, but while they change.
        words: [AtomicU64; 2],
        _part: Part,
    }
    let alive = Alive::default();
    let entry = CoreArc::new(Entry {
        generation: Generation::new(),
        words: Default::default(),
        _part: Part::new(&alive, CALM),
    });
    // Acquire and Release: who sees one of a change's words sees that there is a change.
    let words = |entry: &Entry| entry.words.each_ref().map(|it| it.load(Ordering::Acquire));
    storm(
        |_| entry.clone(),
        |key, chance| match chance.u8(..8) {
            0 => {
                let _change = entry.generation.change();
                assert_eq!(entry.generation.current(), None);
                entry
                    .words
                    .iter()
                    .for_each(|it| it.store(key, Ordering::Release));
                maybe_fail(chance);
            }
            1..4 => {
                if let Some(seen) = entry.generation.current() {
                    let [one, other] = words(&entry);
                    if entry.generation.is(seen) {
                        assert_eq!(one, other);
                    }
                }
            }
            4 => cpu::bind(CoreId::new(chance.u32(..3))),
            _ => {
                let Some(seen) = entry.generation.current() else {
                    return;
                };
                let [one, other] = words(&entry);
                if let Some(found) = CoreArc::clone_if(&entry, &entry.generation, seen) {
                    assert_eq!(one, other);
                    maybe_fail(chance);
                    drop(found);
                }
            }
        },
    );
    drop(entry);
    assert!(eventually(|| {
        refcount::reclaim();
        alive.count() == 0
    }));
}
