//! A result from a process that a signal kills.
//!
//! QEMU tells a plugin when the guest ends itself, but not when a signal ends it: it then restores the signal's default
//! action and sends the signal to itself, with the C library's `kill`. That call is diverted here, in the table through
//! which QEMU's program finds the functions of libraries, so that the result is written first. Where the table is not as
//! expected (another C library, a static QEMU) nothing is changed, and such a process leaves no result.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::time::Duration;

use crate::plugin::report::Ending;
use crate::plugin::simulator::Simulator;
use crate::plugin::{baton, processes, simulator};

unsafe extern "C" {
    fn getauxval(kind: c_ulong) -> c_ulong;
    fn getpid() -> c_int;
    fn kill(process: c_int, signal: c_int) -> c_int;
    fn mprotect(address: *mut c_void, length: usize, rights: c_int) -> c_int;
}

type Kill = extern "C" fn(c_int, c_int) -> c_int;

/// Has the result written when a signal kills this process.
pub(crate) fn watch() {
    if let Some(slot) = find(c"kill") {
        let replacement: Kill = dying;
        // A table that cannot be changed stays as it is: see the module.
        let _ = set(slot, replacement as usize);
    }
}

/// In the place of `kill`.
extern "C" fn dying(process: c_int, signal: c_int) -> c_int {
    // SAFETY: `getpid` has no preconditions.
    if process == unsafe { getpid() } && signal != 0 {
        write_result(signal);
    }
    // SAFETY: it takes numbers; the plugin's own table still leads to the C library.
    unsafe { kill(process, signal) }
}

/// Writes the result: this process is about to be ended by a signal.
pub(crate) fn write_result(signal: c_int) {
    /// What a thread needs at most to finish what it does to the simulation.
    const MOMENT: Duration = Duration::from_millis(10);
    // The caller may or may not have the turn. Nobody enters the simulator from here on; whoever is in it leaves.
    baton::set_ending(true);
    baton::set_draining(true);
    std::thread::sleep(MOMENT);
    if processes::are_several() && !processes::is_over() {
        simulator::die(signal);
        processes::set_over();
    } else {
        Simulator::outside(|simulator| simulator.finish(Ending::Signal(signal)));
    }
}

/// Sends this process a signal.
pub(crate) fn kill_this_process(signal: c_int) {
    // SAFETY: both take numbers only, or nothing.
    unsafe { kill(getpid(), signal) };
}

/// A program header of an ELF file.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    in_file: u64,
    in_memory: u64,
    alignment: u64,
}

/// An entry of the table of relocations.
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// A symbol.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// A word of a loaded program that holds the address of a function.
struct Slot {
    address: u64,
    /// Whether the loader made it read-only after it was filled in.
    is_read_only: bool,
}

/// Where the program of this process (not its libraries) finds the function `name`.
fn find(name: &CStr) -> Option<Slot> {
    const AT_PHDR: c_ulong = 3;
    const AT_PHNUM: c_ulong = 5;
    const PT_DYNAMIC: u32 = 2;
    const PT_PHDR: u32 = 6;
    const PT_GNU_RELRO: u32 = 0x6474_e552;
    // SAFETY: `getauxval` has no preconditions.
    let (headers_at, count) = unsafe { (getauxval(AT_PHDR), getauxval(AT_PHNUM)) };
    if headers_at == 0 {
        return None;
    }
    // SAFETY: the kernel says that so many program headers are there; they stay as long as the process.
    let headers =
        unsafe { std::slice::from_raw_parts(headers_at as *const Header, count as usize) };
    let of = |kind| headers.iter().find(|header| header.kind == kind);
    let base = headers_at.wrapping_sub(of(PT_PHDR)?.address);
    let dynamic = Dynamic::read(base, base.wrapping_add(of(PT_DYNAMIC)?.address));
    let address = dynamic.slot_of(name)?;
    let is_read_only = of(PT_GNU_RELRO).is_some_and(|relro| {
        let start = base.wrapping_add(relro.address);
        (start..start + relro.in_memory).contains(&address)
    });
    Some(Slot {
        address,
        is_read_only,
    })
}

