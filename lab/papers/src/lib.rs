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
//! * [`subsystem`]: the subsystems of an operating system that programs update, and what each can be made of.
//! * [`mapdb`]: a study of its own, which no trace drives: the mapping database of a kernel whose address spaces share pages.
//! * [`faults`]: another one: the page-fault path of a kernel, each object of which can be shared or distributed.
//! * [`counters`]: requests that are counted, in four ways behind one interface.
//! * [`loops`]: benchmarks of the papers as traces that nobody recorded.
//! * [`replay`]: a trace driven through the objects of a subsystem on several threads, checked or timed.
//!
//! ```
//! use percolog_papers::replay::{self, Load};
//! use percolog_papers::subsystem::{Implementation, Subsystem};
//! use percolog_papers::trace::Trace;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let trace = Trace::bundled()?;
//! println!("{}", trace.info());
//! let load = Load::new(&trace, Subsystem::Files, None);
//! let report = replay::check(&load, Implementation::OplogAbsorb, 2, &|_| ())?;
//! assert_eq!(report.events, trace.events().len());
//! # Ok(())
//! # }
//! ```

mod address_space;
pub mod counters;
pub mod faults;
pub mod loops;
pub mod mapdb;
pub mod replay;
pub mod subsystem;
pub mod trace;
