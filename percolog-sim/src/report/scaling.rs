//! How the program's speed grows with the number of cores.

use serde::{Deserialize, Serialize};

use super::summary::Summary;
use crate::raw::Ending;

/// A speed that is higher by less than this share has not grown.
const GROWTH: f64 = 0.05;
/// By which share numbers of instructions may differ and still be taken for the same work.
const SAME_WORK: f64 = 0.3;

/// How the program's speed grows with the number of cores: the same command, run on machines of several sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Scaling {
    /// What is compared.
    pub measure: Measure,
    /// One for each number of cores, in ascending order.
    pub points: Vec<ScalingPoint>,
    /// The number of cores beyond which the speed hardly grows any more. `None` if it grows to the end, or nothing is known.
    pub stops_at: Option<usize>,
    /// The speed-up at the end, as a share of what so many cores could do at best.
    pub efficiency: Option<f64>,
}

/// What speeds are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Measure {
    /// Operations that the program has marked, in a time.
    Operations,
    /// One through the time: all runs do the same work.
    FixedWork,
    /// Cores through the time: each core does the same work.
    WorkPerCore,
    /// One through the time, though it is not known how much work the runs do.
    Time,
}

impl Measure {
    /// What is compared, in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Operations => "operations a millisecond",
            Self::FixedWork => "time for the same total work",
            Self::WorkPerCore => "time for the same work on each core",
            Self::Time => "time, whatever work was done in it",
        }
    }
}

/// The program on a machine of one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScalingPoint {
    /// Its cores.
    pub cores: usize,
    /// Simulated nanoseconds: of the region if operations are compared, or else of the process.
    pub elapsed_ns: Option<f64>,
    /// Operations in a millisecond, if the program marks them.
    pub operations_per_ms: Option<f64>,
    /// Transfers from core to core for each operation, likewise.
    pub transfers_per_operation: Option<f64>,
    /// Instructions of all processes.
    pub instructions: u64,
    /// The share of the time that threads had a core in which they waited for lines.
    pub stall_share: Option<f64>,
    /// How many times as fast as with the fewest cores.
    pub speedup: Option<f64>,
    /// Why there are no figures.
    pub failure: Option<String>,
}

impl ScalingPoint {
    /// A run that came to its end, and what it came to.
    #[must_use]
    pub fn of(summary: &Summary) -> Self {
        let failure = if summary.timed_out {
            Some("time was up".to_owned())
        } else {
            match summary.process.ending {
                Ending::Deadlock => Some("deadlock".to_owned()),
                Ending::Signal => Some(format!("killed by signal {}", summary.process.exit_code)),
                Ending::Running => Some("it had not ended".to_owned()),
                _ => summary
                    .check_counted()
                    .err()
                    .map(|nothing| nothing.to_string()),
            }
        };
        if failure.is_some() {
            return Self {
                cores: summary.machine.cores,
                failure,
                ..Self::default()
            };
        }
        let all = std::iter::once(&summary.process).filter(|_| summary.processes.is_empty());
        Self {
            cores: summary.machine.cores,
            elapsed_ns: Some(match &summary.region {
                Some(region) => region.elapsed_ns,
                None => summary.process.elapsed_ns,
            }),
            operations_per_ms: summary.operations_per_ms,
            transfers_per_operation: summary.per_operation.map(|per| per.transfers),
            instructions: all
                .chain(&summary.processes)
                .map(|process| process.instructions)
                .sum(),
            stall_share: Some(summary.stall_share),
            speedup: None,
            failure: None,
        }
    }

    /// A run without figures.
    #[must_use]
    pub fn failed(cores: usize, why: impl Into<String>) -> Self {
        Self {
            cores,
            failure: Some(why.into()),
            ..Self::default()
        }
    }
}

