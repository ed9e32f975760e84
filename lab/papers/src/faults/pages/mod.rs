//! Page managers: that of the process, which redirects, and the global one, which has the frames.
//!
//! | | [shared](Pool) | [distributed](DistributedPool) |
//! |---|---|---|
//! | free frames | a list, under the one lock | a list for each slot, of limited length; what is beyond lies in a list of the root |
//! | who can be asked for frames | a table, under the same lock | a table for each slot: that at which the member was made |

mod distributed;
mod redirect;
mod shared;

pub(super) use distributed::DistributedPool;
pub(super) use redirect::Redirects;
pub(super) use shared::Pool;

use super::lock;
use super::objects::{Attachment, Member};
use percolog::clustered::{ObjectSection, Siblings};
use std::sync::Mutex;

/// Representatives each of which has a table of those who were made on its slot.
trait Home: Sized + Send + Sync {
    fn made_here(&self) -> &Mutex<Vec<Member>>;

    fn siblings(&self) -> &Siblings<Self>;

    fn take_in(&self, number: usize, member: Member) -> Attachment {
        lock(self.made_here()).push(member);
        Attachment {
            home: number,
            member,
        }
    }

    fn let_go(&self, attachment: Attachment) {
        self.siblings().visit(|all| {
            if let Some(home) = all.get(attachment.home) {
                lock(home.made_here()).retain(|member| *member != attachment.member);
            }
        });
    }

    /// Those of all slots.
    fn everybody(&self) -> Vec<Member> {
        let members = self.siblings().visit(|all| {
            all.iter()
                .flat_map(|(_, home)| lock(home.made_here()).clone())
                .collect()
        });
        members.unwrap_or_default()
    }
}

/// Asks one after the other, until there are enough.
fn ask(members: Vec<Member>, section: &ObjectSection, wanted: usize) -> usize {
    let mut got = 0;
    for member in members {
        if got >= wanted {
            break;
        }
        // Who is being destroyed gives its frames back anyway.
        got += match member {
            Member::File(file) => file
                .get(section)
                .map_or(0, |file| file.reclaim(section, wanted - got)),
            Member::Manager(manager) => manager
                .get(section)
                .map_or(0, |manager| manager.reclaim(section, wanted - got)),
        };
    }
    got
}
