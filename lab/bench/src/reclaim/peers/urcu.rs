//! liburcu, the reclaimer of programs in C, in two flavours and two ways to update.
//!
//! *memb* is its default flavour: readers have no fence, the update's side uses `membarrier`. *mb* has fences on both
//! sides, as on kernels without `membarrier`. *QSBR* is left out: its readers have to be told when they are quiescent,
//! so a section would cost nothing and mean nothing; so is *signal*, as in the paper.
//!
//! `synchronize_rcu` waits for a grace period and then frees; `call_rcu` hands the object to a thread of the library,
//! which frees it after one: one such thread for the process, as programs have it that ask for nothing else. It goes on
//! for as long as the process, and its domain is the process's: `rcu_barrier` waits for the objects of all runs.

use std::ffi::{c_ulong, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::reclaim::node::Node;
use crate::reclaim::{Handle, Reclaimer};

/// What a reclaimer in C calls to free an object.
type End = unsafe extern "C" fn(*mut c_void);

/// The functions of one flavour, as `shim/urcu.h` defines them.
pub trait Flavour: Send + Sync + 'static {
    /// How tables call it with `call_rcu`.
    const CALL: &'static str;
    /// How tables call it with `synchronize_rcu`.
    const WAIT: &'static str;

    /// Registers the calling thread.
    ///
    /// # Safety
    /// It is not registered.
    unsafe fn register();

    /// Undoes [`register`](Self::register).
    ///
    /// # Safety
    /// The thread is registered, and in no section.
    unsafe fn unregister();

    /// Begins a section.
    ///
    /// # Safety
    /// The thread is registered.
    unsafe fn enter();

    /// Ends a section.
    ///
    /// # Safety
    /// The thread is in one.
    unsafe fn leave();

    /// Empty sections.
    ///
    /// # Safety
    /// The thread is registered.
    unsafe fn read(count: c_ulong);

    /// Calls `end` with `object` after a grace period.
    ///
    /// # Safety
    /// The thread is registered, and the object begins with 16 bytes for the library's use.
    unsafe fn call(object: *mut c_void, end: End);

    /// Waits for a grace period.
    ///
    /// # Safety
    /// The thread is in no section.
    unsafe fn wait();

    /// Waits for every [`call`](Self::call).
    ///
    /// # Safety
    /// The thread is in no section.
    unsafe fn finish();
}

