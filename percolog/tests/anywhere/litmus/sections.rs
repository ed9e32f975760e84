//! Sections against unlinking, sealing and scanning.

use crate::litmus::order::Processor::Arm;
use crate::litmus::program::Order::{self, Acquire, Relaxed, Release};
use crate::litmus::program::{Place, Program, Register, Thread};
use crate::litmus::protocol::Break::{self, *};
use crate::litmus::protocol::{
    Case, Clock, POISON, Protocol, Words, everywhere, used_freed, used_old,
};
use crate::litmus::search::Question;

/// Which thread does what, apart from the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Roles {
    /// The writer does all.
    Alone,
    /// Another thread advances the tick.
    Ticker,
    /// Another thread advances the tick, scans, and publishes what the writer imports.
    Scanner,
    /// One thread advances the tick, another one scans and publishes.
    TickerAndScanner,
    /// The writer unlinks; another thread is given the object, seals, scans and frees.
    Receiver,
    /// The writer unlinks and seals; another thread is given the block, scans and frees.
    Heir,
}
use Roles::{Alone, Heir, Receiver, Scanner, Ticker, TickerAndScanner};

const TICK: [Roles; 6] = [Alone, Ticker, Scanner, TickerAndScanner, Receiver, Heir];
const COUNTER: [Roles; 4] = [Alone, Scanner, Receiver, Heir];
const EXACT: Clock = Clock::Counter { skew: 0, margin: 0 };

/// Everything but the reader; returns what the scan read of the reader's word.
fn others(protocol: Protocol, roles: Roles, program: &mut Program, words: Words) -> Register {
    let handed = program.place("handed", 0);
    let ticks = matches!(roles, Ticker | TickerAndScanner);
    let scan = move |thread: &mut Thread| {
        protocol.scan(thread, words, |thread| {
            if !ticks {
                protocol.advance(thread, words);
            }
        })
    };
    let scan_and_free = move |thread: &mut Thread, sealed: Register| {
        let (seen, clear) = scan(thread);
        protocol.free(thread, words, sealed, &clear);
        seen
    };
    if ticks {
        program.thread("ticker", |thread| protocol.advance(thread, words));
    }
    match roles {
        Alone | Ticker => program.thread("writer", |thread| {
            let sealed = protocol.unlink_and_seal(thread, words);
            scan_and_free(thread, sealed)
        }),
        Scanner | TickerAndScanner => {
            program.thread("writer", |thread| {
                let sealed = protocol.unlink_and_seal(thread, words);
                let imported = protocol.import(thread, words);
                protocol.free(thread, words, sealed, &imported.into());
            });
            program.thread("scanner", |thread| {
                let (seen, clear) = scan(thread);
                protocol.publish(thread, words, clear);
                seen
            })
        }
        Receiver => {
            program.thread("writer", |thread| {
                protocol.unlink(thread, words);
                thread.store(handed, 1, Release);
            });
            program.thread("receiver", |thread| {
                received(thread, handed, Acquire);
                let sealed = protocol.seal(thread, words);
                scan_and_free(thread, sealed)
            })
        }
        Heir => {
            program.thread("writer", |thread| {
                let sealed = protocol.unlink_and_seal(thread, words);
                thread.store(handed, sealed, Release);
            });
            program.thread("heir", |thread| {
                let sealed = received(thread, handed, Acquire);
                scan_and_free(thread, sealed)
            })
        }
    }
}

/// What another thread has handed over, once it has.
fn received(thread: &mut Thread, handed: Place, order: Order) -> Register {
    let received = thread.load(handed, order, "received");
    thread.only_if(received);
    received
}

/// Some sections of one thread, during all else.
fn case(protocol: Protocol, roles: Roles, sections: usize) -> Case {
    let mut program = Program::default();
    let words = Words::in_program(&mut program);
    let reads = program.thread("reader", |thread| {
        (0..sections)
            .map(|_| protocol.section(thread, words))
            .collect::<Vec<_>>()
    });
    let seen = others(protocol, roles, &mut program, words);
    let last = reads[sections - 1];
    let inside = move |inside| -> Question<'static> {
        Box::new(move |end| end.got(seen).is_some_and(|seen| seen & 1 == inside))
    };
    Case {
        program,
        early: Box::new(move |end| reads.iter().any(|&read| used_freed(read)(end))),
        happens: vec![inside(0), inside(1), Box::new(used_old(last))],
    }
}

