//! What a subsystem would gain, and which instrument says so.

use percolog_papers::subsystem::Implementation;
use serde::Serialize;

use super::simulate::Moved;
use crate::report::{Column, Headline, Role, Section};
use percolog_cli::format;

/// What one instrument says about a subsystem.
#[derive(Clone, Serialize)]
pub(super) struct Gain {
    /// What it was found with.
    pub(super) found: Column,
    /// percolog's fastest implementation.
    pub(super) implementation: &'static str,
    /// How many times as many events as behind the mutex.
    pub(super) ratio: f64,
    /// The fastest of all others; none if the mutex was alone.
    pub(super) rival: Option<&'static str>,
    /// How many times as many events as with that.
    pub(super) against_rival: f64,
}

/// From here on a difference counts as one.
const TELLS: f64 = 1.05;

/// What each instrument says, the measured one first. Nothing if no implementation of percolog's was asked for.
pub(super) fn of(section: &Section, made_of: &[Implementation], cpus: usize) -> Vec<Gain> {
    let columns = [
        Some(section.telling_column(cpus)),
        section.simulated_column(),
    ];
    columns
        .into_iter()
        .flatten()
        .filter_map(|column| {
            let fastest = |logged: bool| {
                (0..made_of.len())
                    .filter(|&row| made_of[row].is_logged() == logged)
                    .max_by(|&one, &other| {
                        section
                            .rate(one, column)
                            .total_cmp(&section.rate(other, column))
                    })
            };
            let (ours, rival) = (fastest(true)?, fastest(false));
            Some(Gain {
                found: section.columns[column].clone(),
                implementation: made_of[ours].name(),
                ratio: section.ratio(ours, column),
                rival: rival.map(|rival| made_of[rival].name()),
                against_rival: rival.map_or(1.0, |rival| {
                    section.rate(ours, column) / section.rate(rival, column)
                }),
            })
        })
        .collect()
}

impl Gain {
    /// Whether there is anything to gain.
    pub(super) fn is_one(&self) -> bool {
        self.ratio >= TELLS && self.against_rival >= TELLS
    }

    /// `measured, 2 threads`, `simulated, 48 cores of opteron-48`.
    pub(super) fn instrument(&self) -> String {
        if self.found.is_measured() {
            format!("measured, {}", self.found.size())
        } else {
            format!(
                "simulated, {}",
                self.found.label().replace(", simulated", "")
            )
        }
    }

    /// What it says, in a few words.
    pub(super) fn verdict(&self) -> String {
        let ours = self.implementation;
        let against_mutex = format!("{ours} is {} as fast as mutex", format::ratio(self.ratio));
        match self.rival {
            Some(rival) if rival != Implementation::Mutex.name() => format!(
                "{against_mutex}, and {} as fast as {rival}, the fastest of the others",
                format::ratio(self.against_rival)
            ),
            _ => against_mutex,
        }
    }
}

/// The gain to remember: the measured one, unless only the simulated one is any.
fn headline(title: &str, gains: &[Gain]) -> Option<Headline> {
    let told = gains
        .iter()
        .find(|gain| gain.is_one())
        .or_else(|| gains.first())?;
    Some(Headline {
        ratio: told.ratio,
        caption: format!(
            "{title}: {} instead of mutex, {}",
            told.implementation,
            told.instrument()
        ),
        role: Role::Best,
    })
}

/// Adds to a section what it says of gains, behind what its measurements themselves gave to say.
pub(super) fn tell(section: &mut Section, gains: &[Gain], moved: &[Moved]) {
    section.findings.extend(findings(gains, moved));
    section.headline = headline(section.title, gains);
}

/// Sentences about a subsystem.
fn findings(gains: &[Gain], moved: &[Moved]) -> Vec<String> {
    let mut findings: Vec<String> = gains
        .iter()
        .map(|gain| {
            format!(
                "{}: {}.",
                super::checks::capital(&gain.instrument()),
                gain.verdict()
            )
        })
        .collect();
    let most = moved.iter().map(|moved| moved.cores).max();
    let of = |name: &str| {
        moved
            .iter()
            .find(|moved| Some(moved.cores) == most && moved.implementation == name)
    };
    let ours = gains.iter().find(|gain| !gain.found.is_measured());
    if let (Some(mutex), Some(ours)) = (
        of(Implementation::Mutex.name()),
        ours.and_then(|gain| of(gain.implementation)),
    ) {
        findings.push(format!(
            "There, each update moves {} cache lines from core to core behind the mutex, and {} with {}; cores wait for lines {} and {} \
             of the time.",
            format::number(mutex.transfers_per_update),
            format::number(ours.transfers_per_update),
            ours.implementation,
            percent(mutex.waiting),
            percent(ours.waiting),
        ));
    }
    findings
}

/// `35 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::examples;

    #[test]
    fn what_the_measurements_gave_to_say_stays() {
        let mut section = examples::section();
        let before = section.findings.clone();
        let made_of = [
            Implementation::Mutex,
            Implementation::Oplog,
            Implementation::RwLock,
        ];
        let gains = of(&section, &made_of, 2);
        tell(&mut section, &gains, &[]);
        assert_eq!(section.findings[..before.len()], before);
        assert_eq!(section.findings.len(), before.len() + 1);
        assert!(section.headline.is_some());
    }
}
