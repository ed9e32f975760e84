//! A section on the terminal: a table with ratios, and the sentences under it.

use percolog_cli::format::{self, left, right, wrap};
use percolog_cli::output::{Output, WIDTH};

use super::{Role, Section};

/// A column of figures with the space before them.
const FIGURE: usize = 12;
/// The same with its ratios behind: `     123456  12.3×`.
const COLUMN: usize = FIGURE + 8;

/// A section as text of at most `WIDTH` columns.
pub(crate) fn section(output: &Output, section: &Section) -> String {
    let names = section
        .series
        .iter()
        .map(|series| console::measure_text_width(series.name))
        .max()
        .unwrap_or(0)
        + 2;
    let mut text = format!(
        "{}\n{}\n\n",
        output.strong(section.title),
        wrap(section.workload, "")
    );
    let columns: Vec<usize> = (0..section.columns.len()).collect();
    let both = section.simulated_column().is_some();
    // As many columns as fit side by side; the others below them.
    for some in columns.chunks(((WIDTH - names) / COLUMN).max(1)) {
        // Where there are two instruments, each figure says which is its own.
        if both {
            text.push_str(&head(output, names, some, |column| {
                if section.columns[column].is_measured() {
                    "measured".to_owned()
                } else {
                    "simulated".to_owned()
                }
            }));
        }
        text.push_str(&head(output, names, some, |column| {
            section.columns[column].size()
        }));
        for (row, series) in section.series.iter().enumerate() {
            let mut line = left(series.name, names);
            for &column in some {
                line.push_str(&cell(output, section, row, column));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text.push_str(&output.faint(&format!(
        "({}; × against the first row)",
        section.unit.label
    )));
    text.push('\n');
    text.push('\n');
    for finding in &section.findings {
        let wrapped = wrap(finding, "  ");
        text.push_str(&wrapped.replacen("  ", "• ", 1));
        text.push('\n');
    }
    text.push('\n');
    text
}

/// A line above the figures of `columns`.
fn head(output: &Output, names: usize, columns: &[usize], of: impl Fn(usize) -> String) -> String {
    let mut line = left("", names);
    for &column in columns {
        line.push_str(&right(&of(column), FIGURE));
        line.push_str(&" ".repeat(COLUMN - FIGURE));
    }
    format!("{}\n", output.faint(line.trim_end()))
}

fn cell(output: &Output, section: &Section, row: usize, column: usize) -> String {
    let figure = right(
        &format::number(section.unit.of(section.rate(row, column))),
        FIGURE,
    );
    if section.series[row].role == Role::Today {
        return left(&figure, COLUMN);
    }
    let ratio = section.ratio(row, column);
    let shown = right(&format::ratio(ratio), COLUMN - FIGURE);
    let shown = if ratio >= 1.05 {
        output.good(&shown)
    } else if ratio < 0.95 {
        output.bad(&shown)
    } else {
        shown
    };
    format!("{figure}{shown}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Column, examples};

    #[test]
    fn a_section_fits_the_terminal() {
        let output = Output::new(true, false);
        let mut wide = examples::section();
        wide.columns = [1, 2, 4, 8, 16, 32, 64].map(Column::measured).to_vec();
        for series in &mut wide.series {
            series.rates = vec![series.rates[0]; 7];
        }
        for text in [
            section(&output, &examples::section()),
            section(&output, &wide),
        ] {
            for line in text.lines() {
                assert!(console::measure_text_width(line) <= WIDTH, "{line}");
            }
        }
        // Every number of threads has a figure, also those that did not fit side by side.
        assert_eq!(section(&output, &wide).matches(" 200").count(), 7);
    }

    #[test]
    fn ratios_stand_behind_what_is_compared() {
        let output = Output::new(true, false);
        let text = section(&output, &examples::section());
        let line = text
            .lines()
            .find(|line| line.starts_with("percolog Counter"))
            .expect("a row of its own");
        assert_eq!(line.matches("4.0×").count(), 3, "{line}");
    }
}
