//! Threads that grant, alias, revoke and end at the same time, and what is left when they have come to an end.

use super::super::back_end::BackEnd;
use super::super::{
    MapError, MapUnmap, Mapping, MappingDatabase, Mappings, OneLock, SoftwareTables, Space,
    SpaceLocks, Tlbs,
};
use super::NO_TLBS;
use percolog::reclaim::{Domain, DomainOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

const THREADS: usize = 4;
const PAGES: u32 = 256;
const FRAMES: u32 = 200;

/// Numbers in no order.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}

/// Mappings that every thread may use, and take away.
#[derive(Default)]
struct Pool(Mutex<Vec<Mapping>>);

impl Pool {
    fn with<R>(&self, f: impl FnOnce(&mut Vec<Mapping>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, mapping: Mapping) {
        self.with(|all| {
            if all.len() >= 64 {
                all.remove(0);
            }
            all.push(mapping);
        });
    }

    fn some(&self, dice: &mut Dice) -> Option<Mapping> {
        let mapping = self.with(|all| (!all.is_empty()).then(|| all[dice.below(all.len())]))?;
        let from = dice.below(mapping.len() as usize) as u32;
        mapping.part(from..mapping.len().min(from + 1 + dice.below(4) as u32))
    }
}

/// One thread's part.
fn hammer<M: Mappings>(database: &M, spaces: &Mutex<Vec<Space>>, pool: &Pool, seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..3000 {
        let space = {
            let spaces = spaces.lock().unwrap_or_else(PoisonError::into_inner);
            spaces[dice.below(spaces.len())]
        };
        let result = match dice.below(20) {
            0..4 => database
                .grant(space, 1 + dice.below(5) as u32)
                .map(|granted| pool.put(granted)),
            4..13 => match pool.some(&mut dice) {
                Some(from) => database.alias(from, space).map(|shared| pool.put(shared)),
                None => Ok(()),
            },
            13 => match pool.some(&mut dice) {
                Some(from) => database.reserve(space, from.len()).and_then(|reserved| {
                    pool.put(reserved);
                    database.alias_into(from, reserved)
                }),
                None => Ok(()),
            },
            14..16 => match pool.some(&mut dice) {
                Some(of) => database.revoke(of).map(drop),
                None => Ok(()),
            },
            16..19 => match pool.some(&mut dice) {
                Some(of) => database.release(of).map(drop),
                None => Ok(()),
            },
            _ if dice.below(8) == 0 => {
                let removed = database.terminate(space);
                if removed.is_ok() {
                    let fresh = database.create().expect("there is room");
                    let mut spaces = spaces.lock().unwrap_or_else(PoisonError::into_inner);
                    spaces.retain(|other| *other != space);
                    spaces.push(fresh);
                }
                removed.map(drop)
            }
            _ => Ok(()),
        };
        let wrong = matches!(result, Err(MapError::Length { .. } | MapError::Refused(_)));
        assert!(!wrong, "{result:?}");
    }
}

fn hammered<M: Mappings>(database: &M, tick: impl Fn() + Sync) -> Vec<Space> {
    let first = (0..3).map(|_| database.create().expect("there is room"));
    let spaces = Mutex::new(first.collect());
    let pool = Pool::default();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS as u64)
            .map(|seed| {
                let (spaces, pool) = (&spaces, &pool);
                scope.spawn(move || hammer(database, spaces, pool, seed))
            })
            .collect();
        let (tick, over) = (&tick, &over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                tick();
                thread::yield_now();
            }
        });
        let ends: Vec<_> = threads
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        over.store(true, Ordering::Relaxed);
        assert!(ends.iter().all(Result::is_ok), "a thread panicked");
    });
    spaces.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// After all has been given back, all frames can be had.
