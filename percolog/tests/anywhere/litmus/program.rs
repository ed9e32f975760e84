//! Tiny programs: threads, places in memory, registers that are assigned once, and branches.
//!
//! An operation carries Rust's ordering; `order` says what it becomes on a processor. A thread with
//! branches is unfolded into its straight paths, where each branch has become an assumption: on one
//! path the condition holds, on the other it does not.

use std::rc::Rc;

/// What memory and registers hold.
pub(crate) type Word = i16;

/// A place in memory, alone on its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(pub(crate) usize);

/// A register of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Register {
    pub(crate) thread: usize,
    pub(crate) index: usize,
}

/// Rust's orderings; a fence is an operation of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

impl Order {
    pub(crate) fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcqRel | Self::SeqCst)
    }

    pub(crate) fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcqRel | Self::SeqCst)
    }
}

type Compute = dyn Fn(&[Word]) -> Word;

/// What is computed from registers of the same thread.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) from: Vec<Register>,
    compute: Rc<Compute>,
}

impl Value {
    pub(crate) fn of<const N: usize>(
        from: [Register; N],
        compute: impl Fn([Word; N]) -> Word + 'static,
    ) -> Self {
        let compute = move |words: &[Word]| compute(std::array::from_fn(|at| words[at]));
        Self {
            from: from.to_vec(),
            compute: Rc::new(compute),
        }
    }

    /// What is computed from this value and one more register.
    pub(crate) fn with(
        &self,
        more: Register,
        compute: impl Fn(Word, Word) -> Word + 'static,
    ) -> Self {
        let mut from = self.from.clone();
        from.push(more);
        let inner = Rc::clone(&self.compute);
        let compute = move |words: &[Word]| {
            let (last, first) = words.split_last().expect("one register more");
            compute(inner(first), *last)
        };
        Self {
            from,
            compute: Rc::new(compute),
        }
    }

    /// The value, once every register that it needs is known.
    pub(crate) fn known(&self, register: impl Fn(Register) -> Option<Word>) -> Option<Word> {
        let words: Option<Vec<Word>> = self.from.iter().map(|&from| register(from)).collect();
        words.map(|words| (self.compute)(&words))
    }
}

impl From<Word> for Value {
    fn from(word: Word) -> Self {
        Self::of([], move |[]| word)
    }
}

impl From<Register> for Value {
    fn from(register: Register) -> Self {
        Self::of([register], |[word]| word)
    }
}

/// One instruction.
#[derive(Clone)]
pub(crate) enum Act {
    Load {
        place: Place,
        order: Order,
        into: Register,
        /// The register that the address was computed from.
        address: Option<Register>,
        /// The reading half of a read-modify-write.
        locked: bool,
    },
    Store {
        place: Place,
        order: Order,
        value: Value,
        /// The writing half of a read-modify-write, and what the other half read.
        locked: Option<Register>,
    },
    /// `mfence`, `dmb ish`: a full fence between accesses to memory.
    Fence,
    /// `lfence`: what comes later starts when what came before is done, stores excepted.
    Lfence,
    /// Every other thread of the process passes through a full fence between call and return.
    Membarrier,
    /// `rdtsc`.
    Stamp { into: Register },
    /// A branch, on the path where the value is zero, or is not.
    Assume { value: Value, holds: bool },
}

impl Act {
    /// Whether it does more than let or make other instructions of its thread wait.
    pub(crate) fn is_telling(&self) -> bool {
        !matches!(self, Self::Fence | Self::Lfence | Self::Assume { .. })
    }
}

#[derive(Clone)]
enum Step {
    Act(Act),
    Branch {
        value: Value,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
}

/// What one thread does.
pub(crate) struct Thread {
    pub(crate) name: &'static str,
    number: usize,
    registers: Vec<&'static str>,
    steps: Vec<Step>,
}

impl Thread {
    fn register(&mut self, name: &'static str) -> Register {
        self.registers.push(name);
        Register {
            thread: self.number,
            index: self.registers.len() - 1,
        }
    }

    fn act(&mut self, act: Act) {
        self.steps.push(Step::Act(act));
    }

    pub(crate) fn load(&mut self, place: Place, order: Order, name: &'static str) -> Register {
        let into = self.register(name);
        self.act(Act::Load {
            place,
            order,
            into,
            address: None,
            locked: false,
        });
        into
    }

    /// A relaxed load whose address was computed from a register.
    pub(crate) fn load_through(
        &mut self,
        address: Register,
        place: Place,
        name: &'static str,
    ) -> Register {
        let into = self.register(name);
        let order = Order::Relaxed;
        self.act(Act::Load {
            place,
            order,
            into,
            address: Some(address),
            locked: false,
        });
        into
    }

    pub(crate) fn store(&mut self, place: Place, value: impl Into<Value>, order: Order) {
        self.act(Act::Store {
            place,
            order,
            value: value.into(),
            locked: None,
        });
    }

