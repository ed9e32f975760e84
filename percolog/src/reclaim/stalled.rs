//! Who holds reclamation up.

use core::fmt;
#[cfg(feature = "std")]
use core::time::Duration;
#[cfg(feature = "std")]
use std::string::String;
#[cfg(feature = "std")]
use std::thread::ThreadId;

/// A section that keeps objects from being destroyed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StalledSection {
    /// The thread whose section it is; `None` for an owned section, which belongs to none.
    #[cfg(feature = "std")]
    pub thread: Option<ThreadId>,
    /// The thread's name, if it has one.
    #[cfg(feature = "std")]
    pub name: Option<String>,
    /// How long the section has been in the way, as far as scans have seen: at least so long.
    #[cfg(feature = "std")]
    pub at_least: Duration,
    /// The number of the section's record in the domain: the same section has the same number.
    pub record: usize,
}

impl fmt::Display for StalledSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "std")]
        {
            match (&self.name, self.thread) {
                (Some(name), _) => write!(f, "thread {name:?}")?,
                (None, Some(thread)) => write!(f, "{thread:?}")?,
                (None, None) => write!(f, "owned section {}", self.record)?,
            }
            write!(f, ", for at least {:?}", self.at_least)
        }
        #[cfg(not(feature = "std"))]
        write!(f, "section {}", self.record)
    }
}

/// A decision of the program about a full domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Wait a little, and ask again if there is still no room.
    Wait,
    /// Hand the object back (from `retire`: go beyond the cap).
    Refuse,
    /// Take the object, although the cap is reached.
    Exceed,
}

/// The error of [`Domain::synchronize_for`](super::Domain::synchronize_for): sections did not end in time.
#[cfg(feature = "std")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedOut {
    /// The section that was waited for last; `None` if no scan has met one, as when the kernel would
    /// not execute a barrier.
    pub stalled: Option<StalledSection>,
}

#[cfg(feature = "std")]
impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stalled {
            Some(stalled) => write!(f, "sections did not end in time: {stalled}"),
            None => f.write_str("sections did not end in time"),
        }
    }
}

#[cfg(feature = "std")]
impl core::error::Error for TimedOut {}
