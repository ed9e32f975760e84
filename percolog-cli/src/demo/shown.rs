//! All that the demonstration has found out.

use serde::Serialize;

use super::duel::Duel;
use super::simulate::Simulated;

/// All that there is to show.
#[derive(Serialize)]
pub(super) struct Shown {
    /// The version of percolog.
    pub(super) version: &'static str,
    /// The simulated part.
    pub(super) simulated: Simulated,
    /// Why the simulated part is a stored run, and how to have one made here; none if it was made just now.
    pub(super) stored_because: Option<String>,
    /// How many times as fast the fix was foretold to make it on the simulated machine.
    pub(super) foretold: f64,
    /// How many times as fast it has made it there.
    pub(super) real: f64,
    /// The lines that the fix changes.
    pub(super) fix: Vec<String>,
    /// The measured part.
    pub(super) measured: Duel,
}
