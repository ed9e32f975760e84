//! A contended line on the first screen.

use super::WIDTH;
use super::words::{cut, paragraph, percent, place, plural};
use crate::report::findings::{Suggestion, WhatIf};
use crate::report::summary::LineSummary;
use crate::report::users::UserPlace;

/// What stands in front of all that is said of a line but its head.
const INDENT: &str = "             ";

/// How much is said about what helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// The suggestion in some words.
    Short,
    /// The whole suggestion.
    Whole,
    /// The same, and why there is none.
    Advice,
}

/// What there is to say of a line, the `rank`-th worst, of a run that is reproducible or not.
pub(super) fn line(
    text: &mut String,
    rank: usize,
    line: &LineSummary,
    say: Say,
    is_reproducible: bool,
) {
    row(
        text,
        &format!(
            "{rank:>2}  {:>7}  {}: {}",
            percent(line.share),
            line.name(),
            line.origin()
        ),
    );
    let bytes = line.bytes();
    let users = line.users();
    let users = if bytes.is_empty() {
        users
    } else {
        format!("{users}; {bytes}")
    };
    row(text, &format!("{INDENT}{users}"));
    for user in line.worst_users() {
        row(text, &format!("{INDENT}{}", with_caller(&user)));
    }
    if let Some(gain) = line.gain() {
        let doubt = if is_reproducible {
            ""
        } else {
            " (not reproducible)"
        };
        paragraph(
            text,
            &format!(
                "{INDENT}what if {} cost nothing: {:.1} times as fast{doubt}{}{}",
                line.freed(),
                gain.speedup,
                noted("; ", gain),
                addresses(line.freed_with())
            ),
            &format!("{INDENT}  "),
        );
    }
    let words = match (say, &line.suggestion) {
        (Say::Advice, _) => line.advice(),
        (Say::Whole, Some(suggestion)) => suggestion.text.clone(),
        (Say::Short, Some(suggestion)) => short(suggestion),
        (_, None) => return,
    };
    paragraph(text, &format!("{INDENT}→ {words}"), &format!("{INDENT}  "));
}

/// What is to be said with a gain, behind `before`.
pub(in crate::report) fn noted(before: &str, gain: WhatIf) -> String {
    gain.note()
        .map_or_else(String::new, |note| format!("{before}{note}"))
}

/// Which lines were free, if there were several: the first of them, for all have to be read on one screen.
fn addresses(lines: &[u64]) -> String {
    const NAMED: usize = 3;
    if lines.is_empty() {
        return String::new();
    }
    let named: Vec<String> = lines
        .iter()
        .take(NAMED)
        .map(|line| format!("{line:#x}"))
        .collect();
    let more = match lines.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("; free were {}{more}", named.join(", "))
}

/// The suggestion in some words.
fn short(suggestion: &Suggestion) -> String {
    let first = suggestion
        .text
        .split_once([':', ',', '.'])
        .map_or(suggestion.text.as_str(), |(first, _)| first);
    match &suggestion.fits {
        Some(fits) => format!("{first}: {fits} may fit"),
        None => first.to_owned(),
    }
}

/// The place, how many instructions it is if there are several, by what it used the line and who called it, as far as there is room.
fn with_caller(at: &UserPlace<'_>) -> String {
    let room = WIDTH - INDENT.len();
    // Under each other.
    let mut words = format!("{:<10} {}", at.verb(), place(at.place()));
    let several = (at.count() > 1).then(|| {
        let count = plural(at.count() as u64, "instruction");
        format!(", by {count} ({})", percent(at.share()))
    });
    let through = at
        .through()
        .map(|through| format!(", through {}", through.function));
    let caller = at
        .caller()
        .map(|caller| format!(", called by {}", place(caller)));
    for more in [several, through, caller].into_iter().flatten() {
        if words.chars().count() + more.chars().count() <= room {
            words.push_str(&more);
        }
    }
    words
}

/// One line, cut where it does not fit.
fn row(text: &mut String, words: &str) {
    text.push_str(&cut(words, WIDTH));
    text.push('\n');
}
