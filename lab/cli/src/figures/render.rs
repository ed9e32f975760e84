//! `lab figures render`: the page of the results that are there, without measuring.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use percolog_figures::catalogue;
use percolog_figures::findings::{Shown, settling};
use percolog_figures::page;
use percolog_figures::run::Size;
use percolog_figures::store::{Found, Store};
use serde::Serialize;

use super::wrong::{wrong_name, wrong_store};
use percolog_cli::failure::Failure;
use percolog_cli::format::wrap;
use percolog_cli::output::Output;

/// Arguments of `lab figures render`.
#[derive(Debug, clap::Args)]
pub(crate) struct RenderArguments {
    /// The folder of results (default: figures/full, or figures/quick if that is not there)
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,

    #[command(flatten)]
    pictures: Pictures,
}

/// The page's name.
const PAGE: &str = "index.html";

/// The tables' name.
const TABLES: &str = "summary.md";

/// Where results of this size go, unless something else is said.
pub(super) fn default_folder(size: Size) -> PathBuf {
    Path::new("figures").join(size.to_string())
}

/// How many cells of each figure were run, and how many of them failed.
pub(super) type Counts = BTreeMap<String, (usize, usize)>;

/// Makes the page.
pub(crate) fn run(arguments: &RenderArguments, output: &mut Output) -> Result<(), Failure> {
    let folder = match &arguments.results {
        Some(folder) => folder.clone(),
        None => [Size::Full, Size::Quick]
            .map(default_folder)
            .into_iter()
            .find(|folder| folder.is_dir())
            .ok_or_else(|| {
                Failure::Input(
                    "there are no results here; make some with `lab figures run`, or say where with --results"
                        .to_owned(),
                )
            })?,
    };
    if !folder.is_dir() {
        return Err(Failure::Input(format!(
            "{} is no folder; say where results are with --results",
            folder.display()
        )));
    }
    page(&Store::open(folder), &arguments.pictures, None, output)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Written {
    page: String,
    won: String,
    lost: String,
    papers: String,
    figures: Vec<WrittenFigure>,
}

/// A figure that is on the page.
#[derive(Serialize)]
struct WrittenFigure {
    name: String,
    cells: usize,
    failed: usize,
    /// Cells that are compared with nothing.
    in_doubt: Vec<WrittenDoubt>,
    /// Simulated cells that had not settled, of those of which it is known.
    unsettled: usize,
    settling_known: usize,
}

/// A cell that is compared with nothing.
#[derive(Serialize)]
struct WrittenDoubt {
    contender: String,
    x: u64,
    row: Option<u64>,
    why: String,
}

impl WrittenFigure {
    fn of(shown: &Shown) -> Self {
        let settling = settling(shown);
        let failed = |found: &&Found| found.has_failed();
        Self {
            name: shown.figure.name.clone(),
            cells: shown.results.cells.len(),
            failed: shown.results.cells.iter().filter(failed).count(),
            in_doubt: shown
                .doubts()
                .into_iter()
                .map(|(found, doubt)| WrittenDoubt {
                    contender: found.contender.clone(),
                    x: found.x,
                    row: found.row,
                    why: doubt.to_string(),
                })
                .collect(),
            unsettled: settling.unsettled.len(),
            settling_known: settling.known,
        }
    }
}

/// Which figures are drawn as pictures by themselves, too. Those that are there already are made again in any case.
#[derive(Debug, clap::Args)]
pub(super) struct Pictures {
    /// Draw these figures as SVG files, too; without names, all (those that are there are made again in any case)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', num_args = 0.., require_equals = true)]
    pictures: Option<Vec<String>>,
}

impl Pictures {
    fn wants(&self, figure: &str) -> bool {
        self.pictures
            .as_ref()
            .is_some_and(|names| names.is_empty() || names.iter().any(|name| name == figure))
    }
}

/// Reads all results of the folder, writes page, pictures and tables into it, and says what they say.
pub(super) fn page(
    store: &Store,
    pictures: &Pictures,
    ran: Option<&Counts>,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut all = store.read().map_err(wrong_store)?;
    let mut shown = Vec::new();
    for figure in catalogue::all().map_err(wrong_name)? {
        if let Some(results) = all.remove(&figure.name) {
            shown.push(Shown { figure, results });
        }
    }
    if shown.is_empty() {
        return Err(Failure::Input(format!(
            "{} holds no results; make some with `lab figures run`",
            store.folder().display()
        )));
    }
    let written = store
        .write_file(PAGE, &page::html(&shown))
        .map_err(wrong_store)?;
    store
        .write_file(TABLES, &page::markdown(&shown))
        .map_err(wrong_store)?;
    let file = |figure: &str| format!("{figure}.svg");
    let wanted = |figure: &str| pictures.wants(figure) || store.has_file(&file(figure));
    for (figure, picture) in page::pictures(&shown, wanted) {
        store
            .write_file(&file(&figure), &picture)
            .map_err(wrong_store)?;
    }
    let path = written.display().to_string();
    let verdict = page::verdict(&shown);
    if output.is_json() {
        let figures = shown.iter().map(WrittenFigure::of);
        return output.data(&Written {
            page: path,
            won: verdict.won,
            lost: verdict.lost,
            papers: verdict.papers,
            figures: figures.collect(),
        });
    }
    for sentence in [&verdict.won, &verdict.lost, &verdict.papers] {
        output.line(&wrap(sentence, ""))?;
    }
    let failed: usize = ran
        .into_iter()
        .flatten()
        .map(|(_, (_, failed))| failed)
        .sum();
    if failed > 0 {
        let cells = if failed == 1 { "cell" } else { "cells" };
        let text = format!("{failed} {cells} failed; the page says why.");
        let text = output.warning(&text);
        output.line(&text)?;
    }
    let path = output.strong(&path);
    output.line(&format!("The page, {} figures: {path}", shown.len()))
}
