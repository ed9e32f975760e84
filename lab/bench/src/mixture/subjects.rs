//! The structures that a mixture can be of.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use super::{Lateness, Load, Shared, run};
use crate::caches::{self, Cache, LockedCache, Moka, OurCache, QuickCache};
use crate::counters::CounterPeer;
use crate::maps::{
    DashTable, LockedTable, OurList, OurMap, PapayaTable, SccTable, SkipTable, Table,
};
use crate::peers::{
    AbsorbingSet, Atomic, Contatori, Dash, HashedSet, JavaLongAdder, LoggedSet, MutexSet,
    OrderedSet, PercologCounter, ReducerCounter,
};
use crate::runner::{Cell, RunError, Settings};
use crate::sets::SetPeer;

/// A counter: keys do not matter.
struct OfCounter<C>(PhantomData<fn() -> C>);

impl<C: CounterPeer> Shared for OfCounter<C> {
    const NAME: &'static str = C::NAME;
    /// What was read last, and what this thread has added.
    type Handle = (u64, u64);

    fn new(_: u64, _: usize) -> Self {
        Self(PhantomData)
    }

    fn handle(&self, _: usize) -> (u64, u64) {
        (C::total(), 0)
    }

    #[inline]
    fn read(&self, (last, added): &mut (u64, u64), _: u64) -> bool {
        let total = C::total();
        let possible = total >= *last + *added;
        (*last, *added) = (total, 0);
        possible
    }

    #[inline]
    fn update(&self, (_, added): &mut (u64, u64), _: u64) {
        C::add();
        *added += 1;
    }

    fn settle(&self) {
        std::hint::black_box(C::total());
    }
}

/// A set: ids are opened and closed in turns.
struct OfSet<S>(S);

impl<S: SetPeer> Shared for OfSet<S> {
    const NAME: &'static str = S::NAME;
    /// The ids that this thread has open, of those that are its own.
    type Handle = (u64, BTreeSet<u64>);

    fn new(keys: u64, _: usize) -> Self {
        Self(S::with((0..keys).step_by(2).collect()))
    }

    fn handle(&self, thread: usize) -> (u64, BTreeSet<u64>) {
        ((thread as u64 + 1) << 40, BTreeSet::new())
    }

    #[inline]
    fn read(&self, (own, open): &mut (u64, BTreeSet<u64>), key: u64) -> bool {
        let id = *own + key;
        self.0.contains(id) == open.contains(&id)
    }

    #[inline]
    fn update(&self, (own, open): &mut (u64, BTreeSet<u64>), key: u64) {
        let id = *own + key;
        if open.remove(&id) {
            self.0.close(id);
        } else {
            open.insert(id);
            self.0.open(id);
        }
    }

    fn settle(&self) {
        self.0.settle();
    }
}

/// A table: entries are put and deleted in turns.
struct OfTable<T>(T);

impl<T: Table> Shared for OfTable<T> {
    const NAME: &'static str = T::NAME;
    /// Whether the next change puts.
    type Handle = (T::Handle, bool);

    fn new(keys: u64, threads: usize) -> Self {
        let table = T::new(threads);
        let mut handle = table.handle(0);
        for key in (0..keys).step_by(2) {
            table.put(&mut handle, key, !key);
        }
        drop(handle);
        Self(table)
    }

    fn handle(&self, thread: usize) -> (T::Handle, bool) {
        (self.0.handle(thread), thread.is_multiple_of(2))
    }

    #[inline]
    fn read(&self, (handle, _): &mut (T::Handle, bool), key: u64) -> bool {
        self.0.get(handle, key).is_none_or(|value| value == !key)
    }

    #[inline]
    fn update(&self, (handle, puts): &mut (T::Handle, bool), key: u64) {
        if *puts {
            self.0.put(handle, key, !key);
        } else {
            self.0.delete(handle, key);
        }
        *puts = !*puts;
    }
}

/// A cache with room for half of the keys: what is not found is set.
struct OfCache<C>(C);

impl<C: Cache> Shared for OfCache<C> {
    const NAME: &'static str = C::NAME;
    type Handle = ();

    fn new(keys: u64, _: usize) -> Self {
        let cache = C::new((keys / 2).max(64) as usize);
        for number in (0..keys).step_by(2) {
            let key = caches::Key::of(number);
            cache.set(key, caches::value(key));
        }
        Self(cache)
    }

