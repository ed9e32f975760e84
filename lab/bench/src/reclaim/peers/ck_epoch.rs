//! Concurrency Kit's epochs, in two ways to update: `ck_epoch_synchronize` and a free, or `ck_epoch_call`, which never
//! waits, with a `ck_epoch_poll` now and then, which frees what it can.

use std::ffi::{c_ulong, c_void};
use std::ptr::NonNull;

use crate::reclaim::node::Node;
use crate::reclaim::{Handle, Reclaimer};

/// Calls of `ck_epoch_call` before a `ck_epoch_poll`: as many as `crossbeam-epoch` collects in a bag. A poll visits every
/// thread.
const CALLS_PER_POLL: u32 = 64;

/// `struct domain` of `shim/ck_epoch.c`.
enum Domain {}
/// `struct member` of the same.
enum Member {}

unsafe extern "C" {
    fn percolog_bench_ck_epoch_new() -> *mut Domain;
    fn percolog_bench_ck_epoch_register(domain: *mut Domain) -> *mut Member;
    fn percolog_bench_ck_epoch_enter(member: *mut Member);
    fn percolog_bench_ck_epoch_leave(member: *mut Member);
    fn percolog_bench_ck_epoch_read(member: *mut Member, count: c_ulong);
    fn percolog_bench_ck_epoch_call(
        member: *mut Member,
        object: *mut c_void,
        end: unsafe extern "C" fn(*mut c_void),
    );
    fn percolog_bench_ck_epoch_poll(member: *mut Member);
    fn percolog_bench_ck_epoch_wait(member: *mut Member);
    fn percolog_bench_ck_epoch_finish(domain: *mut Domain);
    fn percolog_bench_ck_epoch_free(domain: *mut Domain);
}

/// An epoch and its records; with `WAITS`, updates use `ck_epoch_synchronize`.
#[derive(Debug)]
pub struct CkEpoch<const WAITS: bool>(*mut Domain);

/// With `ck_epoch_call` and `ck_epoch_poll`.
pub type CkEpochCall = CkEpoch<false>;
/// With `ck_epoch_synchronize`.
pub type CkEpochWait = CkEpoch<true>;

// SAFETY: the epoch is made for many threads; a record is used by the thread that registered it, until `finish`.
unsafe impl<const WAITS: bool> Send for CkEpoch<WAITS> {}
// SAFETY: see above.
unsafe impl<const WAITS: bool> Sync for CkEpoch<WAITS> {}

impl<const WAITS: bool> Reclaimer for CkEpoch<WAITS> {
    const NAME: &'static str = if WAITS {
        "ck_epoch, synchronize"
    } else {
        "ck_epoch, call and poll"
    };
    const WAITS: bool = WAITS;
    type Handle<'r> = CkEpochHandle<WAITS>;

    fn new() -> Self {
        // SAFETY: no conditions.
        let domain = unsafe { percolog_bench_ck_epoch_new() };
        if domain.is_null() {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u64; 16]>());
        }
        Self(domain)
    }

    fn register(&self) -> CkEpochHandle<WAITS> {
        // SAFETY: the domain exists until `self` is dropped.
        let member = unsafe { percolog_bench_ck_epoch_register(self.0) };
        if member.is_null() {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u64; 32]>());
        }
        CkEpochHandle { member, calls: 0 }
    }

    fn finish(&self) {
        // SAFETY: handles are gone: nobody uses a record, and no section is open.
        unsafe { percolog_bench_ck_epoch_finish(self.0) };
    }
}

impl<const WAITS: bool> Drop for CkEpoch<WAITS> {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { percolog_bench_ck_epoch_free(self.0) };
    }
}

/// One thread's record.
#[derive(Debug)]
pub struct CkEpochHandle<const WAITS: bool> {
    member: *mut Member,
    calls: u32,
}

impl<const WAITS: bool> Handle for CkEpochHandle<WAITS> {
    #[inline]
    fn section<T>(&mut self, inside: impl FnOnce() -> T) -> T {
        // SAFETY: the record is this thread's.
        unsafe { percolog_bench_ck_epoch_enter(self.member) };
        let result = inside();
        // SAFETY: it has just entered.
        unsafe { percolog_bench_ck_epoch_leave(self.member) };
        result
    }

    #[inline]
    fn read(&mut self) {
        self.reads(1);
    }

    #[inline]
    fn reads(&mut self, count: u64) {
        // SAFETY: the record is this thread's.
        unsafe { percolog_bench_ck_epoch_read(self.member, count as c_ulong) };
    }

    #[inline]
    unsafe fn retire(&mut self, node: NonNull<Node>) {
        if WAITS {
            // SAFETY: the thread is in no section, and after the wait no section can see the node.
            unsafe {
                percolog_bench_ck_epoch_wait(self.member);
                Node::free(node);
            }
            return;
        }
        // SAFETY: a node begins with the room that this takes, and may be freed after a grace period.
        unsafe {
            percolog_bench_ck_epoch_call(self.member, node.as_ptr().cast(), Node::free_from_c);
        }
        self.calls += 1;
        if self.calls == CALLS_PER_POLL {
            self.calls = 0;
            // SAFETY: the record is this thread's, and the thread is in no section.
            unsafe { percolog_bench_ck_epoch_poll(self.member) };
        }
    }
}
