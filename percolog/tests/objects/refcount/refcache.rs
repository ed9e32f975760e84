//! What Refcache gets wrong, where no other test shows it: see the table at the top of `refcount.rs`.

use super::{Watched, hot, share, until};
use percolog::refcount::{self, CoreArc, CoreWeak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// One reference goes round between threads: each clones it on its own row and then drops the one that it was given. Meanwhile
/// `look` is called with a weak one as often as the test's share of work says, or until it finds something wrong.
fn go_round(look: impl Fn(&CoreWeak<Watched>) -> Result<(), String>) {
    const THREADS: usize = 3;
    let dropped: Arc<AtomicUsize> = Arc::default();
    let value = hot(Watched::new(1, &dropped));
    let weak = CoreArc::downgrade(&value);
    let found = thread::scope(|scope| {
        let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS)
            .map(|_| mpsc::channel::<Option<CoreArc<Watched>>>())
            .unzip();
        let first = senders[0].clone();
        first.send(Some(value)).expect("somebody waits for it");
        // Each sends to the next one.
        senders.rotate_left(1);
        for (next, from) in senders.into_iter().zip(receivers) {
            scope.spawn(move || {
                while let Ok(Some(given)) = from.recv() {
                    given.check();
                    let mine = given.clone();
                    drop(given);
                    if next.send(Some(mine)).is_err() {
                        return;
                    }
                }
                // The end goes round, and may meet nobody.
                let _ = next.send(None);
            });
        }
        let found = (0..share(4000).max(50)).try_for_each(|_| look(&weak));
        let _ = first.send(None);
        found
    });
    assert_eq!(found, Ok(()));
    until(&dropped, 1);
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_reference_that_goes_round_is_always_counted() {
    go_round(|weak| {
        let mine = weak.upgrade().ok_or("the value is gone")?;
        let count = CoreArc::count(&mine);
        // This one, and the one that goes round; twice while it is cloned.
        if [2, 3].contains(&count) {
            Ok(())
        } else {
            Err(format!("{count} references"))
        }
    });
}

#[test]
fn a_reference_that_goes_round_keeps_its_value() {
    go_round(|weak| {
        refcount::reclaim();
        weak.upgrade().ok_or("the value is gone")?.check();
        Ok(())
    });
}

#[test]
fn no_weak_reference_is_null() {
    // Where there may be none, the compiler asks whether there is one, and it takes no room.
    assert_eq!(
        size_of::<Option<CoreWeak<u64>>>(),
        size_of::<CoreWeak<u64>>()
    );
    assert_eq!(size_of::<Option<CoreArc<str>>>(), size_of::<CoreArc<str>>());
}

#[test]
fn a_weak_reference_to_what_is_gone_can_be_used() {
    let dropped: Arc<AtomicUsize> = Arc::default();
    let value = hot(Watched::new(1, &dropped));
    let weak = CoreArc::downgrade(&value);
    drop(value);
    until(&dropped, 1);
    for _ in 0..3 {
        let other = weak.clone();
        assert!(other.ptr_eq(&weak) && other.upgrade().is_none());
        drop(other);
        refcount::reclaim();
    }
    assert!(weak.upgrade().is_none());
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}