fn roles(clock: Clock) -> &'static [Roles] {
    if clock == Clock::Tick {
        &TICK
    } else {
        &COUNTER
    }
}

#[test]
fn nothing_is_freed_while_a_section_uses_it() {
    for clock in [Clock::Tick, EXACT] {
        for protocol in everywhere(clock) {
            for &roles in roles(clock) {
                protocol.holds(&format!("{roles:?}"), case(protocol, roles, 1));
            }
        }
    }
}

#[test]
fn a_section_after_a_section_is_safe() {
    for clock in [Clock::Tick, EXACT] {
        for protocol in everywhere(clock) {
            for roles in [Alone, Scanner] {
                let broken = Protocol {
                    broken: Tie,
                    ..protocol
                };
                let what = format!("{roles:?}, two sections");
                protocol.holds(&what, case(protocol, roles, 2));
                assert!(broken.frees_early(&what, &case(broken, roles, 2)).is_some());
            }
        }
    }
}

/// What each broken line does, in the order of `everywhere`: the tick on x86 with fences and with
/// membarrier, then on ARM; the counter on x86 with fences and with membarrier. `F` is an object
/// freed early with at least one distribution of roles, `.` is none, and `-` does not apply.
const BROKEN: [(Break, &str, &str); 14] = [
    (BoundAfterReading, "FFFF", "FF"),
    // With a fence at every entry a reader whose word is not seen yet enters after the scan's stamp
    // anyway. But on ARM the word may be read before the stamp, if no fence is between the two.
    (BarrierBeforeBound, ".FFF", ".F"),
    // x86 keeps loads in order.
    (NoHeavyBarrier, ".FFF", ".F"),
    (NoLightBarrier, "F-F-", "F-"),
    (SealNotFenced, "FFFF", "FF"),
    (SealNotSerialized, "----", "FF"),
    // With a fence at every entry the link is read after the stamp was stored.
    (EntryNotSerialized, "----", ".F"),
    (BoundNotSerialized, "----", "FF"),
    (Tie, "FFFF", "FF"),
    // On x86 every load acquires; elsewhere a fence at every entry does as well.
    (TickRelaxed, "...F", "--"),
    // On x86 every store releases.
    (ExitRelaxed, "..FF", ".."),
    // No processor needs these three: what was read decides whether there is a store to freed
    // memory, and no store is ahead of a decision. It is Rust's memory model that asks for them.
    (ScanRelaxed, "....", ".."),
    (PublishRelaxed, "....", ".."),
    (ImportRelaxed, "....", ".."),
];

