//! Where the command writes: stdout, without panicking when its reader goes away, with colours only where they are
//! wanted.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use console::Style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;

/// The widest line the command writes to a terminal.
pub(crate) const WIDTH: usize = 100;

/// A bar on stderr, where someone looks at it; nothing where nobody does.
pub(crate) fn bar() -> ProgressBar {
    let target = if io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(1), target);
    // The template is a constant, and right.
    if let Ok(style) = ProgressStyle::with_template("[{bar:24}] {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Writes to stderr, where it does not mix with results.
pub(crate) fn to_stderr(text: &str) {
    let mut stderr = io::stderr().lock();
    // Not `eprint!`, which panics when nobody reads stderr; there is nowhere left to complain to then.
    let _ = stderr.write_all(legible(text, stderr.is_terminal()).as_bytes());
}

/// Writes a line there: for warnings, and what went wrong.
pub(crate) fn complain(line: &str) {
    to_stderr(&format!("{line}\n"));
}

/// The text, as the reader's terminal can show it.
fn legible(text: &str, to_terminal: bool) -> Cow<'_, str> {
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

/// Standard output.
pub(crate) struct Output {
    json: bool,
    colours: bool,
}

impl Output {
    /// An output without colours if `no_color` is set, `NO_COLOR` is set and not empty, or stdout is no terminal.
    pub(crate) fn new(no_color: bool, json: bool) -> Self {
        let refused = no_color || std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        Self {
            json,
            colours: !refused && io::stdout().is_terminal(),
        }
    }

    /// Whether the user asked for data instead of text.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes text as it is; to a terminal that shows ASCII only, as that.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(legible(text, stdout.is_terminal()).as_bytes())?;
        stdout.flush()?;
        Ok(())
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.write(&format!("{line}\n"))
    }

    /// Writes `value` as JSON, and a line break.
    pub(crate) fn data(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(|error| {
            Failure::Work(format!("cannot express the result as JSON: {error}"))
        })?;
        self.line(&text)
    }

    /// Text that stands out: headings.
    pub(crate) fn strong(&self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    /// Text that may be skipped.
    pub(crate) fn faint(&self, text: &str) -> String {
        self.styled(Style::new().dim(), text)
    }

    /// Good news.
    pub(crate) fn good(&self, text: &str) -> String {
        self.styled(Style::new().green(), text)
    }

    /// News to look at.
    pub(crate) fn warning(&self, text: &str) -> String {
        self.styled(Style::new().yellow(), text)
    }

    /// Bad news.
    pub(crate) fn bad(&self, text: &str) -> String {
        self.styled(Style::new().red().bold(), text)
    }

    fn styled(&self, style: Style, text: &str) -> String {
        // `force_styling` decides for this text alone: `console` would otherwise judge for itself.
        style.force_styling(self.colours).apply_to(text).to_string()
    }
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
