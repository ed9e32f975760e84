//! What lies at an address of the guest: the variable, the function, the file and line, or at least the kind of memory.

mod debug_file;

use std::fs;
use std::path::Path;

pub(crate) use debug_file::DebugFile;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadRef, SymbolKind};

use crate::maps::{self, Mapping};

/// As large as stacks are by default: other memory may follow without a border.
const STACK: u64 = 8 << 20;

/// What the memory of stacks is called.
pub(crate) const STACK_MEMORY: &str = "a thread's stack";

/// Longest name of a variable or function that is printed whole.
const LONGEST: usize = 120;

/// The programs and libraries of a process, and what else it had mapped.
pub(crate) struct Symbols {
    modules: Vec<Module>,
    /// All mappings, in ascending order.
    mappings: Vec<Mapping>,
}

/// An ELF file that is mapped.
struct Module {
    path: String,
    /// Its name without the folders.
    name: String,
    /// What is to be taken from an address to have the one that the file was linked for.
    bias: u64,
    /// First address that belongs to it, and the one behind the last, as linked.
    range: (u64, u64),
    /// Variables: address as linked, size, name.
    variables: Vec<(u64, u64, String)>,
    /// Functions, likewise: for programs without debugging information.
    functions: Vec<(u64, u64, String)>,
    /// Sections: address as linked, size, name.
    sections: Vec<(u64, u64, String)>,
    /// The file with its debugging information, if that is another.
    debug: Option<DebugFile>,
    /// Lines and inlined functions, read when they are asked for first.
    lines: std::cell::OnceCell<Option<addr2line::Loader>>,
}

/// Where an instruction is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// The function it is in, or the program and the address.
    pub function: String,
    /// The file of the source, if the program was compiled with debugging information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Symbols {
    /// Reads the symbols of what `maps` names: the text of `/proc/self/maps`.
    pub(crate) fn new(maps: &str) -> Self {
        let mut mappings = Vec::new();
        let mut modules: Vec<Module> = Vec::new();
        for mapping in maps::parse(maps) {
            let path = &mapping.name;
            if mapping.is_file() && !modules.iter().any(|module| module.path == *path) {
                modules.extend(Module::open(path, mapping.start, mapping.offset));
            }
            mappings.push(mapping);
        }
        mappings.sort_by_key(|mapping| (mapping.start, mapping.end));
        Self { modules, mappings }
    }

    fn module(&self, address: u64) -> Option<&Module> {
        self.modules.iter().find(|module| {
            let linked = address.wrapping_sub(module.bias);
            (module.range.0..module.range.1).contains(&linked)
        })
    }

    /// What lies in the `size` bytes from `start`: variables, or the kind of memory.
    pub(crate) fn memory(&self, start: u64, size: u64) -> String {
        if let Some(module) = self.module(start) {
            return module.data(start.wrapping_sub(module.bias), size);
        }
        // A line may begin in front of a module's data and reach into it.
        if let Some(module) = self.module(start.saturating_add(size - 1)) {
            return module.data(start.wrapping_sub(module.bias), size);
        }
        let at = self
            .mappings
            .partition_point(|mapping| mapping.end <= start);
        let found = self
            .mappings
            .get(at)
            .filter(|mapping| mapping.start <= start);
        let Some(mapping) = found else {
            return "memory that is no longer mapped".to_owned();
        };
        let before = at
            .checked_sub(1)
            .and_then(|before| self.mappings.get(before));
        if mapping.is_file() {
            format!("mapped {}", file_name(&mapping.name))
        } else if self.is_heap(mapping.start) {
            "heap".to_owned()
        } else if before.is_some_and(|before| guards(before, mapping))
            && start - mapping.start < STACK
        {
            STACK_MEMORY.to_owned()
        } else {
            "allocated memory".to_owned()
        }
    }

    /// The file that an address belongs to, and how far it is from where the beginning of the file is mapped.
    pub(crate) fn in_file(&self, address: u64) -> Option<(&str, u64)> {
        let path = &self.module(address)?.path;
        let beginning = self
            .mappings
            .iter()
            .find(|mapping| mapping.name == *path && mapping.offset == 0)?;
        Some((path, address.checked_sub(beginning.start)?))
    }

    /// Whether a mapping is what the guest's `brk` has given: it lies right behind the program.
    fn is_heap(&self, start: u64) -> bool {
        /// The kernel may leave a gap, QEMU leaves none but that of a page.
        const NEAR: u64 = 1 << 16;
        self.modules.first().is_some_and(|program| {
            let end = program.range.1.wrapping_add(program.bias);
            (end.saturating_sub(NEAR)..end.saturating_add(NEAR)).contains(&start)
        })
    }

    /// The file that an address belongs to, and the address that it was linked for.
    pub(crate) fn linked(&self, address: u64) -> Option<(&str, u64)> {
        let module = self.module(address)?;
        Some((&module.path, address.wrapping_sub(module.bias)))
    }

    /// Whether an instruction does nothing but jump to a function of a library.
    pub(crate) fn is_stub(&self, pc: u64) -> bool {
        self.module(pc).is_some_and(|module| {
            section(&module.sections, pc.wrapping_sub(module.bias))
                .is_some_and(|(_, name)| name.starts_with(".plt"))
        })
    }

    /// The static variable at an address: its name, where it begins, and its size.
    pub(crate) fn variable(&self, address: u64) -> Option<(String, u64, u64)> {
        let module = self.module(address)?;
        let linked = address.wrapping_sub(module.bias);
        let (start, size, name) = module
            .variables
            .iter()
            .find(|(start, size, _)| (*start..start.saturating_add(*size)).contains(&linked))?;
        Some((demangled(name), start.wrapping_add(module.bias), *size))
    }

    /// Whether an address is on a stack.
    pub(crate) fn is_stack(&self, address: u64) -> bool {
        self.memory(address, 1) == STACK_MEMORY
    }

    /// The functions that an instruction is in, inlined ones first; at least one.
    pub(crate) fn frames(&self, pc: u64) -> Vec<Place> {
        match self.module(pc) {
            Some(module) => module.frames(pc.wrapping_sub(module.bias)),
            None => vec![self.place(pc)],
        }
    }

    /// Where an instruction is.
    pub(crate) fn place(&self, pc: u64) -> Place {
        match self.module(pc) {
            Some(module) => module.place(pc.wrapping_sub(module.bias)),
            None => Place {
                function: format!("code at {pc:#x}"),
                ..Place::default()
            },
        }
    }
}

