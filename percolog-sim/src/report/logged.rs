//! Lines of percolog's own logged objects, of their locks, logs and readers' marks: which type they are part of, and in which mode that
//! evidently was, told from the functions that waited for them.

use std::borrow::Cow;

use super::summary::{LineSummary, PlaceSummary};
use crate::symbols::Place;

/// A logged object, as far as the users of one of its lines give it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoggedObject {
    /// The name of its type.
    pub(super) name: &'static str,
    /// How it was used; `None` if its functions do not say.
    pub(super) mode: Option<SeenMode>,
}

/// What the functions that waited for a line were doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeenMode {
    /// Updates were executed at once, under the object's lock.
    Eager,
    /// Updates were appended to logs, and merged.
    Deferring,
    /// Readers left marks, at which updates looked.
    BiasedToReaders,
    /// More than one of these.
    Changing,
}

/// The modules that a logged object's own lines are used in.
const OWN: [&str; 5] = [
    "percolog::engine::",
    "percolog::oplog::",
    "percolog::ldu::",
    "percolog::sync::",
    "percolog::cpu::",
];

/// Types that are made of a log, by their modules: those that are told apart come first.
const TYPES: [(&str, &str); 8] = [
    ("percolog::collections::lru::", "Lru"),
    ("percolog::collections::set::", "Set"),
    ("percolog::collections::registry::", "Registry"),
    ("percolog::collections::sessions::", "Sessions"),
    ("percolog::collections::event_queue::", "EventQueue"),
    ("percolog::ldu::", "Deferred"),
    ("percolog::engine::lent::", "Lent"),
    ("percolog::oplog::closure::", "LoggedFn"),
];

/// Functions of phases of reading, of eager objects, and of deferring ones. One that stands further to the front decides: an eager object,
/// too, appends and merges what has waited in vain.
const FUNCTIONS: [(SeenMode, &[&str]); 3] = [
    (
        SeenMode::BiasedToReaders,
        &[
            "share_by_mark",
            "read_by_mark",
            "read_among_writers",
            "queue_among_readers",
            "wait_for_readers",
            "enlist",
        ],
    ),
    (
        SeenMode::Eager,
        &[
            "execute",
            "execute_inside",
            "execute_soon",
            "append_after_all",
            "catch_up",
            "with_at_once",
        ],
    ),
    (
        SeenMode::Deferring,
        &["append", "append_or_merge", "merge", "take"],
    ),
];

/// The functions that led to the place, the innermost first, by their paths in percolog.
fn functions(place: &PlaceSummary) -> impl Iterator<Item = Cow<'_, str>> {
    std::iter::once(&place.place).chain(&place.frames).map(path)
}

/// The function's path. Tables of lines know only the last part of the names of functions that were inlined; then the file is its module.
fn path(place: &Place) -> Cow<'_, str> {
    let function = place.function.trim_start_matches('<');
    let module = || {
        let (root, file) = place.file.as_ref()?.rsplit_once("/src/")?;
        let folder = root.rsplit('/').next()?;
        // In a repository, and as a package of a registry.
        let is_percolog = folder == "percolog" || folder.starts_with("percolog-0.");
        is_percolog.then(|| file.trim_end_matches(".rs").replace('/', "::"))
    };
    match module() {
        Some(module) if !function.starts_with("percolog::") => {
            format!("percolog::{module}::{function}").into()
        }
        _ => function.into(),
    }
}

/// Whether a function is of this name, whatever type it is of and whatever types are given to it; with its offset, if nothing else is known of it.
fn is_called(function: &str, name: &str) -> bool {
    function.match_indices(name).any(|(at, _)| {
        let behind = function[at + name.len()..].chars().next();
        function[..at].ends_with("::") && matches!(behind, None | Some(':' | '+' | '<'))
    })
}

/// How the object was used on the way to this place.
fn mode(place: &PlaceSummary) -> Option<SeenMode> {
    let called = |name: &str| {
        functions(place)
            .filter(|function| function.starts_with("percolog::"))
            .any(|function| is_called(&function, name))
    };
    FUNCTIONS
        .iter()
        .find(|(_, names)| names.iter().any(|name| called(name)))
        .map(|(mode, _)| *mode)
}

