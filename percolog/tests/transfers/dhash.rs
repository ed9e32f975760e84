//! Distributed hash tables and counters of requests.

use percolog::counter::Counter;
use percolog::dhash::DHash;
use percolog::requests::{RequestCounter, Requests, SharedRequestCounter};

use super::objects::Shared;
use super::workloads::between_reads;
use super::{SHARED_LINE, breaks, keeps};

/// Elements of which each thread has a part when it has warmed up.
const KEYS: u64 = 2;

/// `DHash::find_or_allocate_and_lock` of elements that all threads use.
struct Found(DHash<u64, (), u64>);

impl Shared for Found {
    fn new(_threads: usize) -> Self {
        let object = Self(DHash::new(|_, ()| 0));
        percolog_roi::label(&object.0, "DHash");
        object
    }

    fn update(&self, _thread: usize, number: u64) {
        let mut local = self
            .0
            .find_or_allocate_and_lock(&(number % KEYS), |_| ())
            .expect("no guard is out");
        *local += 1;
    }

    fn read(&self) -> u64 {
        let sum = |key| self.0.gather(&key, |()| 0, |sum, local| *sum += *local);
        (0..KEYS)
            .map(|key| sum(key).expect("no guard is out").unwrap_or(0))
            .sum()
    }
}

/// Requests that are counted besides, with what moves nothing either.
struct Entered<C> {
    requests: C,
    made: Counter,
}

impl<C: Requests + Default + Send + 'static> Shared for Entered<C> {
    fn new(_threads: usize) -> Self {
        let object = Self {
            requests: C::default(),
            made: Counter::new(),
        };
        percolog_roi::label(&object.requests, "requests");
        object
    }

    fn update(&self, _thread: usize, _number: u64) {
        let pass = self.requests.enter().expect("nobody refuses");
        self.made.increment();
        drop(pass);
    }

    fn read(&self) -> u64 {
        let made = self.requests.blocked(|| self.made.sum());
        made.expect("nobody else blocks") as u64
    }
}

#[test]
fn resident_elements_are_found() {
    keeps(between_reads::<Found>, 0.0);
}

#[test]
fn requests_enter_and_leave() {
    keeps(between_reads::<Entered<RequestCounter>>, 0.0);
}

/// All who enter and leave write to one word.
#[test]
fn requests_enter_and_leave_at_one_word() {
    breaks(
        between_reads::<Entered<SharedRequestCounter>>,
        0.0,
        SHARED_LINE,
    );
}
