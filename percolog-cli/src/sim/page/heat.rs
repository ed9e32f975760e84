//! The heat map: which core waits for which line. One colour, the stronger the longer, so that it can be read whatever colours one sees,
//! and on paper.

use std::fmt::Write;

use percolog_sim::report::{LineSummary, Summary};

use super::text::{capital, percent, short, time};
use percolog_cli::html::escape;

/// Units across all cells of a row; a row is as wide as the page.
const WIDTH: f64 = 880.0;
/// Units from its upper to its lower edge.
const CELL: f64 = 22.0;
/// How many lines are shown.
const LINES: usize = 16;
/// How many columns; with more cores, neighbours share one.
const COLUMNS: usize = 128;
/// The section of the page; nothing if it is not known who waits.
pub(super) fn section(summary: &Summary) -> String {
    let lines: Vec<&LineSummary> = summary
        .lines
        .iter()
        .filter(|line| !line.by_core.is_empty())
        .take(LINES)
        .collect();
    if lines.is_empty() {
        return format!(
            "<section id=\"heat\">\n<h2>Who waits for what</h2>\n<p class=\"workload\">{}.</p>\n</section>\n",
            escape(&capital(&summary.nothing_moved()))
        );
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
    let step = WIDTH / columns as f64;
    let gap = if step > 6.0 { 1.0 } else { 0.0 };
    // Names and figures are text of the page, not of a picture: they keep their size however narrow the page is.
    let mut map = String::from(
        "<div class=\"heat\" role=\"img\" aria-label=\"waiting by line and core\">\n<div class=\"ticks\">core",
    );
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    for column in (0..columns).step_by(columns.div_ceil(8).max(1)) {
        let _ = write!(
            map,
            r#"<span style="left:{:.2}%">{}</span>"#,
            (column as f64 + 0.5) / columns as f64 * 100.0,
            column * each
        );
    }
    map.push_str("</div>\n");
    for (line, row) in lines.iter().zip(&rows) {
        let name = line.name();
        let _ = write!(
            map,
            r#"<div class="row"><span>{}</span><strong>{}</strong></div><svg class="cells" viewBox="0 0 {WIDTH} {CELL}" preserveAspectRatio="none"><rect class="track" width="{WIDTH}" height="{CELL}"/>"#,
            escape(&name),
            percent(line.share)
        );
        for (column, value) in row.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let first = column * each;
            let cores = if each == 1 {
                format!("core {first}")
            } else {
                format!("cores {first} to {}", first + each - 1)
            };
            let _ = write!(
                map,
                r#"<rect class="cell" x="{:.2}" width="{:.2}" height="{CELL}" fill-opacity="{:.3}"><title>{}, {cores}: {}</title></rect>"#,
                step * column as f64,
                step - gap,
                // The eye compares lengths better than shades: what is there at all is to be seen.
                0.08 + 0.92 * (value / most).sqrt(),
                escape(&short(&name, 60)),
                show(*value),
            );
        }
        map.push_str("</svg>\n");
    }
    map.push_str("</div>");
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
         <span class=\"key scale\">0 {key} {}</span></figcaption>\n{map}\n</figure>\n</section>\n",
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
