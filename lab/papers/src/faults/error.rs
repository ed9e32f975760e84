//! What can be wrong.

use percolog::clustered::{CreateError, StaleRef};
use percolog::requests::StopError;
use thiserror::Error;

/// Why a page was not mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FaultError {
    /// No region has the page, or it is being unmapped.
    #[error("there is no region at page {page:#x}")]
    NoRegion {
        /// The page.
        page: u64,
    },
    /// All frames are in use, and no file can give one back.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The page shows a file, which is only read.
    #[error("page {page:#x} can only be read")]
    ReadOnly {
        /// The page.
        page: u64,
    },
}

/// All frames are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("all frames of the memory are in use")]
pub struct OutOfMemory;

/// Why a region was not made, changed or taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MapError {
    /// A region has at least one page, and ends before the last address.
    #[error("{pages} pages from page {first:#x} on are no region")]
    Length {
        /// The first page.
        first: u64,
        /// How many were asked for.
        pages: u64,
    },
    /// There is a region already, or one that is being unmapped.
    #[error("a region lies at page {first:#x} already")]
    Overlap {
        /// The first page of that region.
        first: u64,
    },
    /// No region begins at this page, or it is being unmapped.
    #[error("no region begins at page {first:#x}")]
    NoRegion {
        /// The page.
        first: u64,
    },
    /// The process has ended.
    #[error("the process has ended")]
    Exited,
    /// The file has been closed.
    #[error("the file has been closed")]
    Closed,
    /// There is no room for another object.
    #[error("there is no room for another object")]
    Full,
    /// Faults could not be held off.
    #[error("faults could not be held off: {0}")]
    NotStopped(StopError),
}

/// Why a file was not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CloseError {
    /// It is mapped.
    #[error("{regions} regions show the file")]
    Mapped {
        /// In so many regions.
        regions: usize,
    },
    /// It has been closed already.
    #[error("the file has been closed")]
    Closed,
}

impl<R> From<CreateError<R>> for MapError {
    fn from(_: CreateError<R>) -> Self {
        Self::Full
    }
}

impl From<StopError> for MapError {
    fn from(why: StopError) -> Self {
        Self::NotStopped(why)
    }
}

/// A process's object is destroyed when the process ends.
impl From<StaleRef> for MapError {
    fn from(_: StaleRef) -> Self {
        Self::Exited
    }
}
