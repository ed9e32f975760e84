//! What programs ask a memory manager for.

use crate::trace::{Action, Backing, Trace};
use std::collections::HashMap;

/// Pages of a large request of the paper's.
pub const LARGE: u32 = 1024;

/// How many pages each request for memory in a trace is for, in the order in which they were made: maps of memory without
/// a file, and growths of the heap; none of more than [`LARGE`].
///
/// What was asked for, not who asked for it, nor when it was given back.
#[must_use]
pub fn recorded(trace: &Trace) -> Vec<u32> {
    let page = trace.header().page_size.max(1);
    let pages = |bytes: u64| u32::try_from(bytes.div_ceil(page)).map_or(LARGE, |n| n.min(LARGE));
    // Where each heap ends. A forked child's is where its parent's is; a program's begins anew.
    let mut heaps: HashMap<u32, u64> = HashMap::new();
    let mut requests = Vec::new();
    for event in trace.events() {
        match event.action {
            Action::Map {
                length,
                backing: Backing::Memory,
                ..
            } => requests.push(pages(length)),
            Action::Break { end } => {
                if let Some(before) = heaps.insert(event.task, end)
                    && end > before
                {
                    requests.push(pages(end - before));
                }
            }
            Action::Fork { child, .. } => {
                if let Some(&end) = heaps.get(&event.task) {
                    heaps.insert(child, end);
                }
            }
            Action::Exec { .. } | Action::Exit => {
                heaps.remove(&event.task);
            }
            _ => {}
        }
    }
    requests.retain(|pages| *pages > 0);
    requests
}

/// What the paper's program asks for, Metis, whose trace was not published: single pages, and 1024 at once in fewer than 5 % of
/// all requests. Here in one of 25, each time at another place.
#[must_use]
pub fn papers(count: usize) -> Vec<u32> {
    let mut requests = vec![1; count];
    for (group, requests) in requests.chunks_mut(25).enumerate() {
        let at = group.wrapping_mul(7) % requests.len();
        if requests.len() == 25 {
            requests[at] = LARGE;
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_25_is_large() {
        let requests = papers(110);
        assert_eq!(requests.iter().filter(|pages| **pages == LARGE).count(), 4);
        assert_eq!(requests.iter().filter(|pages| **pages == 1).count(), 106);
    }

    #[test]
    fn recorded_programs_ask_for_memory() {
        let trace = Trace::bundled().expect("it is whole");
        let requests = recorded(&trace);
        assert!(requests.len() > 100, "{}", requests.len());
        assert!(requests.iter().all(|pages| (1..=LARGE).contains(pages)));
        // Every map of memory is one.
        let maps = trace.events().iter().filter(|event| {
            matches!(
                event.action,
                Action::Map {
                    backing: Backing::Memory,
                    ..
                }
            )
        });
        assert!(requests.len() >= maps.count());
    }
}
