//! What a terminal is written: on stderr without panicking when nobody reads it, in ASCII where it shows nothing else.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

/// Writes to stderr, where it does not mix with results.
pub fn to_stderr(text: &str) {
    let mut stderr = io::stderr().lock();
    // Not `eprint!`, which panics when nobody reads stderr; there is nowhere left to complain to then.
    let _ = stderr.write_all(legible(text, stderr.is_terminal()).as_bytes());
}

/// Writes a line there: for warnings, and what went wrong.
pub fn complain(line: &str) {
    to_stderr(&format!("{line}\n"));
}

/// The text, as the reader's terminal can show it.
pub(crate) fn legible(text: &str, to_terminal: bool) -> Cow<'_, str> {
    if to_terminal && !text.is_ascii() && !shows_utf8(|name| std::env::var(name).ok()) {
        Cow::Owned(deunicode::deunicode(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// Whether terminals show UTF-8: not if the locale says something else. Where it says nothing, as in most containers, they do.
fn shows_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|locale| !locale.is_empty());
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(set: &[(&str, &str)]) -> bool {
        shows_utf8(|name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_first_locale_that_is_set_says_what_terminals_show() {
        assert!(shows(&[]));
        assert!(shows(&[("LANG", "en_GB.UTF-8")]));
        assert!(shows(&[
            ("LC_ALL", ""),
            ("LC_CTYPE", "C.utf8"),
            ("LANG", "C")
        ]));
        assert!(!shows(&[("LANG", "C")]));
        assert!(!shows(&[("LC_ALL", "POSIX"), ("LANG", "en_GB.UTF-8")]));
        assert!(!shows(&[("LC_CTYPE", "de_DE.ISO-8859-1")]));
    }

    #[test]
    fn what_the_command_writes_has_a_form_in_ascii() {
        let ascii = deunicode::deunicode("2.4× — 5 µs, 3 … 7, ≤ 10⁻⁶");
        assert!(ascii.is_ascii() && !ascii.contains("[?]"), "{ascii}");
        assert!(legible("10 µs", false).contains('µ'));
    }
}
