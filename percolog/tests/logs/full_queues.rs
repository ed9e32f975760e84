//! At its limit a queue takes what makes it no longer, whatever its policy, and nothing is merged for it.
#![cfg(not(percolog_loom))]

use percolog::cpu::{self, CoreId};
use percolog::oplog::{
    Absorb, AddToken, Cached, FullReason, Lent, LogCache, LogCacheBuilder, Logged, LoggedBuilder,
    Mode, Operation, Policy, RemoveToken, token_pair,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Keys and their values, and entries that exist once; how often anything was executed, too.
#[derive(Default)]
struct Table {
    values: BTreeMap<u64, u64>,
    entries: usize,
    executed: usize,
}

/// Changes of a table: a value replaces an earlier one of its key, an entry that ends cancels with its beginning.
enum Change {
    Put(u64, u64),
    Begin(AddToken),
    End(RemoveToken),
}

impl Change {
    fn make(self, table: &mut Table) {
        table.executed += 1;
        match self {
            Self::Put(key, value) => {
                table.values.insert(key, value);
            }
            Self::Begin(_) => table.entries += 1,
            Self::End(_) => table.entries -= 1,
        }
    }

    fn rule(&self) -> Absorb<'_> {
        match self {
            Self::Put(key, _) => Absorb::Replace(*key),
            Self::Begin(birth) => Absorb::Add(birth),
            Self::End(death) => Absorb::Remove(death),
        }
    }

    fn same_key(&self, earlier: &Self) -> bool {
        matches!((self, earlier), (Self::Put(one, _), Self::Put(other, _)) if one == other)
    }
}

impl Operation<Table> for Change {
    const ABSORBS: bool = true;

    fn exec(self, table: &mut Table) {
        self.make(table);
    }

    fn absorb(&self) -> Absorb<'_> {
        self.rule()
    }

    fn replaces(&self, earlier: &Self) -> bool {
        self.same_key(earlier)
    }
}

// SAFETY: made once.
unsafe impl Cached<Table> for Change {
    fn cache() -> &'static LogCache<Table, Self> {
        static CACHE: OnceLock<LogCache<Table, Change>> = OnceLock::new();
        CACHE.get_or_init(|| LogCacheBuilder::new().objects(small()).build())
    }
}

const LIMIT: u64 = 4;

fn small() -> LoggedBuilder {
    LoggedBuilder::new()
        .mode(Mode::Deferring)
        .limit(LIMIT as usize)
}

/// Limits are a slot's.
fn stay() {
    cpu::bind(CoreId::new(0));
}

#[test]
fn a_value_replaces_one_in_a_full_queue_and_nothing_is_merged() {
    stay();
    for policy in [
        Policy::Merge,
        Policy::Full,
        Policy::Discard,
        Policy::MergeOrDiscard,
    ] {
        let table: Logged<Table, Change> = small().policy(policy).build(Table::default());
        for number in 0..100 {
            table.queue(Change::Put(number % LIMIT, number));
        }
        table
            .try_queue(Change::Put(2, 1000))
            .expect("there is an earlier one of that key");
        let new = table.try_queue(Change::Put(LIMIT, 0)).expect_err("no room");
        assert_eq!(new.reason, FullReason::Limit);
        let stats = table.stats();
        assert_eq!(
            (stats.merges, stats.discarded, stats.absorbed),
            (0, 0, 101 - LIMIT),
            "{policy:?}"
        );
        let table = table.synchronize();
        assert_eq!(table.executed, LIMIT as usize, "{policy:?}");
        let last = BTreeMap::from([(0, 96), (1, 97), (2, 1000), (3, 99)]);
        assert_eq!(table.values, last, "{policy:?}");
    }
}

#[test]
fn an_end_cancels_with_its_beginning_in_a_full_queue_and_makes_room() {
    stay();
    let table: Logged<Table, Change> = small().build(Table::default());
    let fill = |operation| table.queue(operation);
    (1..LIMIT).for_each(|key| fill(Change::Put(key, key)));
    for turn in 0..100 {
        let (birth, death) = token_pair();
        // The queue is full now.
        fill(Change::Begin(birth));
        if turn % 2 == 0 {
            fill(Change::End(death));
        } else {
            table
                .try_queue(Change::End(death))
                .expect("it cancels with its beginning");
        }
    }
    assert_eq!((table.stats().merges, table.stats().absorbed), (0, 200));
    let (_birth, death) = token_pair();
    fill(Change::Put(0, 0));
    // Its beginning is nowhere: it needs room.
    let end = table.try_queue(Change::End(death)).expect_err("no room");
    assert_eq!(end.reason, FullReason::Limit);
    let table = table.synchronize();
    assert_eq!((table.entries, table.executed), (0, LIMIT as usize));
}

#[test]
fn what_finds_nothing_in_a_full_queue_merges_as_before() {
    stay();
    let table: Logged<Table, Change> = small().build(Table::default());
    for key in 0..10 * LIMIT {
        table.queue(Change::Put(key, key));
    }
    assert_eq!(table.stats().updater_merges, 9);
    // What has been merged is not there to be replaced.
    table.queue(Change::Put(0, 7));
    assert_eq!(table.stats().updater_merges, 10);
    let table = table.synchronize();
    assert_eq!(table.executed as u64, 10 * LIMIT + 1);
    assert_eq!(table.values.get(&0), Some(&7));
}

/// Where what finds no room panics, since this thread could only wait for itself.
#[test]
fn who_has_the_object_can_replace_what_is_in_a_queue_at_its_hard_limit() {
    stay();
    let table: Logged<Table, Change> = small().hard_limit(6).build(Table::default());
    let guard = table.synchronize();
    for number in 0..60 {
        table.queue(Change::Put(number % 6, number));
    }
    assert_eq!(guard.executed, 0);
    drop(guard);
    assert_eq!(table.synchronize().executed, 6);
}

#[test]
fn a_lent_queue_that_is_full_takes_them_too() {
    stay();
    let table: Lent<Table, Change> = Lent::new(Table::default());
    let table = std::pin::pin!(table);
    let table = table.as_ref();
    for number in 0..100 {
        table.queue(Change::Put(number % (LIMIT - 1), number));
    }
    for _ in 0..50 {
        let (birth, death) = token_pair();
        table.queue(Change::Begin(birth));
        table
            .try_queue(Change::Put(0, 1000))
            .expect("there is an earlier one of that key");
        table.queue(Change::Put(1, 1001));
        table.queue(Change::End(death));
    }
    let (birth, _death) = token_pair();
    table.queue(Change::Begin(birth));
    let new = table.try_queue(Change::Put(LIMIT, 0)).expect_err("no room");
    assert_eq!(new.reason, FullReason::Limit);
    let stats = Change::cache().stats();
    assert_eq!(
        (stats.pending, stats.evictions),
        (LIMIT as usize, 0),
        "{stats:?}"
    );
    let table = table.synchronize();
    // Not more than what was left: no queue was merged before.
    assert_eq!((table.entries, table.executed), (1, LIMIT as usize));
    let last = BTreeMap::from([(0, 1000), (1, 1001), (2, 98)]);
    assert_eq!(table.values, last);
}
