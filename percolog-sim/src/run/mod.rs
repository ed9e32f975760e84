//! Runs a program under the simulator: QEMU, the plugin, the machine's files, and what comes out.

mod error;
mod files;
mod free;
mod functions;
mod part;
mod plugin;
mod process;
mod program;
mod qemu;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

pub use error::{FunctionFault, ProgramFault, SimulationError};
pub use free::{Free, FreeError, Freed};
pub use part::Skip;
pub use program::installed;
pub use qemu::{available, available_for_aarch64};

use crate::model::Machine;
use crate::raw::ProcessResult;

/// A machine and how programs are run on it.
///
/// ```no_run
/// # fn of(machine: percolog_sim::model::Machine) -> Result<(), percolog_sim::run::SimulationError> {
/// use percolog_sim::run::Simulation;
///
/// let run = Simulation::new(machine).run("./stress", ["--threads", "48"])?;
/// let transfers = run.main().map(|process| process.counts().transfers());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a simulation does nothing until `run` is called"]
pub struct Simulation {
    machine: Machine,
    run_ahead: u64,
    seed: u64,
    verify: bool,
    follow: bool,
    chaos: bool,
    free_waits: bool,
    top_lines: usize,
    timeout: Option<Duration>,
    capture: bool,
    stdout_to_stderr: bool,
    keys_are_for_the_guest: bool,
    variables: Vec<(OsString, OsString)>,
    free: Vec<Free>,
    part: part::Part,
    objects: bool,
}

impl Simulation {
    /// How many cycles a core may be ahead of the others, unless told otherwise.
    pub const RUN_AHEAD: u64 = 1000;

    /// How many lines a result names, unless told otherwise.
    pub const TOP_LINES: usize = 20;

