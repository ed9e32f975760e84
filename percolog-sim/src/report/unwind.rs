//! From the registers of a thread and the top of its stack to the calls that led there.
//!
//! The tables that exceptions are thrown by (`.eh_frame`), or those for debuggers, say for each instruction where its
//! function's caller goes on. Where a file has none, the chain of frame pointers is followed, as Go keeps it, and where
//! that leads nowhere the next word of the stack is taken that follows a call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::rc::Rc;

use addr2line::gimli::{
    AArch64, BaseAddresses, CfaRule, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, LittleEndian,
    Register, RegisterRule, UnwindContext, UnwindSection, UnwindTableRow, Vendor, X86_64,
};
use object::{Architecture, Object, ObjectSection, ObjectSegment};

use super::raw::StackResult;
use super::symbols::Symbols;

/// As many calls are followed.
const DEEPEST: usize = 64;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// What of a file says who called.
struct Tables {
    bases: BaseAddresses,
    frames: Vec<u8>,
    /// A sorted index of `frames`.
    index: Option<Vec<u8>>,
    debug_frames: Vec<u8>,
    /// Segments: address as linked, bytes.
    segments: Vec<(u64, Vec<u8>)>,
    /// Whether it is a file for 64-bit ARM.
    is_aarch64: bool,
}

impl Tables {
    fn read(path: &str) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let mut bases = BaseAddresses::default();
        let mut section = |name: &str| {
            let section = elf.section_by_name(name)?;
            let address = section.address();
            bases = match name {
                ".eh_frame" => bases.clone().set_eh_frame(address),
                ".eh_frame_hdr" => bases.clone().set_eh_frame_hdr(address),
                ".text" => bases.clone().set_text(address),
                _ => bases.clone(),
            };
            (name != ".text").then(|| {
                section
                    .uncompressed_data()
                    .ok()
                    .map(|data| data.into_owned())
            })?
        };
        let _ = section(".text");
        let frames = section(".eh_frame").unwrap_or_default();
        let index = section(".eh_frame_hdr");
        let debug_frames = section(".debug_frame")
            .or_else(|| section(".zdebug_frame"))
            .unwrap_or_default();
        let segments = elf
            .segments()
            .filter_map(|segment| Some((segment.address(), segment.data().ok()?.to_vec())))
            .collect();
        Some(Self {
            bases,
            frames,
            index,
            debug_frames,
            segments,
            is_aarch64: elf.architecture() == Architecture::Aarch64,
        })
    }

    /// The rules at an instruction, given to `with`.
    fn row<T>(&self, address: u64, with: impl FnOnce(&UnwindTableRow<usize>) -> T) -> Option<T> {
        let mut context = UnwindContext::new();
        let mut frames = EhFrame::new(&self.frames, LittleEndian);
        frames.set_vendor(self.vendor());
        if let Some(index) = &self.index
            && let Ok(index) = EhFrameHdr::new(index, LittleEndian).parse(&self.bases, 8)
            && let Some(table) = index.table()
        {
            let row = table.unwind_info_for_address(
                &frames,
                &self.bases,
                &mut context,
                address,
                EhFrame::<Bytes<'_>>::cie_from_offset,
            );
            if let Ok(row) = row {
                return Some(with(row));
            }
        } else if let Ok(row) = frames.unwind_info_for_address(
            &self.bases,
            &mut context,
            address,
            EhFrame::cie_from_offset,
        ) {
            return Some(with(row));
        }
        if self.debug_frames.is_empty() {
            return None;
        }
        let mut context = UnwindContext::new();
        let mut frames = DebugFrame::new(&self.debug_frames, LittleEndian);
        frames.set_address_size(8);
        frames.set_vendor(self.vendor());
        let row = frames
            .unwind_info_for_address(
                &self.bases,
                &mut context,
                address,
                DebugFrame::cie_from_offset,
            )
            .ok()?;
        Some(with(row))
    }

    /// Whose rules may be in the tables besides those of all.
    fn vendor(&self) -> Vendor {
        if self.is_aarch64 {
            Vendor::AArch64
        } else {
            Vendor::Default
        }
    }

    /// Whether what lies before an address is a call.
    fn follows_call(&self, address: u64) -> bool {
        let Some(before) = self.segments.iter().find_map(|(start, bytes)| {
            let end = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(end.checked_sub(7)?..end)
        }) else {
            return false;
        };
        if self.is_aarch64 {
            // `bl`, `blr`
            return before.last_chunk().is_some_and(|bytes| {
                let instruction = u32::from_le_bytes(*bytes);
                instruction & 0xfc00_0000 == 0x9400_0000 || instruction & 0xfeff_f000 == 0xd63f_0000
            });
        }
        // `call` with a distance, or of a register or of memory, in the lengths that compilers make.
        let indirect =
            |length: usize| before[7 - length] == 0xff && before[8 - length] >> 3 & 7 == 2;
        before[2] == 0xe8 || [2, 3, 6, 7].into_iter().any(indirect)
    }
}

