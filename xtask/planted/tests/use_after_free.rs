//! A read of memory that has been freed.

use std::hint::black_box;

#[test]
fn use_after_free() {
    let boxed = Box::new(black_box(7_u64));
    let address: *const u64 = &raw const *boxed;
    drop(boxed);
    // SAFETY: none. This is the planted bug: the memory is no longer ours.
    black_box(unsafe { address.read_volatile() });
}
