//! The report as one page that opens anywhere: no script, no font, no image from elsewhere; light and dark.

use std::fmt::Write;

use percolog_cli::format;
use percolog_cli::html::{STYLE, escape};

use super::chart::{self, class};
use crate::report::{Report, Role, Section};

/// How figures were found that were not measured.
fn how_simulated(report: &Report) -> String {
    let machines = report.simulated();
    let described = machines
        .iter()
        .flat_map(|machine| percolog_sim::machine::load(machine));
    let mut left_out: Vec<_> = described
        .flat_map(|described| percolog_sim::machine::not_modelled(&described.machine))
        .collect();
    left_out.sort_unstable();
    left_out.dedup();
    format!(
        "<h2>How this was simulated</h2>
<p>The same compiled program, on the described machine: each thread is a core with a clock of its own, and each access to memory goes
through a model of that machine's caches, in the order of simulated time. Not modelled: {}. Such figures are the same in every run. They
show which structures lose their speed to cache lines that move, and roughly how much; a factor of two from the real machine is
possible.</p>
",
        escape(&left_out.join(", "))
    )
}

/// The page of a report.
pub(crate) fn html(report: &Report) -> String {
    let machine = &report.machine;
    let mut page = format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="lab replay">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}</title>
<style>
{}</style>
</head>
<body>
<main>
<header>
<h1>{}</h1>
<p class="lead">{}Measured on this machine: {}, {}, {}.{}</p>
</header>
"#,
        escape(report.title),
        STYLE,
        escape(report.title),
        match report.subject.as_str() {
            "" => String::new(),
            subject => format!("{}.<br>", escape(subject)),
        },
        escape(&machine.processor),
        format::plural(machine.cpus as u64, "CPU"),
        escape(&machine.platform),
        match report.simulated().as_slice() {
            [] => String::new(),
            machines => format!(" Simulated, as marked: {}.", escape(&machines.join(", "))),
        },
    );
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    page.push_str("<div class=\"cards\">\n");
    for section in &report.sections {
        if let Some(headline) = &section.headline {
            let _ = writeln!(
                page,
                r##"<a class="card {}" href="#{}"><strong>{}</strong><span>{}</span></a>"##,
                class(headline.role),
                section.name,
                format::ratio(headline.ratio),
                escape(&headline.caption),
            );
        }
    }
    page.push_str("</div>\n");
    for section in &report.sections {
        page.push_str(&part(section));
    }
    let _ = write!(
        page,
        r#"<footer>
<h2>How this was measured</h2>
<p>Real threads on this machine; every structure got the same stream of operations in the same run. All threads start together, and
the final read that brings the state together is part of the time. Each figure is the median of {} of {} ms (one,
where threads have to take turns on the CPUs); the thin line on a bar goes from the slowest to the fastest. Every final state was checked: a structure that lost an update would
have no figure here. Figures from {} say nothing about machines with more of them.</p>
{}<p>Slots: {}. Clock: {}. percolog {}.</p>
</footer>
</main>
</body>
</html>
"#,
        format::plural(report.cells as u64, "measurement"),
        report.cell_milliseconds,
        format::plural(machine.cpus as u64, "CPU"),
        if report.simulated().is_empty() {
            String::new()
        } else {
            how_simulated(report)
        },
        escape(&machine.slots),
        escape(&machine.clock),
        escape(report.version),
    );
    page
}

fn part(section: &Section) -> String {
    let mut part = format!(
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"workload\">{}</p>\n",
        section.name,
        escape(section.title),
        escape(section.workload)
    );
    part.push_str("<ul class=\"findings\">\n");
    for finding in &section.findings {
        let _ = writeln!(part, "<li>{}</li>", escape(finding));
    }
    part.push_str("</ul>\n");
    let _ = write!(
        part,
        "<figure>\n<figcaption><span class=\"unit\">{}</span>",
        escape(section.unit.label)
    );
    for series in &section.series {
        let _ = write!(
            part,
            r#"<span class="key"><i class="{}"></i>{}</span>"#,
            class(series.role),
            escape(series.name)
        );
    }
    let _ = write!(
        part,
        "</figcaption>\n<div class=\"chart\">{}</div>\n</figure>\n<details><summary>The figures</summary>\n{}</details>\n</section>\n",
        chart::bars(section),
        table(section)
    );
    part
}

fn table(section: &Section) -> String {
    let mut table =
        String::from("<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Structure</th>");
    for column in &section.columns {
        let _ = write!(
            table,
            "<th scope=\"col\" colspan=\"2\">{}</th>",
            escape(&column.label())
        );
    }
    table.push_str("</tr></thead>\n<tbody>\n");
    for (row, series) in section.series.iter().enumerate() {
        let _ = write!(table, "<tr><th scope=\"row\">{}</th>", escape(series.name));
        for (column, rate) in series.rates.iter().enumerate() {
            let ratio = if series.role == Role::Today {
                String::new()
            } else {
                format::ratio(section.ratio(row, column))
            };
            let spread = if rate.has_spread() {
                format!(
                    "<small>{} – {}</small>",
                    format::number(section.unit.of(rate.slowest)),
                    format::number(section.unit.of(rate.fastest))
                )
            } else {
                String::new()
            };
            let _ = write!(
                table,
                "<td>{}{spread}</td><td class=\"ratio\">{ratio}</td>",
                format::number(section.unit.of(rate.median)),
            );
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody></table></div>\n");
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::examples;

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let page = html(&examples::report());
        for outside in [
            "http:", "https:", "<script", "src=", "url(", "@import", "<link",
        ] {
            assert!(!page.contains(outside), "the page contains {outside}");
        }
        assert!(page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn what_is_shown_is_escaped() {
        let page = html(&examples::report());
        assert!(page.contains("A &quot;processor&quot; &amp; more"));
        assert!(page.contains("It is &lt; faster &gt; by far."));
        assert!(!page.contains("<counter>"));
    }

    #[test]
    fn every_figure_is_in_the_table() {
        let table = table(&examples::section());
        assert_eq!(table.matches("<td>").count(), 9);
        assert!(
            table.contains("<td>1600<small>1440 – 1920</small></td><td class=\"ratio\">4.0×</td>")
        );
    }
}
