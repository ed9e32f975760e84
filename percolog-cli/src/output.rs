//! Where the command writes: stdout, without panicking when its reader goes away, with colours only where they are
//! wanted.

use std::io::{self, IsTerminal, Write};

use console::Style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::terminal::legible;

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

    /// Writes text as it is; to a terminal that shows ASCII only, as that.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(legible(text, stdout.is_terminal()).as_bytes())?;
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
        self.line(&text)
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

    fn styled(&self, style: Style, text: &str) -> String {
        // `force_styling` decides for this text alone: `console` would otherwise judge for itself.
        style.force_styling(self.colours).apply_to(text).to_string()
    }
}
