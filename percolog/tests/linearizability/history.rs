//! Recording what threads do to a structure, and checking it against the sequential structure.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

/// The sequential structure.
pub(crate) trait Model {
    type State: Clone + Eq + Hash + Debug + Default + Send;
    type Update: Clone + Debug + Send;
    fn apply(update: &Self::Update, state: &mut Self::State);
}

/// What a thread did.
pub(crate) enum Act<M: Model> {
    /// The window's first operation: what was there before.
    Start(M::State),
    Update(M::Update),
    /// A read, and all that it saw.
    Read(M::State),
}

impl<M: Model> Clone for Act<M> {
    fn clone(&self) -> Self {
        match self {
            Self::Start(state) => Self::Start(state.clone()),
            Self::Update(update) => Self::Update(update.clone()),
            Self::Read(state) => Self::Read(state.clone()),
        }
    }
}

impl<M: Model> Debug for Act<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(state) => write!(f, "start with {state:?}"),
            Self::Update(update) => write!(f, "{update:?}"),
            Self::Read(state) => write!(f, "read {state:?}"),
        }
    }
}

struct Sequential<M>(PhantomData<M>);

impl<M: Model> Specification for Sequential<M> {
    type State = M::State;
    type Operation = Act<M>;

    fn init() -> M::State {
        M::State::default()
    }

    fn apply(act: &Act<M>, state: &M::State) -> (bool, M::State) {
        match act {
            Act::Start(start) => (true, start.clone()),
            Act::Update(update) => {
                let mut state = state.clone();
                M::apply(update, &mut state);
                (true, state)
            }
            Act::Read(seen) => (seen == state, state.clone()),
        }
    }
}

/// An operation of a process, between two tickets.
pub(crate) struct Done<M: Model> {
    pub(crate) process: usize,
    pub(crate) called: u64,
    pub(crate) returned: u64,
    pub(crate) act: Act<M>,
}

impl<M: Model> Debug for Done<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            process,
            called,
            returned,
            act,
        } = self;
        write!(f, "process {process}, {called} to {returned}: {act:?}")
    }
}

static TICKETS: AtomicU64 = AtomicU64::new(0);

/// Does something and records it with the tickets of its call and return; what returns `None` has had
/// no effect and is left out.
pub(crate) fn record<M: Model>(
    process: usize,
    history: &mut Vec<Done<M>>,
    act: impl FnOnce() -> Option<Act<M>>,
) {
    // Sequentially consistent: whoever draws the smaller ticket came first, for every other thread.
    let called = TICKETS.fetch_add(1, Ordering::SeqCst);
    let act = act();
    let returned = TICKETS.fetch_add(1, Ordering::SeqCst);
    if let Some(act) = act {
        history.push(Done {
            process,
            called,
            returned,
            act,
        });
    }
}

/// Whether there is an order of the operations, compatible with their tickets, in which each does what
/// it did.
pub(crate) fn is_linearizable<M: Model>(history: &[Done<M>]) -> bool {
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
    WGLChecker::<Sequential<M>>::is_linearizable(History::from_actions(actions))
}
