//! What a `fork` must not cut in two.
//!
//! A child has what other threads had written when the process was copied, and none of those threads: what one of them was
//! in the middle of stays half done, and a lock that it had stays taken. So `fork` waits until nobody is in the middle of
//! anything of this kind, and nobody begins before the process is copied:
//!
//! * **Steps** ([`undivided`]): reads of many places, changes of more than one word, use of what a plain lock guards. Each
//!   costs two atomic updates of a line that hardly any other thread writes, so they are slow by themselves, and keep nobody
//!   else waiting.
//! * **Locks that cost their owners nothing** ([`enlist`]): `fork` [holds](BiasedLock::hold) all of them, and waits until
//!   their owners are out.
//! * **Changes that look themselves** ([`is_forking`]), of rooms that wait for them
//!   [before a fork](super::process::around_forks).
//!
//! Steps may run code of users, and what a lock guards is changed by code of users. Such code begins steps and enters locks
//! itself, and must not wait for a `fork` that waits for its thread. So who [is inside](is_inside) of something comes in
//! everywhere, and only who begins with nothing waits.
//!
//! *Why nobody is inside in the end.* Once all locks are held, the barrier is passed, and steps have to wait, `fork` looks at
//! all locks until it finds each left, and then at the number of steps. Take a thread that is inside of something later. The
//! outermost of what it is inside of was begun before. If that is a lock, it was found left, and so was over; if it is a step, it
//! was counted. (Each thread counts its steps in one place of several. A place is found to have none after the locks were
//! looked at; from then on whoever counts there does so for a moment, to find out that it has to wait. So it does not matter that
//! the places are looked at one after the other.)
//!
//! Only then does `fork` take the lock of [rare steps](super::process), whose holders do nothing of this.
//!
//! A `fork` does not wait for its own thread: what that is in the middle of, it goes on with on both sides. (Two threads that
//! fork in the middle of something wait for each other for ever. And where the C library calls the handlers with a lock of its own,
//! as musl does, so do two of which only one is in the middle of something: it waits for that lock, and the other one for it.)
//!
//! If the kernel refuses the barrier that it had offered, time [takes its place](super::barrier::heavy_before_a_fork).

#[cfg(all(feature = "std", unix, not(percolog_loom)))]
pub(crate) use forks::{Step, discharge, enlist, is_forking, is_inside, undivided};
#[cfg(all(feature = "std", unix, not(percolog_loom)))]
pub(super) use forks::{go_on, hold, is_inside_with, with_inside, with_late};
#[cfg(not(all(feature = "std", unix, not(percolog_loom))))]
pub(super) use none::with_late;
#[cfg(not(all(feature = "std", unix, not(percolog_loom))))]
pub(crate) use none::{Step, discharge, enlist, is_forking, is_inside, undivided};

#[cfg(not(all(feature = "std", unix, not(percolog_loom))))]
mod none {
    //! Where there is no `fork`.

    use crate::cpu::biased_lock::BiasedLock;
    use core::marker::PhantomData;

    /// A step. It stays with its thread, as where there is a `fork`.
    #[derive(Debug)]
    pub(crate) struct Step(PhantomData<*const ()>);

    impl Step {
        #[inline]
        pub(crate) fn begin() -> Self {
            Self(PhantomData)
        }

        #[inline]
        pub(crate) fn keep(self) {}

        /// # Safety
        /// None, here.
        #[inline]
        pub(crate) unsafe fn resume() -> Self {
            Self(PhantomData)
        }

        /// It may be: steps are not counted here.
        #[cfg(all(feature = "std", not(percolog_loom)))]
        pub(crate) fn is_under_way() -> bool {
            true
        }
    }

    #[inline]
    pub(crate) fn undivided<R>(step: impl FnOnce() -> R) -> R {
        step()
    }

    #[inline]
    pub(crate) fn is_forking() -> bool {
        false
    }

    pub(crate) fn is_inside() -> bool {
        false
    }

    pub(in crate::cpu) fn with_late<R>(_f: impl FnOnce(usize) -> R) -> Option<R> {
        None
    }

