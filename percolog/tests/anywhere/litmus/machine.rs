//! What threads and memory do, one event after the other.
//!
//! Memory is one array, and a store is in it for everybody or for nobody but its own thread. An
//! instruction happens at once, when those that it waits for have happened. A store "happens" when it
//! reaches memory; until then later loads of its own thread take their value from it.

use crate::litmus::order::{Processor, waits};
use crate::litmus::program::{Act, Order, Place, Program, Register, Value, Word};
use std::fmt::{self, Display};
use std::hash::{Hash, Hasher};

/// How the time-stamp counter behaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    /// How far it can get ahead between two stamps.
    pub(crate) pace: Word,
    /// A stamp can be too large by this, whichever thread takes it and wherever that thread runs.
    pub(crate) skew: Word,
}

/// One straight path of each thread, and the rules that they follow.
pub(crate) struct Machine<'p> {
    program: &'p Program,
    processor: Processor,
    counter: Counter,
    paths: Vec<Vec<Act>>,
    /// A bit for each instruction of each path.
    all: Vec<u64>,
    waits: Vec<Vec<u64>>,
    /// Where each thread's registers begin in `State::registers`.
    registers: Vec<usize>,
}

/// The longest straight path.
const LONGEST: usize = 64;

/// Who wrote a value: nobody is 0, and an instruction that is later in its thread is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Writer(u16);

impl Writer {
    const NOBODY: Self = Self(0);

    fn new(thread: usize, act: usize) -> Self {
        Self(u16::try_from(1 + thread * LONGEST + act).expect("few threads"))
    }

    fn thread(self) -> Option<usize> {
        (self != Self::NOBODY).then(|| (usize::from(self.0) - 1) / LONGEST)
    }
}

/// A value and who wrote it; as one number in a state, which is compared and hashed a million times.
#[derive(Clone, Copy)]
struct Seen {
    word: Word,
    writer: Writer,
}

impl Seen {
    fn initially(word: Word) -> Self {
        Self {
            word,
            writer: Writer::NOBODY,
        }
    }

    fn packed(self) -> u32 {
        u32::from(self.writer.0) << 16 | u32::from(self.word.cast_unsigned())
    }

    fn unpacked(packed: u32) -> Self {
        let [high, low] = [packed >> 16, packed & 0xffff].map(|half| half as u16);
        Self {
            word: low.cast_signed(),
            writer: Writer(high),
        }
    }
}

/// A register that has no value yet.
const UNKNOWN: u32 = u32::MAX;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// A bit for each instruction of a thread's path that has happened.
    done: Vec<u64>,
    /// `Seen`, packed, or `UNKNOWN`.
    registers: Vec<u32>,
    /// `Seen`, packed.
    memory: Vec<u32>,
    now: Word,
    /// For each thread that is in a `membarrier`: itself, and whom it has interrupted; otherwise none.
    interrupted: Vec<u32>,
}

/// Mixed here first: unoptimized, std's hash function would take most of the time.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut mixed = u64::from(self.now.cast_unsigned());
        let mut mix = |word: u64| {
            mixed = (mixed.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        };
        self.done.iter().for_each(|&word| mix(word));
        for words in [&self.registers, &self.memory, &self.interrupted] {
            words.iter().for_each(|&word| mix(word.into()));
        }
        hasher.write_u64(mixed);
    }
}

/// What happened, for a human.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) thread: usize,
    act: usize,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Loaded(Seen, Register),
    Forwarded(Word, Register),
    Stored(Word),
    Stamped(Word, Register),
    Called,
    /// Whom, and after how many of its accesses and stamps.
    Interrupted(usize, usize),
    Returned,
    /// Nothing that another thread can tell.
    Silent,
}

impl<'p> Machine<'p> {
    pub(crate) fn new(
        program: &'p Program,
        processor: Processor,
        counter: Counter,
        paths: Vec<Vec<Act>>,
    ) -> Self {
        assert!(
            paths.iter().all(|path| path.len() < LONGEST),
            "a path is a word of bits"
        );
        let all = paths.iter().map(|path| (1 << path.len()) - 1).collect();
        let waits = paths.iter().map(|path| waits(processor, path)).collect();
        let registers = (0..program.threads.len())
            .scan(0, |next, thread| {
                let begin = *next;
                *next += program.registers(thread);
                Some(begin)
            })
            .collect();
        Self {
            program,
            processor,
            counter,
            paths,
            all,
            waits,
            registers,
        }
    }

    pub(crate) fn start(&self) -> State {
        let threads = self.paths.len();
        let registers = (0..threads)
            .map(|thread| self.program.registers(thread))
            .sum();
        State {
            done: vec![0; threads],
            registers: vec![UNKNOWN; registers],
            memory: self
                .program
                .initially()
                .map(Seen::initially)
                .map(Seen::packed)
                .collect(),
            now: 1,
            interrupted: vec![0; threads],
        }
    }

