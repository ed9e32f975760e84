//! The numbers that pages quote as measured are those of the stored results.
//!
//! A number is followed, on its line, by a comment that names where it comes from, which no reader sees:
//!
//! ```text
//! 290×<!-- from adds-48: Counter over AtomicU64 at 48 -->
//! takes 1.8 to 3.9 times as long<!-- from cache-hits: quick_cache over Cache at 2; cache-sets: quick_cache over Cache at 1 -->
//! ```
//!
//! Several sources, divided by `;`, belong to as many numbers in front of the comment. A source is
//!
//! * a figure of `results/figures/evaluation.jsonl`: `FIGURE: CONTENDER at X`, or `X/ROW`: the median of its rate, or of another value,
//!   `CONTENDER [VALUE] at X`; `ONE over OTHER at X` is their ratio;
//! * a line of `results/single.jsonl`: `NAME: FIGURE`, or `FIGURE beside OTHER`, what that is compared with; `FIGURE over OTHER` is their ratio;
//! * a file: `PATH: TEXT` that is in it and begins with the number; `TEXT over OTHER` is their ratio.
//!
//! A number may be rounded: two digits of a whole number count, and all that are written otherwise. `FIGURE: … / N` divides, for another
//! unit.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The stored results.
struct Results {
    /// Figures by their names, with their cells.
    figures: Vec<(String, Vec<Value>)>,
    /// Figures whose experiments have been changed since.
    superseded: Vec<String>,
    /// Single benchmarks by their names, with their figures.
    single: Vec<(String, Vec<Value>)>,
}

impl Results {
    fn read() -> Self {
        let lines = |name: &str| -> Vec<Value> {
            let text = fs::read_to_string(root().join("results").join(name)).expect("it is stored");
            text.lines()
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_str(line).expect("a line of JSON"))
                .collect()
        };
        let mut figures: Vec<(String, Vec<Value>)> = Vec::new();
        for line in lines("figures/evaluation.jsonl") {
            if let Some(name) = line["figure"].as_str() {
                figures.push((name.to_owned(), Vec::new()));
            } else if let Some((_, cells)) = figures.last_mut() {
                cells.push(line);
            }
        }
        let mut single = Vec::new();
        for line in lines("single.jsonl") {
            if let (Some(name), Some(figures)) =
                (line["name"].as_str(), line["data"]["figures"].as_array())
            {
                single.push((name.to_owned(), figures.clone()));
            }
        }
        Self {
            figures,
            superseded: superseded(),
            single,
        }
    }

    /// What a source says.
    fn value(&self, source: &str) -> Result<f64, String> {
        let wrong = |why: &str| format!("{source}: {why}");
        let (place, what) = source.split_once(": ").ok_or(wrong("no `SOURCE: WHAT`"))?;
        if place.contains('/') {
            let text = fs::read_to_string(root().join(place)).map_err(|_| wrong("no such file"))?;
            let told = |part: &str| match text.contains(part) {
                true => numbers(part).first().copied().map(|told| told.value),
                false => None,
            };
            return ratio(what, told).ok_or(wrong("that is not in it"));
        }
        if let Some((what, by)) = what.rsplit_once(" / ") {
            let by: f64 = by.parse().map_err(|_| wrong("no number behind ` / `"))?;
            return Ok(self.value(&format!("{place}: {what}"))? / by);
        }
        if let Some((_, cells)) = self.figures.iter().find(|(name, _)| name == place) {
            let (what, at) = what.rsplit_once(" at ").ok_or(wrong("no ` at X`"))?;
            if self.superseded.iter().any(|name| name == place) {
                return Err(wrong("that experiment has been changed since"));
            }
            return ratio(what, |contender| cell(cells, contender, at))
                .ok_or(wrong("no such cell, or one that counted too little"));
        }
        if let Some((_, figures)) = self.single.iter().find(|(name, _)| name == place) {
            return figure(figures, what).ok_or(wrong("no such figure"));
        }
        Err(wrong("no such result"))
    }
}

/// The figures of which the rendered page says so: `| title (`NAME`) | cells | superseded | …`.
fn superseded() -> Vec<String> {
    let page = fs::read_to_string(root().join("results/figures/summary.md")).expect("it is stored");
    let (_, rows) = page
        .split_once("| figure | cells | superseded |")
        .expect("the page has that table");
    rows.lines()
        .skip(2)
        .map_while(|row| row.strip_prefix("| "))
        .filter_map(|row| {
            let mut columns = row.split(" | ");
            let name = columns.next()?.strip_suffix("`)")?.rsplit_once('`')?.1;
            (columns.nth(1)? != "0").then(|| name.to_owned())
        })
        .collect()
}

/// `ONE over OTHER`, or the value of one.
fn ratio(what: &str, value: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    match what.split_once(" over ") {
        Some((one, other)) => Some(value(one)? / value(other)?),
        None => value(what),
    }
}

