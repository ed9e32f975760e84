//! What threads do to a few keys is explained by an order in which each call takes effect at once.

use crate::share::share;
use crate::{room_for, seed};
use percolog::collections::Cache;
use percolog::collections::cache::{Reason, Version, When};
use percolog::reclaim::Domain;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

/// The item of a key: value and version.
type There = Option<(u64, Version)>;

/// A call on a key, and what came of it.
#[derive(Debug, Clone)]
enum Call {
    Put(When, u64, Result<Version, Reason>),
    Update(Option<(u64, u64, Version)>),
    Get(There),
    Delete(bool),
}

/// One key, as if one thread used it.
struct Key;

impl Specification for Key {
    type State = There;
    type Operation = Call;

    fn init() -> There {
        None
    }

    fn apply(call: &Call, there: &There) -> (bool, There) {
        match *call {
            Call::Put(when, value, ref result) => {
                let expected = match (when, there) {
                    (When::Absent, Some(_)) => Err(Reason::Present),
                    (When::Present | When::Unchanged(_), None) => Err(Reason::Absent),
                    (When::Unchanged(version), Some((_, now))) if version != *now => {
                        Err(Reason::Changed)
                    }
                    _ => Ok(()),
                };
                match result {
                    Ok(version) => (expected.is_ok(), Some((value, *version))),
                    Err(reason) => (expected == Err(*reason), *there),
                }
            }
            Call::Update(None) => (there.is_none(), None),
            Call::Update(Some((seen, value, version))) => (
                there.is_some_and(|(now, _)| now == seen),
                Some((value, version)),
            ),
            Call::Get(seen) => (seen == *there, *there),
            Call::Delete(was_there) => (was_there == there.is_some(), None),
        }
    }
}

static TICKETS: AtomicU64 = AtomicU64::new(0);

fn act(cache: &Cache<'_, u8, u64, crate::Hashes>, key: u8, chance: &mut fastrand::Rng) -> Call {
    let value = chance.u64(..);
    let section = cache.domain().enter();
    let there = || {
        let item = cache.get_item(&section, &key)?;
        Some((*item.value(), item.version()))
    };
    match chance.u8(..8) {
        0..3 => Call::Get(there()),
        3 => Call::Delete(cache.delete(&key)),
        4 => {
            let mut seen = 0;
            let update = cache.update(&key, |old| {
                seen = *old;
                value
            });
            let version = update.expect("there is room");
            Call::Update(version.map(|version| (seen, value, version)))
        }
        other => {
            let when = match other {
                5 => When::Always,
                6 => When::Absent,
                _ if chance.bool() => When::Present,
                // One that was read outside of the history is as good as any.
                _ => there().map_or(When::Absent, |(_, version)| When::Unchanged(version)),
            };
            let put = cache.put(key, value, when, None);
            Call::Put(when, value, put.map_err(|rejected| rejected.reason))
        }
    }
}

/// A ticket, who drew it, of which key, and a call that begins or ends with it.
type Event = (u64, usize, u8, Action<Call>);

/// Two keys in one chain, each with its own history; a third one comes and goes between them.
#[test]
fn calls_take_effect_at_once() {
    const THREADS: usize = 3;
    let seed = seed::seed();
    for round in 0..share(250) as u64 {
        let domain = Domain::new();
        let cache = room_for(100)
            .lists(1)
            .hasher(crate::Hashes { different: 1 })
            .build(&domain)
            .expect("there is memory");
        let ready = Barrier::new(THREADS);
        let parts: Vec<Vec<Event>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (cache, ready) = (&cache, &ready);
                    scope.spawn(move || {
                        let mut chance =
                            fastrand::Rng::with_seed(seed ^ round << 8 ^ thread as u64);
                        let mut done = Vec::new();
                        ready.wait();
                        for _ in 0..14 {
                            let key = chance.u8(..3);
                            // Sequentially consistent: whoever draws the smaller ticket came first, for every other thread.
                            let called = TICKETS.fetch_add(1, Ordering::SeqCst);
                            let call = act(cache, key, &mut chance);
                            let returned = TICKETS.fetch_add(1, Ordering::SeqCst);
                            done.push((called, thread, key, Action::Call(call.clone())));
                            done.push((returned, thread, key, Action::Response(call)));
                        }
                        done
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        let mut all: Vec<_> = parts.into_iter().flatten().collect();
        all.sort_by_key(|(ticket, ..)| *ticket);
        // Linearizable objects make a linearizable whole: each key is looked at for itself.
        for key in 0..3 {
            let actions: Vec<_> = all
                .iter()
                .filter(|(_, _, of, _)| *of == key)
                .map(|(_, thread, _, action)| (*thread, action.clone()))
                .collect();
            if actions.is_empty() {
                continue;
            }
            let history = History::from_actions(actions.clone());
            assert!(
                WGLChecker::<Key>::is_linearizable(history),
                "no order explains {actions:#?}"
            );
        }
    }
}
