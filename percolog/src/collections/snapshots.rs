//! Published snapshots of a deferred structure, for readers that tolerate stale data.
//!
//! Future work of both papers that the logs come from: readers that can do with a state that is a little old need
//! not pay for bringing the logs together, nor wait for who does.
//!
//! **Invariant.** Views are made and published by who has the structure's lock, so they follow one another in the order of the
//! states that they are of: no reader goes back.

use crate::cpu::Environment;
use crate::engine::{Drain, Drained, SynchronizeError, Wait};
use crate::ldu::{Container, Deferred};
use crate::oplog::{Logged, Operation};
use crate::reclaim::{Domain, InSection, Ref, Replaceable};
use crate::sync::Patience;
use crate::sync::global::{AtomicU64, Ordering};
use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;
use std::time::Instant;

/// A deferred structure with a published snapshot, for readers that tolerate stale data.
///
/// The view is whatever you make of the structure: a copy, a sum, the ten largest. It is made anew by
/// [`refresh`](Self::refresh), which a [timer](crate::oplog::DrainThread) can call.
///
/// ```
/// use percolog::collections::Snapshots;
/// use percolog::oplog::Logged;
/// use percolog::reclaim::Domain;
/// # use percolog::oplog::Operation;
/// # struct Push(u32);
/// # impl Operation<Vec<u32>> for Push {
/// #     fn exec(self, all: &mut Vec<u32>) { all.push(self.0) }
/// # }
/// use std::time::Duration;
///
/// static DOMAIN: Domain = Domain::new();
/// let log = Logged::<Vec<u32>, Push>::default();
/// let latest = Snapshots::new(&DOMAIN, log, |all: &Vec<u32>| all.len());
/// latest.source().queue(Push(1));
///
/// let section = DOMAIN.enter();
/// assert_eq!(*latest.latest(&section), 0); // nobody has looked since
/// latest.refresh();
/// assert_eq!(*latest.latest(&section), 1);
/// latest.source().queue(Push(2));
/// // At most so old, whatever it takes:
/// assert_eq!(*latest.latest_within(&section, Duration::ZERO), 2);
/// ```
///
/// # How old
///
/// Whatever finished before the last [`refresh`](Self::refresh) was called is in what [`latest`](Self::latest) shows, and no
/// reader sees less than another one, or it itself, has seen before. [`age`](Self::age) says how long ago that call was;
/// [`latest_within`](Self::latest_within) refreshes first if that is longer than it may be. With a timer, a view is as old
/// as the timer's interval, and one merge and one making of a view; older while somebody keeps the structure's guard.
///
/// # Cost
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`latest`](Self::latest), [`read`](Self::read) | wait-free | none but the view's own, once after each refresh |
/// | [`refresh`](Self::refresh) | blocking | a merge; if anything may have changed, the making of a view, an allocation, and what readers then fetch |
/// | updates | as the structure's own | as the structure's own |
///
/// *Sustained ceiling:* readers have none. Making views takes time in proportion to what is copied: for large states
/// make a view of less than all, or keep the state in a structure whose copies share their parts.
pub struct Snapshots<'d, D: SnapshotSource, V: Send + Sync + 'static> {
    source: D,
    view: Box<MakeView<D::State, V>>,
    published: Replaceable<'d, Published<V>>,
    began: Instant,
    /// Nanoseconds from `began` to when the last refresh began.
    refreshed: AtomicU64,
}

type MakeView<S, V> = dyn Fn(&S) -> V + Send + Sync;

struct Published<V> {
    view: V,
    /// How often the state may have changed before.
    changes: u64,
}

/// A reference to a published snapshot, for as long as its section lasts.
pub struct SnapshotRef<'s, V>(Ref<'s, Published<V>>);

impl<V> Deref for SnapshotRef<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.0.view
    }
}

impl<V: fmt::Debug> fmt::Debug for SnapshotRef<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A structure that snapshots can be made of: [`Logged`] or [`Deferred`]; sealed.
///
/// [`Logged`] and [`Deferred`] are; the trait is not for others.
pub trait SnapshotSource: sealed::Look + Drain {}

mod sealed {
    use super::{SynchronizeError, Wait};

    pub trait Look {
        /// What views are made of.
        type State;

        /// Merges, and calls `f` with the state and a number that is another one whenever the state may be.
        fn look<R>(
            &self,
            wait: LookWait,
            f: impl FnOnce(&Self::State, u64) -> R,
        ) -> Result<R, SynchronizeError<()>>;
    }

    /// Whether to wait for somebody who has the structure.
    #[derive(Debug, Clone, Copy)]
    pub struct LookWait(pub(super) Wait);
}

use sealed::LookWait;

impl<S, O: Operation<S>, E: Environment> sealed::Look for Logged<S, O, E> {
    type State = S;

    fn look<R>(
        &self,
        wait: LookWait,
        f: impl FnOnce(&S, u64) -> R,
    ) -> Result<R, SynchronizeError<()>> {
        self.look(wait.0, f)
    }
}

impl<S, O: Operation<S>, E: Environment> SnapshotSource for Logged<S, O, E> {}

impl<C: Container, E: Environment> sealed::Look for Deferred<C, E> {
    type State = C;

    fn look<R>(
        &self,
        wait: LookWait,
        f: impl FnOnce(&C, u64) -> R,
    ) -> Result<R, SynchronizeError<()>> {
        self.look(wait.0, f)
    }
}

