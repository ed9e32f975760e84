//! Readers and writers: whatever a section has found stays as long as the section.

use crate::common::eventually::eventually;
use crate::common::seed::seed;
use crate::common::share::share;
use crate::reclaim::each_setting;
use crate::reclaim::objects::{Object, Seen, Yard, clear, look};
use percolog::reclaim::{Domain, DomainClock, DomainOptions, Link, Owned, Section};
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

const LINKS: usize = 4;

/// What a reader does in one section: looks at links, holds on to what it found, and is held up.
fn read(domain: &Domain, links: &[Link<Object>], chance: &mut fastrand::Rng) {
    let mut section = domain.enter();
    {
        let found: Vec<&Object> = (0..chance.usize(1..4))
            .map(|_| look(&links[chance.usize(..links.len())], &section))
            .collect();
        let inner = chance.bool().then(|| domain.enter());
        match chance.u8(..16) {
            0..4 => thread::yield_now(),
            4..8 => (0..chance.u32(..300)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
        drop(inner);
        found.iter().for_each(|object| object.check());
    }
    if chance.u8(..8) == 0 && section.renew() {
        look(&links[0], &section);
    }
}

fn write(yard: &Yard, domain: &Domain, links: &[Link<Object>], chance: &mut fastrand::Rng) {
    let link = &links[chance.usize(..links.len())];
    match chance.u8(..32) {
        0 => {
            domain.collect();
        }
        1 => {
            // What this thread retires it may still look at.
            let section = domain.enter();
            let old = look(link, &section);
            yard.replace(domain, link);
            domain.collect();
            old.check();
        }
        2 => {
            let now = domain.now();
            let _ = domain.quiescent(now);
        }
        _ => {
            yard.replace(domain, link);
        }
    }
}

/// Readers and writers on the same links; everything is destroyed in the end.
fn everybody(options: DomainOptions, rounds: usize, threads: usize, at_start: impl Fn() + Sync) {
    let mut chance = fastrand::Rng::with_seed(seed());
    let yard = Yard::new();
    let domain = Domain::with(options);
    let links: [_; LINKS] = std::array::from_fn(|_| yard.link());
    thread::scope(|scope| {
        for number in 0..threads {
            let (yard, domain, links, at_start) = (&yard, &domain, &links, &at_start);
            let mut chance = chance.fork();
            scope.spawn(move || {
                at_start();
                for _ in 0..rounds {
                    // Half of them mostly read, half mostly write.
                    if chance.u8(..8) == 0 || number % 2 == 0 {
                        read(domain, links, &mut chance);
                    } else {
                        write(yard, domain, links, &mut chance);
                    }
                }
            });
        }
    });
    clear(&yard, &domain, &links);
    drop(domain);
    yard.check_all_destroyed();
}

#[test]
fn sections_keep_what_they_find_in_every_setting() {
    each_setting(|options| everybody(options, share(1500), 4, || {}));
}

#[test]
fn eight_threads_on_two_processors() {
    for clock in [DomainClock::Coarse, DomainClock::Tsc] {
        everybody(
            crate::reclaim::by(clock),
            share(4000),
            8,
            crate::reclaim::on_two_processors,
        );
    }
}

/// The same with memory that is really freed: for the sanitizers, and for what they cannot see, wrong
/// contents.
#[test]
fn memory_that_is_freed_is_read_by_nobody() {
    const WORDS: usize = 16;
    for clock in [DomainClock::Coarse, DomainClock::Tsc] {
        for options in [
            crate::reclaim::by(clock),
            crate::reclaim::by(clock).fenced(),
        ] {
            let domain = Domain::with(options);
            let mut link = Link::new(Owned::new(vec![0; WORDS]));
            thread::scope(|scope| {
                for number in 0..4usize {
                    let (domain, link) = (&domain, &link);
                    scope.spawn(move || {
                        for round in 0..share(5000) {
                            let section = domain.enter();
                            let words = link.load(&section).expect("never empty").get();
                            let first = words[0];
                            if number % 2 == 0 {
                                let new = Owned::new(vec![first + round; WORDS]);
                                let old = link.swap(Some(new)).expect("never empty");
                                // SAFETY: only this link led to it, and it is read in sections.
                                unsafe { domain.retire(old) };
                            }
                            assert!(words.iter().all(|word| *word == first));
                        }
                    });
                }
            });
            drop(link.take());
            drop(domain);
        }
    }
}

/// A section belongs to its thread, not to the processor it began on.
#[cfg(target_os = "linux")]
#[test]
fn readers_are_moved_between_processors_all_the_time() {
    const READERS: usize = 3;
    let moves = share(2000);
    let yard = Yard::new();
    let domain = Domain::new();
    let links = [yard.link()];
    let moved = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (say, hear) = mpsc::channel();
        for _ in 0..READERS {
            let (yard, domain, links, moved, say) = (&yard, &domain, &links, &moved, say.clone());
            scope.spawn(move || {
                // SAFETY: asks for the calling thread's number.
                say.send(unsafe { libc::gettid() })
                    .expect("somebody moves threads");
                let mut round = 0u32;
                while moved.load(Ordering::Relaxed) < moves {
                    round = round.wrapping_add(1);
                    let section = domain.enter();
                    let object = look(&links[0], &section);
                    if round.is_multiple_of(7) {
                        thread::yield_now();
                    }
                    if round.is_multiple_of(3) {
                        yard.replace(domain, &links[0]);
                    }
                    object.check();
                }
            });
        }
        let readers: Vec<_> = hear.iter().take(READERS).collect();
        let processors = crate::reclaim::processors();
        let mut chance = fastrand::Rng::with_seed(seed());
        let mut refused = 0;
        for _ in 0..moves {
            let reader = readers[chance.usize(..readers.len())];
            let to = processors[chance.usize(..processors.len())];
            refused += usize::from(!crate::reclaim::bind(reader, &[to]));
            moved.fetch_add(1, Ordering::Relaxed);
            if chance.bool() {
                thread::yield_now();
            }
        }
        assert!(refused < moves, "the system moves no thread");
    });
    clear(&yard, &domain, &links);
    drop(domain);
    yard.check_all_destroyed();
}

