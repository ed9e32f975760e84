//! Values that were made ordinary: as with `Arc` to the moment, with no round.

use super::{Watched, hot, share};
use percolog::refcount::{self, CoreArc, Generation};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

#[track_caller]
fn switch_to_atomic<T: ?Sized + Send + Sync>(value: &CoreArc<T>) {
    assert!(
        CoreArc::switch_to_atomic(value),
        "the kernel does what it offers"
    );
}

fn count(dropped: &AtomicUsize) -> usize {
    dropped.load(Ordering::Acquire)
}

#[test]
fn the_last_drop_destroys() {
    let dropped = Arc::default();
    let first = hot(Watched::new(1, &dropped));
    let (second, weak) = (first.clone(), CoreArc::downgrade(&first));
    switch_to_atomic(&first);
    switch_to_atomic(&second);
    let third = second.clone();
    assert_eq!(
        (CoreArc::count(&first), CoreArc::weak_count(&first)),
        (3, 1)
    );
    drop((first, second));
    let fourth = weak.upgrade().expect("there is one");
    drop(third);
    fourth.check();
    assert_eq!((CoreArc::count(&fourth), count(&dropped)), (1, 0));
    drop(fourth);
    assert_eq!(count(&dropped), 1);
    assert!(weak.upgrade().is_none() && weak.clone().upgrade().is_none());
}

#[test]
fn the_only_reference_can_be_changed_or_unwrapped() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let mut only = hot(Watched::new(1, &dropped));
    switch_to_atomic(&only);
    CoreArc::get_mut(&mut only)
        .expect("there is no other")
        .number = 2;
    let weak = CoreArc::downgrade(&only);
    assert!(CoreArc::get_mut(&mut only).is_none(), "there is a weak one");
    let second = only.clone();
    let only = CoreArc::try_unwrap(only)
        .map(|_| ())
        .expect_err("there is another one");
    drop(second);
    let value = CoreArc::try_unwrap(only).ok().expect("there is no other");
    assert!(weak.upgrade().is_none());
    assert_eq!((value.number, count(&dropped)), (2, 0));
    drop((value, weak));
    assert_eq!(count(&dropped), 1);
}

#[test]
fn references_taken_on_condition() {
    let (dropped, generation) = (Arc::default(), Generation::new());
    let value = hot(Watched::new(1, &dropped));
    let seen = generation.current().expect("nobody changes it");
    switch_to_atomic(&value);
    let other = CoreArc::clone_if(&value, &generation, seen).expect("the same");
    drop(generation.change());
    assert!(CoreArc::clone_if(&value, &generation, seen).is_none());
    assert_eq!(CoreArc::count(&value), 2);
    drop(value);
    other.check();
    drop(other);
    assert_eq!(count(&dropped), 1);
}

#[test]
fn unsized_values() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let watched = Watched::new(5, &dropped);
    let closure: Box<dyn Fn() -> u64 + Send + Sync> = Box::new(move || {
        let watched = &watched;
        watched.number
    });
    let closure: CoreArc<dyn Fn() -> u64 + Send + Sync> = CoreArc::from(closure);
    let (other, weak) = (closure.clone(), CoreArc::downgrade(&closure));
    switch_to_atomic(&other);
    drop(closure);
    assert_eq!((other(), count(&dropped)), (5, 0));
    drop(other);
    assert_eq!(count(&dropped), 1);
    assert!(weak.upgrade().is_none());

    let list: CoreArc<[Watched]> = CoreArc::from(
        (0..3)
            .map(|_| Watched::new(1, &dropped))
            .collect::<Vec<_>>(),
    );
    switch_to_atomic(&list);
    drop(list);
    assert_eq!(count(&dropped), 4);
}

/// Destructors run on the thread of the last drop, may use references as they like, and may panic.
#[test]
fn destructors() {
    struct Bomb {
        next: Option<CoreArc<Bomb>>,
        home: thread::ThreadId,
        watched: Watched,
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert_eq!(thread::current().id(), self.home);
            let next = self.next.take();
            drop(next.clone());
            refcount::reclaim();
            self.watched.check();
            drop(next);
            panic!("on purpose");
        }
    }
    let dropped: Arc<AtomicUsize> = Arc::default();
    let before = refcount::stats();
    let mut chain = None;
    for number in 0..3 {
        let next = CoreArc::new(Bomb {
            next: chain,
            home: thread::current().id(),
            watched: Watched::new(number, &dropped),
        });
        switch_to_atomic(&next);
        chain = Some(next);
    }
    drop(chain);
    assert_eq!(count(&dropped), 3);
    let after = refcount::stats();
    assert!(after.panics >= before.panics + 3 && after.destroyed >= before.destroyed + 3);
}

/// Four threads clone, drop and upgrade, and two of them make it ordinary in the middle of that; each keeps one reference to
/// the end. It dies with the last, whoever has that.
#[test]
fn in_the_middle_of_it_all() {
    const THREADS: u64 = 4;
    for _ in 0..share(200) {
        let dropped: Arc<AtomicUsize> = Arc::default();
        let value = hot(Watched::new(1, &dropped));
        let weak = CoreArc::downgrade(&value);
        let (begun, ended) = (Barrier::new(THREADS as usize), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..THREADS {
                let mine = value.clone();
                let (weak, dropped, begun, ended) = (&weak, &dropped, &begun, &ended);
                scope.spawn(move || {
                    begun.wait();
                    for step in 0..100 {
                        let other = mine.clone();
                        let third = weak.upgrade().expect("there is one");
                        if step == 30 + number && number % 2 == 0 {
                            switch_to_atomic(&third);
                        }
                        if step % 32 == number {
                            // What it finds in rows makes candidates.
                            refcount::reclaim();
                        }
                        drop(other);
                        third.check();
                    }
                    mine.check();
                    // Relaxed, both: a number that grows before the drop, and is looked at before the end of it.
                    ended.fetch_add(1, Ordering::Relaxed);
                    drop(mine);
                    assert!(count(dropped) == 0 || ended.load(Ordering::Relaxed) == THREADS);
                });
            }
            drop(value);
        });
        assert_eq!(count(&dropped), 1);
        assert!(weak.upgrade().is_none());
    }
}

/// Threads that have no lease any more: destructors of their thread-local values clone, drop and make ordinary.
#[test]
fn at_the_end_of_threads() {
    struct Last(CoreArc<Watched>, u64);
    impl Drop for Last {
        fn drop(&mut self) {
            let other = self.0.clone();
            if self.1 == 1 {
                switch_to_atomic(&other);
            }
            other.check();
        }
    }
    thread_local! {
        static KEPT: RefCell<Vec<Last>> = const { RefCell::new(Vec::new()) };
    }
    for _ in 0..share(50) {
        let dropped: Arc<AtomicUsize> = Arc::default();
        let value = hot(Watched::new(1, &dropped));
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let mine = value.clone();
                thread::spawn(move || {
                    // Before this thread has a lease: destroyed after it has none.
                    KEPT.with_borrow_mut(|kept| kept.push(Last(mine, number)));
                    KEPT.with_borrow_mut(|kept| {
                        let other = kept[0].0.clone();
                        kept.push(Last(other, 0));
                    });
                })
            })
            .collect();
        drop(value);
        for thread in threads {
            thread.join().expect("nothing panics");
        }
        assert_eq!(count(&dropped), 1);
    }
}
