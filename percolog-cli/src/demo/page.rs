//! The page of the demonstration: one file without scripts, fonts or pictures from elsewhere; light and dark, on a telephone and on
//! paper.

use std::fmt::Write;

use super::chart;
use super::duel::{Cell, Duel};
use super::program::{self, Changed};
use super::screen::exactly;
use super::shown::Shown;
use super::simulate::{Found, Simulated};
use percolog_cli::destination::MARK;
use percolog_cli::format::{number, plural, ratio};
use percolog_cli::html::{STYLE, escape};

/// Lines of source above and below the one that was found.
const AROUND: usize = 4;

/// The page.
pub(super) fn html(shown: &Shown) -> String {
    let run = &shown.simulated;
    let mut page = format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{MARK}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Find, fix, proved</title>
<style>
{STYLE}{}</style>
</head>
<body>
<main>
<header>
<h1>One cache line stops this server. Found, fixed, proved.</h1>
<p class="lead">A small server with a worker for each core. It takes no lock, and on a laptop it scales. On {} cores it is
{} as fast as on one.</p>
"#,
        include_str!("page.css"),
        run.machine.cores,
        ratio(run.growth().0),
    );
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    if let Some(why) = &shown.stored_because {
        let _ = writeln!(
            page,
            "<p class=\"stored\"><strong>A stored run.</strong> Nothing can be simulated on this machine: {}. The simulated figures \
             were made with percolog {} and QEMU {}.</p>",
            escape(why),
            escape(&run.percolog),
            escape(&run.qemu),
        );
    }
    page.push_str("</header>\n");
    page.push_str(&cards(shown));
    page.push_str(&find(run));
    page.push_str(&fix());
    page.push_str(&proved(run));
    page.push_str(&measured(&shown.measured));
    page.push_str(&footer(shown));
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn cards(shown: &Shown) -> String {
    let mut cards = String::from("<div class=\"cards\">\n");
    for (class, to, figure, caption) in [
        (
            "peer",
            "find",
            format!("{:.0} %", shown.simulated.found.stall_share * 100.0),
            "of the time goes into waiting for cache lines",
        ),
        (
            "peer",
            "find",
            exactly(shown.foretold),
            "as fast without one line, foretold",
        ),
        (
            "best",
            "fix",
            plural(
                shown
                    .fix
                    .iter()
                    .filter(|line| line.starts_with('+'))
                    .count() as u64,
                "line",
            ),
            "of the source changed",
        ),
        (
            "best",
            "proved",
            exactly(shown.real),
            "as fast with the fix, simulated",
        ),
    ] {
        let _ = writeln!(
            cards,
            r##"<a class="card {class}" href="#{to}"><strong>{figure}</strong><span>{caption}</span></a>"##
        );
    }
    cards.push_str("</div>\n");
    cards
}

fn find(run: &Simulated) -> String {
    let found = &run.found;
    let mut section = format!(
        "<section id=\"find\">\n<h2>1. Find <small>{} of {}, simulated</small></h2>\n<p class=\"workload\">The unmodified program runs \
         under the simulator, which knows which core has which line of memory and what it costs to fetch it.</p>\n<dl>\n",
        plural(run.machine.cores as u64, "core"),
        escape(&run.machine.name),
    );
    let mut term = |name: &str, text: String| {
        let _ = writeln!(section, "<dt>{name}</dt><dd>{text}</dd>");
    };
    term(
        "The line",
        format!(
            "{}: {}. {:.0} % of all waiting is for it.",
            escape(&found.name),
            escape(&found.users),
            found.share * 100.0
        ),
    );
    term(
        "The code",
        format!(
            "<code>{}</code> in <code>{}</code>",
            escape(&found.place.shown()),
            escape(&found.place.function)
        ),
    );
    term("What helps", escape(&found.advice));
    term(
        "Foretold",
        format!(
            "<strong>{}</strong> as fast if this line cost nothing: the program was run again with the line free.",
            exactly(found.foretold)
        ),
    );
    section.push_str("</dl>\n");
    section.push_str(&source(found));
    section.push_str("</section>\n");
    section
}

/// The source around the place that was found; nothing if it is not in the file that is known.
fn source(found: &Found) -> String {
    let is_ours = found
        .place
        .file
        .as_deref()
        .is_some_and(|file| file.ends_with("before.rs"));
    let Some(hit) = found.place.line.filter(|_| is_ours) else {
        return String::new();
    };
    let hit = hit as usize;
    let mut lines = String::from("<pre>");
    for (index, line) in program::BEFORE.lines().enumerate() {
        let at = index + 1;
        if at.abs_diff(hit) <= AROUND {
            let class = if at == hit { " class=\"hit\"" } else { "" };
            let _ = write!(
                lines,
                "<span{class}><span class=\"n\">{at}</span>{}</span>",
                escape(line)
            );
        }
    }
    lines.push_str("</pre>\n");
    lines
}

fn fix() -> String {
    let mut section = String::from(
        "<section id=\"fix\">\n<h2>2. Fix</h2>\n<p class=\"workload\">The type that was suggested, in place of the one that was \
         there. Nothing else changes.</p>\n<pre>",
    );
    for changed in program::fix() {
        let (class, sign, line) = match changed {
            Changed::Removed(line) => ("gone", '-', line),
            Changed::Added(line) => ("new", '+', line),
        };
        let _ = write!(
            section,
            "<span class=\"{class}\">{sign} {}</span>",
            escape(line)
        );
    }
    section.push_str("</pre>\n</section>\n");
    section
}

