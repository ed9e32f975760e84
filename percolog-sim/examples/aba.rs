//! A stack with the ABA problem, to be found by `percolog sim --chaos`.
//!
//! The stack is Treiber's: a thread pops by loading the head and its successor, and by exchanging the head for the successor
//! if it is still the same. Nodes that have been popped go to a free list of the thread, and are used again at once. So the
//! head may be the same and the stack another: if a thread is interrupted after it has found out the successor, while
//! others pop two nodes and push the first of them again, its exchange succeeds, and puts a node onto the stack that is
//! somebody else's.
//!
//! ```sh
//! cargo build -p percolog-sim --examples
//! percolog sim --chaos --cores 4 -- target/debug/examples/aba            # is found
//! percolog sim --chaos --cores 4 -- target/debug/examples/aba --fixed    # survives
//! ```
//!
//! With `--fixed` the head carries a number that changes each time, as Treiber proposed. At the end every value that was pushed
//! must be on the stack once; the program ends with status 1 if that is not so.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const THREADS: u64 = 3;
const ROUNDS: u64 = 6;
/// Values on the stack at the beginning, each in the node of its number.
const VALUES: u64 = 8;
/// No node.
const NONE: u64 = u32::MAX as u64;

/// A node, on a line of its own.
#[repr(align(64))]
struct Node {
    value: AtomicU64,
    next: AtomicU64,
}

struct Stack {
    nodes: Vec<Node>,
    /// The first node; with a tag, in its upper half the number of changes.
    head: AtomicU64,
    tagged: bool,
}

impl Stack {
    /// A stack of all values.
    fn new(tagged: bool) -> Self {
        let node = |number: u64| Node {
            value: AtomicU64::new(number),
            next: AtomicU64::new(if number + 1 < VALUES {
                number + 1
            } else {
                NONE
            }),
        };
        Stack {
            nodes: (0..VALUES).map(node).collect(),
            head: AtomicU64::new(0),
            tagged,
        }
    }

    fn node(&self, number: u64) -> &Node {
        &self.nodes[number as usize]
    }

    /// Makes `node` the head, if nothing has changed since the head was `before`: or so it is meant.
    fn exchange(&self, before: u64, node: u64) -> bool {
        let tag = if self.tagged { (before >> 32) + 1 } else { 0 };
        // SeqCst: what is wrong with the stack is not its memory orderings.
        self.head
            .compare_exchange(before, tag << 32 | node, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// A node, which is the caller's now.
    fn pop(&self) -> Option<u64> {
        loop {
            // SeqCst: see `exchange`.
            let before = self.head.load(Ordering::SeqCst);
            let node = before & NONE;
            if node == NONE {
                return None;
            }
            let next = self.node(node).next.load(Ordering::SeqCst);
            if self.exchange(before, next) {
                return Some(node);
            }
        }
    }

    /// Pushes a node of the caller's.
    fn push(&self, node: u64) {
        loop {
            // SeqCst: see `exchange`.
            let before = self.head.load(Ordering::SeqCst);
            self.node(node).next.store(before & NONE, Ordering::SeqCst);
            if self.exchange(before, node) {
                return;
            }
        }
    }

    /// Whether each value is on the stack once.
    fn is_whole(&self) -> bool {
        let mut seen = [false; VALUES as usize];
        // SeqCst: see `exchange`.
        let mut at = self.head.load(Ordering::SeqCst) & NONE;
        while at != NONE {
            let value = self.node(at).value.load(Ordering::SeqCst);
            if std::mem::replace(&mut seen[value as usize], true) {
                return false;
            }
            at = self.node(at).next.load(Ordering::SeqCst);
        }
        seen == [true; VALUES as usize]
    }
}

fn main() -> ExitCode {
    let stack = Stack::new(std::env::args().any(|argument| argument == "--fixed"));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let stack = &stack;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    // No two threads take the same time.
                    work(10_000 + 2_500 * number + 300 * round);
                    replace_two(stack);
                }
            });
        }
    });
    let whole = stack.is_whole();
    println!(
        "{}",
        if whole {
            "all values are there"
        } else {
            "values were lost or doubled"
        }
    );
    ExitCode::from(u8::from(!whole))
}

/// Takes two values from the stack, and puts them back in the nodes that have become free, the one that was freed first first.
fn replace_two(stack: &Stack) {
    let mut free = Vec::new();
    let mut values = Vec::new();
    for _ in 0..2 {
        work(200);
        if let Some(node) = stack.pop() {
            // SeqCst: see `exchange`.
            values.push(stack.node(node).value.load(Ordering::SeqCst));
            free.push(node);
        }
    }
    for (node, value) in free.into_iter().zip(values) {
        work(200);
        stack.node(node).value.store(value, Ordering::SeqCst);
        stack.push(node);
    }
}

/// Something to do that takes so many steps, and touches nothing of others.
fn work(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}
