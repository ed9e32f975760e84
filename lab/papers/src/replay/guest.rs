//! One pass for a simulator to look at.

use super::load::Load;
use super::pass::{Course, Pass};
use super::{ReplayError, check_threads, not_made};
use crate::subsystem::{Implementation, SharedObject, Subsystem, Visitor, visit};
use std::time::Duration;

/// What a marked pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuestReport {
    /// How many events happened: the operations that the marks name.
    pub events: usize,
    /// How many entries came or went.
    pub updates: u64,
    /// How many times an object was read.
    pub reads: u64,
    /// How long it took by the machine's own clock, as [`time`](super::time()) takes it: a simulated machine's is simulated.
    pub elapsed: Duration,
    /// How much of that went by in the last look at each object, which a program that goes on does not have.
    pub looked: Duration,
}

/// Replays `load` once, with marks ([`percolog_roi`]) around what [`time`](super::time()) would time on every thread: what
/// `percolog sim` runs and looks at. Without a simulator the marks are nothing.
///
/// # Errors
/// As [`time`](super::time()).
pub fn guest(
    load: &Load,
    implementation: Implementation,
    threads: usize,
    work: u64,
) -> Result<GuestReport, ReplayError> {
    struct Guest<'a> {
        load: &'a Load,
        threads: usize,
        work: u64,
    }
    impl Visitor for Guest<'_> {
        type Output = Result<GuestReport, ReplayError>;
        fn visit<O: SharedObject>(self) -> Self::Output {
            guest_object::<O>(self.load, self.threads, self.work)
        }
    }
    let visitor = Guest {
        load,
        threads,
        work,
    };
    visit(load.subsystem(), implementation, visitor)
        .unwrap_or_else(|| Err(not_made(load.subsystem(), implementation)))
}

/// [`guest`], for an implementation of your own.
///
/// # Errors
/// As [`guest`].
pub fn guest_object<O: SharedObject>(
    load: &Load,
    threads: usize,
    work: u64,
) -> Result<GuestReport, ReplayError> {
    check_threads(threads)?;
    let course = Course::<O>::new(load, threads, work);
    percolog_roi::label(&*course.objects, table(load.subsystem()));
    let Pass { elapsed, looked } = course.pass()?;
    Ok(GuestReport {
        events: load.events(),
        updates: load.updates(),
        reads: load.reads(),
        elapsed,
        looked,
    })
}

/// What the table of all objects is called. (What an object has elsewhere is found by its own names, or by none.)
fn table(subsystem: Subsystem) -> &'static str {
    match subsystem {
        Subsystem::Files => "reverse maps of files",
        Subsystem::Memory => "reverse maps of memory",
        Subsystem::Names => "names in the cache",
        Subsystem::OpenFiles => "list of open files",
        Subsystem::Events => "event queue",
    }
}
