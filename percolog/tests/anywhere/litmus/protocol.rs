//! The protocol of reclamation, one small function for each of its parts.
//!
//! Whoever changes `reclaim::collector` or `reclaim::parking` changes this too. `announce` and
//! `light_barrier` are `begin` there, `exit` is `end`, `seal` is `now`; `scan`, `advance` and the barriers have the same names.
//! Where the library's ordering is stronger than what is needed, the weaker one stands here.

use crate::litmus::machine::Counter;
use crate::litmus::order::Processor::{self, Arm, X86};
use crate::litmus::program::Order::{AcqRel, Acquire, Relaxed, Release};
use crate::litmus::program::{Order, Place, Program, Register, Thread, Value, Word};
use crate::litmus::search::{End, Found, Question, search};

/// What `link` leads to before and after the writer has replaced it.
const OLD: Word = 1;
const NEW: Word = 2;

/// What the old object holds after it was freed.
pub(crate) const POISON: Word = -1;

/// Where the barriers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Barriers {
    /// Readers and scanners have full fences.
    Fenced,
    /// Readers have none at run time; scanners call `membarrier`.
    Membarrier,
}

/// What stamps are taken from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clock {
    /// A word that is advanced by scans.
    Tick,
    /// The time-stamp counter, off by up to `skew`; comparisons keep `margin`.
    Counter { skew: Word, margin: Word },
}

/// A line of the protocol that is missing or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Break {
    Nothing,
    /// The scan's stamp is taken after the words are read.
    BoundAfterReading,
    /// The scan's barrier comes before its stamp.
    BarrierBeforeBound,
    /// The scan has no barrier.
    NoHeavyBarrier,
    /// The reader has no barrier, although it needs a fence.
    NoLightBarrier,
    /// The seal has no fence between unlinking and its stamp.
    SealNotFenced,
    /// The seal's fence is not followed by `lfence`.
    SealNotSerialized,
    /// The entry's stamp is not followed by `lfence`.
    EntryNotSerialized,
    /// The scan's stamp is not followed by `lfence`.
    BoundNotSerialized,
    /// Equal stamps count as quiescent.
    Tie,
    /// The entry reads the tick relaxed.
    TickRelaxed,
    /// The exit's store is relaxed.
    ExitRelaxed,
    /// The scan reads the words relaxed.
    ScanRelaxed,
    /// The scan's result is published relaxed.
    PublishRelaxed,
    /// The scan's result is imported relaxed.
    ImportRelaxed,
}

/// The protocol as it runs on a processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub(crate) processor: Processor,
    pub(crate) barriers: Barriers,
    pub(crate) clock: Clock,
    pub(crate) broken: Break,
}

/// The words that the protocol is about.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) tick: Place,
    /// The reader's: its stamp and whether it is inside.
    pub(crate) entered: Place,
    /// What the structure leads readers to.
    pub(crate) link: Place,
    /// What the old object holds.
    pub(crate) object: Place,
    pub(crate) quiescent: Place,
}

impl Words {
    pub(crate) fn in_program(program: &mut Program) -> Self {
        Self {
            tick: program.place("tick", 1),
            entered: program.place("entered", 0),
            link: program.place("link", OLD),
            object: program.place("object", 0),
            quiescent: program.place("quiescent", 0),
        }
    }
}

/// What a reader found: where the link led, and what the object held.
pub(crate) type Read = (Register, Register);

impl Protocol {
    fn is(&self, broken: Break) -> bool {
        self.broken == broken
    }

    fn order(&self, order: Order, relaxed_if: Break) -> Order {
        if self.is(relaxed_if) { Relaxed } else { order }
    }

    pub(crate) fn light_barrier(&self, thread: &mut Thread) {
        if self.barriers == Barriers::Fenced && !self.is(Break::NoLightBarrier) {
            thread.fence();
        }
    }

    pub(crate) fn heavy_barrier(&self, thread: &mut Thread) {
        match self.barriers {
            _ if self.is(Break::NoHeavyBarrier) => {}
            Barriers::Fenced => thread.fence(),
            Barriers::Membarrier => thread.membarrier(),
        }
    }

