//! Every interleaving of calls, misses, destruction, exchanges and gathering, within loom's bounds.
//!
//! Sections are words that say whether a thread is inside, and time stands still: so one section of a thread looks like the next. What
//! [`open_sections`](crate::reclaim) promises is taken for granted here. Representatives are loom's cells, written when they are made and when
//! they are dropped, so a call of one that is dropped meanwhile is found. What no model here can see: the allocator, panics, and that entries are
//! zeroed memory.

use super::arrangement::Arrangement;
use super::arrangement::Layer;
use super::interpose::{Call, CallRejected, Interposable, Interposed, Interposer};
use super::object::{Caller, Name, Object, StaleRef, with_layer, without_layer};
use super::representatives::{Incarnation, Siblings};
use super::root::{Place, Placement, Root};
use super::translation::{Entry, Tables, Words};
use crate::cpu::CoreId;
use crate::reclaim::Mark;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::{UnsafeCell, explore, explore_deeply};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr;
use loom::sync::Arc;
use loom::thread;

const NAME: Name = Name {
    index: 1,
    generation: 3,
};

/// What objects promise here.
trait Cell: Sync {
    /// Who made it.
    fn maker(&self) -> u64;
    /// Changes it without synchronization: two at once are found.
    fn add(&self);
    /// The sum of all representatives' copies of a setting.
    fn copies(&self) -> u64;
}

struct Rep {
    maker: u64,
    count: UnsafeCell<u64>,
    copy: AtomicU64,
    siblings: Siblings<Rep>,
}

// SAFETY: loom fails if the cell is used by two threads at once.
unsafe impl Sync for Rep {}

impl Rep {
    fn count(&self) -> u64 {
        // SAFETY: loom fails if somebody writes meanwhile.
        self.count.with(|count| unsafe { *count })
    }
}

impl Cell for Rep {
    fn maker(&self) -> u64 {
        assert!(self.count() < GONE);
        self.maker
    }

    fn add(&self) {
        // SAFETY: as above.
        self.count.with_mut(|count| unsafe { *count += 1 });
    }

    fn copies(&self) -> u64 {
        self.siblings
            .visit(|all| {
                all.iter()
                    .map(|(_, it)| it.copy.load(Ordering::Relaxed))
                    .sum()
            })
            .unwrap_or(0)
    }
}

const GONE: u64 = u64::MAX / 2;

impl Drop for Rep {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.count.with_mut(|count| unsafe { *count = GONE });
    }
}

struct Maker {
    number: u64,
    placement: Placement,
    carried: AtomicU64,
    made: Arc<AtomicU64>,
    setting: Arc<AtomicU64>,
}

impl Root for Maker {
    type Interface = dyn Cell;
    type Rep = Rep;

    fn placement(&self) -> Placement {
        self.placement
    }

    fn create(&self, place: &Place<'_, Rep>) -> Rep {
        self.made.fetch_add(1, Ordering::AcqRel);
        Rep {
            maker: self.number,
            count: UnsafeCell::new(self.carried.swap(0, Ordering::AcqRel)),
            copy: AtomicU64::new(self.setting.load(Ordering::Relaxed)),
            siblings: place.siblings(),
        }
    }

    fn interface(rep: &Rep) -> &Self::Interface {
        rep
    }
}

/// A thread in a section, on a slot.
struct Thread<'w> {
    world: &'w World,
    number: usize,
    slot: u32,
}

impl Caller for Thread<'_> {
    fn slot(&self) -> CoreId {
        CoreId::new(self.slot)
    }

    fn chip(&self) -> usize {
        0
    }

    fn is_one_of(&self, open: &[Mark]) -> bool {
        let word = self.world.inside[self.number].load(Ordering::Relaxed);
        open.contains(&Mark {
            record: self.number,
            word,
        })
    }
}

type Subject = Object<dyn Cell>;

/// Everything that threads share.
struct World {
    tables: Tables,
    /// What the global table has: null once the object was taken out.
    object: AtomicPtr<Subject>,
    inside: [AtomicU64; 2],
    made: Arc<AtomicU64>,
    setting: Arc<AtomicU64>,
}

impl World {
    fn new(placement: Placement) -> Arc<Self> {
        let world = Self {
            tables: Tables::new(),
            object: AtomicPtr::new(ptr::null_mut()),
            inside: core::array::from_fn(|_| AtomicU64::new(0)),
            made: Arc::new(AtomicU64::new(0)),
            setting: Arc::new(AtomicU64::new(0)),
        };
        let first = Object::new(world.arrangement(1, placement, 0, Vec::new()));
        let first = Box::into_raw(Box::new(first));
        world.object.store(first, Ordering::Release);
        Arc::new(world)
    }

