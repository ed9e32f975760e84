//! Finds the separate file with the debugging information of a program or library that was stripped of it, as distributions
//! deliver it and `objcopy --only-keep-debug` makes it: where gdb looks, by build id and by `.gnu_debuglink`.
//!
//! `addr2line::Loader` reads what is found, and split DWARF, but does not look for separate files itself.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use object::{Object, ObjectSection, ReadCache, ReadRef};

/// Where distributions install such files.
const INSTALLED: &str = "/usr/lib/debug";

/// A file with the debugging information of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebugFile {
    /// The file.
    pub(crate) path: PathBuf,
    /// What several such files have in common, if it was taken out of them (by `dwz`).
    pub(super) common: Option<PathBuf>,
}

impl DebugFile {
    /// That of the ELF file at `path`, which is `elf`. Nothing if it has its own or if none is found that was made for it.
    pub(crate) fn of(path: &Path, elf: &object::File<'_>) -> Option<Self> {
        Self::installed_in(Path::new(INSTALLED), path, elf)
    }

    fn installed_in(installed: &Path, path: &Path, elf: &object::File<'_>) -> Option<Self> {
        if is_informed(elf) {
            return None;
        }
        let id = elf.build_id().ok().flatten().unwrap_or_default();
        let by_id = by_id(installed, id)
            .filter(|found| inspect(found).is_some_and(|found| found.informed && found.id == id));
        let found = by_id.or_else(|| by_link(installed, path, elf, id))?;
        let common = common(&found);
        Some(Self {
            path: found,
            common,
        })
    }

    /// Its lines and inlined functions.
    pub(super) fn lines(&self) -> Option<addr2line::Loader> {
        addr2line::Loader::new_with_sup(&self.path, self.common.as_deref()).ok()
    }

    /// Lets `read` look at it. It may be far larger than the program, so that only what is looked at is read.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&object::File<'_, &ReadCache<File>>) -> T,
    ) -> Option<T> {
        let cache = ReadCache::new(File::open(&self.path).ok()?);
        let elf = object::File::parse(&cache).ok()?;
        Some(read(&elf))
    }
}

/// What is to be known of a file before it is trusted.
struct Inspected {
    /// Whether it has debugging information.
    informed: bool,
    /// The number that linkers give to each program they make; empty if there is none.
    id: Vec<u8>,
}

fn inspect(path: &Path) -> Option<Inspected> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let elf = object::File::parse(&cache).ok()?;
    Some(Inspected {
        informed: is_informed(&elf),
        id: elf.build_id().ok().flatten().unwrap_or_default().to_vec(),
    })
}

fn is_informed<'data, R: ReadRef<'data>>(elf: &object::File<'data, R>) -> bool {
    // Found under its old name for compressed sections as well.
    elf.section_by_name(".debug_info")
        .is_some_and(|section| section.size() > 0)
}

/// `.build-id/xx/yyyy.debug`.
fn by_id(installed: &Path, id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    (!rest.is_empty()).then(|| {
        installed
            .join(".build-id")
            .join(format!("{first:02x}"))
            .join(format!("{rest}.debug"))
    })
}

/// The file that the program itself names: beside it, in `.debug` beside it, or below the folder of what is installed.
fn by_link(installed: &Path, path: &Path, elf: &object::File<'_>, id: &[u8]) -> Option<PathBuf> {
    let (name, sum) = elf.gnu_debuglink().ok().flatten()?;
    let name = Path::new(OsStr::from_bytes(name));
    // A name and nothing else: a program must not send anybody elsewhere.
    let mut parts = name.components();
    if !matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    ) {
        return None;
    }
    let folder = path.parent()?;
    let below = folder.strip_prefix("/").unwrap_or(folder);
    let itself = fs::metadata(path).ok()?;
    [
        folder.join(name),
        folder.join(".debug").join(name),
        installed.join(below).join(name),
    ]
    .into_iter()
    .find(|candidate| {
        let other = fs::metadata(candidate)
            .is_ok_and(|other| (other.dev(), other.ino()) != (itself.dev(), itself.ino()));
        // That of another build has lines too, and all of them would be wrong.
        other
            && inspect(candidate).is_some_and(|found| {
                found.informed
                    && if found.id.is_empty() || id.is_empty() {
                        checksum(candidate) == Some(sum)
                    } else {
                        found.id == id
                    }
            })
    })
}

