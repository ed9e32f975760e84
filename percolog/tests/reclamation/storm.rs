//! Everything that can be done with maps, caches and namespaces, by threads that come and go, with panics everywhere; in the end nothing is left.

use crate::common::alive::Alive;
use crate::common::eventually::eventually;
use crate::common::storm::{
    KEYS, Last, Part, fails, maybe_fail, storm, storm_with_forks, with_failing_parts,
};
use percolog::collections::{Cache, Map, OrderedList};
use percolog::cpu::{self, CoreId};
use percolog::namespace::{Id, Namespace};
use percolog::reclaim::{Domain, DomainOptions, Link, Memory, Owned, Replaceable, WhenFull};
use percolog::slab::{InSlab, Slab, SlabBuilder};
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Drops what the steps have worked on, and finds nothing left.
#[track_caller]
fn nothing_is_left<T>(structure: T, domain: &Domain, alive: &Alive) {
    fails(|| drop(structure));
    let gone = eventually(|| {
        domain.collect();
        alive.count() == 0
    });
    assert!(
        gone,
        "{} values are left: {:?}",
        alive.count(),
        domain.stats()
    );
}

macro_rules! storm_of_a_map {
    ($test:ident, $structure:ident) => {
        #[test]
        fn $test() {
            static DOMAIN: Domain = Domain::new();
            let alive = Alive::default();
            let map = $structure::new(&DOMAIN);
            storm(
                |_| DOMAIN.enter(),
                |key, chance| {
                    let part = || Part::new(&alive, key);
                    match chance.u8(..16) {
                        0..3 => drop(map.add(key, part())),
                        3..5 => drop(map.put(key, part())),
                        5 => drop(map.put_with(key, part(), |_| maybe_fail(chance))),
                        6 => drop(map.observe(&key, |_| maybe_fail(chance))),
                        7 => drop(map.modify(&key, |_| maybe_fail(chance))),
                        8 => drop(map.update(&key, |_| {
                            maybe_fail(chance);
                            part()
                        })),
                        9 => {
                            let section = DOMAIN.enter();
                            let found = map.get_or_add(&section, key, || {
                                maybe_fail(chance);
                                part()
                            });
                            if let Ok(found) = found {
                                assert_eq!(found.number(), key);
                            }
                        }
                        10..12 => drop(map.delete(&key)),
                        12 => drop(map.delete_with(&key, |_| maybe_fail(chance))),
                        13 => drop(map.delete_if(&key, |_| chance.bool())),
                        14 => drop(map.clear_poison(&key)),
                        _ if chance.u8(..16) == 0 => map.clear(),
                        _ => {
                            let section = DOMAIN.enter();
                            for (key, part) in map.iter(&section) {
                                assert_eq!(part.number(), *key);
                            }
                        }
                    }
                },
            );
            nothing_is_left(map, &DOMAIN, &alive);
        }
    };
}

storm_of_a_map!(nothing_is_left_of_a_map, Map);
storm_of_a_map!(nothing_is_left_of_a_list, OrderedList);

#[test]
fn nothing_is_left_of_a_cache() {
    static DOMAIN: Domain = Domain::new();
    let alive = Alive::default();
    // Less room than there are keys.
    let bytes = KEYS as usize / 2 * Cache::<u64, Part>::ITEM_BYTES;
    let cache = Cache::<u64, Part>::builder(bytes)
        .build(&DOMAIN)
        .expect("there is memory");
    storm(
        |_| DOMAIN.enter(),
        |key, chance| {
            let part = || Part::new(&alive, key);
            match chance.u8(..16) {
                0..4 => drop(cache.set(key, part())),
                4 => drop(cache.set_for(key, part(), Duration::from_millis(1))),
                5 => drop(cache.add(key, part())),
                6 => drop(cache.replace(key, part())),
                7 => {
                    let section = DOMAIN.enter();
                    let version = cache.get_item(&section, &key).map(|item| item.version());
                    if let Some(version) = version {
                        drop(cache.compare_and_set(key, version, part()));
                    }
                }
                8 => drop(cache.update(&key, |_| {
                    maybe_fail(chance);
                    part()
                })),
                9 => drop(cache.observe(&key, |part| {
                    assert_eq!(part.number(), key);
                    maybe_fail(chance);
                })),
                10 => drop(cache.delete(&key)),
                11 => drop(cache.touch(&key, None)),
                12 => drop(cache.expire(10)),
                13 => drop(cache.contains(&key)),
                _ => {
                    let section = DOMAIN.enter();
                    for item in cache.iter(&section) {
                        assert_eq!(item.value().number(), *item.key());
                    }
                }
            }
        },
    );
    nothing_is_left(cache, &DOMAIN, &alive);
}