impl Scaling {
    /// What the runs come to. `measure` says by what they are compared; without it that is operations if all runs mark them, or
    /// else it is inferred from the instructions: as many in all, or as many on each core.
    #[must_use]
    pub fn of(mut points: Vec<ScalingPoint>, measure: Option<Measure>) -> Self {
        points.sort_by_key(|point| point.cores);
        let done: Vec<&ScalingPoint> = points
            .iter()
            .filter(|point| point.failure.is_none())
            .collect();
        let measure = measure.unwrap_or_else(|| infer(&done));
        let speed = |point: &ScalingPoint| -> Option<f64> {
            let elapsed = point.elapsed_ns.filter(|elapsed| *elapsed > 0.0);
            match measure {
                Measure::Operations => point.operations_per_ms,
                Measure::FixedWork | Measure::Time => elapsed.map(|elapsed| 1.0 / elapsed),
                Measure::WorkPerCore => elapsed.map(|elapsed| point.cores as f64 / elapsed),
            }
        };
        let first = done
            .iter()
            .find_map(|point| Some((point.cores, speed(point)?)));
        for point in &mut points {
            point.speedup = first
                .and_then(|(_, first)| Some(speed(point)? / first))
                .filter(|speedup| point.failure.is_none() && speedup.is_finite());
        }
        let mut scaling = Self {
            measure,
            points,
            stops_at: None,
            efficiency: None,
        };
        scaling.stops_at = scaling.stop();
        if let (Some((fewest, _)), Some((most, speedup))) = (first, scaling.last())
            && most > fewest
        {
            scaling.efficiency = Some(speedup * fewest as f64 / most as f64);
        }
        scaling
    }

    /// Numbers of cores and the speed-up there, without the runs that failed.
    pub fn curve(&self) -> impl DoubleEndedIterator<Item = (usize, f64)> + '_ {
        self.points
            .iter()
            .filter_map(|point| Some((point.cores, point.speedup?)))
    }

    /// The fewest cores that were tried.
    #[must_use]
    pub fn fewest(&self) -> Option<usize> {
        self.curve().next().map(|(cores, _)| cores)
    }

    /// The most cores, and the speed-up there.
    #[must_use]
    pub fn last(&self) -> Option<(usize, f64)> {
        self.curve().next_back()
    }

    /// Where the speed is highest, and how high: with the fewest cores, if several are alike.
    #[must_use]
    pub fn highest(&self) -> Option<(usize, f64)> {
        self.curve()
            .rev()
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Where it stops growing: no more cores bring more than a little.
    fn stop(&self) -> Option<usize> {
        let (_, highest) = self.highest()?;
        let (last, _) = self.last()?;
        self.curve()
            .find(|(_, speedup)| *speedup * (1.0 + GROWTH) >= highest)
            .map(|(cores, _)| cores)
            .filter(|cores| *cores < last)
    }

    /// The curve in a sentence.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let ((most, speedup), fewest) = (self.last()?, self.fewest()?);
        if most == fewest {
            return None;
        }
        let one = if fewest == 1 {
            "one".to_owned()
        } else {
            format!("{fewest}")
        };
        let so_much = if speedup >= 0.995 {
            format!("{most} cores are {speedup:.1} times as fast as {one}")
        } else {
            format!("{most} cores are slower than {one} ({speedup:.2} times as fast)")
        };
        let share = self.efficiency.map_or_else(String::new, |share| {
            format!(", {:.0} % of what they could be", share * 100.0)
        });
        let stops = match (self.stops_at, self.highest()) {
            (Some(cores), _) if cores == fewest => "; more cores never make it faster".to_owned(),
            (Some(cores), Some(highest)) => {
                let there = self.curve().find(|(at, _)| *at == cores);
                let (_, speedup) = there.unwrap_or(highest);
                format!("; it stops growing at {cores} cores ({speedup:.1} times)")
            }
            _ => "; it grows to the end".to_owned(),
        };
        Some(format!("{so_much}{share}{stops}"))
    }
}

