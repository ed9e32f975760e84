//! Recording what threads do to a structure, and looking for an order of it that explains what they saw.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

/// What a process did and saw, between two tickets.
#[derive(Clone, Debug)]
pub(crate) struct Done<A> {
    pub(crate) process: usize,
    pub(crate) called: u64,
    pub(crate) returned: u64,
    pub(crate) act: A,
}

/// For histories that are made up.
impl<A> From<(usize, u64, u64, A)> for Done<A> {
    fn from((process, called, returned, act): (usize, u64, u64, A)) -> Self {
        Self {
            process,
            called,
            returned,
            act,
        }
    }
}

static TICKETS: AtomicU64 = AtomicU64::new(0);

/// Does something and records it with the tickets of its call and return; what returns `None` has had no effect and is left out.
pub(crate) fn record<A>(
    process: usize,
    history: &mut Vec<Done<A>>,
    act: impl FnOnce() -> Option<A>,
) {
    // Sequentially consistent: whoever draws the smaller ticket came first, for every other thread.
    let called = TICKETS.fetch_add(1, Ordering::SeqCst);
    let act = act();
    let returned = TICKETS.fetch_add(1, Ordering::SeqCst);
    history.extend(act.map(|act| Done::from((process, called, returned, act))));
}

/// Lets so many threads begin at the same moment, each with a number and chances of its own, and returns what all have recorded.
pub(crate) fn together<A: Send>(
    threads: usize,
    chance: &mut fastrand::Rng,
    work: impl Fn(usize, &mut fastrand::Rng, &mut Vec<Done<A>>) + Sync,
) -> Vec<Done<A>> {
    let ready = AtomicUsize::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|process| {
                let mut chance = chance.fork();
                let (ready, work) = (&ready, &work);
                scope.spawn(move || {
                    let mut history = Vec::new();
                    ready.fetch_add(1, Ordering::SeqCst);
                    while ready.load(Ordering::SeqCst) < threads {
                        thread::yield_now();
                    }
                    work(process, &mut chance, &mut history);
                    history
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no operation panics"))
            .collect()
    })
}

/// Whether there is an order of the operations, compatible with their tickets, in which each saw what it saw.
pub(crate) fn is_linearizable<S>(history: &[Done<S::Operation>]) -> bool
where
    S: Specification,
    S::State: Clone + Eq + Hash,
    S::Operation: Clone + Debug,
{
    let mut actions: Vec<_> = history
        .iter()
        .flat_map(|done| {
            [
                (done.called, done.process, Action::Call(done.act.clone())),
                (
                    done.returned,
                    done.process,
                    Action::Response(done.act.clone()),
                ),
            ]
        })
        .collect();
    actions.sort_by_key(|(ticket, ..)| *ticket);
    let actions = actions
        .into_iter()
        .map(|(_, process, action)| (process, action))
        .collect();
    WGLChecker::<S>::is_linearizable(History::from_actions(actions))
}