fn proved(run: &Simulated) -> String {
    let (before, after) = run.growth();
    let mut section = format!(
        "<section id=\"proved\">\n<h2>3. Proved <small>on the same machine, simulated</small></h2>\n<p class=\"workload\">{} \
         foretold, <strong>{} real</strong>. {} are {} as fast as one now, and were {}.</p>\n<figure>\n<figcaption>\
         <span class=\"unit\">speed, as a multiple of one core before</span><span class=\"key\"><i class=\"best\"></i>after</span>\
         <span class=\"key\"><i class=\"peer\"></i>before</span></figcaption>\n<div class=\"chart\">{}</div>\n</figure>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">cores</th><th scope=\"col\">before<small>requests a ms</small>\
         </th><th scope=\"col\">after<small>requests a ms</small></th><th scope=\"col\">times</th></tr></thead>\n<tbody>\n",
        exactly(run.found.foretold),
        exactly(run.real()),
        plural(run.machine.cores as u64, "core"),
        ratio(after),
        ratio(before),
        chart::curves(run),
    );
    for (before, after) in run.before.iter().zip(&run.after) {
        let _ = writeln!(
            section,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            before.cores,
            number(before.per_ms),
            number(after.per_ms),
            ratio(after.per_ms / before.per_ms)
        );
    }
    section.push_str("</tbody></table></div>\n</section>\n");
    section
}

fn measured(duel: &Duel) -> String {
    let mut section = format!(
        "<section id=\"measured\">\n<h2>Measured here</h2>\n<p class=\"workload\">{}, {}: nanoseconds of a request on its thread, \
         and below them its CPU time.</p>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">threads</th>\
         <th scope=\"col\">before</th><th scope=\"col\">after</th><th scope=\"col\">times</th></tr></thead>\n<tbody>\n",
        escape(&duel.processor),
        plural(duel.cpus as u64, "CPU"),
    );
    let known = |figure: Option<f64>, show: &dyn Fn(f64) -> String| {
        figure.map_or_else(|| "unknown".to_owned(), show)
    };
    let cell = |cell: &Cell| {
        format!(
            "{}<small>{}</small>",
            number(cell.wall_ns),
            known(cell.cpu_ns, &number)
        )
    };
    for row in &duel.rows {
        let _ = writeln!(
            section,
            "<tr><th scope=\"row\">{}{}</th><td>{}</td><td>{}</td><td>{}<small>{}</small></td></tr>",
            row.threads,
            if row.is_disturbed() { " !" } else { "" },
            cell(&row.before),
            cell(&row.after),
            ratio(row.faster),
            known(row.faster_by_cpu, &ratio)
        );
    }
    section.push_str("</tbody></table></div>\n");
    if let Some(doubt) = duel.doubt() {
        let _ = writeln!(section, "<p class=\"doubt\">! {}</p>", escape(&doubt));
    }
    if duel.cpus < 8 {
        section.push_str(
            "<p class=\"note\">So few CPUs show little of it: that is why the larger machine is simulated.</p>\n",
        );
    }
    section.push_str("</section>\n");
    section
}

fn footer(shown: &Shown) -> String {
    let run = &shown.simulated;
    format!(
        "<footer>\n<p>For a program of yours: <code>percolog advise -- ./program {{n}}</code>, where <code>{{n}}</code> becomes the \
         number of cores.</p>\n<p>{} at {} MHz, QEMU {}, percolog {}. Simulated times are those of a simple model of the machine; \
         counts of transfers hold as far as the program would run the same way.</p>\n</footer>\n",
        escape(&run.machine.name),
        run.machine.megahertz,
        escape(&run.qemu),
        escape(shown.version),
    )
}

#[cfg(test)]
mod tests {
    use super::super::stored::stored;
    use super::*;

    fn shown() -> Shown {
        let simulated = stored().expect("it can be read");
        let cell = Cell {
            per_ms: 1.0,
            wall_ns: 1.0,
            cpu_ns: None,
        };
        let row = super::super::duel::Row {
            threads: 1,
            before: cell,
            after: cell,
            faster: 1.0,
            faster_by_cpu: None,
            had: Some(0.5),
        };
        Shown {
            version: "1",
            foretold: simulated.found.foretold,
            real: simulated.real(),
            simulated,
            stored_because: Some("<no QEMU>".to_owned()),
            fix: Vec::new(),
            measured: Duel {
                processor: "<b>".to_owned(),
                cpus: 1,
                rows: vec![row],
            },
        }
    }

    #[test]
    fn the_mark_is_where_it_is_looked_for() {
        let page = html(&shown());
        assert!(page.find(MARK).is_some_and(|at| at + MARK.len() < 1024));
    }

    #[test]
    fn foreign_text_is_escaped_and_a_stored_run_marked() {
        let page = html(&shown());
        assert!(page.contains("A stored run.") && page.contains("&lt;no QEMU&gt;"));
        assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"));
        assert!(page.contains("<span class=\"hit\">"));
        let mut made_here = shown();
        made_here.stored_because = None;
        assert!(!html(&made_here).contains("tored run"));
    }

    /// Nothing makes a telephone's window scroll sideways: what may be wider than it scrolls by itself.
    #[test]
    fn what_may_be_wide_scrolls_by_itself() {
        let page = html(&shown());
        assert_eq!(
            page.matches("<table").count(),
            page.matches("<div class=\"scroll\"><table").count()
        );
        assert_eq!(
            page.matches("<svg").count(),
            page.matches("<div class=\"chart\"><svg").count()
        );
        assert!(page.contains("pre { margin: .9rem 0 0; padding: 10px 0; overflow-x: auto;"));
        assert!(page.contains("svg.speed { min-width: 0;"));
    }
}
