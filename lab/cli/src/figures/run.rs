//! `lab figures run`: makes figures, and the page of all that are there.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use percolog_cli::companion;
use percolog_cli::failure::Failure;
use percolog_cli::output::{self, Output};
use percolog_cli::terminal::complain;
use percolog_figures::catalogue::{self, Figure, Where};
use percolog_figures::run::{self, Laboratory, Order, Place, Progress, RunError, Size};
use percolog_figures::store::{Build, Found, Host, Store};

use super::render::{self, Counts, Pictures, default_folder};
use super::wrong::{wrong_name, wrong_store};

/// Arguments of `lab figures run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// Figures or groups of figures, as `lab figures list` names them (default: all)
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Few values, measured shortly: to see what there is, not to judge by
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// All of it (the default)
    #[arg(long)]
    full: bool,

    /// Measure again what is there
    #[arg(long)]
    again: bool,

    /// The folder of results and page (default: figures/full; with --quick: figures/quick)
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,

    #[command(flatten)]
    pictures: Pictures,
}

/// Makes the figures.
pub(crate) fn run(arguments: &RunArguments, output: &mut Output) -> Result<(), Failure> {
    let size = if arguments.quick {
        Size::Quick
    } else {
        Size::Full
    };
    let figures = catalogue::named(&arguments.names).map_err(wrong_name)?;
    let folder = arguments.results.clone();
    let folder = folder.unwrap_or_else(|| default_folder(size));
    let store = Store::create(folder).map_err(wrong_store)?;
    let laboratory = laboratory()?;
    let order = Order {
        size,
        build: Build::this(),
        host: Host::describe(),
        again: arguments.again,
        features: percolog_cells::features(),
    };
    let mut progress = Bar::new(&figures, warnings(&figures, &laboratory))?;
    let made = run::run(&figures, &order, &laboratory, &store, &mut progress);
    let counts = progress.finish();
    made.map_err(|error| match error {
        RunError::Store(error) => wrong_store(error),
        RunError::WouldReplaceFull { .. } => Failure::Input(error.to_string()),
        RunError::Interrupted => Failure::Work(error.to_string()),
    })?;
    render::page(&store, &arguments.pictures, Some(&counts), output)?;
    if counts.values().any(|(_, failed)| *failed > 0) {
        return Err(Failure::Unhealthy);
    }
    Ok(())
}

/// Who runs cells: `lab-cell`.
pub(crate) fn laboratory() -> Result<Laboratory, Failure> {
    let cell = companion::beside("lab-cell", percolog_cells::BUILT_BY)?;
    Ok(Laboratory::new(cell, []))
}

/// Says before an hour has passed what will not be worth looking at.
fn warnings(figures: &[Figure], laboratory: &Laboratory) -> Vec<String> {
    let mut warnings = Vec::new();
    if !Build::this().optimized {
        warnings.push("this build is not optimized: its figures say little (cargo lab)".to_owned());
    }
    let simulated = figures
        .iter()
        .filter(|figure| figure.machine != Where::Here)
        .count();
    if simulated > 0
        && let Err(error) = laboratory.can_simulate()
    {
        warnings.push(format!("{simulated} figures {error}"));
    }
    warnings
}

/// A bar with the time that is left, where someone looks at it; otherwise a line for each figure.
struct Bar {
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    /// For each figure, how many cells have been run and have failed.
    counts: Counts,
    lines: bool,
    /// To be told when it is certain that there will be something to warn of.
    warnings: Vec<String>,
}

impl Bar {
    fn new(figures: &[Figure], warnings: Vec<String>) -> Result<Self, Failure> {
        let bar = output::bar();
        // The template is a constant, and right.
        if let Ok(style) =
            ProgressStyle::with_template("[{bar:20}] {pos} of {len}, {eta} left: {wide_msg}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        // Relaxed: a flag that carries nothing; it is looked at between cells.
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
            .map_err(|error| Failure::Work(format!("cannot watch for Ctrl-C: {error}")))?;
        let counts = figures.iter().map(|figure| (figure.name.clone(), (0, 0)));
        Ok(Self {
            bar,
            interrupted,
            counts: counts.collect(),
            lines: !std::io::stderr().is_terminal(),
            warnings,
        })
    }

    fn finish(self) -> Counts {
        self.bar.finish_and_clear();
        self.counts
    }
}

impl Progress for Bar {
    fn begins(&mut self, cells: usize, kept: usize) {
        for warning in self.warnings.drain(..) {
            complain(&format!("lab: {warning}"));
        }
        self.bar.set_length(cells as u64);
        if kept > 0 {
            self.bar.suspend(|| {
                complain(&format!(
                    "{kept} cells are there from an earlier run of this build (--again measures them anew)"
                ));
            });
        }
    }

    fn runs(&mut self, figure: &Figure, place: &Place) {
        self.bar.set_message(format!(
            "{}: {}, {} {}",
            figure.name,
            place.contender,
            figure.x.name_of(place.x),
            figure.x.label
        ));
    }

    fn ran(&mut self, figure: &Figure, _: &Place, found: &Found) {
        if let Some((ran, failed)) = self.counts.get_mut(&figure.name) {
            *ran += 1;
            *failed += usize::from(found.has_failed());
        }
        self.bar.inc(1);
    }

    fn finishes(&mut self, figure: &Figure) {
        if !self.lines {
            return;
        }
        let (ran, failed) = self.counts[&figure.name];
        let failed = match failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let (at, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let line = format!("{}: {ran} cells{failed} ({at} of {all})", figure.name);
        complain(&line);
    }

    fn is_interrupted(&self) -> bool {
        // Relaxed: see where it is set.
        self.interrupted.load(Ordering::Relaxed)
    }
}
