//! What has changed between two reports.

use serde::Serialize;

use super::reported::Reported;
use super::summary::VERSION;

/// Figures that differ by less than this share are the same.
const SAME: f64 = 0.05;
/// Lines with less than this share of all waiting in both reports are not worth a word.
const HARDLY: f64 = 0.005;

/// What has changed between two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The version of this form.
    pub version: u64,
    /// What it comes to.
    pub verdict: String,
    /// How many times as fast the second is. `None` if nothing can be compared.
    pub speedup: Option<f64>,
    /// Figures of the whole.
    pub figures: Vec<FigureChange>,
    /// Lines, those that matter most first.
    pub lines: Vec<LineChange>,
    /// What has to be known before any figure: what each report says first of itself, and what makes them unlike.
    pub doubts: Vec<String>,
}

/// A figure before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FigureChange {
    /// Its name.
    pub name: &'static str,
    /// In the first report.
    pub before: f64,
    /// In the second.
    pub after: f64,
}

/// A line before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LineChange {
    /// By what it was found in both: label, object, variable, or memory and function.
    pub name: String,
    /// What has become of it.
    pub change: Change,
    /// In the first report.
    pub before: Option<LineFigures>,
    /// In the second.
    pub after: Option<LineFigures>,
}

/// What has become of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Change {
    /// It is not among the lines of the first report.
    Appeared,
    /// It is not among the lines of the second report.
    Disappeared,
    /// There is less waiting for it.
    Less,
    /// There is more waiting for it.
    More,
    /// Hardly anything.
    Same,
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Self::Appeared => "appeared",
            Self::Disappeared => "gone",
            Self::Less => "less",
            Self::More => "more",
            Self::Same => "same",
        }
    }
}

/// What is compared of lines: for each operation if both reports have operations, or else in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LineFigures {
    /// How many lines have the name.
    pub lines: u64,
    /// Their share of all waiting in their report.
    pub share: f64,
    /// Transfers from core to core.
    pub transfers: f64,
    /// Ownership upgrades.
    pub upgrades: f64,
    /// Nanoseconds that cores waited for them.
    pub waiting_ns: f64,
}

impl Difference {
    /// What has changed from `before` to `after`.
    #[must_use]
    pub fn between(before: &Reported, after: &Reported) -> Self {
        let per_operation = before.operations().is_some() && after.operations().is_some();
        let speedup = match (before.operations_per_ms, after.operations_per_ms) {
            (Some(before), Some(after)) => Some(after / before),
            _ => Some(before.elapsed_ns() / after.elapsed_ns()),
        }
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        let lines = lines(before, after, per_operation);
        let doubts = doubts(before, after);
        Self {
            version: VERSION,
            verdict: verdict(speedup, &lines),
            speedup,
            figures: figures(before, after),
            lines,
            doubts,
        }
    }
}

fn figures(before: &Reported, after: &Reported) -> Vec<FigureChange> {
    let mut figures = Vec::new();
    let mut row = |name, before: Option<f64>, after: Option<f64>| {
        if let (Some(before), Some(after)) = (before, after) {
            figures.push(FigureChange {
                name,
                before,
                after,
            });
        }
    };
    row(
        "operations per ms",
        before.operations_per_ms,
        after.operations_per_ms,
    );
    row(
        "elapsed, ms",
        Some(before.elapsed_ns() / 1e6),
        Some(after.elapsed_ns() / 1e6),
    );
    row(
        "share of time waiting",
        Some(before.stall_share),
        Some(after.stall_share),
    );
    match (&before.per_operation, &after.per_operation) {
        (Some(before), Some(after)) => {
            row(
                "transfers per operation",
                Some(before.transfers),
                Some(after.transfers),
            );
            row(
                "upgrades per operation",
                Some(before.upgrades),
                Some(after.upgrades),
            );
        }
        _ => {
            let of = |report: &Reported| Some(report.totals.transfers as f64);
            row("transfers", of(before), of(after));
            let of = |report: &Reported| Some(report.totals.upgrades as f64);
            row("upgrades", of(before), of(after));
        }
    }
    figures
}

