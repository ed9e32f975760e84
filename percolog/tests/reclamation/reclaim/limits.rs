//! Caps, grace periods, and destructors that do things.

use crate::common::eventually::eventually;
use crate::common::share::share;
use crate::reclaim::objects::{Seen, Yard};
use crate::reclaim::sections::until_destroyed;
use percolog::reclaim::{
    Domain, DomainOptions, GracePeriod, Owned, StalledSection, Verdict, WhenFull,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const SIZE: usize = 1000;
const CAP: usize = 64 * SIZE;

fn retire(domain: &Domain) {
    // SAFETY: nobody has ever seen the object.
    unsafe { domain.retire(Owned::new([0u8; SIZE]).into()) };
}

fn try_retire(domain: &Domain) -> bool {
    // SAFETY: as above.
    match unsafe { domain.try_retire(Owned::new([0u8; SIZE]).into()) } {
        Ok(()) => true,
        Err(refused) => {
            // SAFETY: as above.
            drop(unsafe { refused.unlinked.into_owned() });
            false
        }
    }
}

/// Runs `test` while a thread of this name is in a section; ends the section when it is told to, or when
/// the test is over.
fn with_a_reader(domain: &Domain, test: impl FnOnce(mpsc::Sender<()>)) {
    thread::scope(|scope| {
        let (entered, is_inside) = mpsc::channel();
        let (say, leave) = mpsc::channel::<()>();
        thread::Builder::new()
            .name("the reader".into())
            .spawn_scoped(scope, move || {
                let _section = domain.enter();
                entered.send(()).expect("somebody waits");
                // An error: the test is over.
                let _ = leave.recv();
            })
            .expect("a thread");
        is_inside.recv().expect("the reader enters");
        test(say);
    });
}

#[test]
fn a_full_domain_blocks_until_the_reader_leaves() {
    let domain = Domain::with(DomainOptions::new().cap(CAP, WhenFull::Block));
    with_a_reader(&domain, |leave| {
        let most = thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut most = 0;
                        for _ in 0..share(500) {
                            retire(&domain);
                            most = most.max(domain.stats().unreclaimed_bytes);
                        }
                        // What is left here would take up the other's room.
                        domain.collect();
                        most
                    })
                })
                .collect();
            while domain.stats().unreclaimed_bytes < (CAP - 2 * SIZE) as u64 {
                thread::yield_now();
            }
            // Somebody is waiting, or about to.
            leave.send(()).expect("the reader waits");
            let most = writers
                .into_iter()
                .map(|writer| writer.join().expect("no panic"));
            most.max()
        });
        // Each can be late by what it retires between two looks, here one object.
        assert!(most <= Some((CAP + 2 * SIZE) as u64), "{most:?}");
        assert_eq!(domain.stats().beyond_cap, 0);
        assert_eq!(domain.stats().refused, 0);
    });
}

#[test]
fn a_thread_that_is_inside_itself_is_not_blocked() {
    let domain = Domain::with(DomainOptions::new().cap(CAP, WhenFull::Block));
    let section = domain.enter();
    (0..CAP / SIZE).for_each(|_| retire(&domain));
    assert!(!try_retire(&domain));
    retire(&domain);
    let stats = domain.stats();
    assert_eq!((stats.refused, stats.beyond_cap), (1, 1));
    drop(section);
    assert!(try_retire(&domain));
}

/// Two more for each that is destroyed, until there were many: the thread that destroys them is the only
/// one that could make room.
#[test]
fn a_destructor_does_not_wait_for_its_own_thread() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static DOMAIN: Domain = Domain::with(DomainOptions::new().cap(CAP, WhenFull::Block));
    static ASKS: Domain =
        Domain::with(DomainOptions::new().cap(CAP, WhenFull::Ask(|_| Verdict::Wait)));
    struct Tree(
        &'static Domain,
        #[expect(dead_code, reason = "counts")] [u8; SIZE],
    );
    impl Tree {
        fn retire(domain: &'static Domain) {
            MADE.fetch_add(1, Ordering::Relaxed);
            // SAFETY: nobody has ever seen the object.
            unsafe { domain.retire(Owned::new(Tree(domain, [0; SIZE])).into()) };
        }
    }
    impl Drop for Tree {
        fn drop(&mut self) {
            if MADE.load(Ordering::Relaxed) < 1000 {
                Tree::retire(self.0);
                Tree::retire(self.0);
            }
        }
    }
    for domain in [&DOMAIN, &ASKS] {
        MADE.store(0, Ordering::Relaxed);
        Tree::retire(domain);
        domain.collect();
        let stats = domain.stats();
        assert!(stats.beyond_cap > 0, "{stats:?}");
        assert_eq!(stats.destroyed, MADE.load(Ordering::Relaxed) as u64);
    }
}

