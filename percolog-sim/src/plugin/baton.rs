//! Passing the turn between the host's threads: each guest thread has one, and one of them runs at a time.
//!
//! A thread without the turn is parked on a word of its own. All waits are timed, since QEMU may need a parked thread:
//! to deliver a signal, or to have every thread outside translated code while it forks, ends, or throws its code away.
//! QEMU then marks the thread's state, and a parked thread looks for that mark each time its wait runs out.

use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::plugin::common::Common;
use crate::plugin::hot::{self, THREADS};
use crate::plugin::{kind, qemu};

/// How long a parked thread sleeps before it looks whether QEMU needs it.
const PATIENCE_NANOSECONDS: i64 = 20_000_000;

const SYS_FUTEX: c_long = 202;
const FUTEX_WAIT: c_int = 0;
const FUTEX_WAKE: c_int = 1;
/// Added to either: nobody of another process is meant, which costs the kernel less.
const FUTEX_PRIVATE: c_int = 128;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

#[repr(C)]
struct TimeSpec {
    seconds: i64,
    nanoseconds: i64,
}

/// Where a thread waits for its turn.
#[repr(align(64))]
struct Seat {
    /// 1: this thread has been given the turn.
    go: AtomicU32,
    /// The thread has ended without the turn.
    ended: AtomicBool,
    /// The process that it belongs to; 0 if that is not known yet.
    process: AtomicU32,
    /// What QEMU calls it there.
    vcpu: AtomicU32,
}

static SEATS: Common<[AtomicPtr<Seat>; THREADS]> =
    Common::new([const { AtomicPtr::new(ptr::null_mut()) }; THREADS]);

thread_local! {
    /// Where QEMU keeps the state of the guest thread that runs on this thread of the host.
    static STATE: Cell<*const u64> = const { Cell::new(ptr::null()) };
    /// Whether this thread is in a system call of the host, and has given the turn away.
    static AWAY: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread's state, as last seen.
pub(crate) fn state() -> *const u64 {
    STATE.get()
}

/// Notes where the calling thread's state is.
pub(crate) fn set_state(state: *const u64) {
    STATE.set(state);
}

/// Whether the calling thread has gone to the host, and has not said yet that it is back.
pub(crate) fn is_away() -> bool {
    AWAY.get()
}

/// Notes that the calling thread goes to the host, or is back.
pub(crate) fn set_away(away: bool) {
    AWAY.set(away);
}

/// Whether all threads of this process are let go: no turn counts, and nothing is simulated.
static DRAINING: AtomicBool = AtomicBool::new(false);

/// Whether the process ends: see [`set_ending`].
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the process ends.
pub(crate) fn is_ending() -> bool {
    // Acquire: pairs with the store in `set_ending`.
    ENDING.load(Ordering::Acquire)
}

/// Notes that the process ends, before its threads are let go, or that a forked child does not.
pub(crate) fn set_ending(ending: bool) {
    // Release: whoever finds the threads let go finds this too.
    ENDING.store(ending, Ordering::Release);
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The turn was given to the caller.
    Turn,
    /// QEMU needs the thread.
    Needed,
    /// All threads are let go.
    Draining,
    /// Nothing happened for a while.
    Nothing,
}

/// What is added to the calls of the kernel: [`FUTEX_PRIVATE`] until there is a second process.
static PRIVATE: Common<AtomicI32> = Common::new(AtomicI32::new(FUTEX_PRIVATE));

/// Has the places shared with forked processes.
pub(crate) fn share() {
    SEATS.share();
    PRIVATE.share();
}

/// There will be other processes. Whoever is parked is let go before there are.
pub(crate) fn expect_processes() {
    // Relaxed: who is parked by the old word is woken by `set_draining`, or wakes by itself soon.
    PRIVATE.store(0, Ordering::Relaxed);
}

/// Prepares the place of a thread. Called before the thread runs.
pub(crate) fn prepare(thread: usize, vcpu: u32) {
    if thread >= THREADS {
        crate::plugin::fatal(&format!(
            "the program has more than {THREADS} threads at a time, which the simulator has no room for"
        ));
    }
    let seat = Box::into_raw(Box::new(Seat {
        go: AtomicU32::new(0),
        ended: AtomicBool::new(false),
        process: AtomicU32::new(std::process::id()),
        vcpu: AtomicU32::new(vcpu),
    }));
    // Release: pairs with the acquire load of `seat`, so that whoever finds the seat finds it made.
    let old = SEATS[thread].swap(seat, Ordering::Release);
    // The seat of an ended thread with the same number is not freed: the host's thread may still be on its way out.
    let _ = old;
}

/// What QEMU calls a thread.
pub(crate) fn vcpu(thread: usize) -> u32 {
    // Relaxed: set before the thread runs.
    seat(thread).vcpu.load(Ordering::Relaxed)
}

/// Says which process of the host a thread belongs to.
pub(crate) fn set_process(thread: usize, process: u32) {
    // Relaxed: a hint for who waits in vain.
    seat(thread).process.store(process, Ordering::Relaxed);
}

/// The process that a thread belongs to; 0 if that is not known.
pub(crate) fn process_of(thread: usize) -> u32 {
    // Relaxed: see `set_process`.
    seat(thread).process.load(Ordering::Relaxed)
}

fn seat(thread: usize) -> &'static Seat {
    // Acquire: pairs with the release store in `prepare`.
    let seat = SEATS[thread].load(Ordering::Acquire);
    // SAFETY: `prepare` was called for each thread that there is, and seats are never freed.
    unsafe { &*seat }
}