    /// A read-modify-write; returns what was there before.
    pub(crate) fn update(
        &mut self,
        place: Place,
        change: impl Fn(Word) -> Word + 'static,
        order: Order,
        name: &'static str,
    ) -> Register {
        let into = self.register(name);
        self.act(Act::Load {
            place,
            order,
            into,
            address: None,
            locked: true,
        });
        let value = Value::of([into], move |[word]| change(word));
        self.act(Act::Store {
            place,
            order,
            value,
            locked: Some(into),
        });
        into
    }

    pub(crate) fn fence(&mut self) {
        self.act(Act::Fence);
    }

    pub(crate) fn lfence(&mut self) {
        self.act(Act::Lfence);
    }

    pub(crate) fn membarrier(&mut self) {
        self.act(Act::Membarrier);
    }

    pub(crate) fn stamp(&mut self, name: &'static str) -> Register {
        let into = self.register(name);
        self.act(Act::Stamp { into });
        into
    }

    /// Goes on only if the value is not zero; executions where it is are of no interest.
    pub(crate) fn only_if(&mut self, value: impl Into<Value>) {
        self.act(Act::Assume {
            value: value.into(),
            holds: true,
        });
    }

    /// A branch: `then` if the value is not zero.
    pub(crate) fn branch(
        &mut self,
        value: impl Into<Value>,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let before = std::mem::take(&mut self.steps);
        then(self);
        let then = std::mem::take(&mut self.steps);
        otherwise(self);
        let otherwise = std::mem::replace(&mut self.steps, before);
        self.steps.push(Step::Branch {
            value: value.into(),
            then,
            otherwise,
        });
    }

    /// Takes a lock that is free; executions that wait for it are those in which this happens later.
    pub(crate) fn lock(&mut self, place: Place) {
        let before = self.update(place, |_| 1, Order::Acquire, "lock");
        self.only_if(Value::of([before], |[before]| (before == 0).into()));
    }

    pub(crate) fn unlock(&mut self, place: Place) {
        self.store(place, 0, Order::Release);
    }
}

/// Threads and the memory that they share.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) threads: Vec<Thread>,
    places: Vec<(&'static str, Word)>,
}

impl Program {
    pub(crate) fn place(&mut self, name: &'static str, initially: Word) -> Place {
        self.places.push((name, initially));
        Place(self.places.len() - 1)
    }

    /// Adds a thread; returns what its description returns, which is where its registers get out.
    pub(crate) fn thread<R>(
        &mut self,
        name: &'static str,
        describe: impl FnOnce(&mut Thread) -> R,
    ) -> R {
        let number = self.threads.len();
        let mut thread = Thread {
            name,
            number,
            registers: Vec::new(),
            steps: Vec::new(),
        };
        let result = describe(&mut thread);
        self.threads.push(thread);
        result
    }

    /// What memory holds at first.
    pub(crate) fn initially(&self) -> impl Iterator<Item = Word> {
        self.places.iter().map(|place| place.1)
    }

    pub(crate) fn place_name(&self, place: Place) -> &'static str {
        self.places[place.0].0
    }

    pub(crate) fn register_name(&self, register: Register) -> &'static str {
        self.threads[register.thread].registers[register.index]
    }

    pub(crate) fn registers(&self, thread: usize) -> usize {
        self.threads[thread].registers.len()
    }

    /// Every combination of straight paths, one for each thread.
    pub(crate) fn unfolded(&self) -> Vec<Vec<Vec<Act>>> {
        let mut combinations = vec![Vec::new()];
        for thread in &self.threads {
            combinations = product(&combinations, &paths(&thread.steps), |all, path| {
                all.push(path.to_vec());
            });
        }
        combinations
    }
}

/// The straight paths through a piece of code.
fn paths(steps: &[Step]) -> Vec<Vec<Act>> {
    let mut all = vec![Vec::new()];
    for step in steps {
        let next = match step {
            Step::Act(act) => vec![vec![act.clone()]],
            Step::Branch {
                value,
                then,
                otherwise,
            } => [(then, true), (otherwise, false)]
                .into_iter()
                .flat_map(|(steps, holds)| {
                    paths(steps).into_iter().map(move |mut path| {
                        path.insert(
                            0,
                            Act::Assume {
                                value: value.clone(),
                                holds,
                            },
                        );
                        path
                    })
                })
                .collect(),
        };
        all = product(&all, &next, |path, more| path.extend_from_slice(more));
    }
    all
}

/// Each of the first, continued by each of the second.
fn product<T: Clone, U>(
    first: &[Vec<T>],
    second: &[Vec<U>],
    join: impl Fn(&mut Vec<T>, &[U]),
) -> Vec<Vec<T>> {
    let mut all = Vec::with_capacity(first.len() * second.len());
    for begin in first {
        for end in second {
            let mut whole = begin.clone();
            join(&mut whole, end);
            all.push(whole);
        }
    }
    all
}
