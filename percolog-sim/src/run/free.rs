//! Lines that cost nothing, as users name them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadRef, SymbolKind};

use super::Run;
use crate::symbols::{DebugFile, demangled};

/// Lines of memory that are to cost nothing: see [`Simulation::free`](super::Simulation::free).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Free {
    /// The line in which this address lies.
    Address(u64),
    /// A label that the program sets, or a variable of the program: all lines of it, or the one at an offset. The names are
    /// those that reports print; `program(.bss)` is a section.
    Named {
        /// Its name.
        name: String,
        /// Where in it the line lies; all of its lines, if that is not said.
        offset: Option<u64>,
    },
    /// Part of a file that is mapped: a variable of a library, for instance.
    Mapped {
        /// The file.
        path: PathBuf,
        /// From where on: counted from the address at which the beginning of the file is mapped.
        start: u64,
        /// How many bytes.
        size: u64,
    },
}

/// A line that could not be named like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeError(String);

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} names no line: an address (0x4010c0), a label, or a variable, perhaps with an offset (table+0x40), is needed",
            self.0
        )
    }
}

impl std::error::Error for FreeError {}

impl FromStr for Free {
    type Err = FreeError;

    fn from_str(text: &str) -> Result<Self, FreeError> {
        let error = || FreeError(text.to_owned());
        if let Some(digits) = text.strip_prefix("0x") {
            return u64::from_str_radix(digits, 16)
                .map(Self::Address)
                .map_err(|_| error());
        }
        // A section is printed with the offset inside the parentheses.
        let (name, behind) = match text.strip_suffix(')') {
            Some(inside) if inside.contains("+0x") => (inside, ")"),
            _ => (text, ""),
        };
        let (name, offset) = match name.rsplit_once("+0x") {
            Some((name, digits)) => {
                let offset = u64::from_str_radix(digits, 16).map_err(|_| error())?;
                (format!("{name}{behind}"), Some(offset))
            }
            None => (text.to_owned(), None),
        };
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(error());
        }
        Ok(Self::Named { name, offset })
    }
}

impl fmt::Display for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address:#x}"),
            Self::Named { name, offset: None } => f.write_str(name),
            Self::Named {
                name,
                offset: Some(offset),
            } => write!(f, "{name}+{offset:#x}"),
            Self::Mapped { path, start, .. } => write!(f, "{}+{start:#x}", path.display()),
        }
    }
}

impl Free {
    /// The lines of the plugin's settings for the `wish`-th of these; `program` is what will run first.
    pub(super) fn settings(&self, wish: usize, program: &Path) -> Vec<String> {
        match self {
            Self::Address(address) => vec![format!("free {wish} address {address}")],
            Self::Named { name, offset } => {
                let at = offset.map_or_else(|| "all".to_owned(), |offset| offset.to_string());
                let mut lines = vec![format!("free {wish} label {at} {name}")];
                let variables = variables(program).unwrap_or_default();
                for variable in variables.iter().filter(|variable| variable.name == *name) {
                    let (start, size) = match offset {
                        None => (variable.start, variable.size),
                        Some(offset) => (variable.start.wrapping_add(*offset), 1),
                    };
                    lines.extend(mapped(wish, program, start, size));
                }
                lines
            }
            Self::Mapped { path, start, size } => {
                mapped(wish, path, *start, *size).into_iter().collect()
            }
        }
    }
}

fn mapped(wish: usize, path: &Path, start: u64, size: u64) -> Option<String> {
    // As the kernel names it where it is mapped.
    let path = fs::canonicalize(path).ok()?;
    let path = path.to_str().filter(|path| !path.contains('\n'))?;
    Some(format!("free {wish} file {start} {size} {path}"))
}

/// A variable or section of a program.
struct Variable {
    name: String,
    /// Counted from the address at which the beginning of the file is mapped.
    start: u64,
    size: u64,
}

/// What can be named in a program. `None` if it is no ELF file.
fn variables(path: &Path) -> Option<Vec<Variable>> {
    let bytes = fs::read(path).ok()?;
    let elf = object::File::parse(&*bytes).ok()?;
    let beginning = elf.segments().find_map(|segment| {
        let (in_file, _) = segment.file_range();
        let page = segment.align().max(1);
        (in_file < page).then(|| segment.address().wrapping_sub(in_file))
    })?;
    let mut variables = named_in(&elf, beginning);
    // Where reports have the names from.
    if elf.symbols().next().is_none()
        && let Some(debug) = DebugFile::of(path, &elf)
    {
        variables.extend(
            debug
                .read(|elf| named_in(elf, beginning))
                .unwrap_or_default(),
        );
    }
    let file = path.file_name()?.to_string_lossy();
    let sections = elf.sections().filter(|section| section.address() != 0);
    variables.extend(sections.filter_map(|section| {
        Some(Variable {
            name: format!("{file}({})", section.name().ok()?),
            start: section.address().wrapping_sub(beginning),
            size: section.size(),
        })
    }));
    Some(variables)
}

