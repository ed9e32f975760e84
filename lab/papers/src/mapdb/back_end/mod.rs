//! What makes mappings true.

#[cfg(target_os = "linux")]
mod memory_file;
mod software;

#[cfg(target_os = "linux")]
pub use memory_file::{AddressRange, MemoryFile};
pub use software::{PageTable, SoftwareTables, Tlbs};

use super::Refused;

/// What a mapping database tells which page is to show which frame.
///
/// It is told of each page from one thread at a time, and of a page's next frame after the old one was unmapped and the domain's grace
/// period was over. So whatever may remember a mapping for a while, as TLBs do, is a matter of the
/// [grace period](percolog::reclaim::GracePeriod).
pub trait BackEnd: Send + Sync {
    /// What belongs to an address space; dropped when nobody can use it any more.
    type Space: Send + Sync;

    /// How many frames there are.
    fn frames(&self) -> u32;

    /// An address space with room for so many pages.
    ///
    /// # Errors
    /// If there is no room.
    fn create(&self, pages: u32) -> Result<Self::Space, Refused>;

    /// Frames are about to be granted: fills them with zeros. Nobody has them mapped.
    ///
    /// # Errors
    /// If that cannot be done.
    fn clear(&self, frame: u32, count: u32) -> Result<(), Refused>;

    /// Has so many pages from `page` on show the frames from `frame` on.
    ///
    /// # Errors
    /// If that cannot be done; then none of them is mapped.
    fn map(&self, space: &Self::Space, page: u32, frame: u32, count: u32) -> Result<(), Refused>;

    /// Has so many pages show nothing. Those that show nothing already are no mistake.
    ///
    /// This cannot fail: there would be nothing that could be done with a page that cannot be taken away. Whatever a back-end needs
    /// for it, it sets aside when pages are mapped.
    fn unmap(&self, space: &Self::Space, page: u32, count: u32);

    /// Which frame a page shows: for tests and for people.
    fn frame_at(&self, space: &Self::Space, page: u32) -> Option<u32>;
}
