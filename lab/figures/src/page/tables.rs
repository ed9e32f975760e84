//! What is not one figure's: how the simulator agrees with this machine, what it takes to use each structure, what is missing, and what made it.

use std::fmt::Write;

use percolog_papers::subsystem::{Implementation, Subsystem, sources};

use super::chart::short;
use super::{escape, times};
use crate::findings::{Shown, agreements};

/// Ratios that were measured and simulated.
pub(super) fn fidelity(shown: &[Shown]) -> String {
    let agreements = agreements(shown);
    if agreements.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<section id=\"fidelity\">\n<h3>Does the simulator agree with this machine?</h3>\n<p class=\"about\">Wherever the same cell was measured here and simulated: how many \
         times as fast a structure is as another on as many threads, both ways. The simulated machine is another than this one, so the values themselves need not agree.</p>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Workload</th><th scope=\"col\">threads</th><th scope=\"col\">measured</th><th scope=\"col\">simulated</th>\
         <th scope=\"col\">ratio measured</th><th scope=\"col\">simulated</th><th scope=\"col\">error</th></tr></thead>\n<tbody>\n",
    );
    for one in agreements {
        // Writing to a String cannot fail: `let _` drops a result that is always Ok.
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}: {} / {} <small>{}</small></th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:+.0} %</td></tr>",
            escape(&one.title),
            escape(&one.contender),
            escape(&one.reference),
            escape(&one.machine),
            one.threads,
            short(one.measured.0),
            short(one.simulated.0),
            times(one.measured.1),
            times(one.simulated.1),
            100.0 * one.error(),
        );
    }
    text.push_str("</tbody></table></div>\n</section>\n");
    text
}

/// How many lines of code each implementation of the papers' subsystems has.
pub(super) fn effort() -> String {
    let lines =
        |subsystem| move |made_of: &Implementation| sources::lines_of_code(subsystem, *made_of);
    let subsystems: Vec<Subsystem> = Subsystem::ALL
        .into_iter()
        .filter(|subsystem| {
            Implementation::ALL
                .iter()
                .any(|one| lines(*subsystem)(one).is_some())
        })
        .collect();
    let mut text = String::from(
        "<section id=\"effort\">\n<h3>What it takes to write</h3>\n<p class=\"about\">The same subsystem made in each way: lines of code, without blank lines, comments and \
         tests, and without the plain structure inside and the libraries it stands on.</p>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">made of</th>",
    );
    for subsystem in &subsystems {
        // Writing to a String cannot fail: `let _` drops a result that is always Ok.
        let _ = write!(text, "<th scope=\"col\">{}</th>", escape(subsystem.title()));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for made_of in Implementation::ALL {
        let counts: Vec<Option<usize>> = subsystems
            .iter()
            .map(|subsystem| lines(*subsystem)(&made_of))
            .collect();
        if counts.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(
            text,
            "<tr><th scope=\"row\">{}</th>",
            escape(made_of.name())
        );
        for count in counts {
            let cell = count.map_or_else(|| "—".to_owned(), |count| count.to_string());
            let _ = write!(text, "<td>{cell}</td>");
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n</section>\n");
    text
}

/// What could not be made, and why.
pub(super) fn missing(shown: &[Shown]) -> String {
    let mut rows: Vec<(String, String, String)> = Vec::new();
    for one in shown {
        for series in one.series() {
            for why in &series.failures {
                let row = (
                    one.figure.title.clone(),
                    series.contender.name.clone(),
                    (*why).to_owned(),
                );
                rows.push(row);
            }
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<section id=\"missing\">\n<h3>What is missing</h3>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Figure</th><th scope=\"col\">of</th>\
         <th scope=\"col\">why</th></tr></thead>\n<tbody>\n",
    );
    for (title, name, why) in rows {
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"why\">{}</td></tr>",
            escape(&title),
            escape(&name),
            escape(&why)
        );
    }
    text.push_str("</tbody></table></div>\n</section>\n");
    text
}

/// What made the figures, and where.
pub(super) fn made(shown: &[Shown]) -> String {
    let mut made: Vec<String> = Vec::new();
    let mut seconds = 0.0;
    for one in shown {
        let (build, host) = (&one.results.build, &one.results.host);
        let line = format!(
            "percolog {} ({}{}), {}; {}, {} processors, {}, kernel {}; seed {}; {} run",
            build.version,
            build.commit,
            if build.optimized {
                ""
            } else {
                ", not optimized"
            },
            build.toolchain,
            host.processor,
            host.processors,
            host.platform,
            host.kernel,
            one.results.seed,
            one.results.size,
        );
        if !made.contains(&line) {
            made.push(line);
        }
        seconds += one
            .results
            .cells
            .iter()
            .map(|found| found.seconds)
            .sum::<f64>();
    }
    let mut text = String::from("<footer>\n<h3>Made by</h3>\n<ul>\n");
    for line in made {
        let _ = writeln!(text, "<li>{}</li>", escape(&line));
    }
    let _ = write!(
        text,
        "</ul>\n<p>{} figures, {:.0} minutes. Measured numbers are medians of the repetitions, with the least and the most beside them; each repetition is a process of its own. \
         Rates are of threads that go on as fast as they can; percentiles of latency are of every operation, and where operations are due at fixed times, from the \
         moment at which each was due. Simulated numbers are of one run, which is the same each time: the machine is a model of caches that fetch lines \
         from each other, without prefetching or more than one miss at a time.</p>\n</footer>\n",
        shown.len(),
        (seconds / 60.0).ceil()
    );
    text
}
