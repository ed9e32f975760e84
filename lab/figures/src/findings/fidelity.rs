//! How well the simulator agrees with this machine: wherever the same cell was measured and simulated.
//!
//! The described machine is another one than this, so that times themselves need not agree. What has to agree is what a simulator is asked for: how
//! many times as fast one structure is as another, on as many threads.

use std::collections::BTreeMap;

use super::Shown;
use crate::catalogue::Where;
use crate::store::Found;

/// A ratio of two structures that was measured and simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The measured figure.
    pub figure: String,
    /// Its heading.
    pub title: String,
    /// The simulated machine.
    pub machine: String,
    /// On how many threads.
    pub threads: u64,
    /// Whose.
    pub contender: String,
    /// Relative to whom.
    pub reference: String,
    /// Here: a value, and how many times the reference's it is.
    pub measured: (f64, f64),
    /// Simulated.
    pub simulated: (f64, f64),
}

impl Agreement {
    /// How far the simulated ratio is from the measured one: 0.1 is a tenth more, −0.1 a tenth less.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.simulated.1 / self.measured.1 - 1.0
    }
}

/// What a cell does, whatever the machine and however long.
fn deed(found: &Found) -> (&str, BTreeMap<&str, &str>) {
    let timeless = |key: &str| !matches!(key, "milliseconds" | "warm_up" | "cycles");
    let parameters = found.cell.parameters.iter();
    (
        &found.cell.program,
        parameters
            .filter(|(key, _)| timeless(key))
            .map(|(key, value)| (&**key, &**value))
            .collect(),
    )
}

/// Every ratio that was both measured and simulated, within figures whose values are the same; each once, of the first machine that has it.
#[must_use]
pub fn agreements(shown: &[Shown]) -> Vec<Agreement> {
    let mut agreements: Vec<Agreement> = Vec::new();
    let here = |one: &&Shown| one.figure.machine == Where::Here && one.figure.rows.is_none();
    for measured in shown.iter().filter(here) {
        let value = &measured.figure.y.value;
        let factor = measured.figure.y.factor;
        for x in measured.xs() {
            let cells: Vec<&Found> = measured
                .results
                .cells
                .iter()
                .filter(|found| found.x == x && found.median(value).is_some())
                .filter(|found| measured.doubt(found).is_none())
                .collect();
            let twins: Vec<(&Found, &Found, &str)> = cells
                .iter()
                .filter_map(|cell| {
                    let (twin, machine) = twin(shown, cell, value)?;
                    Some((*cell, twin, machine))
                })
                .collect();
            // What users have today is what others are compared with, if it is there.
            let role = |found: &Found| {
                let known = measured.figure.contenders.iter();
                known
                    .filter(|one| one.name == found.contender)
                    .map(|one| one.role)
                    .next()
            };
            let today = twins
                .iter()
                .find(|(cell, ..)| role(cell) == Some(crate::catalogue::Role::Today));
            let Some(&(reference, simulated_reference, machine)) = today.or_else(|| twins.first())
            else {
                continue;
            };
            for &(cell, twin, on) in &twins {
                if cell.contender == reference.contender || on != machine {
                    continue;
                }
                let median = |found: &Found| found.median(value).map(|spread| spread.median);
                let (Some(ours), Some(theirs), Some(simulated), Some(simulated_theirs)) = (
                    median(cell),
                    median(reference),
                    median(twin),
                    median(simulated_reference),
                ) else {
                    continue;
                };
                let agreement = Agreement {
                    figure: measured.figure.name.clone(),
                    title: measured.figure.title.clone(),
                    machine: machine.to_owned(),
                    threads: x,
                    contender: cell.contender.clone(),
                    reference: reference.contender.clone(),
                    measured: (ours * factor, ours / theirs),
                    simulated: (simulated * factor, simulated / simulated_theirs),
                };
                if agreement.error().is_finite() {
                    agreements.push(agreement);
                }
            }
        }
    }
    agreements
}

/// The same cell on a simulated machine.
fn twin<'a>(shown: &'a [Shown], cell: &Found, value: &str) -> Option<(&'a Found, &'a str)> {
    shown.iter().find_map(|one| {
        let Where::Simulated(machine) = &one.figure.machine else {
            return None;
        };
        let cells = one.results.cells.iter();
        let twin = cells
            .filter(|found| found.median(value).is_some())
            .filter(|found| one.doubt(found).is_none())
            .find(|found| deed(found) == deed(cell))?;
        Some((twin, &**machine))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::catalogue::{Kind, TimeOf};
    use crate::findings::tests::shown;
    use percolog_cells::Values;

    #[test]
    fn a_cell_has_a_twin_if_it_does_the_same() {
        let simulated = shown(Kind::Curve, |_, x, _| x as f64);
        let mut measured = simulated.clone();
        assert_ne!(simulated.figure.machine, Where::Here);
        measured.figure.machine = Where::Here;
        measured.figure.time = TimeOf::Wall {
            duration: Duration::from_millis(200),
            repetitions: 1,
        };
        for contender in &mut measured.figure.contenders {
            contender.time = None;
        }
        for found in &mut measured.results.cells {
            found.cell.machine = "here".to_owned();
            for time in ["warm_up", "cycles"] {
                found.cell.parameters.remove(time);
            }
            let milliseconds = ("milliseconds".to_owned(), "200".to_owned());
            found.cell.parameters.extend([milliseconds]);
        }
        let found = agreements(&[measured.clone(), simulated.clone()]);
        assert!(!found.is_empty());
        for agreement in &found {
            assert!(agreement.error().abs() < 1e-9);
            assert_ne!(agreement.contender, agreement.reference);
        }
        // What has counted too little says nothing about the simulator.
        let last = *simulated.xs().last().expect("some");
        let mut few = simulated.clone();
        for cell in few.results.cells.iter_mut().filter(|cell| cell.x == last) {
            cell.values[0] = cell.values[0].clone().with(Values::OPERATIONS, 7.0);
        }
        let surer = agreements(&[measured.clone(), few]);
        assert!(found.iter().any(|one| one.threads == last));
        assert!(!surer.is_empty() && surer.iter().all(|one| one.threads != last));
        // Neither does what does something else.
        let word = crate::catalogue::Word::Text("else".to_owned());
        measured
            .figure
            .parameters
            .extend([("something".to_owned(), word)]);
        for cell in &mut measured.results.cells {
            let other = ("something".to_owned(), "else".to_owned());
            cell.cell.parameters.extend([other]);
        }
        assert_eq!(agreements(&[measured, simulated]), []);
    }
}
