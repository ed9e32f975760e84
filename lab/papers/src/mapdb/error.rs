//! What can be wrong.

use std::io;
use thiserror::Error;

/// Why a call of a mapping database has done nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MapError {
    /// The name of the address space is one of none, or of one that was terminated.
    #[error("there is no such address space, or not any more")]
    NoSuchSpace,
    /// A page is not mapped, or not any more; or it is not reserved where it should be.
    #[error("the page at offset {offset} is not mapped, or not any more")]
    NotMapped {
        /// Which one, counted from the first.
        offset: u32,
    },
    /// A page is being taken away by another call.
    #[error("the page at offset {offset} is just being taken away")]
    Revoked {
        /// Which one, counted from the first.
        offset: u32,
    },
    /// No pages were asked for; or source and destination are not equally many.
    #[error("{pages} pages is not a number of pages that can be mapped here")]
    Length {
        /// How many they were.
        pages: u32,
    },
    /// There is too little of something.
    #[error("there is no room for more {what}: {why}")]
    Exhausted {
        /// Of what.
        what: Lack,
        /// How it is known.
        why: String,
    },
    /// The back-end cannot map it.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// Frames of memory: all are mapped, or wait for their grace period.
    Frames,
    /// Addresses in a space, or so many beside each other.
    Addresses,
    /// Address spaces.
    Spaces,
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Lack::Frames => "frames",
            Lack::Addresses => "addresses",
            Lack::Spaces => "address spaces",
        })
    }
}

/// Why a back-end does not do what it is asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Refused {
    /// So many pages are mapped that the system could run out of mappings when single ones are taken away.
    #[error("{mapped} pages are mapped; the system's limit on mappings lets there be {most}")]
    TooManyMappings {
        /// How many there are.
        mapped: u64,
        /// How many there may be.
        most: u64,
    },
    /// The system says no.
    #[error("the system cannot {what}: {cause}")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// What it says.
        cause: io::Error,
    },
    /// A back-end of your own says no.
    #[error("{0}")]
    Other(&'static str),
}
