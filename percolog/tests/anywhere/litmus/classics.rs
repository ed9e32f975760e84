//! The tool itself: the verdicts of the literature on programs that everybody uses.
//!
//! Those for x86 are Owens', Sarkar's and Sewell's; those for ARM follow from the axioms of "Simplifying
//! ARM Concurrency", and are those of herd's and the authors' test suites. Every rule of `order`, and each case of
//! `machine`, is needed by at least one of these rows.

use crate::litmus::machine::Counter;
use crate::litmus::order::Processor::{self, Arm, X86};
use crate::litmus::program::Order::{Acquire, Relaxed, Release, SeqCst};
use crate::litmus::search::search;
use crate::litmus::shapes::*;

/// Checks a row, for each processor that it has a verdict for: `+` allowed, `-` forbidden, ` ` not asked.
pub(crate) fn check(rows: Vec<(&str, &str, Classic)>, counter: Counter) {
    let mut wrong = String::new();
    for (name, verdicts, classic) in rows {
        for (processor, verdict) in [X86, Arm].into_iter().zip(verdicts.chars()) {
            if verdict != ' ' {
                wrong += &one(name, processor, verdict == '+', &classic, counter);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn one(
    name: &str,
    processor: Processor,
    allowed: bool,
    classic: &Classic,
    counter: Counter,
) -> String {
    let Classic { program, outcome } = classic;
    let found = search(program, processor, counter, std::slice::from_ref(outcome));
    let word = |allowed| if allowed { "allowed" } else { "forbidden" };
    let possible = found.is_possible(0);
    println!(
        "{name:34} {processor:?}  {:>7} states  {}",
        found.states,
        word(possible)
    );
    if possible == allowed {
        return String::new();
    }
    let execution = found.executions[0].as_deref().unwrap_or("");
    format!("{name} is {} on {processor:?}\n{execution}", word(allowed))
}

#[test]
fn classic_tests_have_their_known_verdicts() {
    let x = Relaxed;
    check(
        vec![
            ("SB", "++", sb([Po, Po], x, x)),
            ("SB+fence+po", "++", sb([Fence, Po], x, x)),
            ("SB+fences", "--", sb([Fence, Fence], x, x)),
            ("SB+rel+acq", "++", sb([Po, Po], Release, Acquire)),
            (
                "SB+seqcst accesses (STLR, LDAR)",
                " -",
                sb([Po, Po], SeqCst, SeqCst),
            ),
            ("SB+exchanges", "-+", sb_exchanged()),
            ("SB+mb+po", "--", sb([Membarrier, Po], x, x)),
            ("SB+mb+fence", "--", sb([Membarrier, Fence], x, x)),
            ("SB+mbs", "--", sb([Membarrier, Membarrier], x, x)),
            ("SB, mb elsewhere", "++", sb_bystander()),
            ("n6", "++", own_store_first(false)),
            ("SB+rfis", "++", own_store_first(true)),
            ("MP", "-+", mp(Po, x, Po, x)),
            ("MP+fences", "--", mp(Fence, x, Fence, x)),
            ("MP+fence+po", "-+", mp(Fence, x, Po, x)),
            ("MP+po+fence", "-+", mp(Po, x, Fence, x)),
            ("MP+rel+acq", "--", mp(Po, Release, Po, Acquire)),
            ("MP+rel+po", "-+", mp(Po, Release, Po, x)),
            ("MP+rel+addr", "--", mp(Po, Release, Addr, x)),
            ("MP+rel+ctrl", "-+", mp(Po, Release, Ctrl, x)),
            ("MP+mb+po", "--", mp(Membarrier, x, Po, x)),
            ("MP+po+mb", "--", mp(Po, x, Membarrier, x)),
            ("PPOCA", "-+", mp_forwarded(Ctrl)),
            ("PPODA", "--", mp_forwarded(Addr)),
            ("RSW", "-+", mp_two_reads(false)),
            ("CoRR in RSW", "--", mp_two_reads(true)),
            ("RDW", "--", mp_different_writes()),
            ("LB", "-+", lb(["po", "po"])),
            ("LB+data+po", "-+", lb(["data", "po"])),
            ("LB+datas", "--", lb(["data", "data"])),
            ("LB+ctrls", "--", lb(["ctrl", "ctrl"])),
            ("LB+acq+po", "-+", lb(["acq", "po"])),
            ("LB+acqs", "--", lb(["acq", "acq"])),
            ("LB+rels", "--", lb(["rel", "rel"])),
            ("LB+addr-pos", "--", lb_addresses()),
            ("IRIW", "-+", iriw(x, Po)),
            ("IRIW+acqs", "--", iriw(Acquire, Po)),
            ("IRIW+addrs", "--", iriw(x, Addr)),
            ("IRIW+ctrls", "-+", iriw(x, Ctrl)),
            ("IRIW+fences", "--", iriw(x, Fence)),
            ("WRC", "-+", wrc(false)),
            ("WRC+data+addr", "--", wrc(true)),
            ("RWC+addr+po", "++", rwc(false)),
            ("RWC+addr+fence", "--", rwc(true)),
            ("MP+fence+pos-rfi-addr", "-+", own_store_between()),
            ("SB+rfi-acq+fence", "++", sb_own_store_acquired(false)),
            ("SB+rmw-rfi-acq+fence", "--", sb_own_store_acquired(true)),
            ("CoRR", "--", coherence("RR")),
            ("CoRW", "--", coherence("RW")),
            ("CoWR", "--", coherence("WR")),
            ("two increments", "--", coherence("++")),
            ("2+2W", "-+", two_stores([Po, Po], x, 'W')),
            ("2+2W+rels", "--", two_stores([Po, Po], Release, 'W')),
            ("2+2W+fences", "--", two_stores([Fence, Fence], x, 'W')),
            ("2+2W+mb+po", "--", two_stores([Membarrier, Po], x, 'W')),
            ("R", "++", two_stores([Po, Po], x, 'R')),
            ("R+po+fence", "-+", two_stores([Po, Fence], x, 'R')),
            ("R+fences", "--", two_stores([Fence, Fence], x, 'R')),
            ("R+mb+po", "--", two_stores([Membarrier, Po], x, 'R')),
            ("S", "-+", two_stores([Po, Po], x, 'S')),
            ("S+rel+po", "-+", two_stores([Po, Po], Release, 'S')),
            ("S+rel+data", "--", two_stores([Po, Addr], Release, 'S')),
        ],
        Counter::default(),
    );
}

#[test]
fn stamps_are_ordered_by_lfence_alone() {
    let both = ["mfence", "lfence"].as_slice();
    let check = |rows, skew| {
        check(
            rows,
            Counter {
                pace: skew + 2,
                skew,
            },
        )
    };
    check(
        vec![
            ("stamps", "+", stamps(&[], &[], 0)),
            ("stamps+none+lfence", "+", stamps(&[], &["lfence"], 0)),
            (
                "stamps+lfence+lfence",
                "+",
                stamps(&["lfence"], &["lfence"], 0),
            ),
            (
                "stamps+mfence+lfence",
                "+",
                stamps(&["mfence"], &["lfence"], 0),
            ),
            ("stamps+both+none", "+", stamps(both, &[], 0)),
            ("stamps+both+mfence", "+", stamps(both, &["mfence"], 0)),
            ("stamps+both+lfence", "-", stamps(both, &["lfence"], 0)),
            ("stamps+both+mb", "+", stamps(both, &["mb"], 0)),
        ],
        0,
    );
    check(
        vec![
            (
                "stamps+both+lfence, skewed",
                "+",
                stamps(both, &["lfence"], 0),
            ),
            (
                "stamps+both+lfence, skewed, margin",
                "-",
                stamps(both, &["lfence"], 1),
            ),
        ],
        1,
    );
}
