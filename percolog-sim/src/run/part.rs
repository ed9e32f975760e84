//! Which part of the program counts, where the program itself does not say.

use std::fmt::Write as _;
use std::time::Duration;

use super::Simulation;

/// How much of a program is not simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// What it does in this time, if no access to memory took any.
    Time(Duration),
    /// So many instructions, of all its threads.
    Instructions(u64),
    /// What it does before it enters the region first, by a mark or by calling [`Simulation::region_function`].
    Region,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) function: Option<String>,
    skip: Option<Skip>,
    lasts: Option<Duration>,
}

impl Simulation {
    /// Makes a function of the program the region, as if it marked its beginning and its end: what a thread does while it
    /// is in it counts, and each time that it returns is an operation (if it calls itself, the outermost call is).
    ///
    /// The name is that of the source, whole or its last parts (`Cache::get` for `shop::Cache<K>::get`), or the linker's.
    /// [`Simulation::run`] fails if there is no such function, or if there are several.
    pub fn region_function(mut self, name: impl Into<String>) -> Self {
        self.part.function = Some(name.into());
        self
    }

    /// Does not simulate the beginning of the program. The caches are empty where the simulation begins.
    pub fn skip(mut self, skip: Skip) -> Self {
        self.part.skip = Some(skip);
        self
    }

    /// Ends the program when it has been measured for so long, in time of the machine: from where the region is entered
    /// first, or from the end of what is skipped, or else from its beginning. What it has written to buffers of its own is lost.
    pub fn measure_for(mut self, time: Duration) -> Self {
        self.part.lasts = Some(time);
        self
    }

    /// Whether the objects that lines belong to, and the callers of what uses them, are found out. They are, unless told
    /// otherwise; it takes some time with programs that allocate much.
    pub fn objects(mut self, objects: bool) -> Self {
        self.objects = objects;
        self
    }
}

impl Part {
    /// The plugin's settings.
    pub(super) fn settings(&self, lines: &mut String) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let _ = match self.skip {
            None => Ok(()),
            Some(Skip::Time(time)) => writeln!(lines, "skip_time {}", nanoseconds(time)),
            Some(Skip::Instructions(instructions)) => {
                writeln!(lines, "skip_instructions {instructions}")
            }
            Some(Skip::Region) => writeln!(lines, "skip_to_region"),
        };
        if let Some(time) = self.lasts {
            let _ = writeln!(lines, "lasts {}", nanoseconds(time));
        }
    }
}
