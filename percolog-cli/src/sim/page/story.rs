//! What there is to say of a contended line: the object, its bytes and who uses them, where in the program, what if, and what helps.

use std::fmt::Write;

use percolog_sim::report::{LineSummary, PlaceSummary, SpanSummary};

use super::text::{capital, percent, short};
use percolog_cli::format;
use percolog_cli::html::escape;

const WIDTH: f64 = 880.0;
const TOP: f64 = 48.0;
const BAR: f64 = 20.0;
const PITCH: f64 = 27.0;
/// The room that words beside a group of bytes need.
const WORDS: f64 = 400.0;
/// How many groups of bytes are drawn.
const SPANS: usize = 12;
/// How many places are listed.
const PLACES: usize = 8;
/// How many callers of each.
const CALLERS: usize = 3;

/// The section of the page about the `rank`-th worst line.
pub(super) fn section(rank: usize, line: &LineSummary, line_size: u64) -> String {
    let mut section = format!(
        "<section id=\"line-{rank}\">\n<h2>{rank}. {}</h2>\n<p class=\"workload\">{} of all waiting. {}; {}.</p>\n",
        escape(&line.name()),
        percent(line.share),
        escape(&capital(&line.origin())),
        escape(&line.users()),
    );
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    if let Some(gain) = line.gain() {
        let what = match line.freed_with() {
            [] => "this line".to_owned(),
            _ => line.freed(),
        };
        let _ = writeln!(
            section,
            "<p class=\"what-if\">If {what} cost nothing, the program would be <strong>{}</strong> as fast{}.{}</p>",
            format::ratio(gain.speedup),
            gain.note()
                .map_or_else(String::new, |note| format!(" ({note})")),
            free_lines(line.freed_with())
        );
    }
    if let Some(suggestion) = &line.suggestion {
        let _ = writeln!(
            section,
            "<p class=\"suggestion\">{}</p>",
            with_types(&escape(&suggestion.text))
        );
    }
    if !line.spans.is_empty() {
        let _ = writeln!(
            section,
            "<figure>\n<figcaption><span class=\"unit\">its {line_size} bytes</span><span class=\"key\"><i class=\"peer\"></i>written\
             </span><span class=\"key\"><i class=\"plain\"></i>only read</span></figcaption>\n<div class=\"chart\">{}</div>\n</figure>",
            bytes(&line.spans, line_size)
        );
    }
    if let Some(object) = &line.object
        && !object.allocated.is_empty()
    {
        section.push_str("<h3>Allocated in</h3>\n<ol class=\"calls\">\n");
        for call in object.allocated.iter().take(PLACES) {
            let _ = writeln!(
                section,
                "<li>{}</li>",
                code(&call.function, call.file.as_deref(), call.line)
            );
        }
        section.push_str("</ol>\n");
    }
    if !line.places.is_empty() {
        section.push_str(&places(&line.places));
    }
    section.push_str("</section>\n");
    section
}

/// Which lines were free, if there were several.
fn free_lines(lines: &[u64]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines
        .iter()
        .map(|line| format!("<code>{line:#x}</code>"))
        .collect();
    format!(" Free were {}.", lines.join(", "))
}

