//! Objects inside objects, and objects in the place of others: which one a thread has, whatever lies at an address.

use crate::limits::{Push, Pushes, panic_of, stay};
use percolog::collections::Registry;
use percolog::oplog::{
    Lent, LogCache, LogCacheBuilder, Logged, LoggedFn, Operation, SynchronizeError,
};
use std::mem;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;

/// Everything that can be asked of an object inside another one, of which this thread has a guard.
fn use_to_the_limit(log: &LoggedFn<u32>) {
    // The queue is full, and the thread waits for nobody.
    for _ in 0..3 * 16 * 128 {
        log.update(|sum| *sum += 1);
    }
    assert_eq!(*log.synchronize(), 3 * 16 * 128);
    assert_eq!(*log.read(), 3 * 16 * 128);
    assert!(log.drain(1).finished);
    let guard = log.synchronize();
    assert!(panic_of(|| *log.synchronize()).contains("itself"));
    drop(guard);
    let guard = log.read();
    assert!(panic_of(|| *log.read()).contains("itself"));
    assert!(panic_of(|| *log.synchronize()).contains("itself"));
    drop(guard);
    assert!(!log.is_poisoned());
}

#[test]
fn an_object_inside_another_one_is_another_one() {
    stay();
    let outer: LoggedFn<LoggedFn<u32>> = LoggedFn::default();
    use_to_the_limit(&outer.synchronize());
    outer.update(|inner| inner.update(|sum| *sum = 0));
    // Executed by an operation of the outer one.
    outer.update(|inner| use_to_the_limit(inner));
    let guard = outer.synchronize();
    assert!(panic_of(|| outer.synchronize().stats()).contains("itself"));
    drop(guard);
    assert_eq!(*outer.read().read(), 3 * 16 * 128);
    assert!(!outer.is_poisoned());
}

#[test]
fn a_shared_guard_is_of_one_of_them() {
    let outer: LoggedFn<LoggedFn<u32>> = LoggedFn::default();
    let inner = outer.read();
    use_to_the_limit(&inner);
    assert!(matches!(
        Logged::<u32, Add>::default().try_synchronize().map(drop),
        Ok(())
    ));
    drop(inner);
    let inner = mem::take(&mut *outer.synchronize());
    assert_eq!(inner.into_inner(), 3 * 16 * 128);
}

/// Two objects that are read at the same time, each by a thread of its own: neither thread is told that it has the other one.
#[test]
fn a_share_of_one_object_is_not_one_of_another() {
    let (mine, others) = (LoggedFn::<u32>::default(), LoggedFn::<u32>::default());
    let (is_read, reads) = channel();
    let (is_over, over) = channel::<()>();
    thread::scope(|scope| {
        let others_too = &others;
        scope.spawn(move || {
            let _guard = others_too.read();
            is_read.send(()).expect("somebody waits for it");
            // Ends when the other side goes away, too.
            let _ = over.recv();
        });
        let _guard = mine.read();
        reads.recv().expect("it is read");
        assert_eq!(*others.read(), 0);
        drop(is_over);
    });
}

#[derive(Default)]
struct Server {
    open: Registry<u32>,
    events: LoggedFn<u32>,
}

#[test]
fn a_state_made_of_objects_can_be_used_from_its_operations() {
    stay();
    let server: LoggedFn<Server> = LoggedFn::default();
    server.update(|server| {
        let handles: Vec<_> = (0..1000).map(|at| server.open.register(at)).collect();
        assert_eq!(server.open.len(), 1000);
        use_to_the_limit(&server.events);
        drop(handles);
        assert!(server.open.is_empty());
    });
    assert!(server.synchronize().open.is_empty());
}

struct Add(u32);

impl Operation<u32> for Add {
    fn exec(self, sum: &mut u32) {
        *sum += self.0;
    }
}

impl Operation<LoggedFn<u32>> for Add {
    fn exec(self, log: &mut LoggedFn<u32>) {
        use_to_the_limit(log);
    }
}

percolog::log_cache!(LoggedFn<u32>, Add, LogCacheBuilder::new().places(1));
percolog::log_cache!(u32, Add, LogCacheBuilder::new().places(1));

#[test]
fn the_same_where_the_outer_one_is_lent_its_queues() {
    stay();
    let outer = Lent::<LoggedFn<u32>, Add>::boxed(LoggedFn::default());
    outer.as_ref().queue(Add(1));
    assert_eq!(*outer.synchronize().synchronize(), 3 * 16 * 128);
    assert_eq!(*outer.read().read(), 3 * 16 * 128);
}

