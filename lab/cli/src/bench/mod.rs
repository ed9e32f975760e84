//! `lab bench`: a mixture of the user's own, on percolog's structures and on those that people use today, here or on a machine that is
//! simulated.

mod show;

use std::collections::BTreeMap;

use clap::builder::PossibleValuesParser;
use percolog_bench::mixture::Subject;
use percolog_figures::run::{Cell, Laboratory};
use percolog_figures::store::{Found, Host};
use percolog_sim::machine;

use crate::figures;
use crate::numbers::thread_count;
use percolog_cli::failure::Failure;
use percolog_cli::format;
use percolog_cli::output::{self, Output};

/// Arguments of `lab bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to measure
    #[arg(value_name = "STRUCTURE", value_parser = PossibleValuesParser::new(Subject::kinds()))]
    kind: String,

    /// Only these of its kind, separated by commas, as `percolog` and `dashmap` (default: all)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,

    /// Numbers of threads, separated by commas (default: 1, 2, 4, … all processors, and four times as many)
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = thread_count)]
    threads: Vec<usize>,

    /// How many of the operations read: 0.9, 90% or 1/1000
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = share)]
    reads: u32,

    /// How many keys there are
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1 << 28))]
    keys: u64,

    /// How unevenly they are used: `uniform`, `zipf` (0.99, as YCSB has it) or `zipf:SKEW`
    #[arg(long, value_name = "HOW", default_value = "zipf", value_parser = skew)]
    distribution: u64,

    /// Operations a second of all threads together, each due at a fixed time: shows how long they take, waiting included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: Option<u64>,

    /// How long one measurement lasts, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=600_000), conflicts_with = "machine")]
    milliseconds: u64,

    /// How often each is measured; the median is shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "machine")]
    repetitions: u32,

    /// Simulate one of the built-in machines instead (see `percolog sim machines`; needs QEMU)
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
}

/// `0.9`, `90%` or `1/1000`, in millionths.
fn share(text: &str) -> Result<u32, String> {
    let wrong = || "a share is needed, as 0.9, 90% or 1/1000".to_owned();
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    let share = if let Some(percent) = text.strip_suffix('%') {
        number(percent)? / 100.0
    } else if let Some((one, of)) = text.split_once('/') {
        number(one)? / number(of)?
    } else {
        number(text)?
    };
    if (0.0..=1.0).contains(&share) {
        Ok((share * 1e6).round() as u32)
    } else {
        Err(wrong())
    }
}

/// `uniform`, `zipf` or `zipf:SKEW`, in thousandths.
fn skew(text: &str) -> Result<u64, String> {
    let wrong = || "there are uniform, zipf and zipf:SKEW with a skew from 0.001 to 10".to_owned();
    match text {
        "uniform" => Ok(0),
        "zipf" => Ok(990),
        _ => {
            let skew = text.strip_prefix("zipf:").ok_or_else(wrong)?;
            let skew: f64 = skew.parse().map_err(|_| wrong())?;
            if (0.001..=10.0).contains(&skew) {
                Ok((skew * 1000.0).round() as u64)
            } else {
                Err(wrong())
            }
        }
    }
}

/// What was found of one structure.
struct Row {
    subject: Subject,
    cells: Vec<Found>,
}

/// Cycles of a simulated machine before anything is counted, and counted; the second number for each thread.
const WARM_UP: (u64, u64) = (300_000, 10_000);
const COUNTED: (u64, u64) = (1_500_000, 50_000);