/// The object that a line is an own part of: what waits for it is mostly the object's lock, its logs or its marks, not its contents.
pub(super) fn logged_object(line: &LineSummary) -> Option<LoggedObject> {
    let own = |place: &&PlaceSummary| {
        let begins =
            |parts: &[&str], function: &str| parts.iter().any(|part| function.starts_with(part));
        begins(&OWN, &path(&place.place))
            && functions(place).any(|function| begins(&OWN[..1], &function))
    };
    let events = |places: &[&PlaceSummary]| places.iter().map(|place| place.events).sum::<u64>();
    let places: Vec<&PlaceSummary> = line.places.iter().filter(own).collect();
    let all: u64 = line.places.iter().map(|place| place.events).sum();
    if events(&places) == 0 || events(&places) * 2 < all {
        return None;
    }
    let name = TYPES.iter().find(|(module, _)| {
        let of_it = |place: &&PlaceSummary| functions(place).any(|name| name.starts_with(module));
        places.iter().any(of_it)
    });
    let told: Vec<(SeenMode, u64)> = places
        .iter()
        .filter_map(|place| Some((mode(place)?, place.events)))
        .collect();
    let all: u64 = told.iter().map(|(_, events)| events).sum();
    let most = |mode: SeenMode| {
        let of_it: u64 = (told.iter())
            .filter(|(other, _)| *other == mode)
            .map(|(_, events)| events)
            .sum();
        of_it * 10 >= all * 9
    };
    let modes = FUNCTIONS.iter().map(|(mode, _)| *mode);
    Some(LoggedObject {
        name: name.map_or("Logged", |(_, name)| *name),
        mode: match all {
            0 => None,
            _ => modes
                .into_iter()
                .find(|mode| most(*mode))
                .or(Some(SeenMode::Changing)),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line whose users were led to by these functions, the innermost first, as often.
    fn line(uses: &[(&[&str], u64)]) -> LineSummary {
        let place = |function: &&str| Place {
            function: (*function).to_owned(),
            ..Place::default()
        };
        let places = uses.iter().map(|(functions, events)| PlaceSummary {
            place: place(&functions[0]),
            frames: functions.iter().map(place).collect(),
            events: *events,
            ..PlaceSummary::default()
        });
        LineSummary {
            places: places.collect(),
            ..LineSummary::default()
        }
    }

    const TAKES: &str = "percolog::sync::object_lock::ObjectLock::try_exclusive_at_once";
    const EXECUTES: &str =
        "percolog::engine::eager::<impl percolog::engine::object::Object<S,Q,E>>::execute";
    const APPENDS: &str = "<percolog::engine::object::Object<S, Q, E>>::append::<true>";
    const MERGES: &str = "<percolog::engine::object::Object<S, Q, E>>::merge";
    const CATCHES_UP: &str = "<percolog::engine::object::Object<S, Q, E>>::catch_up";
    const WAITS: &str = "percolog::engine::reading::<impl percolog::engine::object::Object<S,Q,E>>::wait_for_readers";
    const QUEUES: &str = "percolog::oplog::logged::Logged<S,O,E>::queue";
    const TOUCHES: &str = "percolog::collections::lru::Lru<K,S,E>::touch";

    fn seen(uses: &[(&[&str], u64)]) -> Option<(&'static str, Option<SeenMode>)> {
        logged_object(&line(uses)).map(|object| (object.name, object.mode))
    }

    #[test]
    fn the_mode_is_told_from_the_functions() {
        let main = "main";
        for (uses, mode) in [
            (
                &[(&[TAKES, EXECUTES, QUEUES, main][..], 9)][..],
                SeenMode::Eager,
            ),
            (
                &[(&[APPENDS, QUEUES, main], 5), (&[MERGES, main], 4)],
                SeenMode::Deferring,
            ),
            // What waited in vain is merged by the next one.
            (&[(&[MERGES, CATCHES_UP, QUEUES, main], 9)], SeenMode::Eager),
            (&[(&[WAITS, EXECUTES, main], 9)], SeenMode::BiasedToReaders),
            (
                &[(&[TAKES, EXECUTES, main], 5), (&[APPENDS, main], 4)],
                SeenMode::Changing,
            ),
            (
                &[(&[TAKES, EXECUTES, main], 9), (&[APPENDS, main], 1)],
                SeenMode::Eager,
            ),
        ] {
            assert_eq!(seen(uses), Some(("Logged", Some(mode))), "{uses:?}");
        }
        let lock = "percolog::engine::gate::Gate::enter";
        assert_eq!(seen(&[(&[lock], 9)]), Some(("Logged", None)));
    }

    #[test]
    fn types_that_are_made_of_a_log_are_named() {
        let uses: [&[&str]; 1] = [&[TAKES, EXECUTES, QUEUES, TOUCHES, "main"]];
        let uses: Vec<_> = uses.iter().map(|functions| (*functions, 9)).collect();
        assert_eq!(seen(&uses), Some(("Lru", Some(SeenMode::Eager))));
    }

    #[test]
    fn inlined_functions_are_known_by_their_files() {
        let mut line = line(&[(&["try_exclusive_at_once", "append<u64>", "work"], 9)]);
        let seen = |line: &LineSummary| logged_object(line).map(|object| object.mode);
        assert_eq!(seen(&line), None);
        for root in [
            "/home/me/percolog",
            "/home/me/.cargo/registry/src/index/percolog-0.1.0",
        ] {
            let files = ["sync/object_lock.rs", "engine/object.rs"];
            let place = &mut line.places[0];
            for (frame, file) in place.frames.iter_mut().zip(files) {
                frame.file = Some(format!("{root}/src/{file}"));
            }
            place.place = place.frames[0].clone();
            assert_eq!(seen(&line), Some(Some(SeenMode::Deferring)), "{root}");
        }
    }

    #[test]
    fn what_an_object_contains_and_what_others_have_is_not_its_own() {
        let contents: &[&str] = &[
            "<main::Add as Operation<main::Sum>>::exec",
            EXECUTES,
            "main",
        ];
        assert_eq!(seen(&[(contents, 9)]), None);
        assert_eq!(seen(&[(contents, 9), (&[TAKES, EXECUTES], 4)]), None);
        // A lock of another type of percolog's, and a program that has the name of a function.
        assert_eq!(
            seen(&[(&[TAKES, "percolog::slab::objects::Slab<T>::insert"], 9)]),
            None
        );
        assert_eq!(seen(&[(&["main::execute", "main"], 9)]), None);
        assert_eq!(seen(&[]), None);
    }
}
