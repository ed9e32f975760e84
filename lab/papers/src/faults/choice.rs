//! Which object is made how.

use std::fmt;

/// How an object is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One representative, and a lock or a counter that all slots use.
    Shared,
    /// Parts for each slot.
    Distributed,
}

/// How file caches are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// One lock, one hash table.
    Shared,
    /// A table of which each thread has replicas: a [`DHash`](percolog::dhash::DHash).
    Hashed,
    /// So many tables, each with runs of the pages: a [`Partitioned`](percolog::dhash::Partitioned).
    Partitioned {
        /// How many tables.
        masters: u32,
        /// Runs are of two to the power of this many pages.
        shift: u32,
    },
}

/// How the objects of a [`System`](super::System) are made: any of them can be shared while the others are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Processes: their lists of regions.
    pub process: Kind,
    /// Regions: their counts of faults.
    pub region: Kind,
    /// File caches.
    pub file: FileKind,
    /// The global page manager: free frames, and who can be asked for some.
    pub pages: Kind,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Shared, Self::Distributed];
}

impl FileKind {
    /// In parts, the runs of which are short.
    pub const PARTITIONED: Self = Self::Partitioned {
        masters: 8,
        shift: 2,
    };

    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Shared, Self::Hashed, Self::PARTITIONED];
}

impl Choice {
    /// Nothing is distributed.
    pub const SHARED: Self = Self {
        process: Kind::Shared,
        region: Kind::Shared,
        file: FileKind::Shared,
        pages: Kind::Shared,
    };

    /// Everything is distributed; files are for those who read them again and again.
    pub const DISTRIBUTED: Self = Self {
        process: Kind::Distributed,
        region: Kind::Distributed,
        file: FileKind::Hashed,
        pages: Kind::Distributed,
    };

    /// Each combination.
    pub fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().flat_map(|process| {
            Kind::ALL.into_iter().flat_map(move |region| {
                FileKind::ALL.into_iter().flat_map(move |file| {
                    Kind::ALL.into_iter().map(move |pages| Self {
                        process,
                        region,
                        file,
                        pages,
                    })
                })
            })
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Shared => "shared",
            Self::Distributed => "distributed",
        })
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Shared => "shared",
            Self::Hashed => "hashed",
            Self::Partitioned { .. } => "partitioned",
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "process {}, region {}, file {}, pages {}",
            self.process, self.region, self.file, self.pages
        )
    }
}
