//! The figure as one page that opens anywhere, in the style of the other reports.

use std::fmt::Write;

use super::log_memory::{LogMemoryFigure, count, size};
use crate::format;
use crate::report::chart::{class, escape};
use crate::report::destination::MARK;

const WIDTH: f64 = 880.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = WIDTH - 220.0;
const PITCH: f64 = 30.0;

/// The page.
pub(super) fn html(figure: &LogMemoryFigure) -> String {
    let machine = &figure.machine;
    let mut page = format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{MARK}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Memory of lent logs</title>
<style>
{}</style>
</head>
<body>
<main>
<header>
<h1>What millions of objects take of memory</h1>
<p class="lead">{} objects with a counter each, on {} cores ({}).<br>Measured on this machine: {}, {}.</p>
</header>
<section>
<ul class="findings">
"#,
        include_str!("../report/page.css"),
        count(figure.objects),
        figure.cores,
        escape(figure.figure),
        escape(&machine.processor),
        escape(&machine.platform),
    );
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    for finding in figure.findings() {
        let _ = writeln!(page, "<li>{}</li>", escape(&finding));
    }
    let _ = write!(
        page,
        "</ul>\n<figure>\n<figcaption><span class=\"unit\">resident bytes an object</span></figcaption>\n<div class=\"chart\">{}</div>\n</figure>\n",
        bars(figure)
    );
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Counter</th><th scope=\"col\">An object</th><th scope=\"col\">Resident</th><th scope=\"col\">Each</th><th scope=\"col\">In the thesis</th></tr></thead>\n<tbody>\n");
    for row in &figure.rows {
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{} bytes</td><td>{}</td><td>{:.1} bytes</td><td>{} bytes</td></tr>",
            escape(row.name),
            row.found.object_bytes,
            size(row.found.resident_bytes),
            row.bytes_per_object,
            row.thesis_bytes,
        );
    }
    let _ = write!(
        page,
        r"</tbody></table></div>
</section>
<footer>
<h2>How this was measured</h2>
<p>Each kind was allocated in a process of its own, object by object, and each object was updated once, in turn for all cores. What is
shown is by how much the memory grew that the kernel says the process really has: what the allocator adds is in it, and so are the cache's tables and
logs. The table that keeps the objects is not.</p>
<p>percolog {}.</p>
</footer>
</main>
</body>
</html>
",
        escape(figure.version)
    );
    page
}

fn bars(figure: &LogMemoryFigure) -> String {
    let longest = figure
        .rows
        .iter()
        .map(|row| row.bytes_per_object)
        .fold(f64::MIN_POSITIVE, f64::max);
    let height = PITCH * figure.rows.len() as f64;
    let mut svg = format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="resident bytes an object">"#
    );
    for (at, row) in figure.rows.iter().enumerate() {
        let top = PITCH * at as f64;
        let length = (RIGHT - LEFT) * (row.bytes_per_object / longest).clamp(0.0, 1.0);
        let _ = write!(
            svg,
            r#"<text class="name" x="{:.1}" y="{:.1}">{}</text><rect class="{}" x="{LEFT}" y="{top:.1}" width="{:.1}" height="20" rx="2"/><text class="figure" x="{:.1}" y="{:.1}">{}</text>"#,
            LEFT - 10.0,
            top + 15.0,
            escape(row.name),
            class(row.role),
            length.max(1.0),
            LEFT + length + 9.0,
            top + 15.0,
            format::number(row.bytes_per_object),
        );
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::super::log_memory::tests::figure;
    use super::*;

    #[test]
    fn a_page_has_a_bar_and_a_row_for_each_kind_and_needs_nothing_from_elsewhere() {
        let page = html(&figure());
        assert_eq!(page.matches("<rect ").count(), 3);
        assert_eq!(page.matches("<tr><th scope=\"row\">").count(), 3);
        assert!(page.contains("figure &lt;8-5&gt;"));
        for outside in ["http://", "https://", "<script", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.find(MARK).expect("the mark is there") + MARK.len() < 1024);
    }
}
