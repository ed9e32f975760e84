//! A run that was made elsewhere, for machines on which nothing can be simulated.
//!
//! `percolog demo --store FILE` makes `stored.json`; a test holds it against what is simulated now.

use super::simulate::Simulated;
use percolog_cli::failure::Failure;

const STORED: &str = include_str!("stored.json");

/// The stored run.
pub(super) fn stored() -> Result<Simulated, Failure> {
    serde_json::from_str(STORED)
        .map_err(|error| Failure::Work(format!("the stored run cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_run_tells_the_story() {
        let run = stored().expect("it can be read");
        assert_eq!(run.machine.cores, 48);
        assert_eq!(run.before.len(), run.after.len());
        for (before, after) in run.before.iter().zip(&run.after) {
            assert_eq!(before.cores, after.cores);
        }
        let place = run.found.place.shown();
        assert!(
            place.contains("percolog-cli/src/demo/program/before.rs:"),
            "{place}"
        );
        assert_eq!(
            run.found.fits.as_deref(),
            Some("percolog::refcount::CoreArc")
        );
        // More cores are hardly of use before, and the fix is worth what was foretold.
        let (before, after) = run.growth();
        assert!(before < 5.0 && after > 20.0, "{before} {after}");
        let kept = run.real() / run.found.foretold;
        assert!((0.8..1.25).contains(&kept), "{kept}");
    }
}
