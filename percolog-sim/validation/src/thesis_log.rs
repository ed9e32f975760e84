//! The log of the thesis, as it is described there (§5.1, §6.1): the baseline of what percolog does otherwise.
//!
//! Each core appends its operations with their stamps to a queue of its own, under that queue's lock. Who finds its queue at the limit
//! merges: it locks the state, then *every* core's queue, sorts all operations by their stamps, executes them one by one, and only then
//! lets the queues go. Meanwhile nobody can append.

use std::sync::{Mutex, MutexGuard, PoisonError};

use percolog::oplog::Operation;

use super::alone::Alone;
use super::clock;

/// Operations with their stamps.
type Stamped<O> = Vec<(u64, O)>;

/// A state and the operations on it that have not been executed, by core.
#[derive(Debug)]
pub struct ThesisLog<S, O> {
    queues: Vec<Alone<Mutex<Stamped<O>>>>,
    merged: Alone<Mutex<Merged<S, O>>>,
    limit: usize,
}

/// What belongs to whoever merges.
#[derive(Debug)]
struct Merged<S, O> {
    state: S,
    /// Operations on their way into the state, kept for its memory.
    batch: Stamped<O>,
}

impl<S, O: Operation<S>> ThesisLog<S, O> {
    /// A log with a queue for each of `cores`, of `limit` operations at most.
    #[must_use]
    pub fn new(state: S, cores: usize, limit: usize) -> Self {
        let queue = || Alone(Mutex::new(Vec::with_capacity(limit)));
        Self {
            queues: (0..cores).map(|_| queue()).collect(),
            merged: Alone(Mutex::new(Merged {
                state,
                batch: Vec::with_capacity(cores * limit),
            })),
            limit,
        }
    }

    /// Appends an operation to the queue of `core`, which is the caller's alone; merges first if that is at its limit.
    pub fn queue(&self, core: usize, operation: O) {
        let queue = &self.queues[core].0;
        loop {
            let mut entries = locked(queue);
            if entries.len() < self.limit {
                // Under the lock, so that each queue is in the order of its stamps.
                entries.push((clock::cycles(), operation));
                return;
            }
            drop(entries);
            let mut merged = locked(&self.merged.0);
            // Somebody else may have merged while this thread waited.
            if locked(queue).len() >= self.limit {
                self.merge(&mut merged);
            }
        }
    }

    /// Executes everything that is queued, and calls `f` with the state.
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        let mut merged = locked(&self.merged.0);
        self.merge(&mut merged);
        f(&mut merged.state)
    }

    fn merge(&self, merged: &mut Merged<S, O>) {
        let Merged { state, batch } = merged;
        let mut all: Vec<_> = self.queues.iter().map(|queue| locked(&queue.0)).collect();
        for entries in &mut all {
            batch.append(entries);
        }
        // Stable, and by queue before: what one core has queued stays in its order also where stamps are equal.
        batch.sort_by_key(|(stamp, _)| *stamp);
        for (_, operation) in batch.drain(..) {
            operation.exec(state);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Push(usize, u32);

    impl Operation<Vec<(usize, u32)>> for Push {
        fn exec(self, all: &mut Vec<(usize, u32)>) {
            all.push((self.0, self.1));
        }
    }

    #[test]
    fn nothing_is_lost_and_every_core_stays_in_order() {
        let log = ThesisLog::new(Vec::new(), 3, 8);
        std::thread::scope(|scope| {
            for core in 0..3 {
                let log = &log;
                scope.spawn(move || {
                    for number in 0..1000 {
                        log.queue(core, Push(core, number));
                    }
                });
            }
        });
        log.with(|all| {
            assert_eq!(all.len(), 3000);
            for core in 0..3 {
                let own = all.iter().filter(|(from, _)| *from == core);
                assert!(own.map(|(_, number)| *number).eq(0..1000));
            }
        });
    }

    #[test]
    fn a_queue_is_merged_when_it_is_full_and_not_before() {
        let log = ThesisLog::new(Vec::new(), 2, 8);
        let executed = |log: &ThesisLog<Vec<(usize, u32)>, Push>| locked(&log.merged.0).state.len();
        (0..8).for_each(|number| log.queue(0, Push(0, number)));
        (0..3).for_each(|number| log.queue(1, Push(1, number)));
        assert_eq!(executed(&log), 0);
        log.queue(0, Push(0, 8));
        // Both queues, and what came last is in a queue again.
        assert_eq!(executed(&log), 11);
        assert_eq!(log.with(|all| all.len()), 12);
    }
}
