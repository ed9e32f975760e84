//! Between two reads, an update writes nothing that belongs to the object itself.
//!
//! The object is put on pages of its own, and the right to write them is taken away while threads update
//! it: a single store to a line that all slots share ends this program with a segmentation fault. What
//! an update may write is its slot's memory, which is allocated elsewhere, and a dirty mark.
//!
//! (How many lines move, also by being read, is a matter for a coherence simulator.)
#![cfg(all(target_os = "linux", not(percolog_loom)))]

use percolog::counter::Counter;
use percolog::cpu::{self, CoreId};
use percolog::oplog::{
    Absorb, AddToken, Logged, LoggedBuilder, LoggedFn, Mode, Operation, RemoveToken, token_pair,
};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::ptr::NonNull;

/// A value on pages of its own.
struct Page<T> {
    value: NonNull<T>,
    bytes: usize,
}

// SAFETY: a `Page` owns its value as a `Box` does, and gives out shared references only.
unsafe impl<T: Send + Sync> Sync for Page<T> {}

impl<T> Page<T> {
    fn new(value: T) -> Self {
        assert!(align_of::<T>() <= 4096);
        let bytes = size_of::<T>().next_multiple_of(4096);
        // SAFETY: asks for fresh memory; the answer is checked.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(pages, libc::MAP_FAILED);
        let place = NonNull::new(pages.cast::<T>()).expect("mapped");
        // SAFETY: the memory is fresh, writable, large enough and aligned to a page.
        unsafe { place.write(value) };
        Self {
            value: place,
            bytes,
        }
    }

    fn allow(&self, access: libc::c_int) {
        // SAFETY: the pages are ours. Whoever writes them while they are protected faults, which is
        // what this file is about.
        let changed = unsafe { libc::mprotect(self.value.as_ptr().cast(), self.bytes, access) };
        assert_eq!(changed, 0);
    }

    /// Runs `update` on four threads, each on a slot of its own: once to have everything allocated, then
    /// `again` between the two, then many times with the object protected.
    fn updated(&self, update: impl Fn(&T, u64) + Sync, again: impl FnOnce(&T))
    where
        T: Send + Sync,
    {
        const THREADS: u32 = 4;
        let everyone = |updates: u64| {
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let update = &update;
                    scope.spawn(move || {
                        cpu::bind(CoreId::new(thread));
                        for number in 0..updates {
                            update(self, u64::from(thread) << 32 | number);
                        }
                    });
                }
            });
        };
        everyone(100);
        again(self);
        self.allow(libc::PROT_READ);
        everyone(100);
        self.allow(libc::PROT_READ | libc::PROT_WRITE);
    }
}

impl<T> Deref for Page<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value was written in `new` and lives until `drop`.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for Page<T> {
    fn drop(&mut self) {
        // SAFETY: the value is dropped once, and its pages, which came from `mmap`, are given back.
        unsafe {
            self.value.drop_in_place();
            libc::munmap(self.value.as_ptr().cast(), self.bytes);
        }
    }
}

#[test]
fn queueing_writes_nothing_of_the_object() {
    struct Insert(u64);
    impl Operation<BTreeSet<u64>> for Insert {
        fn exec(self, set: &mut BTreeSet<u64>) {
            set.insert(self.0);
        }
    }
    let set: Page<Logged<BTreeSet<u64>, Insert>> = Page::new(
        LoggedBuilder::new()
            .mode(Mode::Deferring)
            .build(BTreeSet::new()),
    );
    set.updated(
        |set, number| set.queue(Insert(number)),
        |set| assert_eq!(set.synchronize().len(), 400),
    );
    assert_eq!(set.synchronize().len(), 400);
    assert_eq!(set.stats().executed, 800);
}

#[test]
fn queueing_closures_writes_nothing_of_the_object() {
    let sum: Page<LoggedFn<u64>> = Page::new(LoggedFn::build(
        LoggedBuilder::new().mode(Mode::Deferring),
        0,
    ));
    sum.updated(
        |sum, number| sum.update(move |sum| *sum += number & 1),
        |sum| assert_eq!(*sum.synchronize(), 200),
    );
    assert_eq!(*sum.synchronize(), 400);
}

#[test]
fn absorbing_writes_nothing_of_the_object() {
    enum Edit {
        Open(AddToken),
        Close(RemoveToken),
    }
    impl Operation<BTreeSet<u64>> for Edit {
        const ABSORBS: bool = true;
        fn exec(self, set: &mut BTreeSet<u64>) {
            match self {
                Edit::Open(id) => set.insert(id.id()),
                Edit::Close(id) => set.remove(&id.id()),
            };
        }
        fn absorb(&self) -> Absorb<'_> {
            match self {
                Edit::Open(id) => Absorb::Add(id),
                Edit::Close(id) => Absorb::Remove(id),
            }
        }
    }
    let set: Page<Logged<BTreeSet<u64>, Edit>> = Page::new(
        LoggedBuilder::new()
            .mode(Mode::Deferring)
            .build(BTreeSet::new()),
    );
    set.updated(
        |set, _| {
            let (birth, death) = token_pair();
            set.queue(Edit::Open(birth));
            set.queue(Edit::Close(death));
        },
        |set| assert!(set.synchronize().is_empty()),
    );
    assert!(set.synchronize().is_empty());
    assert_eq!(set.stats().absorbed, 1600);
}

#[test]
fn counting_writes_nothing_of_the_counter() {
    let counter: Page<Counter> = Page::new(Counter::new());
    counter.updated(
        |counter, _| counter.add(3),
        |counter| assert_eq!(counter.sum(), 1200),
    );
    assert_eq!(counter.sum(), 2400);
}
