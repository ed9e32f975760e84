//! The report of a simulation as one page that opens anywhere: no script, no font, no image from elsewhere; light and dark, on paper and
//! on a telephone.

mod curve;
mod heat;
mod story;
mod text;

use std::fmt::Write;
use std::path::Path;

use percolog_sim::report::Summary;

use percolog_cli::destination::{Destination, SIM_MARK};
use percolog_cli::failure::Failure;
use percolog_cli::format;
use percolog_cli::html::escape;
use percolog_cli::terminal::to_stderr;
use text::{percent, time};

/// How many lines have a story; the JSON has all that were kept.
const STORIES: usize = 8;

/// Judges where a page is to go, before anything is simulated.
pub(crate) fn destination(html: Option<&Path>) -> Result<Option<Destination>, Failure> {
    html.map(Destination::page).transpose()
}

/// Writes the page, and says where it is.
pub(crate) fn write(destination: Destination, summary: &Summary) -> Result<(), Failure> {
    let path = destination.write(&html(summary))?;
    to_stderr(&format!("the page: {}\n", path.display()));
    Ok(())
}

/// The page.
fn html(summary: &Summary) -> String {
    let (machine, process) = (&summary.machine, &summary.process);
    let program = process
        .program
        .rsplit('/')
        .next()
        .unwrap_or(&process.program);
    let title = format!(
        "{program} on {}",
        format::plural(machine.cores as u64, "core")
    );
    let mut page = format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{SIM_MARK}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{}{}</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
<p class="conclusion">{}</p>
<p class="lead">Simulated: {}, {} at {} MHz; {}, {} of its time.</p>
"#,
        percolog_cli::html::STYLE,
        include_str!("page.css"),
        escape(&summary.conclusion()),
        escape(&machine.name),
        format::plural(machine.cores as u64, "core"),
        machine.megahertz,
        process.threads_of_processes(),
        time(process.elapsed_ns),
        title = escape(&title),
    );
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    if !summary.unsimulated.is_empty() {
        let _ = writeln!(
            page,
            "<p class=\"doubt\"><strong>Not simulated:</strong> {}</p>",
            escape(&summary.unsimulated.join("; "))
        );
    }
    for caveat in &summary.caveats {
        let heading = caveat.kind.heading();
        let _ = writeln!(
            page,
            "<p class=\"doubt\"><strong>{heading}:</strong> {}</p>",
            escape(&caveat.text)
        );
    }
    page.push_str("</header>\n");
    page.push_str(&cards(summary));
    if let Some(scaling) = &summary.scaling {
        page.push_str(&curve::section(scaling));
    }
    page.push_str(&heat::section(summary));
    for (index, line) in summary.culprits(STORIES).enumerate() {
        page.push_str(&story::section(index + 1, line, machine.line_size));
    }
    page.push_str(&figures(summary));
    page.push_str(&footer(summary));
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// The figures to remember.
fn cards(summary: &Summary) -> String {
    let mut cards = String::from("<div class=\"cards\">\n");
    let mut card = |class: &str, to: &str, figure: String, caption: String| {
        let _ = writeln!(
            cards,
            r##"<a class="card {class}" href="#{to}"><strong>{figure}</strong><span>{}</span></a>"##,
            escape(&caption)
        );
    };
    let scaling = summary.scaling.as_ref();
    if let Some((cores, speedup)) = scaling.and_then(|scaling| scaling.last()) {
        let fewest = scaling.and_then(|scaling| scaling.fewest()).unwrap_or(1);
        card(
            "best",
            "scaling",
            format::ratio(speedup),
            format!("as fast on {cores} cores as on {fewest}"),
        );
    } else if let Some(one) = &summary.one_core {
        card(
            "best",
            "figures",
            format::ratio(one.speedup),
            format!("as fast on {} cores as on one", summary.machine.cores),
        );
    }
    if let Some(at) = scaling.and_then(|scaling| scaling.stops_at) {
        card(
            "peer",
            "scaling",
            at.to_string(),
            "cores beyond which it hardly grows".to_owned(),
        );
    }
    card(
        "peer",
        "heat",
        percent(summary.stall_share),
        "of the time goes into waiting for lines".to_owned(),
    );
    if let Some(worst) = summary
        .culprits(1)
        .next()
        .filter(|_| summary.is_contended())
    {
        card(
            "peer",
            "line-1",
            percent(worst.share),
            format!("of the waiting is for {}", worst.name()),
        );
        if let Some(gain) = worst.gain() {
            let what = match worst.freed_with() {
                [] => "that line".to_owned(),
                _ => worst.freed(),
            };
            card(
                "best",
                "line-1",
                format::ratio(gain.speedup),
                match gain.note() {
                    Some(note) => format!("as fast if {what} cost nothing ({note})"),
                    None => format!("as fast if {what} cost nothing"),
                },
            );
        }
    }
    if let Some(per) = &summary.per_operation {
        card(
            "best",
            "figures",
            format::number(per.transfers),
            "lines go from core to core in an operation".to_owned(),
        );
    }
    cards.push_str("</div>\n");
    cards
}

