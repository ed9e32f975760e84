//! Calls of objects with representatives, beside calls of trait objects; and what exchanging an implementation takes.

use percolog::clustered::SwapPolicy;
use percolog_bench::calls::{by_threads, called, direct, gotten, swapped};

use crate::figures::{Line, Target, Unit, medians, on};
use crate::{Effort, Measured};

/// What `get` may take beside a virtual call.
const MOST: f64 = 2.0;

pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for (count, before, what) in [
        (1, 0, "one object"),
        (64, 0, "64 objects"),
        (64, 2000, "64 objects of 2000"),
    ] {
        let [directly, by_reference] = medians(
            effort.samples,
            [&|| direct(count), &|| gotten(count, before)],
        );
        lines.push(
            Line::published(
                format!("get, beyond a virtual call, {what}"),
                by_reference - directly,
                Unit::Nanoseconds,
            )
            .target(Target::ValueAtMost(MOST))
            .remark(format!(
                "a virtual call takes {directly:.2} ns, get and the call {by_reference:.2}"
            )),
        );
    }
    let [directly, whole] = medians(effort.samples, [&|| direct(64), &|| called(64)]);
    lines.push(
        Line::published(
            "call, section included, 64 objects",
            whole,
            Unit::Nanoseconds,
        )
        .beside("a virtual call", directly),
    );
    for threads in [1, 2] {
        let [distributed, shared] = medians(
            effort.samples,
            [&|| by_threads(threads, false), &|| {
                by_threads(threads, true)
            }],
        );
        lines.push(
            Line::published(
                format!("call, an atomic for each slot, {}", on(threads)),
                distributed,
                Unit::Nanoseconds,
            )
            .beside("the same object, shared", shared),
        );
    }
    let [wait, pass] = medians(
        effort.samples,
        [&|| swapped(SwapPolicy::Wait), &|| swapped(SwapPolicy::Pass)],
    );
    lines.push(
        Line::published("swap, callers wait", wait, Unit::Nanoseconds)
            .beside("swap, callers pass", pass),
    );
    Ok(lines)
}
