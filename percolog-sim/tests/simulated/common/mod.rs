//! What several of these tests need.

pub(crate) mod program;
pub(crate) mod skip;
pub(crate) mod verified;

use std::time::Duration;

/// One that hangs must not hang the tests. None of the programs takes more than seconds; on a busy machine, some more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
