//! What the text says of the inside of a line: how it is shared, which bytes, and what if it cost nothing.

use super::findings::{SpanSummary, Verdict};
use super::summary::LineSummary;
use super::text::{decimals, grouped, noted, plural, time};

/// How many spans the text shows; the JSON has all that were kept.
const SPANS: usize = 4;

/// The lines about one line of memory, without their indent.
pub(super) fn of_line(line: &LineSummary, reproducible: bool) -> Vec<String> {
    let mut text = Vec::new();
    text.extend(verdict(line));
    if !line.spans.is_empty() {
        text.push(spans(&line.spans));
    }
    text.extend(gain(line, reproducible));
    text
}

fn verdict(line: &LineSummary) -> Option<String> {
    let name = match line.sharing.verdict {
        Verdict::True => "true sharing",
        Verdict::False => "false sharing",
        Verdict::Mixed => "true and false sharing",
        Verdict::Unknown => return None,
    };
    Some(format!(
        "{name}: came {} for what others had written, {} only for its other bytes",
        plural(line.sharing.true_events, "time"),
        plural(line.sharing.false_events, "time"),
    ))
}

fn spans(spans: &[SpanSummary]) -> String {
    let mut worst: Vec<&SpanSummary> = spans.iter().collect();
    worst.sort_by_key(|span| (std::cmp::Reverse(span.events), span.offset, span.size));
    worst.truncate(SPANS);
    worst.sort_by_key(|span| (span.offset, span.size));
    let mut parts: Vec<String> = worst.iter().map(|span| of_span(span)).collect();
    if spans.len() > worst.len() {
        parts.push(format!("{} more", spans.len() - worst.len()));
    }
    format!("used: {}", parts.join("; "))
}

fn of_span(span: &SpanSummary) -> String {
    let last = span.offset + span.size.max(1) - 1;
    let bytes = if last == span.offset {
        format!("byte {last}")
    } else {
        format!("bytes {}-{last}", span.offset)
    };
    let name = span
        .name
        .as_ref()
        .map_or_else(String::new, |name| format!(" ({name})"));
    let by = |verb: &str, cores: &[u32]| match cores {
        [] => None,
        [core] => Some(format!("{verb} by core {core}")),
        _ => Some(format!("{verb} by {} cores", grouped(cores.len() as u64))),
    };
    let uses: Vec<String> = [by("written", &span.writers), by("read", &span.readers)]
        .into_iter()
        .flatten()
        .collect();
    format!("{bytes}{name}: {}", uses.join(", "))
}

fn gain(line: &LineSummary, reproducible: bool) -> Option<String> {
    let gain = line.gain()?;
    let doubt = if reproducible {
        ""
    } else {
        "; not reproducible, so another run may give another figure"
    };
    let lines: Vec<String> = line
        .freed_with()
        .iter()
        .map(|line| format!("{line:#x}"))
        .collect();
    let which = if lines.is_empty() {
        String::new()
    } else {
        format!("; free were {}", lines.join(", "))
    };
    Some(format!(
        "what if {} cost nothing: {} times as fast ({}){doubt}{}{which}",
        line.freed(),
        decimals(gain.speedup),
        time(gain.elapsed_ns),
        noted("; ", gain),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::findings::{ObjectWhatIf, WhatIf};
    use super::*;

    fn span(offset: u32, size: u32, writers: &[u32], readers: &[u32], events: u64) -> SpanSummary {
        SpanSummary {
            offset,
            size,
            readers: readers.to_vec(),
            writers: writers.to_vec(),
            events,
            name: None,
        }
    }

    #[test]
    fn the_worst_spans_are_shown_in_the_order_of_their_places() {
        assert_eq!(
            spans(&[
                span(0, 8, &[0, 1], &[0], 100),
                span(8, 4, &[], &[2], 1),
                span(16, 1, &[3], &[], 90),
                span(20, 4, &[3], &[], 2),
                span(56, 8, &[], &[4, 5, 6], 300),
                span(60, 4, &[], &[4], 2),
            ]),
            "used: bytes 0-7: written by 2 cores, read by core 0; byte 16: written by core 3; \
             bytes 20-23: written by core 3; bytes 56-63: read by 3 cores; 2 more"
        );
    }

    #[test]
    fn a_gain_that_may_not_come_again_says_so() {
        let what_if = WhatIf {
            speedup: 3.21,
            elapsed_ns: 1500.0,
            never_held: false,
        };
        let mut line = LineSummary {
            what_if: Some(what_if),
            ..LineSummary::default()
        };
        let said =
            |line: &LineSummary, reproducible| gain(line, reproducible).expect("there is a gain");
        assert_eq!(
            said(&line, true),
            "what if it cost nothing: 3.21 times as fast (1.50 µs)"
        );
        assert!(said(&line, false).contains("not reproducible"));
        line.what_if = None;
        assert_eq!(gain(&line, true), None);
        line.what_if_object = Some(ObjectWhatIf {
            gain: what_if,
            lines: vec![64, 128],
        });
        assert_eq!(
            said(&line, true),
            "what if its 2 contended lines cost nothing: 3.21 times as fast (1.50 µs); free were 0x40, 0x80"
        );
    }
}
