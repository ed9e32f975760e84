//! Where the guest's code comes from: which file is mapped where, and at which addresses the functions lie that somebody
//! wants to know of.
//!
//! A mapping is looked up when a block of it is translated for the first time, so that libraries are found whenever and
//! however they are loaded, and in programs that the guest executes.

use std::collections::HashMap;
use std::fs;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::maps::{self, Mapping};
use crate::plugin::allocations::Kind;
use crate::plugin::architecture::{LONGEST_CALL, is_call};
use crate::plugin::elf;

/// What is to be done when a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// It is of an allocator.
    Allocator(Kind),
    /// It is the region.
    Region {
        /// Whether it is Go's: goroutines call it, of which a thread has many.
        go: bool,
    },
}

/// A function that every program of Go has.
const GO_ALLOCATOR: &str = "runtime.mallocgc";

/// Addresses of code that has been translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    /// The address behind the last one.
    end: u64,
}

#[derive(Clone, Debug, Default)]
struct Code {
    /// In ascending order.
    ranges: Vec<Range>,
    /// What is wanted of them.
    hooks: HashMap<u64, Hook>,
    /// What is wanted of each file: offsets and what for. Files are read once.
    files: HashMap<String, Vec<(u64, Hook)>>,
    /// The names of the functions that are the region.
    regions: Vec<String>,
    /// Whether allocators are of interest.
    allocators: bool,
}

static CODE: Mutex<Option<Code>> = Mutex::new(None);

/// What a process that is being forked is to begin with: each has its own, and they would otherwise change one another's.
static INHERITED: Mutex<Option<Code>> = Mutex::new(None);

/// The same ranges, for those who only read. What a change replaces is not freed: somebody may be reading it, and
/// programs map code a few dozen times.
static RANGES: AtomicPtr<Vec<Range>> = AtomicPtr::new(ptr::null_mut());

/// Says what is wanted; before the first block is translated.
pub(crate) fn prepare(allocators: bool, regions: Vec<String>) {
    *lock() = Some(Code {
        regions,
        allocators,
        ..Code::default()
    });
}

/// This process is about to be forked.
pub(crate) fn fork() {
    *inherited() = lock().clone();
}

/// The fork has failed.
pub(crate) fn not_forked() {
    *inherited() = None;
}

/// This process has been forked: what the child has is not this one's to free.
pub(crate) fn has_forked() {
    std::mem::forget(inherited().take());
}

/// This is the child: what the parent has is not this one's to free.
pub(crate) fn forked() {
    let theirs = std::mem::replace(&mut *lock(), inherited().take());
    std::mem::forget(theirs);
}

/// This is a child that is not simulated: nothing is wanted, and what there is is others'.
pub(crate) fn not_simulated() {
    std::mem::forget(lock().take());
    std::mem::forget(inherited().take());
}

fn inherited() -> MutexGuard<'static, Option<Code>> {
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock() -> MutexGuard<'static, Option<Code>> {
    CODE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is to be done when the block at `pc` is entered, if anything. To be asked for each block that is translated.
pub(crate) fn wanted(pc: u64) -> Option<Hook> {
    let mut code = lock();
    let code = code.as_mut()?;
    if !contains(&code.ranges, pc) {
        code.find(pc);
    }
    code.hooks.get(&pc).copied()
}

/// The guest has unmapped these addresses, or mapped something else there.
pub(crate) fn unmapped(start: u64, length: u64) {
    let end = start.saturating_add(length);
    let mut code = lock();
    let Some(code) = code.as_mut() else { return };
    let before = code.ranges.len();
    code.ranges
        .retain(|range| range.end <= start || range.start >= end);
    if code.ranges.len() != before {
        code.hooks
            .retain(|address, _| !(start..end).contains(address));
        code.publish();
    }
}

/// Whether an address is within code that has been translated.
pub(crate) fn is_code(address: u64) -> bool {
    // Acquire: pairs with the store in `publish`.
    let ranges = RANGES.load(Ordering::Acquire);
    // SAFETY: what `publish` has stored is never freed or changed.
    !ranges.is_null() && contains(unsafe { &*ranges }, address)
}

/// Whether what lies before an address looks like a call: then it may be a return address.
pub(crate) fn follows_call(address: u64) -> bool {
    const LONGEST: u64 = LONGEST_CALL as u64;
    if !is_code(address.wrapping_sub(LONGEST)) || !is_code(address) {
        return false;
    }
    // SAFETY: the bytes lie in code that the guest has run. It could have been unmapped since only by a call that
    // `unmapped` hears of.
    let bytes = unsafe { ptr::read_unaligned((address - LONGEST) as *const [u8; LONGEST_CALL]) };
    is_call(bytes)
}

