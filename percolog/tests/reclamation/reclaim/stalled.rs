//! What piles up behind a section that does not end, and what becomes of it; one thread alone.

use crate::common::eventually::eventually;
use crate::common::share::share;
use crate::reclaim::objects::{Seen, Yard, clear, look};
use crate::reclaim::sections::until_destroyed;
use percolog::cpu::barrier::BarrierMode;
use percolog::reclaim::{Domain, DomainClock, DomainOptions, StalledSection};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Who is in the way. A scan that meets somebody only notes who it was if nobody else is about to make a
/// rare step, so it is asked again.
#[track_caller]
pub(crate) fn in_the_way(domain: &Domain) -> StalledSection {
    let mut stalled = None;
    eventually(|| {
        domain.collect();
        stalled = domain.stats().stalled;
        stalled.is_some()
    });
    stalled.unwrap_or_else(|| panic!("nobody is in the way: {:?}", domain.stats()))
}

/// Replaces the object so many times; the largest number of objects that were waiting meanwhile.
fn replace(
    yard: &Yard,
    domain: &Domain,
    link: &percolog::reclaim::Link<crate::reclaim::objects::Object>,
    times: usize,
) -> u64 {
    (0..times)
        .map(|round| {
            yard.replace(domain, link);
            if round % 64 == 0 {
                domain.stats().unreclaimed
            } else {
                0
            }
        })
        .max()
        .unwrap_or(0)
}

/// How many objects of one thread may be waiting when nobody is in the way: some blocks and targets.
const FEW: u64 = 10_000;

/// The published implementation kept what had gathered behind a stalled reader for a million operations more.
fn a_stalled_reader(options: DomainOptions) {
    let yard = Yard::new();
    let domain = Domain::with(options);
    let links = [yard.link()];
    let gathered = share(30_000);
    thread::scope(|scope| {
        let (entered, is_inside) = mpsc::channel();
        let (say, leave) = mpsc::channel::<()>();
        let (domain, links) = (&domain, &links);
        let reader = move || {
            let section = domain.enter();
            let object = look(&links[0], &section);
            entered.send(Seen::new(object)).expect("somebody waits");
            leave.recv().expect("somebody says so");
            object.check();
        };
        let reader = thread::Builder::new()
            .name("the reader".into())
            .spawn_scoped(scope, reader)
            .expect("a thread");
        let seen = is_inside.recv().expect("the reader enters");
        for round in 0..gathered {
            yard.replace(domain, &links[0]);
            assert!(round % 1000 != 0 || seen.is_alive());
        }
        assert_eq!(
            yard.destroyed(),
            0,
            "all of it was there when the reader entered, or later"
        );
        let stats = domain.stats();
        assert_eq!(stats.unreclaimed, gathered as u64);
        // Attempts become rare, and no rarer than one for some hundred frees.
        assert!(
            stats.failed_scans as usize <= gathered / 256 + 16,
            "{stats:?}"
        );
        assert!(
            stats.failed_scans as usize >= gathered / 16_384,
            "{stats:?}"
        );
        let stalled = in_the_way(domain);
        assert_eq!(stalled.name.as_deref(), Some("the reader"));
        assert_eq!(stalled.thread, Some(reader.thread().id()));
        say.send(()).expect("the reader waits");
        reader.join().expect("its object stayed");
    });
    // Where a look costs a system call, there are fewer of them.
    let few = match domain.stats().barrier {
        BarrierMode::Fence => FEW / 10,
        _ => FEW,
    };
    // Seven go at every free while there are very many of them, then one.
    replace(&yard, &domain, &links[0], gathered / 2 + 8000);
    let left = domain.stats().unreclaimed;
    assert!(left < few, "{left} are left of {gathered}");
    // And what waits is as little as if there had been no such reader.
    let most = replace(&yard, &domain, &links[0], share(20_000));
    assert!(most < few, "{most} objects waited");
    clear(&yard, &domain, &links);
    drop(domain);
    yard.check_all_destroyed();
}

#[test]
fn what_has_gathered_behind_a_stalled_reader_goes_away() {
    crate::reclaim::each_setting(a_stalled_reader);
}