/// The median of a cell's rate, or of the value that is named in brackets.
fn cell(cells: &[Value], contender: &str, at: &str) -> Option<f64> {
    let (x, row) = match at.split_once('/') {
        Some((x, row)) => (x, Some(row)),
        None => (at, None),
    };
    let (contender, value) = match contender
        .strip_suffix(']')
        .and_then(|it| it.split_once(" ["))
    {
        Some((contender, value)) => (contender, value),
        None => (contender, "rate"),
    };
    let is = |place: &Value, wanted: Option<&str>| match wanted {
        None => place.is_null(),
        Some(wanted) => place.as_f64() == wanted.parse().ok(),
    };
    let found = cells
        .iter()
        .find(|cell| cell["of"] == contender && is(&cell["x"], Some(x)) && is(&cell["row"], row))?;
    // The laboratory's rule: a simulated cell that counted less is compared with nothing.
    if found["values"]["operations"]
        .as_f64()
        .is_some_and(|counted| counted < 100.0)
    {
        return None;
    }
    let mut repetitions: Vec<f64> = match &found["values"][value] {
        Value::Array(several) => several.iter().filter_map(Value::as_f64).collect(),
        one => one.as_f64().into_iter().collect(),
    };
    repetitions.sort_by(f64::total_cmp);
    repetitions.get(repetitions.len() / 2).copied()
}

/// A figure of a benchmark, what it is compared with, or the ratio of the two.
fn figure(figures: &[Value], what: &str) -> Option<f64> {
    let (name, beside) = what
        .split_once(" over ")
        .or_else(|| what.split_once(" beside "))
        .map_or((what, None), |(name, beside)| (name, Some(beside)));
    let found = figures.iter().find(|figure| {
        figure["figure"] == name && beside.is_none_or(|beside| figure["beside"]["name"] == beside)
    })?;
    let measured = found["measured"].as_f64()?;
    match beside {
        None => Some(measured),
        Some(_) if what.contains(" over ") => Some(measured / found["beside"]["value"].as_f64()?),
        Some(_) => found["beside"]["value"].as_f64(),
    }
}

/// A number as a page has it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quoted {
    value: f64,
    /// What its last digit counts; zeros at the end of a whole number do not beyond its first two digits.
    unit: f64,
    /// Where it ends in the text.
    end: usize,
}

impl Quoted {
    fn is_rounded_from(self, value: f64) -> bool {
        // Not exactly a half: numbers are stored with a few digits, and have been rounded before.
        (self.value - value).abs() <= 0.501 * self.unit
    }
}

/// The numbers in a text: thousands may be set off by spaces or commas.
fn numbers(text: &str) -> Vec<Quoted> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let thousands = |at: usize| {
        let separated = bytes
            .get(at)
            .is_some_and(|sign| [b' ', b','].contains(sign));
        separated && (1..=3).all(|ahead| digit(at + ahead)) && !digit(at + 4)
    };
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        // A digit in a word, as in `opteron-48` or `p99`, belongs to the word.
        let in_word =
            at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || b"-_.".contains(&bytes[at - 1]));
        if !digit(at) || in_word {
            at += 1;
            continue;
        }
        let mut digits = String::new();
        let mut group = at;
        while digit(at) || (at - group <= 3 && thousands(at)) {
            if digit(at) {
                digits.push(char::from(bytes[at]));
            } else {
                group = at + 1;
            }
            at += 1;
        }
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        let mut unit = 10_f64.powi(zeros.min(digits.len().saturating_sub(2)) as i32);
        if bytes.get(at) == Some(&b'.') && digit(at + 1) {
            digits.push('.');
            at += 1;
            let whole = digits.len();
            while digit(at) {
                digits.push(char::from(bytes[at]));
                at += 1;
            }
            unit = 10_f64.powi(whole as i32 - digits.len() as i32);
        }
        let value = digits.parse().expect("these are digits");
        found.push(Quoted {
            value,
            unit,
            end: at,
        });
    }
    found
}

const MARK: &str = "<!-- from ";

/// What is wrong with the numbers of a line that say where they come from; `covered` are told where each of these ends.
fn wrong(results: &Results, line: &str, covered: &mut Vec<usize>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut from = 0;
    while let Some(mark) = line[from..].find(MARK).map(|at| from + at) {
        let Some(length) = line[mark..].find(" -->") else {
            wrong.push(format!("a comment without an end: {}", &line[mark..]));
            break;
        };
        let sources: Vec<&str> = line[mark + MARK.len()..mark + length].split("; ").collect();
        let before = numbers(&line[from..mark]);
        if before.len() < sources.len() {
            wrong.push(format!("fewer numbers than sources: {sources:?}"));
        }
        let first = before.len().saturating_sub(sources.len());
        for (quoted, source) in before[first..].iter().zip(sources) {
            covered.push(from + quoted.end);
            match results.value(source) {
                Ok(value) if quoted.is_rounded_from(value) => {}
                Ok(value) => wrong.push(format!("{} is {value:.4}: {source}", quoted.value)),
                Err(why) => wrong.push(why),
            }
        }
        from = mark + length;
    }
    wrong
}

