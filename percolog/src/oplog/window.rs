//! In which order the next operations of several queues come, each of which is in order.

use alloc::vec::Vec;

/// A queue in the order of its stamps.
pub(super) trait InOrder {
    /// The stamp of what comes so many places behind the first, if there is that much.
    fn stamp(&self, behind: usize) -> Option<u64>;

    /// The last stamp, if there is one.
    fn last(&self) -> Option<u64>;

    /// All stamps, the first one first.
    fn stamps(&self) -> impl Iterator<Item = u64>;
}

/// A stamp, as its distance from the first of all, and in the lowest bits which queue it is of.
type Key = u64;

/// For how many keys there is room at least: they fit into the nearest cache.
const ROOM: usize = 256;

/// For how many operations of each queue there is room, at least and at most.
const EACH: [usize; 2] = [16, 256];

/// More than this many keys in one bucket are not sorted by moving each to its place.
const CROWD: u32 = 16;

/// The operations before some moment, in order.
///
/// Each queue is asked for the stamp of the first of its operations that would be too many; the window ends at the earliest of those.
/// What is before that goes to buckets by time, about as many as there are operations. So the work for each is the same for two queues as
/// for two hundred, where merging them costs a comparison for each doubling of their number.
#[derive(Default)]
pub(super) struct Window {
    /// The queues that have operations.
    busy: Vec<usize>,
    /// By queue, as long as they are gathered.
    gathered: Vec<Key>,
    /// In order; as long as `gathered`.
    sorted: Vec<Key>,
    /// Where the next key of each bucket goes.
    places: Vec<u32>,
    /// How many keys there are.
    keys: usize,
    /// How many bits say which queue it is.
    bits: u32,
    /// How many operations of each queue are not too many.
    each: usize,
}

impl Window {
    /// Puts the next operations of these queues in order, not many more than `most`, and returns whether there are any. Of equal stamps,
    /// those of the queue that was given first come first.
    pub(super) fn fill<Q: InOrder>(&mut self, queues: &[Q], most: usize) -> bool {
        self.busy.clear();
        let mut base = u64::MAX;
        for (at, queue) in queues.iter().enumerate() {
            if let Some(first) = queue.stamp(0) {
                self.busy.push(at);
                base = base.min(first);
            }
        }
        let busy = self.busy.len();
        if busy == 0 {
            (self.keys, self.each) = (0, 0);
            return false;
        }
        // Where few queues have most of what there is, the others leave them room: asking all is to pay.
        let [least, greatest] = EACH;
        let sparse = 4 * self.keys < busy;
        let each = if sparse { 2 * self.each } else { least };
        self.each = each.clamp(least.max(ROOM / busy), greatest).min(most);
        self.bits = usize::BITS - (queues.len() - 1).leading_zeros();
        let end = self.end(queues, base);
        self.gather(queues, base, end);
        self.sort(end - base);
        true
    }

    /// The queues of the operations, by the order in which they come. Each one's operations come in its own order.
    #[inline(always)]
    pub(super) fn order(&self) -> impl Iterator<Item = usize> {
        let mask = (1 << self.bits) - 1;
        let keys = self.sorted[..self.keys].iter();
        keys.map(move |key| (key & mask) as usize)
    }

    /// Up to which stamp operations are gathered; makes room for them.
    fn end<Q: InOrder>(&mut self, queues: &[Q], base: u64) -> u64 {
        let Self { busy, each, .. } = &*self;
        let mut last = base;
        // What is farther away does not fit into a key: for 256 queues 2⁵⁶ units, years of any clock.
        let mut end = base.saturating_add(Key::MAX >> self.bits);
        for at in busy {
            let stamp = queues[*at].stamp(*each);
            end = end.min(stamp.unwrap_or(end));
            last = last.max(stamp.or_else(|| queues[*at].last()).unwrap_or(base));
        }
        end = end.min(last.saturating_add(1));
        let mut room = each * busy.len();
        if end <= base {
            // So many with the very first stamp: all of these, however many they are.
            end = base + 1;
            let first = |at: &usize| queues[*at].stamps().take_while(|stamp| *stamp == base);
            room = busy.iter().map(|at| first(at).count()).sum();
        }
        if self.gathered.len() < room {
            self.gathered.resize(room, 0);
            self.sorted.resize(room, 0);
        }
        end
    }

    fn gather<Q: InOrder>(&mut self, queues: &[Q], base: u64, end: u64) {
        let bits = self.bits;
        let mut room = self.gathered.iter_mut();
        for at in &self.busy {
            let stamps = queues[*at].stamps().take_while(|stamp| *stamp < end);
            // Stamps first: what is behind the last one must not take a place.
            for (stamp, key) in stamps.zip(&mut room) {
                *key = (stamp - base) << bits | *at as Key;
            }
        }
        let left = room.len();
        self.keys = self.gathered.len() - left;
    }

