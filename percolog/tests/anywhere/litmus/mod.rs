//! The protocol of memory reclamation on the processors' memory models, exhaustively.
//!
//! loom goes through the executions that Rust's memory model allows to one build of the code. It knows
//! neither of these, on which reclamation rests:
//!
//! * **`membarrier`**: one thread's system call makes every other thread pass through a full fence, at
//!   some point between call and return; at run time the other threads do nothing for it.
//! * **Load buffering** and loads that pass loads.
//! * **The time-stamp counter**: `rdtsc` is executed out of order with respect to earlier stores and later
//!   loads, and the counters of two cores may differ.
//!
//! So here the protocol is written down once more, as tiny programs of a handful of instructions, and a
//! small machine goes through all of their executions. Every program is run as it should be, where the
//! freed object is never found by a reader, and with one line broken, where it is: a test of this kind
//! that cannot fail proves nothing. `program` is the language, `order` the two processors, `machine` what
//! happens in one step, `search` all executions. `shapes` and `classics` check the tool with tests
//! whose outcomes are known; `protocol` has the parts of the protocol, `sections` and `parking` the tests.
//!
//! # The models
//!
//! **x86-TSO**: Scott Owens, Susmit Sarkar, Peter Sewell, "A better x86 memory model: x86-TSO", TPHOLs 2009.
//! A first-in, first-out buffer of stores for each thread, read by its own loads first, is the same as
//! a store that happens some time after it was issued, in order with the thread's other stores.
//!
//! **ARMv8**: Christopher Pulte, Shaked Flur, Will Deacon, Jon French, Susmit Sarkar, Peter Sewell,
//! "Simplifying ARM Concurrency: Multicopy-Atomic Axiomatic and Operational Models for ARMv8", POPL 2018,
//! in the form of its operational model: one memory, and instructions of a thread that happen in any
//! order that its dependencies, its accesses to the same place, its acquiring loads, releasing stores
//! and `dmb ish` leave open. Of what the axiomatic model calls *ordered-before*, the parts within a thread
//! are in `order`. An acquiring load is LDAPR, which is weaker than the LDAR that compilers often use.
//! Branches are decided beforehand and checked later, which is speculation.
//!
//! **`membarrier`**, expedited and private, as Linux does it: full fences at call and return, and between
//! them an interrupt of each other thread. An interrupt is taken between two instructions: all before
//! it have happened, with a full fence, and none after it has. Threads that do not run pass through the
//! same in the scheduler.
//!
//! **The counter**, by Intel's manual ("RDTSC" in volume 2B): only `lfence` keeps `rdtsc` from being
//! executed before what precedes it or after what follows it; if earlier stores are to be visible, that is
//! `mfence; lfence; rdtsc`. Neither `mfence` nor a system call is taken to order it by itself. The time
//! advances at most one beyond the skew between two stamps, and can stand still: equal stamps exist.
//!
//! # What is not covered
//!
//! What the compiler moves, and whether Rust's memory model promises what the processors keep: loom's
//! models are for that. ARM's own counter. Loops, accesses of different sizes, addresses that are
//! not known before a program runs, memory that is not ordinary and cached, processors on
//! which a store is seen by some threads before others (POWER).
//!
//! `cargo test -p percolog --test anywhere litmus:: -- --nocapture` prints every program with its number of states.
#![cfg(not(percolog_loom))]

mod classics;
mod holding_back;
mod machine;
mod order;
mod parking;
mod program;
mod protocol;
mod requests;
mod search;
mod sections;
mod shapes;
mod stamps;
