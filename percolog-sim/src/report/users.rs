//! The places of the source that wait for a line, each once: one line of the source may have several instructions that do, as where a
//! lock is taken, and to read that line again and again says nothing more.

use super::summary::{LineSummary, PlaceSummary};
use crate::symbols::Place;

/// Instructions that wait for a line on behalf of the same place.
#[derive(Clone, Debug)]
pub(super) struct UserPlace<'a> {
    /// They, the worst first; at least one.
    instructions: Vec<&'a PlaceSummary>,
}

impl<'a> UserPlace<'a> {
    fn worst(&self) -> &'a PlaceSummary {
        self.instructions[0]
    }

    /// Where they are.
    pub(super) fn place(&self) -> &'a Place {
        &self.worst().place
    }

    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.instructions.len()
    }

    /// Their share of the waiting for the line, 0 to 1.
    pub(super) fn share(&self) -> f64 {
        self.instructions.iter().map(|one| one.share).sum()
    }

    /// What they do to the line.
    pub(super) fn verb(&self) -> &'static str {
        let writes = self.instructions.iter().any(|one| one.write);
        let reads = self.instructions.iter().any(|one| !one.write);
        match (writes, reads) {
            (true, true) => "written and read in",
            (true, false) => "written in",
            _ => "read in",
        }
    }

    /// By which function they use the line, if that is [another](PlaceSummary::through) and the same for all.
    pub(super) fn through(&self) -> Option<&'a Place> {
        self.agreed(PlaceSummary::through)
    }

    /// Who called the place, if that is the same for all.
    pub(super) fn caller(&self) -> Option<&'a Place> {
        self.agreed(|one| one.called_by().first())
    }

    fn agreed(&self, of: impl Fn(&'a PlaceSummary) -> Option<&'a Place>) -> Option<&'a Place> {
        let first = of(self.worst())?;
        self.instructions
            .iter()
            .all(|one| of(one) == Some(first))
            .then_some(first)
    }
}

/// The instructions by their places, the worst place first.
fn folded<'a>(instructions: impl Iterator<Item = &'a PlaceSummary>) -> Vec<UserPlace<'a>> {
    let mut places: Vec<UserPlace<'a>> = Vec::new();
    for one in instructions {
        match places.iter_mut().find(|known| known.place() == &one.place) {
            Some(known) => known.instructions.push(one),
            None => places.push(UserPlace {
                instructions: vec![one],
            }),
        }
    }
    // A stable sort: the instructions came in order.
    places.sort_by(|one, other| other.share().total_cmp(&one.share()));
    places
}

impl LineSummary {
    /// All places that wait for it, the worst first.
    pub(super) fn user_places(&self) -> Vec<UserPlace<'_>> {
        folded(self.places.iter())
    }

    /// The place that waits longest to write it, and the one that waits longest to read it; one if they are the same.
    pub(super) fn worst_users(&self) -> Vec<UserPlace<'_>> {
        let worst = |write| {
            let of = self.places.iter().filter(move |one| one.write == write);
            folded(of).into_iter().next()
        };
        match (worst(true), worst(false)) {
            (Some(mut writer), Some(reader)) if writer.place() == reader.place() => {
                writer.instructions.extend(reader.instructions);
                vec![writer]
            }
            (writer, reader) => writer.into_iter().chain(reader).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where, whether it writes, and its share.
    fn line(uses: &[(&str, bool, f64)]) -> LineSummary {
        let places = uses.iter().map(|(function, write, share)| PlaceSummary {
            place: Place {
                function: (*function).to_owned(),
                file: Some("lock.c".to_owned()),
                line: Some(3),
            },
            write: *write,
            share: *share,
            ..PlaceSummary::default()
        });
        LineSummary {
            places: places.collect(),
            ..LineSummary::default()
        }
    }

    fn said(places: &[UserPlace<'_>]) -> Vec<String> {
        let of = |place: &UserPlace<'_>| {
            format!(
                "{} {} {} {:.2}",
                place.verb(),
                place.place().function,
                place.count(),
                place.share()
            )
        };
        places.iter().map(of).collect()
    }

    #[test]
    fn instructions_of_one_place_are_one_and_their_shares_are_added() {
        let line = line(&[
            ("take", true, 0.4),
            ("take", true, 0.2),
            ("give", true, 0.3),
            ("take", false, 0.1),
        ]);
        assert_eq!(
            said(&line.user_places()),
            ["written and read in take 3 0.70", "written in give 1 0.30"]
        );
        assert_eq!(
            said(&line.worst_users()),
            ["written and read in take 3 0.70"]
        );
    }

    #[test]
    fn who_writes_and_who_reads_are_told_apart_by_their_own_shares() {
        let line = line(&[
            ("take", false, 0.5),
            ("give", true, 0.2),
            ("take", true, 0.15),
            ("give", true, 0.1),
        ]);
        assert_eq!(
            said(&line.worst_users()),
            ["written in give 2 0.30", "read in take 1 0.50"]
        );
        assert!(self::line(&[]).worst_users().is_empty());
    }

    #[test]
    fn callers_are_named_if_all_have_the_same() {
        let mut line = line(&[("take", true, 0.5), ("take", true, 0.5)]);
        let place = |function: &str| Place {
            function: function.to_owned(),
            ..Place::default()
        };
        for one in &mut line.places {
            one.frames = vec![place("lock"), one.place.clone(), place("main")];
        }
        let of = |line: &LineSummary| {
            let users = line.worst_users();
            (users[0].through().cloned(), users[0].caller().cloned())
        };
        assert_eq!(of(&line), (Some(place("lock")), Some(place("main"))));
        line.places[1].frames = vec![place("unlock"), line.places[1].place.clone()];
        assert_eq!(of(&line), (None, None));
    }
}