    fn arrangement(
        &self,
        number: u64,
        placement: Placement,
        carried: u64,
        layers: Vec<Layer<dyn Cell>>,
    ) -> Arrangement<dyn Cell> {
        let root = Maker {
            number,
            placement,
            carried: AtomicU64::new(carried),
            made: self.made.clone(),
            setting: self.setting.clone(),
        };
        let implementation = alloc::sync::Arc::new(Incarnation::new(root));
        Arrangement::new(0, implementation, layers)
    }

    /// Calls the object, if it is there, in a section of the thread.
    fn call<R>(
        &self,
        number: usize,
        slot: u32,
        f: impl FnOnce(&dyn Cell) -> R,
    ) -> Result<R, StaleRef> {
        let thread = Thread {
            world: self,
            number,
            slot,
        };
        // Every access is an update, so that each sees the last one: what a barrier would do.
        self.inside[number].swap(1, Ordering::AcqRel);
        let result = self.get(&thread).map(f);
        self.inside[number].swap(0, Ordering::AcqRel);
        result
    }

    fn get(&self, thread: &Thread<'_>) -> Result<&dyn Cell, StaleRef> {
        let found = self.tables.find(thread.slot(), NAME.index, NAME.generation);
        let found = match found {
            // SAFETY: bound with this type.
            Some(words) => unsafe { words.pointer::<dyn Cell>() },
            None => {
                let object = self.object.load(Ordering::Acquire);
                // SAFETY: destroyed after the sections that can have loaded it.
                let object = unsafe { object.as_ref() }.ok_or(StaleRef)?;
                object.bind(&self.tables, NAME, thread)?
            }
        };
        // SAFETY: that it lives while the section is open is what is modelled.
        Ok(unsafe { &*found })
    }

    fn object(&self) -> &Subject {
        // SAFETY: for models in which nobody destroys it meanwhile.
        unsafe { &*self.object.load(Ordering::Acquire) }
    }

    /// The sections that are open: updates, as in `call`.
    fn open(&self) -> Vec<Mark> {
        let words = self.inside.iter().enumerate();
        words
            .map(|(record, word)| Mark {
                record,
                word: word.fetch_add(0, Ordering::AcqRel),
            })
            .filter(|mark| mark.word != 0)
            .collect()
    }

    fn has_ended(&self, section: Mark) -> bool {
        self.inside[section.record].fetch_add(0, Ordering::AcqRel) != section.word
    }

    fn wait_for(&self, open: Vec<Mark>) {
        for section in open {
            while !self.has_ended(section) {
                thread::yield_now();
            }
        }
    }

    /// Until nobody uses what stands behind the object.
    fn hold_back(&self) {
        let object = self.object();
        object.hold_back(&self.tables, NAME).unwrap();
        object.let_pass(self.open());
        while let Some(section) = object.in_flight(|section| self.has_ended(section)) {
            while !self.has_ended(section) {
                thread::yield_now();
            }
        }
    }