/// Finds callers.
pub(super) struct Unwinder<'a> {
    symbols: &'a Symbols,
    tables: RefCell<HashMap<String, Option<Rc<Tables>>>>,
}

/// A thread at one of its calls.
#[derive(Clone)]
struct Frame {
    pc: u64,
    /// By DWARF's number; nothing if it is not known any more.
    registers: [Option<u64>; PLACES],
}

/// DWARF's numbers are below that, as far as they are of any use here.
const PLACES: usize = 33;

impl Frame {
    fn get(&self, register: Register) -> Option<u64> {
        *self.registers.get(usize::from(register.0))?
    }

    fn set(&mut self, register: Register, value: Option<u64>) {
        if let Some(place) = self.registers.get_mut(usize::from(register.0)) {
            *place = value;
        }
    }
}

/// The top of a stack.
struct Memory<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl Memory<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// DWARF's numbers of the registers, in the order of instructions.
const NUMBERS: [Register; 16] = [
    X86_64::RAX,
    X86_64::RCX,
    X86_64::RDX,
    X86_64::RBX,
    X86_64::RSP,
    X86_64::RBP,
    X86_64::RSI,
    X86_64::RDI,
    X86_64::R8,
    X86_64::R9,
    X86_64::R10,
    X86_64::R11,
    X86_64::R12,
    X86_64::R13,
    X86_64::R14,
    X86_64::R15,
];

/// The same for 64-bit ARM, whose last general register is the stack pointer.
const NUMBERS_AARCH64: [Register; 32] = {
    let mut numbers = [Register(0); 32];
    let mut number = 0;
    while number < 32 {
        numbers[number as usize] = Register(number);
        number += 1;
    }
    numbers
};

/// Which register is what.
struct Convention {
    numbers: &'static [Register],
    stack: Register,
    frame_pointer: Register,
    return_address: Register,
    /// What of a return address counts: the rest may be a checksum.
    address: u64,
    /// Whether the return address is still in its register where no rule says otherwise: in a function that calls none.
    is_linked: bool,
}

impl Convention {
    /// That of the processor that has so many registers.
    fn of(registers: &[u64]) -> &'static Self {
        static X86: Convention = Convention {
            numbers: &NUMBERS,
            stack: X86_64::RSP,
            frame_pointer: X86_64::RBP,
            return_address: X86_64::RA,
            address: u64::MAX,
            is_linked: false,
        };
        static ARM: Convention = Convention {
            numbers: &NUMBERS_AARCH64,
            stack: AArch64::SP,
            frame_pointer: AArch64::X29,
            return_address: AArch64::X30,
            address: (1 << 48) - 1,
            is_linked: true,
        };
        if registers.len() == NUMBERS_AARCH64.len() {
            &ARM
        } else {
            &X86
        }
    }
}

impl<'a> Unwinder<'a> {
    pub(super) fn new(symbols: &'a Symbols) -> Self {
        Self {
            symbols,
            tables: RefCell::default(),
        }
    }

    /// The instruction at which the thread was, and of each caller one within its call: the innermost first.
    pub(super) fn calls(&self, stack: &StackResult) -> Vec<u64> {
        let bytes = stack.bytes();
        let convention = Convention::of(&stack.registers);
        let mut frame = Frame {
            pc: stack.pc,
            registers: [None; PLACES],
        };
        for (register, value) in convention.numbers.iter().zip(&stack.registers) {
            frame.set(*register, Some(*value));
        }
        let Some(top) = frame.get(convention.stack) else {
            return vec![stack.pc];
        };
        let memory = Memory {
            start: top,
            bytes: &bytes,
        };
        let mut calls = vec![stack.pc];
        // A caller goes on behind its call: the call itself is what is asked about.
        let mut at = stack.pc;
        while calls.len() < DEEPEST {
            let is_first = calls.len() == 1;
            let Some(caller) = self.caller(convention, &frame, at, is_first, &memory) else {
                break;
            };
            at = caller.pc.wrapping_sub(1);
            if self.symbols.linked(at).is_none() {
                break;
            }
            calls.push(at);
            frame = caller;
        }
        calls
    }