/// All totals.
fn figures(summary: &Summary) -> String {
    let totals = &summary.totals;
    let per = summary.per_operation.as_ref();
    let mut section = format!(
        "<section id=\"figures\">\n<h2>The figures</h2>\n<p class=\"workload\">{}</p>\n<div class=\"scroll\"><table>\n\
         <thead><tr><th scope=\"col\"></th><th scope=\"col\">total</th><th scope=\"col\">per operation</th></tr></thead>\n<tbody>\n",
        match &summary.region {
            Some(region) => format!(
                "In the region that the program marks: {} in {}.",
                format::plural(region.operations, "operation"),
                time(region.elapsed_ns)
            ),
            None => "Of the whole run: the program marks no region.".to_owned(),
        }
    );
    let mut row = |name: &str, total: String, each: Option<f64>| {
        let _ = writeln!(
            section,
            "<tr><th scope=\"row\">{name}</th><td>{total}</td><td>{}</td></tr>",
            each.map_or_else(String::new, format::number)
        );
    };
    row(
        "transfers from core to core",
        totals.transfers.to_string(),
        per.map(|per| per.transfers),
    );
    row(
        "ownership upgrades",
        totals.upgrades.to_string(),
        per.map(|per| per.upgrades),
    );
    row(
        "copies invalidated",
        totals.invalidations.to_string(),
        per.map(|per| per.invalidations),
    );
    row(
        "cold lines from memory",
        totals.cold.to_string(),
        per.map(|per| per.cold),
    );
    row("time waiting for lines", percent(summary.stall_share), None);
    row("of it in queues", percent(summary.queue_share), None);
    row("cores at work", percent(summary.busy_share), None);
    if let Some(throughput) = summary.operations_per_ms {
        row("operations a millisecond", format::number(throughput), None);
    }
    section.push_str("</tbody></table></div>\n</section>\n");
    section
}

/// What the figures do not say.
fn footer(summary: &Summary) -> String {
    let mut footer = format!(
        "<footer>\n<h2>What this does not show</h2>\n<p>Not modelled: {}. Counts of transfers can be trusted as far as the program \
         would run the same way; times are those of a simple machine that works in order.</p>\n",
        escape(&summary.not_modelled.join(", "))
    );
    let _ = if summary.not_reproducible.is_empty() {
        writeln!(
            footer,
            "<p>Another run with this seed gives the same figures.</p>"
        )
    } else {
        writeln!(
            footer,
            "<p>Not reproducible, another run may give other figures: {}.</p>",
            escape(&summary.not_reproducible.join("; "))
        )
    };
    for warning in &summary.warnings {
        let _ = writeln!(footer, "<p>Warning: {}.</p>", escape(warning));
    }
    let _ = writeln!(
        footer,
        "<p>{} Seed {}, run-ahead {} cycles, QEMU {}, percolog {}.</p>\n</footer>",
        escape(&summary.process.program),
        summary.seed,
        summary.run_ahead,
        escape(&summary.qemu),
        env!("CARGO_PKG_VERSION"),
    );
    footer
}
