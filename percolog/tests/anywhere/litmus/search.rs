//! Every execution of a program, and which of the outcomes asked for is among them.

use crate::litmus::machine::{Counter, Event, Machine, State};
use crate::litmus::order::Processor;
use crate::litmus::program::{Place, Program, Register, Word};
use std::collections::HashSet;

/// The end of an execution.
pub(crate) struct End<'a> {
    machine: &'a Machine<'a>,
    state: &'a State,
}

impl End<'_> {
    /// What a register held; nothing if the thread took another branch.
    pub(crate) fn got(&self, register: Register) -> Option<Word> {
        self.machine.register(self.state, register)
    }

    /// What a place holds at the end.
    pub(crate) fn at(&self, place: Place) -> Word {
        self.machine.memory(self.state, place)
    }
}

/// A question about the end of an execution.
pub(crate) type Question<'q> = Box<dyn Fn(&End) -> bool + 'q>;

/// What a search found.
pub(crate) struct Found {
    /// Different states of threads and memory.
    pub(crate) states: usize,
    /// For each question an execution in which it holds at the end, if there is one.
    pub(crate) executions: Vec<Option<String>>,
}

impl Found {
    pub(crate) fn is_possible(&self, question: usize) -> bool {
        self.executions[question].is_some()
    }
}

/// Goes through all executions, or until each question has one in which it holds.
pub(crate) fn search(
    program: &Program,
    processor: Processor,
    counter: Counter,
    questions: &[Question],
) -> Found {
    let mut found = Found {
        states: 0,
        executions: questions.iter().map(|_| None).collect(),
    };
    for paths in program.unfolded() {
        let machine = Machine::new(program, processor, counter, paths);
        let mut walk = Walk {
            machine: &machine,
            questions,
            seen: HashSet::new(),
            events: Vec::new(),
            found: &mut found,
        };
        walk.from(machine.start());
        found.states += walk.seen.len();
    }
    found
}

struct Walk<'a> {
    machine: &'a Machine<'a>,
    questions: &'a [Question<'a>],
    seen: HashSet<State>,
    /// How the present state was reached.
    events: Vec<Event>,
    found: &'a mut Found,
}

impl Walk<'_> {
    fn from(&mut self, state: State) {
        if self.found.executions.iter().all(Option::is_some) {
            return;
        }
        if self.machine.is_over(&state) {
            self.ask(&state);
            return;
        }
        if self.seen.contains(&state) {
            return;
        }
        let mut next = self.machine.next(&state);
        self.seen.insert(state);
        // The thread that was last goes on first: executions are easier to read with few changes.
        let last = self.events.last().map(|event| event.thread);
        next.sort_by_key(|(event, _)| Some(event.thread) != last);
        for (event, state) in next {
            self.events.push(event);
            self.from(state);
            self.events.pop();
        }
    }

    fn ask(&mut self, state: &State) {
        let end = End {
            machine: self.machine,
            state,
        };
        for (question, execution) in self.questions.iter().zip(&mut self.found.executions) {
            if execution.is_none() && question(&end) {
                *execution = Some(self.machine.tell(&self.events));
            }
        }
    }
}
