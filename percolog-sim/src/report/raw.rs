//! The raw result of one process, as the plugin writes it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of the raw results that this library reads.
pub const FORMAT: u64 = 1;

/// What one process did. Times are in ticks: see [`ProcessResult::ticks_per_cycle`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ProcessResult {
    /// The version of this format.
    pub format: u64,
    /// The number of the process.
    pub pid: u32,
    /// Who started it.
    pub parent: u32,
    /// The program.
    pub program: String,
    /// The name of the machine.
    pub machine: String,
    /// Its cores.
    pub cores: usize,
    /// How the simulation of this process ended.
    pub ending: Ending,
    /// With which status it ended, or by which signal.
    pub exit_code: i32,
    /// How many ticks there are in a cycle of the machine.
    pub ticks_per_cycle: u64,
    /// How many million cycles the machine makes in a second.
    pub megahertz: u32,
    /// How many bytes a line of memory has.
    pub line_size: u64,
    /// How many threads the process has had.
    pub threads: u64,
    /// How many instructions they executed.
    pub instructions: u64,
    /// How much time passed.
    pub elapsed: u64,
    /// What the whole process did.
    pub whole: Counts,
    /// What it did between the marks.
    pub region: Region,
    /// What each core did that had something to do.
    pub cores_detail: Vec<CoreResult>,
    /// How many lines went from core to core: in the region, if there was one.
    pub lines_seen: u64,
    /// The worst lines of memory, the worst first: in the region, if there was one.
    pub lines: Vec<LineResult>,
    /// What was mapped where, as in `/proc/self/maps`.
    pub maps: String,
    /// Who slept when the process could not go on.
    pub sleepers: Vec<Sleeper>,
    /// What ran without being simulated.
    pub unsimulated: Vec<String>,
    /// Why another run may give other figures.
    pub not_reproducible: Vec<String>,
    /// What is wrong with the marks.
    pub warnings: Vec<String>,
    /// How often a thread was let go although it was not its turn.
    pub forced: u64,
    /// How many accesses were made out of order because of that.
    pub unordered: u64,
    /// The processes it started.
    pub children: Vec<u32>,
}

/// How the simulation of a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Ending {
    /// The process ended itself.
    Exit,
    /// It was killed by a signal.
    Signal,
    /// All its threads slept, and nobody was there to wake them.
    Deadlock,
    /// It became another program.
    Exec,
    /// It had not ended when the result was written.
    #[default]
    Running,
}

/// Coherence events, and the time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Counts {
    /// Lines that came from memory and had never been in a cache.
    pub cold: u64,
    /// Lines that came from memory again.
    pub memory: u64,
    /// Lines that came from another core's cache to be read.
    pub reads: u64,
    /// Lines that came from another core's cache to be written.
    pub writes: u64,
    /// Lines that were in the cache to be read, and had to be taken from the others to be written.
    pub upgrades: u64,
    /// Copies that other cores lost.
    pub invalidations: u64,
    /// How long cores waited for all this, in ticks, but for lines that had never been in a cache.
    pub stall: u64,
    /// How much of this was waiting for others who wanted the same line.
    pub queued: u64,
    /// How long cores waited for lines that had never been in a cache.
    pub cold_stall: u64,
}

impl Counts {
    /// Lines that went from one core's cache to another's.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.reads + self.writes
    }

    /// All events that needed more than the core's own cache.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.cold + self.memory + self.reads + self.writes + self.upgrades
    }
}

/// What happened between the marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Region {
    /// How often a thread has entered it.
    pub entered: u64,
    /// How many operations the threads said they did in it.
    pub operations: u64,
    /// From the first entry to the last exit, in ticks.
    pub elapsed: u64,
    /// How long threads were in it and had a core, added up, in ticks; waiting for lines included.
    pub busy: u64,
    /// What they did in it.
    pub counts: Counts,
    /// How many threads have entered it.
    pub threads: u64,
}

/// What a core did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CoreResult {
    /// Its number.
    pub core: u32,
    /// How long it had a thread, in ticks; waiting for lines included.
    pub busy: u64,
    /// What its threads did.
    pub counts: Counts,
}

/// What happened to a line of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct LineResult {
    /// Its address.
    pub line: u64,
    /// What was done to it.
    pub counts: Counts,
    /// The cores that fetched it to read.
    pub readers: Vec<u32>,
    /// The cores that fetched it to write.
    pub writers: Vec<u32>,
    /// The instructions that did, the worst first.
    pub places: Vec<PlaceResult>,
    /// Events of further instructions.
    pub elsewhere: u64,
    /// What the program calls it.
    pub label: Option<String>,
}

/// An instruction that waited for a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PlaceResult {
    /// Its address.
    pub pc: u64,
    /// Whether it wrote.
    pub write: bool,
    /// How often it had to wait.
    pub events: u64,
    /// How long, in ticks.
    pub stall: u64,
}

/// A thread that slept when the process could not go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Sleeper {
    /// Its number within the process.
    pub thread: u64,
    /// What it waited for.
    pub why: String,
    /// Where it was.
    pub pc: u64,
    /// The word it waited at, or 0.
    pub address: u64,
}

/// Why a raw result could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum RawError {
    /// It is of another version.
    Format(Option<u64>),
    /// It is not what the plugin writes.
    Syntax(serde_json::Error),
    /// A number in it makes no sense.
    Absurd(&'static str),
}

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(Some(other)) => {
                write!(
                    f,
                    "its format is {other}; this version reads format {FORMAT}"
                )
            }
            Self::Format(None) => write!(f, "it does not say its format"),
            Self::Syntax(error) => write!(f, "{error}"),
            Self::Absurd(what) => write!(f, "{what} is 0"),
        }
    }
}

impl std::error::Error for RawError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Syntax(error) => Some(error),
            _ => None,
        }
    }
}

impl ProcessResult {
    /// Reads what the plugin has written.
    ///
    /// # Errors
    ///
    /// When it is of another version, or damaged.
    pub fn from_json(text: &[u8]) -> Result<Self, RawError> {
        // First the version alone: the rest may look different in another one.
        #[derive(Deserialize)]
        struct Version {
            format: Option<u64>,
        }
        let version: Version = serde_json::from_slice(text).map_err(RawError::Syntax)?;
        if version.format != Some(FORMAT) {
            return Err(RawError::Format(version.format));
        }
        let result: Self = serde_json::from_slice(text).map_err(RawError::Syntax)?;
        if result.ticks_per_cycle == 0 {
            return Err(RawError::Absurd("ticks_per_cycle"));
        }
        if result.megahertz == 0 {
            return Err(RawError::Absurd("megahertz"));
        }
        Ok(result)
    }

    /// What the report is about: the region if the program has marked one, or else all.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        if self.region.entered > 0 {
            &self.region.counts
        } else {
            &self.whole
        }
    }
}