/// Whether a mapping is there to catch what grows out of `above`, as below a stack.
fn guards(mapping: &Mapping, above: &Mapping) -> bool {
    /// Guards are a page, or a few. What an allocator has reserved for later is larger.
    const GUARD: u64 = 1 << 16;
    let size = mapping.end - mapping.start;
    !mapping.accessible && mapping.end == above.start && size <= GUARD
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Module {
    /// Reads the file that is mapped at `start` from `offset` on. `None` if it is no ELF file.
    fn open(path: &str, start: u64, offset: u64) -> Option<Self> {
        // Data files may be large: the first bytes decide.
        let mut magic = [0_u8; 4];
        let mut file = fs::File::open(path).ok()?;
        std::io::Read::read_exact(&mut file, &mut magic).ok()?;
        if magic != *b"\x7fELF" {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let mut range = (u64::MAX, 0);
        let mut bias = None;
        for segment in elf.segments() {
            let (in_file, size) = segment.file_range();
            let address = segment.address();
            range.0 = range.0.min(address);
            range.1 = range.1.max(address.saturating_add(segment.size()));
            // Mappings begin at whole pages, segments need not.
            let page = segment.align().max(1);
            let from = in_file - in_file % page;
            if bias.is_none() && offset >= from && offset < in_file.saturating_add(size) {
                let linked = address.wrapping_sub(in_file).wrapping_add(offset);
                bias = Some(start.wrapping_sub(linked));
            }
        }
        let mut variables = Vec::new();
        let mut functions = Vec::new();
        collect_symbols(&elf, &mut variables, &mut functions);
        // Names are taken out of a program together with its lines.
        let debug = DebugFile::of(Path::new(path), &elf);
        if let Some(debug) = debug.as_ref().filter(|_| elf.symbols().next().is_none()) {
            debug.read(|elf| collect_symbols(elf, &mut variables, &mut functions));
        }
        for symbols in [&mut variables, &mut functions] {
            symbols.sort();
            // The same symbol in both tables, or under two names.
            symbols.dedup_by_key(|(address, size, _)| (*address, *size));
        }
        let sections = elf
            .sections()
            .filter(|section| section.address() != 0)
            .filter_map(|section| {
                Some((
                    section.address(),
                    section.size(),
                    section.name().ok()?.to_owned(),
                ))
            })
            .collect();
        Some(Self {
            path: path.to_owned(),
            name: file_name(path).to_owned(),
            bias: bias?,
            range,
            variables,
            functions,
            sections,
            debug,
            lines: std::cell::OnceCell::new(),
        })
    }

    /// The variables in `size` bytes, or the section.
    fn data(&self, start: u64, size: u64) -> String {
        /// More are counted, not named.
        const NAMED: usize = 3;
        let behind = start.saturating_add(size);
        let inside: Vec<_> = self
            .variables
            .iter()
            .filter(|(address, length, _)| {
                *address < behind && address.saturating_add(*length) > start
            })
            .collect();
        if inside.is_empty() {
            return match section(&self.sections, start) {
                Some((address, name)) => format!("{}({name}+{:#x})", self.name, start - address),
                None => format!("{}+{start:#x}", self.name),
            };
        }
        let mut text = String::new();
        for (address, _, name) in inside.iter().take(NAMED) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&demangled(name));
            // Where in a large variable the line begins.
            if *address < start {
                text.push_str(&format!("+{:#x}", start - address));
            }
        }
        if inside.len() > NAMED {
            text.push_str(&format!(", and {} more", inside.len() - NAMED));
        }
        text
    }

    /// The innermost function that is not one of the language's own: `fetch_add` itself is never to blame.
    fn place(&self, address: u64) -> Place {
        let mut frames = self.frames(address);
        let own = frames
            .iter()
            .position(|place| !place.file.as_deref().is_some_and(is_of_the_language));
        frames.swap_remove(own.unwrap_or(0))
    }

    fn frames(&self, address: u64) -> Vec<Place> {
        let mut places = Vec::new();
        let lines = self.lines.get_or_init(|| match &self.debug {
            Some(debug) => debug.lines(),
            None => addr2line::Loader::new(Path::new(&self.path)).ok(),
        });
        if let Some(mut frames) = lines
            .as_ref()
            .and_then(|lines| lines.find_frames(address).ok())
        {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().map(|name| name.raw_name());
                let location = frame.location.as_ref();
                let function = match name {
                    Some(Ok(name)) => demangled(&name),
                    // Of a function into which nothing was inlined, a table of lines has no name.
                    _ => match self.symbol(address) {
                        Some((_, name)) if location.is_some() => demangled(name),
                        _ => self.function(address),
                    },
                };
                places.push(Place {
                    function,
                    file: location
                        .and_then(|location| location.file)
                        .map(str::to_owned),
                    line: location.and_then(|location| location.line),
                });
            }
        }
        if places.is_empty() {
            places.push(Place {
                function: self.function(address),
                ..Place::default()
            });
        }
        places
    }

    /// The function at an address and how far into it that is, by the symbols; or the address.
    fn function(&self, address: u64) -> String {
        match self.symbol(address) {
            Some((start, name)) => format!(
                "{}+{:#x} in {}",
                demangled(name),
                address - start,
                self.name
            ),
            None => format!("{}+{address:#x}", self.name),
        }
    }

    /// The function at an address: where it begins, and its name in the table of symbols.
    fn symbol(&self, address: u64) -> Option<(u64, &str)> {
        let before = self
            .functions
            .partition_point(|(start, ..)| *start <= address);
        // Some functions written by hand have no size: such a one reaches up to the next.
        self.functions[..before]
            .iter()
            .rev()
            .take(4)
            .find(|(start, size, _)| *size == 0 || address < start.saturating_add(*size))
            .map(|(start, _, name)| (*start, name.as_str()))
    }
}

