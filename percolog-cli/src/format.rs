//! Numbers and tables as people read them.

use crate::output::WIDTH;

/// A ratio with two significant digits: `14×`, `3.4×`, `0.82×`, `0.04×`.
pub fn ratio(ratio: f64) -> String {
    if ratio >= 9.95 {
        format!("{ratio:.0}×")
    } else if ratio >= 0.995 {
        format!("{ratio:.1}×")
    } else {
        format!("{ratio:.2}×")
    }
}

/// A number with three significant digits at most: `1540`, `154`, `15.4`, `1.54`.
pub fn number(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// `1 thread`, `8 threads`.
pub fn threads(count: usize) -> String {
    plural(count as u64, "thread")
}

/// `1 event`, `12 events`.
pub fn plural(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// Breaks `text` into lines of at most `WIDTH` columns, each after `indent`.
pub fn wrap(text: &str, indent: &str) -> String {
    let mut wrapped = String::new();
    let mut line = String::from(indent);
    for word in text.split_whitespace() {
        let width = console::measure_text_width(&line);
        let blank = width == indent.len();
        if !blank && width + 1 + console::measure_text_width(word) > WIDTH {
            wrapped.push_str(line.trim_end());
            wrapped.push('\n');
            line = String::from(indent);
        } else if !blank {
            line.push(' ');
        }
        line.push_str(word);
    }
    wrapped.push_str(line.trim_end());
    wrapped
}

/// `text` followed by spaces up to `width` columns.
pub fn left(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(console::measure_text_width(text));
    format!("{text}{}", " ".repeat(missing))
}

/// `text` behind spaces up to `width` columns.
pub fn right(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(console::measure_text_width(text));
    format!("{}{text}", " ".repeat(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_ratios_two() {
        assert_eq!(number(1540.4), "1540");
        assert_eq!(number(99.97), "100");
        assert_eq!(number(15.44), "15.4");
        assert_eq!(number(1.539), "1.54");
        assert_eq!(ratio(14.2), "14×");
        assert_eq!(ratio(9.97), "10×");
        assert_eq!(ratio(3.44), "3.4×");
        assert_eq!(ratio(0.999), "1.0×");
        assert_eq!(ratio(0.044), "0.04×");
    }

    #[test]
    fn wrapped_lines_fit_and_lose_no_word() {
        let text = "word ".repeat(100);
        let wrapped = wrap(&text, "  ");
        assert!(
            wrapped
                .lines()
                .all(|line| line.starts_with("  ") && line.len() <= WIDTH)
        );
        assert_eq!(wrapped.split_whitespace().count(), 100);
    }

    #[test]
    fn padding_counts_columns_not_bytes() {
        assert_eq!(right("2×", 4), "  2×");
        assert_eq!(left("é", 3), "é  ");
        assert_eq!(left("longer", 3), "longer");
    }
}