/// What the loader is told of a program.
#[derive(Default)]
struct Dynamic {
    base: u64,
    strings: u64,
    symbols: u64,
    /// Tables of relocations: where, and how many bytes.
    tables: [(u64, u64); 2],
}

impl Dynamic {
    fn read(base: u64, at: u64) -> Dynamic {
        let mut dynamic = Dynamic {
            base,
            ..Dynamic::default()
        };
        let mut entry = at as *const [u64; 2];
        // Some loaders turn offsets into addresses in place, and some do not.
        let place = |value: u64| if value < base { base + value } else { value };
        loop {
            // SAFETY: the dynamic section of a loaded program ends with an entry of kind 0, at which this loop stops.
            let [kind, value] = unsafe { *entry };
            match kind {
                0 => return dynamic,
                2 => dynamic.tables[0].1 = value,
                5 => dynamic.strings = place(value),
                6 => dynamic.symbols = place(value),
                7 => dynamic.tables[1].0 = place(value),
                8 => dynamic.tables[1].1 = value,
                23 => dynamic.tables[0].0 = place(value),
                _ => {}
            }
            // SAFETY: as above: this was not the last entry.
            entry = unsafe { entry.add(1) };
        }
    }

    fn slot_of(&self, name: &CStr) -> Option<u64> {
        const GLOBAL_DATA: u64 = 6;
        const JUMP_SLOT: u64 = 7;
        if self.strings == 0 || self.symbols == 0 {
            return None;
        }
        for (at, bytes) in self.tables {
            if at == 0 {
                continue;
            }
            let count = bytes as usize / size_of::<Relocation>();
            // SAFETY: the loader uses the same table, of that size.
            let table = unsafe { std::slice::from_raw_parts(at as *const Relocation, count) };
            let found = table.iter().find(|relocation| {
                let (kind, symbol) = (relocation.info & 0xffff_ffff, relocation.info >> 32);
                matches!(kind, GLOBAL_DATA | JUMP_SLOT) && self.name_of(symbol) == name
            });
            if let Some(relocation) = found {
                return Some(self.base.wrapping_add(relocation.offset));
            }
        }
        None
    }

    fn name_of(&self, symbol: u64) -> &CStr {
        // SAFETY: a relocation refers to a symbol of the program's table, and that to a string of its table.
        unsafe {
            let symbol = &*(self.symbols as *const Symbol).add(symbol as usize);
            CStr::from_ptr((self.strings + u64::from(symbol.name)) as *const c_char)
        }
    }
}

/// Writes a slot. Fails if that is not allowed.
fn set(slot: Slot, value: usize) -> Result<(), ()> {
    const PAGE: u64 = 4096;
    const READ: c_int = 1;
    const WRITE: c_int = 2;
    let page = (slot.address & !(PAGE - 1)) as *mut c_void;
    // SAFETY: the page is one of the program's data; it becomes writable, or the call fails.
    if slot.is_read_only && unsafe { mprotect(page, PAGE as usize, READ | WRITE) } != 0 {
        return Err(());
    }
    // SAFETY: the slot is an aligned word that the loader filled with the address of a function of the same type; other
    // threads may read it meanwhile, and find one or the other.
    unsafe {
        (*(slot.address as *const std::sync::atomic::AtomicUsize))
            .store(value, std::sync::atomic::Ordering::SeqCst)
    };
    if slot.is_read_only {
        // SAFETY: as it was.
        unsafe { mprotect(page, PAGE as usize, READ) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_this_program_leads_to_the_functions_that_it_uses() {
        let slot = find(c"getauxval").or_else(|| find(c"mprotect"));
        let Some(slot) = slot else {
            // Linked statically.
            return;
        };
        // SAFETY: the slot is a word of this program.
        let found = unsafe { *(slot.address as *const usize) };
        let known = [
            getauxval as *const () as usize,
            mprotect as *const () as usize,
        ];
        assert!(known.contains(&found), "{found:#x}");
        assert!(find(c"no_such_function_anywhere").is_none());
        // Written with what it holds, it still does, and can still be called.
        assert_eq!(set(slot, found), Ok(()));
        // SAFETY: `getauxval` has no preconditions.
        assert_ne!(unsafe { getauxval(3) }, 0);
    }
}
