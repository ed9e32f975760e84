//! Programs whose outcomes are known, and the outcome that each is about.
//!
//! Names are those of the literature. `addr`, `data` and `ctrl` are dependencies, `po` is none, `rel` and `acq` are
//! releasing stores and acquiring loads, `mb` is a call of `membarrier`.

use crate::litmus::program::Order::{AcqRel, Acquire, Relaxed, Release};
use crate::litmus::program::{Order, Place, Program, Register, Thread, Value, Word};
use crate::litmus::search::{End, Question};

/// A program and the outcome in question.
pub(crate) struct Classic {
    pub(crate) program: Program,
    pub(crate) outcome: Question<'static>,
}

/// Between two accesses of a thread.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Between {
    Po,
    Fence,
    Membarrier,
    Addr,
    Ctrl,
}
pub(crate) use Between::{Addr, Ctrl, Fence, Membarrier, Po};

pub(crate) fn classic(program: Program, outcome: impl Fn(&End) -> bool + 'static) -> Classic {
    Classic {
        program,
        outcome: Box::new(outcome),
    }
}

/// Whether every one of the registers held what is beside it.
fn all<const N: usize>(expected: [(Register, Word); N]) -> impl Fn(&End) -> bool {
    move |end| {
        expected
            .iter()
            .all(|(register, word)| end.got(*register) == Some(*word))
    }
}

impl Between {
    /// What stands after an access; `read` is what it read, if it is a load.
    fn after(self, thread: &mut Thread, read: Option<Register>) {
        match self {
            Po | Addr => {}
            Fence => thread.fence(),
            Membarrier => thread.membarrier(),
            Ctrl => thread.only_if(Value::of([read.expect("a load")], |[word]| {
                (word == 1).into()
            })),
        }
    }

    fn load(
        self,
        thread: &mut Thread,
        read: Register,
        place: Place,
        name: &'static str,
    ) -> Register {
        self.after(thread, Some(read));
        if self == Addr {
            thread.load_through(read, place, name)
        } else {
            thread.load(place, Relaxed, name)
        }
    }
}

fn xy() -> (Program, Place, Place) {
    let mut program = Program::default();
    let (x, y) = (program.place("x", 0), program.place("y", 0));
    (program, x, y)
}

/// Store, then load, in two threads.
pub(crate) fn sb(between: [Between; 2], stored: Order, loaded: Order) -> Classic {
    let (mut program, x, y) = xy();
    let mut side = |name, mine, other, between: Between, result| {
        program.thread(name, |thread| {
            thread.store(mine, 1, stored);
            between.after(thread, None);
            thread.load(other, loaded, result)
        })
    };
    let a = side("first", x, y, between[0], "a");
    let b = side("second", y, x, between[1], "b");
    classic(program, all([(a, 0), (b, 0)]))
}

/// Each thread exchanges its place before it loads the other's.
pub(crate) fn sb_exchanged() -> Classic {
    let (mut program, x, y) = xy();
    let mut side = |name, mine, other, result| {
        program.thread(name, |thread| {
            thread.update(mine, |_| 1, AcqRel, "before");
            thread.load(other, Relaxed, result)
        })
    };
    let a = side("first", x, y, "a");
    let b = side("second", y, x, "b");
    classic(program, all([(a, 0), (b, 0)]))
}

/// `n6` of x86-TSO's test suite, and the test that shows each thread its own store early.
pub(crate) fn own_store_first(both: bool) -> Classic {
    let (mut program, x, y) = xy();
    let mut side = |name, mine, other, first, second| {
        program.thread(name, |thread| {
            thread.store(mine, 1, Relaxed);
            (
                thread.load(mine, Relaxed, first),
                thread.load(other, Relaxed, second),
            )
        })
    };
    let (a, b) = side("first", x, y, "a", "b");
    if both {
        let (c, d) = side("second", y, x, "c", "d");
        return classic(program, all([(a, 1), (b, 0), (c, 1), (d, 0)]));
    }
    program.thread("second", |thread| {
        thread.store(y, 2, Relaxed);
        thread.store(x, 2, Relaxed);
    });
    classic(program, move |end| {
        all([(a, 1), (b, 0)])(end) && end.at(x) == 1
    })
}

