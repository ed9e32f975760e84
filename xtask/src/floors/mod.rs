//! `cargo xtask floors`: a room of the library imports only from the floors below it.
//!
//! The rule keeps the library readable from the ground up: whoever reads a room has read all that it stands on, and no two rooms
//! lean on each other. Paths are found by their tokens, so those inside macros and bodies count as much as `use` declarations.
//! The second rule: every atomic goes through the room `sync`, or the model checker would not see it.

mod paths;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use self::paths::{Found, Source, Start};
use crate::workspace::{self, Workspace};

/// The rooms of `percolog/src`, by floor.
const FLOORS: [&[&str]; 6] = [
    &["sync"],
    &["cpu"],
    &["reclaim"],
    &["engine"],
    &[
        "oplog",
        "ldu",
        "counter",
        "reduce",
        "refcount",
        "slab",
        "namespace",
        "lock",
    ],
    &["clustered", "collections"],
];

/// The room that alone may name the atomics of `core`.
const DOOR: &str = "sync";

/// A file this long is looked at hard: it probably holds two ideas.
const LONG: usize = 600;

/// A broken rule, and the way out.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Broken {
    file: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Checks the rules, prints what breaks them, and tells whether nothing does.
pub(crate) fn command(workspace: &Workspace) -> Result<bool> {
    let failures = check(workspace)?;
    if failures == 0 {
        println!("floors: every room imports only from below");
    } else {
        println!("floors: {failures} broken rules");
    }
    Ok(failures == 0)
}

/// Checks the rules, prints what breaks them, and counts it.
pub(crate) fn check(workspace: &Workspace) -> Result<usize> {
    let mut sources = Vec::new();
    for path in workspace::files(&workspace.root)? {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(workspace.root.join(&path))
            .with_context(|| format!("reading {}", path.display()))?;
        let lines = text.lines().count();
        if lines > LONG {
            println!(
                "warning: {}: {lines} lines; look whether it holds more than one idea",
                path.display()
            );
        }
        if let Ok(inside) = path.strip_prefix("percolog/src") {
            sources.push((
                path.clone(),
                Source::parse(inside, &text).with_context(|| path.display().to_string())?,
            ));
        }
    }
    let broken = examine(&sources);
    for broken in &broken {
        println!("error: {broken}");
    }
    Ok(broken.len())
}

/// Every broken rule in the sources of the library.
fn examine(sources: &[(PathBuf, Source)]) -> Vec<Broken> {
    let house = House::of(sources);
    let mut broken: Vec<Broken> = Vec::new();
    for (file, source) in sources {
        let room = source.room();
        if let Some(room) = room
            && floor(room).is_none()
        {
            broken.push(Broken {
                file: file.clone(),
                line: 1,
                what: format!("`{room}` is not a room of the house: give it a floor in FLOORS of xtask/src/floors/mod.rs, or move the file into a room"),
            });
            continue;
        }
        let found = source
            .found
            .iter()
            .filter_map(|found| Some((found.line, house.judge(room, found)?)));
        broken.extend(found.map(|(line, what)| Broken {
            file: file.clone(),
            line,
            what,
        }));
    }
    broken.sort();
    broken.dedup();
    broken
}

/// What the root of the crate offers beside its rooms.
#[derive(Debug, Default)]
struct House<'a> {
    /// Exported macros live at the root, whatever room they are written in.
    macros: BTreeMap<&'a str, Option<&'a str>>,
    /// Modules that are written out in `lib.rs`: what exported macros need when they are expanded in a user's crate.
    inline: Vec<&'a str>,
}

impl<'a> House<'a> {
    fn of(sources: &'a [(PathBuf, Source)]) -> Self {
        let mut house = Self::default();
        for (_, source) in sources {
            house.macros.extend(
                source
                    .macros
                    .iter()
                    .map(|name| (name.as_str(), source.room())),
            );
            if source.room().is_none() {
                house
                    .inline
                    .extend(source.inline_modules.iter().map(String::as_str));
            }
        }
        house
    }

    /// What is wrong with this path in that room (`None`: the root of the crate), if anything.
    fn judge(&self, room: Option<&str>, found: &Found) -> Option<String> {
        match found.start {
            Start::Standard => {
                (room != Some(DOOR) && found.names_atomics()).then(|| {
                    format!("`{}` goes past `{DOOR}`: import it from crate::{DOOR}, so that the model checker sees it", found.text)
                })
            }
            Start::Crate | Start::MacroCrate => self.judge_import(room?, found),
        }
    }

