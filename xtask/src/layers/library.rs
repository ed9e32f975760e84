//! Inside `percolog/src` a module imports only from the layers below its own.
//!
//! The rule keeps the library readable from the bottom up: no two modules depend on each other. Paths are found by their tokens, so
//! those inside macros and function bodies count as much as `use` declarations. A second rule: every atomic comes from the
//! module `sync`, or the model checker would not see it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Broken;
use super::paths::{Found, Source, Start};

/// The modules of `percolog/src`, by layer.
const LAYERS: [&[&str]; 6] = [
    &["sync"],
    &["cpu"],
    &["reclaim", "hash"],
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
        "requests",
        "dhash",
    ],
    &["clustered", "collections"],
];

/// The module that alone may name the atomics of `core`.
const ATOMICS: &str = "sync";

/// Every broken rule in the sources of the library.
pub(super) fn examine(sources: &[(PathBuf, Source)]) -> Vec<Broken> {
    let exports = Exports::of(sources);
    let mut broken: Vec<Broken> = Vec::new();
    for (file, source) in sources {
        let module = source.module();
        if let Some(module) = module
            && layer(module).is_none()
        {
            broken.push(Broken {
                file: file.clone(),
                line: 1,
                what: format!("`{module}` has no layer: give it one in LAYERS of xtask/src/layers/library.rs, or move the file into a module that has one"),
            });
            continue;
        }
        let found = source
            .found
            .iter()
            .filter_map(|found| Some((found.line, exports.judge(module, found)?)));
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

/// What the root of the crate exports beside its modules.
#[derive(Debug, Default)]
struct Exports<'a> {
    /// Exported macros live at the root, whatever module defines them.
    macros: BTreeMap<&'a str, Option<&'a str>>,
    /// Modules that are written out in `lib.rs`: what exported macros need when they are expanded in a user's crate.
    inline: Vec<&'a str>,
}

impl<'a> Exports<'a> {
    fn of(sources: &'a [(PathBuf, Source)]) -> Self {
        let mut exports = Self::default();
        for (_, source) in sources {
            exports.macros.extend(
                source
                    .macros
                    .iter()
                    .map(|name| (name.as_str(), source.module())),
            );
            if source.module().is_none() {
                exports
                    .inline
                    .extend(source.inline_modules.iter().map(String::as_str));
            }
        }
        exports
    }

    /// What is wrong with this path in that module (`None`: the root of the crate), if anything.
    fn judge(&self, module: Option<&str>, found: &Found) -> Option<String> {
        match found.start {
            Start::Standard => {
                (module != Some(ATOMICS) && found.names_atomics()).then(|| {
                    format!("`{}` bypasses `{ATOMICS}`: import it from crate::{ATOMICS}, so that the model checker sees it", found.text)
                })
            }
            // A child lies in the module itself, and another crate is no module of ours.
            Start::Child => None,
            Start::Crate | Start::MacroCrate => self.judge_import(module?, found),
        }
    }

    fn judge_import(&self, module: &str, found: &Found) -> Option<String> {
        let own = layer(module)?;
        let Some(first) = found.segments.first() else {
            return Some(format!(
                "`{}` imports the whole crate: name the module and the items",
                found.text
            ));
        };
        let target = match self.macros.get(first.as_str()) {
            // A macro of the root itself is in no layer.
            Some(None) => return None,
            Some(Some(home)) => home,
            None => first.as_str(),
        };
        if target == module {
            return None;
        }
        if found.start == Start::MacroCrate && self.inline.contains(&target) {
            return None;
        }
        match layer(target) {
            None => Some(format!(
                "`{}`: `{target}` has no layer: import from the module that defines it, or give the module a layer in LAYERS of xtask/src/layers/library.rs",
                found.text
            )),
            Some(other) if other < own => None,
            Some(other) => {
                let place = if other == own {
                    "beside it in"
                } else {
                    "above it, in"
                };
                Some(format!(
                    "`{module}` (layer {own}) may not use `{target}`, which is {place} layer {other} (`{}`): move what both need to a module below layer {own}, or pass it in from above",
                    found.text
                ))
            }
        }
    }
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// The modules in the layers below that of a module.
pub(crate) fn below(module: &str) -> impl Iterator<Item = &'static str> {
    LAYERS[..layer(module).unwrap_or_default()]
        .iter()
        .flat_map(|modules| modules.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The broken rules of a library with these files, as `line: what`.
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
    fn the_layers_below_may_be_used() {
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
    fn a_module_above_may_not_be_used() {
        breaks(
            &[("cpu/mod.rs", "use core::fmt;\nuse crate::engine::Queue;\n")],
            &["cpu/mod.rs:2: `cpu` (layer 1) may not use `engine`, which is above it, in layer 3"],
        );
    }

    #[test]
    fn a_module_beside_may_not_be_used() {
        breaks(
            &[("oplog/mod.rs", "use crate::counter::Counter;")],
            &["which is beside it in layer 4"],
        );
    }

    #[test]
    fn nested_use_trees_are_followed() {
        breaks(
            &[(
                "counter/mod.rs",
                "use crate::{\n    cpu::{self, CoreId},\n    oplog::{\n        Logged,\n    },\n};",
            )],
            &["counter/mod.rs:4: `counter` (layer 4) may not use `oplog`"],
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
        // A bare path never leaves the module that it is written in.
        is_clean(&[(
            "engine/mod.rs",
            "mod oplog {} use self::oplog::x; use oplog::y;",
        )]);
    }

    #[test]
    fn the_whole_crate_may_not_be_taken() {
        breaks(
            &[("counter/mod.rs", "use crate::*;")],
            &["imports the whole crate"],
        );
        breaks(
            &[("counter/mod.rs", "use crate as all;")],
            &["imports the whole crate"],
        );
        breaks(
            &[("counter/mod.rs", "use super::*;")],
            &["imports the whole crate"],
        );
        is_clean(&[("counter/mod.rs", "mod tests { use super::*; }")]);
    }

    #[test]
    fn unknown_modules_are_errors() {
        breaks(
            &[("attic/mod.rs", "")],
            &["attic/mod.rs:1: `attic` has no layer"],
        );
        breaks(&[("util.rs", "")], &["`util` has no layer"]);
        breaks(
            &[("oplog/mod.rs", "use crate::Counter;")],
            &["`Counter` has no layer"],
        );
    }

    #[test]
    fn an_exported_macro_belongs_to_the_module_that_defines_it() {
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
            &["`__private` has no layer"],
        );
    }

    #[test]
    fn atomics_come_from_sync() {
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
            &["`core::sync::atomic::AtomicU64` bypasses `sync`"],
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
            &["bypasses"],
        );
        breaks(&[("engine/mod.rs", "use std::sync::*;")], &["bypasses"]);
        breaks(&[("lib.rs", "use std::{sync::atomic};")], &["bypasses"]);
    }

    #[test]
    fn comments_and_strings_are_not_imports() {
        is_clean(&[(
            "sync/mod.rs",
            "//! See [`crate::oplog`].\n/* crate::oplog::f() */ const S: &str = \"crate::oplog::f\";",
        )]);
    }
}