/// Gives the turn to a thread that is parked, or will be.
pub(crate) fn give(thread: usize) {
    let seat = seat(thread);
    // Release: what the giver did to the simulation is seen by the thread that takes the turn (acquire, in `take`).
    seat.go.store(1, Ordering::Release);
    wake(&seat.go, PRIVATE.load(Ordering::Relaxed));
}

/// Notes that a thread ends without having the turn.
pub(crate) fn set_ended(thread: usize) {
    // SeqCst: with the load of the turn's owner that follows in the thread, against the store to the owner and the
    // load in `has_ended` by whoever gives it the turn: at least one of them sees what the other did.
    seat(thread).ended.store(true, Ordering::SeqCst);
}

/// Whether a thread has ended without having the turn.
pub(crate) fn has_ended(thread: usize) -> bool {
    // SeqCst: see `set_ended`.
    seat(thread).ended.load(Ordering::SeqCst)
}

/// Takes the turn if it was given to this thread, the calling one.
pub(crate) fn take(thread: usize) -> bool {
    // Acquire: pairs with the release store in `give`.
    let taken = seat(thread).go.swap(0, Ordering::Acquire) == 1;
    if taken {
        keep(thread);
    }
    taken
}

/// The calling thread has the turn, and does not have to be given it.
pub(crate) fn keep(thread: usize) {
    hot::set_turn(vcpu(thread));
}

/// Waits until the turn is given, QEMU needs this thread, or a while has passed.
pub(crate) fn wait(thread: usize, state: *const u64) -> Waited {
    // First: the number of a thread whose process is over may be another's already, and so may the turn be that is given to it.
    if is_draining() {
        return Waited::Draining;
    }
    let seat = seat(thread);
    if take(thread) {
        return Waited::Turn;
    }
    let patience = TimeSpec {
        seconds: 0,
        nanoseconds: PATIENCE_NANOSECONDS,
    };
    // SAFETY: the word and the time live on; the kernel returns at once when the word is no longer 0. A failure means
    // that it is not, that time has passed, or that a signal came: all of them are looked into below.
    unsafe {
        syscall(
            SYS_FUTEX,
            seat.go.as_ptr(),
            FUTEX_WAIT | PRIVATE.load(Ordering::Relaxed),
            0_i64,
            &raw const patience,
        );
    }
    if is_draining() {
        Waited::Draining
    } else if take(thread) {
        Waited::Turn
    } else if is_needed(state) {
        Waited::Needed
    } else {
        Waited::Nothing
    }
}

/// Whether QEMU has asked the thread to leave translated code.
///
/// QEMU does so by making a counter negative that lies in the words just before the thread's registers, where
/// translated code looks at it between blocks; otherwise these words are zero or small. To be wrong here costs one
/// access that is not simulated, which the report counts.
fn is_needed(state: *const u64) -> bool {
    if state.is_null() {
        return false;
    }
    // Later versions have something else before the counter.
    let last = if qemu::is_first_version() { 4 } else { 2 };
    // SAFETY: QEMU's state of a processor is part of a larger object, of which the words before it are part too.
    (1..=last)
        .map(|back| unsafe { ptr::read_volatile(state.cast::<i32>().sub(back)) })
        .any(|word| word < 0 && !kind::is_own_wish(word))
}

fn wake(word: &AtomicU32, private: c_int) {
    // SAFETY: the word lives on. Waking nobody is not an error.
    unsafe {
        syscall(
            SYS_FUTEX,
            word.as_ptr(),
            FUTEX_WAKE | private,
            i64::from(i32::MAX),
        );
    }
}

/// Whether all threads are let go.
pub(crate) fn is_draining() -> bool {
    // Acquire: pairs with the store in `set_draining`.
    DRAINING.load(Ordering::Acquire)
}

/// Lets all parked threads of this process go, or ends that.
pub(crate) fn set_draining(draining: bool) {
    // Release: pairs with the load in `is_draining`; the state that the drained threads find was written before.
    DRAINING.store(draining, Ordering::Release);
    if draining {
        for thread in hot::own_threads() {
            for private in [0, FUTEX_PRIVATE] {
                wake(&seat(thread).go, private);
            }
        }
    }
}
