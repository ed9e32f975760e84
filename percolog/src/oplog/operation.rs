//! What can be deferred.

use super::identity::{AddToken, RemoveToken};

/// An update of a state `S`, as a value.
///
/// Only [`exec`](Self::exec) must be written. It runs once, after every operation that came before it: at once, inside `queue`,
/// or later, on whichever thread merges. So it cannot answer the one who queued it. Where an
/// answer is needed, use [`Logged::with`](super::Logged::with).
///
/// # Absorption
///
/// Operations that cancel or replace each other need not all be executed (thesis §5.2.2). An
/// operation type that sets [`ABSORBS`](Self::ABSORBS) is asked for its [`absorb`](Self::absorb) rule
/// when it is queued, and the slot's queue finds the earlier operation through an index:
///
/// ```
/// use percolog::oplog::{Absorb, Logged, LoggedBuilder, Mode, Operation};
/// use std::collections::BTreeSet;
///
/// /// Whether `id` is to be in the set: what counts is the last word on each `id`.
/// struct Put { id: u64, present: bool }
///
/// impl Operation<BTreeSet<u64>> for Put {
///     const ABSORBS: bool = true;
///     fn exec(self, set: &mut BTreeSet<u64>) {
///         if self.present { set.insert(self.id); } else { set.remove(&self.id); }
///     }
///     fn absorb(&self) -> Absorb<'_> { Absorb::Replace(self.id) }
///     fn replaces(&self, earlier: &Self) -> bool { self.id == earlier.id }
/// }
///
/// // As it is when several threads use it.
/// let set: Logged<_, Put> = LoggedBuilder::new().mode(Mode::Deferring).build(BTreeSet::from([7]));
/// for _ in 0..100 {
///     set.queue(Put { id: 7, present: true });
///     set.queue(Put { id: 7, present: false });
/// }
/// assert!(!set.synchronize().contains(&7));
/// assert_eq!(set.stats().executed, 1);
/// ```
pub trait Operation<S>: Send + Sized {
    /// Whether [`absorb`](Self::absorb) is asked at all. Where not, queues keep no index.
    const ABSORBS: bool = false;

    /// Whether [`queue`](super::Logged::queue) may carry the update out itself, which it does as long as the object is not contended. Where
    /// not, it is always logged. Say no where the caller of `queue` can hold a lock that [`exec`](Self::exec) takes: it
    /// would wait for itself.
    const AT_ONCE: bool = true;

    /// Carries the update out.
    ///
    /// It may queue to the same object: that takes effect after this merge. Synchronizing the same
    /// object would wait for itself, and panics instead. A panic removes this operation, poisons the
    /// object and leaves the others in order.
    fn exec(self, state: &mut S);

    /// Which earlier operations this one makes unnecessary.
    ///
    /// Must not use the object (its slot's queue is locked) and give the same answer every time.
    fn absorb(&self) -> Absorb<'_> {
        Absorb::Never
    }

    /// Whether this operation makes `earlier`, whose [`Absorb::Replace`] hash is equal, unnecessary: usually, whether both are on the
    /// same key. `earlier` is executed before this one, wherever the two were queued, if neither goes; so the rule need not be
    /// symmetric: a high-water mark replaces what is not higher. Must not use the object.
    fn replaces(&self, earlier: &Self) -> bool {
        let _ = earlier;
        false
    }

    /// Carries the update out and hands the spent operation back to the slot that queued it, where
    /// [`Logged::spent`](super::Logged::spent) finds it.
    ///
    /// Freeing memory on the thread that merges, when another allocated it, is slow and makes the
    /// reader pay for it. An operation that owns heap memory can leave it to its slot, to be freed or
    /// reused there. Without this being overridden, operations are dropped by the thread that merges.
    fn exec_keeping(self, state: &mut S) -> Option<Self> {
        self.exec(state);
        None
    }
}

/// The earlier operations that an operation makes unnecessary.
#[derive(Debug)]
#[non_exhaustive]
pub enum Absorb<'a> {
    /// None.
    Never,
    /// The earlier one on the same key, which this one replaces completely; it takes effect when this
    /// one does. For registers, maps and sets: what counts is the last word on each key. The number
    /// is a hash of the key; [`Operation::replaces`] decides.
    ///
    /// Two kinds of operations must not be mixed with this: those that only *together* make up the
    /// last word on a key (add 1, add 2), and those that *read* a key which another replaces (copy `x`
    /// to `y`, between two that set `x`, would copy the second).
    Replace(u64),
    /// This operation adds what is added once.
    Add(&'a AddToken),
    /// This operation removes what was added once; if the adding is still pending, neither has to
    /// be executed.
    Remove(&'a RemoveToken),
}
