//! What the figures say that counters take of memory is what they ask the allocator for.
//!
//! A test of its own process, and only one: it counts what everybody allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use percolog_bench::counters::CounterKind;
use percolog_bench::in_use::Gauge;
use percolog_bench::peers::{ContatoriGauge, CounterGauge, LongAdder, ReducerGauge, SloppyGauge};

/// Counts the bytes that are allocated and not freed.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator; the counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed, here and below: read when the threads have been joined.
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Enough for what belongs to no single one of them to vanish.
const GAUGES: usize = 1024;
const THREADS: usize = 2;

/// What one of many takes besides itself after all threads have used all; and what the figures say of that.
fn beside_itself<G: Gauge>() -> (f64, f64) {
    let gauges: Vec<G> = (0..GAUGES).map(|_| G::new()).collect();
    let before = LIVE.load(Ordering::Relaxed);
    let all_are_here = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                all_are_here.wait();
                for gauge in &gauges {
                    // As often as makes a counter hot.
                    for _ in 0..200 {
                        gauge.acquire();
                        gauge.release();
                    }
                }
                // Both at once: leases, and rows, of their own.
                all_are_here.wait();
            });
        }
    });
    let taken = LIVE.load(Ordering::Relaxed).saturating_sub(before);
    let said: usize = gauges.iter().map(|gauge| gauge.bytes(THREADS)).sum();
    let idle = gauges[0].bytes(0);
    let said = match G::NAME {
        // Its figure is what it finds, also without threads.
        name if name == <LongAdder as Gauge>::NAME => said - GAUGES * size_of::<LongAdder>(),
        _ => said - GAUGES * idle,
    };
    assert!(gauges.iter().all(|gauge| gauge.in_use() == 0));
    (taken as f64 / GAUGES as f64, said as f64 / GAUGES as f64)
}

#[test]
fn what_is_taken_is_what_the_figures_say() {
    // Threads leave a little behind: rows, leases, what the standard library keeps.
    const SLACK: f64 = 64.0;
    for (name, (taken, said)) in [
        (<LongAdder as Gauge>::NAME, beside_itself::<LongAdder>()),
        (ContatoriGauge::NAME, beside_itself::<ContatoriGauge>()),
        (ReducerGauge::NAME, beside_itself::<ReducerGauge>()),
    ] {
        // The reducer's table comes with the first update, and with `bytes(0)` too.
        let table = if name == ReducerGauge::NAME {
            512.0
        } else {
            0.0
        };
        assert!(
            (taken - table - said).abs() <= SLACK,
            "{name}: {taken}, {said}"
        );
    }
    // Shares lie in chunks, each as large as all before it: at most twice as many as are used.
    for (name, (taken, said)) in [
        (CounterGauge::NAME, beside_itself::<CounterGauge>()),
        (SloppyGauge::NAME, beside_itself::<SloppyGauge>()),
    ] {
        assert_eq!(said, 16.0 * THREADS as f64, "{name}");
        assert!(taken <= 2.0 * said + SLACK, "{name}: {taken}, {said}");
        assert!(taken >= said, "{name}: {taken}, {said}");
    }
    for kind in CounterKind::ALL {
        let (one, two) = (kind.bytes(1), kind.bytes(2));
        assert!(one.idle >= 8 && one.idle == two.idle && one.hot <= two.hot);
    }
}