/// What a policy was told, and what it says.
static TOLD: Mutex<Vec<StalledSection>> = Mutex::new(Vec::new());

fn tell(stalled: &StalledSection, last: Verdict) -> Verdict {
    let mut told = TOLD.lock().expect("nobody panics here");
    told.push(stalled.clone());
    if told.len() < 4 { Verdict::Wait } else { last }
}

#[test]
fn a_policy_is_told_who_is_in_the_way_and_decides() {
    for (when_full, taken) in [
        (
            WhenFull::Ask(|stalled| tell(stalled, Verdict::Refuse)),
            false,
        ),
        (
            WhenFull::Ask(|stalled| tell(stalled, Verdict::Exceed)),
            true,
        ),
    ] {
        TOLD.lock().expect("nobody panics there").clear();
        let domain = Domain::with(DomainOptions::new().cap(CAP, when_full));
        with_a_reader(&domain, |_leave| {
            for _ in 0..CAP / SIZE {
                assert!(try_retire(&domain));
            }
            // Who it is is only found out when nobody else is about to make a rare step.
            crate::reclaim::stalled::in_the_way(&domain);
            assert_eq!(try_retire(&domain), taken);
            let stats = domain.stats();
            assert_eq!(
                (stats.refused, stats.beyond_cap),
                if taken { (0, 1) } else { (1, 0) }
            );
            let told = TOLD.lock().expect("nobody panics there");
            assert_eq!(told.len(), 4);
            assert!(
                told.iter()
                    .all(|stalled| stalled.name.as_deref() == Some("the reader"))
            );
            assert!(told.is_sorted_by_key(|stalled| stalled.at_least));
            assert!(told[3].at_least > Duration::ZERO);
            assert!(told[3].to_string().contains("the reader"));
        });
    }
}

/// Nobody is in a section, and the room is taken up all the same: by what an idle thread has retired.
#[test]
fn a_policy_that_asks_does_not_wait_for_nobody() {
    let domain = Domain::with(DomainOptions::new().cap(CAP, WhenFull::Ask(|_| Verdict::Wait)));
    let (full, is_full) = mpsc::channel();
    let (say, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let domain = &domain;
        scope.spawn(move || {
            // Without a `collect`, and less than makes it look for quiescence.
            (0..CAP / SIZE).for_each(|_| retire(domain));
            full.send(()).expect("somebody waits");
            let _ = end.recv();
        });
        is_full.recv().expect("it says so");
        assert!(!try_retire(domain));
        drop(say);
    });
}

// ── Grace periods ──

/// Elapses when it is told to.
struct Told(AtomicBool);

