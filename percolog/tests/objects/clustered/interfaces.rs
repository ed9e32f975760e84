//! An interface and implementations of it, which all tests use.

use crate::common::eventually::eventually;
use percolog::clustered::{Place, Placement, Root, Siblings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

percolog::interposable! {
    /// Something that is added to, and summed up.
    pub(crate) trait Count: Sync {
        /// What the representative has now; who it is.
        fn add(&self, n: u64) -> u64 => u64::MAX;
        fn sum(&self) -> u64 => u64::MAX;
        fn number(&self) -> usize => usize::MAX;
    }
}

/// What the tests look at from outside.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) made: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
    pub(crate) roots_dropped: AtomicUsize,
}

impl Watch {
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

/// A representative; poisoned when it is dropped.
pub(crate) struct Share {
    pub(crate) number: usize,
    count: AtomicU64,
    alive: AtomicBool,
    siblings: Siblings<Share>,
    watch: Arc<Watch>,
}

impl Share {
    pub(crate) fn count(&self) -> u64 {
        self.check();
        self.count.load(Ordering::Relaxed)
    }

    fn check(&self) {
        assert!(
            self.alive.load(Ordering::Relaxed),
            "a representative was used after its end"
        );
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.check();
        self.alive.store(false, Ordering::Relaxed);
        self.watch.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count for Share {
    fn add(&self, n: u64) -> u64 {
        self.check();
        self.count.fetch_add(n, Ordering::Relaxed) + n
    }

    fn sum(&self) -> u64 {
        self.check();
        self.siblings
            .visit(|all| all.iter().map(|(_, it)| it.count()).sum())
            .expect("the implementation lives while a call is in it")
    }

    fn number(&self) -> usize {
        self.check();
        self.number
    }
}

/// Makes shares.
pub(crate) struct Counters {
    placement: Placement,
    pub(crate) watch: Arc<Watch>,
    /// What the first representative starts with.
    pub(crate) carried: AtomicU64,
}

impl Counters {
    pub(crate) fn new(placement: Placement) -> (Self, Arc<Watch>) {
        let watch = Arc::<Watch>::default();
        (Self::with(placement, 0, watch.clone()), watch)
    }

    pub(crate) fn with(placement: Placement, carried: u64, watch: Arc<Watch>) -> Self {
        Self {
            placement,
            watch,
            carried: carried.into(),
        }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.watch.roots_dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Root for Counters {
    type Interface = dyn Count;
    type Rep = Share;

    fn placement(&self) -> Placement {
        self.placement
    }

    fn create(&self, place: &Place<'_, Share>) -> Share {
        self.watch.made.fetch_add(1, Ordering::SeqCst);
        Share {
            number: place.number(),
            count: self.carried.swap(0, Ordering::Relaxed).into(),
            alive: true.into(),
            siblings: place.siblings(),
            watch: self.watch.clone(),
        }
    }

    fn interface(rep: &Share) -> &Self::Interface {
        rep
    }
}

/// Everything that the implementation has counted, also what no representative has taken over.
pub(crate) fn total(old: &percolog::clustered::CurrentRoot<'_, dyn Count>) -> u64 {
    let root = old.root::<Counters>().expect("there are only these");
    let carried = root.carried.load(Ordering::Relaxed);
    let counted: u64 = old
        .representatives::<Counters>()
        .map_or(0, |all| all.iter().map(|(_, it)| it.count()).sum());
    carried + counted
}

/// Drops whatever can be dropped, until `done`; fails if that never comes.
pub(crate) fn collect_until(done: impl Fn() -> bool) {
    let dropped = eventually(|| {
        percolog::clustered::collect();
        done()
    });
    assert!(dropped, "it is never dropped");
}
