//! Threads that are short-lived, on their way out, or idle.

use crate::common::eventually::eventually;
use crate::common::share::share;
use crate::reclaim::objects::{Object, Seen, Yard, clear, look};
use crate::reclaim::sections::until_destroyed;
use percolog::reclaim::{Domain, DomainClock, DomainOptions, Link, Section};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Collects until everything of the yard was destroyed; what threads leave behind can take a moment.
#[track_caller]
fn until_all_destroyed(yard: &Yard, domain: &Domain) {
    let destroyed = eventually(|| {
        domain.collect();
        yard.destroyed() == yard.made()
    });
    let left = yard.made() - yard.destroyed();
    assert!(
        destroyed,
        "{left} objects of threads that have ended are left: {:?}",
        domain.stats()
    );
}

#[test]
fn ten_thousand_short_lived_threads() {
    const AT_ONCE: usize = 4;
    let yard = Yard::new();
    let domain = Domain::new();
    let links = [yard.link(), yard.link()];
    thread::scope(|scope| {
        for at in 0..AT_ONCE {
            let (yard, domain, links) = (&yard, &domain, &links);
            scope.spawn(move || {
                for _ in 0..share(10_000 / AT_ONCE) {
                    let life = || {
                        let section = domain.enter();
                        let object = look(&links[at % 2], &section);
                        for link in links {
                            yard.replace(domain, link);
                        }
                        object.check();
                    };
                    thread::scope(|scope| scope.spawn(life).join().expect("no panic"));
                }
            });
        }
    });
    let active = domain.stats().active;
    assert!(
        active <= AT_ONCE,
        "{active} records, and never more than {AT_ONCE} threads"
    );
    clear(&yard, &domain, &links);
    until_all_destroyed(&yard, &domain);
    drop(domain);
    yard.check_all_destroyed();
}

/// What destructors of thread-local values do to a domain, before and after the room's own thread-local
/// values are gone.
mod last_moments {
    use super::*;

    static DOMAIN: Domain = Domain::new();
    static YARD: Yard = Yard::new();
    static LINK: Link<Object> = Link::null();
    /// Threads that were found inside, in their last moments.
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    /// What the thread in its last moments has found.
    static FOUND: AtomicPtr<Object> = AtomicPtr::new(std::ptr::null_mut());
    static REPLACED: AtomicBool = AtomicBool::new(false);
    static TOO_EARLY: AtomicUsize = AtomicUsize::new(0);

    /// A panic here would end the process without a word: it counts instead.
    struct Last;

    impl Drop for Last {
        fn drop(&mut self) {
            let outer = DOMAIN.enter();
            let inner = DOMAIN.enter();
            let Some(object) = LINK.load(&outer) else {
                return;
            };
            drop(inner);
            FOUND.store(
                std::ptr::from_ref(object.get()).cast_mut(),
                Ordering::Release,
            );
            while !REPLACED.load(Ordering::Acquire) {
                thread::yield_now();
            }
            for _ in 0..3 {
                YARD.retire_new(&DOMAIN);
                DOMAIN.collect();
            }
            TOO_EARLY.fetch_add(usize::from(!object.is_alive()), Ordering::Relaxed);
            INSIDE.fetch_add(1, Ordering::Relaxed);
        }
    }

