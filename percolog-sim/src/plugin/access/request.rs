//! Asks the directory for lines: what it says, who loses a line by it, and what a core may do from then on without asking.

use crate::model::{Access, Bytes, Event, Left, Outcome, Rights, Ticks};
use crate::plugin::hot;
use crate::plugin::simulator::Simulator;

use super::is_move;

impl Simulator {
    /// Asks the directory for a line, and waits for it in simulated time. Returns when the access may be made; what it was, is
    /// left with the thread, which then calls [`Simulator::come`].
    pub(crate) fn request(
        &mut self,
        core: u16,
        line: u64,
        access: Access,
        place: u64,
        now: Ticks,
    ) -> Ticks {
        let me = self.current();
        let mut lost = std::mem::take(&mut self.threads[me].losers);
        lost.clear();
        // A thread that leads its clock asks when it would have asked.
        let lead = self.threads[me].lead;
        if self.settings.free_waits {
            self.directory.set_all_free(self.has_lock());
        }
        let outcome = self.directory.access(
            core,
            line,
            access,
            now.saturating_sub(lead),
            |core, left| lost.push((core, left)),
        );
        let outcome = outcome.later_by(lead);
        self.lose(&lost, line, outcome.takes);
        self.lose_others(outcome.takes);
        self.charge(outcome.finished.saturating_sub(now));
        if is_move(outcome.event) {
            self.waits.moved(line, now);
            self.note_users(line, outcome.event != Event::Read);
        }
        if outcome.event != Event::Hit {
            let inside = self.tally.inside(me);
            let is_write = access != Access::Read;
            self.tally
                .record(core, line, place, is_write, &outcome, now, inside);
            if self.free.any() {
                self.free.count(line);
            }
            let process = self.process();
            if !self.spaces.is_alone(process) {
                let line_size = self.settings.machine.line_size;
                let place = line << line_size.ilog2();
                self.spaces.touch(process, place, line_size);
            }
        }
        let takes = outcome.takes;
        let thread = &mut self.threads[me];
        thread.losers = lost;
        thread.answer = Some(outcome);
        if !matches!(outcome.event, Event::Hit | Event::Upgrade) {
            self.prefetch(core, line, place, now);
        }
        takes
    }

    /// The prefetcher of a core that has asked for a line, by an access at this place, fetches the other one of its pair.
    fn prefetch(&mut self, core: u16, line: u64, place: u64, now: Ticks) {
        let mut lost = std::mem::take(&mut self.prefetched_from);
        lost.clear();
        let fetched = self
            .directory
            .prefetch(core, line, now, |core, left| lost.push((core, left)));
        if let Some((line, outcome)) = fetched {
            self.lose(&lost, line, outcome.takes);
            self.lose_others(outcome.takes);
            if is_move(outcome.event) {
                self.waits.moved(line, now);
            }
            let inside = self.tally.inside(self.current());
            let line_size = self.settings.machine.line_size;
            self.tally
                .record(core, line, place, false, &outcome, now, inside);
            self.tally
                .come(core, line, None, false, &outcome, &lost, line_size, inside);
        }
        self.prefetched_from = lost;
    }

    /// These cores lose a line, or the right to write it, to a request whose probe comes to them at that time.
    fn lose(&mut self, losers: &[(u16, Rights)], line: u64, takes: Ticks) {
        for &(loser, left) in losers {
            self.tables.forget(&self.spaces, loser, line);
            let keeps = |&thread: &usize| self.threads[thread].kept == Some(line);
            let keepers: Vec<usize> = self.schedule.threads_on(loser).filter(keeps).collect();
            for thread in keepers {
                self.threads[thread].kept = None;
                self.announce(thread, line);
            }
            if left == Rights::None {
                self.wake_spinners(loser, line, takes);
            }
        }
    }

    /// Other lines have left caches that were full.
    fn lose_others(&mut self, takes: Ticks) {
        while let Some(left) = self.directory.next_left() {
            match left {
                Left::Evicted(core, line) => self.lose(&[(core, Rights::None)], line, takes),
                Left::Watched(core, line) => self.tables.forget(&self.spaces, core, line),
            }
        }
    }

    /// The line that the thread that has the turn asked for has come, and is used. Not before: until then those who lose it used
    /// it. Returns whether further uses are to be looked at.
    pub(super) fn come(
        &mut self,
        line: u64,
        bytes: Bytes,
        is_write: bool,
        outcome: &Outcome,
    ) -> bool {
        let me = self.current();
        let Some(core) = self.core_of(me) else {
            return false;
        };
        if outcome.event == Event::Hit {
            return false;
        }
        let inside = self.tally.inside(me);
        let line_size = self.settings.machine.line_size;
        let lost = &self.threads[me].losers;
        self.tally.come(
            core,
            line,
            Some(bytes),
            is_write,
            outcome,
            lost,
            line_size,
            inside,
        )
    }

    /// Lets the core of the thread that has the turn use a line that has come, if nobody has asked for it since.
    pub(super) fn install_here(&mut self, line: u64, wants: Rights, ahead: u32, watched: bool) {
        let Some(core) = self.core_of(self.current()) else {
            return;
        };
        let now = self.now() - Ticks::from(ahead);
        let care =
            self.waits.is_wanted(line) || self.is_contended(line, now) || self.spares_waiting(line);
        let held = self.noted(self.directory.rights(core, line), wants);
        self.install(core, line, held, care, watched);
    }

    /// Notes what the core may do to the line from now on without asking; nothing, if the line needs care. If its uses are
    /// looked at, that is all that is done at each.
    pub(super) fn install(
        &mut self,
        core: u16,
        line: u64,
        rights: Rights,
        care: bool,
        watched: bool,
    ) {
        let bits = match rights {
            Rights::None => return,
            Rights::Read => hot::READ,
            Rights::Write => hot::READ | hot::WRITE,
        };
        if care {
            self.tables.forget(&self.spaces, core, line);
            return;
        }
        let bits = if watched { bits << hot::WATCHED } else { bits };
        let process = self.process();
        if let Some(processor) = self.threads[self.current()].processor {
            self.tables
                .set(&self.spaces, processor, process, line, bits);
        }
    }

    /// The thread will ask for this line in its turn: nobody may run ahead on it until then.
    pub(super) fn announce(&mut self, thread: usize, line: u64) {
        self.threads[thread].pending = Some(line);
        // Nobody notes a line that is wanted.
        if self.waits.announce(line) {
            self.tables.forget_all(&self.spaces, line);
        }
    }
}
