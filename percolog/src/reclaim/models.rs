//! Every interleaving of sections, frees and scans, within loom's bounds.
//!
//! The world has one link and objects that are memory to loom: an object that is destroyed while
//! somebody may be reading it is a race that loom reports. Both barriers are fences here; what is true
//! of the kernel's barrier, of a clock that is read out of turn, and of loads that run ahead of stores
//! is enumerated by `tests/anywhere/litmus`. The lock of rare steps is the collector's own, and there is no fork.

use super::collector::Collector;
use super::options::{DomainClock, DomainOptions};
use super::queue::Retired;
use super::records::Record;
use crate::cpu::barrier::BarrierMode;
use crate::cpu::{CoreId, Environment};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::explore_deeply;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Some of the orderings matter only when two threads are stopped in the middle of a third's step.
const PREEMPTIONS: usize = 3;

/// A clock that orders nothing by itself.
struct Ticks(AtomicU64);

impl Environment for Ticks {
    fn slot(&self) -> CoreId {
        CoreId::new(0)
    }

    fn stamp(&self) -> u64 {
        // Far apart, so that the margin for skew hides nothing.
        self.0.fetch_add(1 << 20, Ordering::Relaxed)
    }
}

/// A domain for the models of rooms above: what `Domain` does, for threads that are numbered by the model.
pub(crate) struct ModelDomain(Collector<Ticks>);

impl ModelDomain {
    /// For so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        let options = DomainOptions::new();
        let collector = Collector::new(
            options,
            Ticks(AtomicU64::new(1 << 30)),
            BarrierMode::Fence,
            true,
        );
        for _ in 0..threads {
            collector.take_record(0);
        }
        Self(collector)
    }

    fn record(&self, thread: usize) -> &Record {
        self.0.records.all().nth(thread).expect("taken in `new`")
    }

    /// Runs `f` in a section.
    pub(crate) fn section<R>(&self, thread: usize, f: impl FnOnce() -> R) -> R {
        self.0.enter(self.record(thread));
        let result = f();
        self.0.leave(self.record(thread));
        result
    }

    /// Retires an object, and destroys what can be destroyed.
    ///
    /// # Safety
    /// As for `Domain::retire_with`.
    pub(crate) unsafe fn retire_and_collect(
        &self,
        thread: usize,
        object: *mut (),
        destroy: unsafe fn(*mut ()),
    ) -> usize {
        // SAFETY: by contract.
        let retired = unsafe { Retired::new(object, destroy, 0) };
        self.0.retire(self.record(thread), retired);
        self.0.collect(self.record(thread))
    }
}

const NONE: usize = usize::MAX;
const POISON: u32 = 0xdead;

struct World {
    collector: Collector<Ticks>,
    /// The number of the object that it leads to.
    link: AtomicUsize,
    objects: [UnsafeCell<u32>; 2],
}

impl World {
    fn new(clock: DomainClock) -> Arc<Self> {
        let mut options = DomainOptions::new();
        options.clock = clock;
        Arc::new(Self {
            collector: Collector::new(
                options,
                Ticks(AtomicU64::new(1 << 30)),
                BarrierMode::Fence,
                true,
            ),
            link: AtomicUsize::new(0),
            objects: [UnsafeCell::new(0), UnsafeCell::new(1)],
        })
    }

    fn record(&self) -> &Record {
        self.collector.take_record(0)
    }

    /// Reads what the link leads to, in a section that the caller has entered.
    fn read(&self) {
        let at = self.link.load(Ordering::Acquire);
        if at != NONE {
            self.objects[at].with(|object| {
                // SAFETY: loom sees to it that nobody writes meanwhile.
                assert_eq!(unsafe { *object }, at as u32);
            });
        }
    }

    fn section(&self, record: &Record) {
        self.collector.enter(record);
        self.read();
        self.collector.leave(record);
    }

    fn unlink(&self, new: usize) -> usize {
        self.link.swap(new, Ordering::AcqRel)
    }

