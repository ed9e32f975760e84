//! Flags that say which part of a program counts.

use std::time::Duration;

use percolog_sim::run::{Simulation, Skip};

/// Which part counts.
#[derive(Debug, clap::Args)]
pub(crate) struct Part {
    /// Measure a function without marks: what threads do while they are in it; each return is an operation
    #[arg(long, value_name = "SYMBOL")]
    roi_fn: Option<String>,

    /// Do not simulate the beginning: so much time (`2s`, `50ms`), so many instructions (`100M`), or all before the `region`
    #[arg(long, value_name = "TIME|COUNT|region", value_parser = skip)]
    skip: Option<Skip>,

    /// End the program when so much of its time was measured: `5s`, `20ms`, `300us`
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    lasts: Option<Duration>,
}

impl Part {
    /// Tells the simulation.
    pub(super) fn of(&self, mut simulation: Simulation) -> Simulation {
        if let Some(name) = &self.roi_fn {
            simulation = simulation.region_function(name);
        }
        if let Some(skip) = self.skip {
            simulation = simulation.skip(skip);
        }
        match self.lasts {
            Some(time) => simulation.measure_for(time),
            None => simulation,
        }
    }
}

fn skip(text: &str) -> Result<Skip, String> {
    if text == "region" {
        return Ok(Skip::Region);
    }
    if let Ok(time) = time(text) {
        return Ok(Skip::Time(time));
    }
    match count(text) {
        Some(0) => Err("to skip nothing, leave it out".to_owned()),
        Some(instructions) => Ok(Skip::Instructions(instructions)),
        None => Err(
            "a time is needed (2s, 50ms, 300us), a number of instructions (100M, 5k), or `region`"
                .to_owned(),
        ),
    }
}

/// A whole number, of thousands (`k`), millions (`M`) or thousands of millions (`G`) if it says so.
fn count(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1000),
        (at, 'M') => (&text[..at], 1_000_000),
        (at, 'G') => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is needed: 5s, 20ms, 300us or 10ns".to_owned();
    // The longest unit first: `ms` ends with `s`.
    let (digits, unit) = [
        ("ms", 1e-3),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ns", 1e-9),
        ("s", 1.0),
    ]
    .into_iter()
    .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))
    .ok_or_else(wrong)?;
    let number = digits.parse::<f64>().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())?;
    if time.is_zero() {
        return Err("a time of more than nothing is needed".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts_are_told_apart() {
        assert_eq!(skip("2s"), Ok(Skip::Time(Duration::from_secs(2))));
        assert_eq!(skip("1.5ms"), Ok(Skip::Time(Duration::from_micros(1500))));
        assert_eq!(skip("100M"), Ok(Skip::Instructions(100_000_000)));
        assert_eq!(skip("7"), Ok(Skip::Instructions(7)));
        assert_eq!(skip("region"), Ok(Skip::Region));
        for wrong in [
            "",
            "0",
            "0s",
            "-1s",
            "s",
            "M",
            "5m",
            "99999999999G",
            "regions",
        ] {
            assert!(skip(wrong).is_err(), "{wrong}");
        }
        assert_eq!(time("300us"), Ok(Duration::from_micros(300)));
        for wrong in ["5", "5M", "inf s", "infs", "nans", "0ns"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
