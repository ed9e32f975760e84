//! What things cost in bytes. A number here may shrink freely, and grow only with a reason.
#![cfg(not(percolog_loom))]
// Budgets are for 64-bit machines with lines of 128 bytes, and for operations that do not carry where
// they were queued.
#![cfg(all(target_pointer_width = "64", not(percolog_origin)))]

use percolog::counter::Counter;
use percolog::cpu::{self, CoreId, LINE_SIZE};
use percolog::oplog::{
    Absorb, AddToken, Full, Logged, LoggedBuilder, LoggedFn, Mode, Operation, ReadGuard,
    RemoveToken, Synchronized,
};

struct Bytes<const N: usize>(#[allow(dead_code, reason = "only its size matters")] [u8; N]);

impl<const N: usize> Operation<u64> for Bytes<N> {
    fn exec(self, _: &mut u64) {}
}

#[test]
fn handles_and_tokens() {
    assert_eq!(size_of::<CoreId>(), 4);
    assert_eq!(size_of::<Option<AddToken>>(), 8);
    assert_eq!(size_of::<Option<RemoveToken>>(), 8);
    assert!(size_of::<Counter>() <= 32);
    assert!(size_of::<Synchronized<'_, u64>>() <= 5 * size_of::<usize>());
    assert!(size_of::<ReadGuard<'_, u64>>() <= 5 * size_of::<usize>());
    // The answer of `try_queue`, which moves the operation.
    assert!(size_of::<Result<(), Full<u64>>>() <= 2 * size_of::<u64>());
    assert!(size_of::<Absorb<'_>>() <= 2 * size_of::<u64>());
}

#[test]
fn objects() {
    // Updates read the first part, merges write the second: whole lines each.
    let object = size_of::<Logged<u64, Bytes<8>>>();
    assert!(
        object <= 6 * LINE_SIZE.max(128),
        "an object has {object} bytes"
    );
    assert_eq!(object % LINE_SIZE, 0);
    assert_eq!(align_of::<Logged<u64, Bytes<8>>>(), LINE_SIZE);
    assert_eq!(
        size_of::<LoggedFn<u64>>(),
        object,
        "however large the closures"
    );
}

/// Bytes of one slot's queue with room for 128 operations.
fn queue_bytes<const N: usize>() -> usize {
    cpu::bind(CoreId::new(0));
    let log: Logged<u64, Bytes<N>> = LoggedBuilder::new().mode(Mode::Deferring).build(0);
    log.queue(Bytes([0; N]));
    log.stats().queue_bytes
}

#[test]
fn an_entry_is_its_operation_and_8_bytes() {
    assert_eq!(queue_bytes::<8>(), 128 * (8 + 8));
    assert_eq!(queue_bytes::<24>(), 128 * (24 + 8));
    assert_eq!(queue_bytes::<0>(), 128 * 8);
}

#[test]
fn a_closure_is_stored_with_two_pointers_and_a_stamp() {
    cpu::bind(CoreId::new(0));
    let log: LoggedFn<u64, 16> = LoggedFn::build(LoggedBuilder::new().mode(Mode::Deferring), 0);
    log.update(|_| {});
    assert_eq!(log.stats().queue_bytes, 128 * (16 + 32));
}
