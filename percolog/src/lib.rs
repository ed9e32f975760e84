//! percolog
