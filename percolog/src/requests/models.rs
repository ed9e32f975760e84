//! Every interleaving of requests and of who stops them, within loom's bounds.
//!
//! What no model here can see: the kernel's barrier (models have a fence on both sides; see the litmus tests), and deadlines.

use super::control::{Control, Word};
use super::places::Places;
use super::sealed::Count;
use super::{RequestState, Requests, SharedRequestCounter, StopError};
use crate::cpu::barrier;
use crate::sync::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

#[derive(Debug)]
struct Core {
    control: Control,
    places: Places,
}

/// A counter as a thread with this lease, or with none, sees it.
#[derive(Debug, Clone)]
struct Seen(Arc<Core>, Option<usize>);

impl Seen {
    fn new() -> Self {
        let (control, places) = (Control::new(), Places::new());
        Self(Arc::new(Core { control, places }), Some(0))
    }
}

impl Count for Seen {
    fn count_in(&self) -> Result<(), Word> {
        match self.1 {
            // SAFETY: in each model a lease is used by one thread.
            Some(lease) => unsafe { self.0.places.enter_leased(lease, &self.0.control) },
            None => self.0.places.enter_common(0, &self.0.control),
        }
    }

    unsafe fn count_out(&self) {
        match self.1 {
            // SAFETY: as above.
            Some(lease) => unsafe { self.0.places.leave_leased(lease) },
            None => self.0.places.leave_common(0),
        }
    }

    fn pass_barrier(&self) -> bool {
        barrier::heavy(barrier::mode())
    }

    fn inside(&self) -> u64 {
        self.0.places.inside()
    }

    fn control(&self) -> &Control {
        &self.0.control
    }
}

/// A counter that threads of a model share: which of them sees it how.
trait Shared: Requests + Send + 'static {
    fn by(&self, lease: Option<usize>) -> Self;
}

impl Shared for Seen {
    fn by(&self, lease: Option<usize>) -> Self {
        Self(self.0.clone(), lease)
    }
}

impl Shared for Arc<SharedRequestCounter> {
    fn by(&self, _lease: Option<usize>) -> Self {
        self.clone()
    }
}

impl Count for Arc<SharedRequestCounter> {
    fn count_in(&self) -> Result<(), Word> {
        (**self).count_in()
    }

    unsafe fn count_out(&self) {
        // SAFETY: by contract.
        unsafe { (**self).count_out() };
    }

    fn pass_barrier(&self) -> bool {
        (**self).pass_barrier()
    }

    fn inside(&self) -> u64 {
        (**self).inside()
    }

    fn control(&self) -> &Control {
        (**self).control()
    }
}

fn shared() -> Arc<SharedRequestCounter> {
    Arc::new(SharedRequestCounter::new())
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// What requests read and who blocks them writes: loom reports a request that is inside while it is written.
type Guarded = Arc<UnsafeCell<u32>>;

fn read(value: &Guarded) -> u32 {
    // SAFETY: the caller is inside, or nobody else is left.
    value.with(|value| unsafe { *value })
}

fn write(value: &Guarded) {
    // SAFETY: the caller blocks the counter.
    value.with_mut(|value| unsafe { *value += 1 });
}

fn a_request_and_a_block_never_meet<C: Shared>(new: fn() -> C, lease: Option<usize>) {
    loom::model(move || {
        let (counter, value) = (new(), Guarded::new(UnsafeCell::new(0)));
        let request = thread::spawn({
            let (counter, value) = (counter.by(lease), value.clone());
            move || {
                for _ in 0..2 {
                    let pass = counter.enter().expect("it is not refused");
                    read(&value);
                    drop(pass);
                }
            }
        });
        let blocker = thread::spawn({
            let (counter, value) = (counter.by(Some(1)), value.clone());
            move || {
                counter
                    .blocked(|| write(&value))
                    .expect("nobody else blocks");
            }
        });
        join(request);
        join(blocker);
        assert_eq!(read(&value), 1);
    });
}

#[test]
fn a_request_and_a_block_never_meet_at_a_leased_place() {
    a_request_and_a_block_never_meet(Seen::new, Some(0));
}

#[test]
fn a_request_and_a_block_never_meet_at_a_common_place() {
    a_request_and_a_block_never_meet(Seen::new, None);
}

#[test]
fn a_request_and_a_block_never_meet_at_one_word() {
    a_request_and_a_block_never_meet(shared, None);
}

/// A pass is left where it was not entered, while another request comes and goes: what is counted out there does not stand for what is
/// inside here.
#[test]
fn a_pass_that_is_left_elsewhere_is_waited_for() {
    loom::model(|| {
        let (counter, value) = (Seen::new(), Guarded::new(UnsafeCell::new(0)));
        counter.by(Some(0)).enter().expect("it is open").keep();
        let elsewhere = thread::spawn({
            let (counter, value) = (counter.by(Some(1)), value.clone());
            move || {
                read(&value);
                // SAFETY: the pass that was kept.
                unsafe { counter.leave_kept() };
            }
        });
        let other = thread::spawn({
            let counter = counter.by(None);
            move || drop(counter.enter())
        });
        counter
            .blocked(|| write(&value))
            .expect("nobody else blocks");
        join(elsewhere);
        join(other);
    });
}

/// Of a request and a refusal, either the request came first, or it is refused; and no request is left behind.
#[test]
fn what_is_refused_has_not_been_inside() {
    loom::model(|| {
        let (counter, value) = (Seen::new(), Guarded::new(UnsafeCell::new(0)));
        let request = thread::spawn({
            let (counter, value) = (counter.by(Some(0)), value.clone());
            move || match counter.enter() {
                Ok(_pass) => {
                    read(&value);
                    true
                }
                Err(_) => false,
            }
        });
        counter.by(Some(1)).refuse().expect("nobody opens it");
        // It can be destroyed.
        write(&value);
        join(request);
        assert_eq!(counter.state(), RequestState::Refusing);
    });
}

/// One of two that block has it, and the other one is told or comes later.
#[test]
fn one_at_a_time_blocks() {
    loom::model(|| {
        let (counter, value) = (Seen::new(), Guarded::new(UnsafeCell::new(0)));
        let threads = [0, 1].map(|lease| {
            let (counter, value) = (counter.by(Some(lease)), value.clone());
            thread::spawn(move || match counter.blocked(|| write(&value)) {
                Ok(()) => 1,
                Err(error) => {
                    assert_eq!(error, StopError::NotOpen(RequestState::Blocked));
                    0
                }
            })
        });
        let blocked: u32 = threads.map(join).into_iter().sum();
        assert!(blocked > 0);
        assert_eq!(read(&value), blocked);
        assert_eq!(counter.state(), RequestState::Open);
    });
}
