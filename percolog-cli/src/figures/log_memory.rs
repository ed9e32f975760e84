//! Figure 8-5 of the OpLog thesis: 15 million directory entries with a reference counter each, on 48 cores.

use std::path::Path;
use std::process::Command;

use percolog_bench::host::Host;
use serde::Serialize;

use super::objects::{self, Found, Kind};
use super::{LogMemory, page};
use crate::demo::machine;
use crate::failure::Failure;
use crate::format::{left, number, right, wrap};
use crate::output::Output;
use crate::report::destination::Destination;
use crate::report::{Machine, Role};

/// As many as the thesis had.
const OBJECTS: u64 = 15_000_000;

/// The figure.
#[derive(Debug, Serialize)]
pub(crate) struct LogMemoryFigure {
    /// Which figure of which paper.
    pub(crate) figure: &'static str,
    /// The version of this command.
    pub(crate) version: &'static str,
    /// Where it was measured.
    pub(crate) machine: Machine,
    /// How many objects were allocated, of each kind.
    pub(crate) objects: u64,
    /// For how many cores.
    pub(crate) cores: u32,
    /// A row for each kind; the first is what the others are compared with.
    pub(crate) rows: Vec<Row>,
}

/// One kind of objects.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    #[serde(skip)]
    pub(crate) role: Role,
    #[serde(flatten)]
    pub(crate) found: Found,
    /// Resident bytes by objects.
    pub(crate) bytes_per_object: f64,
    /// Bytes of an object in the thesis.
    pub(crate) thesis_bytes: u64,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    figure: &'a LogMemoryFigure,
    /// Where the page is.
    file: String,
}

/// Measures, shows and writes.
pub(super) fn run(arguments: &LogMemory, output: &mut Output) -> Result<(), Failure> {
    let destination = Destination::choose(arguments.output.as_deref(), arguments.force)?;
    let objects = how_many(arguments, objects::available()?)?;
    let command = std::env::current_exe()
        .map_err(|error| Failure::Work(format!("cannot find this command: {error}")))?;
    let kinds = [
        (Kind::Shared, "shared counter", Role::Today, 192),
        (Kind::PerCore, "per-core counters", Role::Peer, 576),
        (Kind::LogCache, "log cache", Role::Best, 196),
    ];
    let mut rows = Vec::new();
    for (kind, name, role, thesis_bytes) in kinds {
        let found = measure(&command, kind, objects, arguments.cores)?;
        rows.push(Row {
            kind,
            name,
            role,
            bytes_per_object: found.resident_bytes as f64 / objects as f64,
            found,
            thesis_bytes,
        });
    }
    let figure = LogMemoryFigure {
        figure: "OpLog thesis, figure 8-5",
        version: env!("CARGO_PKG_VERSION"),
        machine: machine(Host::describe()),
        objects,
        cores: arguments.cores,
        rows,
    };
    let path = destination.write(&page::html(&figure))?;
    if output.is_json() {
        return output.data(&Written {
            figure: &figure,
            file: path.display().to_string(),
        });
    }
    output.write(&text(output, &figure))?;
    let path = output.strong(&path.display().to_string());
    output.line(&format!("The figure as a page: {path}"))
}

/// Bytes that the largest kind takes, the allocator's and the place that keeps it included.
const fn need(cores: u32) -> u64 {
    192 + 8 * cores as u64 + 16 + 16
}

fn how_many(arguments: &LogMemory, available: u64) -> Result<u64, Failure> {
    let need = need(arguments.cores);
    match arguments.objects {
        None => Ok(OBJECTS.min(available / 2 / need).max(1)),
        Some(objects) if objects <= available / need => Ok(objects),
        Some(_) => Err(Failure::Input(format!(
            "there is memory for {} objects; ask for fewer with --objects",
            available / need
        ))),
    }
}

/// Has a process of its own allocate the objects.
fn measure(command: &Path, kind: Kind, objects: u64, cores: u32) -> Result<Found, Failure> {
    let kind = clap::ValueEnum::to_possible_value(&kind)
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default();
    let ended = Command::new(command)
        .args(["figures-guest", "--kind", &kind])
        .args(["--objects", &objects.to_string()])
        .args(["--cores", &cores.to_string()])
        .output()
        .map_err(|error| Failure::Work(format!("cannot start a process: {error}")))?;
    let died = || {
        Failure::Work(format!(
            "the process that allocated {objects} objects ({kind}) has not come to its end: {}",
            String::from_utf8_lossy(&ended.stderr)
        ))
    };
    if !ended.status.success() {
        return Err(died());
    }
    serde_json::from_slice(&ended.stdout).map_err(|_| died())
}

