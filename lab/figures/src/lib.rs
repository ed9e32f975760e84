//! Every figure of the papers behind percolog, and every duel with what people use today: a catalogue of them, what runs them, and the
//! page that shows them.
//!
//! * [`programs`]: what a cell of a figure runs, by name: a workload on one structure, natively or under the coherence simulator.
//! * [`catalogue`]: the figures, one file each.
//! * [`run`]: which cells a figure is made of, and running those that are not there yet.
//! * [`findings`]: what that says: who wins, what was published, how well the simulator agrees.
//! * [`store`]: what was found, one file for each figure.
//! * [`page`]: all of it in one page that opens anywhere.
//!
//! This crate exists for the `percolog` command; it promises no stable interface.

pub mod catalogue;
pub mod findings;
pub mod page;
pub mod programs;
pub mod run;
pub mod store;

/// The features that contenders may need, of those that are built in.
#[must_use]
pub fn features() -> Vec<String> {
    let mut features = Vec::new();
    if cfg!(feature = "c-peers") {
        features.push("c-peers".to_owned());
    }
    features
}