    std::thread_local! {
        static LAST: Last = const { Last };
        static KEPT: RefCell<Option<Section<'static>>> = const { RefCell::new(None) };
        static BOTH_KEPT: RefCell<Option<[Section<'static>; 2]>> = const { RefCell::new(None) };
    }

    /// A thread whose last moments are before or after the room's; somebody else replaces meanwhile what
    /// it has found.
    fn thread(life: impl FnOnce() + Send) {
        FOUND.store(std::ptr::null_mut(), Ordering::Relaxed);
        REPLACED.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            let thread = scope.spawn(life);
            while FOUND.load(Ordering::Acquire).is_null() {
                thread::yield_now();
            }
            let found = YARD.replace(&DOMAIN, &LINK);
            for _ in 0..10 {
                DOMAIN.collect();
                TOO_EARLY.fetch_add(usize::from(!found.is_alive()), Ordering::Relaxed);
            }
            REPLACED.store(true, Ordering::Release);
            thread.join().expect("no panic");
            until_destroyed(&DOMAIN, found);
        });
    }

    #[test]
    fn sections_and_frees_work_in_destructors_of_thread_local_values() {
        assert!(LINK.swap(Some(YARD.object())).is_none());
        for _ in 0..share(50) {
            // Destroyed after what was used later.
            thread(|| {
                LAST.with(|_| ());
                YARD.retire_new(&DOMAIN);
                drop(DOMAIN.enter());
            });
            // Destroyed before.
            thread(|| {
                drop(DOMAIN.enter());
                LAST.with(|_| ());
            });
            // Never used the domain before.
            thread(|| LAST.with(|_| ()));
        }
        assert_eq!(INSIDE.load(Ordering::Relaxed), 3 * share(50));
        assert_eq!(TOO_EARLY.load(Ordering::Relaxed), 0);
        // A section that is kept beyond the room's own values ends when it is dropped.
        thread::scope(|scope| {
            let keeper = scope.spawn(|| {
                KEPT.with_borrow_mut(|kept| *kept = Some(DOMAIN.enter()));
                YARD.retire_new(&DOMAIN)
            });
            until_destroyed(&DOMAIN, keeper.join().expect("no panic"));
        });
        clear(&YARD, &DOMAIN, std::slice::from_ref(&LINK));
        until_all_destroyed(&YARD, &DOMAIN);
        YARD.check_all_destroyed();
    }

    static KEEPERS: Domain = Domain::new();
    static OF_KEEPERS: Yard = Yard::new();

    /// Whichever of a thread's values goes first, the domain's own or the one with the sections.
    #[test]
    fn sections_in_thread_local_values_leave_nothing_when_their_threads_end() {
        for number in 0..2 * share(200) {
            thread::spawn(move || {
                if number % 2 == 0 {
                    drop(KEEPERS.enter());
                }
                BOTH_KEPT.with_borrow_mut(|kept| *kept = Some([KEEPERS.enter(), KEEPERS.enter()]));
                OF_KEEPERS.retire_new(&KEEPERS);
            })
            .join()
            .expect("no panic");
        }
        until_all_destroyed(&OF_KEEPERS, &KEEPERS);
        OF_KEEPERS.check_all_destroyed();
        let active = KEEPERS.stats().active;
        assert!(active <= 2, "{active} records of two threads at a time");
    }
}

/// Where threads wait for each other, as at a barrier, until the test is over or has failed.
struct Meeting {
    everybody: usize,
    /// How many have come, ever.
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    fn new(everybody: usize) -> Self {
        Self {
            everybody,
            arrived: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    fn wait(&self) {
        let mut arrived = self.arrived.lock().expect("nobody panics here");
        *arrived = arrived.saturating_add(1);
        let until = arrived
            .div_ceil(self.everybody)
            .saturating_mul(self.everybody);
        self.changed.notify_all();
        while *arrived < until {
            arrived = self.changed.wait(arrived).expect("nobody panics here");
        }
    }
}

/// Lets everybody go on at the end, so that a test that fails does not hang.
struct Cancel<'a>(&'a Meeting);

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        *self.0.arrived.lock().expect("nobody panics there") = usize::MAX;
        self.0.changed.notify_all();
    }
}

/// How many idle threads a scan puts up with before it parks them.
const CROWD: usize = 16;

/// What a free costs does not depend on the threads that do nothing; and when they do something again,
/// they are seen.
#[test]
fn idle_threads_are_not_looked_at_until_they_come_back() {
    for options in [
        DomainOptions::new(),
        DomainOptions::new().fenced(),
        crate::reclaim::by(DomainClock::Tsc),
    ] {
        idle_threads(options);
    }
}

