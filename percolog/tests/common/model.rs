//! Structures that are updated and read as a whole, as the checker wants to have them told.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
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

/// What one thread would see.
pub(crate) struct Sequential<M>(PhantomData<M>);

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
