//! The memory that there is: frames, which are real.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page, and of a frame.
pub const PAGE_SIZE: usize = 4096;

/// Words of a page.
pub const WORDS: usize = PAGE_SIZE / size_of::<u64>();

/// The words of one frame. Atomic, since threads of a program may access its pages as they like; nothing is ordered by them.
#[repr(align(4096))]
struct Words([AtomicU64; WORDS]);

/// All frames, allocated once.
pub(super) struct Memory {
    frames: Box<[Words]>,
}

/// The right to use a frame: whoever has it is the only one, so a frame can neither be given back twice nor be in two files.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is dropped is lost"]
pub struct Frame(u32);

/// Which frame it is: what page tables have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNumber(u32);

impl Frame {
    /// Its number.
    #[must_use]
    pub fn number(&self) -> FrameNumber {
        FrameNumber(self.0)
    }
}

impl FrameNumber {
    /// As an index, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn from_index(index: u32) -> Self {
        Self(index)
    }
}

impl Memory {
    /// So many frames, and the right to each of them: the first one comes last, so that it is taken first.
    pub(super) fn new(frames: u32) -> (Self, Vec<Frame>) {
        let memory = Self {
            frames: (0..frames)
                .map(|_| Words([const { AtomicU64::new(0) }; WORDS]))
                .collect(),
        };
        (memory, (0..frames).rev().map(Frame).collect())
    }

    pub(super) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Writes each word of the frame.
    pub(super) fn fill(&self, frame: &Frame, word: u64) {
        for cell in &self.frames[frame.number().index()].0 {
            // Relaxed: who maps the frame later finds it in a table, and through that table's lock.
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// A word of a frame, for who has it mapped.
    pub(super) fn word(&self, frame: FrameNumber, word: usize) -> &AtomicU64 {
        &self.frames[frame.index()].0[word]
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("frames", &self.frames())
            .finish_non_exhaustive()
    }
}
