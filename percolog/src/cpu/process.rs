//! What a process does once in a while, and what is left of it after `fork`.
//!
//! A forked child has one thread: the one that called `fork`. Everything the others were about to do
//! stays undone for ever, and a lock that one of them held is held for ever. Three things make that
//! harmless here:
//!
//! * **One lock for rare steps** ([`rarely`], [`try_rarely`]): registering a thread, its exit, parking.
//!   `fork` itself takes it before the process is copied, and lets it go in both copies; so a child
//!   finds it free and what it guards whole. (`pthread_atfork`; registered by the first use.)
//! * **What `fork` waits for** ([`undivided`](super::undivided)), where more is done than the lock is for.
//! * **A generation** ([`generation`]): a number that is one larger in a child than in its parent. Who
//!   remembers the one it was made in knows which threads there are not any more.
//!
//! Inside a rare step nothing may run that could call `fork`, come here again or take long: no user
//! code, and so no destructor, no closure of a user, and no allocation in a program whose allocator
//! is built on percolog. A signal handler may not come here.
//!
//! A `fork` that has begun before the process's first use of percolog finds no handlers. It waits for nobody,
//! and its child must not use an object that another thread used for the first time meanwhile.
//!
//! Handlers of `pthread_atfork` that others registered may use percolog: while `fork` holds the lock,
//! the forking thread is the lock's owner, and its rare steps go ahead.
//!
//! Not noticed, and no child to run percolog in: `vfork`, `_Fork`, and a bare `clone` system call,
//! which run no handlers. What they start may `exec` or `_exit`.
//!
//! The lock is a [`SlotLock`] because it must be let go by another process than the one that it was
//! taken in: its whole state is one word, and its waiters look again by themselves, so the child has no
//! queue of sleepers to be told that do not exist there.
//!
//! Below no operating system, and where there is no `fork`, this is a plain lock, and the generation
//! stays 0.

use crate::sync::SlotLock;

static RARE: SlotLock<()> = SlotLock::new(());

/// Runs a rare step, alone in the process. See the [module](self) for what it may do.
///
/// *Progress:* blocking.
pub(crate) fn rarely<R>(step: impl FnOnce() -> R) -> R {
    #[cfg(all(feature = "std", unix))]
    if forks::prepared() {
        return step();
    }
    let _alone = RARE.lock();
    step()
}

/// Runs a rare step, alone in the process, or does nothing if another is being made.
///
/// *Progress:* lock-free: gives up after a brief time.
pub(crate) fn try_rarely<R>(step: impl FnOnce() -> R) -> Option<R> {
    #[cfg(all(feature = "std", unix))]
    if forks::prepared() {
        return Some(step());
    }
    let _alone = RARE.lock_briefly()?;
    Some(step())
}

/// What a room does around every `fork`: `before` it, so that the child finds the room whole and its locks free, and `after` it
/// in both processes. `after` is told whether it runs in the child.
///
/// Both run on the forking thread, as rare steps: see the [module](self) for what they may do.
#[derive(Debug)]
#[cfg_attr(
    not(all(feature = "std", unix)),
    allow(dead_code, reason = "nobody forks there")
)]
pub(crate) struct AroundForks {
    pub(crate) before: fn(),
    pub(crate) after: fn(bool),
}

/// Has something done around every `fork` from here on. Said by each room before it is in use, as often as it likes.
///
/// *Cost:* a few loads of lines that nobody writes, after the first time.
pub(crate) fn around_forks(room: &'static AroundForks) {
    #[cfg(all(feature = "std", unix))]
    if !forks::has(room) {
        rarely(|| forks::add(room));
    }
    #[cfg(not(all(feature = "std", unix)))]
    let _ = room;
}

/// The number of this process among its forked ancestors: a child's is its parent's plus one.
///
/// *Progress:* wait-free. *Cost:* one load of a line that nobody writes; the first call registers the
/// handlers.
#[inline]
pub(crate) fn generation() -> u64 {
    #[cfg(all(feature = "std", unix))]
    return forks::generation();
    #[cfg(not(all(feature = "std", unix)))]
    0
}

/// Whether the calling thread is in the middle of a `fork`, with others kept from what that waits for. Registers the
/// handlers of `fork`.
#[cfg(all(feature = "std", unix))]
pub(super) fn is_forking_here() -> bool {
    forks::prepared()
}

