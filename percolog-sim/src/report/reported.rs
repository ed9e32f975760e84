//! A report that is read again, as far as it can be compared.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::diff::LineFigures;
use super::summary::VERSION;

/// A report, as far as it can be compared. It is read from the JSON of a [`Summary`](super::Summary).
#[derive(Clone, Debug, Deserialize)]
pub struct Reported {
    pub(super) machine: MachineOf,
    pub(super) process: ProcessOf,
    pub(super) region: Option<RegionOf>,
    pub(super) totals: TotalsOf,
    pub(super) per_operation: Option<PerOperationOf>,
    pub(super) stall_share: f64,
    pub(super) operations_per_ms: Option<f64>,
    pub(super) lines: Vec<LineOf>,
    #[serde(default)]
    pub(super) not_reproducible: Vec<String>,
    #[serde(default)]
    pub(super) caveats: Vec<CaveatOf>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct CaveatOf {
    pub(super) text: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct MachineOf {
    pub(super) name: String,
    pub(super) cores: usize,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ProcessOf {
    pub(super) program: String,
    pub(super) elapsed_ns: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct RegionOf {
    pub(super) operations: u64,
    pub(super) elapsed_ns: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TotalsOf {
    pub(super) transfers: u64,
    pub(super) upgrades: u64,
    pub(super) stall_ns: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PerOperationOf {
    pub(super) transfers: f64,
    pub(super) upgrades: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct LineOf {
    pub(super) memory: String,
    pub(super) label: Option<String>,
    pub(super) totals: TotalsOf,
    pub(super) share: f64,
    #[serde(default)]
    pub(super) places: Vec<PlaceOf>,
    #[serde(default)]
    pub(super) object: Option<ObjectOf>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PlaceOf {
    pub(super) function: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ObjectOf {
    pub(super) name: String,
    #[serde(default)]
    pub(super) offset: i64,
}

/// Why a file is no report that can be compared.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReportError {
    /// It is no report, or a damaged one.
    Syntax(serde_json::Error),
    /// It is of another version.
    Version(Option<u64>),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => write!(f, "it is no report of `percolog sim --json`: {error}"),
            Self::Version(None) => {
                f.write_str("it is no report of `percolog sim --json`: it has no version")
            }
            Self::Version(Some(version)) => {
                write!(
                    f,
                    "its version is {version}; version {VERSION} is understood"
                )
            }
        }
    }
}

impl std::error::Error for ReportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Syntax(error) => Some(error),
            Self::Version(_) => None,
        }
    }
}

impl Reported {
    /// Reads a report: the JSON of a summary, or of what holds one as `summary`.
    ///
    /// # Errors
    ///
    /// When it is something else, or of another version.
    pub fn from_json(text: &[u8]) -> Result<Self, ReportError> {
        // First the version alone: the rest may look different in another one.
        #[derive(Deserialize)]
        struct Head {
            version: Option<u64>,
            summary: Option<serde_json::Value>,
        }
        let head: Head = serde_json::from_slice(text).map_err(ReportError::Syntax)?;
        if head.version != Some(VERSION) {
            return Err(ReportError::Version(head.version));
        }
        match head.summary {
            Some(summary) => serde_json::from_value(summary),
            None => serde_json::from_slice(text),
        }
        .map_err(ReportError::Syntax)
    }

    pub(super) fn elapsed_ns(&self) -> f64 {
        match &self.region {
            Some(region) => region.elapsed_ns,
            None => self.process.elapsed_ns,
        }
    }

    /// What the counts of lines are divided by.
    pub(super) fn operations(&self) -> Option<f64> {
        let operations = self.region.as_ref()?.operations;
        (operations > 0).then_some(operations as f64)
    }

    /// Lines under the names by which they can be found again; those of one name together.
    pub(super) fn by_name(&self, per_operation: bool) -> BTreeMap<String, LineFigures> {
        let divisor = self.operations().filter(|_| per_operation).unwrap_or(1.0);
        let mut lines: BTreeMap<String, LineFigures> = BTreeMap::new();
        for line in &self.lines {
            let entry = lines.entry(line.name()).or_default();
            entry.lines += 1;
            entry.share += line.share;
            entry.transfers += line.totals.transfers as f64 / divisor;
            entry.upgrades += line.totals.upgrades as f64 / divisor;
            entry.waiting_ns += line.totals.stall_ns / divisor;
        }
        lines
    }
}

impl LineOf {
    /// Addresses differ from build to build, and what is allocated has none but that: the worst place tells such lines apart.
    fn name(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        if let Some(object) = self
            .object
            .as_ref()
            .filter(|object| !object.name.is_empty())
        {
            return if object.offset > 0 {
                format!("{}+{:#x}", object.name, object.offset)
            } else {
                object.name.clone()
            };
        }
        match (self.memory.as_str(), self.places.first()) {
            ("heap" | "a thread's stack" | "allocated memory", Some(place)) => {
                format!("{}, used in {}", self.memory, place.function)
            }
            _ => self.memory.clone(),
        }
    }
}