fn all_frames<M: Mappings>(database: &M, spaces: Vec<Space>, tick: impl Fn()) {
    for space in spaces {
        database.terminate(space).expect("it is there");
    }
    tick();
    let space = database.create().expect("there is room");
    for frame in 0..FRAMES {
        let granted = (0..100).find_map(|_| {
            tick();
            database.grant(space, 1).ok()
        });
        assert!(granted.is_some(), "{frame} of {FRAMES} are left");
    }
    assert!(database.grant(space, 1).is_err());
    database.terminate(space).expect("it is there");
}

#[test]
fn everything_fits_together_when_all_have_finished() {
    static TLBS: Tlbs = Tlbs::new(2);
    let domain = Domain::with(DomainOptions::new().grace(&TLBS));
    let tables = SoftwareTables::new(&TLBS, FRAMES);
    let database = MappingDatabase::new(&domain, tables, PAGES);
    let tick = || (0..2).for_each(|processor| database.back_end().flush(processor));
    let spaces = hammered(&database, tick);
    let check = database.check().expect("it fits together");
    assert_eq!(check.spaces, spaces.len());
    all_frames(&database, spaces, tick);
    assert_eq!(database.check(), Ok(super::super::Check::default()));
}

#[cfg(target_os = "linux")]
#[test]
fn real_memory_fits_together_when_all_have_finished() {
    let domain = Domain::new();
    let file = super::super::MemoryFile::new(FRAMES).expect("the system has memory files");
    let database = MappingDatabase::new(&domain, file, PAGES);
    let spaces = hammered(&database, || ());
    database.check().expect("the kernel agrees");
    all_frames(&database, spaces, || ());
}

#[test]
fn nothing_is_lost_behind_locks() {
    let one = OneLock::new(SoftwareTables::new(&NO_TLBS, FRAMES), PAGES);
    let spaces = hammered(&one, || ());
    all_frames(&one, spaces, || ());
    let each = SpaceLocks::new(SoftwareTables::new(&NO_TLBS, FRAMES), PAGES, 16);
    let spaces = hammered(&each, || ());
    all_frames(&each, spaces, || ());
}

/// Threads alias as fast as they can from all that is below a page, while its owner revokes it: when that returns, no page of
/// any address space shows the frame but the owner's.
#[test]
fn when_a_revoke_returns_no_descendant_is_left() {
    let domain = Domain::new();
    let tables = SoftwareTables::new(&NO_TLBS, 64);
    let database = MappingDatabase::new(&domain, tables, 128);
    let spaces = [(); 3].map(|()| database.create().expect("there is room"));
    let root = database.grant(spaces[0], 1).expect("there is room");
    let frame = database.frame(root, 0).expect("it is mapped");
    let showing = || -> usize {
        let of = |space| {
            let count = |table: &_| {
                let shown = (0..128).filter_map(|page| database.back_end().frame_at(table, page));
                shown.filter(|shown| *shown == frame).count()
            };
            database.with_space(space, count).expect("it is there")
        };
        spaces.into_iter().map(of).sum()
    };
    let pool = Pool::default();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..THREADS as u64 {
            let (database, spaces, pool, over) = (&database, &spaces, &pool, &over);
            scope.spawn(move || {
                let mut dice = Dice(seed);
                while !over.load(Ordering::Relaxed) {
                    let Some(from) = pool.some(&mut dice) else {
                        thread::yield_now();
                        continue;
                    };
                    match dice.below(8) {
                        0 => drop(database.release(from)),
                        1 => drop(database.revoke(from)),
                        _ => {
                            if let Ok(shared) = database.alias(from, spaces[dice.below(3)]) {
                                pool.put(shared);
                            }
                        }
                    }
                }
            });
        }
        let mut dice = Dice(5);
        for round in 0..400 {
            for space in spaces {
                if let Ok(shared) = database.alias(root, space) {
                    pool.put(shared);
                }
            }
            for _ in 0..dice.below(4) {
                thread::yield_now();
            }
            let revoked = database.revoke(root).expect("it is there");
            let left = showing();
            if left != 1 {
                over.store(true, Ordering::Relaxed);
                panic!("{left} pages show the frame after {revoked} were revoked in round {round}");
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    database.check().expect("it fits together");
}