    /// Whether every instruction of every thread has happened.
    pub(crate) fn is_over(&self, state: &State) -> bool {
        state.done == self.all
    }

    pub(crate) fn register(&self, state: &State, register: Register) -> Option<Word> {
        self.seen(state, register).map(|seen| seen.word)
    }

    pub(crate) fn memory(&self, state: &State, place: Place) -> Word {
        Seen::unpacked(state.memory[place.0]).word
    }

    /// What can happen next. No event, although not all is over, is an execution that does not exist:
    /// a branch went the other way, or a read-modify-write was interrupted.
    pub(crate) fn next(&self, state: &State) -> Vec<(Event, State)> {
        let mut events = Vec::new();
        for (thread, path) in self.paths.iter().enumerate() {
            let done = state.done[thread];
            let mut left = self.all[thread] & !done;
            while left != 0 {
                let at = left.trailing_zeros() as usize;
                left &= left - 1;
                if self.waits[thread][at] & !done != 0 {
                    continue;
                }
                let before = events.len();
                let exists = self.happen(state, thread, at, &path[at], &mut events);
                if !exists {
                    return Vec::new();
                }
                // What no other thread can tell happens as soon as it can, and alone: its order with
                // respect to all else makes no difference.
                if let [
                    (
                        Event {
                            what: What::Silent | What::Called | What::Returned,
                            ..
                        },
                        _,
                    ),
                ] = events[before..]
                {
                    return events.split_off(before);
                }
            }
        }
        events
    }

    /// The ways in which one instruction can happen now; `false` if this execution does not exist.
    fn happen(
        &self,
        state: &State,
        thread: usize,
        at: usize,
        act: &Act,
        events: &mut Vec<(Event, State)>,
    ) -> bool {
        let event = |what| Event {
            thread,
            act: at,
            what,
        };
        let mut next = state.clone();
        next.done[thread] |= 1 << at;
        match act {
            Act::Fence | Act::Lfence => events.push((event(What::Silent), next)),
            Act::Assume { value, holds } => {
                let value = self
                    .value(state, value)
                    .expect("a branch waits for its registers");
                if (value != 0) != *holds {
                    return false;
                }
                events.push((event(What::Silent), next));
            }
            Act::Stamp { into } => {
                for now in state.now..=state.now + self.counter.pace {
                    for stamp in now..=now + self.counter.skew {
                        let mut next = next.clone();
                        next.now = now;
                        next.registers[self.at(*into)] = Seen::initially(stamp).packed();
                        events.push((event(What::Stamped(stamp, *into)), next));
                    }
                }
            }
            Act::Load {
                into, order, place, ..
            } => {
                let Some((seen, what)) = self.load(state, thread, at, *place, *order, *into) else {
                    return true;
                };
                if !self.is_coherent(state, thread, at, *place, seen.writer) {
                    return false;
                }
                next.registers[self.at(*into)] = seen.packed();
                events.push((event(what), next));
            }
            Act::Store {
                place,
                value,
                locked,
                ..
            } => {
                let word = self
                    .value(state, value)
                    .expect("a store waits for its registers");
                if let Some(read) = locked {
                    let read = self.seen(state, *read).expect("its load is done");
                    if Seen::unpacked(state.memory[place.0]).writer != read.writer {
                        return false;
                    }
                }
                next.memory[place.0] = Seen {
                    word,
                    writer: Writer::new(thread, at),
                }
                .packed();
                events.push((event(What::Stored(word)), next));
            }
            Act::Membarrier => self.membarrier(state, thread, at, next, events),
        }
        true
    }

    /// The value that a load sees now, unless it has to wait for that of an earlier store.
    fn load(
        &self,
        state: &State,
        thread: usize,
        at: usize,
        place: Place,
        order: Order,
        into: Register,
    ) -> Option<(Seen, What)> {
        let pending = self.paths[thread][..at]
            .iter()
            .enumerate()
            .rev()
            .find(|(earlier, act)| {
                matches!(act, Act::Store { place: other, .. } if *other == place)
                    && state.done[thread] & 1 << earlier == 0
            });
        let Some((earlier, Act::Store { value, locked, .. })) = pending else {
            let seen = Seen::unpacked(state.memory[place.0]);
            return Some((seen, What::Loaded(seen, into)));
        };
        // aob: an acquiring load takes no value from a read-modify-write that is under way.
        if self.processor == Processor::Arm && locked.is_some() && order.acquires() {
            return None;
        }
        let word = self.value(state, value)?;
        let writer = Writer::new(thread, earlier);
        Some((Seen { word, writer }, What::Forwarded(word, into)))
    }