/// A message, and the flag that says that it is there.
pub(crate) fn mp(writer: Between, flag: Order, reader: Between, seen: Order) -> Classic {
    let (mut program, message, ready) = xy();
    program.thread("writer", |thread| {
        thread.store(message, 1, Relaxed);
        writer.after(thread, None);
        thread.store(ready, 1, flag);
    });
    let (a, b) = program.thread("reader", |thread| {
        let a = thread.load(ready, seen, "a");
        (a, reader.load(thread, a, message, "b"))
    });
    classic(program, all([(a, 1), (b, 0)]))
}

/// The message, with something done by the reader in between: a store to a third place and a load from it.
pub(crate) fn mp_forwarded(dependency: Between) -> Classic {
    let (mut program, x, y) = xy();
    let z = program.place("z", 0);
    program.thread("writer", |thread| {
        thread.store(x, 1, Relaxed);
        thread.fence();
        thread.store(y, 1, Relaxed);
    });
    let (a, c) = program.thread("reader", |thread| {
        let a = thread.load(y, Relaxed, "a");
        if dependency == Ctrl {
            Ctrl.after(thread, Some(a));
            thread.store(z, 1, Relaxed);
        } else {
            thread.store(z, Value::of([a], |_| 1), Relaxed);
        }
        let b = thread.load(z, Relaxed, "b");
        (a, thread.load_through(b, x, "c"))
    });
    classic(program, all([(a, 1), (c, 0)]))
}

/// The message, with two loads of a third place in between, which somebody may write.
pub(crate) fn mp_two_reads(written: bool) -> Classic {
    let (mut program, x, y) = xy();
    let z = program.place("z", 0);
    program.thread("writer", |thread| {
        thread.store(x, 1, Relaxed);
        thread.fence();
        thread.store(y, 1, Relaxed);
    });
    let (a, b, c, d) = program.thread("reader", |thread| {
        let a = thread.load(y, Relaxed, "a");
        let b = thread.load_through(a, z, "b");
        let c = thread.load(z, Relaxed, "c");
        (a, b, c, thread.load_through(c, x, "d"))
    });
    if written {
        program.thread("third", |thread| thread.store(z, 1, Relaxed));
        return classic(program, all([(a, 1), (b, 1), (c, 0), (d, 0)]));
    }
    classic(program, all([(a, 1), (b, 0), (c, 0), (d, 0)]))
}

/// The message, where the reader's two reads of one place are of different stores: `RDW`.
pub(crate) fn mp_different_writes() -> Classic {
    let (mut program, x, y) = xy();
    let z = program.place("z", 0);
    program.thread("writer", |thread| {
        thread.store(x, 1, Relaxed);
        thread.fence();
        thread.store(y, 1, Relaxed);
    });
    let (a, b, c, d) = program.thread("reader", |thread| {
        let a = thread.load(y, Relaxed, "a");
        let b = thread.load_through(a, z, "b");
        let c = thread.load(z, Relaxed, "c");
        (a, b, c, thread.load_through(c, x, "d"))
    });
    program.thread("third", |thread| thread.store(z, 1, Relaxed));
    classic(program, all([(a, 1), (b, 0), (c, 1), (d, 0)]))
}

/// Load, then store, in two threads.
pub(crate) fn lb(between: [&str; 2]) -> Classic {
    let (mut program, x, y) = xy();
    let mut side = |name, from, to, between, result| {
        program.thread(name, |thread| {
            let order = if between == "acq" { Acquire } else { Relaxed };
            let read = thread.load(from, order, result);
            match between {
                "data" => thread.store(to, Value::of([read], |_| 1), Relaxed),
                "ctrl" => {
                    Ctrl.after(thread, Some(read));
                    thread.store(to, 1, Relaxed);
                }
                "rel" => thread.store(to, 1, Release),
                _ => thread.store(to, 1, Relaxed),
            }
            read
        })
    };
    let a = side("first", x, y, between[0], "a");
    let b = side("second", y, x, between[1], "b");
    classic(program, all([(a, 1), (b, 1)]))
}

