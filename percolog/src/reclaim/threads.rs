//! Which record a thread holds in which domain.

use core::cell::{Cell, RefCell};
use core::ptr;

use alloc::sync::Arc;
use std::vec::Vec;

use super::collector::{self, Collector};
use super::records::Record;
use crate::cpu::{Native, process};
use crate::sync::atomic::Ordering;

/// A record that this thread holds. It keeps the domain's insides alive, so that a domain made later
/// cannot be mistaken for one that is gone.
struct Held {
    collector: Arc<Collector<Native>>,
    record: *const Record,
}

std::thread_local! {
    /// The domain used last, and the record there: what nearly every section looks for. Without a
    /// destructor, so that it can be read as long as the thread runs.
    static LAST: Cell<(*const Collector<Native>, *const Record)> =
        const { Cell::new((ptr::null(), ptr::null())) };
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Held {
    fn drop(&mut self) {
        if LAST.get().1 == self.record {
            LAST.set((ptr::null(), ptr::null()));
        }
        // SAFETY: the record lives as long as the collector.
        let record = unsafe { &*self.record };
        self.collector.abandon(record);
        // A section that was forgotten may have lent references that somebody still has: it never
        // ends, and its record is never used again.
        if record.entered.depth.get() == 0 {
            self.collector.rarely(|rare| {
                rare.holders.remove(&record.index);
            });
            // Relaxed: read in a forked child, which has one thread.
            record.holder.store(0, Ordering::Relaxed);
            self.collector.records.give_back(record);
        }
    }
}

/// The record of this thread; `None` for a thread that is so far gone that it cannot have one.
#[inline(always)]
pub(super) fn record(collector: &Collector<Native>) -> Option<&Record> {
    let (last, record) = LAST.get();
    if ptr::eq(last, collector) {
        // SAFETY: while this thread holds the record, its domain's insides live.
        return Some(unsafe { &*record });
    }
    find(collector)
}

#[cold]
fn find(collector: &Collector<Native>) -> Option<&Record> {
    let record = HELD
        .try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(here) = held
                .iter()
                .find(|here| ptr::eq(&*here.collector, collector))
            {
                return here.record;
            }
            // Of domains that are gone nothing is needed any more.
            held.retain(|here| !here.collector.rarely(|rare| rare.closed));
            let record = take(collector);
            held.push(Held {
                // SAFETY: the domain holds a reference, made with `Arc::into_raw`, and is borrowed.
                collector: unsafe {
                    Arc::increment_strong_count(collector);
                    Arc::from_raw(collector)
                },
                record,
            });
            ptr::from_ref(record)
        })
        .ok()?;
    LAST.set((collector, record));
    // SAFETY: as in `record`.
    Some(unsafe { &*record })
}

fn take(collector: &Collector<Native>) -> &Record {
    collector.ensure_process();
    let record = collector.take_record(0);
    // Relaxed: read in a forked child, which has one thread.
    record
        .holder
        .store(process::this_thread(), Ordering::Relaxed);
    record
        .generation
        .store(collector::generation(), Ordering::Relaxed);
    collector.rarely(|rare| rare.holders.insert(record.index, std::thread::current()));
    record
}
