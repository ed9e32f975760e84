//! The event queue and the channel beside the channel that programs have today, with a consumer that takes events while they come.

use std::time::Duration;

use percolog_bench::events::{Channel, run_pausing};
use percolog_bench::peers::{CrossbeamEvents, PercologChannel, PercologEvents};

use crate::figures::{Line, Target, Unit, duel, millions};
use crate::{Effort, Measured};

/// What a consumer that does something with events does between two batches.
const PAUSE: Duration = Duration::from_micros(20);

/// With one, two and seven producers, and a consumer that does nothing but wait for events, or that comes by now and then.
pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for (pause, consumer) in [(Duration::ZERO, "waiting"), (PAUSE, "pausing")] {
        for producers in [1, 2, 7] {
            let [queue, channel, theirs] = duel(
                effort,
                producers + 1,
                [
                    &|settings| run_pausing::<PercologEvents>(settings, pause),
                    &|settings| run_pausing::<PercologChannel>(settings, pause),
                    &|settings| run_pausing::<CrossbeamEvents>(settings, pause),
                ],
            )?;
            let plural = if producers == 1 { "" } else { "s" };
            let queue_target = if producers == 1 && pause.is_zero() {
                Target::RatioAtLeast(2.0)
            } else {
                Target::None
            };
            let contenders = [
                (PercologEvents::NAME, queue, queue_target),
                (PercologChannel::NAME, channel, Target::RatioAtLeast(1.0)),
            ];
            for (name, ours, target) in contenders {
                lines.push(
                    Line::published(
                        format!("{name}, {producers} producer{plural}, {consumer} consumer"),
                        millions(ours),
                        Unit::MillionsASecond,
                    )
                    .beside(CrossbeamEvents::NAME, millions(theirs))
                    .target(target)
                    .remark("every event delivered, in each producer's order"),
                );
            }
        }
    }
    Ok(lines)
}
