//! What made a result, and where.

use serde::{Deserialize, Serialize};

/// What a result was made by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The version of this crate.
    pub version: String,
    /// The commit it was built from, with a plus if files differed from it; `release` of an installed package.
    pub commit: String,
    /// The compiler.
    pub toolchain: String,
    /// Whether it was optimized.
    pub optimized: bool,
}

impl Build {
    /// What this is.
    #[must_use]
    pub fn this() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("PERCOLOG_COMMIT").to_owned(),
            toolchain: env!("PERCOLOG_TOOLCHAIN").to_owned(),
            optimized: !cfg!(debug_assertions),
        }
    }
}

/// The machine that measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The processor's name, as the system gives it.
    pub processor: String,
    /// Processors that may be used.
    pub processors: u64,
    /// Operating system and architecture.
    pub platform: String,
    /// The kernel's release.
    pub kernel: String,
}

impl Host {
    /// This machine; what cannot be found out is called unknown.
    #[must_use]
    pub fn describe() -> Self {
        let host = percolog_bench::host::Host::describe();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        Self {
            processor: host.processor,
            processors: host.cpus as u64,
            platform: host.platform,
            kernel: kernel.map_or_else(
                |_| "unknown kernel".to_owned(),
                |text| text.trim().to_owned(),
            ),
        }
    }
}