    /// Enters, up to where the light barrier belongs.
    pub(crate) fn announce(&self, thread: &mut Thread, words: Words) -> Register {
        let stamp = match self.clock {
            Clock::Tick => {
                thread.load(words.tick, self.order(Acquire, Break::TickRelaxed), "stamp")
            }
            Clock::Counter { .. } => {
                let stamp = thread.stamp("stamp");
                if self.barriers == Barriers::Membarrier && !self.is(Break::EntryNotSerialized) {
                    thread.lfence();
                }
                stamp
            }
        };
        thread.store(
            words.entered,
            Value::of([stamp], |[stamp]| stamp << 1 | 1),
            Relaxed,
        );
        stamp
    }

    /// Follows the link; an address that was read is a dependency.
    pub(crate) fn follow(&self, thread: &mut Thread, words: Words) -> Read {
        let link = thread.load(words.link, Relaxed, "link");
        (link, thread.load_through(link, words.object, "use"))
    }

    pub(crate) fn exit(&self, thread: &mut Thread, words: Words, stamp: Register) {
        let outside = Value::of([stamp], |[stamp]| stamp << 1);
        thread.store(
            words.entered,
            outside,
            self.order(Release, Break::ExitRelaxed),
        );
    }

    /// A whole section.
    pub(crate) fn section(&self, thread: &mut Thread, words: Words) -> Read {
        let stamp = self.announce(thread, words);
        self.light_barrier(thread);
        let read = self.follow(thread, words);
        self.exit(thread, words, stamp);
        read
    }

    pub(crate) fn unlink(&self, thread: &mut Thread, words: Words) {
        thread.store(words.link, NEW, Release);
    }

    /// Unlinks the old object and takes the stamp of its block.
    pub(crate) fn unlink_and_seal(&self, thread: &mut Thread, words: Words) -> Register {
        self.unlink(thread, words);
        self.seal(thread, words)
    }

    /// Takes the stamp of a block whose objects are unlinked.
    pub(crate) fn seal(&self, thread: &mut Thread, words: Words) -> Register {
        if !self.is(Break::SealNotFenced) {
            thread.fence();
        }
        match self.clock {
            Clock::Tick => thread.load(words.tick, Relaxed, "sealed"),
            Clock::Counter { .. } => {
                if !self.is(Break::SealNotSerialized) {
                    thread.lfence();
                }
                thread.stamp("sealed")
            }
        }
    }

    pub(crate) fn advance(&self, thread: &mut Thread, words: Words) {
        if self.clock == Clock::Tick {
            thread.update(words.tick, |tick| tick + 1, AcqRel, "tick before");
        }
    }

    /// The stamp of a scan.
    pub(crate) fn bound(&self, thread: &mut Thread, words: Words) -> Register {
        match self.clock {
            Clock::Tick => thread.load(words.tick, Relaxed, "bound"),
            Clock::Counter { .. } => {
                let bound = thread.stamp("bound");
                if !self.is(Break::BoundNotSerialized) {
                    thread.lfence();
                }
                bound
            }
        }
    }

    /// A scan up to where words are read. `advance` is nothing if somebody else advances the tick.
    pub(crate) fn begin_scan(
        &self,
        thread: &mut Thread,
        words: Words,
        advance: impl FnOnce(&mut Thread),
    ) -> Register {
        if self.is(Break::BarrierBeforeBound) {
            self.heavy_barrier(thread);
        }
        advance(thread);
        let bound = self.bound(thread, words);
        if !self.is(Break::BarrierBeforeBound) {
            self.heavy_barrier(thread);
        }
        bound
    }

    /// A scan of the reader's word: what it read, and through what the reader is clear.
    pub(crate) fn scan(
        &self,
        thread: &mut Thread,
        words: Words,
        advance: impl FnOnce(&mut Thread),
    ) -> (Register, Value) {
        let order = self.order(Acquire, Break::ScanRelaxed);
        let (entered, bound) = if self.is(Break::BoundAfterReading) {
            self.heavy_barrier(thread);
            let entered = thread.load(words.entered, order, "seen");
            advance(thread);
            if self.clock != Clock::Tick {
                thread.lfence();
            }
            (entered, self.bound(thread, words))
        } else {
            let bound = self.begin_scan(thread, words, advance);
            (thread.load(words.entered, order, "seen"), bound)
        };
        (entered, self.clear(entered, bound))
    }