fn contains(ranges: &[Range], address: u64) -> bool {
    let after = ranges.partition_point(|range| range.start <= address);
    after > 0 && address < ranges[after - 1].end
}

impl Code {
    /// Looks up the mapping of an address.
    fn find(&mut self, pc: u64) {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let found = maps::parse(&maps).find(|mapping| mapping.contains(pc));
        // A page of its own, if nothing is known of it: so it is not looked up for each block.
        let mapping = found.unwrap_or_else(|| Mapping {
            start: pc & !0xfff,
            end: (pc & !0xfff) + 0x1000,
            ..Mapping::default()
        });
        // The kernel may have joined two mappings.
        self.ranges
            .retain(|range| range.end <= mapping.start || range.start >= mapping.end);
        let at = self
            .ranges
            .partition_point(|range| range.start < mapping.start);
        self.ranges.insert(
            at,
            Range {
                start: mapping.start,
                end: mapping.end,
            },
        );
        if mapping.is_file() {
            let size = mapping.end - mapping.start;
            let functions = self.functions(&mapping.name);
            for (offset, hook) in functions {
                if let Some(within) = offset.checked_sub(mapping.offset)
                    && within < size
                {
                    self.hooks.insert(mapping.start + within, hook);
                }
            }
        }
        self.publish();
    }

    /// The functions of a file that are wanted.
    fn functions(&mut self, path: &str) -> Vec<(u64, Hook)> {
        if let Some(known) = self.files.get(path) {
            return known.clone();
        }
        let (regions, allocators) = (&self.regions, self.allocators);
        let is_region = |name: &[u8]| regions.iter().any(|region| region.as_bytes() == name);
        let found = elf::functions(path, |name| {
            let is_allocator = (allocators || !regions.is_empty()) && Kind::of(name).is_some();
            is_region(name) || is_allocator
        });
        // A file that cannot be read has no symbols.
        let found = found.unwrap_or_default();
        // `operator new` calls `malloc`, unless it comes with an allocator of its own.
        let is_allocator = found.iter().any(|function| function.name == "malloc");
        let go = found.iter().any(|function| function.name == GO_ALLOCATOR);
        let wanted: Vec<(u64, Hook)> = found
            .into_iter()
            .filter(|function| {
                is_allocator
                    || !function.name.starts_with("_Z")
                    || is_region(function.name.as_bytes())
            })
            .filter_map(|function| {
                let name = function.name.as_bytes();
                let hook = if is_region(name) {
                    Hook::Region { go }
                } else if !allocators {
                    return None;
                } else {
                    Hook::Allocator(Kind::of(name)?)
                };
                Some((function.offset, hook))
            })
            .collect();
        self.files.insert(path.to_owned(), wanted.clone());
        wanted
    }

    fn publish(&self) {
        let ranges = Box::into_raw(Box::new(self.ranges.clone()));
        // Release: pairs with the load in `is_code`.
        RANGES.store(ranges, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_other_instructions() {
        for (call, bytes) in [
            (true, [0x90, 0x90, 0xe8, 1, 2, 3, 4]),
            // call *%rax
            (true, [0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]),
            // call *8(%rbx)
            (true, [0x90, 0x90, 0x90, 0x90, 0xff, 0x53, 8]),
            // call *disp(%rip)
            (true, [0x90, 0xff, 0x15, 1, 2, 3, 4]),
            // call *disp(%rax,%rbx,8)
            (true, [0xff, 0x94, 0xd8, 1, 2, 3, 4]),
            // call *disp(%rsp), of eight bits
            (true, [0x90, 0x90, 0x90, 0xff, 0x54, 0x24, 8]),
            // jmp *%rax
            (false, [0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0]),
            (false, [0x90; 7]),
        ] {
            assert_eq!(is_call(bytes), call, "{bytes:x?}");
        }
    }

    #[test]
    fn an_address_is_in_the_last_range_that_begins_before_it() {
        let ranges = [Range { start: 10, end: 20 }, Range { start: 30, end: 40 }];
        for (address, is_in) in [(9, false), (10, true), (19, true), (20, false), (35, true)] {
            assert_eq!(contains(&ranges, address), is_in, "{address}");
        }
    }
}
