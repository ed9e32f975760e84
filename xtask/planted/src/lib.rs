//! Nothing here: the bugs are in `tests`.