macro_rules! flavour {
    (
        $(#[$attribute:meta])*
        $flavour:ident, $call:literal, $wait:literal,
        $register:ident $unregister:ident $enter:ident $leave:ident $read:ident $call_one:ident $wait_for:ident $finish:ident
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub enum $flavour {}

        // They are in no library of their own: the build script says where the linker finds them.
        unsafe extern "C" {
            fn $register();
            fn $unregister();
            fn $enter();
            fn $leave();
            fn $read(count: c_ulong);
            fn $call_one(object: *mut c_void, end: End);
            fn $wait_for();
            fn $finish();
        }

        impl Flavour for $flavour {
            const CALL: &'static str = $call;
            const WAIT: &'static str = $wait;

            unsafe fn register() {
                // SAFETY: as the caller promises; so for all of them.
                unsafe { $register() }
            }

            unsafe fn unregister() {
                // SAFETY: see above.
                unsafe { $unregister() }
            }

            #[inline]
            unsafe fn enter() {
                // SAFETY: see above.
                unsafe { $enter() }
            }

            #[inline]
            unsafe fn leave() {
                // SAFETY: see above.
                unsafe { $leave() }
            }

            #[inline]
            unsafe fn read(count: c_ulong) {
                // SAFETY: see above.
                unsafe { $read(count) }
            }

            #[inline]
            unsafe fn call(object: *mut c_void, end: End) {
                // SAFETY: see above.
                unsafe { $call_one(object, end) }
            }

            #[inline]
            unsafe fn wait() {
                // SAFETY: see above.
                unsafe { $wait_for() }
            }

            unsafe fn finish() {
                // SAFETY: see above.
                unsafe { $finish() }
            }
        }
    };
}

flavour! {
    /// Readers without fences, `membarrier` where grace periods are waited for.
    Memb, "liburcu memb, call_rcu", "liburcu memb, synchronize_rcu",
    percolog_bench_urcu_memb_register percolog_bench_urcu_memb_unregister
    percolog_bench_urcu_memb_enter percolog_bench_urcu_memb_leave percolog_bench_urcu_memb_read
    percolog_bench_urcu_memb_call percolog_bench_urcu_memb_wait percolog_bench_urcu_memb_finish
}

flavour! {
    /// Fences on both sides.
    Mb, "liburcu mb, call_rcu", "liburcu mb, synchronize_rcu",
    percolog_bench_urcu_mb_register percolog_bench_urcu_mb_unregister
    percolog_bench_urcu_mb_enter percolog_bench_urcu_mb_leave percolog_bench_urcu_mb_read
    percolog_bench_urcu_mb_call percolog_bench_urcu_mb_wait percolog_bench_urcu_mb_finish
}

/// A flavour with `call_rcu`, or (`WAITS`) with `synchronize_rcu`.
#[derive(Debug)]
pub struct Urcu<F, const WAITS: bool>(PhantomData<F>);

/// `Memb` with `call_rcu`.
pub type UrcuMembCall = Urcu<Memb, false>;
/// `Memb` with `synchronize_rcu`.
pub type UrcuMembWait = Urcu<Memb, true>;
/// `Mb` with `call_rcu`.
pub type UrcuMbCall = Urcu<Mb, false>;
/// `Mb` with `synchronize_rcu`.
pub type UrcuMbWait = Urcu<Mb, true>;

impl<F: Flavour, const WAITS: bool> Reclaimer for Urcu<F, WAITS> {
    const NAME: &'static str = if WAITS { F::WAIT } else { F::CALL };
    const WAITS: bool = WAITS;
    type Handle<'r> = UrcuHandle<F, WAITS>;

    fn new() -> Self {
        Self(PhantomData)
    }

    fn register(&self) -> UrcuHandle<F, WAITS> {
        // SAFETY: the threads of the runs are made for them and make one handle each.
        unsafe { F::register() };
        UrcuHandle(PhantomData)
    }

    fn finish(&self) {
        if !WAITS {
            // SAFETY: handles are gone, and so no section is open on this thread.
            unsafe { F::finish() };
        }
    }
}

/// A registered thread; it unregisters when dropped, on the same thread: pointers keep it from being sent.
#[derive(Debug)]
pub struct UrcuHandle<F: Flavour, const WAITS: bool>(PhantomData<(F, *mut ())>);

impl<F: Flavour, const WAITS: bool> Handle for UrcuHandle<F, WAITS> {
    #[inline]
    fn section<T>(&mut self, inside: impl FnOnce() -> T) -> T {
        // SAFETY: the handle's thread is registered.
        unsafe { F::enter() };
        let result = inside();
        // SAFETY: it has just entered.
        unsafe { F::leave() };
        result
    }

    #[inline]
    fn read(&mut self) {
        self.reads(1);
    }

    #[inline]
    fn reads(&mut self, count: u64) {
        // SAFETY: the handle's thread is registered.
        unsafe { F::read(count as c_ulong) };
    }

    #[inline]
    unsafe fn retire(&mut self, node: NonNull<Node>) {
        if WAITS {
            // SAFETY: the caller's thread is in no section, and after the wait no section can see the node.
            unsafe {
                F::wait();
                Node::free(node);
            }
        } else {
            // SAFETY: a node begins with that room, and nobody else uses it; it may be freed after a grace period.
            unsafe { F::call(node.as_ptr().cast(), Node::free_from_c) };
        }
    }
}

impl<F: Flavour, const WAITS: bool> Drop for UrcuHandle<F, WAITS> {
    fn drop(&mut self) {
        // SAFETY: registered when the handle was made, on this thread, and sections end before the handle is free.
        unsafe { F::unregister() };
    }
}
