//! What the `percolog` command shares with the laboratory's: arguments, output, and how a failure is told.
//!
//! It exists for these commands and promises no stable interface.

pub mod command_line;
pub mod companion;
pub mod destination;
pub mod failure;
pub mod format;
pub mod html;
pub mod output;
pub mod terminal;
