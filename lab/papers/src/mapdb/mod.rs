//! The *mapping database* of a small kernel: which page of which address space shows which frame of memory, and who has it from
//! whom.
//!
//! The memory manager of a kernel with recursive address spaces (Q. Wang, T. Stamler, G. Parmer, *Parallel Sections: Scaling
//! System-Level Data-Structures*, EuroSys 2016, sections 4 and 5.3) has three calls. `grant` gives an
//! address space fresh pages. `alias` makes pages of one address space visible in another one as well: shared memory. `revoke` takes
//! back everything that was aliased from a page, and from what was aliased from it. So mappings form trees, one for each frame,
//! whose branches lie in all address spaces.
//!
//! ```
//! use percolog::reclaim::{Domain, DomainOptions};
//! use percolog_papers::mapdb::{MapUnmap, MappingDatabase, Mappings, SoftwareTables, Tlbs};
//!
//! // Two processors; a page or a frame that was unmapped is used again when both have flushed their TLBs.
//! static TLBS: Tlbs = Tlbs::new(2);
//! static DOMAIN: Domain = Domain::with(DomainOptions::new().grace(&TLBS));
//!
//! # fn main() -> Result<(), percolog_papers::mapdb::MapError> {
//! let database = MappingDatabase::new(&DOMAIN, SoftwareTables::new(&TLBS, 1 << 12), 1 << 12);
//! let (server, client) = (database.create()?, database.create()?);
//! let buffer = database.grant(server, 4)?;
//! let shared = database.alias(buffer, client)?;
//! assert_eq!(database.frame(shared, 2), database.frame(buffer, 2));
//!
//! assert_eq!(database.revoke(buffer)?, 4);
//! assert_eq!(database.frame(shared, 2), None, "the client's pages are gone");
//! assert!(database.frame(buffer, 2).is_some(), "the server's are not");
//! assert_eq!(database.terminate(server)?, 4);
//! # Ok(())
//! # }
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`MappingDatabase`] | percolog's: [namespaces](percolog::namespace) of address spaces, pages and frames, and a [lock](percolog::lock) in each mapping |
//! | [`OneLock`] | the same tables behind one lock |
//! | [`SpaceLocks`] | ... behind a lock for each address space |
//! | `Kernel` (Linux) | what the system does itself: `mmap`, the first touch, `munmap` |
//!
//! All but the last keep their trees over a [`BackEnd`], which is told what to map: [`SoftwareTables`], page tables in memory with TLBs
//! that remember what was unmapped until they are flushed; or `MemoryFile` (Linux), where a frame is a page of a memory file and an
//! address space a range of addresses of this process, so that aliases are really shared memory.
//!
//! # Contract
//!
//! That of [`Mappings`], for all of them alike:
//!
//! * **A mapping names pages for ever.** Addresses are used again; the name of a mapping that was taken away is
//!   [`MapError::NotMapped`], and never another's pages.
//! * **A page shows its parent's frame** for as long as there is the page. A frame has one owner, whose page is the root of its tree, until
//!   that is taken away.
//! * **When [`revoke`](Mappings::revoke) returns there is no mapping any more that was below one of its pages when it was called**, in any address
//!   space and at any depth; nobody can reach the frames through one. The pages themselves stay.
//!   [`release`](MapUnmap::release) is the same with the pages, [`terminate`](Mappings::terminate) with all pages of an address space.
//! * **A frame, and a page's address, are used again when nobody can see what they were**: when the [`Domain`](percolog::reclaim::Domain)'s
//!   sections and its [grace period](percolog::reclaim::GracePeriod) are over. (Rivals use them again at once: they are spared what
//!   flushing TLBs costs.)
//! * **What fails has changed nothing**, and says what there was too little of: frames, addresses, address spaces, or what the
//!   back-end has.
//!
//! ## What happens at the same time
//!
//! Each page is given and taken at one moment between the call and the return of the operation that does it, also for
//! operations on many pages: they are not one step. In particular:
//!
//! * An `alias` from a page below the revoked one is either refused ([`MapError::Revoked`]), or comes before the page is taken; then what it
//!   has made is taken too, by the same `revoke`, before that returns.
//! * An `alias` from the revoked page itself may come after: it is not below what was there.
//! * Of two operations that take the same page one counts it, and neither returns before the page is gone and all that is below it. But one
//!   that finds nothing to do, because others are at it, does not wait for them: it fails ([`MapError::Revoked`]).
//!
//! # How
//!
//! Names lead to mappings through two namespaces, without a store to a line that others read. A mapping's lock guards the list of those
//! that were aliased from it, and nothing else: **nobody ever has two of these locks**, nor waits for anything while he has one, so there is no order of locks
//! to be kept, as trees with a lock in each node usually need one. Instead a mapping is taken away in two steps. First it is
//! *condemned*: its lock is [released as freed](percolog::lock::NodeGuard::release_as_freed), from which on nothing can be aliased from it, and its
//! list belongs to whoever condemned it, who goes on with what is in there. Then, when all of it is unmapped and gone, it is
//! taken out of its parent's list. Until then it stays there, so that whoever takes the parent finds it, and knows whom to wait for.
//!
//! A mapping that is being made is in its parent's list already and waits for the back-end, whom no lock is held for; whoever condemns it waits until
//! that is done. All waiting goes down a tree, so nobody waits in a circle.
//!
//! # Where this differs from the paper
//!
//! * Names are checked: an address in the paper is a number, which may name another's page later.
//! * Namespaces choose their ids, so an address that was not reserved cannot be asked for: `alias` chooses one, or fills
//!   what the receiver has [reserved](Mappings::reserve), which is also how a receiver says where he agrees to be mapped into.
//! * Links between mappings are names too, looked up at each step; there are no pointers, and no `unsafe`.

