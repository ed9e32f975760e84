//! Two locks of Concurrency Kit, for context, as in the paper: a section is taken as a reader, and an update takes the
//! lock as a writer once. When it has had the lock, every section that could see the object has ended.
//!
//! *brlock*, the big-reader lock, has a line for each reader and one for writers, who look at all of them. The lock of
//! Mellor-Crummey and Scott is a queue in which everybody waits on a line of their own; it knows no readers.

use std::cell::UnsafeCell;
use std::ffi::c_ulong;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::reclaim::node::Node;
use crate::reclaim::{Handle, Reclaimer};

/// The lock, alone on its line.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Lock(UnsafeCell<[usize; 2]>);

/// One thread's reader, or place in the queue, alone on its line.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Place(UnsafeCell<[usize; 4]>);

/// The functions of one lock, as `shim/ck_locks.c` defines them.
pub trait Kind: Send + Sync + 'static {
    /// How tables call it.
    const NAME: &'static str;

    /// # Safety
    /// Nobody uses the lock.
    unsafe fn init(lock: *mut Lock);

    /// # Safety
    /// The place is no other thread's, and stays where it is until it is unregistered.
    unsafe fn register(lock: *mut Lock, place: *mut Place);

    /// # Safety
    /// The place is registered, and does not hold the lock.
    unsafe fn unregister(lock: *mut Lock, place: *mut Place);

    /// # Safety
    /// The place is registered.
    unsafe fn enter(lock: *mut Lock, place: *mut Place);

    /// # Safety
    /// The place has entered.
    unsafe fn leave(lock: *mut Lock, place: *mut Place);

    /// # Safety
    /// The place is registered, and does not hold the lock.
    unsafe fn read(lock: *mut Lock, place: *mut Place, count: c_ulong);

    /// # Safety
    /// The place is registered, and does not hold the lock.
    unsafe fn write(lock: *mut Lock, place: *mut Place);
}

