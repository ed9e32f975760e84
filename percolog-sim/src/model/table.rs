//! How lines are stored: one word for a line that a single core has touched, an entry in a slab for
//! the others.
//!
//! Most lines of a program are touched by one core only, so that case is packed: with its key a
//! private line takes 16 bytes of the hash table. Which core it belongs to, whether it is modified
//! and when it was last written is all there is to say: nobody ever queued for it.

use super::{Core, CoreSet, MAX_CORES, Ticks};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hasher for line and page numbers: one multiplication, folded so that both ends of the result
/// are well mixed (the standard table uses both). Not resistant to chosen keys, which nobody
/// chooses here.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let wide = u128::from(self.0 ^ number ^ 0x243F_6A88_85A3_08D3)
            * u128::from(0x9E37_79B9_7F4A_7C15_u64);
        self.0 = (wide as u64) ^ ((wide >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(super) type NumberMap<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// What a private line's word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Private {
    pub(super) core: Core,
    pub(super) modified: bool,
    /// When it was last written, as far as the directory was told.
    pub(super) written: Ticks,
}

/// A line's word unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    Private(Private),
    /// A single core has touched it and has it no more; when it was last written.
    Nobody(Ticks),
    /// Its index in the slab.
    Shared(usize),
}

/// A line's entry: the top bit says which kind, then for a private line a bit `modified`, ten bits
/// of core, and the time of its last write (52 bits of ticks are 32 hours of a machine at 2.4 GHz;
/// later times saturate). Both top bits: nobody's, and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u64);

const SHARED: u64 = 1 << 63;
const MODIFIED: u64 = 1 << 62;
const NOBODY: u64 = SHARED | MODIFIED;
const CORE_SHIFT: u32 = 52;
const TIME: u64 = (1 << CORE_SHIFT) - 1;
const _: () = assert!(MAX_CORES <= 1 << (62 - CORE_SHIFT));

impl Word {
    pub(super) fn private(
        Private {
            core,
            modified,
            written,
        }: Private,
    ) -> Self {
        let modified = if modified { MODIFIED } else { 0 };
        Word(modified | u64::from(core) << CORE_SHIFT | written.min(TIME))
    }

    pub(super) fn shared(index: usize) -> Self {
        Word(SHARED | index as u64)
    }

    fn nobody(written: Ticks) -> Self {
        Word(NOBODY | written.min(TIME))
    }

    pub(super) fn unpack(self) -> Unpacked {
        if self.0 & NOBODY == NOBODY {
            Unpacked::Nobody(self.0 & TIME)
        } else if self.0 & SHARED != 0 {
            Unpacked::Shared((self.0 & !SHARED) as usize)
        } else {
            Unpacked::Private(Private {
                core: ((self.0 & !MODIFIED) >> CORE_SHIFT) as Core,
                modified: self.0 & MODIFIED != 0,
                written: self.0 & TIME,
            })
        }
    }
}

/// What a line is in the caches that hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In no cache.
    Idle,
    /// In one, and clean as far as the directory was told.
    Exclusive,
    /// In one, and newer than memory.
    Modified,
    /// Newer than memory in its owner's cache, which supplies it; others may have copies.
    Owned,
    /// In any number of caches, and the same in memory.
    Shared,
}

/// A line that more than one core has touched.
#[derive(Debug)]
pub(super) struct Line {
    /// Until when its home serves an earlier request.
    pub(super) busy: Ticks,
    /// When it was last written, as far as the directory was told.
    pub(super) written: Ticks,
    /// All cores that hold it, the owner too.
    pub(super) holders: CoreSet,
    /// Meaningful in states exclusive, modified and owned.
    pub(super) owner: Core,
    pub(super) state: State,
}

/// All lines ever touched.
#[derive(Default)]
pub(super) struct Table {
    words: NumberMap<Word>,
    slab: Vec<Line>,
    free: Vec<usize>,
}

impl Table {
    pub(super) fn get(&self, line: u64) -> Option<Word> {
        self.words.get(&line).copied()
    }

    pub(super) fn set_private(&mut self, line: u64, private: Private) {
        self.words.insert(line, Word::private(private));
    }

    /// The only core that ever had the line has lost it.
    pub(super) fn set_nobody(&mut self, line: u64, written: Ticks) {
        self.words.insert(line, Word::nobody(written));
    }

    pub(super) fn shared(&self, index: usize) -> &Line {
        &self.slab[index]
    }

    pub(super) fn shared_mut(&mut self, index: usize) -> &mut Line {
        &mut self.slab[index]
    }

