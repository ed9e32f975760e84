//! Where a reader marks that it is inside, instead of writing in the lock that all share.

use super::atomic::{AtomicU32, Ordering};
use super::const_fn;

/// How many readers of one slot are inside a lock that is biased to readers, and how many have been since somebody asked.
///
/// A reader of such a lock writes here, on a line of its slot, and only looks at the lock; a writer takes the lock, and then looks at
/// the marks of all slots until each has been free of readers. (Dice, Kogan, *BRAVO: Biased Locking for Reader-Writer Locks*, ATC 2019, has one
/// table of marks for all locks of a process; here each lock has its own, beside the slots' queues.)
///
/// **Why nobody is missed.** The reader marks, then looks at the lock ([`ObjectLock::share_by_mark`](super::ObjectLock::share_by_mark)). The writer takes the lock, passes a fence,
/// then looks at the mark. The mark, the reader's look, and the fence are sequentially consistent: so the reader sees that the lock is taken, and
/// steps back, or the writer sees the mark, and waits. That the lock is biased stands in the same word, and only who has the
/// lock exclusively, and so has waited for all marks, takes that back. So between the reader's look and the next writer who takes the lock nothing
/// can have ended the bias, and that writer looks at the marks.
///
/// **Why no mark is overlooked.** A mark is used only once it has been *enlisted*, behind another such fence, by a thread that knows that the mark can
/// be found. So either the writer's fence comes after that one, and the writer finds the mark; or it comes before, and then all who
/// find the mark enlisted see that the lock is taken.
///
/// It is a number and not a flag, and changed by atomic additions: threads of one slot can be inside together, and a thread can be moved
/// to another slot while it is inside.
#[derive(Debug)]
pub(crate) struct ReaderMark(AtomicU32);

/// The bits that say how many are inside.
const INSIDE: u32 = ENLISTED - 1;
const ENLISTED: u32 = 1 << 15;
/// The bits from here on count those who have been inside, and wrap.
const ONE_MORE: u32 = 1 << 16;

/// More are not let in: each of the threads that come meanwhile, and go back, has a number as well.
const MOST: u32 = 1 << 14;

impl ReaderMark {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Lets readers use the mark. For a thread that has passed a sequentially consistent fence since the mark was put where writers look.
    pub(crate) fn enlist(&self) {
        // Release pairs with the Acquire in `enter`: who uses the mark comes after that fence.
        self.0.fetch_or(ENLISTED, Ordering::Release);
    }

    /// Whether it may be used.
    #[inline(always)]
    pub(crate) fn is_enlisted(&self) -> bool {
        // Relaxed: `enter` looks again.
        self.0.load(Ordering::Relaxed) & ENLISTED != 0
    }

    /// Marks that a reader is inside; `false`, and nothing is marked, if too many are, or the mark is not enlisted.
    #[inline(always)]
    pub(super) fn enter(&self) -> bool {
        // Sequentially consistent: see above. Acquire pairs with the Release in `enlist`.
        let before = self.0.fetch_add(ONE_MORE | 1, Ordering::SeqCst);
        let entered = before & ENLISTED != 0 && before & INSIDE < MOST;
        if !entered {
            self.leave();
        }
        entered
    }

    /// A reader is outside again.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        // Release pairs with the Acquire in `is_free`: who writes next comes after all that this reader has read.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Whether no reader is inside. For a writer that has taken the lock and passed a sequentially consistent fence since.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        // Acquire pairs with the Release in `leave`.
        self.0.load(Ordering::Acquire) & INSIDE == 0
    }

    /// How many readers have entered since this was last asked, to 65,535.
    pub(crate) fn take_entered(&self) -> u32 {
        // Relaxed: a count.
        self.0.fetch_and(ONE_MORE - 1, Ordering::Relaxed) / ONE_MORE
    }
}
