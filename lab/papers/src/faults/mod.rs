//! The *page-fault path* of a kernel: from the address that a thread has touched to the frame that is mapped there, through five objects,
//! each of which can be shared or distributed.
//!
//! J. Appavoo et al., *Experience Distributing Objects in an SMMP OS*, ACM Transactions on Computer Systems 25 (3), 2007, section 4, takes
//! the virtual memory of K42 apart: a fault is directed to the *process*, which finds the *region* that has the page; that counts the
//! fault, so that it can be held off, and asks the *file cache* for the page, which is there, or is filled: in a frame from the *page manager* of the
//! process, who asks the *global* one. At the end the page is in the *translation* tables of the slot. Any of these that is shared is
//! what all faults of the machine queue up for; when each is distributed, two threads of a process can fault on the same page
//! without accessing any memory in common.
//!
//! ```
//! use percolog_papers::faults::{Choice, System};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let system = System::new(Choice::DISTRIBUTED, 64, 16)?;
//! let file = system.open()?;
//! let space = system.start()?;
//! space.map(0x100, 8)?;
//! space.map_file(0x200, 8, &file, 40)?;
//!
//! assert_eq!(space.read(0x105, 0)?, 0, "a fresh page is zero");
//! space.write(0x105, 0, 7)?;
//! assert_eq!(space.read(0x105, 0)?, 7);
//! assert_eq!(space.read(0x203, 0)?, 43, "a page of the file");
//! assert!(space.read(0x300, 0).is_err(), "nothing is mapped there");
//!
//! space.exit()?;
//! file.close().map_err(|still_open| still_open.reason)?;
//! assert_eq!(system.free(), system.frames());
//! # Ok(())
//! # }
//! ```
//!
//! | object | shared | distributed |
//! |---|---|---|
//! | [`Process`] | a list of regions and its lock | ... and what each slot has found in it |
//! | [`Region`] | faults are counted in one word | ... in a [`RequestCounter`](percolog::requests::RequestCounter) |
//! | [`FileCache`] | a hash table and its lock | a [`DHash`](percolog::dhash::DHash), or a [`Partitioned`](percolog::dhash::Partitioned) table |
//! | [`PageManager`] of all | a list of free frames, a table of files, and their lock | lists and tables for each slot, and an overflow list |
//! | [`PageManager`] of a process | – | redirects to that of all |
//! | [`Translation`] | – | page tables for each slot |
//!
//! Each is called through an [`ObjectRef`](percolog::clustered::ObjectRef) by its interface; which one it is, [`Choice`] says.
//!
//! # Contract
//!
//! * **A page has one frame**, whoever faults on it first, and on however many slots; and it is filled before anybody sees it.
//! * **A frame is in one place**: the right to it is a [`Frame`], which cannot be copied. When all files are closed and all processes have ended,
//!   all frames are free.
//! * **When [`unmap`](AddressSpace::unmap) returns, no slot maps a page of the region**, no fault maps one any more, and the frames that only it had
//!   are free. Faults that come meanwhile find no region.
//! * **What fails has changed nothing**, and says why.
//!
//! Nobody takes a lock to be sure that an object exists: a fault that has found a region which is then destroyed is told so by the reference.
//!
//! # Locks
//!
//! In this order: process, file, page manager or translation; a region's count before a file. The process's lock is let go before the
//! region is called. Files are asked to give frames back by faults that have none of these.
//!
//! # Where this differs from the paper
//!
//! * Faults are made by software: [`AddressSpace::read`] looks into the slot's tables, as a processor would, and faults if the page is not there.
//! * Files have contents that can be calculated, instead of a file system; and fresh pages have nowhere to be written to, so
//!   that only files give frames back. `fork`'s copies of memory are left out.
//! * When free frames are neither in the slot's list nor in the overflow list, half of another slot's are taken, before files are asked.

mod choice;
mod error;
mod files;
mod memory;
mod objects;
mod pages;
mod process;
mod region;
mod system;
mod translation;
pub mod workloads;

#[cfg(test)]
mod tests;

pub use choice::{Choice, FileKind, Kind};
pub use error::{CloseError, FaultError, MapError, OutOfMemory};
pub use memory::{Frame, FrameNumber, PAGE_SIZE, WORDS};
pub use objects::{
    Attachment, FileCache, Member, PageManager, Placed, Process, Region, Target, Translation, View,
};
pub use system::{AddressSpace, File, NotClosed, System};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nothing here panics under a lock in the middle of a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In lines of its own, on the machines that there are.
#[repr(align(128))]
#[derive(Default)]
struct Alone<T>(T);
