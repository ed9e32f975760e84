//! What the library has of the system, refused, taken away in the middle, or in its other form: a storm in each, in a process of
//! its own.
//!
//! Whatever the system does, no update is lost and nothing is destroyed while it is used. What needs a barrier that is refused
//! says so, and changes nothing.
#![cfg(all(target_os = "linux", not(percolog_loom)))]

use crate::common::alive::{Alive, Value};
use crate::common::alone::alone;
use crate::common::child::{check, in_a_child};
use crate::common::eventually::eventually;
use crate::common::share::share;
use percolog::counter::{Counter, SloppyCounter};
use percolog::cpu::barrier::{self, BarrierMode};
use percolog::cpu::{SlotSource, slot_source};
use percolog::oplog::LoggedFn;
use percolog::reclaim::{Domain, Link, Owned};
use percolog::reduce::{Reducer, Sum};
use percolog::refcount::{self, CoreArc};
use percolog::requests::{RequestCounter, Requests, SharedRequestCounter};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Says what the environment asks for, before the library looks.
fn ask_for(variable: &str, value: &str) {
    // SAFETY: the process is this test's own, and has no other thread that reads the environment.
    unsafe { std::env::set_var(variable, value) };
}

/// From now on the kernel answers `membarrier` with this error, to all threads of the process. `false` where it installs no filters.
fn refuse_membarrier(error: i32) -> bool {
    // What a filter reads: the number of the call comes first.
    const fn instruction(code: u32, k: u32, otherwise: u8) -> libc::sock_filter {
        libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf: otherwise,
            k,
        }
    }
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::SYS_membarrier as u32,
            1,
        ),
        instruction(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | error as u32,
            0,
        ),
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which outlives the call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program,
            ) == 0
    }
}

/// A value for each kind of structure that something is read or kept in without a lock, and what threads do to all of them.
struct Everything {
    alive: Alive,
    domain: Domain,
    link: Link<Value>,
    counter: Counter,
    reducer: Reducer<Sum<u64>>,
    log: LoggedFn<u64>,
    shared: CoreArc<Value>,
    requests: RequestCounter,
    /// Changed one after the other, while nobody is inside of `requests`.
    halves: [AtomicU64; 2],
}

/// What a storm was refused.
#[derive(Default)]
struct Refused(AtomicU64);

impl Refused {
    fn count<T, E>(&self, outcome: Result<T, E>) -> Option<T> {
        if outcome.is_err() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        outcome.ok()
    }
}

