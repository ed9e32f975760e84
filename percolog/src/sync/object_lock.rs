//! The lock of an object's merged state: exclusive or shared, with deadline and downgrade.

use super::atomic::Ordering;
#[cfg(percolog_loom)]
use super::atomic::fence;
use super::wait::{Backoff, ParkingWord, pause, spin_while};
use super::{ReaderMark, ThreadId, const_fn};

/// Readers-writer lock on one word.
///
/// A waiting thread sets [`PARKED`]; while it is set, new readers queue up behind the waiter, so a
/// stream of readers cannot starve a merge. Whoever frees the lock with `PARKED` set clears all marks, and
/// wakes everyone; who then finds the lock taken sets them again. If all who sleep want the lock exclusively, which the marks show, only
/// one of them is woken: the others would find the lock taken. That one takes the lock with `PARKED` set, or sets it before it
/// sleeps again, so that the others are woken after it.
///
/// The word says which thread holds the lock exclusively, so that a thread can tell that it would wait for itself. The record cannot
/// be taken for another lock's, wherever the lock is moved, and whoever comes to lie in its place.
///
/// While the lock is *biased to readers*, a reader leaves a mark of its own instead of counting itself here: see [`ReaderMark`]. Then who
/// has taken the lock exclusively waits for the marks before it uses what the lock guards; it knows where they are, the lock does not.
///
/// | bits | meaning |
/// |---|---|
/// | 31 | held exclusively |
/// | 30 | somebody is, or was, parked |
/// | 29 | among them an updater who waits for its queue to be taken, or for the lock to take it itself |
/// | 28 | changes whenever sleepers are woken while the lock is held |
/// | 27 | somebody among the parked wants to share it |
/// | 26 | biased to readers |
/// | 0–25 | number of shared holders; or the number of the thread that holds it exclusively |
#[derive(Debug)]
pub(crate) struct ObjectLock {
    word: ParkingWord,
}

const EXCLUSIVE: u32 = 1 << 31;
const PARKED: u32 = 1 << 30;
const UPDATERS: u32 = 1 << 29;
const WOKEN: u32 = 1 << 28;
const SHARERS: u32 = 1 << 27;
const BIASED: u32 = 1 << 26;
const HOLDERS: u32 = BIASED - 1;
const _: () = assert!(ThreadId::MOST <= HOLDERS);

/// Whether a lock in this state cannot be taken exclusively.
const fn keeps_out_writers(word: u32) -> bool {
    word & (EXCLUSIVE | HOLDERS) != 0
}

/// Whether a lock in this state cannot be taken for sharing: a writer has it, or waits behind readers
/// who have it (or there are as many of those as can be counted).
const fn keeps_out_readers(word: u32) -> bool {
    let behind_waiter = word & PARKED != 0 && word & HOLDERS != 0;
    word & EXCLUSIVE != 0 || behind_waiter || word & HOLDERS == HOLDERS
}

/// How long a thread is willing to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    /// As long as it takes.
    Unlimited,
    /// Until this instant.
    #[cfg(feature = "std")]
    Until(std::time::Instant),
}