    /// Sorts keys of stamps within so many units.
    fn sort(&mut self, span: u64) {
        let gathered = &self.gathered[..self.keys];
        let sorted = &mut self.sorted[..self.keys];
        let buckets = (self.keys / 2 + 1).next_power_of_two();
        // The highest bits of a stamp's distance that there are buckets for.
        let bits = u64::BITS - (span - 1).leading_zeros();
        let shift = bits.saturating_sub(buckets.ilog2()) + self.bits;
        let bucket = |key: Key| key.unbounded_shr(shift) as usize;
        self.places.clear();
        self.places.resize(buckets, 0);
        let places = &mut self.places[..];
        for key in gathered {
            places[bucket(*key)] += 1;
        }
        let (mut before, mut most) = (0, 0);
        for place in &mut *places {
            most = most.max(*place);
            before += core::mem::replace(place, before);
        }
        for key in gathered {
            let place = &mut places[bucket(*key)];
            sorted[*place as usize] = *key;
            *place += 1;
        }
        if most > CROWD {
            // Keys that are equal cannot be told apart.
            sorted.sort_unstable();
        } else {
            move_to_places(sorted);
        }
    }

    /// Bytes allocated.
    pub(super) fn memory(&self) -> usize {
        self.busy.capacity() * size_of::<usize>()
            + (self.gathered.capacity() + self.sorted.capacity()) * size_of::<Key>()
            + self.places.capacity() * size_of::<u32>()
    }
}

/// Sorts keys that are near their places.
fn move_to_places(keys: &mut [Key]) {
    let mut before = 0;
    for at in 0..keys.len() {
        let key = keys[at];
        if before <= key {
            before = key;
            continue;
        }
        let mut to = at;
        while to != 0 && keys[to - 1] > key {
            keys[to] = keys[to - 1];
            to -= 1;
        }
        keys[to] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    impl InOrder for VecDeque<u64> {
        fn stamp(&self, behind: usize) -> Option<u64> {
            self.get(behind).copied()
        }

        fn last(&self) -> Option<u64> {
            self.back().copied()
        }

        fn stamps(&self) -> impl Iterator<Item = u64> {
            self.iter().copied()
        }
    }

    /// Merges the queues, and checks that it is by stamp, and by queue where stamps are equal.
    fn check(mut queues: Vec<VecDeque<u64>>, window: &mut Window, most: usize) {
        let mut expected: Vec<(u64, usize)> = (0..)
            .zip(&queues)
            .flat_map(|(at, queue)| queue.iter().map(move |stamp| (*stamp, at)))
            .collect();
        expected.sort_unstable();
        let mut found = Vec::new();
        while window.fill(&queues, most) {
            let before = found.len();
            for at in window.order() {
                found.push((queues[at].pop_front().expect("counted"), at));
            }
            assert!(found.len() > before);
        }
        assert_eq!(found, expected);
        assert_eq!(window.order().count(), 0);
    }

    #[test]
    fn queues_are_merged_by_stamp() {
        let window = &mut Window::default();
        let mut random = 1_u64;
        for count in (0..20).chain([48, 64, 65]) {
            for (longest, apart) in [(1, 4), (3, 4), (40, 4), (40, 60), (3000, 50)] {
                if longest * count > 40_000 {
                    continue;
                }
                let queues = (0..count).map(|_| {
                    let mut stamp = 0;
                    let mut next = || {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        random >> 32
                    };
                    let length = next() % longest;
                    (0..length)
                        .map(|_| {
                            // Ties, in a queue and between queues, and where stamps are sparse gaps of all lengths.
                            let bits = 1 + next() % apart;
                            stamp += (next() << 28) >> (60 - bits) >> 1;
                            stamp
                        })
                        .collect()
                });
                check(queues.collect(), window, usize::MAX);
            }
        }
    }

    #[test]
    fn a_queue_of_equal_stamps_is_longer_than_the_window() {
        let queues = [
            VecDeque::from([6, 7, 8]),
            VecDeque::from_iter([7; 3 * ROOM]),
            VecDeque::from_iter([7; 3]),
        ];
        for most in [1, 2, usize::MAX] {
            check(queues.to_vec(), &mut Window::default(), most);
        }
    }

    #[test]
    fn stamps_that_are_far_from_each_other_are_compared_all_the_same() {
        let queues = [
            VecDeque::from([0, 1 << 61, u64::MAX - 1]),
            VecDeque::from([1 << 63, (1 << 63) + 1]),
            VecDeque::from([0, 0, 1 << 62, u64::MAX - 1]),
        ];
        let window = &mut Window::default();
        check(queues.into(), window, usize::MAX);
        check([VecDeque::from([u64::MAX - 1])].into(), window, usize::MAX);
    }

    #[test]
    fn what_lies_close_together_far_from_the_first_is_in_order_too() {
        let mut queues = vec![VecDeque::from([0])];
        queues.extend((0..30).map(|queue| (0..30).map(|at| (1 << 40) + at * 31 + queue).collect()));
        check(queues, &mut Window::default(), usize::MAX);
    }

    #[test]
    fn windows_are_not_many() {
        for (count, longest) in [(2, 128), (48, 256), (200, 30)] {
            for hot in [0, 10_000] {
                // All queues as dense as each other, and one queue that has most of what there is.
                let queue = |at: u64| (0..longest).map(move |number| number * 1000 + at);
                let mut queues: Vec<VecDeque<u64>> =
                    (0..count).map(|at| queue(at).collect()).collect();
                queues.push((0..hot).map(|number| number * 3).collect());
                let all: usize = queues.iter().map(VecDeque::len).sum();
                let window = &mut Window::default();
                let mut windows = 0;
                while window.fill(&queues, usize::MAX) {
                    windows += 1;
                    for at in window.order() {
                        queues[at].pop_front();
                    }
                }
                let few = 8 + all / 10;
                assert!(
                    windows < few,
                    "{windows} windows for {all} operations of {count} queues"
                );
            }
        }
    }
}