impl Everything {
    fn new() -> Self {
        let alive = Alive::default();
        Self {
            link: Link::new(Owned::new(alive.value(0))),
            shared: CoreArc::new(alive.value(1)),
            alive,
            domain: Domain::new(),
            counter: Counter::new(),
            reducer: Reducer::new(),
            log: LoggedFn::new(0),
            requests: RequestCounter::new(),
            halves: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// One update of each, and reads now and then. `mine` counts the caller's updates before; one thread `blocks` requests.
    fn update(
        &self,
        sloppy: &SloppyCounter<&AtomicI64>,
        mine: u64,
        blocks: bool,
        refused: &Refused,
    ) {
        let section = self.domain.enter();
        let found = self.link.load(&section).expect("never empty");
        if mine.is_multiple_of(4) {
            let new = Owned::new(self.alive.value(mine));
            let old = self.link.swap(Some(new)).expect("never empty");
            // SAFETY: only this link led to it, and it is read in sections of the domain.
            unsafe { self.domain.retire(old) };
        }
        sloppy.acquire(3);
        self.counter.increment();
        self.reducer.update(|sum| sum.add(1));
        self.log.update(|updates| *updates += 1);
        let shared = self.shared.clone();
        if let Ok(_inside) = self.requests.enter() {
            let [one, other] = self.halves.each_ref().map(|it| it.load(Ordering::Relaxed));
            assert_eq!(
                one, other,
                "somebody changes them while a request is inside"
            );
        }
        found.number();
        shared.number();
        drop(section);
        sloppy.release(3);
        if mine.is_multiple_of(128) {
            assert!(self.counter.sum() > mine as i64);
            assert!(*self.log.synchronize() > mine);
            if let Some(sum) = refused.count(self.reducer.try_read()) {
                assert!(sum.0 > mine);
            }
            let change = || {
                for half in &self.halves {
                    half.store(half.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    thread::yield_now();
                }
            };
            if blocks {
                refused.count(self.requests.blocked(change));
            }
            self.domain.collect();
        }
    }

    /// What a forked child does, which has one thread.
    fn in_a_child(&self) -> Result<(), u8> {
        let sum = self.counter.sum();
        self.counter.increment();
        check(self.counter.sum() == sum + 1, 1)?;
        let section = self.domain.enter();
        self.link.load(&section).expect("never empty").number();
        let new = Owned::new(self.alive.value(0));
        let old = self.link.swap(Some(new)).expect("never empty");
        // SAFETY: as in `update`.
        unsafe { self.domain.retire(old) };
        drop(section);
        self.domain.collect();
        self.reducer.update(|sum| sum.add(1));
        if let Ok(seen) = self.reducer.try_read() {
            check(seen.0 > 0, 2)?;
        }
        drop(self.shared.clone());
        self.shared.number();
        check(self.shared.number() == 1, 3)
    }

    /// What must be true when all is over.
    fn check(self, sloppy: SloppyCounter<&AtomicI64>, updates: u64, is_refused: bool) {
        assert_eq!(self.counter.sum() as u64, updates);
        assert_eq!(*self.log.synchronize(), updates);
        assert_eq!(self.reducer.into_inner(), Sum(updates));
        // Gives all spares back, without a barrier.
        drop(sloppy);
        assert_eq!(CENTRAL.load(Ordering::Relaxed), 0);
        let stats = self.domain.stats();
        assert!(is_refused || stats.destroyed > 0, "{stats:?}");
        let mut link = self.link;
        drop(link.take());
        drop(self.domain);
        self.shared.number();
        assert_eq!(self.alive.count(), 1);
        drop(self.shared);
        if !is_refused {
            assert!(eventually(|| {
                refcount::reclaim();
                self.alive.count() == 0
            }));
        }
    }
}

const THREADS: u64 = 4;

/// What the sloppy counter of a storm counts beside.
static CENTRAL: AtomicI64 = AtomicI64::new(0);

/// Several threads that do everything, while the process forks, and `in_the_middle`. Returns how often something was refused.
fn storm(in_the_middle: impl Fn() -> bool + Sync) -> u64 {
    let everything = Everything::new();
    let sloppy = SloppyCounter::beside(&CENTRAL, 64);
    let rounds = share(20_000) as u64;
    let refused = Refused::default();
    let is_refused = AtomicBool::new(false);
    let together = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (everything, sloppy, refused) = (&everything, &sloppy, &refused);
            let (in_the_middle, together, is_refused) = (&in_the_middle, &together, &is_refused);
            scope.spawn(move || {
                for mine in 0..rounds {
                    if mine == rounds / 2 {
                        // All have used everything, and none is over.
                        together.wait();
                        if number == 0 {
                            is_refused.store(in_the_middle(), Ordering::Relaxed);
                        }
                    }
                    everything.update(sloppy, mine, number == 0, refused);
                    if number == 0 && mine.is_multiple_of(rounds.div_ceil(20)) {
                        in_a_child(|| everything.in_a_child());
                    }
                }
            });
        }
    });
    let is_refused = is_refused.into_inner();
    if is_refused {
        assert!(everything.reducer.try_read().is_err());
        assert!(everything.requests.block().is_err());
        assert!(everything.requests.enter().is_ok(), "it stays open");
    }
    everything.check(sloppy, THREADS * rounds, is_refused);
    refused.0.into_inner()
}

#[test]
fn a_storm_with_what_the_system_has() {
    alone!();
    assert_eq!(storm(|| false), 0);
}

#[test]
fn a_storm_with_fences() {
    alone!();
    ask_for("PERCOLOG_BARRIER", "fence");
    assert_eq!(storm(|| false), 0);
    assert_eq!(barrier::mode(), BarrierMode::Fence);
}

#[test]
fn a_storm_with_a_slot_a_thread() {
    alone!();
    ask_for("PERCOLOG_SLOTS", "thread");
    assert_eq!(storm(|| false), 0);
    assert_eq!(slot_source(), SlotSource::Thread);
}

#[test]
fn a_storm_where_membarrier_was_never_allowed() {
    alone!();
    if refuse_membarrier(libc::EPERM) {
        assert_eq!(storm(|| false), 0);
        assert_eq!(barrier::mode(), BarrierMode::Fence);
    }
}

#[test]
fn a_storm_where_membarrier_is_unknown() {
    alone!();
    if refuse_membarrier(libc::ENOSYS) {
        assert_eq!(storm(|| false), 0);
        assert_eq!(barrier::mode(), BarrierMode::Fence);
    }
}

/// Whether the barrier is refused from now on: it has been offered, and the kernel installs the filter.
fn is_refused_now(error: i32) -> bool {
    barrier::mode() == BarrierMode::Membarrier && refuse_membarrier(error)
}

