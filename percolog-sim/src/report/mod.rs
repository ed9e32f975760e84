//! What a simulation found: raw results, their summary, and how it is printed.
//!
//! Each simulated process leaves a [`ProcessResult`]. A [`Summary`] says what they come to, with names for addresses; it is
//! printed by [`Summary::to_text`], and serialized as described in `docs/json.md`.

mod blame;
mod callers;
mod caveats;
mod code;
mod conclusion;
mod diff;
#[cfg(test)]
mod examples;
mod findings;
mod instruction;
mod logged;
mod names;
mod pattern;
mod reported;
mod scaling;
#[cfg(test)]
mod schema_tests;
mod sharing_text;
mod skipped;
mod spread;
mod suggestions;
mod summary;
mod text;
mod unwind;
mod users;

pub use crate::raw::{
    BlockResult, ChainResult, CoreResult, Counts, Ending, FORMAT, FreeResult, Interleaving,
    LabelResult, LineResult, OfCore, PlaceResult, ProcessResult, RawError, Region, SharedResult,
    Sleeper, SpanResult, StackResult,
};
pub use crate::symbols::Place;
pub use callers::CallerSummary;
pub use caveats::{Caveat, CaveatKind, SharedMemory};
pub use diff::{Change, Difference, FigureChange, LineChange, LineFigures};
pub use findings::{
    ObjectKind, ObjectSummary, ObjectWhatIf, Pattern, Sharing, SpanSummary, Suggestion, Verdict,
    WhatIf,
};
pub use reported::{ReportError, Reported};
pub use scaling::{Measure, Scaling, ScalingPoint};
pub use skipped::SkippedSummary;
pub use spread::{Spread, SpreadOf};
pub use summary::{
    Baseline, CoreShare, FreeSummary, LineSummary, MachineSummary, Nothing, OneCore, PerOperation,
    PlaceSummary, ProcessSummary, RegionSummary, SleeperSummary, Summary, Totals, VERSION,
};

/// The JSON Schema (2020-12) of a [`Summary`] as JSON.
pub const SCHEMA: &str = include_str!("../../docs/report.schema.json");
