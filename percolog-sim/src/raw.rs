//! The raw result of one machine, as the plugin writes it: of a process, and of those that were forked from it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of the raw results that this library reads.
pub const FORMAT: u64 = 2;

/// What one process did, and all that were forked from it, as long as they did not become other programs: they have one machine. Times are
/// in ticks: see [`ProcessResult::ticks_per_cycle`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ProcessResult {
    /// The version of this format.
    pub format: u64,
    /// The number of the first process.
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
    /// How many threads they have had.
    pub threads: u64,
    /// How many instructions they executed.
    pub instructions: u64,
    /// How much time passed.
    pub elapsed: u64,
    /// How many instructions came before that, without being simulated because they were to be skipped.
    #[serde(default)]
    pub skipped_instructions: u64,
    /// How much time they took.
    #[serde(default)]
    pub skipped_time: u64,
    /// How many accesses to memory were looked at before that although nothing is made of them: few, where QEMU can do
    /// without.
    #[serde(default)]
    pub skipped_but_looked_at: u64,
    /// What they did, from beginning to end.
    pub whole: Counts,
    /// What it did between the marks.
    pub region: Region,
    /// What each core did that had something to do.
    pub cores_detail: Vec<CoreResult>,
    /// How many lines went from core to core: in the region, if there was one.
    pub lines_seen: u64,
    /// The worst lines of memory, the worst first: in the region, if there was one.
    pub lines: Vec<LineResult>,
    /// What has become of each of the run's [wishes for free lines](crate::run::Simulation::free), in their order.
    #[serde(default)]
    pub free: Vec<FreeResult>,
    /// The free lines that went from core to core, in ascending order; they wait for nothing.
    #[serde(default)]
    pub free_lines: Vec<LineResult>,
    /// Memory that processes on other machines may use too, as far as those of this one have used it.
    pub shared: Vec<SharedResult>,
    /// The labels that the program has set.
    #[serde(default)]
    pub labels: Vec<LabelResult>,
    /// Stacks that the lines refer to.
    #[serde(default)]
    pub stacks: Vec<StackResult>,
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
    /// All processes that were on the machine: this one, and those that were forked from it and from one another.
    #[serde(default)]
    pub processes: Vec<OnMachine>,
    /// In which order its threads came to what they share; only where they were held back on purpose.
    #[serde(default)]
    pub interleaving: Option<Interleaving>,
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
    /// It was measured for as long as was asked for, and then ended.
    Stopped,
    /// It had not ended when the result was written.
    #[default]
    Running,
}

/// How the threads of a process came to the memory that they share, when they were held back on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct Interleaving {
    /// Accesses at which a thread could have been held back.
    pub points: u64,
    /// How often one was.
    pub delays: u64,
    /// A number that stands for the order in which the threads came to the points: two runs with the same number were
    /// the same run.
    pub order: u64,
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
    /// Its address, in the process that it belongs to; of memory that processes share, in the first that mapped it.
    pub line: u64,
    /// The process that it belongs to, by its place in [`ProcessResult::processes`], if it is not the first and this is no memory that
    /// processes share.
    #[serde(default)]
    pub process: Option<u32>,
    /// What the kernel calls the memory, if processes can share it.
    #[serde(default)]
    pub file: Option<String>,
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
    /// The cores that took part, in ascending order.
    #[serde(default)]
    pub by_core: Vec<OfCore>,
    /// Which of its bytes were used, in ascending order: by accesses that needed more than the core's own cache, and, once the
    /// line had moved some times, by the others.
    #[serde(default)]
    pub spans: Vec<SpanResult>,
    /// How often it came to a core that then used bytes which others had written since the core last had it.
    #[serde(default)]
    pub true_events: u64,
    /// How often it came to a core because of a write by another, and the core used none of the bytes written.
    #[serde(default)]
    pub false_events: u64,
    /// How often it came because of a write by another, and not all that the cores did with it was seen.
    #[serde(default)]
    pub undecided_events: u64,
    /// The address in it that was touched most.
    #[serde(default)]
    pub touched: Option<u64>,
    /// Whether that was on the stack of whoever touched it.
    #[serde(default)]
    pub on_stack: bool,
    /// The block of an allocator that was touched most, when the line moved.
    #[serde(default)]
    pub block: Option<BlockResult>,
    /// The memory that the program has mapped itself, likewise.
    #[serde(default)]
    pub mapping: Option<BlockResult>,
    /// Who called the functions that the instructions are in.
    #[serde(default)]
    pub chains: Vec<ChainResult>,
}

