//! The instructions of a process, read from the files that it had mapped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::instruction::Instruction;
use crate::maps::{self, Mapping};

/// The longest instruction.
const LONGEST: usize = 15;

/// Understands the instruction at the beginning of some code.
type Decoder = fn(&[u8]) -> Instruction;

/// Where the code of a process comes from.
pub(crate) struct Code {
    mapped: Vec<Mapping>,
    /// Files that were opened; `None` for those that hold no code that is understood here.
    files: RefCell<HashMap<String, Option<(File, Decoder)>>>,
}

impl Code {
    /// Of a process with these mappings: the text of `/proc/self/maps`.
    pub(crate) fn new(maps: &str) -> Self {
        let mapped = maps::parse(maps).filter(Mapping::is_file);
        Self {
            mapped: mapped.collect(),
            files: RefCell::default(),
        }
    }

    /// The instruction at an address.
    pub(crate) fn instruction(&self, pc: u64) -> Instruction {
        self.bytes(pc)
            .map_or(Instruction::UNKNOWN, |(code, decode)| decode(&code))
    }

    fn bytes(&self, pc: u64) -> Option<(Vec<u8>, Decoder)> {
        let mapping = self.mapped.iter().find(|mapping| mapping.contains(pc))?;
        let path = &mapping.name;
        let mut files = self.files.borrow_mut();
        let file = files.entry(path.clone()).or_insert_with(|| open(path));
        let mut code = vec![0; LONGEST];
        let (file, decoder) = file.as_ref()?;
        let read = file
            .read_at(&mut code, mapping.offset + (pc - mapping.start))
            .ok()?;
        code.truncate(read);
        Some((code, *decoder))
    }
}

/// Opens an ELF file for x86-64 or aarch64; other instructions are not understood.
fn open(path: &str) -> Option<(File, Decoder)> {
    const MACHINE: usize = 18;
    let file = File::open(path).ok()?;
    let mut head = [0; 20];
    file.read_exact_at(&mut head, 0).ok()?;
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let machine = u16::from_le_bytes([head[MACHINE], head[MACHINE + 1]]);
    let decoder: Decoder = match machine {
        object::elf::EM_X86_64 => Instruction::decode,
        object::elf::EM_AARCH64 => Instruction::decode_aarch64,
        _ => return None,
    };
    Some((file, decoder))
}

#[cfg(test)]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[inline(never)]
    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn this_program_is_read_from_its_file() {
        count(&AtomicU64::new(0));
        let maps = std::fs::read_to_string("/proc/self/maps").expect("this is Linux");
        let code = Code::new(&maps);
        let start = count as fn(&AtomicU64) as usize as u64;
        let (bytes, _) = code.bytes(start).expect("it is mapped");
        // SAFETY: the function is longer than that, or others follow; code can be read.
        let loaded = unsafe { std::slice::from_raw_parts(start as *const u8, bytes.len()) };
        assert_eq!(bytes, loaded);
        assert_eq!(code.instruction(8), Instruction::UNKNOWN);
    }

    #[test]
    fn what_is_no_program_has_no_instructions() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a file");
        std::fs::write(&path, [0xf0; 64]).expect("written");
        let maps = format!("1000-2000 r-xp 00000000 00:00 5   {}\n", path.display());
        assert_eq!(Code::new(&maps).instruction(0x1000), Instruction::UNKNOWN);
    }
}
