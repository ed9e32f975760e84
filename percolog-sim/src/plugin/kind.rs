//! Which translation of the program's code a thread runs: the one with all callbacks, or one for what is skipped.
//!
//! Where nothing is simulated, callbacks for accesses are of no use, and they are most of what a run costs. So the part that
//! is skipped has translations of its own ([`Kind`]), and when it ends every thread goes over to the whole one.
//!
//! QEMU has a function for that, `qemu_plugin_reset`, which throws all translated code away. But it waits until every thread
//! has left translated code, also those that wait for their turn here or sleep in a call that the simulator makes: they
//! would have to be let go unsimulated, and a sleeper would find itself woken for nothing, at the very moment from which on
//! everything counts. What is done instead needs no thread but the one that does it. QEMU finds a translated block by its
//! address and by flags of the processor that wants it. The upper eight of these flags are the number of a cluster of
//! processors, which the translator does not look at, and which is 0 for every processor of an emulated program. A thread
//! that has another number there has translations of its own, which do not replace those of others.
//!
//! A thread changes its number itself, while it has the turn; those that are waiting do so when they have it next. Translated
//! blocks jump to each other directly, without a look at the number. So whoever changes has to leave translated code:
//!
//! * to a translation for what is skipped, at a system call only, which leaves it anyway. Elsewhere QEMU might note for good
//!   that the block that is left, with all callbacks, is followed by one without;
//! * to the whole translation, by the counter that QEMU looks at between blocks ([`leave`]). The block that was begun is gone
//!   through to its end: what it touches is part of what was skipped.
//!
//! The flags lie where QEMU 7.2 has them beside the registers, and are recognized by what is around them. Where they are
//! not found, as in later versions, what is skipped keeps its callbacks.

use std::cell::Cell;
use std::ffi::c_uint;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use crate::plugin::common::Common;
use crate::plugin::memory;

/// How code is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// With everything that the simulation needs.
    Whole = 0,
    /// To be skipped: each block looks whether its thread has the turn and may go on.
    Skipped = 1,
    /// To be skipped while there is one thread, which may go on for as long as it likes.
    Alone = 2,
}

impl Kind {
    fn of(number: u32) -> Option<Kind> {
        [Kind::Whole, Kind::Skipped, Kind::Alone]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }
}

/// Whether there is anything but [`Kind::Whole`].
static OFFERED: AtomicBool = AtomicBool::new(false);
/// What threads are to run.
static WANTED: Common<AtomicU8> = Common::new(AtomicU8::new(Kind::Whole as u8));

/// Has what is wanted shared with forked processes.
pub(crate) fn share() {
    WANTED.share();
}

thread_local! {
    /// What the calling thread runs, as far as it has found out.
    static OWN: Cell<Option<Kind>> = const { Cell::new(None) };
}

/// Offers translations for what is skipped, and wants this one. Before the guest's first instruction.
pub(crate) fn offer(kind: Kind) {
    want(kind);
    // Relaxed: no other thread runs yet.
    OFFERED.store(true, Ordering::Relaxed);
}

/// Whether this is what threads are to run.
pub(crate) fn is_wanted(kind: Kind) -> bool {
    // Relaxed: asked and changed by the thread that has the turn.
    WANTED.load(Ordering::Relaxed) == kind as u8
}

/// Says what threads are to run from now on.
pub(crate) fn want(kind: Kind) {
    // Relaxed: see `is_wanted`.
    WANTED.store(kind as u8, Ordering::Relaxed);
}

/// How a block is to be translated for the calling thread. One that does not know yet what it runs gets all callbacks, which
/// is never wrong.
pub(crate) fn of_translation() -> Kind {
    OWN.get().unwrap_or(Kind::Whole)
}

/// The thread `vcpu`, which has the turn and is about to leave translated code, runs what is wanted from then on. Returns
/// whether that is something else than before.
pub(crate) fn follow(vcpu: c_uint, state: *mut u64) -> bool {
    if !is_offered() || OWN.get().is_some_and(is_wanted) {
        return false;
    }
    let Some(place) = flags(vcpu, state) else {
        // Relaxed: see `is_offered`.
        OFFERED.store(false, Ordering::Relaxed);
        return false;
    };
    // Relaxed: see `is_wanted`.
    let wanted = u32::from(WANTED.load(Ordering::Relaxed));
    // SAFETY: these are the flags of the calling thread's processor. Only the thread itself uses them.
    unsafe {
        let others = ptr::read_volatile(place) & !CLUSTER;
        ptr::write_volatile(place, others | wanted << CLUSTER.trailing_zeros());
    }
    OWN.set(Kind::of(wanted));
    true
}

