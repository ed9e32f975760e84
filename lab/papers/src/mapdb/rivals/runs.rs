//! Numbers that are given out, single or beside each other: addresses, and frames.

use std::collections::BTreeMap;

/// Numbers below a limit. Single ones that come back are kept apart, so that giving one out again is a matter of some instructions.
#[derive(Debug)]
pub(super) struct Runs {
    limit: u32,
    /// Everything from here on is free.
    frontier: u32,
    singles: Vec<u32>,
    /// Free runs before the frontier: where each begins, and how long it is.
    runs: BTreeMap<u32, u32>,
}

impl Runs {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            frontier: 0,
            singles: Vec::new(),
            runs: BTreeMap::new(),
        }
    }

    /// So many beside each other.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        if count == 1
            && let Some(single) = self.singles.pop()
        {
            return Some(single);
        }
        if let Some(start) = self.first_fit(count) {
            return Some(start);
        }
        let end = self.frontier.checked_add(count)?;
        if end <= self.limit {
            self.frontier = end;
            return Some(end - count);
        }
        // Single ones may lie beside each other.
        for single in std::mem::take(&mut self.singles) {
            self.put_run(single, 1);
        }
        self.first_fit(count)
    }

    fn first_fit(&mut self, count: u32) -> Option<u32> {
        let (&start, &length) = self.runs.iter().find(|(_, length)| **length >= count)?;
        self.runs.remove(&start);
        if length > count {
            self.runs.insert(start + count, length - count);
        }
        Some(start)
    }

    pub(super) fn put(&mut self, start: u32, count: u32) {
        if count == 1 {
            self.singles.push(start);
        } else {
            self.put_run(start, count);
        }
    }

    fn put_run(&mut self, mut start: u32, mut count: u32) {
        if let Some((&before, &length)) = self.runs.range(..start).next_back()
            && before + length == start
        {
            self.runs.remove(&before);
            (start, count) = (before, length + count);
        }
        if let Some(length) = self.runs.remove(&(start + count)) {
            count += length;
        }
        self.runs.insert(start, count);
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;

    #[test]
    fn what_comes_back_is_joined() {
        let mut runs = Runs::new(10);
        assert_eq!((runs.take(4), runs.take(4)), (Some(0), Some(4)));
        assert_eq!(runs.take(4), None);
        assert_eq!(
            (runs.take(1), runs.take(1), runs.take(1)),
            (Some(8), Some(9), None)
        );
        for single in [5, 4, 3, 6, 8] {
            runs.put(single, 1);
        }
        runs.put(0, 3);
        assert_eq!(runs.take(8), None, "7 and 9 are missing");
        assert_eq!(runs.take(7), Some(0));
        assert_eq!((runs.take(1), runs.take(1)), (Some(8), None));
    }
}