impl ObjectLock {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self { word: ParkingWord::new(0) }
        }
    }

    /// Whether the calling thread holds the lock exclusively, as far as [`ThreadId`] can tell.
    pub(crate) fn is_mine(&self) -> bool {
        let me = ThreadId::current();
        // Relaxed: a thread reads its own number only where it wrote it itself.
        let word = self.word.load(Ordering::Relaxed);
        me != ThreadId::UNKNOWN && word & EXCLUSIVE != 0 && word & HOLDERS == me.word()
    }

    /// Whether anybody holds the lock for sharing: a thread that does is told so.
    pub(crate) fn is_shared(&self) -> bool {
        // Relaxed: a thread finds its own share in any case.
        let word = self.word.load(Ordering::Relaxed);
        word & EXCLUSIVE == 0 && word & HOLDERS != 0
    }

    /// Takes the lock exclusively if nobody holds it. Lock-free.
    #[inline]
    pub(crate) fn try_exclusive(&self) -> bool {
        self.try_exclusive_marked(0)
    }

    /// The same, leaving these marks.
    #[inline]
    fn try_exclusive_marked(&self, marks: u32) -> bool {
        let taken = EXCLUSIVE | marks | ThreadId::current().word();
        let mut word = self.word.load(Ordering::Relaxed);
        while !keeps_out_writers(word) {
            // Acquire pairs with the Release of whoever freed the lock; the loads are only hints.
            match self.word.compare_exchange_weak(
                word,
                word | taken,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the lock exclusively if nobody holds it or waits for it, and it is not biased. Wait-free.
    #[inline(always)]
    pub(crate) fn try_exclusive_at_once(&self) -> bool {
        let taken = EXCLUSIVE | ThreadId::current().word();
        // Without looking first, which would bring the line once more. Acquire pairs with the Release of whoever freed the lock.
        self.word
            .compare_exchange(0, taken, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the lock for sharing if nobody holds it or waits for it, and it is not biased. Wait-free.
    #[inline(always)]
    pub(crate) fn try_shared_at_once(&self) -> bool {
        // As above: without looking first. Acquire pairs with the Release of whoever freed the lock.
        self.word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the lock for sharing if that goes [at once](Self::try_shared_at_once), now or in a moment. Lock-free.
    ///
    /// Readers that all count themselves as they come would have the line go from one to the next twice for each. Of those who
    /// look seldom, one has it dozens of times in between.
    pub(crate) fn shared_at_once_soon(&self) -> bool {
        let mut shared = false;
        spin_while(|| {
            shared = self.try_shared_at_once();
            !shared
        });
        shared
    }

    /// Whether the lock is biased to readers. Exact for who holds it exclusively.
    #[inline(always)]
    pub(crate) fn is_biased(&self) -> bool {
        // Relaxed: changed by who holds the lock, and for others a hint.
        self.word.load(Ordering::Relaxed) & BIASED != 0
    }

    /// Biases the lock to readers. For who holds it, in whatever way.
    pub(crate) fn bias(&self) {
        // Relaxed: publishes nothing. It is in the word that whoever takes the lock next exchanges.
        self.word.fetch_or(BIASED, Ordering::Relaxed);
    }

    /// Readers have to count themselves again. For who holds the lock exclusively, and has waited for all marks.
    pub(crate) fn end_bias(&self) {
        // Relaxed: as above.
        self.word.fetch_and(!BIASED, Ordering::Relaxed);
    }

    /// Takes a share with a mark of this reader's slot, if the lock is biased to readers and no writer has it. It is
    /// given back with [`ReaderMark::leave`]. Wait-free.
    ///
    /// Also where somebody waits for the lock: with marks alone, readers keep no writer from taking it, and then no reader comes in any more.
    #[inline(always)]
    pub(crate) fn share_by_mark(&self, mark: &ReaderMark) -> bool {
        if !mark.enter() {
            return false;
        }
        // The model checker takes sequentially consistent accesses for less than they are.
        #[cfg(percolog_loom)]
        fence(Ordering::SeqCst);
        // Sequentially consistent: pairs with the fence of a writer that has taken the lock; see `ReaderMark`. Acquire pairs with the
        // Release of the last exclusive holder.
        let word = self.word.load(Ordering::SeqCst);
        let entered = word & (EXCLUSIVE | BIASED) == BIASED;
        if !entered {
            mark.leave();
        }
        entered
    }

    /// Whether somebody has the lock exclusively; a hint.
    pub(crate) fn has_writer(&self) -> bool {
        // Relaxed: publishes nothing.
        self.word.load(Ordering::Relaxed) & EXCLUSIVE != 0
    }

    /// Whether nobody has the lock exclusively now, or after 2<sup>`pauses`</sup> pauses.
    pub(crate) fn without_writer_soon(&self, pauses: u32) -> bool {
        !self.has_writer() || {
            pause(pauses);
            !self.has_writer()
        }
    }

    /// Waits until nobody has the lock exclusively; `false` when patience ran out.
    pub(crate) fn without_writer(&self, pauses: u32, patience: Patience) -> bool {
        let keeps_out = |word| word & EXCLUSIVE != 0;
        self.without_writer_soon(pauses)
            || self
                .wait_for(patience, PARKED | SHARERS, false, keeps_out, |_| {
                    (!self.has_writer()).then_some(())
                })
                .is_some()
    }

    /// Takes the lock for sharing unless it is held exclusively or somebody waits for it. Lock-free.
    #[inline]
    pub(crate) fn try_shared(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while !keeps_out_readers(word) {
            // Acquire pairs with the Release of the last exclusive holder.
            match self.word.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the lock exclusively; `false` when patience ran out.
    pub(crate) fn exclusive(&self, patience: Patience) -> bool {
        self.wait_for(patience, PARKED, false, keeps_out_writers, |marks| {
            self.try_exclusive_marked(marks).then_some(())
        })
        .is_some()
    }

    /// Takes the lock for sharing; `false` when patience ran out.
    pub(crate) fn shared(&self, patience: Patience) -> bool {
        self.wait_for(patience, PARKED | SHARERS, false, keeps_out_readers, |_| {
            self.try_shared().then_some(())
        })
        .is_some()
    }

    /// Takes the lock exclusively if it is free now, or in a moment. Lock-free.
    pub(crate) fn exclusive_soon(&self) -> bool {
        self.try_exclusive() || {
            self.spin(keeps_out_writers);
            self.try_exclusive()
        }
    }

    /// The same for sharing.
    pub(crate) fn shared_soon(&self) -> bool {
        self.try_shared() || {
            self.spin(keeps_out_readers);
            self.try_shared()
        }
    }

    /// Spins while that keeps out, but not where others sleep: who finds them joins them, and the lock changes hands without a fight.
    fn spin(&self, keeps_out: impl Fn(u32) -> bool) {
        spin_while(|| {
            let word = self.word.load(Ordering::Relaxed);
            keeps_out(word) && word & PARKED == 0
        });
    }

    /// Takes the lock exclusively, unless `settled` says first that somebody else has done what it was wanted for; whether it was
    /// taken. Asks before each try, so that those who wait do not fight for a lock that they need no more.
    ///
    /// `settled` looks under a lock of its own, which whoever settles it holds while it does so and gives back before
    /// [`let_updaters_go`](Self::let_updaters_go): then no wait outlasts that.
    pub(crate) fn exclusive_unless(&self, mut settled: impl FnMut() -> bool) -> bool {
        self.wait_for(
            Patience::Unlimited,
            PARKED | UPDATERS,
            true,
            keeps_out_writers,
            |marks| {
                if settled() {
                    return Some(false);
                }
                self.try_exclusive_marked(marks).then_some(true)
            },
        )
        .unwrap_or_default()
    }

    /// Lets those look who wait in [`exclusive_unless`](Self::exclusive_unless). For the exclusive holder, who has just settled what
    /// they wait for.
    #[inline]
    pub(crate) fn let_updaters_go(&self) {
        // Relaxed: a waiter has seen its mark before it asked, and asked before this thread settled the matter, both under the
        // lock that `settled` looks under; so this comes after the mark. Whoever asks later is told that it is settled.
        if self.word.load(Ordering::Relaxed) & UPDATERS != 0 {
            self.wake_all();
        }
    }

    /// Gives up exclusive use that was taken [at once](Self::try_exclusive_at_once), of a lock that has not been biased since.
    #[inline(always)]
    pub(crate) fn release_exclusive_at_once(&self) {
        // Without a look at the word, which would wait for the exchange that took the lock. Release pairs with the Acquire of the next holder.
        let before = self.word.swap(0, Ordering::Release);
        debug_assert!(before & BIASED == 0);
        self.wake_after(before);
    }

    /// Gives up exclusive use.
    #[inline]
    pub(crate) fn release_exclusive(&self) {
        let before = self.leave(0);
        self.wake_after(before);
    }

    /// Turns exclusive use into shared use, with nobody in between.
    pub(crate) fn downgrade(&self) {
        // Release: the readers let in now must see what was written under exclusive use.
        let before = self.leave(1);
        self.wake_after(before | SHARERS);
    }

    /// Leaves so many shares instead of exclusive use, and the bias, which its holder alone can end.
    #[inline(always)]
    fn leave(&self, shares: u32) -> u32 {
        let bias = self.word.load(Ordering::Relaxed) & BIASED;
        // Release pairs with the Acquire of the next holder.
        self.word.swap(bias | shares, Ordering::Release)
    }

    /// Gives up one share.
    #[inline]
    pub(crate) fn release_shared(&self) {
        // Release pairs with the Acquire of the next exclusive holder, who must come after all that
        // this reader read.
        let before = self.word.fetch_sub(1, Ordering::Release);
        if before & PARKED != 0 && before & HOLDERS == 1 {
            // The last reader out clears the mark. If this fails, somebody took the lock meanwhile
            // and inherits the duty with the mark, which is still set; or somebody gave up waiting,
            // has cleared the mark and wakes everyone.
            // Relaxed: the exchange publishes nothing.
            if self
                .word
                .compare_exchange(
                    before - 1,
                    before & BIASED,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok()
            {
                self.wake_after(before);
            }
        }
    }

    #[inline]
    fn wake_after(&self, before: u32) {
        if before & PARKED != 0 {
            self.wake(before & (UPDATERS | SHARERS) != 0);
        }
    }

    #[cold]
    fn wake(&self, all: bool) {
        #[cfg(feature = "std")]
        if all {
            self.word.unpark_all();
        } else {
            self.word.unpark_one();
        }
        #[cfg(not(feature = "std"))]
        let _ = all;
    }

    /// Takes back the marks of those who sleep, and wakes them: who has to go on sleeping sets them again.
    fn wake_all(&self) {
        // First: whoever has seen the marks and does not sleep yet must not take marks that are set again for those that it saw.
        // Relaxed, both: the marks publish nothing.
        self.word.fetch_xor(WOKEN, Ordering::Relaxed);
        let before = self
            .word
            .fetch_and(!(PARKED | UPDATERS | SHARERS), Ordering::Relaxed);
        self.wake_after(before | SHARERS);
    }

    /// Waits until `take` returns something, and sleeps with these marks set while the lock keeps it out. `None` when patience ran out.
    ///
    /// Where `take` asks for more than the lock, sleeps only in a state of it in which it has seen the marks *before* it asked, whoever has set
    /// them: whoever settles what it waits for later finds them, and changes the word when it takes them back. (Unless the lock is freed meanwhile, and is
    /// taken, marked and settled again by the same threads: this one can then sleep until the end of that.)
    fn wait_for<R>(
        &self,
        patience: Patience,
        marks: u32,
        asks: bool,
        keeps_out: impl Fn(u32) -> bool,
        mut take: impl FnMut(u32) -> Option<R>,
    ) -> Option<R> {
        let mut backoff = Backoff::new();
        // Others may sleep on, once this one has been woken.
        let mut marked = 0;
        #[cfg(feature = "std")]
        let (mut spun, mut seen) = (cfg!(percolog_loom), None);
        loop {
            if let Some(taken) = take(marked) {
                return Some(taken);
            }
            #[cfg(not(feature = "std"))]
            {
                let _ = (patience, marks, asks, &keeps_out, &mut marked);
                backoff.wait();
            }
            #[cfg(feature = "std")]
            {
                if !spun {
                    spun = true;
                    self.spin(&keeps_out);
                    continue;
                }
                let mut word = self.word.load(Ordering::Relaxed);
                // The lock has changed since it was tried: nobody may sleep, or make others queue up
                // behind a sleeper, who could go in.
                if !keeps_out(word) {
                    continue;
                }
                if word & marks != marks {
                    // Relaxed: the asking is what goes from one to the other.
                    let marked = self.word.compare_exchange_weak(
                        word,
                        word | marks,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                    seen = marked.ok().map(|_| word | marks);
                    if asks || seen.is_none() {
                        continue;
                    }
                    word |= marks;
                }
                if asks && seen != Some(word) {
                    seen = Some(word);
                    continue;
                }
                let deadline = match patience {
                    Patience::Unlimited => None,
                    Patience::Until(deadline) => Some(deadline),
                };
                (spun, marked) = (cfg!(percolog_loom), PARKED);
                if !self.word.park(word, deadline, &mut backoff) {
                    // One last look: the lock may have been freed at the deadline.
                    let taken = take(marked);
                    if taken.is_none() {
                        // With the mark of a thread that gives up, readers would queue up behind nobody.
                        self.wake_all();
                    }
                    return taken;
                }
            }
        }
    }
}