    fn retired(&self, at: usize) -> Retired {
        unsafe fn poison(object: *mut ()) {
            // SAFETY: points to an object of a world that outlives its collector's queues.
            let object = unsafe { &*object.cast::<UnsafeCell<u32>>() };
            // SAFETY: loom sees to it that nobody reads meanwhile.
            object.with_mut(|object| unsafe { *object = POISON });
        }
        let object = core::ptr::from_ref(&self.objects[at]).cast_mut().cast();
        // SAFETY: destroying writes to the object and no more.
        unsafe { Retired::new(object, poison, 4) }
    }

    fn is_destroyed(&self, at: usize) -> bool {
        // SAFETY: called when everybody else has finished.
        self.objects[at].with(|object| unsafe { *object == POISON })
    }

    /// Unlinks an object, retires it, and destroys it if it can.
    fn free(&self, record: &Record, new: usize) {
        let old = self.unlink(new);
        self.collector.retire(record, self.retired(old));
        self.collector.collect(record);
    }
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// A thread that has read in a section before, so that scans look at it.
fn reader(world: &Arc<World>, first: bool, sections: usize) -> thread::JoinHandle<()> {
    let record = world.record();
    if !first {
        world.section(record);
    }
    let index = record.index;
    let world = world.clone();
    thread::spawn(move || {
        let record = world
            .collector
            .records
            .all()
            .nth(index)
            .expect("taken above");
        for _ in 0..sections {
            world.section(record);
        }
    })
}

fn a_section_keeps_what_it_found(clock: DomainClock, first: bool) {
    explore_deeply(PREEMPTIONS, move || {
        let world = World::new(clock);
        let reader = reader(&world, first, 1);
        let writer = world.record();
        world.free(writer, 1);
        join(reader);
        world.collector.collect(writer);
        assert!(world.is_destroyed(0));
    });
}

/// The section is that of a thread which scans know.
#[test]
fn a_section_keeps_what_it_found_coarse_clock() {
    a_section_keeps_what_it_found(DomainClock::Coarse, false);
}

/// Stamps come from a clock that orders nothing but its own values.
#[test]
fn a_section_keeps_what_it_found_fine_clock() {
    a_section_keeps_what_it_found(DomainClock::Tsc, false);
}

/// The section is its thread's first, so that it has to make itself known.
#[test]
fn a_first_section_keeps_what_it_found() {
    a_section_keeps_what_it_found(DomainClock::Coarse, true);
}

/// Two sections of one thread: that the second is seen says that the first is over.
#[test]
fn a_second_section_ends_the_first() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        let reader = reader(&world, false, 2);
        let writer = world.record();
        world.free(writer, 1);
        join(reader);
    });
}

/// The writer reads what it retires: its own section counts.
#[test]
fn the_own_section_keeps_what_it_found() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        let writer = world.record();
        world.collector.enter(writer);
        world.free(writer, 1);
        assert!(!world.is_destroyed(0));
        world.collector.leave(writer);
        world.collector.collect(writer);
        assert!(world.is_destroyed(0));
    });
}

/// One thread looks at the reader while another unlinks: what the first has found out, up to the time
/// before it looked, is what objects are destroyed by.
#[test]
fn a_bound_holds_up_to_the_time_before_the_scan() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        // Stamp of the object plus one; zero until it is unlinked.
        let stamped = Arc::new(AtomicU64::new(0));
        let reader = reader(&world, false, 1);
        let unlinker = thread::spawn({
            let (world, stamped) = (world.clone(), stamped.clone());
            move || {
                world.unlink(1);
                let stamp = world.collector.now();
                world.collector.advance(stamp);
                stamped.store(stamp + 1, Ordering::Release);
            }
        });
        let own = world.record();
        let _ = world.collector.scan(Some(own), 0);
        let stamp = stamped.load(Ordering::Acquire);
        if stamp != 0 && stamp - 1 < world.collector.known() {
            // SAFETY: what the bound is for.
            unsafe { world.retired(0).destroy() };
        }
        join(unlinker);
        join(reader);
    });
}

/// One thread scans, another destroys on the strength of what is published.
#[test]
fn what_another_thread_found_out_holds() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        let reader = reader(&world, false, 1);
        let writer = world.record();
        let old = world.unlink(1);
        let stamp = world.collector.now();
        let scanner = thread::spawn({
            let world = world.clone();
            move || {
                let _ = world.collector.is_quiescent(None, stamp);
            }
        });
        world.collector.retire(writer, world.retired(old));
        world.collector.seal(writer);
        // Without a scan of its own.
        world.collector.look_for_quiescence(writer, false);
        world.collector.destroy_ready(writer, 1);
        join(scanner);
        join(reader);
    });
}

