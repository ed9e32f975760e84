//! What `percolog sim` runs: as many threads as it is told, counting.

use std::sync::Barrier;
use std::thread;

use hit_counts::Hits;

fn main() {
    let threads = std::env::args()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(8);
    let hits = Hits::new(threads);
    percolog_roi::label(&hits, "hits");
    let together = Barrier::new(threads);
    thread::scope(|scope| {
        for number in 0..threads {
            let (hits, together) = (&hits, &together);
            scope.spawn(move || {
                percolog_roi::core(number);
                hits.add(number);
                together.wait();
                percolog_roi::begin();
                (0..100).for_each(|_| hits.add(number));
                percolog_roi::end(100);
                together.wait();
            });
        }
    });
    assert_eq!(hits.total(), threads as u64 * 101);
}