#[test]
fn nothing_is_left_of_a_namespace() {
    static DOMAIN: Domain = Domain::new();
    let alive = Alive::default();
    let names = Namespace::<Part>::new(&DOMAIN);
    let ids = Mutex::new(Vec::<Id<Part>>::new());
    storm(
        |_| DOMAIN.enter(),
        |key, chance| {
            let any = |chance: &mut fastrand::Rng| {
                let ids = ids.lock().expect("nobody panics with it");
                (!ids.is_empty()).then(|| ids[chance.usize(..ids.len())])
            };
            match chance.u8(..8) {
                0..3 => {
                    let id = names.insert(Part::new(&alive, key)).expect("there are ids");
                    ids.lock().expect("nobody panics with it").push(id);
                }
                3 => {
                    let extent = names.insert_extent(5, |_| {
                        maybe_fail(chance);
                        Part::new(&alive, key)
                    });
                    let _ = names.remove_extent(extent.expect("there are ids"));
                }
                4 => drop(names.collect()),
                5 => {
                    let section = DOMAIN.enter();
                    for (_, part) in names.iter(&section) {
                        part.number();
                    }
                }
                6 => {
                    let section = DOMAIN.enter();
                    if let Some(id) = any(chance)
                        && let Ok(part) = names.get(&section, id)
                    {
                        part.number();
                        maybe_fail(chance);
                    }
                }
                _ => {
                    if let Some(id) = any(chance) {
                        ids.lock()
                            .expect("nobody panics with it")
                            .retain(|it| *it != id);
                        drop(names.remove(id));
                    }
                }
            }
        },
    );
    nothing_is_left(names, &DOMAIN, &alive);
}

/// An object that, when it is destroyed, uses the domain and retires another one.
struct Owner {
    part: Part,
    domain: &'static Domain,
    owned: Option<Owned<Part>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _section = self.domain.enter();
        if let Some(owned) = self.owned.take() {
            // SAFETY: it was never linked.
            unsafe { self.domain.retire(owned.into()) };
        }
    }
}

impl Owner {
    fn new(
        domain: &'static Domain,
        alive: &Alive,
        number: u64,
        chance: &mut fastrand::Rng,
    ) -> Self {
        Self {
            part: Part::new(alive, number),
            domain,
            owned: chance
                .bool()
                .then(|| Owned::new(Part::new(alive, number + 1))),
        }
    }
}

/// Links through which threads find objects, in sections of one domain.
struct Links<M: Memory> {
    domain: &'static Domain,
    links: [Link<Owner, M>; 8],
}

impl<M: Memory> Links<M> {
    fn new(domain: &'static Domain) -> Self {
        Self {
            domain,
            links: [const { Link::null() }; 8],
        }
    }

    fn any(&self, chance: &mut fastrand::Rng) -> &Link<Owner, M> {
        &self.links[chance.usize(..self.links.len())]
    }