    /// Gives a private line an entry in the slab: another core has come.
    pub(super) fn share(&mut self, line: u64, private: Private) -> usize {
        let Private {
            core,
            modified,
            written,
        } = private;
        let state = if modified {
            State::Modified
        } else {
            State::Exclusive
        };
        let entry = Line {
            busy: 0,
            written,
            holders: CoreSet::only(core),
            owner: core,
            state,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slab[index] = entry;
                index
            }
            None => {
                self.slab.push(entry);
                self.slab.len() - 1
            }
        };
        self.words.insert(line, Word::shared(index));
        index
    }

    /// Forgets the lines in `lines`; tells who held them.
    pub(super) fn remove(&mut self, lines: std::ops::Range<u64>, mut held: impl FnMut(u64, Core)) {
        let Table { words, slab, free } = self;
        let mut drop_word = |line: u64, word: Word| match word.unpack() {
            Unpacked::Private(private) => held(line, private.core),
            Unpacked::Nobody(_) => {}
            Unpacked::Shared(index) => {
                slab[index].holders.iter().for_each(|core| held(line, core));
                slab[index].holders = CoreSet::new();
                free.push(index);
            }
        };
        if lines.end.saturating_sub(lines.start) <= words.len() as u64 {
            for line in lines {
                if let Some(word) = words.remove(&line) {
                    drop_word(line, word);
                }
            }
        } else {
            // A range far larger than what was touched: look at what was touched, in the order of
            // addresses, because whoever is told must be told in the same order each time.
            let mut touched: Vec<u64> = words
                .keys()
                .copied()
                .filter(|line| lines.contains(line))
                .collect();
            touched.sort_unstable();
            for line in touched {
                if let Some(word) = words.remove(&line) {
                    drop_word(line, word);
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// About how many bytes all this takes.
    pub(super) fn bytes(&self) -> usize {
        // The standard table keeps a byte of control for each place.
        let words = self.words.capacity() * (size_of::<(u64, Word)>() + 1);
        let slab =
            self.slab.capacity() * size_of::<Line>() + self.free.capacity() * size_of::<usize>();
        words
            + slab
            + self
                .slab
                .iter()
                .map(|line| line.holders.heap_bytes())
                .sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_unpack_to_what_was_packed() {
        for core in [0, 1, 511, 1023] {
            for modified in [false, true] {
                for written in [0, 1, TIME] {
                    let private = Private {
                        core,
                        modified,
                        written,
                    };
                    assert_eq!(Word::private(private).unpack(), Unpacked::Private(private));
                }
            }
        }
        for written in [0, 1, TIME] {
            assert_eq!(Word::nobody(written).unpack(), Unpacked::Nobody(written));
        }
        for index in [0, 1, 1 << 40] {
            assert_eq!(Word::shared(index).unpack(), Unpacked::Shared(index));
        }
    }

    #[test]
    fn times_saturate() {
        let late = Word::private(Private {
            core: 7,
            modified: false,
            written: u64::MAX,
        });
        assert_eq!(
            late.unpack(),
            Unpacked::Private(Private {
                core: 7,
                modified: false,
                written: TIME
            })
        );
    }

    #[test]
    fn lines_are_small() {
        assert_eq!(size_of::<(u64, Word)>(), 16, "a private line");
        assert_eq!(size_of::<Line>(), 40, "what a shared line has besides");
    }

    #[test]
    fn the_hasher_spreads_consecutive_lines() {
        // The table takes the place from the low bits and a tag of seven bits from the top.
        let hash = |number: u64| {
            let mut hasher = NumberHasher::default();
            hasher.write_u64(number);
            hasher.finish()
        };
        for stride in [1, 2, 64, 4096, 1 << 20] {
            let mut places = std::collections::HashSet::new();
            let mut tags = std::collections::HashSet::new();
            for step in 0..1024 {
                let hash = hash(0x1_0000_0000 + step * stride);
                places.insert(hash & 1023);
                tags.insert(hash >> 57);
            }
            // 1024 random throws fill 647 places of 1024.
            assert!(
                places.len() > 500,
                "stride {stride}: {} places",
                places.len()
            );
            assert!(tags.len() > 100, "stride {stride}: {} tags", tags.len());
        }
    }

    #[test]
    fn slab_entries_are_used_again() {
        let mut table = Table::default();
        let private = Private {
            core: 1,
            modified: true,
            written: 5,
        };
        for line in 0..10 {
            table.set_private(line, private);
            table.share(line, private);
        }
        let mut held = Vec::new();
        table.remove(3..5, |line, core| held.push((line, core)));
        table.remove(8..u64::MAX, |line, core| held.push((line, core)));
        assert_eq!(held, [(3, 1), (4, 1), (8, 1), (9, 1)]);
        assert_eq!(table.len(), 6);
        for line in 20..24 {
            table.set_private(line, private);
            table.share(line, private);
        }
        assert_eq!(table.slab.len(), 10);
    }
}
