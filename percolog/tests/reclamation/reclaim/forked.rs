//! `fork`: the child has one thread, and the sections of the others are over.
#![cfg(unix)]

use crate::common::child::{check, in_a_child};
use crate::common::share::share;
use crate::reclaim::objects::{Object, Seen, Yard, clear, look};
use percolog::reclaim::{Domain, Link, OwnedSection};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Whether the object is destroyed as soon as it can be.
fn is_destroyed(domain: &Domain, object: Seen) -> bool {
    (0..1000).any(|_| {
        domain.collect();
        !object.is_alive()
    })
}

/// Whether the object stays, whatever is tried.
fn stays(domain: &Domain, object: Seen) -> bool {
    (0..10).all(|_| {
        domain.collect();
        object.is_alive()
    })
}

/// What a child does. Says which step went wrong.
fn child(
    yard: &Yard,
    domain: &Domain,
    link: &Link<Object>,
    own: Option<percolog::reclaim::Section<'_>>,
    owned: OwnedSection<'_>,
) -> Result<(), u8> {
    // Both the forking thread's section and the owned one are still open here.
    let object = yard.replace(domain, link);
    check(stays(domain, object), 1)?;
    drop(own);
    check(stays(domain, object), 2)?;
    drop(owned);
    check(is_destroyed(domain, object), 3)?;
    // And everything works as in a process of its own: sections, frees, and again.
    for _ in 0..300 {
        let section = domain.enter();
        let found = Seen::new(look(link, &section));
        yard.replace(domain, link);
        domain.collect();
        check(found.is_alive(), 4)?;
    }
    let last = yard.replace(domain, link);
    check(is_destroyed(domain, last), 5)?;
    let now = domain.now();
    check(domain.quiescent(now), 6)
}

/// Ends the other threads, also when an assertion fails.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_child_reclaims_whatever_the_others_were_doing() {
    let yard = Yard::new();
    let domain = Domain::new();
    let links = [yard.link()];
    let over = AtomicBool::new(false);
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        let _end = AtTheEnd(&over);
        let (yard, domain, links, over, inside) = (&yard, &domain, &links, &over, &inside);
        // For ever inside.
        for _ in 0..2 {
            scope.spawn(move || {
                let section = domain.enter();
                let object = look(&links[0], &section);
                inside.fetch_add(1, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                object.check();
            });
        }
        // Coming and going, and in the middle of everything that a domain does.
        for _ in 0..2 {
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let life = || {
                        for _ in 0..100 {
                            let section = domain.enter();
                            let object = look(&links[0], &section);
                            yard.replace(domain, &links[0]);
                            object.check();
                        }
                        domain.collect();
                    };
                    thread::scope(|scope| scope.spawn(life).join().expect("no panic"));
                }
            });
        }
        while inside.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        for round in 0..share(20) {
            let own = (round % 2 == 0).then(|| domain.enter());
            // Entered by another thread, which is gone.
            let owned = scope
                .spawn(|| domain.enter_owned())
                .join()
                .expect("no panic");
            let mut mine = Some((own, owned));
            in_a_child(|| {
                let (own, owned) = mine.take().ok_or(7)?;
                child(yard, domain, &links[0], own, owned)
            });
            // The parent's are open still.
            assert!(mine.is_some());
            let seen = yard.replace(domain, &links[0]);
            domain.collect();
            assert!(seen.is_alive());
        }
    });
    clear(&yard, &domain, &links);
    drop(domain);
    yard.check_all_destroyed();
}

/// A child's child, and a domain that the child did not use before it forked.
#[test]
fn a_grandchild_reclaims() {
    let yard = Yard::new();
    let domain = Domain::new();
    let over = AtomicBool::new(false);
    let inside = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = AtTheEnd(&over);
        scope.spawn(|| {
            let _section = domain.enter();
            inside.store(true, Ordering::Relaxed);
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        while !inside.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let object = yard.retire_new(&domain);
        assert!(stays(&domain, object));
        let reclaims = || check(is_destroyed(&domain, object), 1);
        in_a_child(|| {
            in_a_child(reclaims);
            reclaims()
        });
        assert!(stays(&domain, object));
    });
    drop(domain);
    yard.check_all_destroyed();
}
