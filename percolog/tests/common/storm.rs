//! Storms: random calls by threads that come and go, of structures full of values whose code panics.

use crate::common::alive::{Alive, Value};
#[cfg(unix)]
use crate::common::child::{check, in_a_child};
use crate::common::seed::seed;
use crate::common::share::share;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

pub(crate) const KEYS: u64 = 40;

/// What a storm's panics carry.
struct AsAsked;

/// Panics without a message, which takes no lock: a forked child may do so, too.
pub(crate) fn fail() -> ! {
    resume_unwind(Box::new(AsAsked))
}

pub(crate) fn maybe_fail(chance: &mut fastrand::Rng) {
    if chance.u8(..16) == 0 {
        fail();
    }
}

/// Whether a panic is one of a storm's, or tells of one that came before.
fn is_expected(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    panic.is::<AsAsked>() || text.is_some_and(|text| text.contains("poison"))
}

/// Whether `f` panics as it may. Any other panic goes on.
pub(crate) fn fails<R>(f: impl FnOnce() -> R) -> bool {
    let outcome = catch_unwind(AssertUnwindSafe(|| drop(f())));
    outcome.is_err_and(|panic| is_expected(&*panic) || resume_unwind(panic))
}

thread_local! {
    /// The call of a [`Part`]'s code that panics, counted from now; none at zero.
    static FAILS_IN: Cell<u32> = const { Cell::new(0) };
}

/// Runs `f` with parts that may panic while they are hashed, compared and cloned.
pub(crate) fn with_failing_parts<R>(chance: &mut fastrand::Rng, f: impl FnOnce() -> R) -> R {
    struct NoMore;
    impl Drop for NoMore {
        fn drop(&mut self) {
            FAILS_IN.set(0);
        }
    }
    let _no_more = NoMore;
    FAILS_IN.set(chance.u32(..12));
    f()
}

/// A value that is counted, whose destructor panics for some numbers, and other code where [it is told to](with_failing_parts).
pub(crate) struct Part(Value);

impl Part {
    pub(crate) fn new(alive: &Alive, number: u64) -> Self {
        Self(alive.value(number))
    }

    pub(crate) fn number(&self) -> u64 {
        self.0.number()
    }

    /// One more of the same number, counted with this one.
    pub(crate) fn another(&self) -> Self {
        Self(self.0.another())
    }

    fn code(&self) -> u64 {
        let fails_in = FAILS_IN.get();
        FAILS_IN.set(fails_in.saturating_sub(1));
        if fails_in == 1 && !thread::panicking() {
            fail();
        }
        self.0.number()
    }
}

impl Clone for Part {
    fn clone(&self) -> Self {
        self.code();
        self.another()
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.code() == other.0.number()
    }
}

impl Eq for Part {}

impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.code().hash(state);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A second panic while one unwinds would end the process, whose ever it is.
        if self.0.number() % 8 == 3 && !thread::panicking() {
            fail();
        }
    }
}

/// What a thread does in its last moments.
pub(crate) struct Last<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Last<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs `step` on several threads, each of which ends after a while and has a successor. What `keep` makes stays in a thread-local
/// until the thread ends.
pub(crate) fn storm<K: 'static>(
    keep: impl Fn(&mut fastrand::Rng) -> K + Sync,
    step: impl Fn(u64, &mut fastrand::Rng) + Sync,
) {
    run(keep, step, false);
}

/// The same, and now and then the process forks: the child does some steps and exits.
pub(crate) fn storm_with_forks<K: 'static>(
    keep: impl Fn(&mut fastrand::Rng) -> K + Sync,
    step: impl Fn(u64, &mut fastrand::Rng) + Sync,
) {
    run(keep, step, true);
}

fn run<K: 'static>(
    keep: impl Fn(&mut fastrand::Rng) -> K + Sync,
    step: impl Fn(u64, &mut fastrand::Rng) + Sync,
    forks: bool,
) {
    thread_local! {
        static KEPT: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }
    let mut chance = fastrand::Rng::with_seed(seed());
    let go_on = |steps: usize, chance: &mut fastrand::Rng| {
        for _ in 0..steps {
            let key = chance.u64(..KEYS);
            fails(|| step(key, chance));
        }
    };
    #[cfg(not(unix))]
    let _ = forks;
    let live = |mut chance: fastrand::Rng| {
        if chance.bool() {
            // Its destructor runs after those of what the steps use first.
            KEPT.with(|_| ());
        }
        go_on(share(350), &mut chance);
        #[cfg(unix)]
        if forks {
            in_a_child(|| {
                let outcome = catch_unwind(AssertUnwindSafe(|| go_on(100, &mut chance)));
                check(outcome.is_ok(), 1)
            });
        }
        go_on(share(350), &mut chance);
        KEPT.set(Some(Box::new(keep(&mut chance))));
        go_on(share(100), &mut chance);
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            let (live, mut chance) = (&live, chance.fork());
            scope.spawn(move || {
                for _ in 0..4 {
                    let chance = chance.fork();
                    // Joined, so that the thread's destructors have run.
                    thread::scope(|scope| {
                        let life = scope.spawn(move || live(chance));
                        life.join().unwrap_or_else(|panic| resume_unwind(panic));
                    });
                }
            });
        }
    });
}