    /// What can be done with objects in any kind of memory.
    fn step(
        &self,
        new: impl Fn(&mut fastrand::Rng) -> Option<Owned<Owner, M>>,
        chance: &mut fastrand::Rng,
    ) {
        let (domain, link) = (self.domain, self.any(chance));
        match chance.u8(..8) {
            0..3 => {
                if let Some(old) = link.swap(new(chance)) {
                    // SAFETY: this link alone led to it, and is read in sections of the domain.
                    unsafe { domain.retire(old) };
                }
            }
            3 => {
                if let Some(old) = link.swap(None) {
                    // SAFETY: as above.
                    if let Err(full) = unsafe { domain.try_retire(old) } {
                        full.unlinked.part.number();
                        // SAFETY: as above, and it was handed back.
                        unsafe { domain.retire(full.unlinked) };
                    }
                }
            }
            4 => {
                let section = domain.enter();
                let found = link.load(&section);
                if let Ok(Some(old)) = link.compare_exchange(found, new(chance), &section) {
                    old.part.number();
                    // SAFETY: as above.
                    unsafe { domain.retire(old) };
                }
            }
            5 => {
                let (_outer, section) = (domain.enter_owned(), domain.enter());
                let found = link.load(&section);
                self.step(new, chance);
                if let Some(found) = found {
                    found.part.number();
                }
                maybe_fail(chance);
            }
            6 => {
                // Nobody has seen it.
                if let Some(owner) = new(chance) {
                    // SAFETY: as above.
                    unsafe { domain.retire(owner.into()) };
                }
            }
            _ => {
                let mut section = domain.enter();
                for round in 0..2 {
                    if let Some(found) = self.any(chance).load(&section) {
                        found.part.number();
                    }
                    if round == 0 {
                        section.renew();
                    }
                }
            }
        }
    }
}

impl<M: Memory> Drop for Links<M> {
    fn drop(&mut self) {
        for link in &mut self.links {
            fails(|| drop(link.take()));
        }
    }
}

/// Moves the thread, and collects.
fn in_between(domain: &Domain, chance: &mut fastrand::Rng) {
    cpu::bind(CoreId::new(chance.u32(..3)));
    let now = domain.now();
    domain.collect();
    let _ = (domain.quiescent(now), domain.stats());
}

/// All of a domain that is dropped at once, though a section of it was forgotten.
fn a_domain_that_ends(alive: &Alive, key: u64) {
    let domain = Domain::new();
    let value = Replaceable::new(&domain, Part::new(alive, key));
    mem::forget(domain.enter());
    value.replace(Part::new(alive, key + 1));
    fails(|| drop(value));
    drop(domain);
}

