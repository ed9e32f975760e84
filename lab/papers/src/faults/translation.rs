//! Page tables of each slot: what K42 calls an HAT, *hardware address translation*. Distributed by definition, as there.

use super::lock;
use super::memory::FrameNumber;
use super::objects::Translation;
use percolog::clustered::{Place, Root, Siblings};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

/// Pages of a leaf.
const LEAF: u64 = 512;

/// Nothing is mapped here.
const NONE: u32 = 0;

/// An address space's tables.
pub(super) struct Tables;

/// Those of one slot.
pub(super) struct SlotTables {
    leaves: Mutex<BTreeMap<u64, Box<[Entry; LEAF as usize]>>>,
    siblings: Siblings<Self>,
}

/// [`NONE`], or a frame's number and whether it may be written, and 1.
#[derive(Clone, Copy)]
struct Entry(u32);

impl Entry {
    fn new(frame: FrameNumber, write: bool) -> Self {
        Self(2 * frame.index() as u32 + u32::from(write) + 1)
    }

    fn get(self) -> Option<(FrameNumber, bool)> {
        let bits = self.0.checked_sub(1)?;
        Some((FrameNumber::from_index(bits / 2), bits % 2 == 1))
    }
}

impl Root for Tables {
    type Interface = dyn Translation;
    type Rep = SlotTables;

    fn create(&self, place: &Place<'_, SlotTables>) -> SlotTables {
        SlotTables {
            leaves: Mutex::default(),
            siblings: place.siblings(),
        }
    }

    fn interface(rep: &SlotTables) -> &Self::Interface {
        rep
    }
}

impl Translation for SlotTables {
    fn map(&self, page: u64, frame: FrameNumber, write: bool, still: &dyn Fn() -> bool) -> bool {
        let mut leaves = lock(&self.leaves);
        if !still() {
            return false;
        }
        let leaf = leaves
            .entry(page / LEAF)
            .or_insert_with(|| Box::new([Entry(NONE); LEAF as usize]));
        leaf[(page % LEAF) as usize] = Entry::new(frame, write);
        true
    }

    fn access(&self, page: u64, f: &mut dyn FnMut(FrameNumber, bool)) -> bool {
        let leaves = lock(&self.leaves);
        let found = leaves
            .get(&(page / LEAF))
            .and_then(|leaf| leaf[(page % LEAF) as usize].get());
        if let Some((frame, write)) = found {
            f(frame, write);
        }
        found.is_some()
    }

    fn unmap(&self, pages: Range<u64>) {
        // Tables that a slot makes during the visit are made after it, and are empty.
        self.siblings.visit(|all| {
            for (_, tables) in all.iter() {
                lock(&tables.leaves).clear_range(&pages);
            }
        });
    }

    fn mapped(&self) -> usize {
        let count = |tables: &Self| {
            let leaves = lock(&tables.leaves);
            let entries = leaves.values().flat_map(|leaf| leaf.iter());
            entries.filter(|entry| entry.0 != NONE).count()
        };
        self.siblings
            .visit(|all| all.iter().map(|(_, tables)| count(tables)).sum())
            .unwrap_or(0)
    }
}

/// What tables can do as a whole.
trait Leaves {
    fn clear_range(&mut self, pages: &Range<u64>);
}

impl Leaves for BTreeMap<u64, Box<[Entry; LEAF as usize]>> {
    /// Leaves stay: who maps pages here again finds them.
    fn clear_range(&mut self, pages: &Range<u64>) {
        let Some(last) = pages.end.checked_sub(1).filter(|last| *last >= pages.start) else {
            return;
        };
        for (number, leaf) in self.range_mut(pages.start / LEAF..=last / LEAF) {
            let start = number * LEAF;
            let from = pages.start.saturating_sub(start);
            let to = (pages.end - start).min(LEAF);
            leaf[from as usize..to as usize].fill(Entry(NONE));
        }
    }
}