/// The variables that a file defines; its beginning was linked for this address.
fn named_in<'data, R: ReadRef<'data>>(
    elf: &object::File<'data, R>,
    beginning: u64,
) -> Vec<Variable> {
    elf.symbols()
        .chain(elf.dynamic_symbols())
        .filter(|symbol| {
            symbol.is_definition()
                && symbol.size() > 0
                && matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Unknown)
        })
        .filter_map(|symbol| {
            Some(Variable {
                name: demangled(symbol.name().ok()?),
                start: symbol.address().wrapping_sub(beginning),
                size: symbol.size(),
            })
        })
        .collect()
}

/// What has become of a wish for free lines, in all processes of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freed {
    /// What was wished for.
    pub wish: Free,
    /// How many lines that is; 0 if nothing is called so.
    pub lines: u64,
    /// How many accesses to them needed more than the core's own cache.
    pub events: u64,
}

impl Run {
    /// What has become of each of the [wishes for free lines](super::Simulation::free).
    #[must_use]
    pub fn freed(&self) -> Vec<Freed> {
        let of = |(index, wish): (usize, &Free)| {
            let met = || {
                self.processes
                    .iter()
                    .filter_map(move |process| process.free.get(index))
            };
            Freed {
                wish: wish.clone(),
                lines: met().map(|free| free.lines).max().unwrap_or(0),
                events: met().map(|free| free.events).sum(),
            }
        };
        self.free.iter().enumerate().map(of).collect()
    }

    /// Names of labels and variables that are like `name`, the nearest first.
    #[must_use]
    pub fn names_like(&self, name: &str) -> Vec<String> {
        /// More are of no help.
        const MOST: usize = 5;
        let labels = self
            .processes
            .iter()
            .flat_map(|process| &process.labels)
            .map(|label| label.name.clone());
        let in_program = self
            .program
            .as_deref()
            .and_then(variables)
            .unwrap_or_default();
        let mut names: Vec<String> = labels
            .chain(in_program.into_iter().map(|variable| variable.name))
            .filter(|name| !name.is_empty())
            .collect();
        names.sort();
        names.dedup();
        nearest(name, names, MOST)
    }
}

fn nearest(name: &str, names: Vec<String>, most: usize) -> Vec<String> {
    /// What is less alike than this is no mistyping.
    const ALIKE: f64 = 0.7;
    let wanted = name.to_lowercase();
    let mut scored: Vec<(f64, String)> = names
        .into_iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let last = lower.rsplit("::").next().unwrap_or(&lower);
            let score = if lower.contains(&wanted) {
                1.0
            } else {
                strsim::jaro_winkler(&wanted, &lower).max(strsim::jaro_winkler(&wanted, last))
            };
            (score, name)
        })
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    scored.truncate(most);
    scored.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_named_as_reports_print_them() {
        let named = |name: &str, offset| Free::Named {
            name: name.to_owned(),
            offset,
        };
        for (text, free) in [
            ("0x4010c0", Free::Address(0x40_10c0)),
            ("hits", named("hits", None)),
            ("the hits", named("the hits", None)),
            ("TABLE+0x40", named("TABLE", Some(0x40))),
            ("prog(.bss+0x40)", named("prog(.bss)", Some(0x40))),
        ] {
            assert_eq!(text.parse::<Free>().as_ref(), Ok(&free), "{text}");
        }
        for wrong in ["", "0x", "0xhits", "hits+0x", "a\nb", "+0x40"] {
            let error = wrong.parse::<Free>().expect_err(wrong).to_string();
            assert!(error.contains("names no line"), "{error}");
        }
    }

    #[test]
    fn the_settings_have_the_label_and_the_variable() {
        static NAMED_ONLY_HERE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let program = std::env::current_exe().expect("this program");
        // As it is linked, from how it is mapped.
        let maps = fs::read_to_string("/proc/self/maps").expect("this is Linux");
        let path = program.to_str().expect("plain text");
        let mapping = maps
            .lines()
            .find(|line| line.ends_with(path))
            .expect("it is mapped");
        let begin = mapping.split('-').next().expect("a range");
        let begin = u64::from_str_radix(begin, 16).expect("a number");
        let start = std::ptr::from_ref(&NAMED_ONLY_HERE).addr() as u64 - begin;

        let name = variables(&program)
            .expect("it is an ELF file")
            .into_iter()
            .map(|variable| variable.name)
            .find(|name| name.ends_with("::NAMED_ONLY_HERE"))
            .expect("it has the variable");
        let free: Free = name.parse().expect("it is a name");
        assert_eq!(
            free.settings(3, &program),
            [
                format!("free 3 label all {name}"),
                format!("free 3 file {start} 8 {path}"),
            ]
        );
        let at: Free = format!("{name}+0x40").parse().expect("it is a name");
        assert_eq!(
            at.settings(0, &program),
            [
                format!("free 0 label 64 {name}"),
                format!("free 0 file {} 1 {path}", start + 64),
            ]
        );
        assert_eq!(
            Free::Address(64).settings(1, &program),
            ["free 1 address 64"]
        );
    }

    #[test]
    fn near_names_are_found() {
        let names = || ["the_counter", "crate::stats::HITS", "stdout"].map(str::to_owned);
        let near = |name| nearest(name, names().to_vec(), 2);
        assert_eq!(near("counter"), ["the_counter"]);
        assert_eq!(near("hist"), ["crate::stats::HITS"]);
        assert_eq!(near("teh_counter"), ["the_counter"]);
        assert_eq!(near("zzz"), [""; 0]);
    }
}