    /// Through what a thread is clear, from its word and the scan's stamp.
    pub(crate) fn clear(&self, entered: Register, bound: Register) -> Value {
        let margin = if let Clock::Counter { margin, .. } = self.clock {
            margin
        } else {
            0
        };
        Value::of([entered, bound], move |[entered, bound]| {
            if entered & 1 == 1 {
                (entered >> 1) - margin
            } else {
                bound - margin
            }
        })
    }

    pub(crate) fn publish(&self, thread: &mut Thread, words: Words, clear: Value) {
        thread.store(
            words.quiescent,
            clear,
            self.order(Release, Break::PublishRelaxed),
        );
    }

    pub(crate) fn import(&self, thread: &mut Thread, words: Words) -> Register {
        thread.load(
            words.quiescent,
            self.order(Acquire, Break::ImportRelaxed),
            "imported",
        )
    }

    /// Frees the old object if all threads are clear through more than its stamp. Executions in which
    /// it is not freed cannot go wrong, and are left out.
    pub(crate) fn free(&self, thread: &mut Thread, words: Words, sealed: Register, clear: &Value) {
        let tie = self.is(Break::Tie);
        thread.only_if(clear.with(sealed, move |clear, sealed| {
            (sealed < clear || tie && sealed == clear).into()
        }));
        thread.store(words.object, POISON, Relaxed);
    }

    fn search(&self, program: &Program, questions: &[Question]) -> Found {
        let counter = match self.clock {
            Clock::Tick => Counter::default(),
            // Just far enough that a stamp can be beyond another one by more than the margin.
            Clock::Counter { skew, .. } => Counter {
                pace: skew + 1,
                skew,
            },
        };
        search(program, self.processor, counter, questions)
    }

    /// Whether the old object is ever freed while a reader uses it.
    pub(crate) fn frees_early(&self, what: &str, case: &Case) -> Option<String> {
        let mut found = self.search(&case.program, std::slice::from_ref(&case.early));
        self.tell(what, &found);
        found.executions.swap_remove(0)
    }

    /// Checks that the old object is never freed early, and that all that can make it difficult does happen.
    pub(crate) fn holds(&self, what: &str, case: Case) {
        let Case {
            program,
            early,
            happens,
        } = case;
        let questions: Vec<Question> = std::iter::once(early).chain(happens).collect();
        let found = self.search(&program, &questions);
        self.tell(what, &found);
        if let Some(execution) = &found.executions[0] {
            panic!("{what}: {self:?} frees too early:\n{execution}");
        }
        for question in 1..questions.len() {
            assert!(
                found.is_possible(question),
                "{what}: {self:?}: {question} never happens"
            );
        }
    }

    fn tell(&self, what: &str, found: &Found) {
        let clock = match self.clock {
            Clock::Tick => "tick".to_owned(),
            Clock::Counter { skew, margin } => format!("tsc, skew {skew}, margin {margin}"),
        };
        let Self {
            processor,
            barriers,
            broken,
            ..
        } = self;
        let verdict = if found.is_possible(0) {
            "freed early"
        } else {
            "safe"
        };
        println!(
            "{what:24} {:18} {:3} {:10} {clock:23} {:>7} states  {verdict}",
            format!("{broken:?}"),
            format!("{processor:?}"),
            format!("{barriers:?}"),
            found.states
        );
    }
}

/// A program, the end that must not be, and ends that must be possible for that to say anything.
pub(crate) struct Case {
    pub(crate) program: Program,
    pub(crate) early: Question<'static>,
    pub(crate) happens: Vec<Question<'static>>,
}

/// Whether a reader followed the old link.
pub(crate) fn used_old((link, _): Read) -> impl Fn(&End) -> bool {
    move |end| end.got(link) == Some(OLD)
}

/// Whether a reader followed the old link, and the object had been freed.
pub(crate) fn used_freed((link, used): Read) -> impl Fn(&End) -> bool {
    move |end| end.got(link) == Some(OLD) && end.got(used) == Some(POISON)
}

/// Every processor with every way to place barriers, for the tick; for the counter x86 alone.
pub(crate) fn everywhere(clock: Clock) -> Vec<Protocol> {
    let processors = if clock == Clock::Tick {
        vec![X86, Arm]
    } else {
        vec![X86]
    };
    processors
        .into_iter()
        .flat_map(|processor| {
            [Barriers::Fenced, Barriers::Membarrier].map(|barriers| Protocol {
                processor,
                barriers,
                clock,
                broken: Break::Nothing,
            })
        })
        .collect()
}