/// Measures and shows.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let subjects = subjects(arguments)?;
    let laboratory = figures::laboratory()?;
    let threads = threads(arguments)?;
    if arguments.machine.is_some() {
        laboratory
            .can_simulate()
            .map_err(|error| Failure::Work(error.to_string()))?;
    }
    let bar = output::bar();
    bar.set_length((subjects.len() * threads.len()) as u64);
    let mut rows: Vec<Row> = subjects
        .into_iter()
        .map(|subject| Row {
            subject,
            cells: Vec::new(),
        })
        .collect();
    for threads in threads {
        for row in &mut rows {
            bar.set_message(format!(
                "{}, {}",
                row.subject.name(),
                format::threads(threads)
            ));
            let cell = cell(arguments, &row.subject, threads);
            row.cells
                .push(found(&laboratory, &row.subject, threads, cell));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    show::show(arguments, &rows, output)?;
    let nothing = |row: &Row| row.cells.iter().all(|cell| cell.values.is_empty());
    if rows.iter().all(nothing) {
        return Err(Failure::Unhealthy);
    }
    Ok(())
}

fn subjects(arguments: &Arguments) -> Result<Vec<Subject>, Failure> {
    let of_kind: Vec<Subject> = Subject::ALL
        .into_iter()
        .filter(|subject| subject.kind() == arguments.kind)
        .collect();
    for word in &arguments.only {
        if !of_kind.iter().any(|subject| subject.word() == word) {
            let words: Vec<&str> = of_kind.iter().map(Subject::word).collect();
            return Err(Failure::Input(format!(
                "there is no {} {word:?}; there are {}",
                arguments.kind,
                words.join(", ")
            )));
        }
    }
    let wanted = |subject: &Subject| {
        arguments.only.is_empty() || arguments.only.iter().any(|word| word == subject.word())
    };
    Ok(of_kind.into_iter().filter(wanted).collect())
}

fn threads(arguments: &Arguments) -> Result<Vec<usize>, Failure> {
    let cores = match &arguments.machine {
        None => None,
        Some(name) => Some(
            machine::built_in(name)
                .map_err(|error| Failure::Input(format!("{error}; see `percolog sim machines`")))?
                .cores,
        ),
    };
    let mut threads = arguments.threads.clone();
    if threads.is_empty() {
        let most = cores.unwrap_or(Host::describe().processors as usize);
        threads = std::iter::successors(Some(1), |threads| Some(threads * 2))
            .take_while(|threads| *threads < most)
            .collect();
        threads.push(most);
        if cores.is_none() {
            threads.push(4 * most);
        }
    }
    if let Some((cores, more)) = cores
        .zip(threads.iter().max())
        .filter(|(cores, most)| *most > cores)
    {
        return Err(Failure::Input(format!(
            "the machine has {cores} cores, fewer than {more}; ask for fewer with --threads"
        )));
    }
    threads.sort_unstable();
    threads.dedup();
    Ok(threads)
}

fn cell(arguments: &Arguments, subject: &Subject, threads: usize) -> Cell {
    let mut parameters = BTreeMap::from([
        ("threads".to_owned(), threads.to_string()),
        ("kind".to_owned(), subject.kind().to_owned()),
        ("structure".to_owned(), subject.word().to_owned()),
        ("keys".to_owned(), arguments.keys.to_string()),
        ("skew".to_owned(), arguments.distribution.to_string()),
        ("reads".to_owned(), arguments.reads.to_string()),
    ]);
    if let Some(rate) = arguments.rate {
        parameters.insert("rate".to_owned(), rate.to_string());
    }
    let cycles = |(first, each): (u64, u64)| (first + each * threads as u64).to_string();
    if arguments.machine.is_some() {
        parameters.insert("warm_up".to_owned(), cycles(WARM_UP));
        parameters.insert("cycles".to_owned(), cycles(COUNTED));
    } else {
        let milliseconds = arguments.milliseconds.to_string();
        parameters.insert("milliseconds".to_owned(), milliseconds);
    }
    Cell {
        machine: arguments
            .machine
            .clone()
            .unwrap_or_else(|| "here".to_owned()),
        program: "mixture".to_owned(),
        parameters,
        repetitions: if arguments.machine.is_some() {
            1
        } else {
            arguments.repetitions
        },
        revision: 1,
    }
}

fn found(laboratory: &Laboratory, subject: &Subject, threads: usize, cell: Cell) -> Found {
    let started = std::time::Instant::now();
    let mut values = Vec::new();
    let mut failure = None;
    for _ in 0..cell.repetitions {
        match laboratory.run(&cell) {
            Ok(found) => values.push(found),
            Err(error) => {
                failure = Some(error.to_string());
                break;
            }
        }
    }
    Found {
        contender: subject.name().to_owned(),
        x: threads as u64,
        row: None,
        cell,
        values,
        seconds: started.elapsed().as_secs_f64(),
        failure,
        skipped: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_as_people_do() {
        assert_eq!(share("0.9"), Ok(900_000));
        assert_eq!(share("90%"), Ok(900_000));
        assert_eq!(share("1/1000"), Ok(1000));
        assert_eq!(share("0"), Ok(0));
        for wrong in ["", "2", "-1", "120%", "1/0", "half"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn distributions_are_uniform_or_zipf() {
        assert_eq!(skew("uniform"), Ok(0));
        assert_eq!(skew("zipf"), Ok(990));
        assert_eq!(skew("zipf:1.2"), Ok(1200));
        for wrong in ["zipf:", "zipf:0", "zipf:11", "normal"] {
            assert!(skew(wrong).is_err(), "{wrong}");
        }
    }
}
