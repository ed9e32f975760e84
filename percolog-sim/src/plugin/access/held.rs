//! Where `chaos` holds threads back: before, between and after accesses to lines that others use.

use super::Site;
use crate::model::{Rights, Ticks};
use crate::plugin::simulator::Simulator;

impl Simulator {
    /// Whether the thread that has the turn, and whose core holds the line, reads only what it knows.
    pub(super) fn is_told_nothing(&self, site: &Site, line: u64) -> bool {
        let me = self.current();
        !site.writes()
            && self
                .chaos
                .as_ref()
                .is_some_and(|chaos| chaos.knows(me, line, site.place))
    }

    /// The thread that has the turn has fetched a line from another core's cache.
    pub(super) fn note_users(&mut self, line: u64, to_write: bool) {
        let me = self.current();
        if let Some(chaos) = &mut self.chaos
            && chaos.fetched(me, line, to_write)
        {
            // From now on each access is a point, also of those who hold it.
            self.tables.forget_all(&self.spaces, line);
        }
    }

    /// The thread that has the turn is about to touch a line, and may be held back.
    pub(super) fn hold_before(&mut self, site: &Site, line: u64) {
        let me = self.current();
        let Some(core) = self.core_of(me) else {
            return;
        };
        let Some(chaos) = &mut self.chaos else {
            return;
        };
        // Whoever may be found to spin is not to be disturbed: it waits for the others anyway.
        if self.threads[me].observation.is_some() || self.threads[me].forced {
            return;
        }
        let moves = || {
            let held = self.directory.rights(core, line);
            let lacks = held == Rights::None || (held == Rights::Read && site.writes());
            lacks && !self.directory.is_untouched(line)
        };
        // Waiting in a loop is not to be drawn out. If the line has been taken, the loop may end.
        let knows = !site.writes() && chaos.knows(me, line, site.place);
        if knows && self.directory.rights(core, line) != Rights::None {
            return;
        }
        if chaos.is_shared(line) || moves() {
            let delay = chaos.before(me, line, site.writes());
            self.hold(delay);
        }
    }

    /// The thread that has the turn has read a line that it will write next. Returns whether others may come between.
    pub(super) fn hold_between(&mut self, line: u64) -> bool {
        let me = self.current();
        let Some(chaos) = &mut self.chaos else {
            return false;
        };
        if !chaos.is_shared(line) {
            return false;
        }
        let delay = chaos.between(me, line);
        self.hold(delay);
        true
    }

    /// The thread that has the turn touches a line, which has come from another core's cache if `moved`, and may be held back
    /// before it goes on.
    pub(super) fn hold_after(&mut self, site: &Site, line: u64, moved: bool) {
        let me = self.current();
        let Some(chaos) = &mut self.chaos else {
            return;
        };
        if moved || chaos.is_shared(line) {
            if !moved && !site.writes() && chaos.knows(me, line, site.place) {
                return;
            }
            let delay = chaos.after(me, line, site.writes(), moved, site.place);
            if self.threads[me].observation.is_none() {
                self.hold(delay);
            }
        }
    }

    /// The thread that has the turn is held back: for so long, or, where others wait for a core, until it is given one again.
    fn hold(&mut self, delay: Ticks) {
        if delay > 0 && self.schedule.is_crowded() {
            let me = self.current();
            self.threads[me].evicted = true;
        } else {
            self.charge(delay);
        }
    }
}
