// error: E0200
#![allow(dead_code)]

struct Kernel;

macro_rules! platform {
    ($($implementation:tt)*) => {
        $($implementation)* percolog::cpu::Platform for Kernel {
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
    };
}

#[cfg(feature = "wrong")]
platform!(impl);
// SAFETY: nobody takes stamps of it, since the operating system is the platform here.
#[cfg(not(feature = "wrong"))]
platform!(unsafe impl);

fn main() {}