    fn exchange(&self, new: Arrangement<dyn Cell>) {
        let new = alloc::sync::Arc::new(new);
        if let Ok(old) = self.object().exchange(&self.tables, NAME, new) {
            // Retired.
            self.wait_for(self.open());
            drop(old);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let object = self.object.load(Ordering::Acquire);
        if !object.is_null() {
            // SAFETY: no thread is left.
            drop(unsafe { Box::from_raw(object) });
        }
    }
}

#[test]
fn two_misses_make_one() {
    for slots in [[0, 0], [0, 1]] {
        explore(move || {
            let world = World::new(Placement::One);
            let other = {
                let world = world.clone();
                thread::spawn(move || {
                    world
                        .call(1, slots[1], |it| ptr::from_ref(it).cast::<()>().addr())
                        .unwrap_or(0)
                })
            };
            let own = world.call(0, slots[0], |it| ptr::from_ref(it).cast::<()>().addr());
            let other = other.join().unwrap();
            assert_eq!(own.unwrap_or(1), other);
            assert_eq!(world.made.load(Ordering::Acquire), 1);
        });
    }
}

#[test]
fn an_entry_is_seen_whole_or_not_at_all() {
    static FIRST: [u8; 2] = [1, 2];
    static SECOND: [u8; 3] = [3, 4, 5];
    explore(|| {
        let entry = Arc::new(Entry::new());
        entry.bind(3, Words::of::<[u8]>(&FIRST));
        let writer = {
            let entry = entry.clone();
            thread::spawn(move || {
                entry.unbind();
                entry.bind(3, Words::of::<[u8]>(&SECOND));
            })
        };
        if let Some(words) = entry.find(3) {
            let halves = [Words::of::<[u8]>(&FIRST), Words::of::<[u8]>(&SECOND)];
            assert!(halves.contains(&words));
        }
        writer.join().unwrap();
        assert_eq!(entry.find(3), Some(Words::of::<[u8]>(&SECOND)));
    });
}

#[test]
fn destruction_against_calls() {
    for bound_before in [false, true] {
        explore(move || {
            let world = World::new(Placement::EachSlot);
            if bound_before {
                assert_eq!(world.call(0, 0, |it| it.maker()), Ok(1));
            }
            let destroyer = {
                let world = world.clone();
                thread::spawn(move || {
                    assert!(world.object().destroy(&world.tables, NAME));
                    let object = world.object.swap(ptr::null_mut(), Ordering::AcqRel);
                    // The next call gets an error, on every slot.
                    assert_eq!(world.call(1, 0, |_| ()), Err(StaleRef));
                    world.wait_for(world.open());
                    // SAFETY: every section has ended that can have found it.
                    drop(unsafe { Box::from_raw(object) });
                })
            };
            match world.call(0, 0, |it| it.maker()) {
                Ok(maker) => assert_eq!(maker, 1),
                Err(StaleRef) => assert_eq!(world.call(0, 0, |_| ()), Err(StaleRef)),
            }
            destroyer.join().unwrap();
        });
    }
}

#[test]
fn a_swap_that_passes_against_calls() {
    for bound_before in [false, true] {
        explore(move || {
            let world = World::new(Placement::EachSlot);
            if bound_before {
                assert_eq!(world.call(0, 0, |it| it.maker()), Ok(1));
            }
            let swapper = {
                let world = world.clone();
                thread::spawn(move || {
                    world.exchange(world.arrangement(2, Placement::One, 0, Vec::new()));
                    assert_eq!(world.call(1, 0, |it| it.maker()), Ok(2));
                })
            };
            let first = world.call(0, 0, |it| it.maker());
            let second = world.call(0, 0, |it| it.maker());
            assert!(first.unwrap() <= second.unwrap());
            swapper.join().unwrap();
            assert_eq!(world.call(0, 0, |it| it.maker()), Ok(2));
        });
    }
}

/// What callers count without synchronization, the swap reads without synchronization.
fn counted_through_a_swap(calls: u64, bound_before: bool) {
    let world = World::new(Placement::EachSlot);
    if bound_before {
        assert_eq!(world.call(0, 0, |it| it.add()), Ok(()));
    }
    let swapper = {
        let world = world.clone();
        thread::spawn(move || {
            world.hold_back();
            let present = world.object().present().unwrap();
            let old = present.implementation.as_any();
            let old = old.downcast_ref::<Incarnation<Maker>>().unwrap();
            let counted: u64 = old.registry.all().iter().map(|(_, it)| it.count()).sum();
            let carried = old.root.carried.load(Ordering::Acquire);
            drop(present);
            let new = world.arrangement(2, Placement::One, counted + carried, Vec::new());
            world.exchange(new);
        })
    };
    for _ in 0..calls {
        assert_eq!(world.call(0, 0, |it| it.add()), Ok(()));
    }
    swapper.join().unwrap();
    let object = world.object();
    let present = object.present().unwrap();
    let new = present.implementation.as_any();
    let new = new.downcast_ref::<Incarnation<Maker>>().unwrap();
    let counted: u64 = new.registry.all().iter().map(|(_, it)| it.count()).sum();
    let carried = new.root.carried.load(Ordering::Acquire);
    assert_eq!(counted + carried, calls + u64::from(bound_before));
}

#[test]
fn a_swap_that_holds_back_against_calls() {
    explore(|| counted_through_a_swap(2, false));
}

#[test]
fn a_swap_that_holds_back_against_calls_that_are_bound() {
    explore(|| counted_through_a_swap(1, true));
}

/// The first call's section is open when the swap looks, the second one's looks the same.
#[test]
fn a_swap_that_holds_back_against_sections_that_look_the_same() {
    explore_deeply(3, || counted_through_a_swap(2, true));
}

/// A section that was open before may call the object again: it does not wait for what waits for it.
#[test]
fn a_swap_that_holds_back_against_two_calls_in_a_section() {
    explore(|| {
        let world = World::new(Placement::EachSlot);
        let swapper = {
            let world = world.clone();
            thread::spawn(move || {
                world.hold_back();
                world.exchange(world.arrangement(2, Placement::One, 0, Vec::new()));
            })
        };
        let thread = Thread {
            world: &world,
            number: 0,
            slot: 0,
        };
        let calls = world.call(0, 0, |first| {
            let second = world.get(&thread).map(|it| it.maker());
            (first.maker(), second)
        });
        match calls {
            Ok((1 | 2, Ok(1 | 2))) => {}
            other => panic!("{other:?}"),
        }
        swapper.join().unwrap();
    });
}

#[test]
fn destruction_against_a_swap() {
    explore(|| {
        let world = World::new(Placement::EachSlot);
        let swapper = {
            let world = world.clone();
            thread::spawn(move || {
                let new = world.arrangement(2, Placement::One, 0, Vec::new());
                let new = alloc::sync::Arc::new(new);
                world.object().exchange(&world.tables, NAME, new)
            })
        };
        let called = world.call(0, 0, |it| it.maker());
        assert!(world.object().destroy(&world.tables, NAME));
        // What was replaced is kept until here.
        let swapped = swapper.join().unwrap();
        assert!(called == Ok(1) || (swapped.is_ok() && called == Ok(2)));
        assert_eq!(world.call(0, 0, |_| ()), Err(StaleRef));
        assert!(!world.object().destroy(&world.tables, NAME));
    });
}

#[test]
fn a_late_comer_has_all_of_a_scatter_or_none() {
    explore(|| {
        let world = World::new(Placement::EachSlot);
        assert!(world.call(0, 0, |it| it.maker()).is_ok());
        let late = {
            let world = world.clone();
            thread::spawn(move || world.call(1, 1, |it| it.copies()).unwrap())
        };
        let object = world.object();
        let present = object.present().unwrap();
        let root = present.implementation.as_any();
        let root = root.downcast_ref::<Incarnation<Maker>>().unwrap();
        {
            let all = root.registry.all();
            world.setting.store(1, Ordering::Relaxed);
            for (_, it) in all.iter() {
                it.copy.store(1, Ordering::Relaxed);
            }
        }
        let sum = late.join().unwrap();
        // Both old, or both new.
        assert!(sum == 0 || sum == 2, "{sum}");
    });
}

impl Cell for Interposed<dyn Cell> {
    fn maker(&self) -> u64 {
        self.enter("maker").map_or(0, |it| it.target().maker())
    }