/// Loads through an address that was read, between a load and a store, in two threads.
pub(crate) fn lb_addresses() -> Classic {
    let (mut program, x, y) = xy();
    let z = program.place("z", 0);
    let mut side = |name, from, to, result| {
        program.thread(name, |thread| {
            let read = thread.load(from, Relaxed, result);
            thread.load_through(read, z, "z");
            thread.store(to, 1, Relaxed);
            read
        })
    };
    let a = side("first", x, y, "a");
    let b = side("second", y, x, "b");
    classic(program, all([(a, 1), (b, 1)]))
}

/// A load takes its value from a store that is behind a slow load of the same place.
pub(crate) fn own_store_between() -> Classic {
    let (mut program, x, y) = xy();
    program.thread("writer", |thread| {
        thread.store(y, 1, Relaxed);
        thread.fence();
        thread.store(x, 2, Relaxed);
    });
    let (a, b, c) = program.thread("reader", |thread| {
        let a = thread.load(x, Relaxed, "a");
        thread.store(x, 1, Relaxed);
        let b = thread.load(x, Relaxed, "b");
        (a, b, thread.load_through(b, y, "c"))
    });
    classic(program, all([(a, 2), (b, 1), (c, 0)]))
}

/// An acquiring load of what the thread has just written, by a store or by an exchange.
pub(crate) fn sb_own_store_acquired(exchanged: bool) -> Classic {
    let (mut program, x, y) = xy();
    let (a, b) = program.thread("first", |thread| {
        if exchanged {
            thread.update(x, |_| 1, Relaxed, "before");
        } else {
            thread.store(x, 1, Relaxed);
        }
        (thread.load(x, Acquire, "a"), thread.load(y, Relaxed, "b"))
    });
    let c = program.thread("second", |thread| {
        thread.store(y, 1, Relaxed);
        thread.fence();
        thread.load(x, Relaxed, "c")
    });
    classic(program, all([(a, 1), (b, 0), (c, 0)]))
}

/// Two readers see two independent stores in opposite orders.
pub(crate) fn iriw(first: Order, between: Between) -> Classic {
    let (mut program, x, y) = xy();
    program.thread("writer of x", |thread| thread.store(x, 1, Relaxed));
    program.thread("writer of y", |thread| thread.store(y, 1, Relaxed));
    let mut reader = |name, one, other, names: [&'static str; 2]| {
        program.thread(name, |thread| {
            let a = thread.load(one, first, names[0]);
            (a, between.load(thread, a, other, names[1]))
        })
    };
    let (a, b) = reader("first reader", x, y, ["a", "b"]);
    let (c, d) = reader("second reader", y, x, ["c", "d"]);
    classic(program, all([(a, 1), (b, 0), (c, 1), (d, 0)]))
}

/// A store, a thread that sees it and stores, and a thread that sees that.
pub(crate) fn wrc(depends: bool) -> Classic {
    let (mut program, x, y) = xy();
    program.thread("first", |thread| thread.store(x, 1, Relaxed));
    let a = program.thread("second", |thread| {
        let a = thread.load(x, Relaxed, "a");
        thread.store(
            y,
            if depends {
                Value::of([a], |_| 1)
            } else {
                1.into()
            },
            Relaxed,
        );
        a
    });
    let (b, c) = program.thread("third", |thread| {
        let b = thread.load(y, Relaxed, "b");
        (b, if depends { Addr } else { Po }.load(thread, b, x, "c"))
    });
    classic(program, all([(a, 1), (b, 1), (c, 0)]))
}

/// A store is seen by a thread that looks elsewhere too early, as far as a third can tell.
pub(crate) fn rwc(fenced: bool) -> Classic {
    let (mut program, x, y) = xy();
    program.thread("first", |thread| thread.store(x, 1, Relaxed));
    let (a, b) = program.thread("second", |thread| {
        let a = thread.load(x, Relaxed, "a");
        (a, Addr.load(thread, a, y, "b"))
    });
    let c = program.thread("third", |thread| {
        thread.store(y, 1, Relaxed);
        if fenced { Fence } else { Po }.after(thread, None);
        thread.load(x, Relaxed, "c")
    });
    classic(program, all([(a, 1), (b, 0), (c, 0)]))
}

