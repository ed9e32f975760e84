//! What is seen at each event of a line, beyond what is counted: which object it touched, and who called.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::hash::BuildHasherDefault;

use crate::plugin::allocations::{Block, Blocks};
use crate::plugin::architecture::layout;
use crate::plugin::registers::Registers;
use crate::plugin::report::{Json, LineHasher};
use crate::plugin::spaces::Spaces;
use crate::plugin::stacks::{Purpose, StackId, Stacks};

/// As many chains of callers are kept for an instruction at a line.
const CHAINS: usize = 16;

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// Whether to look at all.
    pub(crate) enabled: bool,
    pub(crate) stacks: Stacks,
    pub(crate) blocks: Blocks,
    /// Memory that the program has mapped itself.
    pub(crate) mappings: Blocks,
    lines: HashMap<u64, Seen, BuildHasherDefault<LineHasher>>,
}

/// What was seen of a line.
#[derive(Debug, Default)]
struct Seen {
    /// The block that was touched most, if any block was: it may have been freed since.
    block: Most<Option<Block>>,
    /// The mapping, likewise.
    mapping: Most<Option<Block>>,
    /// The place that was touched most.
    place: Most<u64>,
    /// Whether most of what was touched lay on the stack of the thread that touched it.
    on_stack: Most<bool>,
    chains: Vec<Chain>,
}

impl Seen {
    fn has_room(&self, pc: u64) -> bool {
        self.chains.iter().filter(|chain| chain.pc == pc).count() < CHAINS
    }
}

/// Whether an address lies on the stack that has this stack pointer, near its end.
fn is_on_stack(place: u64, stack: u64) -> bool {
    /// Functions may use so many bytes below.
    const RED_ZONE: u64 = 128;
    /// What lies farther up may be something else.
    const NEAR: u64 = 64 << 10;
    Spaces::is_private(place)
        && Spaces::bare(place).wrapping_sub(stack.wrapping_sub(RED_ZONE)) < NEAR
}

/// An instruction, and who called the function that it is in.
#[derive(Debug)]
struct Chain {
    pc: u64,
    write: bool,
    stack: StackId,
    events: u64,
}

/// What most of all values are alike, if most of them are: each vote for another takes one from the one that leads.
#[derive(Debug, Default)]
struct Most<T> {
    leads: T,
    votes: u32,
}

impl<T: PartialEq> Most<T> {
    fn vote(&mut self, value: T) {
        if self.votes == 0 {
            self.leads = value;
            self.votes = 1;
        } else if self.leads == value {
            self.votes = self.votes.saturating_add(1);
        } else {
            self.votes -= 1;
        }
    }
}

impl Witness {
    /// Sees nothing, unless `enabled`.
    pub(crate) fn new(enabled: bool) -> Self {
        Witness {
            enabled,
            ..Witness::default()
        }
    }

    /// The line had to come, or to be taken from others, because the instruction at `pc` is about to access this place. `places` are
    /// that and those from which its process has inherited what lies there, the nearest first.
    pub(crate) fn event<I: Iterator<Item = u64>>(
        &mut self,
        line: u64,
        place: u64,
        places: impl Fn() -> I,
        pc: u64,
        write: bool,
        registers: &Registers,
    ) {
        if !self.enabled {
            return;
        }
        let seen = self.lines.entry(line).or_default();
        let find = |blocks: &Blocks| places().find_map(|place| blocks.at(place));
        seen.place.vote(place);
        seen.on_stack.vote(is_on_stack(place, registers.stack()));
        seen.block.vote(find(&self.blocks));
        seen.mapping.vote(find(&self.mappings));
        let stack = self
            .stacks
            .number(pc, registers, Purpose::Access, || seen.has_room(pc));
        let Some(stack) = stack else {
            return;
        };
        let known = seen
            .chains
            .iter()
            .position(|chain| (chain.stack, chain.write) == (stack, write));
        match known {
            Some(index) => seen.chains[index].events += 1,
            None if seen.has_room(pc) => seen.chains.push(Chain {
                pc,
                write,
                stack,
                events: 1,
            }),
            None => {}
        }
    }

