//! What share of lookups caches answer that evict by the exact order of touches, and percolog's cache, beside CLOCK, SIEVE and S3-FIFO.
//!
//! `cargo test --release -p percolog-bench --test hit_ratios -- --nocapture` prints the table. Traces have fixed seeds: the figures are
//! the same each time, on any machine.

use percolog_bench::eviction::{
    Clock, Eviction, Plain, Recency, S3Fifo, SecondChance, Sieve, drifting, hits, scans_between,
    zipf,
};

const KEYS: usize = 20_000;
const LOOKUPS: usize = 200_000;

/// Hits of each cache on one trace.
struct Hits {
    lookups: usize,
    plain: usize,
    exact: usize,
    at_a_time: usize,
    tenth_lost: usize,
    half_lost: usize,
    clock: usize,
    second_chance: usize,
    in_turns: usize,
    sieve: usize,
    s3_fifo: usize,
}

fn measure(name: &str, trace: &[u64], capacity: usize) -> Hits {
    let recency = |eviction| {
        let mut cache = Recency::new(capacity, eviction);
        let hits = hits(&mut cache, trace);
        assert_eq!(cache.discarded(), 0, "nobody else has it");
        hits
    };
    let exact = Eviction {
        cores: 8,
        at_a_time: 1,
        discarded: 0,
    };
    let measured = Hits {
        lookups: trace.len(),
        plain: hits(&mut Plain::new(capacity), trace),
        exact: recency(exact),
        at_a_time: recency(Eviction {
            at_a_time: 32,
            ..exact
        }),
        tenth_lost: recency(Eviction {
            discarded: 10,
            ..exact
        }),
        half_lost: recency(Eviction {
            discarded: 50,
            ..exact
        }),
        clock: hits(&mut Clock::new(capacity), trace),
        second_chance: hits(&mut SecondChance::new(capacity), trace),
        in_turns: SecondChance::new(capacity).hits_in_turns(trace, 8),
        sieve: hits(&mut Sieve::new(capacity), trace),
        s3_fifo: hits(&mut S3Fifo::new(capacity), trace),
    };
    println!("{name}, {capacity} keys fit:");
    for (cache, hits) in [
        ("exact order, plain", measured.plain),
        ("Lru on 8 cores", measured.exact),
        ("Lru, 32 evicted at a time", measured.at_a_time),
        ("Lru, 10 % of touches lost", measured.tenth_lost),
        ("Lru, 50 % of touches lost", measured.half_lost),
        ("CLOCK", measured.clock),
        ("Cache, one thread", measured.second_chance),
        ("Cache, 8 threads", measured.in_turns),
        ("SIEVE", measured.sieve),
        ("S3-FIFO", measured.s3_fifo),
    ] {
        println!("  {cache:<26} {:6.2} %", measured.percent(hits));
    }
    measured
}

impl Hits {
    fn percent(&self, hits: usize) -> f64 {
        100.0 * hits as f64 / self.lookups as f64
    }

    /// What holds on every trace.
    fn check(&self) {
        assert_eq!(
            self.exact, self.plain,
            "touches on several cores are in the order in which they were made"
        );
        // What is lost, and what is evicted early, changes the order only of what was used about as long ago.
        let plain = self.percent(self.plain);
        assert!(self.percent(self.tenth_lost) > plain - 0.5);
        assert!(self.percent(self.half_lost) > plain - 2.0);
        assert!(self.percent(self.at_a_time) > plain - 2.0);
        // Several lists, and marks that are set late, cost next to nothing.
        let clock = self.percent(self.clock);
        assert!((self.percent(self.second_chance) - clock).abs() < 0.2);
        assert!((self.percent(self.in_turns) - clock).abs() < 0.3);
    }
}

#[test]
fn on_a_skewed_trace() {
    let trace = zipf(1, KEYS, 0.9, LOOKUPS);
    for capacity in [KEYS / 100, KEYS / 10] {
        let measured = measure("Zipf 0.9", &trace, capacity);
        measured.check();
        // Who keeps what was hit more than once does better than exact order where keys have fixed frequencies; it would be
        // dishonest to leave that out.
        assert!(measured.sieve > measured.plain);
        assert!(measured.s3_fifo > measured.plain);
    }
}

/// YCSB's default.
#[test]
fn on_ycsbs_trace() {
    let trace = zipf(4, KEYS, 0.99, LOOKUPS);
    for capacity in [KEYS / 100, KEYS / 10, KEYS / 2] {
        measure("Zipf 0.99", &trace, capacity).check();
    }
}

#[test]
fn on_a_skewed_trace_with_scans() {
    let trace = scans_between(&zipf(2, KEYS, 0.9, LOOKUPS), 5000, 1000);
    for capacity in [KEYS / 100, KEYS / 10] {
        let measured = measure("Zipf 0.9 with scans", &trace, capacity);
        measured.check();
        assert!(measured.sieve > measured.plain);
        assert!(measured.s3_fifo > measured.plain);
    }
}

/// What is used now will be used soon, and what was used often before will not: for this the exact order is there.
#[test]
fn on_a_trace_that_drifts() {
    let trace = drifting(&zipf(3, KEYS / 10, 0.9, LOOKUPS), 5);
    let measured = measure("Zipf 0.9 that drifts", &trace, KEYS / 100);
    measured.check();
    assert!(measured.plain > measured.sieve);
    assert!(measured.plain > measured.s3_fifo);
}
