//! What is usually done about lines of known patterns, in a sentence or two each: the type of percolog that fits, and why, or why none
//! does.

use super::findings::{Pattern, SpanSummary, Suggestion};
use super::logged::{LoggedObject, SeenMode};
use super::summary::LineSummary;

const COUNTER: &str = "percolog::counter::Counter";
const SLOPPY: &str = "percolog::counter::SloppyCounter";
const REFERENCE: &str = "percolog::refcount::CoreArc";
const LIST: &str = "percolog::collections::PerCoreList";
const QUEUE: &str = "percolog::collections::EventQueue";
const LOGGED: &str = "percolog::oplog::Logged";
const REPLACEABLE: &str = "percolog::reclaim::Replaceable";

/// Of neighbours by chance.
pub(super) fn packed_fields(spans: &[SpanSummary]) -> Suggestion {
    let written: Vec<String> = spans
        .iter()
        .filter(|span| !span.writers.is_empty())
        .map(|span| match &span.name {
            Some(name) => format!("{name} (byte {})", span.offset),
            None => format!("byte {}", span.offset),
        })
        .collect();
    let which = match &written[..] {
        [] => "fields".to_owned(),
        [one] => format!("what is written at {one} and what is read beside it"),
        [first, second] => format!("{first} and {second}"),
        [first, second, ..] => format!("{first}, {second} and {} more", written.len() - 2),
    };
    Suggestion {
        pattern: Pattern::PackedFields,
        text: format!(
            "Neighbours by chance: {which} are used by different cores. No type is needed: give each a line of its own \
             (crossbeam_utils::CachePadded, alignas(64), or another order of fields)."
        ),
        fits: None,
    }
}

/// Of what one core writes.
pub(super) fn published(line: &LineSummary) -> Suggestion {
    Suggestion {
        pattern: Pattern::Published,
        text: format!(
            "Published: one core writes what {} read. {REPLACEABLE} fits if it is replaced whole; percolog::collections::Snapshots \
             if readers may see what was there a moment ago. If each of them has to see each change at once, none helps.",
            plural(line.readers.len(), "core")
        ),
        fits: Some(REPLACEABLE.to_owned()),
    }
}

/// Of references that are cloned and dropped.
pub(super) fn reference_count() -> Suggestion {
    Suggestion {
        pattern: Pattern::ReferenceCount,
        text: format!(
            "A reference count: clones and drops write to it. {REFERENCE} counts on each core, if the value may be destroyed a \
             little later; borrowing instead of cloning costs nothing."
        ),
        fits: Some(REFERENCE.to_owned()),
    }
}

/// Of a counter that is added to by several instructions.
pub(super) fn plain_counter() -> Suggestion {
    Suggestion {
        pattern: Pattern::Counter,
        text: format!(
            "A counter, without atomic instructions: either a lock guards it, or additions get lost. {COUNTER} needs no lock, \
             and gives each core a part of its own."
        ),
        fits: Some(COUNTER.to_owned()),
    }
}

/// Of what is counted up and down.
pub(super) fn up_and_down() -> Suggestion {
    Suggestion {
        pattern: Pattern::ReferenceCount,
        text: format!(
            "Counted up and down, as a length or references are. {SLOPPY} keeps spares for each core and is exact when asked; for \
             references {REFERENCE}. If something must happen at once when it becomes zero, neither fits."
        ),
        fits: Some(SLOPPY.to_owned()),
    }
}

/// Of a counter; `unused` if nobody looks at what was there.
pub(super) fn counter(what: &str, unused: bool) -> Suggestion {
    let (text, fits) = if unused {
        (
            format!(
                "A counter: {what}, and nobody uses the answer. {COUNTER} gives each core a part of its own; its sum is exact when \
                 read (percolog::reduce::Reducer for several numbers that belong together)."
            ),
            Some(COUNTER.to_owned()),
        )
    } else {
        (
            format!(
                "A counter: {what}, and the program gets what was there. If it has a use for that (the next number, a limit), no \
                 type fits: take numbers in blocks, one for each core. If not, {COUNTER}."
            ),
            None,
        )
    };
    Suggestion {
        pattern: Pattern::Counter,
        text,
        fits,
    }
}

/// Of the head of a list.
pub(super) fn list_head(line: &LineSummary) -> Suggestion {
    let (fits, why) = if line.readers.len() == 1 {
        (QUEUE, "one core takes what the others add, in order")
    } else {
        (LIST, "a list for each core, if their order does not matter")
    };
    Suggestion {
        pattern: Pattern::ListHead,
        text: format!(
            "The head of a list, or a word like it: it is exchanged if it is still the same, and tried again if not. {fits} fits: {why}."
        ),
        fits: Some(fits.to_owned()),
    }
}

/// Of a lock; `shared` if there are readers who hold it together.
pub(super) fn lock_word(shared: bool) -> Suggestion {
    let mut text = format!(
        "A lock: another kind of lock only stops the collapse. {LOGGED} goes where it is, unless most updates need their answers: it is a \
         lock until that is contended, then a log. Where nearly all operations read, its read() moves no line; where a tenth to half \
         do, a mutex can be faster on several chips."
    );
    text.push_str(&if shared {
        format!(
            " What is replaced whole: {REPLACEABLE}; looked up by key: percolog::collections::Map."
        )
    } else {
        format!(" A number: {COUNTER}.")
    });
    Suggestion {
        pattern: Pattern::LockWord,
        text,
        fits: Some(LOGGED.to_owned()),
    }
}