/// One thread scans; what it has found out of the reader is relied on by another.
#[test]
fn what_another_thread_remembers_holds() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        let reader = reader(&world, false, 1);
        let old = world.unlink(1);
        let stamp = world.collector.now();
        world.collector.advance(stamp);
        let relier = thread::spawn({
            let world = world.clone();
            move || {
                // As a scan reads it.
                let record = world.collector.records.active_from(0).next();
                let clear = world.collector.records.clear(record.expect("the reader's"));
                if clear.load(Ordering::Acquire) > stamp {
                    // SAFETY: what the number is for.
                    unsafe { world.retired(old).destroy() };
                }
            }
        });
        let _ = world.collector.scan(None, stamp);
        join(relier);
        join(reader);
    });
}

/// Two objects one after the other: the bound found for the first is the stamp of the second.
#[test]
fn a_tie_is_not_quiescent() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        let reader = reader(&world, false, 1);
        let writer = world.record();
        world.free(writer, 1);
        world.free(writer, NONE);
        join(reader);
        world.collector.collect(writer);
        assert!(world.is_destroyed(0) && world.is_destroyed(1));
    });
}

/// One thread parks the reader, another destroys what it has read.
#[test]
fn parking_hands_on_what_it_saw() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        let reader = reader(&world, false, 1);
        world.collector.advance(1);
        let parker = thread::spawn({
            let world = world.clone();
            move || world.collector.park(world.collector.now())
        });
        let old = world.unlink(1);
        let stamp = world.collector.now();
        world.collector.advance(stamp);
        if world.collector.records.active_count() == 0 && world.collector.scan(None, stamp).is_ok()
        {
            // SAFETY: what the bound is for.
            unsafe { world.retired(old).destroy() };
        }
        join(parker);
        join(reader);
    });
}

/// A thread that is parked while it comes back is seen, or sees it.
#[test]
fn parking_misses_no_section() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        let idle = world.record();
        world.section(idle);
        world.collector.advance(1);
        let index = idle.index;
        let reader = thread::spawn({
            let world = world.clone();
            move || {
                let record = world.collector.records.all().nth(index);
                world.section(record.expect("taken above"));
            }
        });
        let writer = world.record();
        world.collector.park(world.collector.now());
        // No parking in between: only the link, the bits and the words count.
        let old = world.unlink(1);
        let stamp = world.collector.now();
        world.collector.advance(stamp);
        if world.collector.scan(Some(writer), stamp).is_ok() {
            // SAFETY: what the bound is for.
            unsafe { world.retired(old).destroy() };
        }
        join(reader);
    });
}

/// What a thread leaves behind waits for the sections that it would have waited for.
#[test]
fn orphans_wait_for_sections() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        let reader = reader(&world, false, 1);
        let leaver = thread::spawn({
            let world = world.clone();
            move || {
                let record = world.record();
                let old = world.unlink(1);
                world.collector.retire(record, world.retired(old));
                world.collector.abandon(record);
                world.collector.records.give_back(record);
            }
        });
        let other = world.record();
        world.collector.collect(other);
        join(leaver);
        join(reader);
        world.collector.collect(other);
        assert!(world.is_destroyed(0));
    });
}

/// A record that changes hands keeps what is queued in it, and who gets it sees that.
#[test]
fn a_record_changes_hands() {
    explore_deeply(PREEMPTIONS, || {
        let world = World::new(DomainClock::Coarse);
        let first = thread::spawn({
            let world = world.clone();
            move || {
                let record = world.record();
                let old = world.unlink(NONE);
                if old != NONE {
                    world.collector.retire(record, world.retired(old));
                }
                world.collector.records.give_back(record);
            }
        });
        let record = world.record();
        world.section(record);
        world.collector.collect(record);
        world.collector.records.give_back(record);
        join(first);
        for at in 0..2 {
            let record = world.record();
            assert_eq!(record.index, at);
            world.collector.collect(record);
        }
        assert!(world.is_destroyed(0));
    });
}