fn lines(before: &Reported, after: &Reported, per_operation: bool) -> Vec<LineChange> {
    let mut firsts = before.by_name(per_operation);
    let mut changes: Vec<LineChange> = after
        .by_name(per_operation)
        .into_iter()
        .map(|(name, after)| {
            let before = firsts.remove(&name);
            let change = match &before {
                None => Change::Appeared,
                Some(before) => {
                    let (was, is) = (before.waiting_ns, after.waiting_ns);
                    if (is - was).abs() <= SAME * was.max(is) {
                        Change::Same
                    } else if is < was {
                        Change::Less
                    } else {
                        Change::More
                    }
                }
            };
            LineChange {
                name,
                change,
                before,
                after: Some(after),
            }
        })
        .collect();
    changes.extend(firsts.into_iter().map(|(name, before)| LineChange {
        name,
        change: Change::Disappeared,
        before: Some(before),
        after: None,
    }));
    let share = |figures: &Option<LineFigures>| figures.map_or(0.0, |figures| figures.share);
    changes.retain(|line| share(&line.before).max(share(&line.after)) >= HARDLY);
    // What was or is waited for longest comes first; the map has put equals in the order of their names.
    changes.sort_by(|one, other| {
        let waiting = |line: &LineChange| {
            let of = |figures: &Option<LineFigures>| figures.map_or(0.0, |of| of.waiting_ns);
            of(&line.before).max(of(&line.after))
        };
        waiting(other).total_cmp(&waiting(one))
    });
    changes
}

fn doubts(before: &Reported, after: &Reported) -> Vec<String> {
    let texts = |report: &Reported| -> Vec<String> {
        let texts = report.caveats.iter().map(|caveat| caveat.text.clone());
        texts.collect()
    };
    let (first, second) = (texts(before), texts(after));
    let both = first == second;
    let whose = |whose: &'static str| move |text: String| format!("{text} ({whose})");
    let mut doubts: Vec<String> = first
        .into_iter()
        .map(whose(if both {
            "both reports"
        } else {
            "the first report"
        }))
        .collect();
    if !both {
        doubts.extend(second.into_iter().map(whose("the second report")));
    }
    let (one, other) = (&before.machine, &after.machine);
    if one != other {
        doubts.push(format!(
            "the machines differ: {} cores of {}, and {} cores of {}",
            one.cores, one.name, other.cores, other.name
        ));
    }
    let program = |report: &Reported| {
        let path = &report.process.program;
        path.rsplit('/').next().unwrap_or(path).to_owned()
    };
    if program(before) != program(after) {
        doubts.push(format!(
            "the programs differ: {} and {}",
            program(before),
            program(after)
        ));
    }
    if before.operations_per_ms.is_some() != after.operations_per_ms.is_some() {
        doubts.push("only one of them marks operations: times are compared".to_owned());
    }
    if !before.not_reproducible.is_empty() || !after.not_reproducible.is_empty() {
        doubts.push(
            "not reproducible: another run may give other figures (--seeds 5 shows the spread)"
                .to_owned(),
        );
    }
    doubts
}