/// What one core had to do with a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct OfCore {
    /// Its number.
    pub core: u32,
    /// How often it had to wait.
    pub events: u64,
    /// How long, in ticks.
    pub stall: u64,
}

/// Bytes of a line that instructions access together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SpanResult {
    /// The first of them, counted from the beginning of the line.
    pub offset: u32,
    /// How many.
    pub size: u32,
    /// The cores that read them.
    pub readers: Vec<u32>,
    /// The cores that wrote them.
    pub writers: Vec<u32>,
    /// How often the line, or the right to write it, had to come for them.
    pub events: u64,
}

/// What the program calls some of its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct LabelResult {
    /// The name.
    pub name: String,
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub size: u64,
}

/// A process that was on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct OnMachine {
    /// Its number.
    pub pid: u32,
    /// That of the process which forked it.
    pub parent: u32,
    /// How many threads it had.
    pub threads: u64,
    /// 1 if it left to become a program that is simulated on a machine of its own, or else 0.
    pub executed: u8,
    /// The signal that killed it, or 0.
    pub signal: i32,
}

/// Memory that other processes may use too, as far as one has used it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SharedResult {
    /// The device of the file, as the kernel writes it. Memory without a file has one as well.
    pub device: String,
    /// The number of the file on it.
    pub number: u64,
    /// What `/proc/self/maps` calls it.
    pub name: String,
    /// The first byte that was used, counted from the beginning of the file.
    pub first: u64,
    /// The byte behind the last.
    pub end: u64,
    /// Where the first one lay.
    pub address: u64,
    /// 1 if the process could write there, or else 0.
    pub writable: u8,
}

/// What has become of a wish for free lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct FreeResult {
    /// How many lines it is; 0 if there was nothing of that name.
    pub lines: u64,
    /// How many accesses to them needed more than the core's own cache.
    pub events: u64,
}

/// Memory that an allocator has given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct BlockResult {
    /// Its first byte.
    pub address: u64,
    /// As many bytes as were asked for.
    pub size: u64,
    /// The stack of who asked for it, by its number.
    #[serde(default)]
    pub stack: Option<u32>,
}

/// An instruction that waited for a line, called by somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ChainResult {
    /// Its address.
    pub pc: u64,
    /// Whether it wrote.
    pub write: bool,
    /// The stack, by its number.
    pub stack: u32,
    /// How often it had to wait.
    pub events: u64,
}

/// The registers of a thread and the top of its stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct StackResult {
    /// What it is referred to by.
    pub number: u32,
    /// The instruction that the thread was at.
    pub pc: u64,
    /// The general registers, in the order of instructions: sixteen of x86-64, 32 of aarch64, the stack pointer the last.
    pub registers: Vec<u64>,
    /// What lay at the stack pointer and above, in hexadecimal digits.
    pub memory: String,
}

impl StackResult {
    /// What lay at the stack pointer and above.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let digit = |sign: &u8| char::from(*sign).to_digit(16).unwrap_or(0) as u8;
        self.memory
            .as_bytes()
            .chunks_exact(2)
            .map(|pair| digit(&pair[0]) << 4 | digit(&pair[1]))
            .collect()
    }
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

    /// Nanoseconds of the described machine.
    pub(crate) fn nanoseconds(&self, ticks: u64) -> f64 {
        let ticks_per_us = self.ticks_per_cycle.max(1) as f64 * f64::from(self.megahertz.max(1));
        ticks as f64 * 1000.0 / ticks_per_us
    }

    /// How long cores had a thread of the process, added up, in ticks; waiting for lines included.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.cores_detail.iter().map(|core| core.busy).sum()
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
