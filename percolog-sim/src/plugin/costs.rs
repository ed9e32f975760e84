//! What the instructions of a block cost.
//!
//! A core executes several instructions at a time, as many as it is wide, and each of its units goes on with its own. So a
//! stretch of instructions takes as long as the busiest of what it needs: the width, or one unit. What waits for all before it
//! (locked instructions, fences, clocks) ends a stretch. Dependences between instructions are not looked at.

use crate::model::{Costs, TICKS_PER_CYCLE, Ticks, Units};
use crate::plugin::architecture::{Access3, Class, Decoded, Unit};

/// What each instruction of a block adds to the clock, in order: all of them together cost what the block does.
///
/// A fence is told with whether it waits for loads only.
pub(crate) fn of_block(costs: &Costs, block: &[(Decoded, bool)]) -> Vec<Ticks> {
    let mut of_each = Vec::with_capacity(block.len());
    for stretch in block.chunk_by(|(one, _), (next, _)| overlaps(one) && overlaps(next)) {
        match stretch {
            [(alone, for_loads)] if !overlaps(alone) => of_each.push(costs.of(alone, *for_loads)),
            _ => costs.add_stretch(stretch, &mut of_each),
        }
    }
    of_each
}

/// What an element of a repeated instruction costs beyond the first.
pub(crate) fn of_element(costs: &Costs, instruction: &Decoded) -> Ticks {
    let mut one = Vec::new();
    costs.add_stretch(&[(*instruction, false)], &mut one);
    one.into_iter().sum()
}

/// Whether other instructions are executed at the same time.
fn overlaps(instruction: &Decoded) -> bool {
    matches!(
        instruction.class,
        Class::Plain | Class::Other | Class::Syscall
    )
}

/// So many things can be busy: the width and all units.
const BUSY: usize = 8;

impl Costs {
    fn of(&self, instruction: &Decoded, waits_for_loads_only: bool) -> Ticks {
        match instruction.class {
            // What `rdtscp` waits for is what an `lfence` before `rdtsc` waits for.
            Class::Fence if waits_for_loads_only => {
                self.rdtscp.saturating_sub(self.rdtsc).max(self.plain)
            }
            // A system call is charged when it is made.
            Class::Plain | Class::Other | Class::Syscall => self.plain,
            Class::Locked => self.locked,
            Class::Fence => self.fence,
            Class::Rdtsc | Class::Counter => self.rdtsc,
            Class::Rdtscp => self.rdtscp,
            Class::Pause => self.pause,
            Class::Cpuid => self.cpuid,
        }
    }

    /// For how long `count` instructions keep a core busy that executes so many at a time.
    fn issue(&self, count: usize) -> Ticks {
        match self.width {
            0 => self.plain * count as Ticks,
            width => (count as Ticks * TICKS_PER_CYCLE).div_ceil(Ticks::from(width)),
        }
    }

    /// Adds what each of some instructions costs that are executed at the same time: what keeps the busiest busy.
    fn add_stretch(&self, stretch: &[(Decoded, bool)], of_each: &mut Vec<Ticks>) {
        let mut totals = [0; BUSY];
        totals[0] = self.issue(stretch.len());
        for (instruction, _) in stretch {
            let busy = self.units.busy(instruction);
            totals[1..]
                .iter_mut()
                .zip(busy)
                .for_each(|(total, ticks)| *total += ticks);
        }
        // The first of those that are equally busy: the width, if that is one of them.
        let busiest = (0..BUSY).rev().max_by_key(|&at| totals[at]).unwrap_or(0);
        let mut before = 0;
        of_each.extend(
            stretch
                .iter()
                .enumerate()
                .map(|(index, (instruction, _))| match busiest {
                    0 => {
                        let after = self.issue(index + 1);
                        std::mem::replace(&mut before, after).abs_diff(after)
                    }
                    unit => self.units.busy(instruction)[unit - 1],
                }),
        );
    }
}

impl Units {
    /// For how long an instruction keeps each unit busy.
    fn busy(&self, instruction: &Decoded) -> [Ticks; BUSY - 1] {
        let (mut loads, mut stores) = (0, 0);
        for operand in instruction.operands.iter().flatten() {
            loads += u64::from(operand.access != Access3::Write);
            stores += u64::from(operand.access != Access3::Read);
        }
        let on = |unit, ticks| if instruction.unit == unit { ticks } else { 0 };
        [
            loads * self.load,
            stores * self.store,
            on(Unit::Branch, self.branch),
            on(Unit::Multiply, self.multiply),
            on(Unit::Divide, self.divide),
            on(Unit::Float, self.float),
            on(Unit::FloatDivide, self.float_divide),
        ]
    }
}

#[cfg(test)]
mod tests;
