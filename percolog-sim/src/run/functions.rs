//! From the name of a function, as its programmer knows it, to the linker's names for it.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol, SymbolKind};

use super::error::{FunctionFault, SimulationError};
use crate::symbols::full_name;

/// As many functions of other names are listed.
const LISTED: usize = 8;

/// The linker's names of the function `name` of a program or of the libraries that it is linked with.
pub(super) fn find(name: &str, program: &Path) -> Result<Vec<String>, SimulationError> {
    let fault = |why| SimulationError::Function {
        name: name.to_owned(),
        program: program.to_owned(),
        why,
    };
    let files = with_libraries(program);
    let mut symbols: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // A function of the program is meant before one of a library.
    for file in &files {
        collect(file, &mut symbols);
        let raw = symbols.values().flatten().any(|raw| raw == name);
        if raw {
            return Ok(vec![name.to_owned()]);
        }
        let wanted = plain(name);
        let mut found: Vec<(&String, &Vec<String>)> =
            symbols.iter().filter(|(full, _)| *full == name).collect();
        if found.is_empty() {
            found = symbols
                .iter()
                .filter(|(full, _)| ends_with(&plain(full), &wanted))
                .collect();
        }
        // One generic function may be there once for each type.
        let mut names: Vec<String> = found.iter().map(|(full, _)| plain(full)).collect();
        names.dedup();
        match names.len() {
            0 => {}
            1 => return Ok(found.into_iter().flat_map(|(_, raw)| raw.clone()).collect()),
            _ => {
                let mut candidates: Vec<String> =
                    found.iter().map(|(full, _)| (*full).clone()).collect();
                candidates.truncate(LISTED);
                return Err(fault(FunctionFault::Ambiguous(candidates)));
            }
        }
    }
    if symbols.is_empty() {
        return Err(fault(FunctionFault::NoSymbols));
    }
    if files.first().is_some_and(|file| is_inlined(file, name)) {
        return Err(fault(FunctionFault::Inlined));
    }
    let wanted = plain(name);
    let last = wanted.rsplit(separator).next().unwrap_or(&wanted);
    let similar = symbols
        .keys()
        .filter(|full| full.contains(last))
        .take(LISTED)
        .cloned()
        .collect();
    Err(fault(FunctionFault::Absent(similar)))
}

fn separator(sign: char) -> bool {
    sign == ':' || sign == '.'
}

/// Whether a name is `suffix`, or ends with it behind a separator.
fn ends_with(name: &str, suffix: &str) -> bool {
    !suffix.is_empty()
        && name
            .strip_suffix(suffix)
            .is_some_and(|before| before.is_empty() || before.ends_with(separator))
}

/// A name without what depends on types: generic arguments, parameters, Go's pointers to receivers. `<shop::Cache<u8> as
/// Map>::get` is `shop::Cache::get`.
fn plain(name: &str) -> String {
    let name = name
        .replace("(anonymous namespace)::", "")
        .replace("(*", "")
        .replace("operator<", "operator less");
    let name = match name.strip_prefix('<') {
        Some(rest) => match closing(rest) {
            Some(at) => {
                let inner = &rest[..at];
                let inner = inner.split(" as ").next().unwrap_or(inner);
                format!("{inner}{}", &rest[at + 1..])
            }
            None => name.clone(),
        },
        None => name.clone(),
    };
    let mut plain = String::new();
    let mut depth = 0_u32;
    for sign in name.chars() {
        match sign {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            // The parameters of C++.
            '(' if depth == 0 => break,
            ')' => {}
            _ if depth == 0 => plain.push(sign),
            _ => {}
        }
    }
    // `::<T>::f` has lost what stood between.
    while plain.contains("::::") {
        plain = plain.replace("::::", "::");
    }
    let plain = plain.trim_end_matches(':');
    // Templates of C++ say what they return first.
    plain.rsplit(' ').next().unwrap_or(plain).to_owned()
}

