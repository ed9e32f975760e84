//! Where the command writes: stdout, without panicking when its reader goes away, with colours only where they are
//! wanted.

use std::io::{self, IsTerminal, Write};

use console::Style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::terminal::{controls_terminal, harmless, legible};

/// The widest line the command writes to a terminal.
pub const WIDTH: usize = 100;

/// A bar on stderr, where someone looks at it; nothing where nobody does.
pub fn bar() -> ProgressBar {
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

/// What `console` writes before and behind text that stands out.
const STYLES: [&str; 6] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
];

/// JSON with all control characters escaped; `serde_json` leaves some of them as they are.
fn escaped_json(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    for sign in text.chars() {
        if controls_terminal(sign) {
            json.push_str(&format!("\\u{:04x}", u32::from(sign)));
        } else {
            json.push(sign);
        }
    }
    json
}

/// Standard output.
#[derive(Debug)]
pub struct Output {
    json: bool,
    colours: bool,
}

impl Output {
    /// An output without colours if `no_color` is set, `NO_COLOR` is set and not empty, or stdout is no terminal.
    pub fn new(no_color: bool, json: bool) -> Self {
        let refused = no_color || std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        Self {
            json,
            colours: !refused && io::stdout().is_terminal(),
        }
    }

    /// Whether the user asked for data instead of text.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes text; to a terminal that shows ASCII only, as that. Control characters are escaped ([`harmless`]), but for the styles of
    /// [`strong`](Self::strong) and the like.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let text = self.escaped(text);
        stdout.write_all(legible(&text, stdout.is_terminal()).as_bytes())?;
        stdout.flush()?;
        Ok(())
    }

    /// Writes one line.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.write(&format!("{line}\n"))
    }

    /// Writes `value` as JSON, and a line break.
    ///
    /// # Errors
    /// The output cannot be written, or `value` has no form in JSON.
    pub fn data(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(|error| {
            Failure::Work(format!("cannot express the result as JSON: {error}"))
        })?;
        self.line(&escaped_json(&text))
    }

    /// Text that stands out: headings.
    pub fn strong(&self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    /// Text that may be skipped.
    pub fn faint(&self, text: &str) -> String {
        self.styled(Style::new().dim(), text)
    }

    /// Good news.
    pub fn good(&self, text: &str) -> String {
        self.styled(Style::new().green(), text)
    }

    /// News to look at.
    pub fn warning(&self, text: &str) -> String {
        self.styled(Style::new().yellow(), text)
    }

    /// Bad news.
    pub fn bad(&self, text: &str) -> String {
        self.styled(Style::new().red().bold(), text)
    }

    /// The text, with all control characters escaped but those of the styles, if this output has colours.
    fn escaped(&self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let style = STYLES.iter().find(|style| rest.starts_with(**style));
            if let Some(style) = style.filter(|_| self.colours) {
                escaped.push_str(style);
                rest = &rest[style.len()..];
            } else {
                let next = rest
                    .char_indices()
                    .find(|&(at, sign)| at > 0 && sign == '\u{1b}')
                    .map_or(rest.len(), |(at, _)| at);
                escaped.push_str(&harmless(&rest[..next]));
                rest = &rest[next..];
            }
        }
        escaped
    }

    fn styled(&self, style: Style, text: &str) -> String {
        // `force_styling` decides for this text alone: `console` would otherwise judge for itself.
        style.force_styling(self.colours).apply_to(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(colours: bool) -> Output {
        Output {
            json: false,
            colours,
        }
    }

    #[test]
    fn own_styles_reach_the_terminal_and_escape_sequences_of_others_do_not() {
        let coloured = output(true);
        let styles = [
            Output::strong,
            Output::faint,
            Output::good,
            Output::warning,
            Output::bad,
        ];
        for style in styles {
            let text = style(&coloured, "x");
            assert!(text.contains('\u{1b}'));
            assert_eq!(coloured.escaped(&text), text);
        }
        let foreign = "µ \u{1b}]0;title\u{7}\u{1b}[2J";
        let shown = "µ \\u{1b}]0;title\\u{7}\\u{1b}[2J";
        assert_eq!(coloured.escaped(foreign), shown);
        assert_eq!(output(false).escaped("\u{1b}[1mx"), "\\u{1b}[1mx");
    }

    #[test]
    fn json_has_no_control_characters_and_means_the_same() {
        let value = "\u{1b}[2J\u{9b}\u{7f}\u{202e}\n";
        let text = serde_json::to_string(value).expect("a string has a form in JSON");
        let escaped = escaped_json(&text);
        assert!(!escaped.contains(controls_terminal), "{escaped:?}");
        let read: String = serde_json::from_str(&escaped).expect("it is JSON");
        assert_eq!(read, value);
    }
}
