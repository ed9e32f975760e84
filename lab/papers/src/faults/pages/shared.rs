//! The global page manager as it was first: one lock.

use super::ask;
use crate::faults::error::OutOfMemory;
use crate::faults::lock;
use crate::faults::memory::Frame;
use crate::faults::objects::{Attachment, Member, PageManager};
use percolog::clustered::ObjectSection;
use std::sync::Mutex;

/// All of it, under one lock.
pub(in crate::faults) struct Pool {
    state: Mutex<State>,
}

struct State {
    free: Vec<Frame>,
    members: Vec<Member>,
}

impl Pool {
    pub(in crate::faults) fn new(free: Vec<Frame>) -> Self {
        Self {
            state: Mutex::new(State {
                free,
                members: Vec::new(),
            }),
        }
    }
}

impl PageManager for Pool {
    fn allocate(&self, _: &ObjectSection) -> Result<Frame, OutOfMemory> {
        lock(&self.state).free.pop().ok_or(OutOfMemory)
    }

    fn give_back(&self, _: &ObjectSection, frame: Frame) {
        lock(&self.state).free.push(frame);
    }

    fn attach(&self, member: Member) -> Attachment {
        lock(&self.state).members.push(member);
        Attachment { home: 0, member }
    }

    fn detach(&self, attachment: Attachment) {
        let members = &mut lock(&self.state).members;
        members.retain(|member| *member != attachment.member);
    }

    fn reclaim(&self, section: &ObjectSection, wanted: usize) -> usize {
        // Not under the lock, as in K42: whoever is asked gives back here.
        let members = lock(&self.state).members.clone();
        ask(members, section, wanted)
    }

    fn free(&self) -> usize {
        lock(&self.state).free.len()
    }

    fn members(&self) -> usize {
        lock(&self.state).members.len()
    }
}
