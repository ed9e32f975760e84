//! What a lookup remembers of what it has found, to see later whether that still holds.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{SlotGuard, SlotLock, const_fn};

/// Counts the changes of something that is looked up far more often than it is changed: a name that is renamed or removed.
///
/// A lookup remembers what the generation was when it read the thing, and takes a reference [only if](super::CoreArc::clone_if) it
/// is still the same. Whoever changes the thing makes a new generation, and can then count references of the old one.
///
/// Before: so that the name is still the one that was looked up when the reference is taken, both happen under the entry's lock.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// struct Entry {
///     /// The name's number of changes, and how many use the entry.
///     name: Mutex<(u64, usize)>,
/// }
///
/// let entry = Arc::new(Entry { name: Mutex::new((0, 0)) });
/// let seen = entry.name.lock().expect("nobody panics").0;
/// let mut name = entry.name.lock().expect("nobody panics");
/// if name.0 == seen {
///     name.1 += 1;
/// }
/// assert_eq!(*name, (0, 1));
/// ```
///
/// After: a lookup reads the entry's lines, and writes none of them.
///
/// ```
/// use percolog::refcount::{CoreArc, Generation};
///
/// struct Entry {
///     generation: Generation,
/// }
///
/// let entry = CoreArc::new(Entry { generation: Generation::new() });
/// let seen = entry.generation.current().expect("nobody changes it");
/// let reference = CoreArc::clone_if(&entry, &entry.generation, seen);
/// assert!(reference.is_some());
/// drop(entry.generation.change());
/// assert!(!entry.generation.is(seen));
/// ```
///
/// The paper section it follows: S. Boyd-Wickizer's thesis, §3.4 and §4.2; the comparison without a lock that
/// [`Compared`] makes is that of S. Boyd-Wickizer et al., *An Analysis of Linux Scalability to Many Cores*, §4.4.
#[derive(Debug)]
pub struct Generation {
    /// Odd while it changes.
    number: AtomicU64,
    changing: SlotLock<()>,
}

/// A generation, as a lookup has found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seen(u64);

/// A change under way: when it is dropped, a new generation begins.
///
/// When it is dropped there is a new generation.
#[derive(Debug)]
pub struct Change<'a> {
    generation: &'a Generation,
    /// The number, which is odd.
    number: u64,
    _alone: SlotGuard<'a, ()>,
}

impl Generation {
    const_fn! {
        /// The first one.
        #[must_use]
        pub const fn new() -> Self {
            Self { number: AtomicU64::new(0), changing: SlotLock::new(()) }
        }
    }

    /// The generation; `None` while it changes.
    ///
    /// *Progress:* wait-free. *Cost:* a load of a line that changes write.
    #[inline]
    #[must_use]
    pub fn current(&self) -> Option<Seen> {
        // Acquire pairs with the Release in `Change::drop`: who sees the generation sees what the change before it wrote.
        let number = self.number.load(Ordering::Acquire);
        number.is_multiple_of(2).then_some(Seen(number))
    }

    /// Returns whether it is still the same, and nobody is changing it.
    ///
    /// *Progress* and *cost:* as [`current`](Self::current).
    #[inline]
    #[must_use]
    pub fn is(&self, seen: Seen) -> bool {
        self.current() == Some(seen)
    }

    /// Begins a change: no [`current`](Self::current) generation from here until it is dropped, and then another one.
    ///
    /// *Progress:* blocking: waits for other changes. *Cost:* the line, twice; lookups on other cores fetch it anew.
    #[must_use = "the change ends when this is dropped"]
    pub fn change(&self) -> Change<'_> {
        let alone = self.changing.lock();
        // Relaxed: written under the lock only.
        let number = self.number.load(Ordering::Relaxed).wrapping_add(1);
        self.number.store(number, Ordering::Relaxed);
        // Release: whoever sees what is written from here on sees the odd number (`Compared::read`). What takes references
        // is ordered by the barrier of whoever counts them: `CoreArc::clone_if`.
        fence(Ordering::Release);
        Change {
            generation: self,
            number,
            _alone: alone,
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `current`.
        self.generation
            .number
            .store(self.number.wrapping_add(1), Ordering::Release);
    }
}

impl Default for Generation {
    fn default() -> Self {
        Self::new()
    }
}

/// What is compared without a lock, though it changes now and then: the key of an entry that lookups compare with what
/// they look for.
///
/// Before: every lookup takes the entry's lock, and moves its line to its processor, to compare two words.
///
/// ```
/// use std::sync::Mutex;
///
/// let name = Mutex::new([7, 0x5ca1ab1e_u64]);
/// assert!(*name.lock().expect("nobody panics") == [7, 0x5ca1ab1e]);
/// *name.lock().expect("nobody panics") = [8, 0x5ca1ab1e];
/// ```
///
/// After: a comparison writes nothing.
///
/// ```
/// use percolog::refcount::{Compared, Comparison};
///
/// // The parent's number and the hash of a name.
/// let name = Compared::new([7, 0x5ca1ab1e]);
/// assert!(matches!(name.compare(&[7, 0x5ca1ab1e]), Comparison::Same(_)));
/// assert_eq!(name.compare(&[8, 0x5ca1ab1e]), Comparison::Different);
/// name.set([8, 0x5ca1ab1e]);
/// assert!(matches!(name.compare(&[8, 0x5ca1ab1e]), Comparison::Same(_)));
/// ```
#[derive(Debug)]
pub struct Compared<const WORDS: usize> {
    generation: Generation,
    words: [AtomicU64; WORDS],
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// It was the same, in this generation.
    Same(Seen),
    /// It was something else.
    Different,
    /// It is being changed, or was while it was compared: look again, or take the lock that changes are made under.
    Changing,
}

impl<const WORDS: usize> Compared<WORDS> {
    /// With these words.
    #[must_use]
    pub fn new(words: [u64; WORDS]) -> Self {
        Self {
            generation: Generation::new(),
            words: words.map(AtomicU64::new),
        }
    }

    /// All words as they were at one moment, and the generation; `None` if they changed meanwhile.
    ///
    /// *Progress:* wait-free. *Cost:* writes nothing; loads of lines that changes write.
    #[inline]
    #[must_use]
    pub fn read(&self) -> Option<([u64; WORDS], Seen)> {
        let seen = self.generation.current()?;
        // Relaxed: if any of them was written by a later change, the fence below makes its odd number seen.
        let words = self
            .words
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed));
        // Acquire pairs with the Release fence in `Generation::change`.
        fence(Ordering::Acquire);
        self.generation.is(seen).then_some((words, seen))
    }

    /// Compares all words as they were at one moment.
    ///
    /// *Progress* and *cost:* as [`read`](Self::read).
    #[inline]
    #[must_use]
    pub fn compare(&self, words: &[u64; WORDS]) -> Comparison {
        match self.read() {
            Some((found, seen)) if found == *words => Comparison::Same(seen),
            Some(_) => Comparison::Different,
            None => Comparison::Changing,
        }
    }

    /// Puts other words there, as one change.
    ///
    /// *Progress* and *cost:* as [`Generation::change`], and the words' lines.
    pub fn set(&self, words: [u64; WORDS]) {
        let _change = self.generation.change();
        for (there, word) in self.words.iter().zip(words) {
            // Relaxed: between the two numbers of the change.
            there.store(word, Ordering::Relaxed);
        }
    }

    /// The generation: a reference is taken [if](super::CoreArc::clone_if) it is still the one that was compared.
    #[must_use]
    pub fn generation(&self) -> &Generation {
        &self.generation
    }
}
