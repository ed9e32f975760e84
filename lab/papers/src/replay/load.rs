//! What a trace means to one subsystem.

use crate::subsystem::Subsystem;
use crate::trace::plan::{Plan, Update};
use crate::trace::{Action, Trace};
use std::cmp::Reverse;
use std::num::NonZeroU64;

/// How many objects [`Load::busiest`] names.
const BUSIEST: usize = 5;

/// What a trace means to one subsystem: who enters and leaves what, and when somebody reads.
#[derive(Debug)]
pub struct Load {
    subsystem: Subsystem,
    pub(super) plan: Plan,
    /// For each event, whether it starts a process.
    forks: Vec<bool>,
    set_up: usize,
    /// The files' names, where an object is a file.
    files: Vec<String>,
}

impl Load {
    /// Works out what `trace` means to `subsystem`.
    ///
    /// With `truncate_every`, somebody reads after each time so many events of the trace: the object that
    /// something came to or went from last. Nothing is taken away by that from any object but event queues: a file
    /// is "cut" beyond its end, which finds nobody, but needs to know of everybody; with memory, who maps the page
    /// that was mapped or unmapped last is looked for.
    #[must_use]
    pub fn new(trace: &Trace, subsystem: Subsystem, truncate_every: Option<NonZeroU64>) -> Load {
        let files = match subsystem {
            Subsystem::Files | Subsystem::Names => (0..trace.files().len())
                .map(|file| trace.file_name(file as u32))
                .collect(),
            _ => Vec::new(),
        };
        let forks = trace
            .events()
            .iter()
            .map(|event| matches!(event.action, Action::Fork { shares, .. } if !shares.process));
        Load {
            subsystem,
            plan: Plan::of(trace, subsystem, truncate_every),
            forks: forks.collect(),
            set_up: 0,
            files,
        }
    }

    /// The subsystem.
    #[must_use]
    pub fn subsystem(&self) -> Subsystem {
        self.subsystem
    }

    /// The same, but the first `events` events only set the scene: they happen before anything is timed or simulated, without
    /// other work, and the figures below are about what follows.
    #[must_use]
    pub fn after(mut self, events: usize) -> Load {
        self.set_up = events.min(self.plan.steps().len());
        self
    }

    /// How many events set the scene.
    #[must_use]
    pub fn set_up(&self) -> usize {
        self.set_up
    }

    /// How many events there are.
    #[must_use]
    pub fn events(&self) -> usize {
        self.plan.steps().len() - self.set_up
    }

    /// How many entries come or go.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.plan.changes_and_reads(self.set_up).0
    }

    /// How often somebody reads an object.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.plan.changes_and_reads(self.set_up).1
    }

    /// How many objects there are, used or not.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.plan.objects()
    }

    /// How many processes are shared out among the threads, in the sense of [`replay`](super).
    #[must_use]
    pub fn processes(&self) -> usize {
        self.plan.processes()
    }

    /// How many times a process started another.
    #[must_use]
    pub fn forks(&self) -> u64 {
        let counted = self.forks.iter().skip(self.set_up);
        counted.filter(|&&forks| forks).count() as u64
    }

    /// The objects that most comes to and goes from, with how much does, the busiest first.
    #[must_use]
    pub fn busiest(&self) -> Vec<(String, u64)> {
        let mut updates = vec![0_u64; self.objects()];
        for update in self.plan.updates() {
            if !matches!(update, Update::Read { .. }) {
                updates[update.object() as usize] += 1;
            }
        }
        let mut by_use: Vec<usize> = (0..updates.len())
            .filter(|&object| updates[object] > 0)
            .collect();
        by_use.sort_by_key(|&object| Reverse(updates[object]));
        by_use
            .into_iter()
            .take(BUSIEST)
            .map(|object| (self.name(object), updates[object]))
            .collect()
    }

    /// What people call an object.
    pub(super) fn name(&self, object: usize) -> String {
        match self.subsystem {
            Subsystem::Files | Subsystem::Names => match self.files.get(object) {
                Some(name) => name.clone(),
                None => format!("file {object}"),
            },
            Subsystem::Memory => format!("memory {object}"),
            Subsystem::OpenFiles | Subsystem::Events => self.subsystem.title().to_owned(),
        }
    }
}
