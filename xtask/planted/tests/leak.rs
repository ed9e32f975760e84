//! Memory that nothing points to any more, and that was never freed.

use std::hint::black_box;

#[test]
fn leak() {
    for size in 1..100 {
        black_box(Box::leak(black_box(vec![0_u8; size * 100]).into_boxed_slice()));
    }
}
