//! [`percolog::reclaim`], as it comes and in the variants that show what its parts are worth.

use std::marker::PhantomData;
use std::ptr::NonNull;

use percolog::reclaim::{Domain, DomainOptions, Optimizations};

use crate::reclaim::node::Node;
use crate::reclaim::{Handle, Reclaimer};

/// A way to configure a domain.
pub trait Variant: Send + Sync + 'static {
    /// How tables call it.
    const NAME: &'static str;

    /// Its options.
    const OPTIONS: DomainOptions;
}

macro_rules! variants {
    ($($(#[$attribute:meta])* $variant:ident, $name:literal, $options:expr;)*) => {$(
        $(#[$attribute])*
        #[derive(Debug)]
        pub enum $variant {}

        impl Variant for $variant {
            const NAME: &'static str = $name;
            const OPTIONS: DomainOptions = $options;
        }
    )*};
}

variants! {
    /// As it comes: the coarse clock, and `membarrier` where the kernel has it.
    Coarse, "percolog", DomainOptions::new();
    /// With a fence in every section.
    Fenced, "percolog, fenced", DomainOptions::new().fenced();
    /// With the time stamp counter, as the paper has it.
    Tsc, "percolog, TSC", BY_TSC;
    /// With both: nothing but what the paper's machine had.
    TscFenced, "percolog, TSC, fenced", BY_TSC.fenced();
    /// Without the first optimization: leaving reads the clock.
    ClockAtExit, "percolog, TSC, clock at exit", without(BY_TSC, 1);
    /// Without the second: each thread finds out for itself.
    NotBorrowing, "percolog, not borrowing", without(DomainOptions::new(), 2);
    /// Without the third: each scan looks at each thread.
    Forgetting, "percolog, forgetting threads", without(DomainOptions::new(), 3);
    /// Without the fourth: each scan begins with the first thread.
    ScansInOrder, "percolog, scans in one order", without(DomainOptions::new(), 4);
}

/// With the paper's clock.
// SAFETY: the machines that this is measured on, and the simulated ones, have synchronized counters; where the kernel keeps
// time by something else the clock is coarse.
const BY_TSC: DomainOptions = unsafe { DomainOptions::new().tsc() };

/// The options with one of the paper's optimizations turned off.
const fn without(options: DomainOptions, optimization: u8) -> DomainOptions {
    let mut optimizations = Optimizations::ALL;
    match optimization {
        1 => optimizations.exit_without_clock = false,
        2 => optimizations.borrow_quiescence = false,
        3 => optimizations.remember_threads = false,
        _ => optimizations.spread_scans = false,
    }
    options.optimizations(optimizations)
}

/// How often `finish` looks, at most: what is not freed then has been lost, which the account shows.
const ROUNDS: usize = 10_000;

/// A domain.
#[derive(Debug)]
pub struct Percolog<V> {
    domain: Domain,
    variant: PhantomData<V>,
}

impl<V: Variant> Reclaimer for Percolog<V> {
    const NAME: &'static str = V::NAME;
    const WAITS: bool = false;
    type Handle<'r> = PercologHandle<'r>;

    fn new() -> Self {
        Self {
            domain: Domain::with(V::OPTIONS),
            variant: PhantomData,
        }
    }

    fn register(&self) -> PercologHandle<'_> {
        PercologHandle(&self.domain)
    }

    fn finish(&self) {
        // Takes over what threads have left that have ended, and stamps it: with the time stamp counter, what is
        // stamped now is not quiescent at once, although no section is open. Again while a thread that is just ending is
        // about it: nobody waits for that.
        for _ in 0..ROUNDS {
            self.domain.collect();
            self.domain.synchronize();
            self.domain.collect();
            if self.domain.stats().unreclaimed == 0 {
                break;
            }
            std::thread::yield_now();
        }
    }
}

/// One thread's access; the domain finds the thread's record by itself.
#[derive(Debug)]
pub struct PercologHandle<'r>(&'r Domain);

impl Handle for PercologHandle<'_> {
    #[inline]
    fn section<T>(&mut self, inside: impl FnOnce() -> T) -> T {
        let section = self.0.enter();
        let result = inside();
        drop(section);
        result
    }

    #[inline]
    unsafe fn retire(&mut self, node: NonNull<Node>) {
        // SAFETY: no section that begins later can find it; it is retired once, and any thread may free it.
        unsafe { self.0.retire_with(node.as_ptr(), free) };
    }
}

/// # Safety
/// As for [`Node::free`].
unsafe fn free(node: *mut Node) {
    // SAFETY: not null, as it came from a `NonNull`, and as the caller promises.
    unsafe { Node::free(NonNull::new_unchecked(node)) };
}