    /// Programs on `machine`: with exec'ed programs followed, and with the terminal for input and output.
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            run_ahead: Self::RUN_AHEAD,
            seed: 1,
            verify: false,
            follow: true,
            chaos: false,
            free_waits: false,
            top_lines: Self::TOP_LINES,
            timeout: None,
            capture: false,
            stdout_to_stderr: false,
            keys_are_for_the_guest: false,
            variables: Vec::new(),
            free: Vec::new(),
            part: part::Part::default(),
            objects: true,
        }
    }

    /// How many cycles a core may be ahead of the others. 0 orders all accesses exactly, and takes longest.
    pub fn run_ahead(mut self, cycles: u64) -> Self {
        self.run_ahead = cycles;
        self
    }

    /// Where all that is arbitrary comes from: `getrandom`, and who goes first when several could.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks the simulator against itself as it runs: slow.
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Whether programs that the program executes are simulated too. Those that are not are named in the report.
    pub fn follow(mut self, follow: bool) -> Self {
        self.follow = follow;
        self
    }

    /// Whether threads are held back where they touch what others touch too: just before and after, for as long as the seed
    /// says. The times of such a run mean nothing; whether the program still works does. See [`crate::chaos`].
    pub fn chaos(mut self, chaos: bool) -> Self {
        self.chaos = chaos;
        self
    }

    /// Sets a variable of the program's environment, which otherwise is that of this process.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let variable = (name.as_ref().to_owned(), value.as_ref().to_owned());
        self.variables.push(variable);
        self
    }

    /// Lets accesses to these lines cost nothing: no core waits for them, and they keep nobody waiting. All else is as before: who
    /// has them, in which order they are asked for, who is woken. So the program does the same, and its time says what
    /// the lines cost it. May be called several times; [`Run::freed`] says what has become of each wish.
    pub fn free(mut self, lines: Free) -> Self {
        self.free.push(lines);
        self
    }

    /// Whether [free](Simulation::free) lines are those of a lock that nobody waits for either, as if each thread had one of its own. Threads
    /// take turns as before; what they would have been spared does not count in the time of regions and programs. The default
    /// is no: lines that are not a lock's, but are read at one place until they change, would be taken for one.
    pub fn free_waits(mut self, free_waits: bool) -> Self {
        self.free_waits = free_waits;
        self
    }

    /// How many lines of memory the result names: the worst ones.
    pub fn top_lines(mut self, lines: usize) -> Self {
        self.top_lines = lines;
        self
    }

    /// Ends the program after this much time of the host; what it did until then is the result.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// After how much time of the host the program is ended, if that was said.
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.timeout
    }

    /// [`timeout`](Self::timeout), unless there is one already.
    pub(crate) fn timeout_unless_set(mut self, timeout: Duration) -> Self {
        self.timeout.get_or_insert(timeout);
        self
    }

    /// Keeps what the program writes to stdout and stderr for the [`Run`], and gives it no input.
    pub fn capture(mut self, capture: bool) -> Self {
        self.capture = capture;
        self
    }

    /// Whether what the program writes to stdout goes to stderr instead, so that stdout is left to the report.
    pub fn stdout_to_stderr(mut self, so: bool) -> Self {
        self.stdout_to_stderr = so;
        self
    }

    /// Whether Ctrl-C ends the program alone and not this process, so that the result is still reported.
    /// It changes what this whole process does with the signal for as long as the program runs: for commands.
    pub fn keys_are_for_the_guest(mut self, so: bool) -> Self {
        self.keys_are_for_the_guest = so;
        self
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Runs `program` with `arguments` to its end. A name without a slash is looked for in `PATH`.
    ///
    /// # Errors
    ///
    /// When QEMU is missing, the program cannot be simulated, or no result came out. How the program itself ended is
    /// no error: see [`Run::status`].
    pub fn run<I, A>(
        &self,
        program: impl AsRef<OsStr>,
        arguments: I,
    ) -> Result<Run, SimulationError>
    where
        I: IntoIterator<Item = A>,
        A: AsRef<OsStr>,
    {
        self.check()?;
        let program = program::find(program.as_ref());
        // Without QEMU there is nothing to be done, whatever may be wrong with the program.
        let processor = program
            .as_ref()
            .map_or(qemu::Processor::X86_64, |program| program.processor);
        let qemu = qemu::find(processor)?;
        let program = program?;
        let functions = match &self.part.function {
            Some(name) => functions::find(name, &program.path)?,
            None => Vec::new(),
        };
        let temporary = std::env::temp_dir();
        let folder = folder(&temporary)?;
        // Some hundred small files are written fastest where they need not be stored; the plugin, should it need a file
        // with a name, may not be loaded from there.
        let memory = Path::new("/dev/shm");
        let small = if std::env::var_os("TMPDIR").is_none() && memory.is_dir() {
            self::folder(memory).or_else(|_| self::folder(&temporary))?
        } else {
            self::folder(&temporary)?
        };
        let prepared = self.prepare(
            &qemu,
            &program.path,
            &functions,
            folder.path(),
            small.path(),
        )?;

        let start = |source| SimulationError::Start {
            path: qemu.path.clone(),
            source,
        };
        let mut command = self.command(&qemu, &prepared, &program);
        command.args(arguments);
        let cpu = process::settle(&mut command);
        if self.capture {
            command
                .stdin(Stdio::null())
                .stdout(fs::File::create(folder.path().join("stdout")).map_err(start)?)
                .stderr(fs::File::create(folder.path().join("stderr")).map_err(start)?);
        } else if self.stdout_to_stderr {
            let stderr = io::stderr().as_fd().try_clone_to_owned().map_err(start)?;
            command.stdout(stderr);
        }
        let keys = self
            .keys_are_for_the_guest
            .then(process::KeysAreForTheGuest::new);
        let mut child = command.spawn().map_err(start)?;
        if let Some(keys) = &keys {
            keys.of(&child);
        }
        let (status, timed_out) = process::wait(&mut child, self.timeout).map_err(start)?;
        drop(keys);
        drop(cpu);

        let captured = |name| fs::read(folder.path().join(name)).unwrap_or_default();
        let (stdout, stderr) = (captured("stdout"), captured("stderr"));
        let processes = collect(&prepared.results, child.id())?;
        if processes.is_empty() {
            let stderr = String::from_utf8_lossy(&stderr);
            let said = stderr.lines().rfind(|line| !line.trim().is_empty());
            return Err(SimulationError::NoResult {
                status,
                timed_out,
                said: said.map(str::to_owned),
            });
        }
        Ok(Run {
            processes,
            status,
            timed_out,
            stdout,
            stderr,
            first: child.id(),
            machine: self.machine.clone(),
            run_ahead: self.run_ahead,
            seed: self.seed,
            qemu: qemu.version,
            free: self.free.clone(),
            program: Some(program.path),
            region_function: self.part.function.clone(),
        })
    }

    /// What would otherwise go wrong inside the guest.
    fn check(&self) -> Result<(), SimulationError> {
        let why = if self.machine.cores == 0 {
            Some("has no cores")
        } else if self.machine.name.contains(['\n', '\r']) {
            Some("has a name of several lines")
        } else {
            None
        };
        if let Some(why) = why {
            return Err(SimulationError::Machine {
                name: self.machine.name.clone(),
                why,
            });
        }
        for (name, value) in &self.variables {
            let (name_bytes, value) = (name.as_bytes(), value.as_bytes());
            if name_bytes.is_empty()
                || name_bytes.contains(&b'=')
                || [name_bytes, value].concat().contains(&0)
            {
                return Err(SimulationError::Variable(name.clone()));
            }
        }
        Ok(())
    }

    /// Makes the plugin, the files of the machine and the plugin's settings.
    fn prepare(
        &self,
        qemu: &qemu::Qemu,
        program: &Path,
        functions: &[String],
        folder: &Path,
        small: &Path,
    ) -> Result<Prepared, SimulationError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SimulationError::Prepare { path, source }
        };
        let plugin = plugin::Plugin::make(crate::PLUGIN, folder)
            .map_err(|(path, source)| SimulationError::Prepare { path, source })?;
        let results = small.join("results");
        fs::create_dir(&results).map_err(failed(&results))?;
        let replaced = files::write(&self.machine, &small.join("root"))
            .map_err(|(path, source)| SimulationError::Prepare { path, source })?;
        let config = small.join("config");
        let mut lines = self
            .settings(qemu, program, &plugin.path(), &results, &replaced)
            .map_err(failed(&config))?;
        for function in functions {
            let _ = writeln!(lines, "region_function {function}");
        }
        fs::write(&config, lines).map_err(failed(&config))?;
        Ok(Prepared {
            plugin,
            config,
            results,
        })
    }

    /// The plugin's settings: lines of a key and its value.
    fn settings(
        &self,
        qemu: &qemu::Qemu,
        program: &Path,
        plugin: &Path,
        results: &Path,
        replaced: &files::Replaced,
    ) -> io::Result<String> {
        let mut lines = String::new();
        let _ = writeln!(lines, "run_ahead {}", self.run_ahead);
        let _ = writeln!(lines, "seed {}", self.seed);
        let _ = writeln!(lines, "verify {}", u8::from(self.verify));
        let _ = writeln!(lines, "follow {}", u8::from(self.follow));
        let _ = writeln!(lines, "chaos {}", u8::from(self.chaos));
        let _ = writeln!(lines, "free_waits {}", u8::from(self.free_waits));
        let _ = writeln!(lines, "top_lines {}", self.top_lines);
        let _ = writeln!(lines, "objects {}", u8::from(self.objects));
        self.part.settings(&mut lines);
        let _ = writeln!(lines, "result {}", text(results)?);
        let _ = writeln!(lines, "qemu {}", text(&qemu.path)?);
        let _ = writeln!(lines, "plugin {}", text(plugin)?);
        for (guest, real) in replaced {
            let _ = writeln!(lines, "file {guest} {}", text(real)?);
        }
        for (wish, free) in self.free.iter().enumerate() {
            for line in free.settings(wish, program) {
                let _ = writeln!(lines, "{line}");
            }
        }
        for line in self.machine.to_lines().lines() {
            let _ = writeln!(lines, "machine.{line}");
        }
        Ok(lines)
    }

    fn command(
        &self,
        qemu: &qemu::Qemu,
        prepared: &Prepared,
        program: &program::Program,
    ) -> Command {
        let mut plugin = OsString::from("file=");
        plugin.push(comma_doubled(prepared.plugin.path().as_os_str()));
        plugin.push(",config=");
        plugin.push(comma_doubled(prepared.config.as_os_str()));
        if let Some(argument) = prepared.plugin.argument() {
            plugin.push(",");
            plugin.push(argument);
        }
        let mut command = Command::new(&qemu.path);
        prepared.plugin.pass_to(&mut command);
        // What QEMU would take from the environment besides.
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"QEMU_") && name != "QEMU_LD_PREFIX" {
                command.env_remove(name);
            }
        }
        command.args(program.processor.options());
        if let Some(folder) = program.processor.libraries() {
            command.arg("-L").arg(folder);
        }
        command
            .arg("-seed")
            // QEMU reads 32 bits; the plugin gets the whole number.
            .arg((self.seed & 0x7fff_ffff).to_string())
            .arg("-plugin")
            .arg(plugin)
            .arg("-0")
            .arg(&program.name)
            // The code path that a user-space program takes on a kernel with restartable sequences would be another;
            // QEMU offers none, and the report says which one ran.
            .env("PERCOLOG_SLOTS", "thread")
            .env("PERCOLOG_SIM_INSIDE", "1");
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command.arg(&program.path).args(&program.before);
        command
    }
}