/// A number for the calling thread that no other thread of this process or of its ancestors has ever had,
/// and that `fork` leaves as it is; not zero. Where there is no `fork`, it is the same for all.
#[cfg(feature = "alloc")]
pub(crate) fn this_thread() -> u64 {
    #[cfg(all(feature = "std", unix))]
    return forks::this_thread();
    #[cfg(not(all(feature = "std", unix)))]
    1
}

/// The thread that is left of the parent's in the newest child: its [`this_thread`]. Zero in a process
/// that was not forked.
#[cfg(feature = "alloc")]
pub(crate) fn survivor() -> u64 {
    #[cfg(all(feature = "std", unix))]
    return forks::survivor();
    #[cfg(not(all(feature = "std", unix)))]
    0
}

#[cfg(all(feature = "std", unix))]
mod forks {
    //! The handlers of `pthread_atfork`.

    use super::super::{lease, undivided};
    use super::{AroundForks, RARE};
    use crate::sync::atomic::AtomicPtr;
    use crate::sync::global::{AtomicU64, Ordering};
    use core::cell::Cell;
    use core::ptr;

    /// Rooms that do something around forks.
    static ROOMS: [AtomicPtr<AroundForks>; 4] = [const { AtomicPtr::new(ptr::null_mut()) }; 4];

    fn rooms() -> impl DoubleEndedIterator<Item = &'static AroundForks> {
        ROOMS.iter().filter_map(|room| {
            // Acquire pairs with the Release in `add`, though both hold the lock.
            // SAFETY: `add` puts nothing there but references for ever.
            unsafe { room.load(Ordering::Acquire).as_ref() }
        })
    }

    pub(super) fn has(room: &'static AroundForks) -> bool {
        rooms().any(|there| ptr::eq(there, room))
    }

    /// The caller holds the lock.
    pub(super) fn add(room: &'static AroundForks) {
        let new = ptr::from_ref(room).cast_mut();
        for place in &ROOMS {
            let there = place.load(Ordering::Acquire);
            if there == new {
                return;
            }
            if there.is_null() {
                return place.store(new, Ordering::Release);
            }
        }
        unreachable!("there are fewer rooms than places");
    }

    /// 0 until the handlers are registered, then 1, and one more in every child.
    static GENERATION: AtomicU64 = AtomicU64::new(0);

    /// The thread that called `fork`, in a child.
    static SURVIVOR: AtomicU64 = AtomicU64::new(0);

    /// The number of the next thread that asks for one.
    static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

    std::thread_local! {
        /// The thread's number; zero before it has asked.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
        /// How many of our handlers have prepared the `fork` that this thread is calling. Two threads
        /// that come first together both register, so it can be more than one; the lock is taken by
        /// the first. It has no destructor, and so can be used in a thread's last moments.
        static PREPARED: Cell<u32> = const { Cell::new(0) };
    }

    /// Threads are numbered as they ask; the one that forks keeps its number.
    pub(super) fn this_thread() -> u64 {
        match NUMBER.get() {
            0 => {
                // Relaxed: every addition gives another number.
                let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
                NUMBER.set(number);
                number
            }
            number => number,
        }
    }

    pub(super) fn survivor() -> u64 {
        // Relaxed: in a child nobody else ran when it was changed.
        SURVIVOR.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn generation() -> u64 {
        // Relaxed: in a child nobody else ran when it was changed.
        match GENERATION.load(Ordering::Relaxed) {
            0 => register(),
            generation => generation,
        }
    }

    /// Whether this thread is calling `fork` and holds the lock for it. Registers the handlers, for
    /// who is about to take the lock.
    pub(super) fn prepared() -> bool {
        let _ = generation();
        PREPARED.get() != 0
    }

    /// Registers the handlers. There is no lock and no `Once` around it that a child could inherit
    /// taken: registered twice they do no harm. The C library lets nobody register between a `fork`'s
    /// first handler and its last, so no `fork` runs a part of them, or none while the lock is taken.
    #[cold]
    fn register() -> u64 {
        // SAFETY: the handlers are functions of the program's whole life, and do nothing that is not
        // allowed in a child: an atomic, a cell of the thread, and in `prepare` waiting.
        let refused = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        if refused != 0 {
            // No memory. The next call tries again; until then a child is taken for its parent.
            return 0;
        }
        // Relaxed: see `generation`. A child that was forked meanwhile has 1 or more already.
        match GENERATION.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => 1,
            Err(generation) => generation,
        }
    }

    unsafe extern "C" fn prepare() {
        let prepared = PREPARED.get();
        if prepared == 0 {
            // First: others make rare steps in the middle of what this waits for.
            undivided::hold();
            RARE.lock().keep();
        }
        PREPARED.set(prepared + 1);
        if prepared == 0 {
            rooms().for_each(|room| (room.before)());
        }
    }

    /// Undoes one `prepare`; whether it was the last.
    fn done() -> bool {
        let prepared = PREPARED.get();
        PREPARED.set(prepared.saturating_sub(1));
        prepared == 1
    }

    fn release(is_child: bool) {
        rooms().rev().for_each(|room| (room.after)(is_child));
        // SAFETY: both kept by the first `prepare` on this thread, and resumed after the last only.
        unsafe {
            drop(RARE.resume());
            undivided::go_on(is_child);
        }
    }

    unsafe extern "C" fn parent() {
        if done() {
            release(false);
        }
    }

    unsafe extern "C" fn child() {
        if done() {
            // Relaxed: this is the only thread of the process.
            GENERATION.fetch_add(1, Ordering::Relaxed);
            SURVIVOR.store(this_thread(), Ordering::Relaxed);
            lease::only_mine_is_left();
            release(true);
        }
    }

    #[cfg(test)]
    pub(super) fn register_again() {
        register();
    }
}

