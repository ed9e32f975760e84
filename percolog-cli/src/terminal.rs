//! What a terminal is written: on stderr without panicking when nobody reads it, in ASCII where it shows nothing else, and no escape
//! sequences of others.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

/// Writes to stderr, where it does not mix with results.
pub fn to_stderr(text: &str) {
    let mut stderr = io::stderr().lock();
    // Not `eprint!`, which panics when nobody reads stderr; there is nowhere left to complain to then.
    let _ = stderr.write_all(legible(&harmless(text), stderr.is_terminal()).as_bytes());
}

/// Writes a line there: for warnings, and what went wrong.
pub fn complain(line: &str) {
    to_stderr(&format!("{line}\n"));
}

/// The text, with control characters as `\u{…}`, except line breaks and tabs: for text from outside, such as names of files and symbols, headers of
/// files, and what other programs have printed.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(controls_terminal) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for sign in text.chars() {
        if controls_terminal(sign) {
            shown.extend(sign.escape_unicode());
        } else {
            shown.push(sign);
        }
    }
    Cow::Owned(shown)
}

/// Whether this character controls a terminal: it moves the cursor, begins an escape sequence, or changes the direction of text.
pub(crate) fn controls_terminal(sign: char) -> bool {
    let direction = matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    direction || (sign.is_control() && sign != '\n' && sign != '\t')
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
    fn control_characters_are_escaped() {
        assert_eq!(
            harmless("µ\n\t\u{1b}[2J\u{9b}1m\r\u{202e}x"),
            "µ\n\t\\u{1b}[2J\\u{9b}1m\\u{d}\\u{202e}x"
        );
        assert!(matches!(harmless("10 µs\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_the_command_writes_has_a_form_in_ascii() {
        let ascii = deunicode::deunicode("2.4× — 5 µs, 3 … 7, ≤ 10⁻⁶");
        assert!(ascii.is_ascii() && !ascii.contains("[?]"), "{ascii}");
        assert!(legible("10 µs", false).contains('µ'));
    }
}
