//! Frames of memory.

use super::page::Link;

/// A frame that is mapped: the root of the tree of its mappings.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// The page that it was granted to.
    pub(super) owner: Link,
}