    fn add(&self) {
        if let Ok(passage) = self.enter("add") {
            passage.target().add();
        }
    }

    fn copies(&self) -> u64 {
        self.enter("copies").map_or(0, |it| it.target().copies())
    }
}

impl Interposable for dyn Cell {
    fn interface(interposed: &Interposed<Self>) -> &Self {
        interposed
    }
}

/// Written when it is dropped.
struct Noting {
    calls: UnsafeCell<u64>,
}

// SAFETY: loom fails if the cell is used by two threads at once.
unsafe impl Sync for Noting {}

impl Interposer for Noting {
    fn before(&self, _: &Call) -> Result<(), CallRejected> {
        // SAFETY: as above.
        self.calls.with_mut(|calls| unsafe { *calls += 1 });
        Ok(())
    }

    fn after(&self, _: &Call) {
        // SAFETY: as above.
        assert!(self.calls.with(|calls| unsafe { *calls }) < GONE);
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.calls.with_mut(|calls| unsafe { *calls = GONE });
    }
}

#[test]
fn an_interposer_comes_and_goes_against_calls() {
    explore(|| {
        let world = World::new(Placement::EachSlot);
        let arranger = {
            let world = world.clone();
            thread::spawn(move || {
                let noting = alloc::sync::Arc::new(Noting {
                    calls: UnsafeCell::new(0),
                });
                let rearrange = |layers: Vec<Layer<dyn Cell>>| {
                    let present = world.object().present().unwrap();
                    let implementation = present.implementation.clone();
                    drop(present);
                    world.exchange(Arrangement::new(0, implementation, layers));
                };
                let layer = Layer {
                    number: 7,
                    interposer: noting,
                    interface: <dyn Cell as Interposable>::interface,
                };
                rearrange(with_layer(&[], layer));
                let layers = without_layer(&world.object().present().unwrap().layers, 7);
                rearrange(layers.unwrap());
            })
        };
        // Always the same representative, through whatever stands before it.
        for _ in 0..2 {
            assert_eq!(world.call(0, 0, |it| it.add()), Ok(()));
        }
        arranger.join().unwrap();
        assert_eq!(world.made.load(Ordering::Acquire), 1);
    });
}
