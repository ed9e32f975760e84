//! The heat map: which core waits for which line. One colour, the stronger the longer, so that it can be read whatever colours one sees,
//! and on paper.

use std::fmt::Write;

use percolog_sim::report::{LineSummary, Summary};

use super::text::{percent, short, time};
use percolog_cli::html::escape;

const WIDTH: f64 = 880.0;
/// Where the cells begin: right of the names.
const LEFT: f64 = 216.0;
/// Where they end: left of the shares.
const RIGHT: f64 = WIDTH - 64.0;
const TOP: f64 = 24.0;
const CELL: f64 = 22.0;
const PITCH: f64 = 26.0;
/// How many lines are shown.
const LINES: usize = 16;
/// How many columns; with more cores, neighbours share one.
const COLUMNS: usize = 128;
/// Signs of a name that fit in front of the cells.
const NAME: usize = 28;

/// The section of the page; nothing if it is not known who waits.
pub(super) fn section(summary: &Summary) -> String {
    let lines: Vec<&LineSummary> = summary
        .lines
        .iter()
        .filter(|line| !line.by_core.is_empty())
        .take(LINES)
        .collect();
    if lines.is_empty() {
        return "<section id=\"heat\">\n<h2>Who waits for what</h2>\n<p class=\"workload\">No line of memory went from core to core.</p>\n\
                </section>\n"
            .to_owned();
    }
    // Without any waiting, say how often.
    let waiting = lines
        .iter()
        .any(|line| line.by_core.iter().any(|of| of.stall_ns > 0.0));
    let columns = summary.machine.cores.clamp(1, COLUMNS);
    let each = summary.machine.cores.div_ceil(columns).max(1);
    let columns = summary.machine.cores.div_ceil(each).max(1);
    let rows: Vec<Vec<f64>> = lines
        .iter()
        .map(|line| {
            let mut row = vec![0.0; columns];
            for of in &line.by_core {
                if let Some(cell) = row.get_mut(of.core as usize / each) {
                    *cell += if waiting {
                        of.stall_ns
                    } else {
                        of.events as f64
                    };
                }
            }
            row
        })
        .collect();
    let most = rows.iter().flatten().copied().fold(0.0, f64::max);
    let show = |value: f64| {
        if waiting {
            time(value)
        } else {
            format!("{value:.0} times")
        }
    };
    let step = (RIGHT - LEFT) / columns as f64;
    let gap = if step > 6.0 { 1.0 } else { 0.0 };
    let height = TOP + PITCH * lines.len() as f64 + 4.0;
    let mut svg = format!(
        r#"<svg class="heat" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="waiting by line and core">"#
    );
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    let ticks = columns.div_ceil(12).max(1);
    for column in (0..columns).step_by(ticks) {
        let _ = write!(
            svg,
            r#"<text class="tick" x="{:.1}" y="14">{}</text>"#,
            LEFT + step * (column as f64 + 0.5),
            column * each
        );
    }
    let _ = write!(
        svg,
        r#"<text class="name" x="{:.1}" y="14">core</text>"#,
        LEFT - 10.0
    );
    for (index, (line, row)) in lines.iter().zip(&rows).enumerate() {
        let y = TOP + PITCH * index as f64;
        let name = line.name();
        let _ = write!(
            svg,
            r#"<text class="name" x="{:.1}" y="{:.1}">{}<title>{}</title></text><rect class="track" x="{LEFT}" y="{y:.1}" width="{:.1}" height="{CELL}" rx="2"/>"#,
            LEFT - 10.0,
            y + 15.5,
            escape(&short(&name, NAME)),
            escape(&name),
            RIGHT - LEFT,
        );
        for (column, value) in row.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let first = column * each;
            let cores = if each == 1 {
                format!("core {first}")
            } else {
                format!("cores {first} to {}", first + each - 1)
            };
            let _ = write!(
                svg,
                r#"<rect class="cell" x="{:.2}" y="{y:.1}" width="{:.2}" height="{CELL}" fill-opacity="{:.3}"><title>{}, {cores}: {}</title></rect>"#,
                LEFT + step * column as f64,
                step - gap,
                // The eye compares lengths better than shades: what is there at all is to be seen.
                0.08 + 0.92 * (value / most).sqrt(),
                escape(&short(&name, 60)),
                show(*value),
            );
        }
        let _ = write!(
            svg,
            r#"<text class="figure" x="{:.1}" y="{:.1}">{}</text>"#,
            RIGHT + 9.0,
            y + 15.5,
            percent(line.share)
        );
    }
    svg.push_str("</svg>");
    let mut key = String::new();
    for strength in [0.0_f64, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            key,
            "<i class=\"heat\" style=\"opacity:{:.2}\"></i>",
            0.08 + 0.92 * strength.sqrt()
        );
    }
    format!(
        "<section id=\"heat\">\n<h2>Who waits for what</h2>\n<p class=\"workload\">Each row is a line of memory, each column {}; the \
         figure is the line's share of all waiting.</p>\n<figure>\n<figcaption><span class=\"unit\">{}</span>\
         <span class=\"key scale\">0 {key} {}</span></figcaption>\n<div class=\"chart\">{svg}</div>\n</figure>\n</section>\n",
        if each == 1 {
            "a core".to_owned()
        } else {
            format!("{each} cores")
        },
        if waiting {
            "time waiting"
        } else {
            "accesses that needed more than the cache"
        },
        show(most),
    )
}