impl GracePeriod for Told {
    fn elapsed(&self, _: u64) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_grace_period_that_does_not_elapse_keeps_everything_and_holds_up_nobody() {
    static GRACE: Told = Told(AtomicBool::new(false));
    let yard = Yard::new();
    let domain = Domain::with(DomainOptions::new().grace(&GRACE));
    for _ in 0..share(10_000) {
        drop(domain.enter());
        yard.retire_new(&domain);
    }
    assert_eq!(domain.collect(), 0);
    assert_eq!(yard.destroyed(), 0);
    assert!(domain.stats().stalled.is_none(), "no section is in the way");
    // It elapses late, and everything goes.
    GRACE.0.store(true, Ordering::Relaxed);
    let last = yard.retire_new(&domain);
    until_destroyed(&domain, last);
    assert_eq!(yard.destroyed(), yard.made());
    // And never again: the domain is dropped, and nobody is left to reuse anything.
    GRACE.0.store(false, Ordering::Relaxed);
    for _ in 0..share(1000) {
        yard.retire_new(&domain);
    }
    drop(domain);
    yard.check_all_destroyed();
}

/// Both functions of a grace period use the domain that asks.
#[test]
fn a_grace_period_may_use_its_domain() {
    static YARD: Yard = Yard::new();
    static DOMAIN: Domain = Domain::with(DomainOptions::new().grace(&GRACE));
    static GRACE: Busy = Busy {
        retires: AtomicBool::new(true),
        open: AtomicBool::new(false),
        asked: AtomicBool::new(false),
    };
    struct Busy {
        retires: AtomicBool,
        open: AtomicBool,
        asked: AtomicBool,
    }
    impl GracePeriod for Busy {
        fn begin(&self) -> u64 {
            if self.retires.load(Ordering::Relaxed) {
                drop(DOMAIN.enter());
                YARD.retire_new(&DOMAIN);
            }
            0
        }
        fn elapsed(&self, _: u64) -> bool {
            // Asked again while it answers: there is an end to that, too.
            if self.open.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::Relaxed) {
                DOMAIN.collect();
                self.asked.store(false, Ordering::Relaxed);
            }
            self.open.load(Ordering::Relaxed)
        }
    }
    // `begin` retires to a block while another one is being closed.
    for _ in 0..1000 {
        YARD.retire_new(&DOMAIN);
    }
    assert_eq!(DOMAIN.collect(), 0);
    GRACE.retires.store(false, Ordering::Relaxed);
    GRACE.open.store(true, Ordering::Relaxed);
    let last = YARD.retire_new(&DOMAIN);
    until_destroyed(&DOMAIN, last);
    YARD.check_all_destroyed();
    // One block for which nothing but the grace period is missing.
    GRACE.open.store(false, Ordering::Relaxed);
    let first = YARD.retire_new(&DOMAIN);
    assert_eq!(DOMAIN.collect(), 0);
    // What is retired in a section stays, also when `elapsed` comes back and takes away what was before.
    let section = DOMAIN.enter_owned();
    let kept: Vec<Seen> = (0..1000).map(|_| YARD.retire_new(&DOMAIN)).collect();
    GRACE.open.store(true, Ordering::Relaxed);
    for _ in 0..10 {
        DOMAIN.collect();
        assert!(!first.is_alive());
        assert!(kept.iter().all(|object| object.is_alive()));
    }
    drop(section);
    for object in kept {
        until_destroyed(&DOMAIN, object);
    }
}

// ── Destructors ──

/// Destructors that panic, retire and enter, at random, in the middle of everything.
#[test]
fn destructors_may_do_anything() {
    static DOMAIN: Domain = Domain::new();
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static GONE: AtomicUsize = AtomicUsize::new(0);
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    struct Wild(u8);
    impl Wild {
        fn retire(kind: u8) {
            MADE.fetch_add(1, Ordering::Relaxed);
            // SAFETY: nobody has ever seen the object.
            unsafe { DOMAIN.retire(Owned::new(Wild(kind)).into()) };
        }
    }
    impl Drop for Wild {
        fn drop(&mut self) {
            GONE.fetch_add(1, Ordering::Relaxed);
            match self.0 % 16 {
                0 => {
                    PANICS.fetch_add(1, Ordering::Relaxed);
                    // Without the message that the hook would print.
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                1..4 => Wild::retire(self.0 / 2),
                4 => {
                    let _section = DOMAIN.enter();
                    Wild::retire(5);
                    DOMAIN.collect();
                }
                5 => {
                    DOMAIN.collect();
                }
                _ => {}
            }
        }
    }
    thread::scope(|scope| {
        for number in 0..3u8 {
            scope.spawn(move || {
                for round in 0..share(5000) {
                    let section = DOMAIN.enter();
                    Wild::retire(number.wrapping_mul(31).wrapping_add(round as u8));
                    drop(section);
                }
                DOMAIN.collect();
            });
        }
    });
    eventually(|| {
        DOMAIN.collect();
        GONE.load(Ordering::Relaxed) == MADE.load(Ordering::Relaxed)
    });
    assert_eq!(GONE.load(Ordering::Relaxed), MADE.load(Ordering::Relaxed));
    assert!(PANICS.load(Ordering::Relaxed) > 0);
    assert_eq!(DOMAIN.stats().panics, PANICS.load(Ordering::Relaxed) as u64);
    assert_eq!(DOMAIN.stats().unreclaimed, 0);
}