    pub(crate) fn enlist<T>(_lock: &BiasedLock<T>, _lease: usize) {}

    pub(crate) fn discharge<'a, T: 'a>(_locks: impl Iterator<Item = &'a BiasedLock<T>>) {}
}

#[cfg(all(feature = "std", unix, not(percolog_loom)))]
mod forks {
    use crate::cpu::biased_lock::BiasedLock;
    use crate::cpu::{barrier, lease, process};
    use crate::sync::global::{AtomicBool, AtomicUsize, Ordering};
    use crate::sync::{Backoff, Isolated, SlotGuard, SlotLock};
    use alloc::collections::BTreeMap;
    use core::cell::Cell;
    use core::marker::PhantomData;
    use core::ptr::NonNull;

    /// The locks that a `fork` holds, with the leases of their owners. It keeps the list, too.
    static ENLISTED: SlotLock<BTreeMap<Lock, usize>> = SlotLock::new(BTreeMap::new());

    /// Whether somebody forks, or tries to, and steps have to wait.
    static FORKING: AtomicBool = AtomicBool::new(false);

    /// How many threads are in the middle of a step, or about to look whether they have to wait: the sum of all places.
    static STEPPING: [Isolated<AtomicUsize>; PLACES] =
        [const { Isolated::new(AtomicUsize::new(0)) }; PLACES];

    /// So many, in lines of their own: threads beyond this number have one in common, which costs speed.
    const PLACES: usize = 64;

    /// How many threads have been given a place.
    static PLACED: AtomicUsize = AtomicUsize::new(0);

    /// How many threads wait to fork in the middle of something that others wait for.
    static WAITING_INSIDE: AtomicUsize = AtomicUsize::new(0);

    std::thread_local! {
        /// How many steps of this thread are under way, one inside the other. It has no destructor, and so can be used in
        /// a thread's last moments.
        static DEPTH: Cell<usize> = const { Cell::new(0) };

        /// Where this thread counts its steps, once it has made one.
        static PLACE: Cell<usize> = const { Cell::new(PLACES) };
    }

    /// A lock, whatever it guards.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    struct Lock(NonNull<BiasedLock<()>>);

    // SAFETY: what it refers to is `Sync`.
    unsafe impl Send for Lock {}

    impl Lock {
        fn of<T>(lock: &BiasedLock<T>) -> Self {
            Self(NonNull::from(lock.words()))
        }

        fn get(&self) -> &BiasedLock<()> {
            // SAFETY: a lock is in the list only while it lives, and the list is looked at by who has it.
            unsafe { self.0.as_ref() }
        }
    }

    /// A step that no `fork` of another thread cuts in two, until this is dropped, by the thread that began it.
    #[derive(Debug)]
    pub(crate) struct Step {
        /// The depth is the thread's own.
        stays: PhantomData<*const ()>,
    }

    impl Step {
        /// *Progress:* blocking: waits for a `fork` under way.
        pub(crate) fn begin() -> Self {
            if DEPTH.get() == 0 {
                begin();
            }
            DEPTH.set(DEPTH.get() + 1);
            Self { stays: PhantomData }
        }

        /// Goes on beyond any scope, until [`resume`](Self::resume).
        pub(crate) fn keep(self) {
            core::mem::forget(self);
        }

        /// A step that this thread has begun and [kept](Self::keep).
        ///
        /// # Safety
        /// It was kept by this thread, and is resumed once.
        pub(crate) unsafe fn resume() -> Self {
            Self { stays: PhantomData }
        }

        /// Whether the calling thread is in the middle of a step.
        pub(crate) fn is_under_way() -> bool {
            DEPTH.get() != 0
        }
    }

    impl Drop for Step {
        fn drop(&mut self) {
            let depth = DEPTH.get() - 1;
            DEPTH.set(depth);
            if depth == 0 {
                // Release pairs with the load in `hold`: what the step did is seen by who forks.
                place().fetch_sub(1, Ordering::Release);
            }
        }
    }