/// The file that has what this one and others have in common, if this one says that there is one.
fn common(path: &Path) -> Option<PathBuf> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let elf = object::File::parse(&cache).ok()?;
    let (name, id) = elf.gnu_debugaltlink().ok().flatten()?;
    // From the folder in which the file really is: there are links to it.
    let folder = fs::canonicalize(path).ok()?;
    let found = folder.parent()?.join(OsStr::from_bytes(name));
    inspect(&found)
        .is_some_and(|found| found.id == id)
        .then_some(found)
}

/// The sum that is kept beside the name: CRC-32, as in gzip.
fn checksum(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    let mut part = vec![0; 1 << 16];
    let mut sum = crc32fast::Hasher::new();
    loop {
        match file.read(&mut part).ok()? {
            0 => return Some(sum.finalize()),
            read => sum.update(&part[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::Command;

    use super::super::Symbols;
    use super::*;

    const SOURCE: &str = "static long kept_apart[64];\n\
                          __attribute__((noinline)) long step(long by) {\n\
                          \x20   kept_apart[by & 63] += by;\n\
                          \x20   return kept_apart[0];\n\
                          }\n\
                          int main(int count, char **words) { (void)words; return (int)step(count); }\n";

    /// Whether a tool did what it was asked for.
    fn did(folder: &Path, tool: &str, arguments: &[&str]) -> bool {
        Command::new(tool)
            .current_dir(folder)
            .args(arguments)
            .output()
            .is_ok_and(|output| output.status.success())
    }

    /// Makes `program`, without debugging information and symbols, and `program.debug`. Says why not, if the tools are missing.
    fn made(folder: &Path, flags: &[&str]) -> bool {
        fs::write(folder.join("program.c"), SOURCE).expect("the folder can be written");
        let compile: Vec<&str> = [&["-g", "-O1", "-o", "program", "program.c"], flags].concat();
        let copy = |arguments: &[&str]| did(folder, "objcopy", arguments);
        let made = did(folder, "gcc", &compile)
            && copy(&["--only-keep-debug", "program", "program.debug"])
            && copy(&["--strip-all", "program"])
            && copy(&["--add-gnu-debuglink=program.debug", "program"]);
        if !made {
            // Past the harness, which keeps to itself what a test that passes prints.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: symbols of debug files: gcc or objcopy is missing: apt-get install gcc binutils"
            );
        }
        made
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    fn found(installed: &Path, program: &Path) -> Option<PathBuf> {
        let bytes = fs::read(program).expect("it can be read");
        let elf = object::File::parse(&*bytes).expect("it is an ELF file");
        DebugFile::installed_in(installed, program, &elf).map(|found| found.path)
    }

    /// Where `step` is, as the debug file has it.
    fn step(file: &Path) -> u64 {
        use object::ObjectSymbol;
        let bytes = fs::read(file).expect("it can be read");
        let elf = object::File::parse(&*bytes).expect("it is an ELF file");
        elf.symbols()
            .find(|symbol| symbol.name() == Ok("step"))
            .expect("it has the function")
            .address()
    }

    #[test]
    fn a_file_named_by_the_program_is_found_beside_it_and_below_and_gives_lines() {
        let folder = folder();
        if !made(folder.path(), &["-no-pie"]) {
            return;
        }
        let program = folder.path().join("program");
        let beside = folder.path().join("program.debug");
        let address = step(&beside);
        let maps = format!(
            "400000-500000 r-xp 00000000 fe:00 5   {}\n",
            program.display()
        );
        let place = || Symbols::new(&maps).place(address);
        assert_eq!(place().function, "step");
        assert!(
            place().file.is_some_and(|file| file.ends_with("program.c")),
            "{:?}",
            place()
        );
        assert!(place().line.is_some_and(|line| (2..=3).contains(&line)));

        fs::create_dir(folder.path().join(".debug")).expect("the folder can be written");
        let below = folder.path().join(".debug/program.debug");
        fs::rename(&beside, &below).expect("the folder can be written");
        assert_eq!(found(Path::new("/none"), &program), Some(below.clone()));
        assert_eq!(place().function, "step");
        assert!(place().line.is_some());

        fs::remove_file(&below).expect("the folder can be written");
        assert_eq!(found(Path::new("/none"), &program), None);
        assert_eq!((place().file, place().line), (None, None));
    }

    #[test]
    fn a_stripped_program_has_the_names_of_its_debug_file() {
        let folder = folder();
        if !made(folder.path(), &["-no-pie"]) {
            return;
        }
        use object::ObjectSymbol;
        let program = folder.path().join("program");
        let bytes = fs::read(folder.path().join("program.debug")).expect("it can be read");
        let elf = object::File::parse(&*bytes).expect("it is an ELF file");
        let variable = elf
            .symbols()
            .find(|symbol| symbol.name() == Ok("kept_apart"))
            .expect("it has the variable")
            .address();
        let maps = format!(
            "400000-500000 rw-p 00000000 fe:00 5   {}\n",
            program.display()
        );
        assert_eq!(Symbols::new(&maps).memory(variable, 64), "kept_apart");
    }

    #[test]
    fn installed_files_are_found_by_the_number_of_the_build_and_by_the_folder() {
        let folder = folder();
        if !made(folder.path(), &["-Wl,--build-id=0xab12cd"]) {
            return;
        }
        let installed = folder.path().join("installed");
        let program = folder.path().join("program");
        let by_id = installed.join(".build-id/ab/12cd.debug");
        fs::create_dir_all(by_id.parent().expect("it has one")).expect("the folder can be written");
        fs::rename(folder.path().join("program.debug"), &by_id).expect("it can be moved");
        assert_eq!(found(&installed, &program), Some(by_id.clone()));

        let below = folder.path().strip_prefix("/").expect("it is absolute");
        let by_folder = installed.join(below).join("program.debug");
        fs::create_dir_all(by_folder.parent().expect("it has one")).expect("it can be written");
        fs::rename(&by_id, &by_folder).expect("it can be moved");
        assert_eq!(found(&installed, &program), Some(by_folder));
    }

    #[test]
    fn the_file_of_another_build_is_not_taken() {
        for (flags, others) in [
            (
                &["-Wl,--build-id=0x0102"][..],
                &["-Wl,--build-id=0x0103"][..],
            ),
            // Without numbers the sum tells them apart.
            (
                &["-Wl,--build-id=none"],
                &["-Wl,--build-id=none", "-DOTHER", "-O2"],
            ),
        ] {
            let (folder, other) = (folder(), folder());
            if !made(folder.path(), flags) || !made(other.path(), others) {
                return;
            }
            let program = folder.path().join("program");
            let beside = folder.path().join("program.debug");
            assert_eq!(found(Path::new("/none"), &program), Some(beside.clone()));
            fs::copy(other.path().join("program.debug"), &beside).expect("it can be copied");
            assert_eq!(found(Path::new("/none"), &program), None);
        }
    }

    #[test]
    fn the_sum_is_that_of_gzip() {
        let folder = folder();
        let path = folder.path().join("digits");
        fs::write(&path, "123456789").expect("the folder can be written");
        assert_eq!(checksum(&path), Some(0xcbf4_3926));
    }

    #[test]
    fn a_program_with_its_own_information_needs_no_other() {
        let program = std::env::current_exe().expect("this program");
        assert_eq!(found(Path::new("/none"), &program), None);
    }
}