/// A folder that goes away.
fn folder(within: &Path) -> Result<tempfile::TempDir, SimulationError> {
    // A program that becomes another user still has to find what is in it.
    let searchable = fs::Permissions::from_mode(0o711);
    tempfile::Builder::new()
        .prefix("percolog-sim-")
        .permissions(searchable)
        .tempdir_in(within)
        .map_err(|source| SimulationError::Prepare {
            path: within.to_owned(),
            source,
        })
}

/// What QEMU and the plugin are given.
struct Prepared {
    plugin: plugin::Plugin,
    config: PathBuf,
    results: PathBuf,
}

/// A path as the lines of the settings can hold it.
fn text(path: &Path) -> io::Result<&str> {
    path.to_str()
        .filter(|path| !path.contains('\n'))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its name is not plain text"))
}

/// QEMU separates options by single commas.
fn comma_doubled(text: &OsStr) -> OsString {
    use std::os::unix::ffi::OsStringExt;
    let mut doubled = Vec::with_capacity(text.len());
    for byte in text.as_bytes() {
        doubled.push(*byte);
        if *byte == b',' {
            doubled.push(b',');
        }
    }
    OsString::from_vec(doubled)
}

/// Reads what the processes have left: the first one first, the others in the order of their numbers.
fn collect(results: &Path, first: u32) -> Result<Vec<ProcessResult>, SimulationError> {
    let broken = |path: &Path, why: &dyn std::fmt::Display| SimulationError::Result {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let mut processes = Vec::new();
    let entries = fs::read_dir(results).map_err(|error| broken(results, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| broken(results, &error))?.path();
        // The plugin writes under another name first.
        if path.extension() != Some(OsStr::new("json")) {
            continue;
        }
        let text = fs::read(&path).map_err(|error| broken(&path, &error))?;
        let process = ProcessResult::from_json(&text).map_err(|error| broken(&path, &error))?;
        processes.push((programs_before(&path), process));
    }
    processes.sort_by_key(|(before, process)| (process.pid != first, process.pid, *before));
    Ok(processes.into_iter().map(|(_, process)| process).collect())
}

/// `<pid>.<n>.json` is of the n-th program that a process has run and left for another, `<pid>.json` of its last one.
fn programs_before(path: &Path) -> u64 {
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    stem.split_once('.')
        .and_then(|(_, before)| before.parse().ok())
        .unwrap_or(u64::MAX)
}

/// What a program did on the described machine.
#[derive(Debug)]
pub struct Run {
    /// One result for each machine: of the process that was started, of each program that a process has become, and of those that were
    /// forked from them. The first process comes first.
    pub processes: Vec<ProcessResult>,
    /// How the program ended.
    pub status: ExitStatus,
    /// Whether it was ended because it took too long.
    pub timed_out: bool,
    /// What it wrote to stdout, if that was to be captured.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr, if that was to be captured.
    pub stderr: Vec<u8>,
    /// The process that was started.
    pub first: u32,
    /// The machine.
    pub machine: Machine,
    /// How many cycles a core could be ahead.
    pub run_ahead: u64,
    /// Where arbitrary choices came from.
    pub seed: u64,
    /// The version of QEMU.
    pub qemu: String,
    /// What was to cost nothing.
    pub free: Vec<Free>,
    /// The file that was run first.
    pub program: Option<PathBuf>,
    /// The function whose calls were to be the region, if one was named.
    pub region_function: Option<String>,
}

impl Run {
    /// The process that the report is about: the one that entered the region with the most operations in it, or else
    /// the one that kept cores busy for longest. (One that lasts long may only have slept.)
    #[must_use]
    pub fn main(&self) -> Option<&ProcessResult> {
        // Of equals, the first one.
        self.processes.iter().rev().max_by_key(|process| {
            (
                process.region.entered > 0,
                process.region.operations,
                process.busy(),
                process.elapsed,
            )
        })
    }
}
