//! What a line is used for, as far as its instructions, functions and users give it away, and what is usually done about it.
//!
//! The rules go from what is certain to what is likely: functions of percolog's own objects; who shares which bytes; who writes
//! at all; the names of functions, which say what a programmer meant; and at last the instructions.

use super::findings::{SpanSummary, Suggestion, Verdict};
use super::instruction::{Direction, Instruction, Kind};
use super::logged::logged_object;
use super::suggestions::{
    counter, list_head, lock_word, logged, packed_fields, plain_counter, published,
    reference_count, up_and_down,
};
use super::summary::{LineSummary, PlaceSummary};

/// Parts of the names of functions that take locks, in small letters.
const LOCKS: [&str; 13] = [
    "mutex",
    "rwlock",
    "rw_lock",
    "spinlock",
    "spin_lock",
    "pthread_spin",
    "lll_lock",
    "lll_unlock",
    "lock_slow",
    "lock_contended",
    "runtime.lock",
    "runtime.unlock",
    "semaphore",
];

/// Of those that count references.
const REFERENCES: [&str; 11] = [
    "arc::clone",
    "shared_ptr",
    "sp_counted",
    "shared_count",
    "drop_slow",
    "refcount",
    "ref_count",
    "add_ref",
    "addref",
    "incref",
    "decref",
];

/// Of those that link and unlink.
const LISTS: [&str; 7] = [
    "push", "pop", "enqueue", "dequeue", "insert", "list", "queue",
];

/// Of those that count.
const COUNTS: [&str; 6] = ["count", "fetch_add", "incr", "stat", "metric", "record"];

/// What the instructions that wait for a line do to it, weighed by how often they waited.
#[derive(Debug, Default)]
struct Uses {
    add: u64,
    up: u64,
    down: u64,
    add_and_get: u64,
    /// To words of at most 4 bytes, of 8, and to pairs of words.
    exchange_if_same: [u64; 3],
    /// Of words of at most 4 bytes, and of 8.
    exchange: [u64; 2],
    bits: u64,
    store: u64,
    /// Additions that are not atomic.
    plain_add: u64,
    all: u64,
}

impl Uses {
    fn of<'a>(uses: impl Iterator<Item = (&'a PlaceSummary, Instruction)>) -> Self {
        let mut sum = Self::default();
        for (place, instruction) in uses.filter(|(place, _)| place.write) {
            let events = place.events;
            sum.all += events;
            match instruction.kind {
                Kind::Add(_) if !instruction.atomic => sum.plain_add += events,
                Kind::Add(direction) => {
                    sum.add += events;
                    match direction {
                        Direction::Up => sum.up += events,
                        Direction::Down => sum.down += events,
                        Direction::Unknown => {}
                    }
                }
                Kind::AddAndGet => sum.add_and_get += events,
                Kind::CompareExchange => {
                    let width = match instruction.size {
                        0..=4 => 0,
                        16 => 2,
                        _ => 1,
                    };
                    sum.exchange_if_same[width] += events;
                }
                Kind::Exchange => sum.exchange[usize::from(instruction.size > 4)] += events,
                Kind::Bits => sum.bits += events,
                Kind::Store => sum.store += events,
                Kind::Other => {}
            }
        }
        sum
    }

    /// Whether `part` is what is mostly done.
    fn mostly(&self, part: u64) -> bool {
        part > 0 && part * 2 > self.all
    }

    /// Whether it happens often enough not to be the exception.
    fn some(&self, part: u64) -> bool {
        part > 0 && part * 20 >= self.all
    }

    fn compare_exchange(&self) -> u64 {
        self.exchange_if_same.iter().sum()
    }

    fn exchange(&self) -> u64 {
        self.exchange.iter().sum()
    }

    fn atomic(&self) -> u64 {
        self.add + self.add_and_get + self.compare_exchange() + self.exchange() + self.bits
    }

    /// Writes by instructions that were understood.
    fn known(&self) -> u64 {
        self.atomic() + self.store + self.plain_add
    }
}

