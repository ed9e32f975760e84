//! The lists of Figure 8-4 (thesis §8.3.1): every thread adds an element and removes it again.
//!
//! The logged ones are [`Logged`](percolog::oplog::Logged) around a [`PlainList`], with at most 128 entries for each queue, the thesis' number. The
//! library would let queues grow to 16 times that while another thread merges; here they wait, as there, so that no more is
//! accepted than is executed. How they absorb:
//!
//! * *basic*: not at all;
//! * *local*: identities that are added once and removed once cancel each other in the queue they meet in;
//! * *global*: the same identities, but each thread adds in one slot and removes in another, so that the two meet only when
//!   queues are merged. Queues of 64 there, since a thread has two: merges come as often as with one of 128.

use std::sync::Arc;

use percolog::cpu::{self, CoreId};
use percolog::oplog::{Absorb, AddToken, LoggedBuilder, Mode, Operation, RemoveToken, token_pair};

use super::clock;
use super::crew::{self, CrewError, Shift, Work};
use super::lists::{Link, LockFreeList, Nodes, PlainList};
use super::numbered::{Element, NumberedList};
use super::thesis_log::ThesisLog;

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// [`LockFreeList`].
    LockFree,
    /// A [`ThesisLog`], every operation executed.
    Thesis,
    /// Logged, every operation executed.
    Basic,
    /// The same with small operations, around a [`NumberedList`].
    Compact,
    /// The same, and queues grow to twice that while another thread merges: what has been queued meanwhile is the next batch.
    Batched,
    /// Logged, additions and removals cancel while queues are merged.
    Global,
    /// Logged, additions and removals cancel where they are queued.
    Local,
}

/// A change that is executed, whatever comes later.
#[derive(Debug)]
enum Plain {
    Add(Link),
    Remove(Link),
}

impl Operation<PlainList> for Plain {
    fn exec(self, list: &mut PlainList) {
        match self {
            Self::Add(element) => list.add(element),
            Self::Remove(element) => {
                list.remove(element);
            }
        }
    }
}

/// A change of a list whose elements are numbers: the element, and in the lowest bit whether it is removed.
#[derive(Debug)]
struct Small(u32);

impl Small {
    fn add(element: Element) -> Self {
        Self(element << 1)
    }

    fn remove(element: Element) -> Self {
        Self(element << 1 | 1)
    }
}

impl Operation<NumberedList> for Small {
    fn exec(self, list: &mut NumberedList) {
        let element = self.0 >> 1;
        if self.0 & 1 == 0 {
            list.add(element);
        } else {
            list.remove(element);
        }
    }
}

/// A change that need not be executed if the element is gone before anybody looks.
#[derive(Debug)]
enum Absorbing {
    Add(AddToken, Link),
    Remove(RemoveToken, Link),
}

impl Operation<PlainList> for Absorbing {
    const ABSORBS: bool = true;

    fn exec(self, list: &mut PlainList) {
        match self {
            Self::Add(_, element) => list.add(element),
            Self::Remove(_, element) => {
                list.remove(element);
            }
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            Self::Add(identity, _) => Absorb::Add(identity),
            Self::Remove(identity, _) => Absorb::Remove(identity),
        }
    }
}

/// Each thread adds an element, spins for `delay` cycles, removes the element, and spins again: one operation.
///
/// # Errors
/// A thread could not be started, or elements were left over.
pub fn run(shift: Shift, kind: ListKind, delay: u64) -> Result<Work, CrewError> {
    match kind {
        ListKind::LockFree => {
            let list = LockFreeList::new(shift.threads);
            let most = insertions(shift, delay);
            let work = crew::run(shift, |thread| {
                let mut member = list.join(thread, most);
                let key = thread as u64;
                move || {
                    member.insert(key);
                    clock::spin(delay);
                    member.remove(key);
                    clock::spin(delay);
                }
            })?;
            work.checked(list.keys().len() as u64, 0)
        }
        ListKind::Thesis => thesis(shift, delay),
        ListKind::Compact => small(
            shift,
            delay,
            LoggedBuilder::new()
                .mode(Mode::Deferring)
                .limit(LIMIT)
                .hard_limit(LIMIT),
        ),
        ListKind::Batched => small(
            shift,
            delay,
            LoggedBuilder::new()
                .mode(Mode::Deferring)
                .limit(LIMIT)
                .hard_limit(2 * LIMIT),
        ),
        ListKind::Basic => logged(
            shift,
            delay,
            LoggedBuilder::new()
                .mode(Mode::Deferring)
                .limit(LIMIT)
                .hard_limit(LIMIT),
            false,
            (
                |_, element| Plain::Add(element),
                |_, element| Plain::Remove(element),
            ),
        ),
        ListKind::Global => {
            let halved = LoggedBuilder::new()
                .mode(Mode::Deferring)
                .limit(LIMIT / 2)
                .hard_limit(LIMIT / 2);
            logged(
                shift,
                delay,
                halved,
                true,
                (Absorbing::Add, Absorbing::Remove),
            )
        }
        ListKind::Local => logged(
            shift,
            delay,
            LoggedBuilder::new()
                .mode(Mode::Deferring)
                .limit(LIMIT)
                .hard_limit(LIMIT),
            false,
            (Absorbing::Add, Absorbing::Remove),
        ),
    }
}