/// A thread that has begun runs what its maker ran.
pub(crate) fn learn(vcpu: c_uint, state: *mut u64) {
    if !is_offered() || OWN.get().is_some() {
        return;
    }
    if let Some(place) = flags(vcpu, state) {
        // SAFETY: these are the flags of the calling thread's processor.
        let flags = unsafe { ptr::read_volatile(place) };
        OWN.set(Kind::of(flags >> CLUSTER.trailing_zeros()));
    }
}

/// If nothing is skipped any more, the thread `vcpu`, which has the turn and begins a block that is skipped, runs the whole
/// translation from its next block on.
pub(crate) fn end(vcpu: c_uint, state: *mut u64) {
    if is_wanted(Kind::Whole) {
        follow(vcpu, state);
        leave(state);
    }
}

/// The same, if the thread is in a block that may be of either kind.
pub(crate) fn end_if_skipped(vcpu: c_uint, state: *mut u64) {
    if is_wanted(Kind::Whole) && follow(vcpu, state) {
        leave(state);
    }
}

fn is_offered() -> bool {
    // Relaxed: changed before the first thread runs, and by the first thread before there is another.
    OFFERED.load(Ordering::Relaxed)
}

/// Where the flags are that QEMU keeps for the processor `vcpu`, the caller's; nothing if that cannot be found out.
fn flags(vcpu: c_uint, state: *mut u64) -> Option<*mut u32> {
    let before = Before::read(state);
    let places = PLACES.get_or_init(|| before.as_ref()?.find(vcpu, state as u64));
    let places = places.as_ref()?;
    if !before.is_some_and(|before| before.has(places, vcpu)) {
        crate::plugin::fatal(
            "this QEMU keeps a thread's flags where the simulator does not find them: see the README's versions",
        );
    }
    // SAFETY: these words are part of the same object as QEMU's state of the processor, as was seen a moment ago.
    Some(unsafe { state.cast::<u32>().sub(places.flags) })
}

/// The flags that are the number of a cluster.
const CLUSTER: u32 = 0xff00_0000;
/// The flag of code for several threads.
const PARALLEL: u32 = 0x0008_0000;
/// So many words before QEMU's state of a processor are looked at.
const WORDS: usize = 256;

/// What asks a thread to leave translated code at the end of its block, for its own sake. QEMU itself sets all of the upper
/// sixteen bits for that, and clears them in any case.
const LEAVE: u32 = 0x8000_0000;

/// Has the calling thread leave translated code at the end of its block, to look for the next one anew.
fn leave(state: *mut u64) {
    let Some(Some(places)) = PLACES.get() else {
        return;
    };
    // SAFETY: it is the word of the calling thread's processor that QEMU has for this, beside the flags.
    let word = unsafe { AtomicU32::from_ptr(state.cast::<u32>().sub(places.exit)) };
    // Relaxed: translated code of this thread reads it. If QEMU has asked already, that is enough.
    let _ = word.compare_exchange(0, LEAVE, Ordering::Relaxed, Ordering::Relaxed);
}

/// Whether a word that QEMU makes negative to ask for a thread is only what the thread has asked of itself.
pub(crate) fn is_own_wish(word: i32) -> bool {
    word as u32 == LEAVE
}

/// Where QEMU has what is changed here, in words of four bytes before the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    flags: usize,
    exit: usize,
}

/// Found once, by the first thread: they are the same for all.
static PLACES: OnceLock<Option<Places>> = OnceLock::new();

/// The words before QEMU's state of a processor.
struct Before([u32; WORDS]);