/// The bytes of the line, and below them those that are used together.
fn bytes(spans: &[SpanSummary], line_size: u64) -> String {
    let shown = spans.len().min(SPANS);
    let height = TOP + PITCH * shown as f64 + if spans.len() > shown { 20.0 } else { 4.0 };
    let x = |byte: u32| WIDTH * f64::from(byte).min(line_size as f64) / line_size as f64;
    let mut svg = format!(
        r#"<svg class="bytes" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="the bytes of the line and who uses them">"#
    );
    for word in (0..line_size).step_by(8) {
        let (left, right) = (x(word as u32), x((word + 8) as u32));
        let _ = write!(
            svg,
            r#"<rect class="word" x="{:.1}" y="20" width="{:.1}" height="{BAR}"/><text class="tick" x="{:.1}" y="14">{word}</text>"#,
            left,
            right - left,
            left + 14.0,
        );
    }
    let events: u64 = spans.iter().map(|span| span.events).sum();
    for (row, span) in spans.iter().take(shown).enumerate() {
        let (left, right) = (x(span.offset), x(span.offset.saturating_add(span.size)));
        let class = if span.writers.is_empty() {
            "plain"
        } else {
            "peer"
        };
        let y = TOP + PITCH * row as f64;
        let name = span
            .name
            .as_deref()
            .map_or_else(String::new, |name| format!(" {}", escape(&short(name, 18))));
        let share = if events > 0 {
            format!(", {}", percent(span.events as f64 / events as f64))
        } else {
            String::new()
        };
        // The words stand where there is more room; what takes up the line has them inside.
        let (words, anchor, at) = if left.max(WIDTH - right) < WORDS {
            ("words inside", "start", left + 10.0)
        } else if left < WIDTH - right {
            ("words", "start", right + 10.0)
        } else {
            ("words", "end", left - 10.0)
        };
        let _ = write!(
            svg,
            r#"<rect class="{class}" x="{left:.1}" y="20" width="{width:.1}" height="{BAR}"/><rect class="{class}" x="{left:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}" rx="2"/><text class="{words}" text-anchor="{anchor}" x="{at:.1}" y="{:.1}"><tspan class="span">{}{name}</tspan> {}{share}</text>"#,
            y + 15.0,
            span.range(),
            escape(&users(span)),
            width = (right - left).max(2.0),
        );
    }
    if spans.len() > shown {
        let _ = write!(
            svg,
            r#"<text class="words" x="{:.1}" y="{:.1}">and {} more</text>"#,
            0.0,
            height - 4.0,
            spans.len() - shown
        );
    }
    svg.push_str("</svg>");
    svg
}

fn users(span: &SpanSummary) -> String {
    let who = |cores: &[u32]| match cores {
        [core] => format!("core {core}"),
        _ => format!("{} cores", cores.len()),
    };
    match (&span.readers[..], &span.writers[..]) {
        ([], []) => "nobody".to_owned(),
        (readers, []) => format!("read by {}", who(readers)),
        ([], writers) => format!("written by {}", who(writers)),
        (readers, writers) if readers == writers => format!("read, written by {}", who(writers)),
        (readers, writers) => format!("read by {}, written by {}", who(readers), who(writers)),
    }
}

fn places(places: &[PlaceSummary]) -> String {
    let mut table = String::from(
        "<div class=\"scroll\"><table class=\"places\">\n<thead><tr><th scope=\"col\">where</th><th scope=\"col\"></th>\
         <th scope=\"col\">events</th><th scope=\"col\">of its waiting</th></tr></thead>\n<tbody>\n",
    );
    for at in places.iter().take(PLACES) {
        let place = &at.place;
        let through = at.through().map(|through| {
            format!(
                "<small>through {}</small>",
                code(&through.function, None, None)
            )
        });
        let callers = at.called_by().iter().take(CALLERS).map(|frame| {
            format!(
                "<small>called by {}</small>",
                code(&frame.function, frame.file.as_deref(), frame.line)
            )
        });
        let callers: Vec<String> = through.into_iter().chain(callers).collect();
        let _ = writeln!(
            table,
            "<tr><th scope=\"row\">{}{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            code(&place.function, place.file.as_deref(), place.line),
            callers.concat(),
            if at.write { "writes" } else { "reads" },
            at.events,
            percent(at.share)
        );
    }
    if places.len() > PLACES {
        let _ = writeln!(
            table,
            "<tr><th scope=\"row\">and {} more</th><td></td><td></td><td></td></tr>",
            places.len() - PLACES
        );
    }
    table.push_str("</tbody></table></div>\n");
    table
}

/// A function, and where its source is.
fn code(function: &str, file: Option<&str>, line: Option<u32>) -> String {
    let mut text = format!("<code>{}</code>", escape(&short(function, 90)));
    if let Some(file) = file {
        // The end of a path says most.
        let signs: Vec<char> = file.chars().collect();
        let tail: String = if signs.len() > 60 {
            std::iter::once('…')
                .chain(signs[signs.len() - 59..].iter().copied())
                .collect()
        } else {
            file.to_owned()
        };
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        let _ = write!(
            text,
            " <span class=\"source\">{}{line}</span>",
            escape(&tail)
        );
    }
    text
}

/// Names of types set as code. `text` is escaped already.
fn with_types(text: &str) -> String {
    text.split(' ')
        .map(|word| {
            let name = word.trim_matches(|sign: char| !sign.is_ascii_alphanumeric());
            match word.split_once(name) {
                Some((before, after)) if name.contains("::") => {
                    format!("{before}<code>{name}</code>{after}")
                }
                _ => word.to_owned(),
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}