/// Which tests run beside a `fork`: it makes operations of other threads take their rare ways, which a test of exactly
/// what each does must not count.
#[cfg(all(test, feature = "std"))]
#[cfg_attr(
    any(not(unix), percolog_loom),
    allow(dead_code, reason = "nobody forks there")
)]
pub(crate) mod in_tests {
    use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

    static FORKS: RwLock<()> = RwLock::new(());

    /// Held by a test that forks, in the parent.
    pub(crate) fn forking() -> RwLockWriteGuard<'static, ()> {
        FORKS.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held by a test that no `fork` may disturb.
    pub(crate) fn undisturbed() -> RwLockReadGuard<'static, ()> {
        FORKS.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forks and runs `child` there; whether it said yes within half a minute. (A lock that was
    /// inherited taken shows as a child ended by its alarm.)
    #[cfg(all(unix, not(miri)))]
    pub(crate) fn succeeds(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only runs `child`, which takes no lock but ours and does not panic (it may allocate: the C libraries
        // that there are allow that), and leaves by `_exit`.
        unsafe {
            match libc::fork() {
                -1 => false,
                0 => {
                    libc::alarm(30);
                    libc::_exit(if child() { 0 } else { 1 });
                }
                pid => {
                    let mut status = 0;
                    libc::waitpid(pid, &raw mut status, 0) == pid
                        && libc::WIFEXITED(status)
                        && libc::WEXITSTATUS(status) == 0
                }
            }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::sync::global::{AtomicUsize, Ordering};

    /// Runs the named test of this file in a process of its own, where it may keep the lock busy without
    /// holding up the tests that run beside it. `false` in that process, which goes on with the test.
    fn elsewhere(name: &str) -> bool {
        const VARIABLE: &str = "PERCOLOG_TEST_ALONE";
        if std::env::var_os(VARIABLE).is_some() {
            return false;
        }
        let program = std::env::current_exe().expect("it runs");
        // The system cannot start an emulated program by itself: whoever emulates this one says how.
        let emulator = std::env::var("PERCOLOG_TEST_EMULATOR").unwrap_or_default();
        let mut words: std::vec::Vec<&std::ffi::OsStr> =
            emulator.split_whitespace().map(AsRef::as_ref).collect();
        words.push(program.as_os_str());
        let output = std::process::Command::new(words[0])
            .args(&words[1..])
            .args(["--exact", "--nocapture", name])
            .env(VARIABLE, "1")
            .output()
            .expect("it starts");
        let said = std::string::String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}{}",
            std::string::String::from_utf8_lossy(&output.stderr)
        );
        true
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no programs")]
    fn rare_steps_exclude_each_other() {
        if elsewhere("cpu::process::tests::rare_steps_exclude_each_other") {
            return;
        }
        static INSIDE: AtomicUsize = AtomicUsize::new(0);
        let step = || {
            assert_eq!(INSIDE.fetch_add(1, Ordering::Relaxed), 0);
            std::thread::yield_now();
            assert_eq!(INSIDE.fetch_sub(1, Ordering::Relaxed), 1);
        };
        let made: usize = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| {
                scope.spawn(|| {
                    (0..500)
                        .map(|_| {
                            rarely(step);
                            usize::from(try_rarely(step).is_some())
                        })
                        .sum::<usize>()
                })
            });
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .sum()
        });
        assert!(made > 0, "a step that is tried is made now and then");
    }

