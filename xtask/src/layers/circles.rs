//! The modules of a crate do not import each other in a circle.
//!
//! A crate's modules are the files and folders beside its root, each with everything inside it. Of two of them at most one may use the
//! other, directly or through further ones, so that each can be read before those that use it. In the crates of [`THROUGHOUT`] the
//! same holds inside every folder; elsewhere the files of one folder are one module. What a folder's own module (`mod.rs`, `lib.rs`,
//! or the file beside the folder) and the modules inside use of each other is free, except that a name which it only re-exports
//! counts as a use of the module that defines it. Code that is compiled for tests only is free, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Broken;
use super::paths::{Source, Start};

/// The crates in which no folder has a circle either.
const THROUGHOUT: [&str; 5] = [
    "percolog-cli/src",
    "percolog-roi/src",
    "telemetry/instruments/src",
    "telemetry/metrics/src",
    "telemetry/prometheus/src",
];

/// How many re-exports of re-exports are followed.
const DEPTH: usize = 8;

/// A use of a module by another one of the same folder: who, whom; and where it stands.
type Uses<'a> = BTreeMap<(&'a str, &'a str), (&'a Path, usize)>;

/// Each circle in the crate whose sources lie in `folder`.
pub(super) fn examine(folder: &Path, sources: &[(PathBuf, Source)]) -> Vec<Broken> {
    let throughout = THROUGHOUT.iter().any(|root| Path::new(root) == folder);
    judge(folder, throughout, sources)
}

fn judge(folder: &Path, throughout: bool, sources: &[(PathBuf, Source)]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (modules, uses) in Files::of(sources).uses() {
        if !throughout && !modules.is_empty() {
            continue;
        }
        let place = modules
            .iter()
            .fold(folder.to_owned(), |at, part| at.join(part));
        for circle in circles(&uses) {
            let between: Vec<_> = uses
                .iter()
                .filter(|((user, used), _)| circle.contains(user) && circle.contains(used))
                .collect();
            let (file, line) = between[0].1;
            let steps: Vec<String> = between
                .iter()
                .map(|((user, used), (file, line))| {
                    format!("`{user}` uses `{used}` ({}:{line})", file.display())
                })
                .collect();
            broken.push(Broken {
                file: file.to_path_buf(),
                line: *line,
                what: format!(
                    "modules of {} use each other in a circle: {}; move what they share into a module that uses none of them",
                    place.display(),
                    steps.join(", ")
                ),
            });
        }
    }
    broken
}

/// The files of a crate by the modules that they are.
struct Files<'a> {
    by_module: BTreeMap<&'a [String], (&'a Path, &'a Source)>,
    /// What a name means that a module imports.
    imports: BTreeMap<(&'a [String], &'a str), &'a [String]>,
    /// Modules that are compiled for tests only.
    tests: BTreeSet<Vec<String>>,
}

impl<'a> Files<'a> {
    fn of(sources: &'a [(PathBuf, Source)]) -> Self {
        let mut files = Self {
            by_module: BTreeMap::new(),
            imports: BTreeMap::new(),
            tests: BTreeSet::new(),
        };
        for (path, source) in sources {
            files.by_module.insert(&source.path, (path, source));
            for found in &source.found {
                if let (Some(name), Start::Crate | Start::Child, false) =
                    (&found.name, found.start, found.test)
                {
                    let place = (found.module.as_slice(), name.as_str());
                    files.imports.insert(place, &found.segments);
                }
            }
            for name in &source.test_modules {
                let mut module = source.path.clone();
                module.push(name.clone());
                files.tests.insert(module);
            }
        }
        files
    }

    /// Which modules of each folder use which.
    fn uses(&self) -> BTreeMap<Vec<String>, Uses<'a>> {
        let mut folders: BTreeMap<Vec<String>, Uses<'a>> = BTreeMap::new();
        for (&module, &(path, source)) in &self.by_module {
            if self.is_test(module) {
                continue;
            }
            for found in &source.found {
                if found.test || !matches!(found.start, Start::Crate | Start::Child) {
                    continue;
                }
                let Some(used) = self.file_of(&found.segments, DEPTH) else {
                    continue;
                };
                let common = module
                    .iter()
                    .zip(used)
                    .take_while(|(ours, theirs)| ours == theirs)
                    .count();
                if let (Some(user), Some(used_here)) = (module.get(common), used.get(common))
                    && !self.is_test(used)
                {
                    folders
                        .entry(module[..common].to_vec())
                        .or_default()
                        .entry((user, used_here))
                        .or_insert((path, found.line));
                }
            }
        }
        folders
    }

    fn is_test(&self, module: &[String]) -> bool {
        (1..=module.len()).any(|length| self.tests.contains(&module[..length]))
    }

    /// The module in a file of its own that a path leads to.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&'a [String]> {
        let (&module, _) = (0..=path.len())
            .rev()
            .find_map(|length| self.by_module.get_key_value(&path[..length]))?;
        let Some(name) = path.get(module.len()) else {
            return Some(module);
        };
        match self.imports.get(&(module, name.as_str())) {
            Some(&meant) if depth > 0 && meant != path => {
                let mut meant = meant.to_vec();
                meant.extend_from_slice(&path[module.len() + 1..]);
                self.file_of(&meant, depth - 1)
            }
            _ => Some(module),
        }
    }
}

