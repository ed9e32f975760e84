//! What it costs in bytes.

use crate::lent::kinds::{Note, kind};
use percolog::oplog::{Lent, Operation};

kind!(small, Native, deferring().places(16).logs(8));
kind!(apart, Native, deferring().places(16));
kind!(alone, Native, deferring().places(1));

struct Bytes<const N: usize>(#[allow(dead_code, reason = "only its size matters")] [u64; N]);

struct Nothing;

impl<const N: usize> Operation<Bytes<N>> for Nothing {
    fn exec(self, _: &mut Bytes<N>) {}
}

percolog::log_cache!(Bytes<24>, Nothing);
percolog::log_cache!(Bytes<1>, Nothing);

#[test]
fn an_object_is_its_state_and_eight_bytes() {
    assert_eq!(size_of::<Lent<Bytes<24>, Nothing>>(), 192 + 8);
    assert_eq!(size_of::<Lent<Bytes<1>, Nothing>>(), 8 + 8);
    assert_eq!(align_of::<Lent<Bytes<24>, Nothing>>(), 8);
}

/// Two objects whose places are neighbours share no line, on any slot.
#[test]
fn places_are_on_lines_of_their_own() {
    let object = apart::Object::boxed(crate::lent::kinds::Notes::default());
    object.as_ref().queue(apart::Op(Note(1)));
    let stats = apart::cache().stats();
    assert_ne!(stats.slots, 0);
    assert!(
        stats.table_bytes >= stats.slots * 16 * percolog::cpu::LINE_SIZE,
        "{stats:?}"
    );
    // One place alone, too, takes whole lines.
    let object = alone::Object::boxed(crate::lent::kinds::Notes::default());
    object.as_ref().queue(alone::Op(Note(1)));
    let stats = alone::cache().stats();
    assert_ne!(stats.slots, 0);
    assert_eq!(stats.table_bytes % percolog::cpu::LINE_SIZE, 0, "{stats:?}");
}

/// However many objects are updated, the cache has no more logs than it may, and they stay small.
#[test]
fn the_cache_is_bounded_however_many_objects_there_are() {
    let objects: Vec<_> = (0..2000)
        .map(|_| small::Object::boxed(crate::lent::kinds::Notes::default()))
        .collect();
    let mut slots = 0;
    for round in 0..3 {
        for object in &objects {
            object.as_ref().queue(small::Op(Note(round)));
        }
        let stats = small::cache().stats();
        slots = stats.slots;
        assert!(stats.queues <= 8 * slots, "{stats:?}");
        assert!(stats.lent <= 8 * slots, "{stats:?}");
        assert!(
            stats.queue_bytes <= 512 * stats.queues.max(1) + 65536,
            "{stats:?}"
        );
        // Sixteen places of some two hundred bytes in whole lines, however small those are, and what they are found by.
        assert!(
            stats.table_bytes <= slots * 40 * percolog::cpu::LINE_SIZE.max(128),
            "{stats:?}"
        );
    }
    assert_ne!(slots, 0);
    assert!(small::cache().stats().evictions >= 2000);
    for object in &objects {
        assert_eq!(object.synchronize().all, [0, 1, 2]);
    }
    drop(objects);
    let stats = small::cache().stats();
    assert_eq!((stats.lent, stats.pending), (0, 0));
}