#[test]
fn a_storm_in_which_membarrier_is_forbidden() {
    alone!();
    storm(|| is_refused_now(libc::EPERM));
}

#[test]
fn a_storm_in_which_membarrier_goes_away() {
    alone!();
    storm(|| is_refused_now(libc::ENOSYS));
}

/// A `fork` cannot be refused, so it waits for what others are in the middle of without the barrier, too.
#[test]
fn a_child_finds_nothing_half_done_where_membarrier_was_forbidden() {
    alone!();
    const MANY: i64 = 1000;
    type Wide = [Sum<u64>; 32];
    let reducer: Reducer<Wide> = Reducer::new();
    let add = |share: &mut Wide| {
        let (first, second) = share.split_at_mut(16);
        first.iter_mut().for_each(|sum| sum.add(1));
        // Forks come in the middle of updates: these take several times as long as what takes the barrier's place, which each
        // kind of object waits for by itself.
        thread::sleep(Duration::from_millis(100));
        second.iter_mut().for_each(|sum| sum.add(1));
    };
    let sloppy = SloppyCounter::beside(&CENTRAL, MANY as u64 * 3 / 2);
    let over = AtomicBool::new(false);
    let together = Barrier::new(THREADS as usize + 1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                reducer.update(add);
                sloppy.release(0);
                together.wait();
                while !over.load(Ordering::Relaxed) {
                    reducer.update(add);
                    // Twice, so that spares are given back, which changes two words.
                    CENTRAL.fetch_add(MANY, Ordering::AcqRel);
                    sloppy.release(MANY as u64);
                }
            });
        }
        together.wait();
        is_refused_now(libc::EPERM);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..share(20) {
                in_a_child(|| {
                    // SAFETY: the child has one thread and leaves by `_exit`, so nobody uses the originals again.
                    let (reducer, sloppy) =
                        unsafe { (std::ptr::read(&reducer), std::ptr::read(&sloppy)) };
                    // Both of these do without a barrier.
                    let sums = reducer.into_inner();
                    check(sums.iter().all(|sum| sum == &sums[0]), 1)?;
                    drop(sloppy);
                    let in_use = CENTRAL.load(Ordering::Relaxed);
                    let between = 0..=THREADS as i64 * MANY;
                    check(in_use % MANY == 0 && between.contains(&in_use), 2)
                });
            }
        }));
        over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// What signal handlers may do: acquire and release, and enter and leave the counter that is one word.
#[test]
fn signals_in_the_middle_of_what_allows_them() {
    alone!();
    static SLOPPY: SloppyCounter = SloppyCounter::new(64);
    static REQUESTS: SharedRequestCounter = SharedRequestCounter::new();
    static HANDLED: AtomicU64 = AtomicU64::new(0);

    extern "C" fn handle(_signal: libc::c_int) {
        SLOPPY.acquire(2);
        let pass = REQUESTS.try_enter();
        SLOPPY.release(5);
        SLOPPY.acquire(3);
        drop(pass);
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }

    // SAFETY: the handler does what handlers may do, on threads that have released before.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()),
            0
        );
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (say, hear) = mpsc::channel();
        for _ in 0..THREADS {
            let (say, over) = (say.clone(), &over);
            scope.spawn(move || {
                SLOPPY.acquire(1);
                SLOPPY.release(1);
                // As a number: it is a pointer in musl's library, and those do not go to other threads.
                // SAFETY: no preconditions.
                say.send(unsafe { libc::pthread_self() } as usize)
                    .expect("somebody hears");
                while !over.load(Ordering::Relaxed) {
                    SLOPPY.acquire(3);
                    let pass = REQUESTS.enter().expect("nobody refuses");
                    SLOPPY.release(3);
                    drop(pass);
                }
            });
        }
        let threads: Vec<_> = hear.iter().take(THREADS as usize).collect();
        for round in 0..share(20_000) as u64 {
            let thread = threads[round as usize % threads.len()] as libc::pthread_t;
            // SAFETY: the thread is there until it is told that all is over.
            assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
            if round.is_multiple_of(100) {
                let in_use = SLOPPY.in_use();
                assert!(
                    (-3 * THREADS as i64..=5 * THREADS as i64).contains(&in_use),
                    "{in_use}"
                );
            }
        }
        assert!(eventually(|| HANDLED.load(Ordering::Relaxed) > 0));
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(SLOPPY.in_use(), 0);
    assert_eq!(SLOPPY.reconcile(), 0);
    REQUESTS.try_block().expect("nobody is inside");
}