impl<C: Container, E: Environment> SnapshotSource for Deferred<C, E> {}

impl<'d, D: SnapshotSource, V: Send + Sync + 'static> Snapshots<'d, D, V> {
    /// Publishes a first view, of what is in the structure now. Views are read in sections of `domain`.
    ///
    /// # Panics
    /// As [`refresh`](Self::refresh).
    #[track_caller]
    #[must_use]
    pub fn new(
        domain: &'d Domain,
        source: D,
        view: impl Fn(&D::State) -> V + Send + Sync + 'static,
    ) -> Self {
        let began = Instant::now();
        let first = source.look(
            LookWait(Wait::For(Patience::Unlimited)),
            |state, changes| Published {
                view: view(state),
                changes,
            },
        );
        match first {
            Ok(first) => Self {
                source,
                view: Box::new(view),
                published: Replaceable::new(domain, first),
                began,
                refreshed: AtomicU64::new(0),
            },
            Err(error) => no_look(&error),
        }
    }

    /// The structure: to be updated, and to be read where the last view is not enough.
    #[must_use]
    pub fn source(&self) -> &D {
        &self.source
    }

    /// The structure itself.
    pub fn into_source(self) -> D {
        let Self {
            source,
            view,
            published,
            ..
        } = self;
        // First: a destructor that panics behind the return would leak what is returned.
        drop((view, published));
        source
    }

    /// The last view.
    ///
    /// # Panics
    /// If the section is one of another domain.
    #[inline]
    #[must_use]
    pub fn latest<'s>(&'s self, section: &'s impl InSection) -> SnapshotRef<'s, V> {
        SnapshotRef(self.published.load(section))
    }

    /// Calls `f` with the last view, in a section of its own.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(&V) -> R) -> R {
        self.published.read(|published| f(&published.view))
    }

    /// The last view if what it shows is at most so old, and else a new one: every update that finished `bound` before this
    /// call, or earlier, is in it.
    ///
    /// # Panics
    /// As [`refresh`](Self::refresh), if it has to.
    #[track_caller]
    #[must_use]
    pub fn latest_within<'s>(
        &'s self,
        section: &'s impl InSection,
        bound: Duration,
    ) -> SnapshotRef<'s, V> {
        if self.age() > bound || bound.is_zero() {
            self.refresh();
        }
        self.latest(section)
    }

    /// How long ago the last refresh began.
    #[must_use]
    pub fn age(&self) -> Duration {
        // Relaxed, here and in `publish`: what it says is true of any view loaded later by a thread that has the
        // time from a refresh that has published; Acquire and Release order the two.
        let refreshed = Duration::from_nanos(self.refreshed.load(Ordering::Acquire));
        self.began.elapsed().saturating_sub(refreshed)
    }

    /// Merges what is pending, and publishes a view of it if anything may have changed. What finished before this call is in
    /// what readers see from now on.
    ///
    /// # Panics
    /// If the structure is poisoned, if this thread has a guard of it, or if an operation or the making of the view panics. The
    /// last view stays then.
    #[track_caller]
    pub fn refresh(&self) {
        if let Err(error) = self.refresh_after(Wait::For(Patience::Unlimited)) {
            no_look(&error);
        }
    }

    /// As [`refresh`](Self::refresh), unless somebody has the structure.
    ///
    /// # Errors
    /// If another thread or this one has it, or it is poisoned.
    ///
    /// # Panics
    /// If an operation or the making of the view panics.
    pub fn try_refresh(&self) -> Result<(), SynchronizeError<()>> {
        self.refresh_after(Wait::Briefly)
    }

    fn refresh_after(&self, wait: Wait) -> Result<(), SynchronizeError<()>> {
        // Before the merge: what finished before this instant is in it.
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.source.look(LookWait(wait), |state, changes| {
            if self.published.read(|published| published.changes) != changes {
                self.published.replace(Published {
                    view: (self.view)(state),
                    changes,
                });
            }
            // Release: pairs with the Acquire in `age`; who sees the time finds the view, or a later one. The
            // greatest, since a thread that waited for the structure has the older time.
            self.refreshed.fetch_max(now, Ordering::Release);
        })
    }
}

/// Merges, and publishes a view once everything is merged, unless somebody has the structure: so that a
/// [timer](crate::oplog::DrainThread) keeps views young.
impl<D: SnapshotSource, V: Send + Sync + 'static> Drain for Snapshots<'_, D, V> {
    fn drain(&self, budget: usize) -> Drained {
        let mut drained = self.source.drain(budget);
        if drained.finished {
            // Making a view is the user's code, and no panic goes further from here: the last view stays.
            let refreshed = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
                self.try_refresh().is_ok()
            }));
            drained.finished = refreshed.unwrap_or(false);
        }
        drained
    }
}

impl<D: SnapshotSource, V: Send + Sync + fmt::Debug + 'static> fmt::Debug for Snapshots<'_, D, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|view| {
            f.debug_struct("Snapshots")
                .field("view", view)
                .field("age", &self.age())
                .finish_non_exhaustive()
        })
    }
}

#[track_caller]
#[cold]
fn no_look(error: &SynchronizeError<()>) -> ! {
    match error {
        SynchronizeError::Poisoned(()) => {
            panic!("percolog: no view of a poisoned structure; the last one stays")
        }
        other => panic!("percolog: no view, {other}: waiting would be waiting for itself"),
    }
}
