//! Java's `LongAdder`: one word, and cells beside it once threads have been in each other's way.
//!
//! The algorithm is `Striped64` of `java.util.concurrent.atomic`, by D. Lea: an add is a compare-and-swap of the base.
//! The first that fails makes a table of two cells. From then on each thread adds to the cell that its *probe* points
//! to, a number of its own; a failed exchange draws another probe, and the second failure in a row doubles the
//! table, up to the power of two that reaches the number of processors. The table never shrinks. A sum adds up the
//! base and all cells, while others go on.
//!
//! One thing differs: where Java copies the table to one of twice the size and leaves the old one to the garbage
//! collector, here the table has its final size at once, 8 bytes a processor, and what grows is the mask.

use std::cell::Cell as Local;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, Ordering};

use crate::host;
use crate::interfaces::{Bytes, CounterPeer, Reading};

/// A sum that spreads over cells where threads collide.
///
/// [`sum`](Self::sum) counts every add that finished before it; of those under way it counts each or not. (Java
/// promises less: of concurrent updates some "might not be incorporated".)
#[derive(Debug, Default)]
pub struct LongAdder {
    base: AtomicI64,
    /// The first slot of the table; null until the mask is not zero. Each slot is null, or a cell that stays.
    slots: AtomicPtr<AtomicPtr<Cell>>,
    /// Slots in use, less one; zero where there is no table.
    mask: AtomicU32,
    /// Held by who makes the table, makes a cell, or doubles the mask. Nobody waits for it.
    busy: AtomicBool,
}

/// Alone on its lines, as Java's `@Contended` has it.
#[derive(Debug)]
#[repr(align(128))]
struct Cell(AtomicI64);

impl Cell {
    #[inline]
    fn try_add(&self, amount: i64) -> bool {
        try_add(&self.0, amount)
    }
}

/// One attempt. Spurious failures count as contention, as in Java.
#[inline]
fn try_add(word: &AtomicI64, amount: i64) -> bool {
    let value = word.load(Ordering::Relaxed);
    // Release pairs with the Acquire of `sum`, as in Java; a failed exchange is only a hint.
    word.compare_exchange_weak(
        value,
        value.wrapping_add(amount),
        Ordering::Release,
        Ordering::Relaxed,
    )
    .is_ok()
}

/// Slots of every table: the power of two that reaches the number of processors, and two at least.
fn slots() -> usize {
    static SLOTS: OnceLock<usize> = OnceLock::new();
    *SLOTS.get_or_init(|| host::processors().next_power_of_two().clamp(2, 1 << 16))
}

thread_local! {
    /// Where this thread looks in every table; zero until it has been in somebody's way.
    static PROBE: Local<u32> = const { Local::new(0) };
}

/// A probe for a thread that has none: far from those of the threads before it.
fn first_probe() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: a number for a thread, and nothing else.
    let probe = NEXT
        .fetch_add(0x9e37_79b9, Ordering::Relaxed)
        .wrapping_add(0x9e37_79b9)
        .max(1);
    PROBE.set(probe);
    probe
}

/// Another probe for the same thread: one step of a 32-bit xorshift.
fn next_probe(mut probe: u32) -> u32 {
    probe ^= probe << 13;
    probe ^= probe >> 17;
    probe ^= probe << 5;
    PROBE.set(probe);
    probe
}

