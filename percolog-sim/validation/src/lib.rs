//! What the coherence simulator is validated with: programs whose behaviour on large machines has been published, formulas
//! that predict it, and the verdict on a simulation of them.
//!
//! | published | workload | formula |
//! |---|---|---|
//! | thesis, Figure 4-3: cycles of a contended store | [`stores`] | [`closed::contended_store`] |
//! | thesis, Figures: collapse of a ticket lock | [`locks`] | [`closed::TicketLock`], [`closed::amdahl`] |
//! | thesis, Figures 3-3, 4-1 and 4-2: time spent waiting for lines, and who scales | [`sharing`] | [`closed::ClosedQueue`] |
//! | thesis, Figure 8-4: four lists | [`lists`], [`logs`], [`thesis_log`], [`numbered`] | |
//! | K42 (Appavoo et al. 2007), Figure 1: four counters | [`requests`] | [`closed::ClosedQueue`] |
//!
//! Nothing has been published of what [`events`] simulates; [`caches`] is that of another paper.
//!
//! "The thesis" is S. Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*, MIT
//! 2014. The workloads run natively as well, and check the state they end in; how long things take means something under
//! the simulator alone. [`experiments`] says which of them are run, and what was published about each.

mod alone;
pub mod caches;
pub mod clock;
pub mod closed;
pub mod crew;
pub mod events;
pub mod experiments;
pub mod guest;
pub mod hash;
pub mod lists;
pub mod locks;
pub mod logs;
pub mod numbered;
pub mod requests;
pub mod rows;
pub mod sharing;
pub mod stores;
pub mod thesis_log;
pub mod zipf;
