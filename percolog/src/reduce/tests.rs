//! What of the shares' storage cannot be seen from outside.

use super::places::Places;
use crate::cpu::LINE_SIZE;
use crate::cpu::lease::COMMON;
use crate::sync::atomic::{AtomicU32, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

fn adds(places: &Places<u64>) -> u64 {
    places
        .visit(None, |_| 0, |sum, _, share| *sum += *share)
        .expect("the kernel does what it offers")
}

#[test]
fn shares_lie_on_lines_of_their_own() {
    let places: Places<u64> = Places::new();
    let addresses: Vec<usize> =
        (0..4)
            // SAFETY: this thread is the only one that uses these places.
            .map(|lease| unsafe {
                places.update_leased(lease, |share| core::ptr::from_mut(share).addr())
            })
            .chain((0..4).map(|number| {
                places.update_common(number, |share| core::ptr::from_mut(share).addr())
            }))
            .collect();
    for (at, address) in addresses.iter().enumerate() {
        let line = address / LINE_SIZE;
        assert!(
            addresses[..at]
                .iter()
                .all(|other| other / LINE_SIZE != line)
        );
        // The lock's words and the share begin on one line.
        assert!(address % LINE_SIZE <= 16);
    }
}

#[test]
fn a_share_without_a_lease_is_used_from_inside_itself_only_once() {
    let places: Places<u64> = Places::new();
    for inner in [0usize, 1] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            places.update_common(0, |share| {
                *share += 1;
                // The place itself, or a read of all; another place is free.
                match inner {
                    0 => places.update_common(0, |share| *share += 100),
                    _ => _ = adds(&places),
                }
            });
        }));
        assert!(outcome.is_err());
    }
    places.update_common(1, |_| places.update_common(2, |share| *share += 10));
    assert_eq!(adds(&places), 12);
}

#[test]
fn a_visitor_that_updates_panics_instead_of_waiting_for_itself() {
    let places: Places<u64> = Places::new();
    // SAFETY: this thread is the only one that uses these places.
    unsafe { places.update_leased(0, |share| *share += 1) };
    places.update_common(0, |share| *share += 2);
    // The share being visited, one that is there, and one that is not.
    let updates: [&dyn Fn(); 5] = [
        // SAFETY: as above.
        &|| unsafe { places.update_leased(0, |share| *share += 100) },
        // SAFETY: as above.
        &|| unsafe { places.update_leased(1, |share| *share += 100) },
        &|| places.update_common(0, |share| *share += 100),
        &|| places.update_common(1, |share| *share += 100),
        &|| _ = adds(&places),
    ];
    for update in updates {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _ = places.visit(Some(0), |_| (), |(), _, _| update());
        }));
        assert!(outcome.is_err());
    }
    assert_eq!(adds(&places), 3);
}

#[test]
fn threads_without_a_lease_share_places() {
    const THREADS: usize = 2 * COMMON;
    let places: Places<u64> = Places::new();
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..THREADS)
            .map(|number| {
                let places = &places;
                scope.spawn(move || {
                    for _ in 0..200 {
                        places.update_common(number % COMMON, |share| *share += 1);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut before = 0;
            while done.load(Ordering::Relaxed) == 0 {
                let now = adds(&places);
                assert!(now >= before);
                before = now;
            }
        });
        for adder in adders {
            adder.join().expect("no panic");
        }
        done.store(1, Ordering::Relaxed);
    });
    assert_eq!(adds(&places), 200 * THREADS as u64);
}
