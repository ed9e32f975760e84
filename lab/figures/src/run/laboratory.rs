//! Runs a cell: this command in a process of its own, here or under the simulator.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use percolog_sim::machine;
use percolog_sim::run::Simulation;

use super::Cell;
use percolog_cells::Values;

/// The longest that a process may take.
const LONGEST: Duration = Duration::from_secs(900);

/// The seed of all simulations: with it they are what they were.
pub const SEED: u64 = 1;

/// Who runs cells.
#[derive(Clone, Debug)]
pub struct Laboratory {
    command: PathBuf,
    words: Vec<OsString>,
    longest: Duration,
}

/// Why a cell gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellError {
    /// There is no simulator here.
    #[error("cannot be simulated here: {0}")]
    NoSimulator(String),
    /// It took too long.
    #[error("given up after {} s", .0.as_secs())]
    TooLong(Duration),
    /// It failed, or its answer cannot be used.
    #[error("{0}")]
    Failed(String),
}

impl CellError {
    fn failed(error: impl std::fmt::Display) -> Self {
        // One line: it stands in a table.
        let text = error.to_string();
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        Self::Failed(line.unwrap_or("it failed").trim().to_owned())
    }
}

impl Laboratory {
    /// Cells are run by `command`, which is given these words, then those of the cell, and prints its values.
    pub fn new(command: PathBuf, words: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            command,
            words: words.into_iter().collect(),
            longest: LONGEST,
        }
    }

    /// Whether there is a simulator.
    ///
    /// # Errors
    /// There is none: the way to one.
    pub fn can_simulate(&self) -> Result<(), CellError> {
        percolog_sim::run::available().map_err(|error| CellError::NoSimulator(error.to_string()))
    }

    /// Runs the cell once.
    ///
    /// # Errors
    /// It cannot be run, fails, or takes too long.
    pub fn run(&self, cell: &Cell) -> Result<Values, CellError> {
        let words = self
            .words
            .iter()
            .cloned()
            .chain(cell.words().map(OsString::from));
        if cell.is_here() {
            self.measure(words)
        } else {
            self.simulate(cell, words)
        }
    }

    fn measure(&self, words: impl Iterator<Item = OsString>) -> Result<Values, CellError> {
        let mut child = Command::new(&self.command)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(CellError::failed)?;
        // Read while it runs: a full pipe would hold it up.
        let out = child.stdout.take().map(reader);
        let errors = child.stderr.take().map(reader);
        let status = self.wait(&mut child)?;
        let read = |reader: Option<thread::JoinHandle<Vec<u8>>>| {
            reader
                .and_then(|reader| reader.join().ok())
                .unwrap_or_default()
        };
        let (out, errors) = (read(out), read(errors));
        if !status.success() {
            let said = String::from_utf8_lossy(&errors);
            return Err(CellError::failed(if said.trim().is_empty() {
                status.to_string()
            } else {
                said.into_owned()
            }));
        }
        values(&out)
    }

    fn wait(&self, child: &mut Child) -> Result<std::process::ExitStatus, CellError> {
        let started = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(CellError::failed)? {
                return Ok(status);
            }
            if started.elapsed() > self.longest {
                // It has ended by itself if it cannot be killed.
                let _ = child.kill();
                child.wait().map_err(CellError::failed)?;
                return Err(CellError::TooLong(self.longest));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn simulate(
        &self,
        cell: &Cell,
        words: impl Iterator<Item = OsString>,
    ) -> Result<Values, CellError> {
        self.can_simulate()?;
        let mut machine = machine::built_in(&cell.machine).map_err(CellError::failed)?;
        let threads = cell.threads() as usize;
        // The whole machine, however few of its cores have something to do; or a larger one of its kind.
        if threads > machine.cores {
            machine = machine.with_cores(threads).map_err(CellError::failed)?;
        }
        let run = Simulation::new(machine)
            .seed(SEED)
            .follow(false)
            .top_lines(0)
            .objects(false)
            .timeout(self.longest)
            .capture(true)
            .run(&self.command, words)
            .map_err(CellError::failed)?;
        if run.timed_out {
            return Err(CellError::TooLong(self.longest));
        }
        if !run.status.success() {
            return Err(CellError::failed(String::from_utf8_lossy(&run.stderr)));
        }
        let values = values(&run.stdout)?;
        let Some(process) = run.main() else {
            return Err(CellError::failed("nothing was simulated"));
        };
        let region = &process.region;
        if region.operations == 0 {
            return Ok(values);
        }
        let operations = region.operations as f64;
        let moved = region.counts.transfers() + region.counts.upgrades;
        Ok(values
            .with("lines", moved as f64 / operations)
            .with("transfers", region.counts.transfers() as f64 / operations)
            .with("upgrades", region.counts.upgrades as f64 / operations)
            .with(
                "waiting",
                region.counts.stall as f64 / region.busy.max(1) as f64,
            ))
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read is what there is.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn values(printed: &[u8]) -> Result<Values, CellError> {
    let values: Values =
        serde_json::from_slice(printed).map_err(|_| CellError::failed("it printed no values"))?;
    match values.0.iter().find(|(_, value)| !value.is_finite()) {
        None => Ok(values),
        Some((name, _)) => Err(CellError::Failed(format!("`{name}` is no number"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn shell(script: &str) -> Laboratory {
        let words = ["-c", script].map(OsString::from);
        Laboratory::new("/bin/sh".into(), words)
    }

    fn cell() -> Cell {
        Cell {
            machine: "here".to_owned(),
            program: "counters".to_owned(),
            parameters: BTreeMap::new(),
            repetitions: 1,
            revision: 1,
        }
    }

    #[test]
    fn what_a_process_prints_are_its_values() {
        let values = shell("echo '{\"rate\": 3.5}'").run(&cell());
        assert_eq!(values.expect("it prints them").get("rate"), Some(3.5));
    }

    #[test]
    fn a_process_that_fails_is_told_of_in_one_line() {
        let failed = |script: &str| {
            shell(script)
                .run(&cell())
                .expect_err("it fails")
                .to_string()
        };
        assert_eq!(failed("echo first >&2; echo last >&2; exit 1"), "last");
        assert!(failed("kill -9 $$").contains("signal"));
        assert_eq!(failed("echo nonsense"), "it printed no values");
        assert_eq!(failed(":"), "it printed no values");
        let missing = Laboratory::new("/no/such/command".into(), []);
        assert!(missing.run(&cell()).is_err());
    }

    #[test]
    fn a_process_that_hangs_is_ended() {
        let mut laboratory = shell("exec sleep 60");
        laboratory.longest = Duration::from_millis(20);
        assert!(matches!(
            laboratory.run(&cell()),
            Err(CellError::TooLong(_))
        ));
    }
}