    fn handle(&self, _: usize) {}

    #[inline]
    fn read(&self, (): &mut (), key: u64) -> bool {
        let key = caches::Key::of(key);
        match self.0.get(key) {
            Some(value) => value == caches::value(key),
            None => {
                self.0.set(key, caches::value(key));
                true
            }
        }
    }

    #[inline]
    fn update(&self, (): &mut (), key: u64) {
        let key = caches::Key::of(key);
        self.0.set(key, caches::value(key));
    }

    fn settle(&self) {
        self.0.settle();
    }
}

/// How a subject is run.
type Run = fn(Settings, Load) -> Result<(Cell, Option<Lateness>), RunError>;

/// One of the structures.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    kind: &'static str,
    word: &'static str,
    name: &'static str,
    ours: bool,
    run: Run,
}

impl Subject {
    const fn of<S: Shared>(kind: &'static str, word: &'static str, ours: bool) -> Self {
        Self {
            kind,
            word,
            name: S::NAME,
            ours,
            run: run::<S>,
        }
    }

    /// All of them; of each kind ours first, then what most programs have.
    pub const ALL: [Self; 22] = [
        Self::of::<OfCounter<PercologCounter>>("counter", "percolog", true),
        Self::of::<OfCounter<ReducerCounter>>("counter", "reducer", true),
        Self::of::<OfCounter<Atomic>>("counter", "atomic", false),
        Self::of::<OfCounter<Contatori>>("counter", "contatori", false),
        Self::of::<OfCounter<JavaLongAdder>>("counter", "long-adder", false),
        Self::of::<OfSet<HashedSet>>("set", "hashed", true),
        Self::of::<OfSet<OrderedSet>>("set", "ordered", true),
        Self::of::<OfSet<AbsorbingSet>>("set", "absorbing", true),
        Self::of::<OfSet<LoggedSet>>("set", "logged", true),
        Self::of::<OfSet<MutexSet>>("set", "mutex", false),
        Self::of::<OfSet<Dash>>("set", "dashmap", false),
        Self::of::<OfTable<OurMap>>("map", "percolog", true),
        Self::of::<OfTable<LockedTable>>("map", "rwlock", false),
        Self::of::<OfTable<DashTable>>("map", "dashmap", false),
        Self::of::<OfTable<PapayaTable>>("map", "papaya", false),
        Self::of::<OfTable<SccTable>>("map", "scc", false),
        Self::of::<OfTable<OurList>>("list", "percolog", true),
        Self::of::<OfTable<SkipTable>>("list", "skiplist", false),
        Self::of::<OfCache<OurCache>>("cache", "percolog", true),
        Self::of::<OfCache<LockedCache>>("cache", "mutex", false),
        Self::of::<OfCache<QuickCache>>("cache", "quick_cache", false),
        Self::of::<OfCache<Moka>>("cache", "moka", false),
    ];

    /// What it is: `counter`, `set`, `map`, `list` or `cache`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Which of its kind, in a word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.word
    }

    /// How tables call it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it is percolog's.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// The kinds, each once.
    #[must_use]
    pub fn kinds() -> Vec<&'static str> {
        let mut kinds: Vec<&str> = Self::ALL.iter().map(|subject| subject.kind).collect();
        kinds.dedup();
        kinds
    }

    /// The one of this kind that has this word.
    #[must_use]
    pub fn find(kind: &str, word: &str) -> Option<&'static Self> {
        static ALL: [Subject; 22] = Subject::ALL;
        ALL.iter()
            .find(|subject| (subject.kind, subject.word) == (kind, word))
    }

    /// Runs one cell.
    ///
    /// # Errors
    /// A read showed what cannot be; or a thread could not be started.
    pub fn run(
        &self,
        settings: Settings,
        load: Load,
    ) -> Result<(Cell, Option<Lateness>), RunError> {
        (self.run)(settings, load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_found_by_kind_and_word() {
        assert_eq!(Subject::kinds(), ["counter", "set", "map", "list", "cache"]);
        for subject in Subject::ALL {
            let found = Subject::find(subject.kind(), subject.word()).expect("it is there");
            assert_eq!(found.name(), subject.name());
            assert!(Subject::kinds().contains(&subject.kind()));
        }
        assert!(Subject::find("map", "no-such").is_none());
    }
}