    fn judge_import(&self, room: &str, found: &Found) -> Option<String> {
        let own = floor(room)?;
        let Some(first) = found.segments.first() else {
            return Some(format!(
                "`{}` takes the whole crate: name the room and what you need of it",
                found.text
            ));
        };
        let target = match self.macros.get(first.as_str()) {
            // A macro of the root itself stands on no floor.
            Some(None) => return None,
            Some(Some(home)) => home,
            None => first.as_str(),
        };
        if target == room {
            return None;
        }
        if found.start == Start::MacroCrate && self.inline.contains(&target) {
            return None;
        }
        match floor(target) {
            None => Some(format!(
                "`{}`: `{target}` is not a room of the house: import from the room where it is written, or give the room a floor in xtask/src/floors/mod.rs",
                found.text
            )),
            Some(other) if other < own => None,
            Some(other) => {
                let place = if other == own {
                    "beside it on"
                } else {
                    "above it, on"
                };
                Some(format!(
                    "`{room}` (floor {own}) may not use `{target}`, which is {place} floor {other} (`{}`): move what both need to a room below floor {own}, or pass it in from above",
                    found.text
                ))
            }
        }
    }
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// The room of a file, given its path inside `src`; `None` for the root of the crate.
fn room_of(inside: &Path) -> Option<String> {
    let first = inside.components().next()?.as_os_str().to_str()?;
    match first.strip_suffix(".rs") {
        Some("lib") => None,
        Some(name) => Some(name.to_owned()),
        None => Some(first.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The broken rules of a library made of these files, as `line: what`.
    fn broken(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files
            .iter()
            .map(|(path, text)| {
                (
                    PathBuf::from(path),
                    Source::parse(Path::new(path), text).unwrap(),
                )
            })
            .collect();
        examine(&sources).iter().map(Broken::to_string).collect()
    }

    fn is_clean(files: &[(&str, &str)]) {
        assert_eq!(broken(files), Vec::<String>::new());
    }

    fn breaks(files: &[(&str, &str)], expected: &[&str]) {
        let found = broken(files);
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found} lacks {expected}");
        }
    }

    #[test]
    fn the_floors_below_may_be_used() {
        is_clean(&[
            (
                "engine/mod.rs",
                "use crate::sync::{Mutex, atomic::AtomicU64}; use crate::cpu; fn f() { crate::reclaim::now(); }",
            ),
            (
                "oplog/queue.rs",
                "use crate::{engine::Queue, oplog::Operation, cpu::CoreId as Id};",
            ),
            (
                "collections/mod.rs",
                "use crate::{counter::Counter, oplog::{self, Logged}};",
            ),
            (
                "lib.rs",
                "pub mod counter; pub use crate::collections::Lru; pub use oplog::Logged;",
            ),
        ]);
    }

    #[test]
    fn a_room_above_may_not_be_used() {
        breaks(
            &[("cpu/mod.rs", "use core::fmt;\nuse crate::engine::Queue;\n")],
            &["cpu/mod.rs:2: `cpu` (floor 1) may not use `engine`, which is above it, on floor 3"],
        );
    }

    #[test]
    fn a_room_beside_may_not_be_used() {
        breaks(
            &[("oplog/mod.rs", "use crate::counter::Counter;")],
            &["which is beside it on floor 4"],
        );
    }

    #[test]
    fn nested_use_trees_are_followed() {
        breaks(
            &[(
                "counter/mod.rs",
                "use crate::{\n    cpu::{self, CoreId},\n    oplog::{\n        Logged,\n    },\n};",
            )],
            &["counter/mod.rs:4: `counter` (floor 4) may not use `oplog`"],
        );
    }

    #[test]
    fn paths_in_bodies_types_and_macros_count() {
        breaks(
            &[(
                "sync/mod.rs",
                "fn f(_: crate::cpu::CoreId) {}\nfn g() { assert!(crate::counter::ready()); }\n\
                 macro_rules! m { () => { $crate::oplog::f() } }\nimpl crate::engine::Queue for () {}",
            )],
            &[
                "sync/mod.rs:1",
                "sync/mod.rs:2",
                "sync/mod.rs:3",
                "sync/mod.rs:4",
            ],
        );
    }

    #[test]
    fn super_is_resolved() {
        is_clean(&[
            (
                "engine/limits.rs",
                "use super::Queue; use super::super::cpu; mod inner { use super::super::super::sync; }",
            ),
            (
                "engine/guard/mod.rs",
                "use super::super::cpu::CoreId; use super::Queue;",
            ),
        ]);
        breaks(
            &[("engine/limits.rs", "use super::super::oplog;")],
            &["may not use `oplog`"],
        );
        breaks(
            &[("engine/mod.rs", "use super::oplog;")],
            &["may not use `oplog`"],
        );
        breaks(
            &[("engine/mod.rs", "mod tests {\n use super::super::oplog;\n}")],
            &["engine/mod.rs:2"],
        );
        // A bare path never leaves the room that it is written in.
        is_clean(&[(
            "engine/mod.rs",
            "mod oplog {} use self::oplog::x; use oplog::y;",
        )]);
    }

    #[test]
    fn the_whole_crate_may_not_be_taken() {
        breaks(
            &[("counter/mod.rs", "use crate::*;")],
            &["takes the whole crate"],
        );
        breaks(
            &[("counter/mod.rs", "use crate as house;")],
            &["takes the whole crate"],
        );
        breaks(
            &[("counter/mod.rs", "use super::*;")],
            &["takes the whole crate"],
        );
        is_clean(&[("counter/mod.rs", "mod tests { use super::*; }")]);
    }

    #[test]
    fn unknown_rooms_are_errors() {
        breaks(
            &[("attic/mod.rs", "")],
            &["attic/mod.rs:1: `attic` is not a room"],
        );
        breaks(&[("util.rs", "")], &["`util` is not a room"]);
        breaks(
            &[("oplog/mod.rs", "use crate::Counter;")],
            &["`Counter` is not a room"],
        );
    }

    #[test]
    fn an_exported_macro_belongs_to_the_room_that_defines_it() {
        let platform = (
            "cpu/platform.rs",
            "#[macro_export]\nmacro_rules! platform { () => { $crate::__private::f() } }",
        );
        let root = ("lib.rs", "pub mod __private { pub use crate::cpu::f; }");
        is_clean(&[platform, root, ("engine/mod.rs", "crate::platform!();")]);
        breaks(
            &[platform, root, ("sync/mod.rs", "crate::platform!();")],
            &["may not use `cpu`"],
        );
        breaks(
            &[
                platform,
                root,
                ("engine/mod.rs", "use crate::__private::f;"),
            ],
            &["`__private` is not a room"],
        );
    }

    #[test]
    fn atomics_go_through_the_door() {
        is_clean(&[
            (
                "sync/mod.rs",
                "pub use core::sync::atomic::*; use std::sync::atomic;",
            ),
            (
                "cpu/mod.rs",
                "use crate::sync::atomic::AtomicU64; use std::sync::Arc; use core::cell::Cell;",
            ),
        ]);
        breaks(
            &[("cpu/mod.rs", "use core::sync::atomic::AtomicU64;")],
            &["`core::sync::atomic::AtomicU64` goes past `sync`"],
        );
        breaks(
            &[(
                "oplog/mod.rs",
                "use std::sync::{Arc,\n atomic::{fence, Ordering}};",
            )],
            &[":2:", ":2:"],
        );
        breaks(
            &[("engine/mod.rs", "fn f() { ::std::sync::atomic::fence(o); }")],
            &["goes past"],
        );
        breaks(&[("engine/mod.rs", "use std::sync::*;")], &["goes past"]);
        breaks(&[("lib.rs", "use std::{sync::atomic};")], &["goes past"]);
    }

    #[test]
    fn comments_and_strings_are_not_imports() {
        is_clean(&[(
            "sync/mod.rs",
            "//! See [`crate::oplog`].\n/* crate::oplog::f() */ const S: &str = \"crate::oplog::f\";",
        )]);
    }

    #[test]
    fn files_belong_to_the_room_that_their_path_names() {
        assert_eq!(room_of(Path::new("lib.rs")), None);
        assert_eq!(room_of(Path::new("lock.rs")).as_deref(), Some("lock"));
        assert_eq!(
            room_of(Path::new("cpu/clock/tsc.rs")).as_deref(),
            Some("cpu")
        );
    }
}
