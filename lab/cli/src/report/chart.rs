//! A bar chart as inline SVG: one group of horizontal bars for each column. What was measured and what was simulated have
//! scales of their own, as they are about different machines.
//!
//! Made by hand: the page has to open without a network or a script, in light and in dark, and what a drawing
//! library would add (axes, scales, a canvas) is what a chart of nine bars does better without. Colours are classes of
//! the page's style sheet.

use std::fmt::Write;

use percolog_cli::format;
use percolog_cli::html::escape;

use crate::report::{Instrument, Role, Section};

const WIDTH: f64 = 880.0;
/// Where bars begin: right of the names.
const LEFT: f64 = 200.0;
/// Where the longest bar ends: left of the figures.
const RIGHT: f64 = WIDTH - 150.0;
const BAR: f64 = 18.0;
const BAR_PITCH: f64 = 26.0;
const GROUP_HEAD: f64 = 30.0;
const GROUP_GAP: f64 = 16.0;

/// The chart of a section.
pub(crate) fn bars(section: &Section) -> String {
    let group = GROUP_HEAD + BAR_PITCH * section.series.len() as f64 + GROUP_GAP;
    let height = group * section.columns.len() as f64 - GROUP_GAP;

    let mut svg = String::new();
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    let _ = write!(
        svg,
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}, {}">"#,
        escape(section.title),
        escape(section.unit.label)
    );
    for (column, found) in section.columns.iter().enumerate() {
        let longest = longest(section, &found.instrument);
        let x = |rate: f64| LEFT + (RIGHT - LEFT) * (rate / longest).clamp(0.0, 1.0);
        let top = group * column as f64;
        let _ = write!(
            svg,
            r#"<text class="group" x="0" y="{:.1}">{}</text><line class="rule" x1="0" x2="{WIDTH}" y1="{:.1}" y2="{:.1}"/>"#,
            top + 16.0,
            escape(&found.label()),
            top + 23.0,
            top + 23.0,
        );
        for (row, series) in section.series.iter().enumerate() {
            let rate = series.rates[column];
            let y = top + GROUP_HEAD + BAR_PITCH * row as f64;
            let middle = y + BAR / 2.0;
            let baseline = y + BAR - 4.5;
            let end = x(rate.median);
            let _ = write!(
                svg,
                r#"<text class="name" x="{:.1}" y="{baseline:.1}">{}</text>"#,
                LEFT - 10.0,
                escape(series.name)
            );
            let _ = write!(
                svg,
                r#"<rect class="{}" x="{LEFT}" y="{y:.1}" width="{:.1}" height="{BAR}" rx="2"><title>{}: {} ({} to {}) {}</title></rect>"#,
                class(series.role),
                (end - LEFT).max(1.0),
                escape(series.name),
                format::number(section.unit.of(rate.median)),
                format::number(section.unit.of(rate.slowest)),
                format::number(section.unit.of(rate.fastest)),
                escape(section.unit.label),
            );
            let (slowest, fastest) = (x(rate.slowest), x(rate.fastest));
            if rate.has_spread() {
                let _ = write!(
                    svg,
                    r#"<path class="spread" d="M{slowest:.1} {middle:.1}H{fastest:.1}M{slowest:.1} {:.1}v6M{fastest:.1} {:.1}v6"/>"#,
                    middle - 3.0,
                    middle - 3.0,
                );
            }
            let _ = write!(
                svg,
                r#"<text class="figure" x="{:.1}" y="{baseline:.1}">{}"#,
                fastest.max(end) + 9.0,
                format::number(section.unit.of(rate.median)),
            );
            if series.role != Role::Today {
                let _ = write!(
                    svg,
                    r#"<tspan class="ratio" dx="8">{}</tspan>"#,
                    format::ratio(section.ratio(row, column))
                );
            }
            svg.push_str("</text>");
        }
    }
    svg.push_str("</svg>");
    svg
}

/// The fastest of all that was found with one instrument: its bar is the longest.
fn longest(section: &Section, instrument: &Instrument) -> f64 {
    let columns = section.columns.iter().enumerate();
    columns
        .filter(|(_, column)| column.instrument == *instrument)
        .flat_map(|(column, _)| {
            section
                .series
                .iter()
                .map(move |series| series.rates[column])
        })
        .map(|rate| rate.fastest)
        .fold(f64::MIN_POSITIVE, f64::max)
}

/// The style sheet's class for a role.
pub(crate) fn class(role: Role) -> &'static str {
    match role {
        Role::Today => "today",
        Role::Plain => "plain",
        Role::Best => "best",
        Role::Peer => "peer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::examples;

    #[test]
    fn a_chart_has_one_bar_a_figure_inside_its_frame() {
        let section = examples::section();
        let svg = bars(&section);
        assert_eq!(svg.matches("<rect").count(), 9);
        assert_eq!(svg.matches("class=\"spread\"").count(), 9);
        assert_eq!(svg.matches("class=\"ratio\"").count(), 6);
        assert!(svg.contains("A &lt;counter&gt;") && !svg.contains("<counter>"));
        for part in svg.split(" x=\"").skip(1) {
            let x: f64 = part
                .split('"')
                .next()
                .expect("an attribute ends")
                .parse()
                .expect("x is a number");
            assert!((0.0..WIDTH).contains(&x), "{x}");
        }
    }

    #[test]
    fn the_longest_bar_belongs_to_the_fastest() {
        let section = examples::section();
        let svg = bars(&section);
        let widths: Vec<f64> = svg
            .split("width=\"")
            .skip(1)
            .map(|part| {
                let end = part.find('"').expect("an attribute ends");
                part[..end].parse().expect("a width is a number")
            })
            .collect();
        let longest = widths.iter().copied().fold(0.0, f64::max);
        // Second group (2 threads), second bar (Counter).
        assert_eq!(widths[4], longest);
    }
}