#[test]
fn every_broken_line_is_found_where_it_matters() {
    let mut wrong = String::new();
    for (broken, tick, counter) in BROKEN {
        let tick = everywhere(Clock::Tick).into_iter().zip(tick.chars());
        let counter = everywhere(EXACT).into_iter().zip(counter.chars());
        for (protocol, expected) in tick.chain(counter).filter(|column| column.1 != '-') {
            let protocol = Protocol { broken, ..protocol };
            let early = roles(protocol.clock).iter().find_map(|&roles| {
                protocol.frees_early(&format!("{roles:?}"), &case(protocol, roles, 1))
            });
            match early {
                Some(execution) if expected != 'F' => {
                    wrong += &format!("{protocol:?} frees early:\n{execution}");
                }
                None if expected == 'F' => wrong += &format!("{protocol:?} frees nothing early\n"),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn a_skewed_counter_needs_its_margin() {
    for roles in [Alone, Scanner] {
        let what = format!("{roles:?}");
        for protocol in everywhere(Clock::Counter { skew: 1, margin: 1 }) {
            protocol.holds(&what, case(protocol, roles, 1));
        }
        for protocol in everywhere(Clock::Counter { skew: 1, margin: 0 }) {
            assert!(
                protocol
                    .frees_early(&what, &case(protocol, roles, 1))
                    .is_some()
            );
        }
    }
}

/// A section in a section stores nothing, and what was found before it is used after it.
#[test]
fn a_nested_section_ends_nothing() {
    let nested = |protocol: Protocol, ends: bool| {
        let mut program = Program::default();
        let words = Words::in_program(&mut program);
        let reads = program.thread("reader", |thread| {
            let stamp = protocol.announce(thread, words);
            protocol.light_barrier(thread);
            let outer = protocol.follow(thread, words);
            // Here the inner section is entered, …
            let inner = protocol.follow(thread, words);
            // … and left.
            if ends {
                protocol.exit(thread, words, stamp);
            }
            let again = (
                outer.0,
                thread.load_through(outer.0, words.object, "use again"),
            );
            protocol.exit(thread, words, stamp);
            [outer, inner, again]
        });
        let seen = others(protocol, Alone, &mut program, words);
        Case {
            program,
            early: Box::new(move |end| reads.iter().any(|&read| used_freed(read)(end))),
            happens: vec![
                Box::new(used_old(reads[1])),
                Box::new(move |end| end.got(seen).is_some_and(|seen| seen & 1 == 1)),
            ],
        }
    };
    for clock in [Clock::Tick, EXACT] {
        for protocol in everywhere(clock) {
            protocol.holds("nested", nested(protocol, false));
            let early = protocol.frees_early("nested, inner exit stores", &nested(protocol, true));
            assert!(early.is_some());
        }
    }
}

/// A section that is entered by one thread and left by another one.
#[test]
fn a_section_may_be_sent() {
    let sent = |protocol: Protocol, [stored, loaded]: [Order; 2]| {
        let mut program = Program::default();
        let words = Words::in_program(&mut program);
        let section = program.place("section", 0);
        program.thread("sender", |thread| {
            let stamp = protocol.announce(thread, words);
            protocol.light_barrier(thread);
            thread.store(section, stamp, stored);
        });
        let read = program.thread("reader", |thread| {
            let stamp = received(thread, section, loaded);
            let read = protocol.follow(thread, words);
            protocol.exit(thread, words, stamp);
            read
        });
        let seen = others(protocol, Alone, &mut program, words);
        Case {
            program,
            early: Box::new(used_freed(read)),
            happens: vec![
                Box::new(used_old(read)),
                Box::new(move |end| end.got(seen).is_some_and(|seen| seen & 1 == 1)),
            ],
        }
    };
    for clock in [Clock::Tick, EXACT] {
        for protocol in everywhere(clock) {
            protocol.holds("sent", sent(protocol, [Release, Acquire]));
            // Otherwise the receiver follows the link before there is a section; not on x86.
            let early = protocol.frees_early("sent relaxed", &sent(protocol, [Relaxed, Relaxed]));
            assert_eq!(
                early.is_some(),
                protocol.processor == Arm,
                "{protocol:?}: {early:?}"
            );
        }
    }
}

/// A thread that frees in a section of its own is one of those that are scanned.
#[test]
fn ones_own_section_counts() {
    let own = |protocol: Protocol, counts: bool| {
        let mut program = Program::default();
        let words = Words::in_program(&mut program);
        let read = program.thread("writer", |thread| {
            let stamp = protocol.announce(thread, words);
            protocol.light_barrier(thread);
            let (link, _) = protocol.follow(thread, words);
            let sealed = protocol.unlink_and_seal(thread, words);
            let bound =
                protocol.begin_scan(thread, words, |thread| protocol.advance(thread, words));
            let seen = thread.load(words.entered, Acquire, "seen");
            let clear = if counts {
                protocol.clear(seen, bound)
            } else {
                bound.into()
            };
            // The object is freed or left alone, and used in any case.
            let then = clear.with(
                sealed,
                |clear, sealed| if sealed < clear { POISON } else { 0 },
            );
            thread.store(words.object, then, Relaxed);
            let used = thread.load_through(link, words.object, "use");
            protocol.exit(thread, words, stamp);
            (link, used)
        });
        program.thread("ticker", |thread| protocol.advance(thread, words));
        Case {
            program,
            early: Box::new(used_freed(read)),
            happens: vec![Box::new(used_old(read))],
        }
    };
    for clock in [Clock::Tick, EXACT, Clock::Counter { skew: 1, margin: 1 }] {
        for protocol in everywhere(clock) {
            protocol.holds("own section", own(protocol, true));
            assert!(
                protocol
                    .frees_early("own section ignored", &own(protocol, false))
                    .is_some()
            );
        }
    }
}