/// Adds the variables and functions that a file defines: address as linked, size, name.
fn collect_symbols<'data, R: ReadRef<'data>>(
    elf: &object::File<'data, R>,
    variables: &mut Vec<(u64, u64, String)>,
    functions: &mut Vec<(u64, u64, String)>,
) {
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if !symbol.is_definition() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let entry = || (symbol.address(), symbol.size(), name.to_owned());
        match symbol.kind() {
            SymbolKind::Data | SymbolKind::Unknown if symbol.size() > 0 => variables.push(entry()),
            SymbolKind::Text => functions.push(entry()),
            _ => {}
        }
    }
}

/// Whether a file of the source belongs to a compiler.
pub(crate) fn is_of_the_language(file: &str) -> bool {
    file.starts_with("/rustc/")
        || file.contains("/lib/rustlib/src/rust/library/")
        || file.starts_with("/usr/include/")
        || file.contains("/include/c++/")
        || file.starts_with("/usr/lib/gcc/")
}

fn section(sections: &[(u64, u64, String)], at: u64) -> Option<(u64, &str)> {
    sections
        .iter()
        .find(|(address, size, _)| (*address..address.saturating_add(*size)).contains(&at))
        .map(|(address, _, name)| (*address, name.as_str()))
}

/// The name as the programmer wrote it, shortened if it is long.
pub(crate) fn demangled(name: &str) -> String {
    let full = full_name(name);
    if full.chars().count() <= LONGEST {
        return full;
    }
    let mut short: String = full.chars().take(LONGEST - 1).collect();
    short.push('…');
    short
}

