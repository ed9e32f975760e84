//! The page manager of a process: it asks the global one for everything, and knows the files that only this process can name.

use super::{Home, ask};
use crate::faults::error::OutOfMemory;
use crate::faults::memory::Frame;
use crate::faults::objects::{Attachment, Member, PageManager};
use percolog::clustered::{ObjectRef, ObjectSection, Place, Root, Siblings};
use std::sync::Mutex;

/// The root.
pub(in crate::faults) struct Redirects {
    pub(in crate::faults) to: ObjectRef<dyn PageManager>,
}

/// One slot's.
pub(in crate::faults) struct Redirect {
    number: usize,
    to: ObjectRef<dyn PageManager>,
    members: Mutex<Vec<Member>>,
    siblings: Siblings<Self>,
}

impl Root for Redirects {
    type Interface = dyn PageManager;
    type Rep = Redirect;

    fn create(&self, place: &Place<'_, Redirect>) -> Redirect {
        Redirect {
            number: place.number(),
            to: self.to,
            members: Mutex::default(),
            siblings: place.siblings(),
        }
    }

    fn interface(rep: &Redirect) -> &Self::Interface {
        rep
    }
}

impl Home for Redirect {
    fn made_here(&self) -> &Mutex<Vec<Member>> {
        &self.members
    }

    fn siblings(&self) -> &Siblings<Self> {
        &self.siblings
    }
}

impl PageManager for Redirect {
    fn allocate(&self, section: &ObjectSection) -> Result<Frame, OutOfMemory> {
        // The global manager is destroyed after all processes.
        self.to
            .get(section)
            .map_err(|_| OutOfMemory)?
            .allocate(section)
    }

    fn give_back(&self, section: &ObjectSection, frame: Frame) {
        if let Ok(to) = self.to.get(section) {
            to.give_back(section, frame);
        }
    }

    fn attach(&self, member: Member) -> Attachment {
        self.take_in(self.number, member)
    }

    fn detach(&self, attachment: Attachment) {
        self.let_go(attachment);
    }

    fn reclaim(&self, section: &ObjectSection, wanted: usize) -> usize {
        ask(self.everybody(), section, wanted)
    }

    /// It has none of its own.
    fn free(&self) -> usize {
        0
    }

    fn members(&self) -> usize {
        self.everybody().len()
    }
}
