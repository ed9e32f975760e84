//! What has changed between two reports, as text.

use std::fmt::Write as _;

use super::words::{cut, decimals, paragraph, percent, time};

use crate::report::diff::{Change, Difference, LineFigures};

/// How many lines are shown.
const LINES: usize = 12;

impl Difference {
    /// The difference as text: lines of at most 100 columns, without colours.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        paragraph(&mut text, &self.verdict, "  ");
        for doubt in &self.doubts {
            paragraph(&mut text, &format!("but {doubt}"), "  ");
        }
        let _ = writeln!(
            text,
            "\n{:<40}{:>14}{:>14}{:>14}",
            "", "before", "after", "ratio"
        );
        for figure in &self.figures {
            let share = figure.name.starts_with("share");
            let show = |value: f64| {
                if share {
                    percent(value)
                } else {
                    decimals(value)
                }
            };
            let _ = writeln!(
                text,
                "{:<40}{:>14}{:>14}{:>14}",
                figure.name,
                show(figure.before),
                show(figure.after),
                ratio(figure.before, figure.after)
            );
        }
        if self.lines.is_empty() {
            return text;
        }
        let _ = writeln!(
            text,
            "\n{:<40}{:>18}{:>22}{:>14}",
            "lines of memory", "share of waiting", "waiting", ""
        );
        for line in self.lines.iter().take(LINES) {
            let both = |show: &dyn Fn(&LineFigures) -> String| {
                let of = |figures: &Option<LineFigures>| {
                    figures.as_ref().map_or_else(|| "-".to_owned(), show)
                };
                format!("{} → {}", of(&line.before), of(&line.after))
            };
            let _ = writeln!(
                text,
                "{:<40}{:>18}{:>22}{:>14}",
                cut(&line.name, 39),
                both(&|figures| percent(figures.share)),
                both(&|figures| time(figures.waiting_ns)),
                match line.change {
                    Change::Less => "less",
                    Change::More => "MORE",
                    Change::Appeared => "APPEARED",
                    Change::Disappeared => "gone",
                    Change::Same => "same",
                },
            );
        }
        if self.lines.len() > LINES {
            let _ = writeln!(text, "and {} more", self.lines.len() - LINES);
        }
        text
    }
}

fn ratio(before: f64, after: f64) -> String {
    if before > 0.0 {
        format!("× {}", decimals(after / before))
    } else {
        String::new()
    }
}