impl LongAdder {
    /// A sum of zero. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            base: AtomicI64::new(0),
            slots: AtomicPtr::new(ptr::null_mut()),
            mask: AtomicU32::new(0),
            busy: AtomicBool::new(false),
        }
    }

    /// Adds. Wraps around.
    #[inline]
    pub fn add(&self, amount: i64) {
        let mask = self.mask();
        if mask == 0 {
            if !try_add(&self.base, amount) {
                self.add_slowly(amount, PROBE.get(), true);
            }
            return;
        }
        let probe = PROBE.get();
        match self.cell(mask, probe) {
            Some(cell) if cell.try_add(amount) => {}
            found => self.add_slowly(amount, probe, found.is_none()),
        }
    }

    /// The base and all cells, read one after the other while others add.
    #[must_use]
    pub fn sum(&self) -> i64 {
        // Acquire, here and in `cells`: as in Java, who sees an add in a sum sees what came before it.
        let base = self.base.load(Ordering::Acquire);
        self.cells().fold(base, |sum, cell| {
            sum.wrapping_add(cell.0.load(Ordering::Acquire))
        })
    }

    /// The bytes that it takes now, the table and the cells included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let table = match self.mask() {
            0 => 0,
            _ => slots() * size_of::<AtomicPtr<Cell>>(),
        };
        size_of::<Self>() + table + self.cells().count() * size_of::<Cell>()
    }

    #[inline]
    fn mask(&self) -> u32 {
        // Acquire pairs with the Release of `grow` and `begin`: who sees a mask sees the table.
        self.mask.load(Ordering::Acquire)
    }

    /// The slot of a probe, under a mask that is not zero.
    #[inline]
    fn slot(&self, mask: u32, probe: u32) -> &AtomicPtr<Cell> {
        // Relaxed: the mask that the caller has loaded came after the table, which never changes.
        let slots = self.slots.load(Ordering::Relaxed);
        // SAFETY: with a mask that is not zero there is a table; it has at least `mask + 1` slots, and lives as long as
        // the adder does.
        unsafe { &*slots.add((probe & mask) as usize) }
    }

    #[inline]
    fn cell(&self, mask: u32, probe: u32) -> Option<&Cell> {
        // Acquire pairs with the Release that puts a cell there.
        let cell = self.slot(mask, probe).load(Ordering::Acquire);
        // SAFETY: null, or a cell that was allocated for this adder and is freed with it.
        unsafe { cell.as_ref() }
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        let mask = self.mask();
        let range = if mask == 0 { 0..0 } else { 0..mask + 1 };
        range.filter_map(move |index| self.cell(mask, index))
    }

    /// Adds where something was in the way: there is a table and the cell is not there or was being changed, or there
    /// is none and the base was.
    #[cold]
    fn add_slowly(&self, amount: i64, mut probe: u32, mut may_try_cell: bool) {
        if probe == 0 {
            probe = first_probe();
            may_try_cell = true;
        }
        let mut has_collided = false;
        loop {
            let mask = self.mask();
            if mask == 0 {
                if self.begin(amount, probe) || try_add(&self.base, amount) {
                    return;
                }
                continue;
            }
            match self.cell(mask, probe) {
                None => match self.fill(amount, probe) {
                    Some(true) => return,
                    // Somebody else's cell is there now.
                    Some(false) => continue,
                    None => has_collided = false,
                },
                // It has failed there already: another cell first.
                Some(_) if !may_try_cell => may_try_cell = true,
                Some(cell) if cell.try_add(amount) => return,
                Some(_) if mask as usize + 1 >= slots() || self.mask() != mask => {
                    has_collided = false;
                }
                Some(_) if !has_collided => has_collided = true,
                Some(_) => {
                    if self.grow(mask) {
                        has_collided = false;
                        // The same probe points to another cell, perhaps.
                        continue;
                    }
                }
            }
            probe = next_probe(probe);
        }
    }

    /// Runs `f` as the only one that changes the table; `None` if another thread does.
    fn alone<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        // Acquire pairs with the Release below: who changes the table sees what was changed before.
        let is_free = self
            .busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        is_free.then(|| {
            let result = f();
            self.busy.store(false, Ordering::Release);
            result
        })
    }

    /// Makes the table, with one cell that holds `amount`; `false`, and nothing happened, where another thread has made it
    /// or is about to.
    fn begin(&self, amount: i64, probe: u32) -> bool {
        self.alone(|| {
            // Relaxed, here and in `fill` and `grow`: changed by who is alone.
            if self.mask.load(Ordering::Relaxed) != 0 {
                return false;
            }
            let table: Box<[AtomicPtr<Cell>]> =
                (0..slots()).map(|_| AtomicPtr::default()).collect();
            table[(probe & 1) as usize].store(cell_with(amount), Ordering::Relaxed);
            // Relaxed: published by the mask. Partner: `slot`.
            self.slots
                .store(Box::into_raw(table).cast(), Ordering::Relaxed);
            // Release pairs with the Acquire of `mask`.
            self.mask.store(1, Ordering::Release);
            true
        })
        .unwrap_or(false)
    }

    /// Puts a cell that holds `amount` where none is: whether it did, or `None` if another thread changes the table.
    fn fill(&self, amount: i64, probe: u32) -> Option<bool> {
        self.alone(|| {
            let slot = self.slot(self.mask.load(Ordering::Relaxed), probe);
            let is_empty = slot.load(Ordering::Relaxed).is_null();
            if is_empty {
                // Release pairs with the Acquire of `cell`.
                slot.store(cell_with(amount), Ordering::Release);
            }
            is_empty
        })
    }

    /// Doubles the slots in use, unless that has happened; `false` if another thread changes the table.
    fn grow(&self, mask: u32) -> bool {
        self.alone(|| {
            if self.mask.load(Ordering::Relaxed) == mask {
                // Release pairs with the Acquire of `mask`: the cells below are found under the new mask too.
                self.mask.store(2 * mask + 1, Ordering::Release);
            }
        })
        .is_some()
    }
}

fn cell_with(amount: i64) -> *mut Cell {
    Box::into_raw(Box::new(Cell(AtomicI64::new(amount))))
}

