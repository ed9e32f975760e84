//! The structures that stand beside each other, one file each.
//!
//! A peer is used as its own documentation says it should be used; each file says which choice was made for it.

mod absorbing_set;
mod atomic;
mod contatori;
mod dash_set;
mod events;
mod folds;
mod gauges;
mod histograms;
mod labels;
mod logged_set;
mod long_adder;
mod mutex_set;
mod percolog_counter;
mod reducer_counter;
mod shelf_set;
mod sloppy;

pub use absorbing_set::{AbsorbingEdit, AbsorbingSet};
pub use atomic::Atomic;
pub use contatori::Contatori;
pub use dash_set::Dash;
pub use events::{CrossbeamEvents, PercologChannel, PercologEvents};
pub use folds::{MutexFold, ReducerFold, ReducerOfThree};
pub use gauges::{Alone, AtomicGauge, ContatoriGauge, CounterGauge, ReducerGauge, SloppyGauge};
pub use histograms::{MutexHistogram, PercologHistogram, RecorderHistogram};
pub use labels::{DashLabels, PercologLabels, ShardedLabels};
pub use logged_set::{Change, Edit, LoggedBy, LoggedSet};
pub use long_adder::{JavaLongAdder, LongAdder};
pub use mutex_set::MutexSet;
pub use percolog_counter::PercologCounter;
pub use reducer_counter::ReducerCounter;
pub use shelf_set::{HashedSet, Ids, OrderedSet, ShelfSet};
pub use sloppy::Sloppy;