    #[test]
    fn a_step_that_panics_leaves_the_lock_free() {
        let panicked = std::panic::catch_unwind(|| rarely(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(rarely(|| 7), 7);
    }

    // Miri has no `fork`.
    #[cfg(all(unix, not(miri)))]
    mod forked {
        use super::super::in_tests::{forking, succeeds};
        use super::*;

        /// Forks and runs `child` there, as [`succeeds`] says, while no test runs that a fork would disturb.
        fn succeeds_in_a_child(child: impl FnOnce() -> bool) -> bool {
            let _forks = forking();
            succeeds(child)
        }

        #[test]
        fn a_child_finds_the_lock_free_and_is_of_the_next_generation() {
            if elsewhere(
                "cpu::process::tests::forked::a_child_finds_the_lock_free_and_is_of_the_next_generation",
            ) {
                return;
            }
            /// Ends the other thread, also when an assertion fails.
            struct AtTheEnd<'a>(&'a AtomicUsize);
            impl Drop for AtTheEnd<'_> {
                fn drop(&mut self) {
                    self.0.store(1, Ordering::Relaxed);
                }
            }
            let over = AtomicUsize::new(0);
            // Equal whenever no rare step is being made.
            let both = [const { AtomicUsize::new(0) }; 2];
            std::thread::scope(|scope| {
                let _end = AtTheEnd(&over);
                // Holds the lock nearly all the time: most forks find it taken.
                scope.spawn(|| {
                    while over.load(Ordering::Relaxed) == 0 {
                        rarely(|| {
                            both[0].fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                            both[1].fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
                for _ in 0..50 {
                    let parents = generation();
                    assert!(succeeds_in_a_child(|| {
                        let [first, second] = [0, 1].map(|at| both[at].load(Ordering::Relaxed));
                        first == second
                            && try_rarely(|| ()).is_some()
                            && rarely(generation) == parents + 1
                    }));
                    assert_eq!(generation(), parents);
                }
            });
        }

        #[test]
        fn a_grandchild_is_one_generation_further() {
            let mine = generation();
            assert!(succeeds_in_a_child(|| {
                succeeds(|| rarely(generation) == mine + 2) && rarely(generation) == mine + 1
            }));
        }

        #[test]
        fn handlers_registered_twice_do_no_harm() {
            forks::register_again();
            let mine = generation();
            assert!(succeeds_in_a_child(|| rarely(generation) == mine + 1));
            assert_eq!(rarely(generation), mine);
        }

        /// A handler of somebody else's that runs while `fork` holds the lock, on both sides of it.
        #[test]
        fn handlers_of_others_may_make_rare_steps() {
            static MADE: AtomicUsize = AtomicUsize::new(0);
            unsafe extern "C" fn step() {
                rarely(|| MADE.fetch_add(1, Ordering::Relaxed));
            }
            // SAFETY: the handler is a function of the program's whole life.
            let refused = unsafe { libc::pthread_atfork(Some(step), Some(step), Some(step)) };
            assert_eq!(refused, 0);
            // Ours again: they prepare before those registered earlier, and finish after them.
            forks::register_again();
            let before = MADE.load(Ordering::Relaxed);
            assert!(succeeds_in_a_child(|| {
                MADE.load(Ordering::Relaxed) >= before + 2
            }));
            assert!(MADE.load(Ordering::Relaxed) >= before + 2);
        }
    }
}