impl Before {
    fn read(state: *const u64) -> Option<Before> {
        let mut bytes = [0; WORDS * 4];
        let start = (state as u64).checked_sub(bytes.len() as u64)?;
        if !memory::read(start, &mut bytes) {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Some(Before(words))
    }

    /// Whether the flags of the processor `vcpu` are at this distance: behind its number and that of its cluster, which it
    /// does not have (all ones), and before three words that are as they are in every processor that runs: it is not halted (0), may
    /// do input and output (1), and has no exception (all ones).
    fn are_flags(&self, distance: usize, vcpu: c_uint, may_be_set: u32) -> bool {
        let Some(index) = WORDS.checked_sub(distance).filter(|&index| index >= 2) else {
            return false;
        };
        let Some(&[number, cluster, flags, halted, may, exception]) =
            self.0[index - 2..].first_chunk::<6>()
        else {
            return false;
        };
        number == vcpu
            && cluster == u32::MAX
            && flags & !may_be_set == 0
            && [halted, may, exception] == [0, 1, u32::MAX]
    }

    /// Finds the places of the processor `vcpu`, the state of which is at this address; nothing if they cannot be told from
    /// others.
    fn find(&self, vcpu: c_uint, state: u64) -> Option<Places> {
        let mut flags = (1..=WORDS).filter(|&distance| self.are_flags(distance, vcpu, PARALLEL));
        // QEMU has the address of the state in a word of eight bytes, and then that of the word that asks a thread to leave.
        let pairs = (0..WORDS - 3).step_by(2);
        let mut exits = pairs.filter_map(|index| {
            let long = |index| u64::from(self.0[index]) | u64::from(self.0[index + 1]) << 32;
            let back = state.checked_sub(long(index + 2))?;
            let is_near = (4..=32).contains(&back) && back.is_multiple_of(4);
            (long(index) == state && is_near).then_some((back / 4) as usize)
        });
        let found = Places {
            flags: flags.next()?,
            exit: exits.next()?,
        };
        (flags.next().is_none() && exits.next().is_none()).then_some(found)
    }

    fn has(&self, places: &Places, vcpu: c_uint) -> bool {
        self.are_flags(places.flags, vcpu, PARALLEL | CLUSTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: u64 = 0x5635_e5e5_95a0;

    /// The words as QEMU 7.2 has them before the state of processor 3.
    fn words() -> [u32; WORDS] {
        let mut words = [0; WORDS];
        let behind = words.len();
        words[behind - 20..behind - 14].copy_from_slice(&[3, u32::MAX, 0, 0, 1, u32::MAX]);
        for (place, address) in [(behind - 72, STATE), (behind - 70, STATE - 8)] {
            words[place] = address as u32;
            words[place + 1] = (address >> 32) as u32;
        }
        words
    }

    #[test]
    fn the_flags_are_known_by_what_is_around_them() {
        let places = Before(words()).find(3, STATE);
        assert_eq!(places, Some(Places { flags: 18, exit: 2 }));
        let places = places.expect("they were found");
        assert_eq!(Before(words()).find(4, STATE), None, "of another processor");
        assert_eq!(Before(words()).find(3, STATE + 16), None);

        let mut changed = words();
        changed[WORDS - 18] = PARALLEL | 1 << 24;
        assert!(Before(changed).has(&places, 3));
        assert!(!Before(changed).has(&places, 0));
        assert_eq!(
            Before(changed).find(3, STATE),
            None,
            "a cluster of its own is not what is looked for"
        );
        changed[WORDS - 18] = 1;
        assert!(!Before(changed).has(&places, 3));
    }

    #[test]
    fn what_is_there_twice_is_not_taken() {
        let mut twice = words();
        twice.copy_within(WORDS - 20..WORDS - 14, WORDS - 40);
        assert_eq!(Before(twice).find(3, STATE), None);
        let mut twice = words();
        twice.copy_within(WORDS - 72..WORDS - 68, WORDS - 80);
        assert_eq!(Before(twice).find(3, STATE), None);
    }

    #[test]
    fn kinds_are_told_by_their_numbers() {
        for kind in [Kind::Whole, Kind::Skipped, Kind::Alone] {
            assert_eq!(Kind::of(kind as u32), Some(kind));
        }
        assert_eq!(Kind::of(3), None);
    }

    #[test]
    fn a_thread_that_asks_itself_is_not_one_that_qemu_needs() {
        assert!(is_own_wish(LEAVE as i32));
        assert!(!is_own_wish(0xffff_0000_u32 as i32) && !is_own_wish(0));
    }
}