fn infer(done: &[&ScalingPoint]) -> Measure {
    if !done.is_empty() && done.iter().all(|point| point.operations_per_ms.is_some()) {
        return Measure::Operations;
    }
    let (Some(first), Some(last)) = (done.first(), done.last()) else {
        return Measure::Time;
    };
    if first.cores == last.cores || first.instructions == 0 {
        return Measure::Time;
    }
    let more = last.instructions as f64 / first.instructions as f64;
    let each = more * first.cores as f64 / last.cores as f64;
    let same = |ratio: f64| (ratio - 1.0).abs() <= SAME_WORK;
    if same(more) {
        Measure::FixedWork
    } else if same(each) {
        Measure::WorkPerCore
    } else {
        Measure::Time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(
        cores: usize,
        operations: Option<f64>,
        elapsed: f64,
        instructions: u64,
    ) -> ScalingPoint {
        ScalingPoint {
            cores,
            elapsed_ns: Some(elapsed),
            operations_per_ms: operations,
            instructions,
            ..ScalingPoint::default()
        }
    }

    fn of_operations(speeds: &[(usize, f64)]) -> Scaling {
        let points = speeds
            .iter()
            .map(|(cores, speed)| point(*cores, Some(*speed), 1.0, 1))
            .collect();
        Scaling::of(points, None)
    }

    #[test]
    fn a_collapse_has_an_end_of_growth() {
        let scaling = of_operations(&[(1, 10.0), (2, 18.0), (4, 30.0), (8, 31.0), (48, 5.0)]);
        assert_eq!(scaling.measure, Measure::Operations);
        // 31 is hardly more than 30.
        assert_eq!(scaling.stops_at, Some(4));
        assert_eq!(scaling.highest(), Some((8, 3.1)));
        let efficiency = scaling.efficiency.expect("it has an end");
        assert!((efficiency - 0.5 / 48.0).abs() < 1e-12);
        let sentence = scaling.sentence().expect("there is a curve");
        assert_eq!(
            sentence,
            "48 cores are slower than one (0.50 times as fast), 1 % of what they could be; \
             it stops growing at 4 cores (3.0 times)"
        );
    }

    #[test]
    fn what_grows_to_the_end_does_not_stop() {
        let scaling = of_operations(&[(48, 470.0), (1, 10.0), (24, 238.0)]);
        assert_eq!(scaling.points[0].cores, 1);
        assert_eq!(scaling.stops_at, None);
        let sentence = scaling.sentence().expect("there is a curve");
        assert!(sentence.ends_with("it grows to the end"), "{sentence}");
        let never = of_operations(&[(1, 10.0), (2, 6.0), (4, 3.0)]);
        assert_eq!(never.stops_at, Some(1));
        let sentence = never.sentence().expect("there is a curve");
        assert!(sentence.ends_with("never make it faster"), "{sentence}");
    }

    #[test]
    fn without_operations_the_instructions_say_what_is_alike() {
        let of = |instructions: u64, elapsed: f64| {
            Scaling::of(
                vec![
                    point(1, None, 800.0, 1000),
                    point(8, None, elapsed, instructions),
                ],
                None,
            )
        };
        let fixed = of(1100, 200.0);
        assert_eq!(
            (fixed.measure, fixed.last()),
            (Measure::FixedWork, Some((8, 4.0)))
        );
        let each = of(8100, 800.0);
        assert_eq!(
            (each.measure, each.last()),
            (Measure::WorkPerCore, Some((8, 8.0)))
        );
        let neither = of(3000, 400.0);
        assert_eq!(
            (neither.measure, neither.last()),
            (Measure::Time, Some((8, 2.0)))
        );
        let told = Scaling::of(neither.points, Some(Measure::WorkPerCore));
        assert_eq!(told.last(), Some((8, 16.0)));
    }

    #[test]
    fn runs_that_failed_are_shown_and_left_out() {
        let points = vec![
            ScalingPoint::failed(1, "time was up"),
            point(2, Some(10.0), 1.0, 1),
            ScalingPoint::failed(4, "status 7"),
            point(8, Some(20.0), 1.0, 1),
        ];
        let scaling = Scaling::of(points, None);
        assert_eq!(scaling.curve().collect::<Vec<_>>(), [(2, 1.0), (8, 2.0)]);
        assert_eq!((scaling.fewest(), scaling.efficiency), (Some(2), Some(0.5)));
        assert_eq!(scaling.points[2].failure.as_deref(), Some("status 7"));
        let nothing = Scaling::of(vec![ScalingPoint::failed(4, "x")], None);
        assert_eq!(
            (nothing.last(), nothing.stops_at, nothing.efficiency),
            (None, None, None)
        );
        assert_eq!(nothing.sentence(), None);
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let scaling = of_operations(&[(1, 10.0), (2, 18.0)]);
        let text = serde_json::to_string(&scaling).expect("it can be written");
        assert!(text.contains("\"operations\""), "{text}");
        let read: Scaling = serde_json::from_str(&text).expect("it can be read");
        assert_eq!(read, scaling);
    }
}
