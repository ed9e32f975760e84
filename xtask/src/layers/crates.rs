//! A crate of the repository depends only on those that are listed for it.
//!
//! The library stands on nothing of ours; the simulator knows nothing of the library; the command joins both; the laboratory may use
//! everything, and nothing uses the laboratory. Tests, examples and benchmarks may depend on more, but not on the laboratory either.

use std::path::PathBuf;

use super::Broken;
use crate::workspace::Workspace;

/// What each crate may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("percolog", &[]),
    ("percolog-roi", &[]),
    ("percolog-instruments", &["percolog"]),
    ("percolog-metrics", &["percolog", "percolog-instruments"]),
    ("percolog-prometheus", &["percolog", "percolog-instruments"]),
    ("percolog-sim", &["percolog-roi"]),
    (
        "percolog-cli",
        &[
            "percolog",
            "percolog-metrics",
            "percolog-roi",
            "percolog-sim",
        ],
    ),
    (
        "percolog-validation",
        &["percolog", "percolog-cli", "percolog-roi", "percolog-sim"],
    ),
    ("xtask", &[]),
];

/// Each dependency that is not allowed.
pub(super) fn examine(workspace: &Workspace, laboratory: &Workspace) -> Vec<Broken> {
    let lab: Vec<&str> = laboratory.names().collect();
    let mut broken = Vec::new();
    for (package, manifest, dependencies) in workspace.dependencies() {
        let file = manifest.strip_prefix(&workspace.root).unwrap_or(manifest);
        broken.extend(
            judge(package, &lab, &dependencies)
                .into_iter()
                .map(|what| Broken {
                    file: PathBuf::from(file),
                    line: 1,
                    what,
                }),
        );
    }
    broken
}

/// What is wrong with the dependencies of a crate: their names, each with whether only tests, examples and benchmarks need it.
fn judge(package: &str, lab: &[&str], dependencies: &[(&str, bool)]) -> Vec<String> {
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package) else {
        return vec![format!(
            "`{package}` is not in ALLOWED of xtask/src/layers/crates.rs: say there what it may depend on"
        )];
    };
    let mut broken = Vec::new();
    for &(name, for_tests) in dependencies {
        let ours = name.starts_with("percolog") || name == "xtask";
        if lab.contains(&name) {
            broken.push(format!(
                "`{package}` may not depend on `{name}`, which belongs to the laboratory"
            ));
        } else if ours && !for_tests && !allowed.contains(&name) {
            broken.push(format!(
                "`{package}` may not depend on `{name}`: ALLOWED of xtask/src/layers/crates.rs has the order of the crates"
            ));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAB: [&str; 1] = ["percolog-bench"];

    #[test]
    fn dependencies_go_in_one_direction() {
        let none = Vec::<String>::new();
        assert_eq!(
            judge(
                "percolog-sim",
                &LAB,
                &[("percolog-roi", false), ("object", false)]
            ),
            none
        );
        assert_eq!(judge("percolog", &LAB, &[("percolog-sim", true)]), none);
        for (package, dependency) in [
            ("percolog", ("percolog-sim", false)),
            ("percolog-sim", ("percolog", false)),
            ("percolog-cli", ("percolog-bench", false)),
            ("percolog-cli", ("percolog-bench", true)),
            ("percolog-new", ("libc", false)),
        ] {
            assert_eq!(
                judge(package, &LAB, &[dependency]).len(),
                1,
                "{package} {dependency:?}"
            );
        }
    }

    #[test]
    fn no_allowed_dependency_leads_back() {
        for (at, (package, allowed)) in ALLOWED.iter().enumerate() {
            for name in *allowed {
                let place = ALLOWED.iter().position(|(other, _)| other == name);
                assert!(
                    place.is_some_and(|place| place < at),
                    "{package} before {name}"
                );
            }
        }
    }
}