    /// Whether a load sees nothing newer than what later loads of the same place have seen already.
    fn is_coherent(
        &self,
        state: &State,
        thread: usize,
        at: usize,
        place: Place,
        source: Writer,
    ) -> bool {
        self.paths[thread]
            .iter()
            .enumerate()
            .skip(at + 1)
            .all(|(later, act)| {
                let Act::Load {
                    place: other, into, ..
                } = act
                else {
                    return true;
                };
                if *other != place || state.done[thread] & 1 << later == 0 {
                    return true;
                }
                let seen = self.seen(state, *into).expect("this load is done").writer;
                // A store between the two is newer than what the first can see.
                let between = seen.thread() == Some(thread) && seen > Writer::new(thread, at);
                between || seen == source
            })
    }

    /// A call, then an interrupt of every other thread, each at a moment when all before some
    /// instruction has happened and nothing from there on, then the return.
    fn membarrier(
        &self,
        state: &State,
        thread: usize,
        at: usize,
        mut returned: State,
        events: &mut Vec<(Event, State)>,
    ) {
        let event = |what| Event {
            thread,
            act: at,
            what,
        };
        let all = (1 << self.paths.len()) - 1;
        let already = state.interrupted[thread];
        if already == all {
            returned.interrupted[thread] = 0;
            events.push((event(What::Returned), returned));
        } else if already == 0 {
            let mut next = state.clone();
            next.interrupted[thread] = 1 << thread;
            events.push((event(What::Called), next));
        } else {
            for other in 0..self.paths.len() {
                if already & 1 << other != 0 {
                    continue;
                }
                if let Some(point) = self.point(state, other) {
                    let mut next = state.clone();
                    next.interrupted[thread] |= 1 << other;
                    events.push((event(What::Interrupted(other, point)), next));
                }
            }
        }
    }

    /// If what has happened in a thread is what comes before some point of its path: how much that is.
    fn point(&self, state: &State, thread: usize) -> Option<usize> {
        let telling = self.paths[thread]
            .iter()
            .enumerate()
            .filter(|(_, act)| act.is_telling());
        let mut happened = telling.map(|(at, _)| state.done[thread] & 1 << at != 0);
        let before = happened.by_ref().take_while(|done| *done).count();
        (!happened.any(|done| done)).then_some(before)
    }

    fn value(&self, state: &State, value: &Value) -> Option<Word> {
        value.known(|register| self.register(state, register))
    }

    fn seen(&self, state: &State, register: Register) -> Option<Seen> {
        let packed = state.registers[self.at(register)];
        (packed != UNKNOWN).then(|| Seen::unpacked(packed))
    }

    fn at(&self, register: Register) -> usize {
        self.registers[register.thread] + register.index
    }

    /// An execution that a human can follow; silent events are left out.
    pub(crate) fn tell(&self, events: &[Event]) -> String {
        let wide = self
            .program
            .threads
            .iter()
            .map(|thread| thread.name.len())
            .max()
            .unwrap_or(0);
        let mut text = String::new();
        for event in events {
            if !matches!(event.what, What::Silent) {
                let name = self.program.threads[event.thread].name;
                text += &format!(
                    "    {name:wide$}  {}\n",
                    Told {
                        machine: self,
                        event
                    }
                );
            }
        }
        text
    }
}

struct Told<'a> {
    machine: &'a Machine<'a>,
    event: &'a Event,
}

impl Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, event } = self;
        let program = machine.program;
        let place = match &machine.paths[event.thread][event.act] {
            Act::Load { place, .. } | Act::Store { place, .. } => program.place_name(*place),
            _ => "",
        };
        match event.what {
            What::Loaded(Seen { word, writer }, into) => {
                let into = program.register_name(into);
                write!(f, "{into} = {word}, read from {place}")?;
                match writer.thread() {
                    Some(by) => write!(f, ", as {} wrote it", program.threads[by].name),
                    None => write!(f, ", as it was at first"),
                }
            }
            What::Forwarded(word, into) => {
                let into = program.register_name(into);
                write!(
                    f,
                    "{into} = {word}, read from its own store to {place}, which is not in memory yet"
                )
            }
            What::Stored(word) => write!(f, "{place} = {word} reaches memory"),
            What::Stamped(word, into) => {
                write!(
                    f,
                    "{} = {word}, read from the clock",
                    program.register_name(into)
                )
            }
            What::Called => write!(f, "calls membarrier"),
            What::Interrupted(other, point) => {
                let name = program.threads[other].name;
                write!(
                    f,
                    "membarrier stops {name} between its steps {point} and {}",
                    point + 1
                )
            }
            What::Returned => write!(f, "membarrier returns"),
            What::Silent => Ok(()),
        }
    }
}
