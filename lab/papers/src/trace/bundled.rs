//! The traces that come with this crate; `traces/README.md` says how each was recorded.

use super::Trace;
use super::error::TraceError;

/// By name, the first one first.
pub(super) const BUNDLED: [(&str, &[u8]); 5] = [
    ("exim", include_bytes!("../../traces/exim.trace")),
    ("make", include_bytes!("../../traces/make.trace")),
    (
        "postgresql",
        include_bytes!("../../traces/postgresql.trace"),
    ),
    ("apache", include_bytes!("../../traces/apache.trace")),
    ("memcached", include_bytes!("../../traces/memcached.trace")),
];

impl Trace {
    /// The first of the traces that come with this crate: the Exim mail server under many clients.
    ///
    /// # Errors
    /// Never with the file that is published; a damaged one is told from a sound one as by [`Trace::open`].
    pub fn bundled() -> Result<Trace, TraceError> {
        let [(_, bytes), ..] = BUNDLED;
        Trace::from_bytes(bytes)
    }

    /// The trace of this name that comes with this crate; `None` when there is none.
    ///
    /// # Errors
    /// As [`Trace::bundled`].
    #[must_use]
    pub fn named(name: &str) -> Option<Result<Trace, TraceError>> {
        let (_, bytes) = BUNDLED.iter().find(|(known, _)| *known == name)?;
        Some(Trace::from_bytes(bytes))
    }

    /// The names of the traces that come with this crate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUNDLED.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_trace_is_sound_and_not_large() {
        for (name, bytes) in BUNDLED {
            assert!(bytes.len() <= 1 << 20, "{name} has {} bytes", bytes.len());
            let trace = Trace::named(name)
                .expect("it is there")
                .expect("it is sound");
            assert_eq!(trace.header().not_understood, 0, "{name}");
        }
        assert!(Trace::named("nothing").is_none());
        assert_eq!(Trace::names().next(), Some("exim"));
    }
}
