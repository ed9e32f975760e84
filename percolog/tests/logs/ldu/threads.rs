//! Many threads for a while: nothing is lost, nothing is freed early or never.

use crate::common::share::share;
use crate::ldu::{VARIANTS, of};
use percolog::ldu::{Bag, Deferred, Entry, Fifo, Sorted, Stamped, UpdateError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Counts what is alive.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(alive: &'a AtomicUsize) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn every_entry_of_every_thread_is_found() {
    for variant in VARIANTS {
        let alive = AtomicUsize::new(0);
        let deferred = of(variant).limit(16).build(Bag::new());
        let rounds = share(4000) as u32;
        thread::scope(|scope| {
            for thread in 0..4 {
                let (deferred, alive) = (&deferred, &alive);
                scope.spawn(move || {
                    let mut chance = fastrand::Rng::with_seed(thread);
                    let mut mine: Vec<Entry<Counted<'_>>> = Vec::new();
                    for round in 0..rounds {
                        if mine.is_empty() || chance.bool() {
                            let entry = Entry::new(Counted::new(alive));
                            deferred.insert(&entry).unwrap();
                            mine.push(entry);
                        } else {
                            let entry = mine.swap_remove(chance.usize(..mine.len()));
                            deferred.remove(&entry).unwrap();
                            if chance.bool() {
                                deferred.insert(&entry).unwrap();
                                mine.push(entry);
                            }
                        }
                        if round % 512 == 0 {
                            let guard = deferred.synchronize();
                            let found =
                                |entry: &Entry<_>| guard.members().any(|member| member.is(entry));
                            assert!(mine.iter().all(found));
                        }
                    }
                    for entry in mine {
                        deferred.remove(&entry).unwrap();
                    }
                });
            }
        });
        assert!(deferred.synchronize().is_empty());
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn threads_that_share_entries_and_move_them_agree() {
    for variant in VARIANTS {
        let containers: [Deferred<Sorted<u32>>; 3] =
            std::array::from_fn(|_| of(variant).limit(4).build(Sorted::new()));
        let entries: Vec<_> = (0..8).map(Entry::new).collect();
        // Insertions that were done, less removals that were: by entry.
        let balance: Vec<_> = entries.iter().map(|_| AtomicUsize::new(0)).collect();
        thread::scope(|scope| {
            for thread in 0..4 {
                let (containers, entries, balance) = (&containers, &entries, &balance);
                scope.spawn(move || {
                    let mut chance = fastrand::Rng::with_seed(thread);
                    for _ in 0..share(4000) {
                        let at = chance.usize(..entries.len());
                        let container = &containers[chance.usize(..3)];
                        match chance.u8(..16) {
                            0..7 => match container.insert(&entries[at]) {
                                Ok(()) => _ = balance[at].fetch_add(1, Ordering::Relaxed),
                                Err(UpdateError::Full(reason)) => panic!("{reason}"),
                                Err(_) => {}
                            },
                            7..14 => {
                                if container.remove(&entries[at]).is_ok() {
                                    balance[at].fetch_sub(1, Ordering::Relaxed);
                                }
                            }
                            14 => drop(container.synchronize()),
                            _ => {
                                if let Some(entry) = container.synchronize().pop_first() {
                                    balance[*entry as usize].fetch_sub(1, Ordering::Relaxed);
                                }
                            }
                        }
                    }
                });
            }
        });
        for (entry, balance) in entries.iter().zip(&balance) {
            let times = containers
                .iter()
                .filter(|container| container.synchronize().iter().any(|item| *item == **entry))
                .count();
            assert_eq!(times, balance.load(Ordering::Relaxed));
            assert_eq!(entry.is_linked(), times == 1);
        }
        drop(containers);
        for entry in entries {
            assert!(entry.try_unwrap().is_ok());
        }
    }
}

#[test]
fn a_live_consumer_gets_each_threads_entries_in_order() {
    let fifo = Fifo::new();
    let each = share(4000);
    thread::scope(|scope| {
        for thread in 0..2 {
            let fifo = &fifo;
            scope.spawn(move || {
                for round in 0..each {
                    let entry = Entry::new(Stamped::new((thread, round)));
                    let timeout = Entry::new(Stamped::new((2, 0)));
                    fifo.push(&entry).unwrap();
                    fifo.push(&timeout).unwrap();
                    // Of this and the consumer one has it.
                    let _ = fifo.remove(&timeout);
                }
            });
        }
        let mut next = [0, 0, 0];
        while next[0] + next[1] < 2 * each {
            let mut guard = fifo.synchronize();
            while let Some(entry) = guard.pop() {
                let (thread, round) = **entry;
                if thread < 2 {
                    assert_eq!(round, next[thread]);
                }
                next[thread] += 1;
            }
            drop(guard);
            thread::yield_now();
        }
    });
}