fn idle_threads(options: DomainOptions) {
    const ROUNDS: usize = 3;
    let idle = share(120).max(2 * CROWD);
    let yard = Yard::new();
    let domain = Domain::with(options);
    let links = [yard.link()];
    let meet = Meeting::new(idle + 1);
    thread::scope(|scope| {
        let _cancel = Cancel(&meet);
        for _ in 0..idle {
            scope.spawn(|| {
                drop(domain.enter());
                // All are known.
                meet.wait();
                for _ in 0..ROUNDS {
                    // Idle.
                    meet.wait();
                    let section = domain.enter();
                    let object = look(&links[0], &section);
                    // All are inside.
                    meet.wait();
                    // The object was replaced.
                    meet.wait();
                    object.check();
                    drop(section);
                    // All are outside.
                    meet.wait();
                }
            });
        }
        meet.wait();
        for _ in 0..ROUNDS {
            let mut tries = 0;
            while domain.stats().active > CROWD + 1 {
                for _ in 0..1000 {
                    yard.replace(&domain, &links[0]);
                }
                tries += 1;
                assert!(
                    tries < 2000,
                    "idle threads are looked at: {:?}",
                    domain.stats()
                );
                // The time stamp counter's idea of idle is some milliseconds.
                thread::sleep(Duration::from_micros(200));
            }
            let before = domain.stats();
            for _ in 0..share(20_000) {
                yard.replace(&domain, &links[0]);
            }
            let after = domain.stats();
            let (scans, lines) = (
                after.scans - before.scans,
                after.lines_read - before.lines_read,
            );
            assert!(scans > 0);
            assert!(
                lines <= scans * (CROWD as u64 + 1),
                "{scans} scans read {lines} lines, with {idle} idle threads"
            );
            meet.wait();
            meet.wait();
            let seen = yard.replace(&domain, &links[0]);
            for _ in 0..2000 {
                yard.replace(&domain, &links[0]);
            }
            domain.collect();
            assert!(seen.is_alive());
            assert!(domain.stats().active >= idle, "who is inside is looked at");
            meet.wait();
            meet.wait();
            until_destroyed(&domain, seen);
        }
    });
    clear(&yard, &domain, &links);
    drop(domain);
    yard.check_all_destroyed();
}

/// Ends the other threads, also when an assertion fails.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Threads that come back from idleness while others park them.
#[test]
fn threads_come_back_while_they_are_parked() {
    let yard = Yard::new();
    let domain = Domain::new();
    let links = [yard.link()];
    let over = AtomicBool::new(false);
    // How many objects have been retired: what idle threads tell the time by, as the domain does.
    let retired = AtomicUsize::new(0);
    thread::scope(|scope| {
        let _end = AtTheEnd(&over);
        for number in 0..2 * CROWD {
            let (domain, links, over, retired) = (&domain, &links, &over, &retired);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let section = domain.enter();
                    let object = look(&links[0], &section);
                    thread::yield_now();
                    object.check();
                    drop(section);
                    let until = retired.load(Ordering::Relaxed) + 120_000 + number % 7 * 10_000;
                    while retired.load(Ordering::Relaxed) < until && !over.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        let (mut parked, mut back) = (0, 0);
        let mut last = 0usize;
        // Some hundreds are enough where all of them have a processor.
        for _ in 0..100_000 {
            for _ in 0..1000 {
                yard.replace(&domain, &links[0]);
            }
            retired.fetch_add(1000, Ordering::Relaxed);
            thread::yield_now();
            let active = domain.stats().active;
            parked += last.saturating_sub(active);
            back += active.saturating_sub(last);
            last = active;
            if parked.min(back) > share(100) {
                return;
            }
        }
        panic!("{parked} times parked, {back} times back");
    });
    clear(&yard, &domain, &links);
    until_all_destroyed(&yard, &domain);
}

/// An object that somebody has found in a section on another thread.
#[test]
fn a_section_sees_nothing_destroyed_that_another_thread_found() {
    let yard = Yard::new();
    let domain = Domain::new();
    let links = [yard.link()];
    let section = domain.enter();
    let object = look(&links[0], &section);
    thread::scope(|scope| {
        scope.spawn(|| {
            let seen = Seen::new(object);
            yard.replace(&domain, &links[0]);
            domain.collect();
            assert!(seen.is_alive());
        });
    });
    object.check();
    drop(section);
    clear(&yard, &domain, &links);
    until_all_destroyed(&yard, &domain);
}
