//! Figures of the papers behind percolog, and every duel with what people use today: a catalogue of them, what runs them, and the
//! page that shows them.
//!
//! What a cell of a figure runs is in `percolog-cells`; its program is started for each cell.
//!
//! * [`catalogue`]: the figures, one file each.
//! * [`run`]: which cells a figure is made of, and running those that are not there yet.
//! * [`findings`]: what that says: who wins, what was published, how well the simulator agrees.
//! * [`store`]: what was found, one file for each figure.
//! * [`page`]: all of it in one page that opens anywhere.
//!
//! This crate exists for the laboratory's command; it promises no stable interface.

pub mod catalogue;
pub mod findings;
pub mod page;
mod plan;
pub mod run;
pub mod store;
