//! Threads that are not scanned while they are idle.

use crate::litmus::program::Order::{AcqRel, Acquire, Relaxed};
use crate::litmus::program::{Place, Program, Register, Thread, Value, Word};
use crate::litmus::protocol::{
    Case, Clock, Protocol, Read, Words, everywhere, used_freed, used_old,
};
use crate::litmus::search::{End, Question};

/// A line of parking that is missing or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slip {
    Nothing,
    /// The owner comes back without the lock under which it is parked.
    WakeUnlocked,
    /// The owner looks whether it is parked before it stores that it is inside.
    LookedFirst,
    /// The owner has no fence after it has set its bit.
    WakeNotFenced,
    /// The parker has no barrier between parking and reading the word.
    ParkNotFenced,
    /// The parker reads the word before it parks.
    ParkedLate,
    /// The scan calls for no barrier although there is a thread to be scanned.
    ScanNotFenced,
}

#[derive(Clone, Copy)]
struct Parking {
    protocol: Protocol,
    slip: Slip,
}

#[derive(Clone, Copy)]
struct Flags {
    /// The thread's own: 0 is awake, 1 is parked or about to be.
    parked: Place,
    /// The thread's bit among those that are scanned.
    active: Place,
    lock: Place,
}

fn is(value: Word) -> impl Fn([Word; 1]) -> Word {
    move |[word]| (word == value).into()
}

impl Parking {
    /// A section of a thread that may have been parked.
    fn section(self, thread: &mut Thread, words: Words, flags: Flags) -> Read {
        let protocol = self.protocol;
        let early = self.slip == Slip::LookedFirst;
        let early = early.then(|| thread.load(flags.parked, Relaxed, "parked"));
        let stamp = protocol.announce(thread, words);
        protocol.light_barrier(thread);
        let parked = early.unwrap_or_else(|| thread.load(flags.parked, Relaxed, "parked"));
        let awake = Value::of([parked], is(0));
        thread.branch(awake, |_| {}, |thread| self.wake(thread, flags));
        let read = protocol.follow(thread, words);
        protocol.exit(thread, words, stamp);
        read
    }

    fn wake(self, thread: &mut Thread, flags: Flags) {
        let locks = self.slip != Slip::WakeUnlocked;
        if locks {
            thread.lock(flags.lock);
        }
        thread.store(flags.parked, 0, Relaxed);
        thread.update(flags.active, |_| 1, AcqRel, "active before");
        if locks {
            thread.unlock(flags.lock);
        }
        if self.slip != Slip::WakeNotFenced {
            thread.fence();
        }
    }

    fn parker(self, thread: &mut Thread, words: Words, flags: Flags) {
        let park = |thread: &mut Thread| {
            thread.store(flags.parked, 1, Relaxed);
            if self.slip != Slip::ParkNotFenced {
                self.protocol.heavy_barrier(thread);
            }
        };
        thread.lock(flags.lock);
        if self.slip != Slip::ParkedLate {
            park(thread);
        }
        let seen = thread.load(words.entered, Acquire, "seen by parker");
        if self.slip == Slip::ParkedLate {
            park(thread);
        }
        thread.branch(
            Value::of([seen], |[seen]| seen & 1),
            |thread| thread.store(flags.parked, 0, Relaxed),
            |thread| {
                thread.update(flags.active, |_| 0, AcqRel, "active before");
            },
        );
        thread.unlock(flags.lock);
    }

    /// A scan that calls for its barrier only if there is a thread to be scanned. Returns whether it
    /// scanned the thread.
    fn scan_and_free(self, thread: &mut Thread, words: Words, flags: Flags) -> Register {
        let protocol = self.protocol;
        let sealed = protocol.unlink_and_seal(thread, words);
        protocol.advance(thread, words);
        let bound = protocol.bound(thread, words);
        thread.fence();
        let anybody = thread.load(flags.active, Acquire, "anybody");
        if self.slip != Slip::ScanNotFenced {
            thread.branch(anybody, |thread| protocol.heavy_barrier(thread), |_| {});
        }
        let active = thread.load(flags.active, Acquire, "active");
        thread.branch(
            active,
            |thread| {
                let seen = thread.load(words.entered, Acquire, "seen");
                protocol.free(thread, words, sealed, &protocol.clear(seen, bound));
            },
            |thread| protocol.free(thread, words, sealed, &bound.into()),
        );
        active
    }

