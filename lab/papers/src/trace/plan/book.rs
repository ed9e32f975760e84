//! Writes down what happens to the objects.

use super::Update;
use crate::address_space::{Ledger, Region};
use crate::subsystem::{Entry, Subsystem};

/// Writes updates, and remembers what each identity stands for.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) updates: Vec<Update>,
    /// By identity: what it entered, and with which object.
    known: Vec<(u32, Entry)>,
    /// How many objects there are.
    pub(super) objects: usize,
    /// Whose the entries are that come.
    pub(super) process: u32,
    /// What came or went last.
    last: Option<(u32, Entry)>,
    /// Objects of memory: how many entries each has, and who made it.
    memory: Vec<(usize, u32)>,
    /// How many entries each object has now.
    alive: Vec<u32>,
    /// How many entries the reads have found at their objects, all together.
    pub(super) looked_at: u64,
    /// Objects of memory that were empty once, by who made them.
    empty: Vec<Vec<u32>>,
}

impl Book {
    /// A book of so many objects to begin with; those of memory are made one by one.
    pub(super) fn new(objects: usize) -> Book {
        Book {
            updates: Vec::new(),
            known: Vec::new(),
            objects,
            process: 0,
            last: None,
            memory: Vec::new(),
            alive: Vec::new(),
            looked_at: 0,
            empty: Vec::new(),
        }
    }

    /// How many entries have come.
    pub(super) fn entries(&self) -> usize {
        self.known.len()
    }

    /// An entry comes, from `offset` to `end`.
    pub(super) fn come(&mut self, object: u32, offset: u64, end: u64) -> u32 {
        let identity = self.known.len() as u32;
        let entry = Entry {
            offset,
            end,
            process: self.process,
            identity,
        };
        self.known.push((object, entry));
        if self.alive.len() <= object as usize {
            self.alive.resize(object as usize + 1, 0);
        }
        self.alive[object as usize] += 1;
        self.updates.push(Update::Enter { object, entry });
        self.last = Some((object, entry));
        if let Some((entries, _)) = self.memory.get_mut(object as usize) {
            *entries += 1;
        }
        identity
    }

    /// The entry of this identity goes.
    pub(super) fn go(&mut self, identity: u32) {
        let (object, entry) = self.known[identity as usize];
        self.updates.push(Update::Leave { object, entry });
        self.alive[object as usize] -= 1;
        self.last = Some((object, entry));
        if let Some((entries, maker)) = self.memory.get_mut(object as usize) {
            *entries -= 1;
            if *entries == 0 {
                let maker = *maker as usize;
                if self.empty.len() <= maker {
                    self.empty.resize_with(maker + 1, Vec::new);
                }
                self.empty[maker].push(object);
            }
        }
    }

    /// Somebody reads.
    pub(super) fn read(&mut self, object: u32, argument: u64) {
        self.updates.push(Update::Read { object, argument });
        let alive = self.alive.get(object as usize);
        self.looked_at += 1 + alive.map_or(0, |alive| u64::from(*alive));
    }

    /// A read of the object that something came to or went from last, of a kind that takes nothing away from
    /// reverse maps.
    pub(super) fn read_last(&mut self, subsystem: Subsystem) {
        if let Some((object, entry)) = self.last {
            let argument = match subsystem {
                // Beyond everything: nothing is cut, but everybody must be known.
                Subsystem::Files => u64::MAX,
                Subsystem::Memory => entry.offset,
                Subsystem::Names | Subsystem::OpenFiles | Subsystem::Events => 0,
            };
            self.read(object, argument);
        }
    }

    /// An object for memory that the process maps: one that it made earlier and that is empty, or a new one.
    pub(super) fn memory(&mut self) -> u32 {
        while let Some(object) = self.empty.get_mut(self.process as usize).and_then(Vec::pop) {
            // It may have been used again: by what was cut, or drawn out.
            if self.memory[object as usize].0 == 0 {
                return object;
            }
        }
        self.memory.push((0, self.process));
        self.objects = self.memory.len();
        self.memory.len() as u32 - 1
    }
}

impl Ledger<u32> for Book {
    fn enter(&mut self, region: Region<u32>) -> u32 {
        self.come(region.object, region.offset, region.offset + region.length)
    }

    fn leave(&mut self, identity: u32) {
        self.go(identity);
    }
}
