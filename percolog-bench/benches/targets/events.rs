//! The event queue beside the channel that programs have today, with a consumer that takes events while they come.

use percolog_bench::events::{Channel, run};
use percolog_bench::peers::{CrossbeamEvents, PercologEvents};

use crate::figures::{Line, Target, Unit, duel, millions};
use crate::{Effort, Measured};

/// With one, two and seven producers.
pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for producers in [1, 2, 7] {
        let [ours, theirs] = duel(
            effort,
            producers + 1,
            [&run::<PercologEvents>, &run::<CrossbeamEvents>],
        )?;
        let plural = if producers == 1 { "" } else { "s" };
        lines.push(
            Line::published(
                format!("EventQueue, {producers} producer{plural}, 1 consumer"),
                millions(ours),
                Unit::MillionsASecond,
            )
            .beside(CrossbeamEvents::NAME, millions(theirs))
            .target(if producers == 7 {
                Target::None
            } else {
                Target::RatioAtLeast(2.0)
            })
            .remark("every event delivered, in each producer's order"),
        );
    }
    Ok(lines)
}
