//! Numbers, places and paragraphs as people read them.

use super::WIDTH;
use crate::report::summary::ProcessSummary;
use crate::symbols::Place;

pub(super) fn place(place: &Place) -> String {
    match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{} ({}:{line})", place.function, tail(file, 50)),
        (Some(file), None) => format!("{} ({})", place.function, tail(file, 50)),
        _ => place.function.clone(),
    }
}

/// The last `most` columns of a path, from a slash on if there is one.
pub(super) fn tail(path: &str, most: usize) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    let length = path.chars().count();
    if length <= most {
        return path.to_owned();
    }
    let end: String = path.chars().skip(length + 1 - most).collect();
    match end.find('/') {
        Some(slash) if slash + 1 < end.len() => format!("…{}", &end[slash..]),
        _ => format!("…{end}"),
    }
}

/// The first `most` columns, with a sign where something is missing.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

/// `thread 3`, `47 threads: 1-47`.
pub(super) fn numbers(numbers: &[u64], noun: &str) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let ranges: Vec<String> = ranges
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("{noun}{plural} {}", ranges.join(", "))
}

/// Breaks `words` into lines that fit; all but the first begin with `indent`.
pub(super) fn paragraph(text: &mut String, words: &str, indent: &str) {
    let lead: String = words.chars().take_while(|sign| *sign == ' ').collect();
    let mut line = lead;
    let mut empty = true;
    for word in words.split_whitespace() {
        let mut word = word;
        loop {
            let room = WIDTH.saturating_sub(line.chars().count() + usize::from(!empty));
            let length = word.chars().count();
            if length <= room {
                break;
            }
            if !empty {
                text.push_str(&line);
                text.push('\n');
                indent.clone_into(&mut line);
                empty = true;
                continue;
            }
            // Longer than a line: a C++ name, or a path.
            let cut = word
                .char_indices()
                .nth(room)
                .map_or(word.len(), |(at, _)| at);
            let (here, there) = word.split_at(cut);
            text.push_str(&line);
            text.push_str(here);
            text.push('\n');
            indent.clone_into(&mut line);
            word = there;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

pub(in crate::report) fn plural(count: u64, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {noun}{s}", grouped(count))
}

/// `24 000`: thousands apart.
pub(in crate::report) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Three digits, at least two behind the point for small figures.
pub(in crate::report) fn decimals(figure: f64) -> String {
    if figure >= 10_000.0 {
        grouped(figure.round() as u64)
    } else if figure >= 100.0 {
        format!("{figure:.0}")
    } else if figure >= 10.0 {
        format!("{figure:.1}")
    } else if figure > 0.0 && figure < 0.0995 {
        // Two digits that count: 0 is a promise.
        let places = (-figure.log10()).floor().clamp(0.0, 8.0) as usize + 2;
        format!("{figure:.places$}")
    } else {
        format!("{figure:.2}")
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(in crate::report) fn time(nanoseconds: f64) -> String {
    if nanoseconds >= 1e9 {
        format!("{:.2} s", nanoseconds / 1e9)
    } else if nanoseconds >= 1e6 {
        format!("{:.2} ms", nanoseconds / 1e6)
    } else if nanoseconds >= 1e3 {
        format!("{:.2} µs", nanoseconds / 1e3)
    } else {
        format!("{nanoseconds:.0} ns")
    }
}

impl ProcessSummary {
    /// How many threads there were, and of how many processes if there were several: `5 threads of 2 processes`.
    #[must_use]
    pub fn threads_of_processes(&self) -> String {
        let threads = plural(self.threads, "thread");
        match self.processes {
            0 | 1 => threads,
            many => format!("{threads} of {} processes", grouped(many)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_what_matters() {
        for (figure, text) in [
            (0.0, "0.00"),
            (0.000_417, "0.00042"),
            (0.05, "0.050"),
            (0.25, "0.25"),
            (1.0, "1.00"),
            (53.2, "53.2"),
            (1364.4, "1364"),
            (49_963.0, "49 963"),
        ] {
            assert_eq!(decimals(figure), text);
        }
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(9999), "9999");
        assert_eq!(time(1_500.0), "1.50 µs");
    }

    #[test]
    fn paragraphs_fit_whatever_the_words() {
        let mut text = String::new();
        let long = "x".repeat(250);
        paragraph(
            &mut text,
            &format!("  a few words, {long} and {}", "more words ".repeat(30)),
            "    ",
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert_eq!(text.matches('x').count(), 250);
        assert!(text.starts_with("  a few words,\n"), "{text}");
    }

    #[test]
    fn threads_are_named_in_ranges() {
        assert_eq!(numbers(&[3], "thread"), "thread 3");
        assert_eq!(
            numbers(&[0, 1, 2, 5, 7, 8], "thread"),
            "threads 0-2, 5, 7-8"
        );
    }

    #[test]
    fn paths_keep_their_ends() {
        assert_eq!(tail("src/main.rs", 50), "src/main.rs");
        assert_eq!(tail("./main.c", 50), "main.c");
        assert_eq!(
            tail("/a/very/long/path/to/src/main.rs", 14),
            "…/src/main.rs"
        );
        assert_eq!(tail("abcdefghij", 5), "…ghij");
    }
}