/// Where the bracket closes that is open at the beginning.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1_u32;
    for (at, sign) in text.char_indices() {
        match sign {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Adds the functions of a file: by the names of the source, the linker's.
fn collect(file: &Path, symbols: &mut BTreeMap<String, Vec<String>>) {
    let Ok(bytes) = fs::read(file) else { return };
    let Ok(elf) = object::File::parse(&*bytes) else {
        return;
    };
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        let Ok(raw) = symbol.name() else { continue };
        let raw = raw.split('@').next().unwrap_or(raw);
        // Pieces that the compiler has cut off a function are not called as it is.
        if raw.contains(".cold") || raw.contains(".part.") {
            continue;
        }
        // A copy for certain arguments is the same function.
        let source = [".constprop.", ".isra.", ".llvm.", ".lto_priv."]
            .iter()
            .fold(raw, |name, clone| name.split(clone).next().unwrap_or(name));
        let names = symbols.entry(full_name(source)).or_default();
        if !names.iter().any(|known| known == raw) {
            names.push(raw.to_owned());
        }
    }
}

/// A program and the libraries that it is linked with, as far as they are found where libraries are.
fn with_libraries(program: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut names = Vec::new();
    let mut left = VecDeque::from([program.to_owned()]);
    while let Some(file) = left.pop_front() {
        let Ok(bytes) = fs::read(&file) else { continue };
        for (name, folders) in needed(&bytes, &file) {
            if !names.contains(&name) {
                left.extend(
                    folders
                        .iter()
                        .map(|folder| folder.join(&name))
                        .find(|path| path.is_file()),
                );
                names.push(name);
            }
        }
        files.push(file);
    }
    files
}

/// The libraries that a file needs, and the folders where each is looked for.
fn needed(bytes: &[u8], file: &Path) -> Vec<(String, Vec<PathBuf>)> {
    use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
    use object::read::elf::{Dyn, FileHeader};

    const STANDARD: [&str; 6] = [
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
    ];
    let read = || -> Option<Vec<(String, Vec<PathBuf>)>> {
        let header = FileHeader64::<object::Endianness>::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, bytes).ok()?;
        let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
        let strings = sections.strings(endian, bytes, strings).ok()?;
        let mut names = Vec::new();
        let mut folders: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
            .map(|path| std::env::split_paths(&path).collect())
            .unwrap_or_default();
        for entry in entries {
            let tag = entry.tag32(endian);
            if ![Some(DT_NEEDED), Some(DT_RPATH), Some(DT_RUNPATH)].contains(&tag) {
                continue;
            }
            let Ok(text) = entry.string(endian, strings) else {
                continue;
            };
            let text = String::from_utf8_lossy(text);
            if tag == Some(DT_NEEDED) {
                names.push(text.into_owned());
                continue;
            }
            let origin = file.parent().unwrap_or(Path::new(".")).to_string_lossy();
            folders.extend(text.split(':').map(|folder| {
                PathBuf::from(
                    folder
                        .replace("$ORIGIN", &origin)
                        .replace("${ORIGIN}", &origin),
                )
            }));
        }
        folders.extend(STANDARD.map(PathBuf::from));
        Some(
            names
                .into_iter()
                .map(|name| (name, folders.clone()))
                .collect(),
        )
    };
    read().unwrap_or_default()
}

/// Whether debugging information knows a function of this name of which only inlined copies are left.
fn is_inlined(file: &Path, name: &str) -> bool {
    use addr2line::gimli;

    let wanted = plain(name);
    let search = || -> Option<bool> {
        use object::ObjectSection;

        let bytes = fs::read(file).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let sections = gimli::DwarfSections::load(|id| {
            let data = elf
                .section_by_name(id.name())
                .and_then(|section| section.uncompressed_data().ok());
            Ok::<_, gimli::Error>(data.unwrap_or_default())
        })
        .ok()?;
        let dwarf =
            sections.borrow(|section| gimli::EndianSlice::new(section, gimli::LittleEndian));
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else {
                continue;
            };
            let mut entries = unit.entries();
            while let Ok(Some((_, entry))) = entries.next_dfs() {
                if entry.tag() != gimli::DW_TAG_subprogram
                    || !matches!(entry.attr(gimli::DW_AT_inline), Ok(Some(_)))
                {
                    continue;
                }
                for kind in [gimli::DW_AT_linkage_name, gimli::DW_AT_name] {
                    let Ok(Some(value)) = entry.attr_value(kind) else {
                        continue;
                    };
                    let Ok(text) = dwarf.attr_string(&unit, value) else {
                        continue;
                    };
                    let full = full_name(&text.to_string_lossy());
                    if ends_with(&plain(&full), &wanted) || ends_with(&wanted, &plain(&full)) {
                        return Some(true);
                    }
                }
            }
        }
        Some(false)
    };
    search().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_types() {
        for (full, shown) in [
            ("shop::Cache<K,V>::get", "shop::Cache::get"),
            ("<shop::Cache<u64>>::get", "shop::Cache::get"),
            (
                "<shop::Cache<u64> as shop::Map<u8>>::get",
                "shop::Cache::get",
            ),
            ("shop::find::<u64>", "shop::find"),
            (
                "shop::Cache::get(int, std::vector<int>)",
                "shop::Cache::get",
            ),
            ("void shop::find<int>(int)", "shop::find"),
            ("(anonymous namespace)::find(int)", "find"),
            ("main.(*Cache).Get", "main.Cache.Get"),
            ("deposit", "deposit"),
        ] {
            assert_eq!(plain(full), shown, "{full}");
        }
    }

    #[test]
    fn the_last_parts_of_a_name_are_enough() {
        assert!(ends_with("shop::Cache::get", "Cache::get"));
        assert!(ends_with("shop::Cache::get", "get"));
        assert!(ends_with("main.Cache.Get", "Cache.Get"));
        assert!(!ends_with("shop::Cache::forget", "get"));
        assert!(!ends_with("shop::Cache::get", ""));
    }

    /// Optimized programs have it too.
    #[inline(never)]
    fn a_function_with_a_name() {
        std::hint::black_box(());
    }

    #[test]
    fn this_program_is_linked_with_a_c_library() {
        std::hint::black_box(a_function_with_a_name as fn())();
        let program = std::env::current_exe().expect("this is Linux");
        let files = with_libraries(&program);
        assert_eq!(files.first(), Some(&program));
        let found = find("a_function_with_a_name", &program);
        assert!(found.is_ok_and(|names| !names.is_empty()));
        let missing = find("no_such_function_at_all", &program).expect_err("there is none");
        assert!(missing.to_string().contains("no function"), "{missing}");
    }
}
