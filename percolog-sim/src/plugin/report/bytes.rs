//! Which bytes of which lines are used: see `model::Watch`.

use super::Tally;
use crate::model::{Bytes, Core, Event, Outcome, Rights};

/// How many lines are followed byte by byte. Each takes a kilobyte on 48 cores, and 13 on 1024.
const WATCHED: usize = 1 << 14;

impl Tally {
    /// An access that was not a hit, after [`Tally::record`]: `lost` says who gave the line up. Returns whether further uses of
    /// the line by the core are to be told of.
    #[allow(
        clippy::too_many_arguments,
        reason = "one access; called often, so nothing is built for it"
    )]
    pub(crate) fn come(
        &mut self,
        core: Core,
        line: u64,
        bytes: Option<Bytes>,
        is_write: bool,
        outcome: &Outcome,
        lost: &[(Core, Rights)],
        line_size: u64,
        in_region: bool,
    ) -> bool {
        if outcome.event == Event::Cold {
            return false;
        }
        let count = self.counts_lines(in_region);
        let Some(counts) = self.lines.get_mut(&line) else {
            return false;
        };
        let before = counts.watch.is_some();
        let line_size = (self.watched < WATCHED).then_some(line_size);
        let watched = counts.come(core, bytes, is_write, outcome, lost, line_size, count);
        self.watched += usize::from(counts.watch.is_some() != before);
        watched
    }

    /// `core`, which has the line, uses these bytes. Returns whether further uses are to be told of.
    pub(crate) fn used(
        &mut self,
        core: Core,
        line: u64,
        bytes: Bytes,
        is_write: bool,
        in_region: bool,
    ) -> bool {
        let count = self.counts_lines(in_region);
        self.lines
            .get_mut(&line)
            .is_some_and(|counts| counts.used(core, bytes, is_write, count))
    }

    /// Whether what is done to lines now is what the report is about.
    pub(super) fn counts_lines(&self, in_region: bool) -> bool {
        in_region || self.region.entered == 0
    }
}