impl LogMemoryFigure {
    /// What the figure shows, in sentences.
    pub(crate) fn findings(&self) -> Vec<String> {
        let [shared, per_core, cache] = &self.rows[..] else {
            return Vec::new();
        };
        let more = |row: &Row| row.bytes_per_object - shared.bytes_per_object;
        let lent = &cache.found;
        vec![
            format!(
                "A counter for each core costs {} bytes more for each object than a shared one; logs that are lent cost {}.",
                number(more(per_core)),
                number(more(cache).max(0.0)),
            ),
            format!(
                "The object itself is {} bytes instead of {}. The cache has {} logs, in {} with its tables: that does not grow with the number of objects.",
                lent.object_bytes,
                shared.found.object_bytes,
                lent.logs,
                size(lent.cache_bytes),
            ),
        ]
    }
}

/// `15 million`, `1234`.
pub(crate) fn count(objects: u64) -> String {
    match objects / 1_000_000 {
        millions if millions > 0 && objects.is_multiple_of(1_000_000) => {
            format!("{millions} million")
        }
        _ => objects.to_string(),
    }
}

/// `3.12 GB`, `98.1 MB`.
pub(crate) fn size(bytes: u64) -> String {
    if bytes >= 1_000_000_000 {
        format!("{} GB", number(bytes as f64 / 1e9))
    } else {
        format!("{} MB", number(bytes as f64 / 1e6))
    }
}

fn text(output: &Output, figure: &LogMemoryFigure) -> String {
    let mut text = output.strong(&format!(
        "{} objects with a counter each, on {} cores ({})",
        count(figure.objects),
        figure.cores,
        figure.figure
    ));
    text.push_str("\n\n");
    let heads = ["an object", "resident", "each", "thesis"];
    let line = |name: &str, cells: [String; 4]| {
        let cells: String = cells.iter().map(|cell| right(cell, 13)).collect();
        format!("{}{cells}\n", left(name, 20))
    };
    text.push_str(&output.faint(&line("", heads.map(str::to_owned))));
    for row in &figure.rows {
        text.push_str(&line(
            row.name,
            [
                format!("{} bytes", row.found.object_bytes),
                size(row.found.resident_bytes),
                format!("{:.1} bytes", row.bytes_per_object),
                format!("{} bytes", row.thesis_bytes),
            ],
        ));
    }
    text.push('\n');
    for finding in figure.findings() {
        text.push_str(&wrap(&finding, ""));
        text.push('\n');
    }
    text.push('\n');
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn figure() -> LogMemoryFigure {
        let row = |kind, name, role, bytes: u64| Row {
            kind,
            name,
            role,
            found: Found {
                object_bytes: bytes,
                resident_bytes: 1000 * (bytes + 16),
                cache_bytes: 5000,
                logs: 10,
            },
            bytes_per_object: bytes as f64 + 16.0,
            thesis_bytes: bytes,
        };
        LogMemoryFigure {
            figure: "figure <8-5>",
            version: "0.0.0",
            machine: crate::report::examples::report().machine,
            objects: 1000,
            cores: 48,
            rows: vec![
                row(Kind::Shared, "shared", Role::Today, 192),
                row(Kind::PerCore, "per core", Role::Peer, 576),
                row(Kind::LogCache, "lent", Role::Best, 200),
            ],
        }
    }

    fn asked(objects: Option<u64>) -> LogMemory {
        LogMemory {
            objects,
            cores: 48,
            output: None,
            force: false,
        }
    }

    #[test]
    fn as_many_objects_as_fit_and_no_more_than_the_thesis_had() {
        assert_eq!(how_many(&asked(None), u64::MAX).ok(), Some(OBJECTS));
        assert_eq!(how_many(&asked(None), 2 * 608 * 1000).ok(), Some(1000));
        assert_eq!(how_many(&asked(Some(1000)), 608 * 1000).ok(), Some(1000));
        assert!(how_many(&asked(Some(1001)), 608 * 1000).is_err());
    }

    #[test]
    fn the_findings_say_what_each_object_costs_more() {
        let findings = figure().findings().join(" ");
        assert!(findings.contains("384 bytes more"), "{findings}");
        assert!(findings.contains("cost 8.00"), "{findings}");
    }
}
