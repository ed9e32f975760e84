//! Who wins: percolog's best against the best of what users have and other libraries.

use super::{Shown, best};
use crate::catalogue::{Kind, Role};

/// A duel at one place of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The value of what varies.
    pub x: u64,
    /// The same in words.
    pub at: String,
    /// The value of what else varies.
    pub row: Option<u64>,
    /// The best of ours.
    pub ours: String,
    /// The best of the others.
    pub rival: String,
    /// How many times better ours is: below one, it loses.
    pub ratio: f64,
}

/// All duels of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Duel {
    /// Which figure.
    pub figure: String,
    /// Its heading.
    pub title: String,
    /// By row and what varies.
    pub standings: Vec<Standing>,
}

/// How much better one has to be to have won: what is less is within what measurements vary.
pub(crate) const EVEN: f64 = 1.05;

impl Duel {
    /// How many are won, and how many are lost; what is nearly even is neither.
    #[must_use]
    pub fn score(&self) -> (usize, usize) {
        let won = self.standings.iter().filter(|one| one.ratio > EVEN);
        let lost = self.standings.iter().filter(|one| one.ratio < 1.0 / EVEN);
        (won.count(), lost.count())
    }

    /// The place where it wins by most.
    #[must_use]
    pub fn best(&self) -> Option<&Standing> {
        let standings = self.standings.iter();
        standings.max_by(|one, other| one.ratio.total_cmp(&other.ratio))
    }

    /// The place where it loses by most, or wins by least.
    #[must_use]
    pub fn worst(&self) -> Option<&Standing> {
        let standings = self.standings.iter();
        standings.min_by(|one, other| one.ratio.total_cmp(&other.ratio))
    }

    /// On one thread, and on the most.
    #[must_use]
    pub fn ends(&self) -> Option<(&Standing, &Standing)> {
        Some((self.standings.first()?, self.standings.last()?))
    }
}

/// The duels of all figures that have one: somebody of ours and a rival. Tables are none.
#[must_use]
pub fn duels(shown: &[Shown]) -> Vec<Duel> {
    shown
        .iter()
        .filter(|one| one.figure.kind != Kind::Table)
        .filter_map(duel)
        .collect()
}

fn duel(shown: &Shown) -> Option<Duel> {
    let figure = &shown.figure;
    let series = shown.series();
    let mut standings = Vec::new();
    for row in shown.rows() {
        for x in shown.xs() {
            let ours = best(figure, &series, |role| role == Role::Ours, x, row);
            let rival = best(figure, &series, Role::is_rival, x, row);
            if let (Some((ours, one)), Some((rival, other))) = (ours, rival) {
                let ratio = figure.y.better.ratio(one, other);
                if ratio.is_finite() && ratio > 0.0 {
                    standings.push(Standing {
                        x,
                        at: figure.x.in_words(x),
                        row,
                        ours: ours.contender.name.clone(),
                        rival: rival.contender.name.clone(),
                        ratio,
                    });
                }
            }
        }
    }
    (!standings.is_empty()).then(|| Duel {
        figure: figure.name.clone(),
        title: figure.title.clone(),
        standings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::shown;

    #[test]
    fn the_best_of_each_side_meet() {
        let shown = shown(Kind::Curve, |_, _, _| 1.0);
        let (figure, most) = (shown.figure.clone(), *shown.xs().last().expect("some"));
        let ours = |name: &str| {
            let found = figure.contenders.iter().find(|one| one.name == name);
            found.is_some_and(|one| one.role == Role::Ours)
        };
        // Ours is even on one, and four times better on the most.
        let better = figure.y.better;
        let shown = super::super::tests::shown(Kind::Curve, |name, x, _| {
            let factor = better.ratio(4.0, 1.0);
            if ours(name) && x == most { factor } else { 1.0 }
        });
        let duels = duels(std::slice::from_ref(&shown));
        let duel = &duels[0];
        assert_eq!(duel.score(), (1, 0));
        let (first, last) = duel.ends().expect("both ends");
        assert!((first.ratio - 1.0).abs() < 1e-9 && (last.ratio - 4.0).abs() < 1e-9);
        assert_eq!(duel.best().map(|one| one.x), Some(most));
        assert!(duel.worst().is_some_and(|one| one.ratio < 1.01));
    }
}
