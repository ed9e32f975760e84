//! Which of several queues, each in order, has the smallest stamp in front.

use alloc::vec::Vec;

/// A stamp, as its distance from the first of all, and in the lowest bits which player it is of.
type Head = u64;

/// Nothing is left, or nothing that is near enough to be told apart from others.
const NOTHING: Head = Head::MAX;

/// A tournament of losers between the first stamps of queues (Knuth, *The Art of Computer Programming*, volume 3, §5.4.1).
///
/// Each match keeps its loser. When the winner has a new stamp in front, only the matches on its way up are played again: one comparison
/// for each doubling of the number of queues, where a heap compares twice as often and moves what it compares.
#[derive(Default)]
pub(super) struct Tournament {
    /// First the winner of all, then by match the loser of it. The two matches below match `n` are `2n` and `2n + 1`; below the
    /// last ones are the players.
    heads: Vec<Head>,
    /// The queues that take part, by player.
    queues: Vec<usize>,
    /// The smallest stamp when it began.
    base: u64,
    /// How many bits say which player it is.
    bits: u32,
    /// Whether a stamp was too far from the smallest.
    ends_early: bool,
}

impl Tournament {
    /// Begins anew with the first stamps of these queues, and returns whether there are any. Of equal stamps the first one given wins.
    ///
    /// It ends before a stamp that is so far behind the smallest that they cannot be compared in one word, and has to begin anew there:
    /// for 256 queues 2⁵⁵ units, years of any clock.
    pub(super) fn begin(&mut self, firsts: impl Iterator<Item = (usize, u64)> + Clone) -> bool {
        self.queues.clear();
        self.queues.extend(firsts.clone().map(|(queue, _)| queue));
        self.heads.clear();
        let Some(base) = firsts.clone().map(|(_, stamp)| stamp).min() else {
            return false;
        };
        let players = self.queues.len();
        (self.base, self.bits) = (base, usize::BITS - players.leading_zeros());
        self.ends_early = false;
        // The winner of every match, from the players upwards.
        self.heads.resize(players, NOTHING);
        for (player, (_, stamp)) in (0..).zip(firsts) {
            let head = self.head(stamp, player);
            self.heads.push(head);
        }
        let heads = &mut self.heads;
        for at in (1..players).rev() {
            heads[at] = heads[2 * at].min(heads[2 * at + 1]);
        }
        // From the top down, where those below still have their winners: who else came to the match lost it.
        heads[0] = heads[1];
        for at in 1..players {
            let [one, other] = [heads[2 * at], heads[2 * at + 1]];
            heads[at] = if one == heads[at] { other } else { one };
        }
        heads.truncate(players);
        true
    }

    #[inline(always)]
    fn head(&mut self, stamp: u64, player: usize) -> Head {
        let distance = stamp - self.base;
        if distance >= NOTHING >> self.bits {
            self.ends_early = true;
            return NOTHING;
        }
        distance << self.bits | player as Head
    }

    #[inline(always)]
    fn player(&self) -> usize {
        (self.heads[0] & !(NOTHING << self.bits)) as usize
    }

    /// The queue with the smallest stamp. Equal stamps on different queues belong to operations that overlapped: any order will do, if
    /// it is always the same.
    #[inline(always)]
    pub(super) fn winner(&self) -> Option<usize> {
        if *self.heads.first()? == NOTHING {
            return None;
        }
        Some(self.queues[self.player()])
    }

    /// Up to which stamp the winner's queue stays ahead.
    #[inline]
    pub(super) fn bound(&self) -> u64 {
        let player = self.player();
        // The second best has lost to the winner.
        let mut next = NOTHING;
        let mut at = (self.heads.len() + player) / 2;
        while at != 0 {
            next = next.min(self.heads[at]);
            at /= 2;
        }
        let wins_ties = next & !(NOTHING << self.bits) >= player as Head;
        let distance = (next >> self.bits) - Head::from(next == NOTHING || !wins_ties);
        self.base.saturating_add(distance)
    }

    /// Goes on with the stamp that is now the first of the winner's queue, or with none.
    #[inline(always)]
    pub(super) fn replace(&mut self, stamp: Option<u64>) {
        let player = self.player();
        let mut winner = stamp.map_or(NOTHING, |stamp| self.head(stamp, player));
        let mut at = (self.heads.len() + player) / 2;
        while at != 0 {
            let loser = self.heads[at];
            self.heads[at] = loser.max(winner);
            winner = loser.min(winner);
            at /= 2;
        }
        self.heads[0] = winner;
    }

    /// Whether there can be more when there is no winner any more: then it has to begin anew.
    pub(super) fn ends_early(&self) -> bool {
        self.ends_early
    }

    /// Bytes allocated.
    pub(super) fn memory(&self) -> usize {
        self.heads.capacity() * size_of::<Head>() + self.queues.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    /// Merges the queues, and checks that it is by stamp, and by queue where stamps are equal.
    fn check(mut queues: Vec<VecDeque<u64>>, tournament: &mut Tournament) {
        let mut expected: Vec<(u64, usize)> = (0..)
            .zip(&queues)
            .flat_map(|(at, queue)| queue.iter().map(move |stamp| (*stamp, at)))
            .collect();
        expected.sort_unstable();
        let begin = |tournament: &mut Tournament, queues: &[VecDeque<u64>]| {
            let firsts = queues.iter().enumerate();
            tournament.begin(firsts.filter_map(|(at, queue)| Some((at, *queue.front()?))))
        };
        assert_eq!(begin(tournament, &queues), !expected.is_empty());
        for (stamp, at) in expected {
            if tournament.winner().is_none() {
                assert!(tournament.ends_early() && begin(tournament, &queues));
            }
            assert_eq!(tournament.winner(), Some(at));
            let bound = tournament.bound();
            assert_eq!(queues[at].pop_front(), Some(stamp));
            // The queue stays ahead exactly up to the bound.
            let next = queues[at].front().copied();
            tournament.replace(next);
            assert_eq!(
                next.is_some_and(|next| next <= bound),
                tournament.winner() == Some(at)
            );
        }
        assert_eq!(tournament.winner(), None);
        assert!(!begin(tournament, &queues));
        assert_eq!(tournament.winner(), None);
    }

    #[test]
    fn queues_are_merged_by_stamp() {
        let tournament = &mut Tournament::default();
        let mut random = 1_u64;
        for count in (0..20).chain([48, 64, 65]) {
            for most in [1, 3, 40] {
                let queues = (0..count).map(|_| {
                    let mut stamp = 0;
                    let mut next = || {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        random >> 60
                    };
                    let length = next() % most;
                    (0..length)
                        .map(|_| {
                            // Ties, in a queue and between queues.
                            stamp += next() / 4;
                            stamp
                        })
                        .collect()
                });
                check(queues.collect(), tournament);
            }
        }
    }

    #[test]
    fn stamps_that_are_far_from_each_other_are_compared_all_the_same() {
        let queues = [
            VecDeque::from([0, 1 << 61, u64::MAX - 1]),
            VecDeque::from([1 << 63, (1 << 63) + 1]),
            VecDeque::from([0, 0, 1 << 62, u64::MAX - 1]),
        ];
        check(queues.into(), &mut Tournament::default());
        check(
            [VecDeque::from([u64::MAX - 1])].into(),
            &mut Tournament::default(),
        );
    }
}
