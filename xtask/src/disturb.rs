//! A busy machine: threads that never wait, and memory that is written again and again.
//!
//! What a test says must not depend on how much of the machine it gets. Tests run beside this, to find those whose result does.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// How many threads do nothing but compute.
const BUSY: usize = 4;

/// The share of the memory that is available at first, in percent, and the most of it in bytes.
const SHARE: usize = 60;
const MOST: usize = 16 << 30;

const PAGE: usize = 4096;

/// Keeps the machine busy until it is dropped.
pub(crate) struct Disturbance {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Disturbance {
    pub(crate) fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let bytes = available()
            .map_or(0, |available| available / 100 * SHARE)
            .min(MOST);
        let mut threads = Vec::new();
        for _ in 0..BUSY {
            threads.push(thread::spawn({
                let over = Arc::clone(&over);
                move || {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            }));
        }
        threads.push(thread::spawn({
            let over = Arc::clone(&over);
            move || write_again_and_again(bytes, &over)
        }));
        Self { over, threads }
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has nothing that could panic but the allocation: then there was less pressure, and no harm.
            let _ = thread.join();
        }
    }
}

/// Writes one word of each page, so that all of them are in use and none is like what a disk has.
fn write_again_and_again(bytes: usize, over: &AtomicBool) {
    let mut memory: Vec<usize> = vec![0; bytes / size_of::<usize>()];
    let mut round = 0;
    while !over.load(Ordering::Relaxed) {
        round += 1;
        for page in memory.chunks_mut(PAGE / size_of::<usize>()) {
            page[0] = round;
            if over.load(Ordering::Relaxed) {
                return;
            }
        }
        std::hint::black_box(&mut memory);
    }
}

/// The bytes that can be had without swapping, as the kernel estimates them.
fn available() -> Option<usize> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_much_memory_is_available() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn a_disturbance_ends_with_its_owner() {
        let over = Arc::new(AtomicBool::new(false));
        let writer = thread::spawn({
            let over = Arc::clone(&over);
            move || write_again_and_again(64 * PAGE, &over)
        });
        over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    }
}
