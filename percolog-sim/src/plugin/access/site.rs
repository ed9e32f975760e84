//! An access as it is known before it is made, and how its address is found.

use super::{
    before_absolute, before_any, before_any_untagged, before_based, before_indexed, before_untagged,
};
use crate::model::{Access, Rights};
use crate::plugin::architecture::{self, Access3, NONE, Operand, Segment, Sum};
use crate::plugin::hot;
use crate::plugin::qemu;
use crate::plugin::registers::{fs_base, gs_base};

/// One access of one instruction, as found when it was translated. It is never freed: translated code refers to it.
#[derive(Debug)]
pub(crate) struct Site {
    /// Added to the registers.
    pub(crate) displacement: u64,
    /// The address of the instruction.
    pub(crate) place: u64,
    /// What the block costs from this instruction on: it was charged when the block began.
    pub(crate) ahead: u32,
    /// Base and index: which word of QEMU's state, or [`NONE`].
    pub(super) base: u8,
    pub(super) index: u8,
    pub(super) scale: u8,
    sum: Sum,
    /// How many bytes.
    pub(crate) size: u16,
    /// The rights that it needs.
    pub(super) need: u8,
    /// What it is for the model.
    pub(crate) access: Access,
    segment: Segment,
    address32: bool,
    pub(crate) repeated: bool,
}

impl Site {
    /// An access at this place.
    pub(crate) fn new(
        operand: &Operand,
        place: u64,
        ahead: u32,
        locked: bool,
        repeated: bool,
    ) -> Self {
        let (need, access) = match operand.access {
            Access3::Read => (hot::READ, Access::Read),
            Access3::Write if !locked => (hot::READ | hot::WRITE, Access::Store),
            // Fetched to be written at once, also by an instruction that is not atomic; a store buffer cannot hide it,
            // since the old value is needed.
            Access3::Write | Access3::Modify => (hot::READ | hot::WRITE, Access::Write),
        };
        let first = architecture::layout().first as u8;
        let word = |register| match register {
            NONE => NONE,
            register => first + register,
        };
        Site {
            displacement: operand.displacement as u64,
            place,
            ahead,
            base: word(operand.base),
            index: word(operand.index),
            scale: operand.scale,
            sum: operand.sum,
            size: operand.length(),
            need: need as u8,
            access,
            segment: operand.segment,
            address32: operand.address32,
            repeated,
        }
    }

    /// The rights that it needs.
    pub(crate) fn wants(&self) -> Rights {
        if self.writes() {
            Rights::Write
        } else {
            Rights::Read
        }
    }

    /// Whether it needs the right to write.
    pub(crate) fn writes(&self) -> bool {
        u64::from(self.need) & hot::WRITE != 0
    }

    /// The function to call before the instruction.
    pub(crate) fn callback(&self) -> qemu::Execution {
        if self.sum != Sum::Whole && self.base != NONE {
            let is_plain = self.sum == Sum::Untagged && self.index == NONE;
            return if is_plain {
                before_untagged
            } else {
                before_any_untagged
            };
        }
        let plain = self.segment == Segment::None && !self.address32 && !self.repeated;
        match (plain, self.base == NONE, self.index == NONE) {
            (true, true, true) => before_absolute,
            (true, false, true) => before_based,
            (true, false, false) => before_indexed,
            _ => before_any,
        }
    }

    /// The address, from the registers at `state`; none if a repeated instruction has nothing to do.
    pub(super) fn address(&self, state: *const u64) -> Option<u64> {
        match self.sum {
            Sum::Whole => self.whole_address(state),
            _ => Some(self.untagged_address(state)),
        }
    }

    /// The same, if the uppermost byte does not count.
    #[inline]
    pub(super) fn untagged_address(&self, state: *const u64) -> u64 {
        let mut address = self.displacement;
        if self.base != NONE {
            // SAFETY: it is one of the words of the state that are registers.
            address = address.wrapping_add(unsafe { *state.add(usize::from(self.base)) });
        }
        if self.index != NONE {
            // SAFETY: as above.
            let index = unsafe { *state.add(usize::from(self.index)) };
            address = address.wrapping_add(self.sum.index(index) << self.scale);
        }
        self.sum.address(address, u64::from(self.size))
    }

    /// The same, if all of the sum counts.
    #[inline]
    pub(super) fn whole_address(&self, state: *const u64) -> Option<u64> {
        let register = |number: u8| {
            // SAFETY: it is one of the words of the state that are registers.
            unsafe { *state.add(usize::from(number)) }
        };
        if self.repeated {
            let count = register(1);
            let count = if self.address32 {
                count & 0xffff_ffff
            } else {
                count
            };
            if count == 0 {
                return None;
            }
        }
        let mut address = self.displacement;
        if self.base != NONE {
            address = address.wrapping_add(register(self.base));
        }
        if self.index != NONE {
            address = address.wrapping_add(register(self.index) << self.scale);
        }
        if self.address32 {
            address &= 0xffff_ffff;
        }
        let base = match self.segment {
            Segment::None => return Some(address),
            Segment::Fs => fs_base(),
            Segment::Gs => gs_base(),
        };
        // SAFETY: the segments' bases follow the registers.
        Some(address.wrapping_add(unsafe { *state.add(base) }))
    }
}