    /// Where the calling thread counts its steps: always the same.
    fn place() -> &'static AtomicUsize {
        let mut place = PLACE.get();
        if place == PLACES {
            // Relaxed: any number will do.
            place = PLACED.fetch_add(1, Ordering::Relaxed) % PLACES;
            PLACE.set(place);
        }
        &STEPPING[place]
    }

    /// Runs a step that no `fork` of another thread cuts in two. It may run code of users, and steps inside the step.
    ///
    /// *Progress:* blocking: waits for a `fork` under way.
    pub(crate) fn undivided<R>(step: impl FnOnce() -> R) -> R {
        // Ends it also if it panics.
        let _step = Step::begin();
        step()
    }

    fn begin() {
        // Registers the handlers, if that has not been done.
        let _ = process::generation();
        let place = place();
        let mut backoff = Backoff::new();
        loop {
            // Sequentially consistent, both, and so are their partners in `hold`: either this thread sees that
            // somebody forks, or that one sees this thread.
            place.fetch_add(1, Ordering::SeqCst);
            if !FORKING.load(Ordering::SeqCst) || process::is_forking_here() {
                return;
            }
            // Relaxed: nothing was done.
            place.fetch_sub(1, Ordering::Relaxed);
            if is_inside() {
                // Who forks waits for what this is inside of, and looks at the steps after that.
                place.fetch_add(1, Ordering::SeqCst);
                return;
            }
            // Relaxed: looked at again above.
            while FORKING.load(Ordering::Relaxed) {
                backoff.wait();
            }
        }
    }

    /// Whether somebody forks, or tries to. Who asks has stored before that it is under way, with a light barrier between;
    /// the room passes a heavy one before each fork.
    #[inline]
    pub(crate) fn is_forking() -> bool {
        // Acquire pairs with the Release in `let_go`: in a child, what its parent's fork waited for is seen.
        FORKING.load(Ordering::Acquire)
    }

    /// The list, for a change of it.
    fn change<R>(change: impl FnOnce(&mut BTreeMap<Lock, usize>) -> R) -> R {
        if process::is_forking_here() {
            // SAFETY: this thread kept it in `hold`, and keeps it again; a change runs no code that comes here.
            let mut enlisted: SlotGuard<'_, _> = unsafe { ENLISTED.resume() };
            let result = change(enlisted.get());
            enlisted.keep();
            return result;
        }
        change(ENLISTED.lock().get())
    }

    /// From here on, each `fork` holds the lock, whose owner has this lease.
    ///
    /// The lock stays where it is until it is [discharged](discharge), and nobody enters it before this returns. Called in a
    /// [step](undivided), which has registered the handlers.
    pub(crate) fn enlist<T>(lock: &BiasedLock<T>, lease: usize) {
        change(|enlisted| {
            // Relaxed: who forks takes the list after it has said so.
            if FORKING.load(Ordering::Relaxed) && !process::is_forking_here() {
                lock.words().hold();
            }
            enlisted.insert(Lock::of(lock), lease);
        });
    }

    /// The locks are about to be destroyed.
    pub(crate) fn discharge<'a, T: 'a>(mut locks: impl Iterator<Item = &'a BiasedLock<T>>) {
        if let Some(first) = locks.next() {
            change(|enlisted| {
                enlisted.remove(&Lock::of(first));
                locks.for_each(|lock| {
                    enlisted.remove(&Lock::of(lock));
                });
            });
        }
    }

