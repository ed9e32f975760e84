//! How much code the subsystems are, made in each way: what figure 8-6 of the OpLog thesis counts.
//!
//! Counted are the lines that are neither empty nor comments nor tests, of the file that makes a subsystem's object in this way, and of what it shares
//! with others of its kind; not those of the plain structure inside, nor of percolog and other libraries. [`lines_changed`] are those among them
//! that the same object behind a mutex does not have.

use super::{Implementation, Subsystem};

/// A part for each slot, and who knows where he is: every structure for each core that is made by hand here stands on it.
const BY_HAND: &str = include_str!("slots.rs");

/// What is queued: every plain log of entries that come and go stands on it.
const QUEUED: &str = include_str!("edits.rs");

/// Operations that absorb: every log of entries in which those that undo each other meet stands on it.
const ABSORBED: &str = include_str!("absorbing_edits.rs");

/// Harris' list, where an object is one.
const HARRIS: &str = include_str!("harris_list.rs");

/// Containers whose updates are deferred.
const DEFERRED: &str = include_str!("deferred.rs");

/// The files of an implementation, with what they stand on; nothing where nobody has made it.
fn files(subsystem: Subsystem, implementation: Implementation) -> Option<Vec<&'static str>> {
    use Implementation::{Harris, LduPerCore, LockFree, Mutex, Oplog, OplogAbsorb, PerCpu, RwLock};
    let files = match (subsystem, implementation) {
        (Subsystem::Files, Mutex) => vec![include_str!("rmap/locked.rs")],
        (Subsystem::Files, RwLock) => vec![include_str!("rmap/rwlocked.rs")],
        (Subsystem::Files, PerCpu) => vec![include_str!("rmap/percpu.rs"), BY_HAND],
        (Subsystem::Files, LockFree) => vec![include_str!("rmap/lock_free.rs")],
        (Subsystem::Files, Harris) => vec![include_str!("rmap/harris.rs"), HARRIS],
        (Subsystem::Files, Oplog) => vec![include_str!("rmap/logged.rs"), QUEUED],
        (Subsystem::Files, OplogAbsorb) => vec![include_str!("rmap/absorbing.rs"), ABSORBED],
        (Subsystem::Files, LduPerCore) => vec![include_str!("rmap/deferred.rs"), DEFERRED],
        (Subsystem::OpenFiles, Mutex) => vec![include_str!("open_files/locked.rs")],
        (Subsystem::OpenFiles, RwLock) => vec![include_str!("open_files/rwlocked.rs")],
        (Subsystem::OpenFiles, PerCpu) => vec![include_str!("open_files/percpu.rs"), BY_HAND],
        (Subsystem::OpenFiles, LockFree) => vec![include_str!("open_files/lock_free.rs")],
        (Subsystem::OpenFiles, Harris) => vec![include_str!("open_files/harris.rs"), HARRIS],
        (Subsystem::OpenFiles, Oplog) => vec![include_str!("open_files/logged.rs"), QUEUED],
        (Subsystem::OpenFiles, OplogAbsorb) => vec![include_str!("open_files/absorbing.rs")],
        (Subsystem::OpenFiles, LduPerCore) => {
            vec![include_str!("open_files/deferred.rs"), DEFERRED]
        }
        (Subsystem::Events, Mutex) => vec![include_str!("events/locked.rs")],
        (Subsystem::Events, PerCpu) => vec![include_str!("events/percpu.rs"), BY_HAND],
        (Subsystem::Events, LockFree) => vec![include_str!("events/lock_free.rs")],
        (Subsystem::Events, Oplog) => vec![include_str!("events/logged.rs")],
        _ => return None,
    };
    Some(files)
}

/// The lines of code of a subsystem that is made this way. `None` where nobody counts them.
#[must_use]
pub fn lines_of_code(subsystem: Subsystem, implementation: Implementation) -> Option<usize> {
    let files = files(subsystem, implementation)?;
    Some(files.into_iter().map(count).sum())
}

/// The lines of code that are added or changed when the subsystem that a mutex guards is made this way: what the thesis counts, in whose kernel
/// the plain structure and its callers are there already. `None` where nobody counts them.
#[must_use]
pub fn lines_changed(subsystem: Subsystem, implementation: Implementation) -> Option<usize> {
    let plain = files(subsystem, Implementation::Mutex)?;
    let plain: Vec<&str> = plain.into_iter().flat_map(code).collect();
    let made: Vec<&str> = files(subsystem, implementation)?
        .into_iter()
        .flat_map(code)
        .collect();
    Some(made.len() - kept(&plain, &made))
}

/// How many lines two texts have in common, in the same order: as many as can be.
fn kept(one: &[&str], other: &[&str]) -> usize {
    let mut row = vec![0; other.len() + 1];
    for line in one {
        let mut corner = 0;
        for (at, same) in other.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if line == same {
                corner + 1
            } else {
                above.max(row[at])
            };
            corner = above;
        }
    }
    row[other.len()]
}

/// Lines before the tests that say something to the compiler.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
}

fn count(text: &str) -> usize {
    code(text).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_counted_and_nothing_else() {
        let text = "//! Says.\n\nuse a::b;\n// Why.\nfn one() {\n    two(); // here\n}\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(count(text), 4);
    }

    #[test]
    fn lines_that_are_there_already_are_not_changed() {
        let plain = ["use a;", "fn one() {", "two();", "}"];
        let made = ["use a;", "use b;", "fn one() {", "three();", "}", "}"];
        assert_eq!(kept(&plain, &made), 3);
        assert_eq!(kept(&[], &made), 0);
        for subsystem in [Subsystem::Files, Subsystem::Events, Subsystem::OpenFiles] {
            let changed = |made_of| lines_changed(subsystem, made_of).expect("it is counted");
            assert_eq!(changed(Implementation::Mutex), 0);
            for made_of in [Implementation::Oplog, Implementation::PerCpu] {
                let all = lines_of_code(subsystem, made_of).expect("it is counted");
                assert!(
                    (1..all).contains(&changed(made_of)),
                    "{subsystem}, {made_of}"
                );
            }
        }
    }

    #[test]
    fn three_subsystems_are_counted_in_every_way() {
        for subsystem in [Subsystem::Files, Subsystem::Events, Subsystem::OpenFiles] {
            for implementation in [
                Implementation::Mutex,
                Implementation::PerCpu,
                Implementation::Oplog,
            ] {
                let lines = lines_of_code(subsystem, implementation).expect("it is counted");
                assert!(lines > 20, "{subsystem}, {implementation}: {lines}");
            }
        }
        assert_eq!(lines_of_code(Subsystem::Names, Implementation::Oplog), None);
    }
}