    /// A thread that was parked long ago comes back, and stays for two sections.
    fn coming_back(self) -> Case {
        let mut program = Program::default();
        let words = Words::in_program(&mut program);
        let flags = Flags::in_program(&mut program, 1);
        let reads = program.thread("owner", |thread| {
            [
                self.section(thread, words, flags),
                self.section(thread, words, flags),
            ]
        });
        let active = program.thread("writer", |thread| self.scan_and_free(thread, words, flags));
        let scanned = move |end: &End| {
            reads.iter().any(|&read| used_old(read)(end)) && end.got(active) == Some(1)
        };
        Case {
            program,
            early: Box::new(move |end| reads.iter().any(|&read| used_freed(read)(end))),
            // Who has used the old object has set its bit before.
            happens: vec![
                Box::new(scanned),
                Box::new(move |end| end.got(active) == Some(0)),
            ],
        }
    }

    /// A thread enters while it is being parked.
    fn being_parked(self) -> Case {
        let mut program = Program::default();
        let words = Words::in_program(&mut program);
        let flags = Flags::in_program(&mut program, 0);
        let read = program.thread("owner", |thread| self.section(thread, words, flags));
        program.thread("parker", |thread| self.parker(thread, words, flags));
        let active = program.thread("writer", |thread| self.scan_and_free(thread, words, flags));
        let used = move |seen: Word| -> Question<'static> {
            Box::new(move |end| used_old(read)(end) && end.got(active) == Some(seen))
        };
        Case {
            program,
            early: Box::new(used_freed(read)),
            happens: vec![used(0), used(1)],
        }
    }
}

impl Flags {
    fn in_program(program: &mut Program, parked: Word) -> Self {
        Self {
            parked: program.place("parked", parked),
            active: program.place("active", (parked == 0).into()),
            lock: program.place("lock", 0),
        }
    }
}

/// How the tests begin.
type Begin = fn(Parking) -> Case;

const COMING_BACK: Begin = Parking::coming_back;
const BEING_PARKED: Begin = Parking::being_parked;

fn everywhere_with(slip: Slip) -> impl Iterator<Item = Parking> {
    everywhere(Clock::Tick)
        .into_iter()
        .map(move |protocol| Parking { protocol, slip })
}

#[test]
fn a_parked_thread_comes_back_in_time() {
    for parking in everywhere_with(Slip::Nothing) {
        parking.protocol.holds("coming back", parking.coming_back());
    }
}

#[test]
fn a_thread_that_is_not_idle_is_not_parked() {
    for parking in everywhere_with(Slip::Nothing) {
        parking
            .protocol
            .holds("being parked", parking.being_parked());
    }
}

#[test]
fn every_slip_is_found_where_it_matters() {
    // On x86 with fences and with membarrier, then on ARM: `F` is an object freed early, `.` is none.
    let rows: [(Slip, Begin, &str); 6] = [
        // The parker can have decided to clear the bit before the owner sets it, and clear it after.
        (Slip::WakeUnlocked, BEING_PARKED, "FFFF"),
        (Slip::LookedFirst, BEING_PARKED, "FFFF"),
        // A read-modify-write is a full fence on x86. On ARM membarrier does not help either: a scan
        // that sees no bit calls for none.
        (Slip::WakeNotFenced, COMING_BACK, "..FF"),
        (Slip::ParkNotFenced, BEING_PARKED, "FFFF"),
        (Slip::ParkedLate, BEING_PARKED, "FFFF"),
        // With fences all around, the one before the bits are read is enough.
        (Slip::ScanNotFenced, BEING_PARKED, ".F.F"),
    ];
    for (slip, begin, expected) in rows {
        for (parking, expected) in everywhere_with(slip).zip(expected.chars()) {
            let protocol = parking.protocol;
            let early = protocol.frees_early(&format!("{slip:?}"), &begin(parking));
            assert_eq!(
                early.is_some(),
                expected == 'F',
                "{slip:?}: {protocol:?}: {early:?}"
            );
        }
    }
}