#[test]
fn nothing_is_left_of_domains() {
    static DOMAINS: [Domain; 3] = [
        Domain::new(),
        Domain::with(DomainOptions::new().fenced()),
        Domain::with(DomainOptions::new().cap(2000, WhenFull::Refuse)),
    ];
    let alive = Alive::default();
    type All = [(Links<percolog::reclaim::Boxed>, Replaceable<'static, Part>); 3];
    let all: Arc<All> = Arc::new(DOMAINS.each_ref().map(|domain| {
        (
            Links::new(domain),
            Replaceable::new(domain, Part::new(&alive, 0)),
        )
    }));
    let step = |all: &All, alive: &Alive, key: u64, chance: &mut fastrand::Rng| {
        let (links, value) = &all[chance.usize(..all.len())];
        let domain = links.domain;
        match chance.u8(..16) {
            0 => in_between(domain, chance),
            1 => value.replace(Part::new(alive, key)),
            2 => {
                if let Err(full) = value.try_replace(Part::new(alive, key)) {
                    // SAFETY: the value's link alone led to it.
                    unsafe { domain.retire(full.unlinked) };
                }
            }
            3 => value.update(|part| {
                maybe_fail(chance);
                with_failing_parts(chance, || part.clone())
            }),
            4 => value.read(|part| {
                part.number();
                maybe_fail(chance);
            }),
            5 => {
                unsafe fn reclaim(part: *mut Part) {
                    // SAFETY: from a box, below.
                    drop(unsafe { Box::from_raw(part) });
                }
                let part = Box::into_raw(Box::new(Part::new(alive, key)));
                // SAFETY: nobody else has it, and it is a box's.
                unsafe { domain.retire_with(part, reclaim) };
            }
            6 => a_domain_that_ends(alive, key),
            _ => links.step(
                |chance| Some(Owned::new(Owner::new(domain, alive, key, chance))),
                chance,
            ),
        }
    };
    storm_with_forks(
        |chance| {
            let (all, alive, mut chance) = (all.clone(), alive.clone(), chance.fork());
            let kept = DOMAINS
                .each_ref()
                .map(|domain| (domain.enter(), domain.enter_owned()));
            let last = Last(move || {
                for key in 0..20 {
                    fails(|| step(&all, &alive, key, &mut chance));
                }
            });
            (kept, last)
        },
        |key, chance| step(&all, &alive, key, chance),
    );
    let all = Arc::into_inner(all).expect("all threads are gone");
    for (links, value) in all {
        fails(|| drop(value));
        drop(links);
    }
    let gone = eventually(|| {
        DOMAINS.iter().for_each(|domain| _ = domain.collect());
        alive.count() == 0
    });
    let stats = DOMAINS.each_ref().map(Domain::stats);
    assert!(gone, "{} values are left: {stats:?}", alive.count());
    assert!(stats.iter().all(|it| it.unreclaimed == 0), "{stats:?}");
}

#[test]
fn nothing_is_left_of_slabs() {
    type Objects = Slab<'static, Owner>;
    static DOMAINS: [Domain; 2] = [Domain::new(), Domain::new()];
    static SLABS: [Objects; 3] = [
        Slab::new(&DOMAINS[0]),
        SlabBuilder::new().keep(0).build(&DOMAINS[1]),
        // Two chunks, for several threads.
        SlabBuilder::new()
            .limit(2 * Objects::CHUNK_BYTES)
            .build(&DOMAINS[1]),
    ];
    let alive = Alive::default();
    let links: Arc<[_; 3]> = Arc::new(
        SLABS
            .each_ref()
            .map(|slab| Links::<InSlab>::new(slab.domain())),
    );
    let step = |links: &[Links<InSlab>; 3], alive: &Alive, key: u64, chance: &mut fastrand::Rng| {
        let at = chance.usize(..SLABS.len());
        let (slab, links) = (&SLABS[at], &links[at]);
        let insert = |chance: &mut fastrand::Rng| {
            let owner = Owner::new(slab.domain(), alive, key, chance);
            let inserted = slab
                .insert(owner)
                .map_err(|error| error.value.part.number());
            inserted.inspect_err(|number| assert_eq!(*number, key)).ok()
        };
        match chance.u8(..12) {
            0 => in_between(slab.domain(), chance),
            1 => _ = slab.collect(),
            2 => drop(insert(chance)),
            3 => drop(insert(chance).map(Slab::into_inner)),
            4 => {
                let _many: Vec<_> = (0..20).map_while(|_| insert(chance)).collect();
                maybe_fail(chance);
            }
            5 => {
                // Its objects stay good without it.
                let own = Slab::new(slab.domain());
                let object = own.insert(Part::new(alive, key)).expect("there is memory");
                let other = own.insert(Part::new(alive, 0)).expect("there is memory");
                // SAFETY: it was never linked.
                unsafe { own.free(other.into()) };
                drop(own);
                assert_eq!(object.number(), key);
            }
            6 => assert!(slab.stats().destroyed <= slab.stats().inserted),
            _ => links.step(insert, chance),
        }
    };
    storm_with_forks(
        |chance| {
            let (links, alive, mut chance) = (links.clone(), alive.clone(), chance.fork());
            let kept: Vec<_> = (0..20)
                .filter_map(|key| {
                    let slab = &SLABS[key as usize % 3];
                    let kept = slab.insert(Owner::new(slab.domain(), &alive, key * 8, &mut chance));
                    kept.ok()
                })
                .collect();
            let last = Last(move || {
                for key in 0..20 {
                    fails(|| step(&links, &alive, key, &mut chance));
                }
            });
            (kept, last)
        },
        |key, chance| step(&links, &alive, key, chance),
    );
    drop(links);
    let gone = eventually(|| {
        SLABS.iter().for_each(|slab| _ = slab.collect());
        alive.count() == 0 && SLABS.iter().all(|slab| slab.stats().chunks == 0)
    });
    let stats = SLABS.each_ref().map(Slab::stats);
    assert!(gone, "{} values are left: {stats:?}", alive.count());
    assert!(stats.iter().all(|it| it.objects == 0), "{stats:?}");
}