/// Forgets a guard and goes on as if nothing had happened.
fn forget_a_guard(log: &Pushes, shared: bool) {
    if shared {
        mem::forget(log.read());
    } else {
        mem::forget(log.synchronize());
    }
    assert!(matches!(log.try_synchronize(), Err(SynchronizeError::Held)));
    assert!(matches!(log.try_read(), Err(SynchronizeError::Held)));
}

#[test]
fn what_is_made_in_the_place_of_an_object_has_no_guard_of_it() {
    let mut place = Box::new(Pushes::default());
    for shared in [false, true] {
        forget_a_guard(&place, shared);
        assert!((*place).into_inner().is_empty());
        // The same address, another object.
        *place = Pushes::default();
        place.queue(Push(7));
        assert_eq!(*place.synchronize(), [7]);
        *place = Pushes::default();
    }
}

#[test]
fn a_forgotten_guard_moves_with_its_object() {
    for shared in [false, true] {
        let (mut one, mut other) = (Pushes::default(), Pushes::default());
        forget_a_guard(&one, shared);
        mem::swap(&mut one, &mut other);
        assert!(one.synchronize().is_empty());
        assert!(one.read().is_empty());
        assert!(matches!(
            other.try_synchronize(),
            Err(SynchronizeError::Held)
        ));
        assert!(matches!(other.try_read(), Err(SynchronizeError::Held)));
        // The owner of an object needs no guard.
        assert!(other.get_mut().is_empty());
    }
}

/// Forgets a guard of what is in the place on a thread that lives on, has something else put there, and has the thread use it.
fn replaced<T: Default + Send>(forget: impl Fn(&T) + Send, use_it: impl Fn(&T) + Send) {
    let place: Mutex<Box<T>> = Mutex::default();
    let ((tell, told), (go_on, may_go_on)) = (channel(), channel());
    thread::scope(|scope| {
        let place = &place;
        scope.spawn(move || {
            forget(&place.lock().expect("no panic"));
            tell.send(()).expect("somebody waits");
            may_go_on.recv().expect("somebody says so");
            use_it(&place.lock().expect("no panic"));
        });
        told.recv().expect("it says so");
        **place.lock().expect("no panic") = T::default();
        go_on.send(()).expect("it waits");
    });
}

#[test]
fn a_guard_forgotten_by_a_thread_is_not_of_what_another_one_puts_there() {
    for shared in [false, true] {
        replaced(
            |log: &Pushes| forget_a_guard(log, shared),
            |log| {
                assert!(log.read().is_empty());
                log.queue(Push(1));
                assert_eq!(*log.synchronize(), [1]);
            },
        );
    }
}

struct Sum(Lent<u32, Add>);

impl Default for Sum {
    fn default() -> Self {
        Self(Lent::new(0))
    }
}

#[test]
fn the_same_where_queues_are_lent() {
    for shared in [false, true] {
        replaced(
            |Sum(sum)| {
                if shared {
                    mem::forget(sum.read());
                } else {
                    mem::forget(sum.synchronize());
                }
                assert!(matches!(sum.try_read(), Err(SynchronizeError::Held)));
                assert!(matches!(sum.try_synchronize(), Err(SynchronizeError::Held)));
            },
            |Sum(sum)| {
                assert_eq!(*sum.read(), 0);
                assert_eq!(*sum.synchronize(), 0);
            },
        );
    }
}

struct Tell(u32);

impl Operation<u64> for Tell {
    fn exec(self, sum: &mut u64) {
        *sum += u64::from(self.0);
    }
}

percolog::log_cache!(u64, Tell, LogCacheBuilder::new().places(1));

#[test]
fn a_thread_that_has_forgotten_guards_merges_what_is_in_its_way() {
    stay();
    for _ in 0..20 {
        mem::forget(Pushes::default().synchronize());
        mem::forget(Pushes::default().read());
    }
    let [one, other] = [0, 0].map(Lent::<u64, Tell>::boxed);
    for _ in 0..10 {
        one.as_ref().queue(Tell(1));
        other.as_ref().queue(Tell(1));
    }
    let cache: &LogCache<u64, Tell> = percolog::oplog::Cached::cache();
    assert_eq!(cache.stats().set_aside, 0);
    assert_eq!(cache.stats().evictions, 19);
    assert_eq!((*one.synchronize(), *other.synchronize()), (10, 10));
}
