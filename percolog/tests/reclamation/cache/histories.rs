//! What threads do to a few keys is explained by an order in which each call takes effect at once.

use crate::cache::room_for;
use crate::common::history::{Done, is_linearizable, record, together};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::collections::Cache;
use percolog::collections::cache::{ItemVersion, PutCondition, PutReason};
use percolog::reclaim::Domain;
use todc_utils::specifications::Specification;

/// The item of a key: value and version.
type There = Option<(u64, ItemVersion)>;

/// A call on a key, and what came of it.
#[derive(Debug, Clone)]
enum Call {
    Put(PutCondition, u64, Result<ItemVersion, PutReason>),
    Update(Option<(u64, u64, ItemVersion)>),
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
                    (PutCondition::Absent, Some(_)) => Err(PutReason::Present),
                    (PutCondition::Present | PutCondition::Unchanged(_), None) => {
                        Err(PutReason::Absent)
                    }
                    (PutCondition::Unchanged(version), Some((_, now))) if version != *now => {
                        Err(PutReason::Changed)
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

fn act(
    cache: &Cache<'_, u8, u64, crate::cache::Hashes>,
    key: u8,
    chance: &mut fastrand::Rng,
) -> Call {
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
                5 => PutCondition::Always,
                6 => PutCondition::Absent,
                _ if chance.bool() => PutCondition::Present,
                // One that was read outside of the history is as good as any.
                _ => there().map_or(PutCondition::Absent, |(_, version)| {
                    PutCondition::Unchanged(version)
                }),
            };
            let put = cache.put(key, value, when, None);
            Call::Put(when, value, put.map_err(|rejected| rejected.reason))
        }
    }
}

/// Two keys in one chain, each with its own history; a third one comes and goes between them.
#[test]
fn calls_take_effect_at_once() {
    const THREADS: usize = 3;
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(250) {
        let domain = Domain::new();
        let cache = room_for(100)
            .lists(1)
            .hasher(crate::cache::Hashes { different: 1 })
            .build(&domain)
            .expect("there is memory");
        let history = together(THREADS, &mut chance, |thread, chance, mine| {
            for _ in 0..14 {
                let key = chance.u8(..3);
                record(thread, mine, || Some((key, act(&cache, key, chance))));
            }
        });
        // Linearizable objects make a linearizable whole: each key is looked at for itself.
        for key in 0..3 {
            let of_the_key: Vec<Done<Call>> = history
                .iter()
                .filter(|done| done.act.0 == key)
                .map(|done| (done.process, done.called, done.returned, done.act.1.clone()))
                .map(Done::from)
                .collect();
            assert!(
                is_linearizable::<Key>(&of_the_key),
                "no order explains {of_the_key:#?}"
            );
        }
    }
}