/// What is usually done about a line like this, if its pattern is known. `instruction` says what stands at an address of the code.
pub(crate) fn suggest(
    line: &LineSummary,
    instruction: impl Fn(u64) -> Instruction,
) -> Option<Suggestion> {
    if let Some(object) = logged_object(line) {
        return Some(logged(object));
    }
    let uses = Uses::of(
        line.places
            .iter()
            .map(|place| (place, instruction(place.pc))),
    );
    if let Some(fields) = packed(line) {
        return Some(packed_fields(fields));
    }
    match line.writers.len() {
        0 => return None,
        1 if !line.readers.is_empty() => return Some(published(line)),
        _ => {}
    }
    let named = |names: &[&str]| calls(line, names);
    let [word, double, pair] = uses.exchange_if_same;
    // Names first: they say what is meant. But what a lock guards is used in functions of the same names, by other instructions.
    if uses.mostly(uses.atomic()) || uses.known() == 0 {
        if named(&REFERENCES) || functions(line).any(|function| is_arc(&function)) {
            return Some(reference_count());
        }
        if named(&LOCKS) {
            return Some(lock_word(shared_lock(line)));
        }
    }
    if uses.mostly(uses.bits) {
        return Some(lock_word(shared_lock(line)));
    }
    if pair > 0 {
        return Some(list_head(line));
    }
    let taken = uses.compare_exchange() + uses.exchange();
    // Pointers have 8 bytes; what is narrower there is the lock of the list.
    let [_, pointers] = uses.exchange;
    if uses.some(double + pointers) && named(&LISTS) {
        return Some(list_head(line));
    }
    // Taken by one instruction, given back by another; or the two words of a ticket lock.
    let given_back = uses.some(uses.store) || (uses.some(uses.exchange()) && word > 0);
    if uses.some(taken) && given_back {
        return Some(lock_word(shared_lock(line)));
    }
    if uses.some(uses.add_and_get) && (uses.some(uses.plain_add) || uses.some(uses.store)) {
        return Some(lock_word(shared_lock(line)));
    }
    if uses.mostly(uses.compare_exchange()) {
        return Some(if named(&COUNTS) {
            counter(
                "numbers are added to it in a loop of compare-and-exchange",
                true,
            )
        } else if double > 0 {
            list_head(line)
        } else {
            lock_word(shared_lock(line))
        });
    }
    if uses.mostly(uses.exchange()) {
        return Some(list_head(line));
    }
    if uses.some(uses.up) && uses.some(uses.down) {
        return Some(up_and_down());
    }
    if uses.mostly(uses.add + uses.add_and_get) {
        let unused = uses.add >= uses.add_and_get;
        return Some(counter("numbers are added to it", unused));
    }
    if uses.mostly(uses.plain_add) {
        return Some(plain_counter());
    }
    None
}

/// Whether it is a lock that readers hold together.
fn shared_lock(line: &LineSummary) -> bool {
    calls(line, &["rwlock", "rw_lock", "read_lock", "lock_shared"])
}

/// Whether a function that uses the line has one of these names.
fn calls(line: &LineSummary, names: &[&str]) -> bool {
    functions(line).any(|function| names.iter().any(|name| function.contains(name)))
}

/// The functions that use the line, in small letters: the program's own, and those of libraries that it uses the line through. Who
/// called them says nothing about the line.
fn functions(line: &LineSummary) -> impl Iterator<Item = String> + '_ {
    line.places.iter().flat_map(|place| {
        let callers = place.called_by().len();
        let own = &place.frames[..place.frames.len() - callers];
        std::iter::once(&place.place)
            .chain(own)
            .map(|place| place.function.to_lowercase())
    })
}

/// Whether a function clones or drops an `Arc`, rather than only to have one among its types.
fn is_arc(function: &str) -> bool {
    function.contains("sync::arc<") && (function.contains("clone") || function.contains("drop"))
}

/// Fields of different users, if that is why the line moves.
fn packed(line: &LineSummary) -> Option<&[SpanSummary]> {
    let apart = match line.sharing.verdict {
        Verdict::False => true,
        Verdict::Unknown => {
            // Nobody uses what another writes.
            let users = |span: &SpanSummary| -> Vec<u32> {
                span.readers.iter().chain(&span.writers).copied().collect()
            };
            line.spans
                .iter()
                .filter(|span| !span.writers.is_empty())
                .count()
                > 1
                && line.spans.iter().enumerate().all(|(index, span)| {
                    let mine = users(span);
                    span.writers.is_empty()
                        || line.spans.iter().enumerate().all(|(other, span)| {
                            other == index || users(span).iter().all(|core| !mine.contains(core))
                        })
                })
        }
        _ => false,
    };
    apart.then_some(&line.spans)
}