    fn tables(&self, path: &str) -> Option<Rc<Tables>> {
        let mut tables = self.tables.borrow_mut();
        tables
            .entry(path.to_owned())
            .or_insert_with(|| Tables::read(path).map(Rc::new))
            .clone()
    }

    fn caller(
        &self,
        convention: &Convention,
        frame: &Frame,
        at: u64,
        is_first: bool,
        memory: &Memory<'_>,
    ) -> Option<Frame> {
        let (path, linked) = self.symbols.linked(at)?;
        let by_table = self.tables(path).and_then(|tables| {
            tables.row(linked, |row| {
                by_rules(convention, frame, row, is_first, memory)
            })
        });
        match by_table {
            Some(Step::To(caller)) => Some(*caller),
            Some(Step::End) => None,
            Some(Step::Unknown) | None => self
                .by_frame_pointer(convention, frame, memory)
                .or_else(|| self.by_search(convention, frame, memory)),
        }
    }

    fn is_return_address(&self, address: u64) -> bool {
        self.symbols.linked(address).is_some_and(|(path, linked)| {
            self.tables(path)
                .is_some_and(|tables| tables.follows_call(linked))
        })
    }

    fn by_frame_pointer(
        &self,
        convention: &Convention,
        frame: &Frame,
        memory: &Memory<'_>,
    ) -> Option<Frame> {
        let pointer = frame.get(convention.frame_pointer)?;
        let pc = memory.word(pointer.checked_add(8)?)? & convention.address;
        if !self.is_return_address(pc) {
            return None;
        }
        let mut caller = Frame {
            pc,
            registers: [None; PLACES],
        };
        caller.set(convention.frame_pointer, memory.word(pointer));
        caller.set(convention.stack, pointer.checked_add(16));
        Some(caller)
    }

    fn by_search(
        &self,
        convention: &Convention,
        frame: &Frame,
        memory: &Memory<'_>,
    ) -> Option<Frame> {
        let mut at = frame.get(convention.stack)?;
        loop {
            let pc = memory.word(at)? & convention.address;
            at += 8;
            if self.is_return_address(pc) {
                let mut caller = frame.clone();
                caller.pc = pc;
                caller.set(convention.stack, Some(at));
                return Some(caller);
            }
        }
    }
}

enum Step {
    To(Box<Frame>),
    /// Nobody called.
    End,
    /// The rules do not say, or not in a way that is understood.
    Unknown,
}

fn by_rules(
    convention: &Convention,
    frame: &Frame,
    row: &UnwindTableRow<usize>,
    is_first: bool,
    memory: &Memory<'_>,
) -> Step {
    let link = convention.return_address;
    let is_kept = |register| register != link || (convention.is_linked && is_first);
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return Step::Unknown;
    };
    let Some(base) = frame.get(*register) else {
        return Step::Unknown;
    };
    let cfa = base.wrapping_add_signed(*offset);
    let mut caller = frame.clone();
    for &register in convention.numbers.iter().chain([&link]) {
        let value = match row.register(register) {
            RegisterRule::Offset(offset) => memory.word(cfa.wrapping_add_signed(offset)),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::Register(other) => frame.get(other),
            RegisterRule::Constant(value) => Some(value),
            // By the convention it is kept if nothing is said; what is not kept is not asked for.
            RegisterRule::Undefined | RegisterRule::SameValue if is_kept(register) => {
                frame.get(register)
            }
            RegisterRule::Undefined => return Step::End,
            _ => None,
        };
        caller.set(register, value);
    }
    caller.set(convention.stack, Some(cfa));
    match caller.get(link).map(|address| address & convention.address) {
        Some(0) => Step::End,
        Some(pc) => {
            caller.pc = pc;
            Step::To(Box::new(caller))
        }
        // Beyond what was kept of the stack.
        None => Step::End,
    }
}
