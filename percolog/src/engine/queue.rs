//! What a slot's queue must be able to do.

use core::panic::Location;

/// What a queue is told when it is made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub(crate) struct Limits {
    /// How many operations it usually holds at most.
    pub limit: usize,
    /// For how many operations room is made at once.
    pub room: usize,
    /// How many spent operations it keeps for its slot at most.
    pub spent: usize,
    /// Whether merging should look for operations that absorb each other across queues.
    pub absorb_while_merging: bool,
}

/// One slot's share of the updates to a state `S`.
///
/// The engine appends to a queue under its slot's lock, and takes its contents by exchanging it with an
/// empty queue of the same object; what a queue keeps when it is empty (memory, spent operations)
/// thereby goes back to the slot. The three calls are those of the thesis (`append`, `try_absorb` as
/// part of it, `apply`; Boyd-Wickizer §6.1).
///
/// None of the methods may use the object the queue belongs to.
pub(crate) trait Queue<S>: Send + Sized {
    /// What is queued.
    type Operation: Send;

    /// What merging keeps from one merge to the next, to save allocations.
    type Scratch: Default + Send;

    /// What [`sweep`](Self::sweep) takes out.
    type Swept;

    /// Whether operations are ordered by a stamp. Where not, none is taken, and `append` gets 0.
    const STAMPED: bool;

    /// An empty queue.
    fn new(limits: Limits) -> Self;

    /// Appends an operation. `stamp` is at least the stamp of every operation appended before.
    ///
    /// Returns operations that have no effect any more, so that they are dropped after the slot's
    /// lock is released.
    fn append(
        &mut self,
        operation: Self::Operation,
        stamp: u64,
        origin: Option<&'static Location<'static>>,
    ) -> Absorbed<Self::Operation>;

    /// Whether [`cancel`](Self::cancel) is worth a try for this operation. Asked without the slot's lock.
    #[inline(always)]
    fn may_cancel(operation: &Self::Operation) -> bool {
        let _ = operation;
        false
    }

    /// Takes the pending operation out that this one cancels with, or lets a pending one take this one in; or gives this one back. What
    /// cancels is never executed, and what is taken in may be executed in the other's place, so there is no order that it could be out of,
    /// and no stamp is taken; and the stamp is most of what an update costs.
    ///
    /// # Errors
    /// The operation itself, when there is none: it is to be appended.
    fn cancel(
        &mut self,
        operation: Self::Operation,
    ) -> Result<Absorbed<Self::Operation>, Self::Operation> {
        Err(operation)
    }

    /// Puts an operation in the place of the pending one that it makes unnecessary, or gives it back: an
    /// [`append`](Self::append) that makes the queue no longer, asked for when the queue is at its limit. As it stands,
    /// right for queues that replace nothing.
    ///
    /// # Errors
    /// The operation itself, when there is none: there has to be room for it.
    fn replace(
        &mut self,
        operation: Self::Operation,
        stamp: u64,
        origin: Option<&'static Location<'static>>,
    ) -> Result<Absorbed<Self::Operation>, Self::Operation> {
        let _ = (stamp, origin);
        Err(operation)
    }

    /// Takes out what a merge would find nothing to do about, to be dropped after the slot's lock is released. Asked for when
    /// the queue is at its limit, of queues that do not find such things when they append.
    fn sweep(&mut self) -> Self::Swept;

    /// How many operations are pending.
    fn len(&self) -> usize;

    /// Whether nothing is pending.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the queue has asked of the allocator and not given back. What its operations own themselves
    /// is not among them.
    fn memory(&self) -> usize;

    /// The same of what merging keeps. As it stands, right for what never allocates.
    fn scratch_memory(scratch: &Self::Scratch) -> usize {
        let _ = scratch;
        0
    }

    /// Moves everything pending to `empty`, and what `empty` has kept for this slot here. Called under
    /// the slot's lock by a thread that merges: what it leaves alone stays in the slot's cache.
    fn exchange(&mut self, empty: &mut Self) {
        core::mem::swap(self, empty);
    }

    /// Called once for queues taken in one cut, before they are applied: the place to absorb across
    /// queues.
    fn prepare(queues: &mut [Self], scratch: &mut Self::Scratch) {
        let _ = (queues, scratch);
    }

    /// Executes up to `budget` pending operations of `queues` on `state`, in the order that this kind
    /// of queue promises, and returns how many.
    ///
    /// Queues without operations are made ready for use as empty ones; this is called for every batch,
    /// also for one in which [`prepare`](Self::prepare) has left nothing.
    ///
    /// An operation is removed before it is executed, so that if it panics it is gone and all others
    /// stay, in order; the next call goes on behind it.
    fn apply(
        queues: &mut [Self],
        state: &mut S,
        budget: usize,
        scratch: &mut Self::Scratch,
    ) -> usize;

    /// Where the operation that `apply` executed last was queued, if that is recorded.
    fn origin(scratch: &Self::Scratch) -> Option<&'static Location<'static>> {
        let _ = scratch;
        None
    }
}

/// A queue whose operations can also be executed without being queued.
pub(crate) trait Execute<S>: Queue<S> {
    /// Whether operations can absorb each other.
    const ABSORBS: bool;

    /// Whether this one may be executed by the thread that queues it.
    fn at_once(operation: &Self::Operation) -> bool;

    /// Executes it, and returns what is left of it.
    fn execute(
        operation: Self::Operation,
        origin: Option<&'static Location<'static>>,
        state: &mut S,
        scratch: &mut Option<Self::Scratch>,
    ) -> Option<Self::Operation>;
}

/// Operations that an append has made ineffective.
#[derive(Debug)]
pub(crate) enum Absorbed<O> {
    /// None.
    Nothing,
    /// An earlier operation was replaced.
    Replaced(O),
    /// The operation and an earlier one cancel each other.
    Cancelled(O, O),
    /// An earlier one has taken the operation in.
    Combined,
    /// An earlier one, which is this, has taken the operation in, and there is nothing left to do.
    Annulled(O),
}

impl<O> Absorbed<O> {
    /// How many.
    #[inline]
    pub(crate) const fn count(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Replaced(_) | Self::Combined => 1,
            Self::Cancelled(..) | Self::Annulled(_) => 2,
        }
    }
}
