//! A snapshot as Prometheus' text format has it.
//!
//! *Invariant:* whatever names and labels a program uses, Prometheus accepts the text: every name is valid, every family is
//! there once, and so is every series. What has to be left out for that is named in a comment.

use crate::snapshot::{Family, MetricKind, Snapshot, Value};
use std::collections::HashSet;
use std::fmt::{self, Display, Formatter, Write};

/// The suffixes of what a histogram is written as.
const HISTOGRAM_SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Prometheus' text format, version 0.0.4.
impl Display for Snapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut taken = HashSet::new();
        for family in &self.families {
            let name = metric_name(&family.name);
            if !take(&mut taken, &name, family.kind) {
                writeln!(
                    f,
                    "# {} {} is left out: {name} is another metric's name already",
                    family.kind,
                    family.name.escape_debug()
                )?;
                continue;
            }
            write_family(f, family, &name)?;
        }
        Ok(())
    }
}

/// Whether nobody has used the name, or what a histogram makes of it, before.
fn take(taken: &mut HashSet<String>, name: &str, kind: MetricKind) -> bool {
    let mut names = vec![name.to_owned()];
    if kind == MetricKind::Histogram {
        names.extend(HISTOGRAM_SUFFIXES.map(|suffix| format!("{name}{suffix}")));
    }
    let free = names.iter().all(|name| !taken.contains(name));
    if free {
        taken.extend(names);
    }
    free
}

fn write_family(f: &mut Formatter<'_>, family: &Family, name: &str) -> fmt::Result {
    if let Some(help) = &family.help {
        writeln!(f, "# HELP {name} {}", Help(help))?;
    }
    writeln!(f, "# TYPE {name} {}", family.kind)?;
    if let Some(unit) = family.unit {
        // A comment in this format, which keeps what the program said.
        writeln!(f, "# UNIT {name} {}", unit.as_str())?;
    }
    let mut written = HashSet::new();
    for series in &family.series {
        let labels = label_set(&series.labels, family.kind);
        if written.contains(&labels) {
            writeln!(
                f,
                "# A series of {name} is left out: {{{labels}}} is another one's labels already"
            )?;
            continue;
        }
        write_series(f, name, &labels, &series.value)?;
        written.insert(labels);
    }
    Ok(())
}

fn write_series(f: &mut Formatter<'_>, name: &str, labels: &str, value: &Value) -> fmt::Result {
    let set = if labels.is_empty() {
        String::new()
    } else {
        format!("{{{labels}}}")
    };
    match value {
        Value::Counter(value) => writeln!(f, "{name}{set} {value}"),
        Value::Gauge(value) => writeln!(f, "{name}{set} {}", Number(*value)),
        Value::Histogram(histogram) => {
            let comma = if labels.is_empty() { "" } else { "," };
            for (bound, count) in histogram.cumulative() {
                let bound = Number(bound);
                writeln!(f, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}")?;
            }
            writeln!(f, "{name}_sum{set} {}", Number(histogram.sum()))?;
            writeln!(f, "{name}_count{set} {}", histogram.count())
        }
    }
}

/// The labels as they stand between braces.
fn label_set(labels: &[(String, String)], kind: MetricKind) -> String {
    let mut set = String::new();
    let mut keys = HashSet::new();
    for (key, value) in labels {
        let key = label_key(key, kind);
        if keys.contains(&key) {
            // The key is there twice, or two keys have become the same: the first value stays.
            continue;
        }
        let comma = if set.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(set, "{comma}{key}=\"{}\"", LabelValue(value));
        keys.insert(key);
    }
    set
}

/// `[a-zA-Z_:][a-zA-Z0-9_:]*`, as every other character becomes an underscore.
fn metric_name(name: &str) -> String {
    valid_name(name, |c| c == ':')
}

/// `[a-zA-Z_][a-zA-Z0-9_]*`. What Prometheus or the histogram uses itself becomes `exported…`, as Prometheus does it when labels collide.
fn label_key(key: &str, kind: MetricKind) -> String {
    let key = valid_name(key, |_| false);
    if key.starts_with("__") {
        format!("exported{key}")
    } else if kind == MetricKind::Histogram && key == "le" {
        "exported_le".to_owned()
    } else {
        key
    }
}

fn valid_name(name: &str, also: impl Fn(char) -> bool) -> String {
    if name.is_empty() {
        return "_".to_owned();
    }
    name.char_indices()
        .map(|(at, c)| {
            let fits = c.is_ascii_alphabetic() || also(c) || (at > 0 && c.is_ascii_digit());
            if fits { c } else { '_' }
        })
        .collect()
}

/// A description: a line that ends where it ends.
struct Help<'a>(&'a str);

impl Display for Help<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        escape(f, self.0, false)
    }
}

/// What stands between quotes.
struct LabelValue<'a>(&'a str);

impl Display for LabelValue<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        escape(f, self.0, true)
    }
}

fn escape(f: &mut Formatter<'_>, text: &str, quoted: bool) -> fmt::Result {
    for c in text.chars() {
        match c {
            '\\' => f.write_str("\\\\")?,
            // Prometheus takes it for the end of the text: it would refuse all of it, or not see the rest.
            '\0' => f.write_char(char::REPLACEMENT_CHARACTER)?,
            '\n' => f.write_str("\\n")?,
            '"' if quoted => f.write_str("\\\"")?,
            c => f.write_char(c)?,
        }
    }
    Ok(())
}

/// A double: with as many digits as it takes to read the same one back.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(value) = *self;
        if value.is_nan() {
            f.write_str("NaN")
        } else if value.is_infinite() {
            f.write_str(if value > 0.0 { "+Inf" } else { "-Inf" })
        } else if value == 0.0 || (1e-5..1e17).contains(&value.abs()) {
            write!(f, "{value}")
        } else {
            write!(f, "{value:e}")
        }
    }
}

impl Display for MetricKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_valid() {
        for (name, valid) in [
            ("http.requests", "http_requests"),
            ("a:b_9", "a:b_9"),
            ("9lives", "_lives"),
            ("größe", "gr__e"),
            ("", "_"),
        ] {
            assert_eq!(metric_name(name), valid);
        }
        assert_eq!(label_key("a:b", MetricKind::Counter), "a_b");
        assert_eq!(
            label_key("__name__", MetricKind::Counter),
            "exported__name__"
        );
        assert_eq!(label_key("le", MetricKind::Counter), "le");
        assert_eq!(label_key("le", MetricKind::Histogram), "exported_le");
    }

    #[test]
    fn numbers_come_back_as_they_were() {
        for (value, text) in [
            (0.1, "0.1"),
            (3.0, "3"),
            (-0.0, "-0"),
            (1e300, "1e300"),
            (-2.5e-9, "-2.5e-9"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(Number(value).to_string(), text);
        }
    }

    #[test]
    fn no_text_ends_what_prometheus_reads() {
        assert_eq!(LabelValue("a\0b\r\"\n").to_string(), "a\u{fffd}b\r\\\"\\n");
        assert_eq!(Help("a\0b\"").to_string(), "a\u{fffd}b\"");
    }

    #[test]
    fn the_first_of_two_equal_label_keys_stays() {
        let labels = [("a.b", "1"), ("a_b", "2"), ("c", "\"\\\n")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(
            label_set(&labels, MetricKind::Gauge),
            r#"a_b="1",c="\"\\\n""#
        );
    }
}
