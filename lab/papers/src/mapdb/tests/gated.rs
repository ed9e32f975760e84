//! A back-end that can be held up, or made to refuse.

use super::super::{BackEnd, PageTable, Refused, SoftwareTables};
use super::{NO_TLBS, PAGES};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What can be held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Map,
    Unmap,
}

#[derive(Debug, Default)]
struct Hold {
    /// Which call, on which page.
    held: Option<(Call, u32)>,
    arrived: bool,
}

/// Software tables behind a gate.
#[derive(Debug)]
pub(super) struct Gated {
    pub(super) tables: SoftwareTables,
    hold: Mutex<Hold>,
    changed: Condvar,
    /// So many more calls of `map` are carried out; negative: all.
    maps: AtomicI64,
    /// How many pages were unmapped that showed nothing.
    pub(super) unmapped_twice: AtomicU32,
}

impl Gated {
    pub(super) fn new() -> Self {
        Self {
            tables: SoftwareTables::new(&NO_TLBS, PAGES),
            hold: Mutex::default(),
            changed: Condvar::new(),
            maps: AtomicI64::new(-1),
            unmapped_twice: AtomicU32::new(0),
        }
    }

    fn with_hold<R>(&self, f: impl FnOnce(&mut Hold) -> R) -> R {
        let result = f(&mut self.hold.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        result
    }

    /// From now on this call waits, on whatever thread.
    pub(super) fn hold(&self, call: Call, page: u32) {
        self.with_hold(|hold| {
            *hold = Hold {
                held: Some((call, page)),
                arrived: false,
            }
        });
    }

    /// Until somebody waits.
    pub(super) fn wait_for_arrival(&self) {
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = self.changed.wait_while(hold, |hold| !hold.arrived);
        drop(arrived);
    }

    /// Whoever waits goes on.
    pub(super) fn open(&self) {
        self.with_hold(|hold| *hold = Hold::default());
    }

    /// All but so many calls of `map` are refused.
    pub(super) fn refuse_after(&self, maps: i64) {
        // Relaxed: for the thread that calls it.
        self.maps.store(maps, Ordering::Relaxed);
    }

    fn pass(&self, call: Call, first: u32, count: u32) {
        let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = |hold: &Hold| {
            hold.held
                .is_some_and(|(held, page)| held == call && (first..first + count).contains(&page))
        };
        while is_held(&hold) {
            hold.arrived = true;
            self.changed.notify_all();
            hold = self
                .changed
                .wait(hold)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Long enough for another thread to do what it should not, on most machines; nothing fails if it is not.
pub(super) fn a_while() {
    std::thread::sleep(Duration::from_millis(30));
}

impl BackEnd for Gated {
    type Space = PageTable;

    fn frames(&self) -> u32 {
        self.tables.frames()
    }

    fn create(&self, pages: u32) -> Result<PageTable, Refused> {
        self.tables.create(pages)
    }

    fn clear(&self, frame: u32, count: u32) -> Result<(), Refused> {
        self.tables.clear(frame, count)
    }

    fn map(&self, space: &PageTable, page: u32, frame: u32, count: u32) -> Result<(), Refused> {
        self.pass(Call::Map, page, count);
        // Relaxed: see `refuse_after`.
        let left = self.maps.load(Ordering::Relaxed);
        if left == 0 {
            return Err(Refused::Other("no more"));
        }
        if left > 0 {
            self.maps.store(left - 1, Ordering::Relaxed);
        }
        self.tables.map(space, page, frame, count)
    }

    fn unmap(&self, space: &PageTable, page: u32, count: u32) {
        self.pass(Call::Unmap, page, count);
        for page in page..page + count {
            if self.tables.frame_at(space, page).is_none() {
                // Relaxed: read when all threads have been joined.
                self.unmapped_twice.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.tables.unmap(space, page, count);
    }

    fn frame_at(&self, space: &PageTable, page: u32) -> Option<u32> {
        self.tables.frame_at(space, page)
    }
}
