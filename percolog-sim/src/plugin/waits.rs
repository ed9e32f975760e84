//! Lines that need care: those that somebody waits for or spins on, and those that go from core to core.

use std::collections::HashMap;

use crate::model::Ticks;

/// A line that goes from core to core more often than once in so many times the bound of running ahead is contended.
/// What is left to chance on other lines is then at most the bound, once in that time: one part in 32.
const CONTENDED: Ticks = 32;

/// Lines with waiting requests, and lines that spinning threads watch.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    requests: HashMap<u64, u32>,
    watchers: HashMap<u64, Vec<usize>>,
    /// When each line went from core to core last, and the time before that.
    moves: HashMap<u64, (Ticks, Ticks)>,
}

impl Pending {
    /// A request for this line waits for its turn. Returns whether it is the only one.
    pub(crate) fn announce(&mut self, line: u64) -> bool {
        let count = self.requests.entry(line).or_default();
        *count += 1;
        *count == 1
    }

    /// A request for this line waits no longer.
    pub(crate) fn withdraw(&mut self, line: u64) {
        if let Some(count) = self.requests.get_mut(&line) {
            *count -= 1;
            if *count == 0 {
                self.requests.remove(&line);
            }
        }
    }

    /// Whether a request for this line waits: a core that holds it must not run ahead on it.
    pub(crate) fn is_wanted(&self, line: u64) -> bool {
        !self.requests.is_empty() && self.requests.contains_key(&line)
    }

    /// A line has gone from core to core.
    pub(crate) fn moved(&mut self, line: u64, at: Ticks) {
        let (last, before) = self.moves.entry(line).or_default();
        *before = *last;
        *last = at.max(1);
    }

    /// Whether a line goes from core to core so often that who is a little ahead of the others must not use it before
    /// its turn, although its core holds it: another may be about to ask for it.
    pub(crate) fn is_contended(&self, line: u64, now: Ticks, run_ahead: Ticks) -> bool {
        self.moves.get(&line).is_some_and(|&(_, before)| {
            before > 0 && now < before.saturating_add(run_ahead.saturating_mul(CONTENDED))
        })
    }

    /// A thread spins on this line.
    pub(crate) fn watch(&mut self, line: u64, thread: usize) {
        self.watchers.entry(line).or_default().push(thread);
    }

    /// A thread spins on this line no longer.
    pub(crate) fn unwatch(&mut self, line: u64, thread: usize) {
        if let Some(watchers) = self.watchers.get_mut(&line) {
            watchers.retain(|&watcher| watcher != thread);
            if watchers.is_empty() {
                self.watchers.remove(&line);
            }
        }
    }

    /// The threads that spin on this line, in the order in which they began.
    pub(crate) fn watchers(&self, line: u64) -> &[usize] {
        self.watchers.get(&line).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::Pending;

    #[test]
    fn a_line_is_wanted_until_the_last_request_is_withdrawn() {
        let mut pending = Pending::default();
        assert!(!pending.is_wanted(7));
        assert!(pending.announce(7), "the first");
        assert!(!pending.announce(7));
        pending.withdraw(7);
        assert!(pending.is_wanted(7));
        assert!(!pending.is_wanted(8));
        pending.withdraw(7);
        assert!(!pending.is_wanted(7));
    }

    #[test]
    fn a_line_is_contended_while_its_last_two_moves_are_near() {
        let mut pending = Pending::default();
        assert!(!pending.is_contended(7, 0, 100));
        pending.moved(7, 1000);
        assert!(!pending.is_contended(7, 1001, 100), "handed over once");
        pending.moved(7, 1500);
        assert!(pending.is_contended(7, 1600, 100));
        assert!(!pending.is_contended(8, 1600, 100));
        assert!(!pending.is_contended(7, 1000 + 3200, 100), "long ago");
        assert!(!pending.is_contended(7, 1600, 0), "nobody runs ahead");
    }

    #[test]
    fn watchers_are_kept_in_the_order_in_which_they_came() {
        let mut pending = Pending::default();
        for thread in [3, 1, 2] {
            pending.watch(7, thread);
        }
        pending.unwatch(7, 1);
        pending.unwatch(8, 3);
        assert_eq!(pending.watchers(7), [3, 2]);
        pending.unwatch(7, 3);
        pending.unwatch(7, 2);
        assert!(pending.watchers(7).is_empty());
    }
}
