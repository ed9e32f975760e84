#![allow(missing_docs)]
use percolog::refcount::CoreArc;
use std::sync::{Arc, Barrier};
use std::hint::black_box;
use std::time::Instant;
#[inline(never)]
fn one_arc(a: &Arc<u64>) { drop(black_box(a.clone())); }
#[inline(never)]
fn one_core(a: &CoreArc<u64>) { drop(black_box(a.clone())); }
#[inline(never)]
fn arcs(a: &Arc<u64>, n: u64) { for _ in 0..n { drop(black_box(a.clone())); } }
#[inline(never)]
fn cores(a: &CoreArc<u64>, n: u64) { for _ in 0..n { drop(black_box(a.clone())); } }
fn time(threads: usize, n: u64, f: impl Fn(u64) + Sync) -> f64 {
    let b = Barrier::new(threads);
    let worst = std::thread::scope(|s| {
        let h: Vec<_> = (0..threads).map(|_| s.spawn(|| { b.wait(); let t = Instant::now(); f(n); t.elapsed().as_nanos() as f64 })).collect();
        h.into_iter().map(|h| h.join().unwrap()).fold(0.0, f64::max)
    });
    worst / n as f64
}
fn main() {
    let n: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(5_000_000);
    if std::env::args().nth(2).as_deref() == Some("new") {
        for _ in 0..9 {
            let x = time(1, n, |n| for i in 0..n { drop(black_box(Arc::new(i))) });
            let y = time(1, n, |n| for i in 0..n { drop(black_box(CoreArc::new(i))) });
            println!("new+drop Arc {x:.1} CoreArc {y:.1} ns");
        }
        return;
    }
    for threads in [1, 2] {
        let mut v = vec![];
        for _ in 0..9 {
            let arc = Arc::new(1u64); let core = CoreArc::new(1u64); let hot = CoreArc::into_hot(CoreArc::new(1u64));
            v.push([time(threads, n, |n| arcs(&arc, n)), time(threads, n, |n| cores(&core, n)), time(threads, n, |n| cores(&hot, n))]);
        }
        for (k, name) in ["Arc", "CoreArc", "hot CoreArc"].iter().enumerate() {
            let mut x: Vec<f64> = v.iter().map(|v| v[k]).collect(); x.sort_by(f64::total_cmp);
            println!("{threads} threads {name}: min {:.2} median {:.2} max {:.2} ns", x[0], x[4], x[8]);
        }
    }
    one_arc(&Arc::new(1)); one_core(&CoreArc::new(1));
}
