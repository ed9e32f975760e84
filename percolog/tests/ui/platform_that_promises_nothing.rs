// error: E0200
#![allow(dead_code)]

struct Kernel;

// (The toy kernel among the examples is one that promises something.)
#[cfg(feature = "wrong")]
impl percolog::cpu::Platform for Kernel {
    fn slot() -> u32 {
        0
    }
    fn stamp() -> u64 {
        0
    }
    fn without_preemption(f: &mut dyn FnMut()) {
        f();
    }
}

fn main() {}
