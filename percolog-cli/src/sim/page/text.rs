//! Figures and words as pages show them.

use percolog_cli::format;

/// A share as people read it.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// Nanoseconds as people read them.
pub(super) fn time(nanoseconds: f64) -> String {
    let (value, unit) = if nanoseconds >= 1e9 {
        (nanoseconds / 1e9, "s")
    } else if nanoseconds >= 1e6 {
        (nanoseconds / 1e6, "ms")
    } else if nanoseconds >= 1e3 {
        (nanoseconds / 1e3, "µs")
    } else {
        (nanoseconds, "ns")
    };
    format!("{} {unit}", format::number(value))
}

/// Text of at most so many signs.
pub(super) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

/// With a capital letter, as at the beginning of a sentence.
pub(super) fn capital(text: &str) -> String {
    let mut signs = text.chars();
    match signs.next() {
        Some(first) => first.to_uppercase().chain(signs).collect(),
        None => String::new(),
    }
}