impl Drop for LongAdder {
    fn drop(&mut self) {
        if *self.mask.get_mut() == 0 {
            return;
        }
        // SAFETY: a mask that is not zero means a table, which `begin` made of a box of as many slots as there are in
        // every table; nobody else has it any more.
        let table = unsafe {
            Box::from_raw(ptr::slice_from_raw_parts_mut(
                *self.slots.get_mut(),
                slots(),
            ))
        };
        for mut slot in table {
            let cell = *slot.get_mut();
            if !cell.is_null() {
                // SAFETY: made of a box by `cell_with`, and in this slot only.
                drop(unsafe { Box::from_raw(cell) });
            }
        }
    }
}

/// A [`LongAdder`] in a static.
#[derive(Debug)]
pub struct JavaLongAdder;

#[repr(align(128))]
struct Alone(LongAdder);

static HITS: Alone = Alone(LongAdder::new());

impl CounterPeer for JavaLongAdder {
    const NAME: &'static str = "LongAdder";
    const READING: Reading = Reading::FinishedAdds;

    #[inline]
    fn add() {
        HITS.0.add(1);
    }

    #[inline]
    fn total() -> u64 {
        // Only ones are added: it wraps after 2⁶³ of them.
        HITS.0.sum().cast_unsigned()
    }

    fn bytes(_threads: usize) -> Bytes {
        Bytes {
            idle: size_of::<LongAdder>(),
            // As it is, after whatever has been done to it.
            hot: HITS.0.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const THREADS: i64 = 8;
    const ADDS: i64 = 20_000;

    #[test]
    fn it_counts_every_add_and_a_reader_never_sees_it_go_back() {
        let adder = LongAdder::new();
        thread::scope(|scope| {
            let adders: Vec<_> = (0..THREADS)
                .map(|_| scope.spawn(|| (0..ADDS).for_each(|_| adder.add(1))))
                .collect();
            let mut last = 0;
            while !adders.iter().all(|thread| thread.is_finished()) {
                let sum = adder.sum();
                assert!(last <= sum && sum <= THREADS * ADDS, "{last}, {sum}");
                last = sum;
            }
        });
        assert_eq!(adder.sum(), THREADS * ADDS);
    }

    #[test]
    fn one_thread_stays_with_the_base() {
        let adder = LongAdder::new();
        // An exchange that fails for no reason may be seen on other machines than x86.
        for amount in [7, -5, i64::MAX] {
            adder.add(amount);
        }
        assert_eq!(adder.sum(), i64::MIN + 1);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(adder.bytes(), size_of::<LongAdder>());
        }
        assert_eq!(size_of::<LongAdder>(), 24);
    }

    #[test]
    fn contention_makes_cells_as_many_as_processors_at_the_most() {
        let adder = LongAdder::new();
        adder.add(1);
        adder.add_slowly(10, 6, true);
        assert_eq!((adder.mask(), adder.cells().count()), (1, 1));
        // Another slot, then the same again.
        adder.add_slowly(100, 7, true);
        adder.add_slowly(1000, 7, true);
        assert_eq!((adder.sum(), adder.cells().count()), (1111, 2));
        while adder.mask() as usize + 1 < slots() {
            let mask = adder.mask();
            // Only from the mask that was seen: a second thread that saw it too changes nothing.
            assert!(adder.grow(mask) && adder.grow(mask));
            assert_eq!(adder.mask(), 2 * mask + 1);
            assert_eq!(adder.sum(), 1111);
        }
        for probe in 1..200 {
            adder.add_slowly(1, probe, probe % 2 == 0);
        }
        assert_eq!(adder.sum(), 1111 + 199);
        assert!(adder.cells().count() <= slots());
        let table = slots() * 8;
        assert_eq!(adder.bytes(), 24 + table + 128 * adder.cells().count());
    }

    #[test]
    fn who_finds_the_table_being_changed_adds_elsewhere() {
        let adder = LongAdder::new();
        let held = adder.alone(|| {
            adder.add_slowly(1, 1, true);
            assert_eq!(adder.mask(), 0, "the base took it");
            assert!(!adder.grow(1) && adder.fill(1, 1).is_none() && !adder.begin(1, 1));
        });
        assert!(held.is_some());
        assert_eq!(adder.sum(), 1);
        assert!(adder.begin(2, 1) && !adder.begin(4, 1));
        assert_eq!(
            (adder.fill(8, 1), adder.fill(16, 0)),
            (Some(false), Some(true))
        );
        assert_eq!(adder.sum(), 19);
    }

    #[test]
    fn probes_differ_and_are_never_zero() {
        let (first, second) = (first_probe(), first_probe());
        assert!(first != second && first != 0 && second != 0);
        let next = next_probe(first);
        assert!(next != first && next != 0 && PROBE.get() == next);
    }
}