mod back_end;
mod check;
mod database;
mod error;
mod frames;
mod page;
mod removal;
pub mod requests;
mod rivals;

#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
pub use back_end::{AddressRange, MemoryFile};
pub use back_end::{BackEnd, PageTable, SoftwareTables, Tlbs};
pub use check::Check;
pub use database::MappingDatabase;
pub use error::{Lack, MapError, Refused};
#[cfg(target_os = "linux")]
pub use rivals::{Anonymous, Kernel};
pub use rivals::{OneLock, SpaceLocks};

/// The name of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub(crate) u64);

/// The name of pages that lie beside each other in an address space: what a grant has given, or an alias, or a part of it.
///
/// A name, no more: the pages can be taken away one by one, and stay when this is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mapping {
    pub(crate) space: Space,
    /// The name of the first page: its index above, its generation, which all have in common, below.
    pub(crate) first: u64,
    pub(crate) pages: u32,
}

impl Mapping {
    /// The address space that the pages are in.
    #[must_use]
    pub fn space(self) -> Space {
        self.space
    }

    /// The number of the first page, which its address is counted from.
    #[must_use]
    pub fn first_page(self) -> u32 {
        (self.first >> 32) as u32
    }

    /// How many pages these are.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(self) -> u32 {
        self.pages
    }

    /// Some of the pages, by offset; `None` if that is empty, or not a part.
    #[must_use]
    pub fn part(self, offsets: std::ops::Range<u32>) -> Option<Mapping> {
        let is_part = offsets.start < offsets.end && offsets.end <= self.pages;
        is_part.then(|| Mapping {
            first: self.first + (u64::from(offsets.start) << 32),
            pages: offsets.end - offsets.start,
            ..self
        })
    }

    /// The names of the single pages.
    pub(crate) fn names(self) -> impl Iterator<Item = u64> {
        (0..u64::from(self.pages)).map(move |offset| self.first + (offset << 32))
    }
}

/// Address spaces that pages are mapped into and unmapped from.
pub trait MapUnmap: Sync {
    /// A new address space.
    ///
    /// # Errors
    /// If there is no room for one.
    fn create(&self) -> Result<Space, MapError>;

    /// Maps so many fresh pages, beside each other, full of zeros.
    ///
    /// # Errors
    /// If something is exhausted, the address space does not exist (any more), or `pages` is zero: nothing has changed.
    fn grant(&self, space: Space, pages: u32) -> Result<Mapping, MapError>;

    /// Takes away the pages, and everything that was aliased from them; says how many mappings that were.
    ///
    /// # Errors
    /// If none of the pages was there.
    fn release(&self, mapping: Mapping) -> Result<u64, MapError>;
}

/// A mapping database. Its contract is that of the [module](self#contract).
pub trait Mappings: MapUnmap {
    /// Sets addresses aside for an [`alias_into`](Self::alias_into). They can be [released](MapUnmap::release).
    ///
    /// # Errors
    /// As [`grant`](MapUnmap::grant).
    fn reserve(&self, space: Space, pages: u32) -> Result<Mapping, MapError>;

    /// Makes the pages visible in another address space, or once more in the same one.
    ///
    /// # Errors
    /// As [`grant`](MapUnmap::grant); and if one of the pages is not there.
    fn alias(&self, from: Mapping, to: Space) -> Result<Mapping, MapError>;

    /// The same at addresses that were reserved, which are from then on what was aliased; `to` stays its name.
    ///
    /// # Errors
    /// As [`alias`](Self::alias), and if `to` is not as long as `from`, or not all of it is reserved. If `to` is reserved but something else is
    /// wrong, the reservation is given up.
    fn alias_into(&self, from: Mapping, to: Mapping) -> Result<(), MapError>;

    /// Takes away everything that was aliased from the pages, but not these; says how many mappings that were.
    ///
    /// # Errors
    /// If none of the pages is there.
    fn revoke(&self, mapping: Mapping) -> Result<u64, MapError>;

    /// Ends an address space: releases all its pages; says how many mappings went. From the moment it is called the address space
    /// is given nothing any more.
    ///
    /// # Errors
    /// If it does not exist (any more).
    fn terminate(&self, space: Space) -> Result<u64, MapError>;

    /// Which frame the page at an offset shows, as the back-end has it.
    fn frame(&self, mapping: Mapping, offset: u32) -> Option<u32>;
}