/// One place: two reads, or a read and a write of one thread, against another's store.
pub(crate) fn coherence(what: &str) -> Classic {
    let mut program = Program::default();
    let x = program.place("x", 0);
    let mine = |word: Word| move |thread: &mut Thread| thread.store(x, word, Relaxed);
    match what {
        "RR" => {
            program.thread("writer", mine(1));
            let (a, b) = program.thread("reader", |thread| {
                (thread.load(x, Relaxed, "a"), thread.load(x, Relaxed, "b"))
            });
            classic(program, all([(a, 1), (b, 0)]))
        }
        "RW" => {
            program.thread("writer", mine(2));
            let a = program.thread("other", |thread| {
                let a = thread.load(x, Relaxed, "a");
                thread.store(x, 1, Relaxed);
                a
            });
            classic(program, move |end| end.got(a) == Some(2) && end.at(x) == 2)
        }
        "WR" => {
            program.thread("writer", mine(2));
            let a = program.thread("other", |thread| {
                thread.store(x, 1, Relaxed);
                thread.load(x, Relaxed, "a")
            });
            classic(program, move |end| end.got(a) == Some(2) && end.at(x) == 1)
        }
        _ => {
            let side = |thread: &mut Thread| {
                thread.update(x, |word| word + 1, Relaxed, "before");
            };
            program.thread("first", side);
            program.thread("second", side);
            classic(program, move |end| end.at(x) != 2)
        }
    }
}

/// Two stores in opposite order in two threads; or a load for one of them (R), or first in one (S).
pub(crate) fn two_stores(between: [Between; 2], order: Order, what: char) -> Classic {
    let (mut program, x, y) = xy();
    program.thread("first", |thread| {
        thread.store(x, if what == 'R' { 1 } else { 2 }, Relaxed);
        between[0].after(thread, None);
        thread.store(y, 1, order);
    });
    match what {
        'W' => {
            program.thread("second", |thread| {
                thread.store(y, 2, Relaxed);
                between[1].after(thread, None);
                thread.store(x, 1, order);
            });
            classic(program, move |end| end.at(x) == 2 && end.at(y) == 2)
        }
        'R' => {
            let a = program.thread("second", |thread| {
                thread.store(y, 2, Relaxed);
                between[1].after(thread, None);
                thread.load(x, Relaxed, "a")
            });
            classic(program, move |end| end.got(a) == Some(0) && end.at(y) == 2)
        }
        _ => {
            let a = program.thread("second", |thread| {
                let a = thread.load(y, Relaxed, "a");
                let data = if between[1] == Addr {
                    Value::of([a], |_| 1)
                } else {
                    1.into()
                };
                thread.store(x, data, Relaxed);
                a
            });
            classic(program, move |end| end.got(a) == Some(1) && end.at(x) == 2)
        }
    }
}

/// A membarrier of a third thread, which is ordered with nothing.
pub(crate) fn sb_bystander() -> Classic {
    let mut sb = sb([Po, Po], Relaxed, Relaxed);
    sb.program.thread("bystander", Thread::membarrier);
    sb
}

/// A store and a stamp, against a later stamp and a load that misses the store.
pub(crate) fn stamps(writer: &[&str], reader: &[&str], margin: Word) -> Classic {
    let mut program = Program::default();
    let x = program.place("x", 0);
    let put = |thread: &mut Thread, what: &[&str]| {
        what.iter().for_each(|what| match *what {
            "mfence" => thread.fence(),
            "mb" => thread.membarrier(),
            _ => thread.lfence(),
        });
    };
    let first = program.thread("writer", |thread| {
        thread.store(x, 1, Relaxed);
        put(thread, writer);
        thread.stamp("first")
    });
    let (second, a) = program.thread("reader", |thread| {
        let second = thread.stamp("second");
        put(thread, reader);
        (second, thread.load(x, Relaxed, "a"))
    });
    classic(program, move |end| {
        end.got(first)
            .zip(end.got(second))
            .is_some_and(|(first, second)| first + margin < second && end.got(a) == Some(0))
    })
}