/// Of a line of percolog's own objects.
pub(super) fn logged(object: LoggedObject) -> Suggestion {
    let name = object.name;
    // Types that have no builder decide by themselves, or always defer.
    let (always_defers, builder) = match name {
        "Logged" | "LoggedFn" | "Set" => (false, Some("LoggedBuilder::mode")),
        "Lru" => (false, Some("LruBuilder::mode")),
        "Lent" => (false, Some("LogCacheBuilder::objects(LoggedBuilder::mode)")),
        "Sessions" => (false, None),
        _ => (true, None),
    };
    let mode = match object.mode {
        _ if always_defers => {
            "which always defers: updates go to logs of their cores, and lines move when a read or a full log merges them. \
             Fewer reads move fewer."
        }
        Some(SeenMode::Eager) => {
            "evidently eager: each update is executed at once, under its lock. It defers when updates of several cores meet and \
             reads are few."
        }
        Some(SeenMode::Deferring) => {
            "evidently deferring: updates go to logs of their cores, and lines move when a read or a full log merges them. Fewer \
             reads, a higher limit and operations that absorb each other move fewer."
        }
        Some(SeenMode::BiasedToReaders) => {
            "evidently in a phase of reading: readers write a line of their own core, and each update looks at all of these. Fewer \
             updates move fewer."
        }
        Some(SeenMode::Changing) => {
            "now executing updates at once, now logging them: it changes with the load, or is finding out what is faster."
        }
        None => "in a mode that its functions do not give away.",
    };
    let text = match builder {
        _ if always_defers => format!("percolog's own {name}, {mode}"),
        // Its eight bytes have no room for a reason.
        Some(builder) if name == "Lent" => {
            format!("percolog's own Lent, {mode} {builder} fixes the other mode, to compare.")
        }
        Some(builder) => format!(
            "percolog's own {name}, {mode} stats().mode_reason says why; {builder} fixes the other mode, to compare."
        ),
        None => format!("percolog's own {name}, {mode} stats().mode_reason says why."),
    };
    Suggestion {
        pattern: Pattern::LoggedObject,
        text,
        fits: None,
    }
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(readers: u32) -> LineSummary {
        LineSummary {
            readers: (0..readers).collect(),
            ..LineSummary::default()
        }
    }

    #[test]
    fn sentences_name_the_type_that_fits() {
        for suggestion in [
            reference_count(),
            up_and_down(),
            counter("numbers are added to it", true),
            list_head(&line(1)),
            list_head(&line(4)),
            lock_word(false),
            lock_word(true),
            plain_counter(),
            published(&line(3)),
        ] {
            let fits = suggestion.fits.expect("one fits");
            assert!(suggestion.text.contains(&fits), "{}", suggestion.text);
            let most = if suggestion.pattern == Pattern::LockWord {
                460
            } else {
                280
            };
            assert!(
                suggestion.text.chars().count() < most,
                "{}",
                suggestion.text
            );
        }
    }

    #[test]
    fn a_lock_is_replaced_where_it_is_and_many_reads_are_no_reason_against_it() {
        for shared in [false, true] {
            let lock = lock_word(shared);
            assert_eq!(lock.fits.as_deref(), Some(LOGGED));
            assert!(lock.text.contains("read() moves no line"), "{}", lock.text);
            assert_eq!(lock.text.contains(REPLACEABLE), shared, "{}", lock.text);
            assert_eq!(lock.text.contains(COUNTER), !shared, "{}", lock.text);
        }
    }

    #[test]
    fn own_objects_are_told_their_mode_and_where_it_is_explained() {
        let text = |name, mode| {
            let suggestion = logged(LoggedObject { name, mode });
            assert_eq!(
                (suggestion.pattern, suggestion.fits),
                (Pattern::LoggedObject, None)
            );
            assert!(suggestion.text.chars().count() < 320, "{}", suggestion.text);
            suggestion.text
        };
        for (name, mode, parts) in [
            (
                "Logged",
                Some(SeenMode::Eager),
                &["eager", "stats().mode_reason", "LoggedBuilder::mode"][..],
            ),
            (
                "Lru",
                Some(SeenMode::Deferring),
                &["deferring", "stats().mode_reason", "LruBuilder::mode"],
            ),
            (
                "Sessions",
                Some(SeenMode::BiasedToReaders),
                &["phase of reading", "stats().mode_reason"],
            ),
            (
                "Set",
                Some(SeenMode::Changing),
                &["it changes", "LoggedBuilder::mode"],
            ),
            ("Set", None, &["do not give away", "stats().mode_reason"]),
            ("Registry", Some(SeenMode::Deferring), &["always defers"]),
        ] {
            let text = text(name, mode);
            assert!(
                text.starts_with(&format!("percolog's own {name}, ")),
                "{text}"
            );
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
        let lent = text("Lent", Some(SeenMode::Eager));
        assert!(lent.contains("evidently eager") && !lent.contains("mode_reason"));
        // No mode can be chosen.
        assert!(!text("Sessions", None).contains("Builder"));
        assert!(!text("EventQueue", Some(SeenMode::Deferring)).contains("mode"));
    }
}
