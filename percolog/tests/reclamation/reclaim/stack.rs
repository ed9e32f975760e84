//! A small lock-free structure on links, against the sequential one.

use crate::common::history::{is_linearizable, record, together};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::reclaim::{Domain, Link, Owned};
use std::thread;
use todc_utils::specifications::Specification;

struct Node {
    value: u64,
    next: Link<Node>,
}

/// Treiber's stack. That nodes are not reused while somebody looks at them is also what keeps an
/// exchange from taking a new node for an old one.
struct Stack {
    domain: Domain,
    first: Link<Node>,
}

impl Stack {
    fn new() -> Self {
        Self {
            domain: Domain::new(),
            first: Link::null(),
        }
    }

    fn push(&self, value: u64) {
        let section = self.domain.enter();
        let mut node = Owned::new(Node {
            value,
            next: Link::null(),
        });
        loop {
            let first = self.first.load(&section);
            node.next = Link::null();
            // SAFETY: nobody else has the node; the next one is retired when the first link, which is
            // going to lead here, leads past it.
            let linked = unsafe { node.next.relink(None, first, &section) };
            assert!(linked.is_ok(), "nobody else has the node");
            match self.first.compare_exchange(first, Some(node), &section) {
                // The node before is not out of the list: it comes after this one.
                Ok(_) => return,
                Err(changed) => node = changed.new.expect("what was to be put there"),
            }
        }
    }

    fn pop(&self) -> Option<u64> {
        let section = self.domain.enter();
        loop {
            let first = self.first.load(&section)?;
            let next = first.get().next.load(&section);
            // SAFETY: only this link leads to the first node, and whoever moves it on retires the node.
            if let Ok(old) = unsafe { self.first.relink(Some(first), next, &section) } {
                let old = old.expect("it led to a node");
                let value = old.value;
                // SAFETY: as above, and it is read in sections only.
                unsafe { self.domain.retire(old) };
                return Some(value);
            }
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

#[test]
fn one_thread_sees_a_stack() {
    let mut chance = fastrand::Rng::with_seed(seed());
    let stack = Stack::new();
    let mut model = Vec::new();
    for value in 0..share(50_000) as u64 {
        if chance.u8(..5) < 3 {
            stack.push(value);
            model.push(value);
        } else {
            assert_eq!(stack.pop(), model.pop());
        }
    }
    while let Some(value) = model.pop() {
        assert_eq!(stack.pop(), Some(value));
    }
    assert_eq!(stack.pop(), None);
}

#[test]
fn nothing_is_lost_and_nothing_comes_twice() {
    const THREADS: u64 = 4;
    let each = share(10_000) as u64;
    let stack = Stack::new();
    let mut popped: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let stack = &stack;
                scope.spawn(move || {
                    let mut popped = Vec::new();
                    for at in 0..each {
                        stack.push(number * each + at);
                        if at % 3 != 0 {
                            popped.extend(stack.pop());
                        }
                    }
                    popped
                })
            })
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        joined.flatten().collect()
    });
    popped.extend(std::iter::from_fn(|| stack.pop()));
    popped.sort_unstable();
    assert_eq!(popped, (0..THREADS * each).collect::<Vec<_>>());
}

// ── Linearizability ──

#[derive(Clone, Copy, Debug)]
enum Act {
    Push(u64),
    Popped(Option<u64>),
}

struct Sequential;

impl Specification for Sequential {
    type State = Vec<u64>;
    type Operation = Act;

    fn init() -> Vec<u64> {
        Vec::new()
    }

    fn apply(act: &Act, state: &Vec<u64>) -> (bool, Vec<u64>) {
        let mut state = state.clone();
        match act {
            Act::Push(value) => {
                state.push(*value);
                (true, state)
            }
            Act::Popped(value) => (state.pop() == *value, state),
        }
    }
}

#[test]
fn the_stack_is_linearizable() {
    const THREADS: usize = 3;
    const ACTS: usize = 4;
    let mut chance = fastrand::Rng::with_seed(seed());
    let stack = Stack::new();
    for round in 0..share(200) {
        let history = together(THREADS, &mut chance, |process, chance, mine| {
            for number in 0..ACTS {
                let value = ((round * THREADS + process) * ACTS + number) as u64;
                record(process, mine, || {
                    Some(if chance.bool() {
                        stack.push(value);
                        Act::Push(value)
                    } else {
                        Act::Popped(stack.pop())
                    })
                });
            }
        });
        // Each window begins with an empty stack.
        while stack.pop().is_some() {}
        assert!(
            is_linearizable::<Sequential>(&history),
            "no order explains {history:#?}"
        );
    }
}
