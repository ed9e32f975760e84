//! When a line is served, where requests come in any order of their times.

use crate::model::Ticks;

/// The times at which a line is served, in ascending order, none touching the next.
#[derive(Debug, Default)]
pub(super) struct Served(Vec<(Ticks, Ticks)>);

/// So many of them are kept: who comes before the first of them waits until that is over.
const MOST: usize = 256;

impl Served {
    /// Serves a request that comes at `now` and takes so long, as soon as the line is free for it. Returns when it begins.
    pub(super) fn serve(&mut self, now: Ticks, takes: Ticks) -> Ticks {
        let times = &mut self.0;
        let mut at = times.partition_point(|(_, end)| *end <= now);
        let mut start = now;
        while let Some(&(next, end)) = times.get(at) {
            if start + takes <= next {
                break;
            }
            start = start.max(end);
            at += 1;
        }
        let mut new = (start, start + takes);
        if let Some(&(_, end)) = times.get(at)
            && times[at].0 == new.1
        {
            new.1 = end;
            times.remove(at);
        }
        match at.checked_sub(1).and_then(|before| times.get_mut(before)) {
            Some(before) if before.1 == new.0 => before.1 = new.1,
            _ => times.insert(at, new),
        }
        if times.len() > MOST {
            // The two earliest become one.
            times[1].0 = times[0].0;
            times.remove(0);
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_served_when_there_is_room_for_it() {
        let mut served = Served::default();
        assert_eq!(served.serve(100, 10), 100);
        assert_eq!(served.serve(100, 10), 110, "behind the other");
        assert_eq!(served.serve(50, 10), 50, "before both");
        assert_eq!(
            served.serve(95, 10),
            120,
            "too long for the room before them"
        );
        assert_eq!(served.serve(85, 10), 85);
        assert_eq!(served.serve(95, 5), 95);
        assert_eq!(served.0, [(50, 60), (85, 130)]);
        assert_eq!(served.serve(0, 1000), 130, "behind all");
    }

    #[test]
    fn those_who_come_at_once_are_served_one_after_the_other() {
        let mut served = Served::default();
        let starts: Vec<Ticks> = (0..5).map(|_| served.serve(7, 3)).collect();
        assert_eq!(starts, [7, 10, 13, 16, 19]);
        assert_eq!(served.0, [(7, 22)]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut served = Served::default();
        for number in 0..10_000 {
            served.serve(number * 10, 1);
        }
        assert_eq!(served.0.len(), MOST);
        assert_eq!(served.serve(99_990, 1), 99_991);
        let begin = served.serve(5, 1);
        assert!(begin > 5 && begin < 99_990, "{begin}");
    }
}