macro_rules! kind {
    (
        $(#[$attribute:meta])*
        $kind:ident, $name:literal,
        $init:ident $register:ident $unregister:ident $enter:ident $leave:ident $read:ident $write:ident
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub enum $kind {}

        unsafe extern "C" {
            fn $init(lock: *mut Lock);
            fn $register(lock: *mut Lock, place: *mut Place);
            fn $unregister(lock: *mut Lock, place: *mut Place);
            fn $enter(lock: *mut Lock, place: *mut Place);
            fn $leave(lock: *mut Lock, place: *mut Place);
            fn $read(lock: *mut Lock, place: *mut Place, count: c_ulong);
            fn $write(lock: *mut Lock, place: *mut Place);
        }

        impl Kind for $kind {
            const NAME: &'static str = $name;

            unsafe fn init(lock: *mut Lock) {
                // SAFETY: as the caller promises; so for all of them.
                unsafe { $init(lock) }
            }

            unsafe fn register(lock: *mut Lock, place: *mut Place) {
                // SAFETY: see above.
                unsafe { $register(lock, place) }
            }

            unsafe fn unregister(lock: *mut Lock, place: *mut Place) {
                // SAFETY: see above.
                unsafe { $unregister(lock, place) }
            }

            #[inline]
            unsafe fn enter(lock: *mut Lock, place: *mut Place) {
                // SAFETY: see above.
                unsafe { $enter(lock, place) }
            }

            #[inline]
            unsafe fn leave(lock: *mut Lock, place: *mut Place) {
                // SAFETY: see above.
                unsafe { $leave(lock, place) }
            }

            #[inline]
            unsafe fn read(lock: *mut Lock, place: *mut Place, count: c_ulong) {
                // SAFETY: see above.
                unsafe { $read(lock, place, count) }
            }

            #[inline]
            unsafe fn write(lock: *mut Lock, place: *mut Place) {
                // SAFETY: see above.
                unsafe { $write(lock, place) }
            }
        }
    };
}

kind! {
    /// `ck_brlock`.
    BigReader, "brlock",
    percolog_bench_brlock_init percolog_bench_brlock_register percolog_bench_brlock_unregister
    percolog_bench_brlock_enter percolog_bench_brlock_leave percolog_bench_brlock_read percolog_bench_brlock_write
}

kind! {
    /// `ck_spinlock_mcs`.
    Queue, "MCS lock",
    percolog_bench_mcs_init percolog_bench_mcs_register percolog_bench_mcs_unregister
    percolog_bench_mcs_enter percolog_bench_mcs_leave percolog_bench_mcs_read percolog_bench_mcs_write
}

/// A lock in the place of a reclaimer.
#[derive(Debug)]
pub struct Locked<K> {
    lock: Box<Lock>,
    kind: PhantomData<K>,
}

/// The big-reader lock.
pub type BrLock = Locked<BigReader>;
/// The lock of Mellor-Crummey and Scott.
pub type McsLock = Locked<Queue>;

// SAFETY: the lock is used through its functions alone, which are made for many threads.
unsafe impl<K: Send> Send for Locked<K> {}
// SAFETY: see above.
unsafe impl<K: Sync> Sync for Locked<K> {}

impl<K: Kind> Reclaimer for Locked<K> {
    const NAME: &'static str = K::NAME;
    const WAITS: bool = true;
    type Handle<'r> = LockHandle<'r, K>;

    fn new() -> Self {
        let locked = Self {
            lock: Box::default(),
            kind: PhantomData,
        };
        // SAFETY: nobody else knows it.
        unsafe { K::init(locked.pointer()) };
        locked
    }

    fn register(&self) -> LockHandle<'_, K> {
        let handle = LockHandle {
            lock: self,
            place: NonNull::from(Box::leak(Box::default())),
        };
        // SAFETY: the place is the handle's alone, which unregisters it.
        unsafe { K::register(self.pointer(), handle.place.as_ptr()) };
        handle
    }

    fn finish(&self) {}
}

impl<K> Locked<K> {
    #[inline]
    fn pointer(&self) -> *mut Lock {
        std::ptr::from_ref(&*self.lock).cast_mut()
    }
}

/// One thread's place.
#[derive(Debug)]
pub struct LockHandle<'r, K: Kind> {
    lock: &'r Locked<K>,
    /// Known to other threads through the lock: no reference to it is kept.
    place: NonNull<Place>,
}

impl<K: Kind> Handle for LockHandle<'_, K> {
    #[inline]
    fn section<T>(&mut self, inside: impl FnOnce() -> T) -> T {
        let (lock, place) = (self.lock.pointer(), self.place.as_ptr());
        // SAFETY: the place is registered.
        unsafe { K::enter(lock, place) };
        let result = inside();
        // SAFETY: it has just entered.
        unsafe { K::leave(lock, place) };
        result
    }

    #[inline]
    fn read(&mut self) {
        self.reads(1);
    }

    #[inline]
    fn reads(&mut self, count: u64) {
        // SAFETY: the place is registered, and every section before has ended.
        unsafe { K::read(self.lock.pointer(), self.place.as_ptr(), count as c_ulong) };
    }

    #[inline]
    unsafe fn retire(&mut self, node: NonNull<Node>) {
        // SAFETY: the place does not hold the lock; with it held once, no section that could see the node is open.
        unsafe {
            K::write(self.lock.pointer(), self.place.as_ptr());
            Node::free(node);
        }
    }
}

impl<K: Kind> Drop for LockHandle<'_, K> {
    fn drop(&mut self) {
        // SAFETY: the place was registered when the handle was made, every section has ended, and after that nobody else
        // knows the place, which came out of a `Box`.
        unsafe {
            K::unregister(self.lock.pointer(), self.place.as_ptr());
            drop(Box::from_raw(self.place.as_ptr()));
        }
    }
}