/// More elements than a thread can add: an operation takes two delays at least.
fn insertions(shift: Shift, delay: u64) -> usize {
    let most = (shift.warm_up + shift.cycles) / (2 * delay).max(1) + 8;
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// Entries of a queue before it is merged: the thesis' number, and the library's.
const LIMIT: usize = 128;

/// How a list's changes are made.
type Changes<O> = (fn(AddToken, Link) -> O, fn(RemoveToken, Link) -> O);

fn logged<O: Operation<PlainList> + Sync>(
    shift: Shift,
    delay: u64,
    builder: LoggedBuilder,
    two_slots: bool,
    (add, remove): Changes<O>,
) -> Result<Work, CrewError> {
    let nodes = Arc::new(Nodes::new(shift.threads));
    let list = builder.build(PlainList::new(Arc::clone(&nodes)));
    percolog_roi::label(&list, "logged list");
    let most = insertions(shift, delay);
    let work = crew::run(shift, |thread| {
        let (list, nodes) = (&list, &*nodes);
        let mut supply = nodes.join(thread, most);
        let slot = move |second: bool| CoreId::new((2 * thread + usize::from(second)) as u32);
        move || {
            // There are enough of them.
            let Some(element) = supply.take(nodes, thread as u64) else {
                return;
            };
            let (birth, death) = token_pair();
            if two_slots {
                cpu::bind(slot(false));
            }
            list.queue(add(birth, element));
            clock::spin(delay);
            if two_slots {
                cpu::bind(slot(true));
            }
            list.queue(remove(death, element));
            clock::spin(delay);
        }
    })?;
    work.checked(list.synchronize().len() as u64, 0)
}

/// The log of the thesis around the plain list.
fn thesis(shift: Shift, delay: u64) -> Result<Work, CrewError> {
    let nodes = Arc::new(Nodes::new(shift.threads));
    let state = PlainList::new(Arc::clone(&nodes));
    let list = ThesisLog::new(state, shift.threads, LIMIT);
    percolog_roi::label(&list, "log of the thesis");
    let most = insertions(shift, delay);
    let work = crew::run(shift, |thread| {
        let (list, nodes) = (&list, &*nodes);
        let mut supply = nodes.join(thread, most);
        move || {
            // There are enough of them.
            let Some(element) = supply.take(nodes, thread as u64) else {
                return;
            };
            list.queue(thread, Plain::Add(element));
            clock::spin(delay);
            list.queue(thread, Plain::Remove(element));
            clock::spin(delay);
        }
    })?;
    work.checked(list.with(|list| list.len()) as u64, 0)
}

/// Each thread has one element, its number, which comes and goes.
fn small(shift: Shift, delay: u64, builder: LoggedBuilder) -> Result<Work, CrewError> {
    let list = builder.build(NumberedList::new(shift.threads as Element));
    percolog_roi::label(&list, "logged list");
    let work = crew::run(shift, |thread| {
        let list = &list;
        let element = thread as Element;
        move || {
            list.queue(Small::add(element));
            clock::spin(delay);
            list.queue(Small::remove(element));
            clock::spin(delay);
        }
    })?;
    let left = list.synchronize().iter().count();
    work.checked(left as u64, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use percolog::oplog::Logged;

    /// 200 operations of one thread on two slots, the final merge left out.
    fn executed(two_slots: bool) -> (u64, u64) {
        let nodes = Arc::new(Nodes::new(1));
        let mut supply = nodes.join(0, 200);
        let list: Logged<_, Absorbing> = LoggedBuilder::new()
            .mode(Mode::Deferring)
            .build(PlainList::new(Arc::clone(&nodes)));
        for _ in 0..200 {
            let element = supply.take(&nodes, 0).expect("200 of them");
            let (birth, death) = token_pair();
            cpu::bind(CoreId::new(0));
            list.queue(Absorbing::Add(birth, element));
            cpu::bind(CoreId::new(u32::from(two_slots)));
            list.queue(Absorbing::Remove(death, element));
        }
        cpu::unbind();
        let merges = list.stats().merges;
        assert!(list.synchronize().is_empty());
        (list.stats().executed, merges)
    }

    #[test]
    fn one_slot_absorbs_by_itself_and_two_slots_only_when_merged() {
        assert_eq!(executed(false), (0, 0));
        let (executed, merges) = executed(true);
        assert_eq!(executed, 0);
        assert!(merges > 0);
    }
}
