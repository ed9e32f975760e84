//! Ids for values, one thread at a time and many at once.
//!
//! # What the published implementation gets wrong
//!
//! `ps`, the library that came with Wang, Stamler and Parmer's *Parallel Sections*: facts about its namespace as published, and the tests
//! that show that it is otherwise here. `models` stands for `percolog/src/namespace/models.rs` (every interleaving,
//! `--cfg percolog_loom`), `tests` for `percolog/src/namespace/tests.rs`; what has no prefix stands in this folder.
//!
//! | there | here |
//! |---|---|
//! | Leaf memory is freed before it is unlinked. | Leaves stay; a value stays for all sections that have found it: `models::removal_and_reuse_against_lookups`, `threads::what_a_section_has_found_stays` |
//! | The trie is made higher by a plain store outside the lock, which can lose a subtree. | `models::growth_against_growth`, `models::growth_against_lookups`, `tests::a_trie_grows_to_the_last_index` |
//! | Extents are described, and not in the code. | `differential::every_call_does_what_a_map_does`, `models::extents_against_single_ids` |
//! | What others free is taken back only when the owner allocates. | It is on the slot that freed it, and goes back in bulk: `tests::what_one_slot_frees_another_uses`, `tests::a_slot_that_is_left_is_helped_before_memory_is_taken` |
//! | The number of frees before a look at the others never falls again. | `tests::looks_at_threads_are_rare_and_stop_when_nothing_waits` |
//! | A core whose number is not below the configured maximum is written out of bounds. | Slots are made as they come: `threads::more_threads_than_there_are_places` |
#![cfg(not(percolog_loom))]

mod differential;
mod misuse;
mod threads;