    /// Waits until no other thread is in the middle of anything, and keeps it so until [`go_on`], beyond any scope.
    pub(in crate::cpu) fn hold() {
        // Asked for before the list is taken: it is looked at for whoever gets a lease.
        let _ = lease::mine();
        let is_inside = is_inside();
        let mut backoff = Backoff::new();
        if is_inside {
            // Relaxed: a hint, looked at again and again.
            WAITING_INSIDE.fetch_add(1, Ordering::Relaxed);
        }
        // Sequentially consistent: see `begin`.
        while FORKING
            .compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed)
            .is_err()
        {
            backoff.wait();
        }
        if is_inside {
            // Relaxed: as above.
            WAITING_INSIDE.fetch_sub(1, Ordering::Relaxed);
        }
        others(ENLISTED.lock().get()).for_each(BiasedLock::hold);
        barrier::heavy_before_a_fork(barrier::mode());
        let own = usize::from(DEPTH.get() != 0);
        let mut backoff = Backoff::new();
        loop {
            let mut enlisted = ENLISTED.lock();
            // The locks first: see the module.
            if others(enlisted.get()).all(BiasedLock::is_left) && stepping() == own {
                return enlisted.keep();
            }
            if !is_inside && WAITING_INSIDE.load(Ordering::Relaxed) != 0 {
                // What is waited for waits for its turn to fork.
                let_go(enlisted.get());
                drop(enlisted);
                while WAITING_INSIDE.load(Ordering::Relaxed) != 0 {
                    backoff.wait();
                }
                return hold();
            }
            drop(enlisted);
            backoff.wait();
        }
    }

    fn stepping() -> usize {
        // Sequentially consistent: see `begin`.
        let counts = STEPPING.iter().map(|place| place.load(Ordering::SeqCst));
        counts.sum()
    }

    /// Whether the calling thread is in the middle of a step, or of a change under an enlisted lock. Who forks waits for it.
    pub(crate) fn is_inside() -> bool {
        if DEPTH.get() != 0 {
            return true;
        }
        // Asked for before the list is taken, as in `hold`.
        let mine = lease::mine();
        change(|enlisted| {
            mine.or_else(lease::late)
                .is_some_and(|mine| is_owned(enlisted, mine))
        })
    }

    /// Runs `f` with the lease that the calling thread still has for its guards, though it was to give it back.
    pub(in crate::cpu) fn with_late<R>(f: impl FnOnce(usize) -> R) -> Option<R> {
        // Hardly any thread has one. Asked for again below, where it is exact.
        lease::late()?;
        change(|_| lease::late().map(f))
    }

    fn is_owned(enlisted: &BTreeMap<Lock, usize>, by: usize) -> bool {
        enlisted
            .iter()
            .any(|(lock, lease)| *lease == by && lock.get().is_owned())
    }

    /// Whether the calling thread, which has this lease, is in the middle of a change under an enlisted lock.
    pub(in crate::cpu) fn is_inside_with(mine: usize) -> bool {
        change(|enlisted| is_owned(enlisted, mine))
    }

    /// Runs `f` with the leases of all threads that are in the middle of a change under an enlisted lock, one thread at a time.
    pub(in crate::cpu) fn with_inside<R>(
        f: impl FnOnce(&mut dyn Iterator<Item = usize>) -> R,
    ) -> R {
        change(|enlisted| {
            f(&mut enlisted
                .iter()
                .filter(|(lock, _)| !lock.get().is_left())
                .map(|(_, lease)| *lease))
        })
    }

    /// The locks that other threads own, or nobody does.
    fn others(enlisted: &BTreeMap<Lock, usize>) -> impl Iterator<Item = &BiasedLock<()>> {
        let mine = lease::mine().or_else(lease::late);
        enlisted
            .iter()
            .filter(move |(_, lease)| Some(**lease) != mine)
            .map(|(lock, _)| lock.get())
    }

    fn let_go(enlisted: &BTreeMap<Lock, usize>) {
        enlisted.keys().for_each(|lock| lock.get().let_go());
        // Release pairs with the loads in `begin` and `is_forking`.
        FORKING.store(false, Ordering::Release);
    }

    /// Lets everybody go on, in the process that forked or in its child.
    ///
    /// # Safety
    /// The calling thread called [`hold`].
    pub(in crate::cpu) unsafe fn go_on(is_child: bool) {
        // SAFETY: kept by `hold`.
        let mut enlisted = unsafe { ENLISTED.resume() };
        let enlisted = enlisted.get();
        if is_child {
            // Others were about to look whether they have to wait, or waited. Relaxed: this is the only thread.
            for place in &STEPPING {
                place.store(0, Ordering::Relaxed);
            }
            place().store(usize::from(DEPTH.get() != 0), Ordering::Relaxed);
            WAITING_INSIDE.store(0, Ordering::Relaxed);
            others(enlisted).for_each(BiasedLock::abandon);
        }
        let_go(enlisted);
    }
}
