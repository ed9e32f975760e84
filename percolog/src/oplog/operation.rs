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
///
/// Operations that add up become one, as long as they wait in the same slot:
///
/// ```
/// use percolog::oplog::{Absorb, Combined, Logged, LoggedBuilder, Mode, Operation};
/// use std::collections::HashMap;
///
/// /// So many more visits of a page.
/// struct Visits { page: u64, visits: u64 }
///
/// impl Operation<HashMap<u64, u64>> for Visits {
///     const ABSORBS: bool = true;
///     const ORDERED: bool = false;
///     fn exec(self, pages: &mut HashMap<u64, u64>) { *pages.entry(self.page).or_default() += self.visits; }
///     fn absorb(&self) -> Absorb<'_> { Absorb::Combine(self.page) }
///     fn combine(&mut self, later: Self) -> Combined<Self> {
///         if self.page != later.page { return Combined::Apart(later); }
///         self.visits += later.visits;
///         Combined::One
///     }
/// }
///
/// let pages: Logged<_, Visits> = LoggedBuilder::new().mode(Mode::Deferring).build(HashMap::new());
/// for _ in 0..100 {
///     pages.queue(Visits { page: 7, visits: 1 });
/// }
/// assert_eq!(pages.synchronize()[&7], 100);
/// assert_eq!(pages.stats().executed, 1);
/// ```
pub trait Operation<S>: Send + Sized {
    /// Whether [`absorb`](Self::absorb) is asked at all. Where not, queues keep no index.
    const ABSORBS: bool = false;

    /// Whether [`queue`](super::Logged::queue) may carry the update out itself, which it does as long as the object is not contended. Where
    /// not, it is always logged. Say no where the caller of `queue` can hold a lock that [`exec`](Self::exec) takes: it
    /// would wait for itself.
    const AT_ONCE: bool = true;

    /// Whether it matters in which order operations are executed. If not, they are executed in any order, those of one thread too, each before whoever asks
    /// for the state after it was queued; and an update takes no time stamp, which is most of what it costs.
    const ORDERED: bool = true;

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

    /// Lets this operation, whose [`Absorb::Combine`] hash is equal to that of `later`, take `later` in: it is executed for both, in its own place.
    /// Says whether it has, or whether the two do nothing together; or hands `later` back, usually since it is on another key. Must not use the object.
    ///
    /// A panic goes to whoever queues `later`, which is lost; what it has made of this operation is executed.
    fn combine(&mut self, later: Self) -> Combined<Self> {
        Combined::Apart(later)
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
    /// An earlier one on the same key, with which this one makes up one operation, or none. For what adds up (counts, sums, the latest of several times), and
    /// for what ends what another one began, if each beginning is on a key of its own. The number is a hash of the key; [`Operation::combine`]
    /// does it, and decides.
    ///
    /// What is combined is executed where the earlier one was. So operations on one key that different threads queue at the same time, or one behind the other,
    /// must give the same state in any order that can arise: all that add do; so does closing, with touching what is closed being nothing; setting and adding do not.
    Combine(u64),
    /// This operation adds what is added once.
    Add(&'a AddToken),
    /// This operation removes what was added once; if the adding is still pending, neither has to
    /// be executed.
    Remove(&'a RemoveToken),
}

/// What has become of two operations: see [`Operation::combine`].
#[derive(Debug)]
pub enum Combined<O> {
    /// The earlier one does what both did.
    One,
    /// Together they do nothing: neither is executed.
    Nothing,
    /// The later one, which the earlier one has nothing to do with.
    Apart(O),
}