    /// The guest has unmapped something.
    pub(crate) fn unmapped(&mut self, start: u64, size: u64) {
        self.stacks.unmapped();
        if self.enabled {
            self.mappings.forget(start, size);
        }
    }

    /// What counts begins only now.
    pub(crate) fn forget_lines(&mut self) {
        self.lines.clear();
    }

    /// What was seen of a line, as the fields of an object.
    pub(crate) fn line(&self, json: &mut Json, spaces: &Spaces, line: u64) {
        let Some(seen) = self.lines.get(&line) else {
            return;
        };
        json.number("touched", spaces.shown(seen.place.leads).0);
        if seen.on_stack.leads {
            json.key("on_stack");
            json.literal("true");
        }
        let memory = [
            ("block", &seen.block.leads),
            ("mapping", &seen.mapping.leads),
        ];
        for (key, block) in memory {
            let Some(block) = block else { continue };
            json.key(key);
            json.open('{');
            json.number("address", spaces.shown(block.start).0);
            json.number("size", block.size);
            if let Some(stack) = block.stack {
                json.number("stack", u64::from(stack));
            }
            json.close('}');
        }
        json.list("chains", &seen.chains, |json, chain| {
            json.open('{');
            json.number("pc", chain.pc);
            json.key("write");
            json.literal(if chain.write { "true" } else { "false" });
            json.number("stack", u64::from(chain.stack));
            json.number("events", chain.events);
            json.close('}');
        });
    }

    /// The snapshots that these lines refer to.
    pub(crate) fn stacks_of(&self, json: &mut Json, lines: impl IntoIterator<Item = u64>) {
        let mut wanted = BTreeSet::new();
        for line in lines {
            let Some(seen) = self.lines.get(&line) else {
                continue;
            };
            wanted.extend(seen.chains.iter().map(|chain| chain.stack));
            let memory = [seen.block.leads, seen.mapping.leads];
            wanted.extend(memory.into_iter().flatten().filter_map(|block| block.stack));
        }
        let stacks = wanted
            .into_iter()
            .filter_map(|number| Some((number, self.stacks.get(number)?)));
        json.list("stacks", stacks, |json, (number, stack)| {
            json.open('{');
            json.number("number", u64::from(number));
            json.number("pc", stack.pc);
            let count = layout().count;
            json.list("registers", &stack.registers[..count], |json, register| {
                json.separate();
                json.literal(&register.to_string());
            });
            let mut memory = String::with_capacity(2 * stack.memory.len());
            for byte in &stack.memory {
                let _ = write!(memory, "{byte:02x}");
            }
            json.text("memory", &memory);
            json.close('}');
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::registers::Register;

    #[test]
    fn the_majority_leads() {
        let mut most = Most::default();
        for value in [7, 8, 7, 9, 7, 7, 8] {
            most.vote(value);
        }
        assert_eq!(most.leads, 7);
    }

    #[test]
    fn the_object_is_the_one_that_was_there_when_the_line_moved() {
        use crate::plugin::allocations::Kind;
        let mut values = [0; 16];
        // SAFETY: the array has as many words as there are registers, and outlives their use.
        let mut registers = unsafe { Registers::new(values.as_mut_ptr()) };
        let mut witness = Witness::new(true);
        registers.set(Register::Rdi, 64);
        let request = witness.blocks.called(Kind::Size, &registers, 0, || None);
        let request = request.expect("it gives something");
        witness.blocks.returned(&request, 0x1000, 0);
        witness.event(
            0x40,
            0x1008,
            || std::iter::once(0x1008),
            0x99,
            true,
            &registers,
        );
        registers.set(Register::Rdi, 0x1000);
        let _ = witness.blocks.called(Kind::Free, &registers, 0, || None);
        let mut json = Json::default();
        json.open('{');
        witness.line(&mut json, &Spaces::default(), 0x40);
        assert!(
            json.into_text()
                .contains("\"block\":{\"address\":4096,\"size\":64}")
        );
    }
}