fn verdict(speedup: Option<f64>, lines: &[LineChange]) -> String {
    let speed = match speedup {
        None => "how fast they are cannot be compared".to_owned(),
        Some(ratio) if (ratio - 1.0).abs() <= SAME => "as fast as before".to_owned(),
        Some(ratio) if ratio > 1.0 => format!("better: {ratio:.2} times as fast"),
        Some(ratio) => format!("worse: {ratio:.2} times as fast"),
    };
    let worst = |of: fn(&LineChange) -> Option<LineFigures>| {
        lines
            .iter()
            .filter_map(|line| Some((line, of(line)?.share)))
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
            .map(|(line, _)| line)
    };
    let (was, is) = (worst(|line| line.before), worst(|line| line.after));
    let who = match (was, is) {
        (None, None) => return speed,
        (Some(was), Some(is)) if was.name == is.name => match is.change {
            Change::Same => format!("{} is the worst line as before", is.name),
            change => format!(
                "{} is the worst line still, with {} waiting",
                is.name,
                change.word()
            ),
        },
        (Some(was), Some(is)) => {
            let became = if was.change == Change::Disappeared {
                "is gone"
            } else {
                "is no longer the worst line"
            };
            format!("{} {became}; now that is {}", was.name, is.name)
        }
        (Some(was), None) => format!("{} is gone, and nothing else is waited for", was.name),
        (None, Some(is)) => format!("{} has appeared", is.name),
    };
    format!("{speed}; {who}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(label: &str, share: f64, stall: f64, transfers: u64) -> serde_json::Value {
        json!({"memory": "heap", "label": label, "share": share, "object": null,
            "totals": {"transfers": transfers, "upgrades": 0, "stall_ns": stall}})
    }

    fn report(throughput: f64, lines: &[serde_json::Value]) -> serde_json::Value {
        json!({"version": VERSION, "machine": {"name": "flat", "cores": 48},
            "process": {"program": "/a/stress", "elapsed_ns": 5e6},
            "region": {"operations": 100, "elapsed_ns": 100.0 * 1e6 / throughput},
            "totals": {"transfers": 300, "upgrades": 100, "stall_ns": 5.0},
            "per_operation": {"transfers": 3.0, "upgrades": 1.0},
            "stall_share": 0.5, "operations_per_ms": throughput, "lines": lines,
            "not_reproducible": []})
    }

    fn read(value: &serde_json::Value) -> Reported {
        Reported::from_json(value.to_string().as_bytes()).expect("it is a report")
    }

    #[test]
    fn lines_are_found_again_by_their_names() {
        let before = report(
            100.0,
            &[line("hits", 0.9, 900.0, 200), line("lock", 0.1, 100.0, 50)],
        );
        let after = report(
            420.0,
            &[line("lock", 0.8, 102.0, 50), line("head", 0.2, 20.0, 9)],
        );
        let difference = Difference::between(&read(&before), &read(&after));
        assert_eq!(
            difference.verdict,
            "better: 4.20 times as fast; hits is gone; now that is lock"
        );
        let found: Vec<(&str, Change)> = difference
            .lines
            .iter()
            .map(|line| (line.name.as_str(), line.change))
            .collect();
        assert_eq!(
            found,
            [
                ("hits", Change::Disappeared),
                ("lock", Change::Same),
                ("head", Change::Appeared)
            ]
        );
        let hits = difference.lines[0].before.expect("it was there");
        assert!((hits.transfers - 2.0).abs() < 1e-12, "{hits:?}");
        assert_eq!(difference.figures[0].name, "operations per ms");
        assert_eq!(difference.doubts, [""; 0]);
    }

    #[test]
    fn the_same_report_has_not_changed() {
        let one = read(&report(100.0, &[line("hits", 1.0, 900.0, 200)]));
        let difference = Difference::between(&one, &one);
        assert_eq!(
            difference.verdict,
            "as fast as before; hits is the worst line as before"
        );
        assert_eq!(difference.lines[0].change, Change::Same);
        let nothing = read(&report(50.0, &[]));
        let difference = Difference::between(&one, &nothing);
        assert_eq!(
            difference.verdict,
            "worse: 0.50 times as fast; hits is gone, and nothing else is waited for"
        );
    }

    #[test]
    fn what_is_unlike_is_said() {
        let mut other = report(100.0, &[]);
        other["machine"]["cores"] = json!(12);
        other["process"]["program"] = json!("/b/other");
        other["operations_per_ms"] = json!(null);
        other["not_reproducible"] = json!(["it reads a clock"]);
        let one = read(&report(100.0, &[]));
        let difference = Difference::between(&one, &read(&other));
        assert_eq!(difference.doubts.len(), 4, "{:?}", difference.doubts);
        assert!(difference.doubts[0].contains("48 cores"));
    }

    #[test]
    fn what_a_report_says_first_is_said_again() {
        let mut other = report(100.0, &[]);
        other["caveats"] = json!([{"kind": "one-thread", "text": "the program had one thread"}]);
        let (one, other) = (read(&report(100.0, &[])), read(&other));
        let doubts = |before, after| Difference::between(before, after).doubts;
        assert_eq!(
            doubts(&one, &other),
            ["the program had one thread (the second report)"]
        );
        assert_eq!(
            doubts(&other, &one),
            ["the program had one thread (the first report)"]
        );
        assert_eq!(
            doubts(&other, &other),
            ["the program had one thread (both reports)"]
        );
    }

    #[test]
    fn what_has_no_name_goes_by_its_place() {
        let mut unnamed = line("", 0.5, 5.0, 5);
        unnamed["label"] = json!(null);
        unnamed["places"] = json!([{"function": "push"}]);
        let mut object = unnamed.clone();
        object["object"] = json!({"name": "Pool::new", "offset": 64});
        let names: Vec<String> = read(&report(1.0, &[unnamed, object]))
            .by_name(true)
            .into_keys()
            .collect();
        assert_eq!(names, ["Pool::new+0x40", "heap, used in push"]);
    }

    #[test]
    fn other_files_and_versions_are_refused() {
        let error = |text: &str| {
            Reported::from_json(text.as_bytes())
                .expect_err("it is none")
                .to_string()
        };
        assert!(error("{").contains("no report"));
        assert!(error("{}").contains("no version"));
        assert!(error("{\"version\": 1}").contains("no report"));
        assert!(error("{\"version\": 99}").contains("version is 99"));
        // What holds a report is taken for it.
        let held = json!({"version": VERSION, "passed": true, "summary": report(1.0, &[])});
        assert_eq!(read(&held).lines.len(), 0);
    }
}