/// The files that may quote results: pages and the library's documentation, but nothing that was built.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the entry can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "tests"].contains(&&*name) {
                files(&path, found);
            }
        } else if name.ends_with(".md") || name.ends_with(".rs") {
            found.push(path);
        }
    }
}

#[test]
fn quoted_numbers_are_those_of_the_stored_results() {
    let results = Results::read();
    let mut found = Vec::new();
    files(&root(), &mut found);
    let mut sources = 0;
    let mut broken = Vec::new();
    for path in found {
        let text = fs::read_to_string(&path).expect("a page is text");
        for (number, line) in text.lines().enumerate() {
            let mut covered = Vec::new();
            for what in wrong(&results, line, &mut covered) {
                broken.push(format!("{}:{}: {what}", path.display(), number + 1));
            }
            sources += covered.len();
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(
        sources > 40,
        "only {sources} numbers say where they come from"
    );
}

/// Where a line has a factor, `12×`, that does not say where it comes from: the byte behind its number.
fn unsourced(results: &Results, line: &str) -> Vec<usize> {
    let mut covered = Vec::new();
    wrong(results, line, &mut covered);
    numbers(line)
        .iter()
        .map(|quoted| quoted.end)
        .filter(|&end| line[end..].starts_with('×') && !covered.contains(&end))
        .collect()
}

#[test]
fn every_factor_on_the_first_page_says_where_it_comes_from() {
    let results = Results::read();
    for page in ["README.md", "docs/evaluation.md", "docs/choosing.md"] {
        let text = fs::read_to_string(root().join(page)).expect("there is such a page");
        for line in text.lines() {
            let found = unsourced(&results, line);
            assert!(
                found.is_empty(),
                "{page}: a factor without a source in: {line}"
            );
        }
    }
}

#[test]
fn a_wrong_number_is_found() {
    let results = Results {
        figures: vec![
            (
                "adds".to_owned(),
                vec![
                    serde_json::json!({"of": "A", "x": 2, "values": {"rate": [1.0, 84.0, 10.0]}}),
                    serde_json::json!({"of": "B at all", "x": 2, "values": {"rate": 4.0, "lines": 0.5}}),
                    serde_json::json!({"of": "A", "x": 2, "row": 10, "values": {"rate": 2e6}}),
                    serde_json::json!({"of": "A", "x": 48, "values": {"rate": 10.0, "operations": 99.0}}),
                ],
            ),
            ("olds".to_owned(), Vec::new()),
        ],
        superseded: vec!["olds".to_owned()],
        single: vec![(
            "targets".to_owned(),
            vec![
                serde_json::json!({"figure": "f, 1 thread", "measured": 3.0, "beside": {"name": "g", "value": 12.0}}),
            ],
        )],
    };
    let told = |line: &str| wrong(&results, line, &mut Vec::new());
    for fine in [
        "2.5×<!-- from adds: A over B at all at 2 -->",
        "| 10 | 0.5<!-- from adds: A at 2; adds: B at all [lines] at 2 --> |",
        "2.0 M/s<!-- from adds: A at 2/10 / 1000000 -->",
        "3 and 12 ns<!-- from targets: f, 1 thread; targets: f, 1 thread beside g -->, 0.25<!-- from targets: f, 1 thread over g -->",
        "10 of opteron-48<!-- from adds: A at 2 -->",
        "2 000 000 or 2,000,000<!-- from adds: A at 2/10; adds: A at 2/10 -->",
    ] {
        assert_eq!(told(fine), [""; 0], "{fine}");
    }
    for (broken, part) in [
        ("2.6×<!-- from adds: A over B at all at 2 -->", "2.6 is 2.5"),
        ("10<!-- from adds: C at 2 -->", "no such cell"),
        ("10<!-- from adds: A at 3 -->", "no such cell"),
        ("10<!-- from adds: A at 48 -->", "counted too little"),
        ("10<!-- from olds: A at 2 -->", "has been changed since"),
        ("10<!-- from subs: A at 2 -->", "no such result"),
        ("3<!-- from targets: f, 2 threads -->", "no such figure"),
        ("3<!-- from README.md/nothing: 3 -->", "no such file"),
        ("none<!-- from adds: A at 2 -->", "fewer numbers"),
        ("10<!-- from adds: A at 2", "without an end"),
    ] {
        let told = told(broken);
        assert!(
            told.len() == 1 && told[0].contains(part),
            "{broken}: {told:?}"
        );
    }
    assert_eq!(
        unsourced(&results, "2.5×, 3×<!-- from targets: f, 1 thread -->").len(),
        1
    );
}