#[cfg(test)]
mod tests {
    use super::super::findings::Pattern;
    use super::*;
    use crate::symbols::Place;

    /// Real instructions, as gcc and rustc emit them.
    const LOCK_INC: &[u8] = &[0xf0, 0x48, 0xff, 0x07];
    const LOCK_DEC: &[u8] = &[0xf0, 0x48, 0xff, 0x0f];
    const LOCK_XADD: &[u8] = &[0xf0, 0x48, 0x0f, 0xc1, 0x07];
    const CMPXCHG_4: &[u8] = &[0xf0, 0x0f, 0xb1, 0x0f];
    const CMPXCHG_8: &[u8] = &[0xf0, 0x48, 0x0f, 0xb1, 0x0f];
    const CMPXCHG_16: &[u8] = &[0xf0, 0x48, 0x0f, 0xc7, 0x0f];
    const XCHG_4: &[u8] = &[0x87, 0x07];
    const XCHG_8: &[u8] = &[0x48, 0x87, 0x07];
    const MOV: &[u8] = &[0xc7, 0x07, 0, 0, 0, 0];
    const ADD: &[u8] = &[0x48, 0x83, 0x07, 0x01];

    fn line(readers: usize, writers: usize) -> LineSummary {
        let cores = |count: usize| (0..count as u32).collect();
        LineSummary {
            memory: "heap".to_owned(),
            readers: cores(readers),
            writers: cores(writers),
            ..LineSummary::default()
        }
    }

