//! Starts QEMU so that it behaves the same each time, and waits for it.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::io;
#[cfg(target_os = "linux")]
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
#[cfg(target_os = "linux")]
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a guest may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// What a process does with itself between fork and exec.
///
/// * No random addresses: the same program finds its memory at the same places, and so in the same lines.
/// * One of the host's CPUs: one guest thread runs at a time, and handing over is cheapest on one CPU.
/// * It ends when whoever waits for it ends.
///
/// The CPU is to be kept until the process has ended.
#[cfg(target_os = "linux")]
pub(super) fn settle(command: &mut Command) -> Option<Cpu> {
    let taken = Cpu::take();
    let cpu = taken.as_ref().map(|cpu| cpu.0);
    let parent = std::process::id();
    let steps = move || {
        // SAFETY: `personality` takes a number and touches no memory of ours.
        if unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) } == -1 {
            return Err(io::Error::last_os_error());
        }
        if let Some(cpu) = cpu {
            // SAFETY: all zeros is an empty set.
            let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            // SAFETY: the number came out of a set of this type.
            unsafe { libc::CPU_SET(cpu, &mut set) };
            // Slower without, not wrong: a failure is ignored.
            // SAFETY: the set is valid for reading, of the size that is given.
            unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
        }
        // SAFETY: this call takes numbers only.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong) } == -1 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before the call above.
        // SAFETY: `getppid` has no preconditions.
        if unsafe { libc::getppid() } as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec of a threaded process only what signal handlers may do is allowed: the closure
    // makes system calls, and neither allocates nor locks. (`last_os_error` and `from_raw_os_error` only keep a number.)
    unsafe { command.pre_exec(steps) };
    taken
}

/// Elsewhere nothing is simulated.
#[cfg(not(target_os = "linux"))]
pub(super) fn settle(_command: &mut Command) -> Option<Cpu> {
    None
}

/// How many simulations of this process each of the host's CPUs has.
#[cfg(target_os = "linux")]
static SIMULATIONS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// The CPU that a simulation has been given, until it has ended.
#[derive(Debug)]
pub(super) struct Cpu(#[cfg(target_os = "linux")] usize);

#[cfg(target_os = "linux")]
impl Cpu {
    /// Of the CPUs that this process may use one that has the fewest simulations: with several at a time, none is to wait for another
    /// while a CPU has nothing to do.
    fn take() -> Option<Self> {
        let allowed = allowed_cpus()?;
        // Where the scheduler has put us is the best guess at a CPU with time to spare.
        // SAFETY: `sched_getcpu` has no preconditions.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        let first = allowed.iter().position(|cpu| *cpu == here).unwrap_or(0);
        let (before, from) = allowed.split_at(first);
        let mut simulations = SIMULATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        // The first one of several that have as few.
        let cpu = *from
            .iter()
            .chain(before)
            .min_by_key(|cpu| simulations.get(cpu).copied().unwrap_or(0))?;
        *simulations.entry(cpu).or_default() += 1;
        Some(Self(cpu))
    }
}

#[cfg(target_os = "linux")]
impl Drop for Cpu {
    fn drop(&mut self) {
        let mut simulations = SIMULATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = simulations.get_mut(&self.0) {
            *count -= 1;
        }
    }
}

/// The CPUs that this process may use.
#[cfg(target_os = "linux")]
fn allowed_cpus() -> Option<Vec<usize>> {
    // SAFETY: all zeros is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writing, of the size that is given.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
        return None;
    }
    let allowed = (0..libc::CPU_SETSIZE as usize)
        // SAFETY: all numbers are below the size of the set.
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) });
    Some(allowed.collect())
}

/// Waits for the end of `child`, at most for `timeout`: then all that it started is asked to end, and at last killed.
/// Gives how it ended and whether it took too long.
pub(super) fn wait(child: &mut Child, timeout: Option<Duration>) -> io::Result<(ExitStatus, bool)> {
    let Some(timeout) = timeout else {
        return Ok((child.wait()?, false));
    };
    if let Some(status) = wait_until(child, Instant::now() + timeout)? {
        return Ok((status, false));
    }
    let all = descendants(child.id());
    for process in &all {
        signal(*process, libc::SIGTERM);
    }
    let status = wait_until(child, Instant::now() + GRACE)?;
    // Those that are gone by now have left their numbers free, but not for long enough that others have them.
    for process in all
        .iter()
        .filter(|process| **process != child.id() || status.is_none())
    {
        signal(*process, libc::SIGKILL);
    }
    Ok((child.wait()?, true))
}

fn wait_until(child: &mut Child, end: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn signal(process: u32, signal: libc::c_int) {
    let Ok(process) = libc::pid_t::try_from(process) else {
        return;
    };
    // SAFETY: `kill` takes numbers; the process is a descendant of ours.
    unsafe { libc::kill(process, signal) };
}

/// The process and all below it, parents first.
fn descendants(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        at += 1;
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{parent}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children"));
            let children = children.unwrap_or_default();
            all.extend(
                children
                    .split_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
    }
    all
}

/// While it lives, the interrupt and quit keys do not end this process: they reach the guest, which shares the terminal,
/// and the result is reported all the same. Neither does the guest: a server may end all of its group, to which this process belongs.
#[derive(Debug)]
pub(super) struct KeysAreForTheGuest {
    before: Vec<(libc::c_int, libc::sigaction)>,
}

/// The process whose request to end is not heeded.
static GUEST: AtomicI32 = AtomicI32::new(0);

impl KeysAreForTheGuest {
    pub(super) fn new() -> Self {
        // Handlers, not "ignore": a child would inherit the latter.
        let key: extern "C" fn(libc::c_int) = nothing;
        let end: Handler = ended;
        let handlers = [
            (libc::SIGINT, key as libc::sighandler_t, 0),
            (libc::SIGQUIT, key as libc::sighandler_t, 0),
            (libc::SIGTERM, end as libc::sighandler_t, libc::SA_SIGINFO),
        ];
        let mut before = Vec::new();
        for (signal, handler, flags) in handlers {
            // SAFETY: all zeros is an action.
            let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: as above.
            let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
            new.sa_sigaction = handler;
            new.sa_flags = flags | libc::SA_RESTART;
            // SAFETY: both actions are valid, and the handlers do what handlers may do.
            if unsafe { libc::sigaction(signal, &raw const new, &raw mut old) } == 0 {
                before.push((signal, old));
            }
        }
        Self { before }
    }

    /// This is the guest.
    pub(super) fn of(&self, guest: &Child) {
        // Relaxed: the handler reads the number alone.
        GUEST.store(guest.id() as i32, Ordering::Relaxed);
    }
}

type Handler = extern "C" fn(libc::c_int, *const libc::siginfo_t, *const libc::c_void);

extern "C" fn nothing(_signal: libc::c_int) {}

/// Somebody wants this process to end.
extern "C" fn ended(
    signal: libc::c_int,
    information: *const libc::siginfo_t,
    _context: *const libc::c_void,
) {
    // SAFETY: the kernel gives what it says, and who has sent the signal is part of it.
    let sender = unsafe { (*information).si_pid() };
    // Relaxed: see `KeysAreForTheGuest::of`.
    let guest = GUEST.load(Ordering::Relaxed);
    if guest == 0 || sender != guest {
        // SAFETY: both may be called in a handler. The signal comes when this handler returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

impl Drop for KeysAreForTheGuest {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: this is what was there before.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
        // Relaxed: as above.
        GUEST.store(0, Ordering::Relaxed);
    }
}
