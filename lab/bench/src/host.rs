//! The machine a figure belongs to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io, thread};

/// What a reader must know of the machine to judge a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The processor's name, as the system gives it.
    pub processor: String,
    /// CPUs that this process may use (affinity and quota respected).
    pub cpus: usize,
    /// Operating system and architecture.
    pub platform: String,
}

impl Host {
    /// Describes this machine; what cannot be found out is called unknown.
    #[must_use]
    pub fn describe() -> Self {
        Self {
            processor: processor().unwrap_or_else(|| "unknown processor".to_owned()),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// Keeps the calling thread on one of the processors that it may use: on the one of this number, where they are counted anew when there
/// are no more.
///
/// # Errors
/// The system refuses it, or has no such thing.
#[cfg(target_os = "linux")]
pub fn pin(number: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None)?;
    let all: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
    let mut own = CpuSet::new();
    own.set(all[number % all.len()]);
    sched_setaffinity(None, &own)?;
    Ok(())
}

/// The same, where the system has no such thing.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn pin(_number: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// How many processors a simulated machine has; zero where none is simulated.
static SIMULATED: AtomicUsize = AtomicUsize::new(0);

/// Says that this process runs on a simulated machine of so many processors: the system answers for the machine that simulates.
pub fn simulates(processors: usize) {
    // Relaxed, here and below: a number, and threads are started after it is known.
    SIMULATED.store(processors, Ordering::Relaxed);
}

/// How many processors there are for whoever chooses its shards by that: of the simulated machine, if there is one.
#[must_use]
pub fn processors() -> usize {
    match SIMULATED.load(Ordering::Relaxed) {
        0 => thread::available_parallelism().map_or(2, usize::from),
        processors => processors,
    }
}

/// As many shards as `dashmap` and `quick_cache` choose by themselves where they know how many processors there are.
#[must_use]
pub fn shards() -> usize {
    (processors() * 4).next_power_of_two()
}

/// The first processor's name in `/proc/cpuinfo`, where that file exists and names one.
fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")
        .map(|(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_cpu_and_a_name() {
        let host = Host::describe();
        assert!(host.cpus >= 1);
        assert!(!host.processor.is_empty() && !host.platform.is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pinned_thread_stays_where_it_is() {
        use rustix::thread::sched_getaffinity;
        for number in [0, 1, 1000] {
            let processors = thread::spawn(move || {
                pin(number).expect("it may run there");
                sched_getaffinity(None).map(|own| own.count())
            });
            assert_eq!(processors.join().expect("no panic"), Ok(1));
        }
    }
}