    /// A line whose writers execute these instructions in these functions, as often.
    fn found(uses: &[(&'static [u8], &str, u64)]) -> Option<Suggestion> {
        let mut line = line(8, 8);
        for (index, (_, function, events)) in uses.iter().enumerate() {
            line.places.push(PlaceSummary {
                pc: index as u64,
                place: Place {
                    function: (*function).to_owned(),
                    ..Place::default()
                },
                write: true,
                events: *events,
                ..PlaceSummary::default()
            });
        }
        suggest(&line, |pc| Instruction::decode(uses[pc as usize].0))
    }

    fn pattern(uses: &[(&'static [u8], &str, u64)]) -> Option<Pattern> {
        found(uses).map(|suggestion| suggestion.pattern)
    }

    #[test]
    fn instructions_give_patterns_away() {
        for (uses, expected) in [
            (&[(LOCK_INC, "work", 9)][..], Some(Pattern::Counter)),
            (&[(ADD, "work", 9)], Some(Pattern::Counter)),
            (
                &[(LOCK_INC, "work", 5), (LOCK_DEC, "work", 5)],
                Some(Pattern::ReferenceCount),
            ),
            // A mutex on a futex, and a spin lock.
            (
                &[(CMPXCHG_4, "work", 5), (XCHG_4, "work", 5)],
                Some(Pattern::LockWord),
            ),
            (
                &[(XCHG_4, "work", 5), (MOV, "work", 3)],
                Some(Pattern::LockWord),
            ),
            // A ticket lock.
            (
                &[(LOCK_XADD, "work", 5), (ADD, "work", 5)],
                Some(Pattern::LockWord),
            ),
            (&[(CMPXCHG_8, "work", 5)], Some(Pattern::ListHead)),
            (&[(CMPXCHG_16, "work", 5)], Some(Pattern::ListHead)),
            (&[(XCHG_8, "work", 5)], Some(Pattern::ListHead)),
            // Data.
            (&[(MOV, "work", 5)], None),
            (&[(&[], "work", 5)], None),
        ] {
            assert_eq!(pattern(uses), expected, "{uses:02x?}");
        }
    }

    #[test]
    fn names_say_what_is_meant() {
        let function = |name: &str| Place {
            function: name.to_owned(),
            ..Place::default()
        };
        for (uses, expected) in [
            (
                &[(LOCK_XADD, "<alloc::sync::Arc<T> as Clone>::clone", 5)][..],
                Pattern::ReferenceCount,
            ),
            (
                &[(
                    LOCK_XADD,
                    "__gnu_cxx::__exchange_and_add(std::_Sp_counted_base)",
                    5,
                )],
                Pattern::ReferenceCount,
            ),
            (
                &[(CMPXCHG_4, "pthread_mutex_lock+0x12 in libc.so.6", 5)],
                Pattern::LockWord,
            ),
            (
                &[(CMPXCHG_8, "parking_lot::RawMutex::lock_slow", 5)],
                Pattern::LockWord,
            ),
            (
                &[(CMPXCHG_8, "stack_push", 5), (MOV, "stack_push", 5)],
                Pattern::ListHead,
            ),
            (&[(CMPXCHG_8, "metrics::record_f64", 5)], Pattern::Counter),
        ] {
            assert_eq!(pattern(uses), Some(expected), "{uses:02x?}");
        }
        // Data that is used with a lock held is no lock.
        assert_eq!(pattern(&[(MOV, "with_mutex_held", 5)]), None);
        // A list under a lock is a lock, and a counter of a function of many types a counter.
        assert_eq!(
            pattern(&[(XCHG_4, "queue_push", 5), (MOV, "queue_push", 5)]),
            Some(Pattern::LockWord)
        );
        assert_eq!(
            pattern(&[(LOCK_INC, "work<alloc::sync::Arc<T>>", 5)]),
            Some(Pattern::Counter)
        );
        assert_eq!(
            pattern(&[(ADD, "with_mutex_held", 5)]),
            Some(Pattern::Counter)
        );
        // The name may be known of an inlined function alone.
        let mut line = line(8, 8);
        line.places.push(PlaceSummary {
            write: true,
            events: 5,
            place: function("work"),
            frames: vec![function("alloc::sync::Arc<T>::drop_slow"), function("work")],
            ..PlaceSummary::default()
        });
        let suggestion = suggest(&line, |_| Instruction::decode(LOCK_XADD)).expect("it is known");
        assert_eq!(suggestion.pattern, Pattern::ReferenceCount);
        // That of a caller says nothing.
        line.places[0].frames.reverse();
        let suggestion = suggest(&line, |_| Instruction::decode(LOCK_XADD)).expect("it is known");
        assert_eq!(suggestion.pattern, Pattern::Counter);
    }

    #[test]
    fn a_counter_whose_answer_is_used_has_no_type() {
        let unused = found(&[(LOCK_INC, "work", 9)]).expect("a counter");
        assert_eq!(unused.fits.as_deref(), Some("percolog::counter::Counter"));
        let used = found(&[(LOCK_XADD, "work", 9)]).expect("a counter");
        assert_eq!((used.pattern, used.fits), (Pattern::Counter, None));
        assert!(used.text.contains("in blocks"), "{}", used.text);
    }

    fn span(offset: u32, readers: &[u32], writers: &[u32]) -> SpanSummary {
        SpanSummary {
            offset,
            size: 8,
            readers: readers.to_vec(),
            writers: writers.to_vec(),
            events: 1,
            name: None,
        }
    }

    #[test]
    fn neighbours_are_told_from_friends() {
        let mut line = line(2, 2);
        line.spans = vec![span(0, &[0], &[0]), span(8, &[1], &[1])];
        let suggestion = suggest(&line, |_| Instruction::UNKNOWN).expect("they are packed");
        assert_eq!(
            (suggestion.pattern, suggestion.fits),
            (Pattern::PackedFields, None)
        );
        assert!(
            suggestion.text.contains("byte 0 and byte 8"),
            "{}",
            suggestion.text
        );
        // The second is read by the writer of the first.
        line.spans[1].readers.push(0);
        assert_eq!(suggest(&line, |_| Instruction::UNKNOWN), None);
        // Whoever has counted knows better.
        line.sharing.verdict = Verdict::False;
        line.spans[0].name = Some("hits".to_owned());
        let suggestion = suggest(&line, |_| Instruction::UNKNOWN).expect("it was counted");
        assert!(
            suggestion.text.contains("hits (byte 0)"),
            "{}",
            suggestion.text
        );
        line.sharing.verdict = Verdict::True;
        assert_eq!(suggest(&line, |_| Instruction::UNKNOWN), None);
    }

    #[test]
    fn one_writer_publishes() {
        let suggestion = suggest(&line(7, 1), |_| Instruction::decode(MOV)).expect("it publishes");
        assert_eq!(suggestion.pattern, Pattern::Published);
        assert!(
            suggestion.text.contains("what 7 cores read"),
            "{}",
            suggestion.text
        );
        assert_eq!(suggest(&line(7, 0), |_| Instruction::UNKNOWN), None);
    }
}