/// The sets of modules of which each uses each, directly or through others.
fn circles<'a>(uses: &Uses<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached = |from: &'a str| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            for &(user, used) in uses.keys() {
                if user == module && reached.insert(used) {
                    next.push(used);
                }
            }
        }
        reached
    };
    let modules: BTreeSet<&str> = uses.keys().map(|&(user, _)| user).collect();
    let reach: BTreeMap<&str, BTreeSet<&str>> = modules
        .iter()
        .map(|&module| (module, reached(module)))
        .collect();
    let mut circles = BTreeSet::new();
    for (module, reached) in &reach {
        if reached.contains(module) {
            let returns = |other: &&str| reach.get(other).is_some_and(|back| back.contains(module));
            circles.insert(reached.iter().copied().filter(returns).collect());
        }
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files
            .iter()
            .map(|(path, text)| {
                let source = Source::parse(Path::new(path), text).unwrap();
                (Path::new("app/src").join(path), source)
            })
            .collect();
        judge(Path::new("app/src"), true, &sources)
            .iter()
            .map(Broken::to_string)
            .collect()
    }

    #[test]
    fn the_files_of_one_module_may_use_each_other_where_folders_are_not_checked() {
        let sources = [
            ("a/mod.rs", ""),
            ("a/x.rs", "use super::y::Y;"),
            ("a/y.rs", "use super::x::X;"),
        ]
        .map(|(path, text)| {
            let source = Source::parse(Path::new(path), text).unwrap();
            (PathBuf::from(path), source)
        });
        let root = Path::new("app/src");
        assert!(judge(root, false, &sources).is_empty());
        assert_eq!(judge(root, true, &sources).len(), 1);
    }

    const CIRCLE: [(&str, &str); 3] = [
        ("main.rs", "mod a; mod b; fn main() { a::run() }"),
        ("a.rs", "use crate::b::g;"),
        ("b.rs", "\nfn g() { crate::a::run() }"),
    ];

    #[test]
    fn a_circle_is_named_with_the_lines_that_close_it() {
        let found = broken(&CIRCLE);
        assert_eq!(found.len(), 1, "{found:#?}");
        for part in [
            "app/src/a.rs:1",
            "`a` uses `b`",
            "`b` uses `a` (app/src/b.rs:2)",
        ] {
            assert!(found[0].contains(part), "{} lacks {part}", found[0]);
        }
    }

    #[test]
    fn use_in_one_direction_is_no_circle() {
        let found = broken(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::{b::g, c};"),
            ("b.rs", "use super::c::{self, h};"),
            (
                "c.rs",
                "struct C; impl C { fn f(&self) { self.g(); Self::h() } }",
            ),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_circle_of_three_folders_is_found() {
        let found = broken(&[
            ("a/mod.rs", ""),
            ("a/deep/inner.rs", "use crate::b::x;"),
            ("b/mod.rs", "use super::c;"),
            ("c/mod.rs", ""),
            ("c/one.rs", "use crate::a::deep::y;"),
        ]);
        assert_eq!(found.len(), 1, "{found:#?}");
    }

    #[test]
    fn a_folder_and_what_is_inside_may_use_each_other() {
        let found = broken(&[
            ("a/mod.rs", "mod x; mod y; pub use x::X; struct Own;"),
            ("a/x.rs", "use super::Own; use super::y::Y;"),
            ("a/y.rs", "use super::Own;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_name_that_is_re_exported_leads_to_who_defines_it() {
        let hidden = [
            ("a/mod.rs", "mod x; mod y; pub use x::Real as X;"),
            ("a/x.rs", "use super::y::Y;"),
            ("a/y.rs", "use super::X;"),
        ];
        assert_eq!(broken(&hidden).len(), 1);
    }

    #[test]
    fn tests_may_use_what_they_test_with() {
        let found = broken(&[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "use crate::b; #[cfg(test)] mod tests; #[cfg(test)] mod more { use crate::b; }",
            ),
            ("a/tests.rs", "use crate::b;"),
            (
                "b.rs",
                "#[cfg(all(test, not(loom)))]\nmod tests { use crate::a::run; } #[cfg(test)] use crate::a; fn f() {}",
            ),
        ]);
        assert_eq!(found, Vec::<String>::new());
        let not_a_test = broken(&[
            ("a.rs", "use crate::b;"),
            ("b.rs", "#[cfg(not(test))] use crate::a;"),
        ]);
        assert_eq!(not_a_test.len(), 1);
    }
}
