//! What a simulation found: raw results, their summary, and how it is printed.
//!
//! Each simulated process leaves a [`ProcessResult`]. A [`Summary`] says what they come to, with names for addresses; it is
//! printed by [`Summary::to_text`], and serialized as described in `docs/json.md`.

mod raw;
mod summary;
mod symbols;
mod text;

pub use raw::{
    CoreResult, Counts, Ending, FORMAT, LineResult, PlaceResult, ProcessResult, RawError, Region,
    Sleeper,
};
pub use summary::{
    Baseline, LineSummary, MachineSummary, NOT_MODELLED, Nothing, OneCore, PerOperation,
    PlaceSummary, ProcessSummary, RegionSummary, SleeperSummary, Spread, SpreadOf, Summary, Totals,
    VERSION,
};
pub use symbols::Place;
