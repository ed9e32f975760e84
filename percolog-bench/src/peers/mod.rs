//! The structures that stand beside each other, one file each.
//!
//! A peer is used as its own documentation says it should be used; each file says which choice was made for it.

mod absorbing_set;
mod atomic;
mod contatori;
mod dash_set;
mod logged_set;
mod mutex_set;
mod percolog_counter;

pub use absorbing_set::{AbsorbingEdit, AbsorbingSet};
pub use atomic::Atomic;
pub use contatori::Contatori;
pub use dash_set::Dash;
pub use logged_set::{Change, Edit, LoggedBy, LoggedSet};
pub use mutex_set::MutexSet;
pub use percolog_counter::PercologCounter;
