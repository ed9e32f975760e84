//! A result from a process that a signal from outside ends, under a QEMU that does not catch it.
//!
//! QEMU 7.2 catches every signal that ends its guest, and ends the process itself: see `dying`. Later versions leave the
//! signals that make no core dump to the kernel, unless the guest catches them. They are caught here. A handler can do
//! little, since it may have interrupted anything: a thread of the plugin's own writes the result. A guest that sets such
//! a signal back to its default leaves no result when it comes.

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::plugin::{dying, qemu};

/// Those that end a process without a core dump: HUP, INT, USR1, USR2, PIPE, ALRM, TERM, STKFLT, VTALRM, PROF, POLL, PWR.
const ENDING: [c_int; 12] = [1, 2, 10, 12, 13, 14, 15, 16, 26, 27, 29, 30];

const SYS_FUTEX: c_long = 202;
const FUTEX_WAIT_PRIVATE: c_int = 128;
const FUTEX_WAKE_PRIVATE: c_int = 129;
const SIG_BLOCK: c_int = 0;
const SIG_SETMASK: c_int = 2;
const SA_RESTART: c_int = 0x1000_0000;

/// A set of signals, of the C library's size.
type Signals = [u64; 16];

/// The C library's `struct sigaction`.
#[repr(C)]
struct Action {
    handler: usize,
    blocked: Signals,
    flags: c_int,
    restorer: usize,
}

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int;
    fn pthread_sigmask(how: c_int, new: *const Signals, old: *mut Signals) -> c_int;
}

/// Whether the thread has begun to wait.
static READY: AtomicBool = AtomicBool::new(false);

/// The signal that has come; 0 if none has.
static CAME: AtomicI32 = AtomicI32::new(0);

/// Has the result written when such a signal comes.
pub(crate) fn watch() {
    if qemu::is_first_version() {
        return;
    }
    let new = Action {
        handler: came as extern "C" fn(c_int) as usize,
        blocked: [u64::MAX; 16],
        flags: SA_RESTART,
        restorer: 0,
    };
    for signal in ENDING {
        let mut old = Action {
            handler: 1,
            blocked: [0; 16],
            flags: 0,
            restorer: 0,
        };
        // SAFETY: both actions are valid; the handler does what one may do.
        unsafe {
            // A signal that is ignored, or has a handler, stays so.
            if sigaction(signal, std::ptr::null(), &raw mut old) == 0 && old.handler == 0 {
                sigaction(signal, &raw const new, std::ptr::null_mut());
            }
        }
    }
    wait_elsewhere();
}

/// A forked child has no such thread until it makes one.
pub(crate) fn forked() {
    if !qemu::is_first_version() {
        wait_elsewhere();
    }
}

fn wait_elsewhere() {
    let mut before: Signals = [0; 16];
    // The thread is none of QEMU's: a handler of QEMU's must not run on it. It inherits what is blocked here.
    // SAFETY: both sets are valid.
    unsafe { pthread_sigmask(SIG_BLOCK, &[u64::MAX; 16], &raw mut before) };
    // Without it the process dies as it would have, and leaves no result. A thread takes memory of the host when it
    // begins; that must not come between the guest's own maps, or they lie elsewhere in each run.
    READY.store(false, Ordering::Relaxed);
    if std::thread::Builder::new().spawn(wait).is_ok() {
        // Acquire: pairs with the store in `wait`.
        while !READY.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
    // SAFETY: the set is what was there before.
    unsafe { pthread_sigmask(SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
}

extern "C" fn came(signal: c_int) {
    // Relaxed: the number is all that is said. The first one counts.
    let _ = CAME.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
    // SAFETY: the word is static. A system call may be made in a handler.
    unsafe { syscall(SYS_FUTEX, CAME.as_ptr(), FUTEX_WAKE_PRIVATE, 1_i64) };
}

fn wait() {
    READY.store(true, Ordering::Release);
    let signal = loop {
        match CAME.load(Ordering::Relaxed) {
            // SAFETY: the word is static; a null pointer means that there is no end to the wait.
            0 => unsafe {
                let forever: *const c_void = std::ptr::null();
                syscall(SYS_FUTEX, CAME.as_ptr(), FUTEX_WAIT_PRIVATE, 0_i64, forever);
            },
            signal => break signal,
        }
    };
    dying::write_result(signal);
    let default = Action {
        handler: 0,
        blocked: [0; 16],
        flags: 0,
        restorer: 0,
    };
    // SAFETY: the action and the set are valid. The signal then ends the process: it is not blocked here.
    unsafe {
        sigaction(signal, &raw const default, std::ptr::null_mut());
        pthread_sigmask(SIG_SETMASK, &[0; 16], std::ptr::null_mut());
    }
    dying::kill_this_process(signal);
}
