//! Cache lines of one's own.

/// Something that shares its lines with nothing else, on machines with lines of 128 bytes too.
#[derive(Debug, Default)]
#[repr(align(256))]
pub(crate) struct Alone<T>(pub(crate) T);
