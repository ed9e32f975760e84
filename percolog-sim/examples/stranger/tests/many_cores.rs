//! What the crate promises about many cores, checked on a laptop. Where QEMU is missing these tests are skipped, and say so;
//! with `PERCOLOG_SIM_REQUIRED=1` they fail.

use std::sync::Barrier;
use std::thread;

use hit_counts::Hits;

const THREADS: usize = 48;
const EACH: u64 = 100;

#[test]
fn counting_moves_no_cache_line() {
    percolog_sim::assert_transfers(THREADS, 0.0, || {
        let hits = Hits::new(THREADS);
        let together = Barrier::new(THREADS);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (hits, together) = (&hits, &together);
                scope.spawn(move || {
                    percolog_roi::core(number);
                    // Warm: whatever is fetched the first time is not what is asked for.
                    hits.add(number);
                    together.wait();
                    percolog_roi::begin();
                    for _ in 0..EACH {
                        hits.add(number);
                    }
                    percolog_roi::end(EACH);
                    together.wait();
                });
            }
        });
    });
}

#[test]
fn no_hit_is_lost_whoever_is_interrupted() {
    percolog_sim::assert_survives_chaos(4, 20, || {
        // Fewer parts than threads, so that some share one.
        let hits = Hits::new(2);
        thread::scope(|scope| {
            for number in 0..4 {
                let hits = &hits;
                scope.spawn(move || (0..5).for_each(|_| hits.add(number)));
            }
        });
        assert_eq!(hits.total(), 4 * 5);
    });
}
