//! The page manager of a process: it asks the global one for everything, and knows the files that only this process can name.

use super::ask;
use crate::faults::error::OutOfMemory;
use crate::faults::lock;
use crate::faults::memory::Frame;
use crate::faults::objects::{Attachment, Member, PageManager};
use percolog::clustered::{ObjectRef, Place, Root, Section, Siblings};
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

impl PageManager for Redirect {
    fn allocate(&self, section: &Section) -> Result<Frame, OutOfMemory> {
        // The global manager is destroyed after all processes.
        self.to
            .get(section)
            .map_err(|_| OutOfMemory)?
            .allocate(section)
    }

    fn give_back(&self, section: &Section, frame: Frame) {
        if let Ok(to) = self.to.get(section) {
            to.give_back(section, frame);
        }
    }

    fn attach(&self, member: Member) -> Attachment {
        lock(&self.members).push(member);
        Attachment {
            home: self.number,
            member,
        }
    }

    fn detach(&self, attachment: Attachment) {
        self.siblings.visit(|all| {
            if let Some(home) = all.get(attachment.home) {
                lock(&home.members).retain(|member| *member != attachment.member);
            }
        });
    }

    fn reclaim(&self, section: &Section, wanted: usize) -> usize {
        let members = self.siblings.visit(|all| {
            all.iter()
                .flat_map(|(_, redirect)| lock(&redirect.members).clone())
                .collect()
        });
        ask(members.unwrap_or_default(), section, wanted)
    }

    /// It has none of its own.
    fn free(&self) -> usize {
        0
    }

    fn members(&self) -> usize {
        let count = |redirect: &Self| lock(&redirect.members).len();
        self.siblings
            .visit(|all| all.iter().map(|(_, it)| count(it)).sum())
            .unwrap_or(0)
    }
}
