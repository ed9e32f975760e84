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
    /// destructor, so that it can be read as long as the thread runs. (Not in `cpu::recent`: there a record's address depends
    /// on what is read of the domain before, for which a section would wait: 3.1 ns instead of 2.3.)
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
        if record.entered.nested() == 0 {
            self.collector.give_back(record);
        } else {
            // A section that is in a thread-local value, and ends when that is destroyed. Or it was forgotten: then it may have lent
            // references that somebody still has, never ends, and its record is never used again.
            Collector::<Native>::last_gives_back(record);
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
                return Some(here.record);
            }
            // Of domains that are gone nothing is needed any more.
            held.retain(|here| !here.collector.rarely(|rare| rare.closed));
            let itself = collector.itself.upgrade()?;
            let record = ptr::from_ref(take(collector));
            held.push(Held {
                collector: itself,
                record,
            });
            Some(record)
        })
        .ok()??;
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