/// The published implementation never reclaims anything on one core.
#[test]
fn one_thread_alone_reclaims() {
    for clock in [DomainClock::Coarse, DomainClock::Tsc] {
        let yard = Yard::new();
        let domain = Domain::with(crate::reclaim::by(clock));
        let links = [yard.link()];
        let most = replace(&yard, &domain, &links[0], share(100_000));
        assert!(most < FEW, "{most} objects waited");
        assert!(domain.stats().destroyed > share(100_000) as u64 - FEW);
        clear(&yard, &domain, &links);
        drop(domain);
        yard.check_all_destroyed();
    }
}

#[test]
fn one_object_is_enough_to_collect() {
    for clock in [DomainClock::Coarse, DomainClock::Tsc] {
        let yard = Yard::new();
        let domain = Domain::with(crate::reclaim::by(clock));
        let object = yard.retire_new(&domain);
        until_destroyed(&domain, object);
    }
    let yard = Yard::new();
    let domain = Domain::new();
    yard.retire_new(&domain);
    assert_eq!(
        domain.collect(),
        1,
        "the coarse clock does not have to be waited for"
    );
}

/// Equal stamps are not enough: the section began at the same stamp as the object was retired at, and
/// everything before that stamp is quiescent.
#[test]
fn a_tie_is_not_quiescence() {
    let yard = Yard::new();
    let domain = Domain::new();
    for _ in 0..100 {
        let link = yard.link();
        let earlier = domain.now();
        assert!(domain.quiescent(earlier));
        let section = domain.enter_owned();
        let object = look(&link, &section);
        let now = domain.now();
        yard.replace(&domain, &link);
        domain.collect();
        object.check();
        assert!(!domain.quiescent(now));
        drop(section);
        assert!(domain.quiescent(now));
        clear(&yard, &domain, &[link]);
    }
    drop(domain);
    yard.check_all_destroyed();
}

/// Whoever enters again at the stamp of its last exit is inside.
#[test]
fn entering_again_at_once_is_entering() {
    let yard = Yard::new();
    let domain = Domain::new();
    let link = yard.link();
    for _ in 0..100 {
        drop(domain.enter());
        let section = domain.enter();
        let object = look(&link, &section);
        yard.replace(&domain, &link);
        for _ in 0..3 {
            domain.collect();
        }
        object.check();
        drop(section);
        domain.collect();
    }
    clear(&yard, &domain, &[link]);
    drop(domain);
    yard.check_all_destroyed();
}

/// A section whose thread has ended without leaving it never ends; the domain can still be dropped.
#[test]
fn a_forgotten_section_keeps_everything_and_is_named() {
    let yard = Yard::new();
    let domain = Domain::new();
    let links = [yard.link()];
    thread::scope(|scope| {
        thread::Builder::new()
            .name("forgetful".into())
            .spawn_scoped(scope, || {
                yard.retire_new(&domain);
                domain.collect();
                std::mem::forget(domain.enter());
            })
            .expect("a thread")
            .join()
            .expect("no panic");
    });
    let before = yard.destroyed();
    let now = domain.now();
    replace(&yard, &domain, &links[0], share(5000));
    assert_eq!(domain.collect(), 0);
    assert_eq!(yard.destroyed(), before);
    assert!(!domain.quiescent(now));
    assert_eq!(in_the_way(&domain).name.as_deref(), Some("forgetful"));
    let error = domain
        .synchronize_for(Duration::from_millis(1))
        .expect_err("it never ends");
    assert!(error.to_string().contains("forgetful"), "{error}");
    // Other threads get other records.
    thread::scope(|scope| {
        scope.spawn(|| drop(domain.enter()));
    });
    assert_eq!(domain.collect(), 0);
    clear(&yard, &domain, &links);
    drop(domain);
    yard.check_all_destroyed();
}

/// Unwinding leaves the sections, nested ones as well.
#[test]
fn a_panic_leaves_the_sections() {
    let yard = Yard::new();
    let domain = Domain::new();
    let links = [yard.link()];
    for _ in 0..share(100) {
        thread::scope(|scope| {
            let died = scope.spawn(|| {
                let outer = domain.enter();
                let _inner = domain.enter();
                let _owned = domain.enter_owned();
                look(&links[0], &outer);
                yard.replace(&domain, &links[0]);
                // Without the message that the hook would print.
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            assert!(died.join().is_err());
        });
        let object = yard.replace(&domain, &links[0]);
        until_destroyed(&domain, object);
    }
    clear(&yard, &domain, &links);
    drop(domain);
    yard.check_all_destroyed();
}
