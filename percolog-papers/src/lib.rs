//! Case studies from the papers behind [`percolog`], driven by recorded traces.
//!
//! Everything here is built on percolog's public interface alone, which shows that it suffices.
//!
//! The first study is the kernel's *reverse map*: for each file, which process maps which part of it
//! (S. Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System
//! Kernels*, sections 3.2, 5.3 and 6). Every `fork`, `exec` and `exit` updates the maps of popular files
//! such as the C library; only truncating a file reads one.
//!
//! * [`trace`]: recorded runs of real programs: the file format, and recording with `strace`.
//! * [`rmap`]: the reverse map of one file, behind a lock, logged, and logged with absorption.
//! * [`replay`]: a trace driven through a reverse map on several threads, checked or timed.
//!
//! ```
//! use percolog_papers::replay::{self, Structure};
//! use percolog_papers::trace::Trace;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let trace = Trace::bundled()?;
//! println!("{}", trace.info());
//! let structure: Structure = "logged-absorbing".parse()?;
//! let report = replay::check(&trace, structure, 2, &|_| ())?;
//! assert_eq!(report.events, trace.events().len());
//! # Ok(())
//! # }
//! ```

mod address_space;
pub mod replay;
pub mod rmap;
pub mod trace;