/// Sections of several domains, nested and left in any order.
#[test]
fn sections_of_several_domains_interleave() {
    let mut chance = fastrand::Rng::with_seed(seed());
    let yard = Yard::new();
    let domains: [Domain; 3] = std::array::from_fn(|_| Domain::new());
    let links: [_; 3] = std::array::from_fn(|_| [yard.link()]);
    thread::scope(|scope| {
        for _ in 0..3 {
            let (yard, domains, links) = (&yard, &domains, &links);
            let mut chance = chance.fork();
            scope.spawn(move || {
                let mut open: [Vec<Section<'_>>; 3] = Default::default();
                let mut seen: [Vec<Seen>; 3] = Default::default();
                for _ in 0..share(20_000) {
                    let at = chance.usize(..3);
                    match chance.u8(..8) {
                        0..3 => {
                            let section = domains[at].enter();
                            seen[at].push(Seen::new(look(&links[at][0], &section)));
                            open[at].push(section);
                        }
                        3..6 if !open[at].is_empty() => {
                            assert!(seen[at].iter().all(|object| object.is_alive()));
                            drop(open[at].swap_remove(chance.usize(..open[at].len())));
                            if open[at].is_empty() {
                                seen[at].clear();
                            }
                        }
                        _ => {
                            yard.replace(&domains[at], &links[at][0]);
                        }
                    }
                }
                for (open, seen) in open.iter().zip(&seen) {
                    assert!(open.is_empty() || seen.iter().all(|object| object.is_alive()));
                }
            });
        }
    });
    for (domain, links) in domains.iter().zip(&links) {
        clear(&yard, domain, links);
    }
    drop(domains);
    yard.check_all_destroyed();
}

/// An owned section goes from thread to thread, and its threads end.
#[test]
fn owned_sections_are_passed_on() {
    let yard = Yard::new();
    let domain = Domain::new();
    let links = [yard.link()];
    for _ in 0..share(200) {
        let (section, seen) = thread::scope(|scope| {
            let enter = || {
                let section = domain.enter_owned();
                let seen = look(&links[0], &section).number;
                (section, seen)
            };
            scope.spawn(enter).join().expect("no panic")
        });
        // The thread that entered has ended.
        let old = yard.replace(&domain, &links[0]);
        domain.collect();
        assert!(old.is_alive());
        let mut section = thread::scope(|scope| {
            let check = || {
                yard.retire_new(&domain);
                domain.collect();
                assert!(old.is_alive());
                section
            };
            scope.spawn(check).join().expect("no panic")
        });
        section.renew();
        assert_ne!(look(&links[0], &section).number, seen);
        until_destroyed(&domain, old);
    }
    clear(&yard, &domain, &links);
    drop(domain);
    yard.check_all_destroyed();
}

/// With a clock that is not exact, and threads that are about to end, quiescence can take a moment.
#[track_caller]
pub(crate) fn until_destroyed(domain: &Domain, object: Seen) {
    let destroyed = eventually(|| {
        domain.collect();
        !object.is_alive()
    });
    assert!(
        destroyed,
        "nothing is in the way, and the object is not destroyed: {:?}",
        domain.stats()
    );
}

/// A domain and a link; the link's object is retired when both are dropped.
struct Both<'y> {
    yard: &'y Yard,
    domain: Domain,
    links: [Link<Object>; 1],
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        clear(self.yard, &self.domain, &self.links);
    }
}

/// A domain can be dropped while threads that used it live on, and while they end; the next one may lie
/// at the same address.
#[test]
fn domains_come_and_go() {
    let yard = Yard::new();
    let yard = &yard;
    thread::scope(|scope| {
        let (say, hear) = mpsc::sync_channel::<Arc<Both<'_>>>(0);
        let (done, is_done) = mpsc::channel();
        // Lives through all domains, and now and then is the one who drops them.
        scope.spawn(move || {
            for both in hear {
                let Both { domain, links, .. } = &*both;
                for _ in 0..70 {
                    look(&links[0], &domain.enter());
                    yard.replace(domain, &links[0]);
                }
                drop(both);
                done.send(()).expect("somebody waits");
            }
        });
        for _ in 0..share(300) {
            let both = Arc::new(Both {
                yard,
                domain: Domain::new(),
                links: [yard.link()],
            });
            say.send(Arc::clone(&both)).expect("the thread lives");
            let Both { domain, links, .. } = &*both;
            thread::scope(|scope| {
                // Not waited for by name: its thread-local storage may outlive the scope.
                scope.spawn(|| {
                    look(&links[0], &domain.enter());
                    yard.replace(domain, &links[0]);
                });
            });
            yard.replace(domain, &links[0]);
            drop(both);
            is_done.recv().expect("the thread says so");
        }
        drop(say);
    });
    yard.check_all_destroyed();
}
