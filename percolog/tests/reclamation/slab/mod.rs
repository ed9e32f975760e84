//! Memory for nodes: what is used again when, what goes back, and what happens at the end of it.
#![cfg(not(percolog_loom))]

mod at_random;
mod ends;
mod memory;

use percolog::slab::{InSlab, Slab};
use std::sync::atomic::{AtomicU64, Ordering};

/// A value that says when it is no good: a number, its complement, and poison once it was dropped.
pub(crate) struct Node {
    number: AtomicU64,
    complement: AtomicU64,
}

const POISON: u64 = 0xdead_dead_dead_dead;

impl Node {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number: AtomicU64::new(number),
            complement: AtomicU64::new(!number),
        }
    }

    /// The number, if the node is whole.
    pub(crate) fn number(&self) -> u64 {
        let number = self.number.load(Ordering::Relaxed);
        assert_eq!(
            number,
            !self.complement.load(Ordering::Relaxed),
            "not whole"
        );
        number
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.number();
        self.number.store(POISON, Ordering::Relaxed);
        self.complement.store(POISON, Ordering::Relaxed);
    }
}

pub(crate) type Owned = percolog::reclaim::Owned<Node, InSlab>;

pub(crate) fn insert(slab: &Slab<'_, Node>, number: u64) -> Owned {
    slab.insert(Node::new(number)).expect("there is memory")
}

#[test]
fn values_of_all_kinds() {
    #[repr(align(256))]
    struct Aligned(u8);
    static DOMAIN: percolog::reclaim::Domain = percolog::reclaim::Domain::new();
    let (nothings, bytes, aligned, large) = (
        Slab::new(&DOMAIN),
        Slab::new(&DOMAIN),
        Slab::new(&DOMAIN),
        Slab::new(&DOMAIN),
    );
    let mut all = Vec::new();
    for byte in 0..100 {
        let large = large.insert([byte; 8000]).expect("there is memory");
        let aligned = aligned.insert(Aligned(byte)).expect("there is memory");
        assert_eq!(std::ptr::from_ref(&*aligned).addr() % 256, 0);
        let nothing = nothings.insert(()).expect("there is memory");
        let byte = bytes.insert(byte).expect("there is memory");
        all.push((large, aligned, nothing, byte));
    }
    for (large, aligned, (), byte) in all
        .into_iter()
        .map(|(large, aligned, nothing, byte)| (large, aligned, *nothing, byte))
    {
        assert!(large.iter().all(|it| *it == *byte) && aligned.0 == *byte);
        assert_eq!(Slab::into_inner(byte), aligned.0);
    }
    // A header of 16 bytes, and eight more that the value lies in.
    const { assert!(Slab::<u8>::CHUNK_BYTES / Slab::<u8>::CHUNK_OBJECTS <= 25) };
    const { assert!(Slab::<[u8; 8000]>::CHUNK_OBJECTS >= 8) };
}
