//! The machine a figure belongs to.

use std::fs;
use std::thread;

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
}