/// The whole name as the programmer wrote it.
pub(crate) fn full_name(name: &str) -> String {
    // Symbol versions (`environ@@GLIBC_2.2.5`) say nothing here.
    let plain = name.split("@@").next().unwrap_or(name);
    if !plain.starts_with('_') {
        // A variable of C called `c` is no `char`.
        return plain.to_owned();
    }
    addr2line::demangle_auto(plain.into(), None).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_lie_above_their_guards() {
        let symbols = Symbols::new(
            "10000-11000 ---p 0 00:00 0\n11000-2011000 rw-p 0 00:00 0\n4000000-4100000 rw-p 0 00:00 0\n\
             5000000-9000000 ---p 0 00:00 0\n9000000-9001000 rw-p 0 00:00 0\n\
             a000000-a001000 rw-p 0 00:00 0 /data/file\n",
        );
        for (address, memory) in [
            (0x11_000, "a thread's stack"),
            (0x81_0fff, "a thread's stack"),
            (0x81_1000, "allocated memory"),
            (0x400_0000, "allocated memory"),
            (0x900_0000, "allocated memory"),
            (0xa00_0040, "mapped file"),
            (0xb00_0000, "memory that is no longer mapped"),
        ] {
            assert_eq!(symbols.memory(address, 64), memory, "{address:#x}");
        }
    }

    #[test]
    fn names_are_as_the_programmer_wrote_them() {
        assert_eq!(
            demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangled("_ZN3foo3barEv"), "foo::bar()");
        assert_eq!(demangled("environ@@GLIBC_2.2.5"), "environ");
        for plain in ["c", "l", "i", "x", "main", "_exit", "St"] {
            assert_eq!(demangled(plain), plain);
        }
        assert_eq!(demangled("counter"), "counter");
        assert_eq!(demangled(&"x".repeat(500)).chars().count(), LONGEST);
    }

    #[test]
    fn this_program_knows_its_own_variables_and_functions() {
        static VARIABLE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(3);
        let maps = fs::read_to_string("/proc/self/maps").expect("this is Linux");
        let symbols = Symbols::new(&maps);
        let address = std::ptr::from_ref(&VARIABLE).addr() as u64;
        let memory = symbols.memory(address, 8);
        assert!(memory.ends_with("VARIABLE"), "{memory}");
        let (file, start) = symbols.in_file(address).expect("it is in a file");
        let mapped = maps::parse(&maps).find(|mapping| mapping.name == file);
        let beginning = mapped.expect("it is mapped");
        assert_eq!(beginning.start + start, address);
        assert_eq!(symbols.in_file(8), None);
        let function = names_are_as_the_programmer_wrote_them as fn();
        let place = symbols.place(function as usize as u64);
        assert!(
            place
                .function
                .ends_with("names_are_as_the_programmer_wrote_them"),
            "{place:?}"
        );
        assert!(
            place
                .file
                .is_some_and(|file| file.ends_with("symbols/mod.rs"))
        );
        let local = 0_u8;
        assert!(
            !symbols
                .memory(std::ptr::from_ref(&local).addr() as u64, 1)
                .is_empty()
        );
        assert_eq!(symbols.memory(8, 8), "memory that is no longer mapped");
        assert_eq!(symbols.place(8).function, "code at 0x8");
    }
}
