//! Makes figures: runs the cells that are not there yet, and keeps what they give.

mod laboratory;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

pub use crate::plan::{Cell, Place, Size, places};
pub use laboratory::{CellError, Laboratory, SEED};

use crate::catalogue::{Figure, Need};
use crate::store::{Build, Found, Host, Results, Store, StoreError};

/// What is to be made, and what it is made with.
#[derive(Clone, Debug)]
pub struct Order {
    /// How much of each figure.
    pub size: Size,
    /// What this is.
    pub build: Build,
    /// The machine.
    pub host: Host,
    /// Whether to measure again what is there.
    pub again: bool,
    /// The features that contenders may need, of those that are built in.
    pub features: Vec<String>,
}

/// Who is told how far it is.
pub trait Progress {
    /// So many cells are to be run, besides those that are there.
    fn begins(&mut self, cells: usize, kept: usize);

    /// This one is next.
    fn runs(&mut self, figure: &Figure, place: &Place);

    /// It has been run.
    fn ran(&mut self, figure: &Figure, place: &Place, found: &Found);

    /// All of a figure is there.
    fn finishes(&mut self, figure: &Figure);

    /// Whether to stop before the next cell, as somebody has pressed a key.
    fn is_interrupted(&self) -> bool;
}

/// Why figures were not made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Results could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A quick look would take the place of a figure to judge by.
    #[error(
        "{folder} holds a full run of `{figure}`; choose another folder with --results for a quick one"
    )]
    WouldReplaceFull {
        /// Which figure.
        figure: String,
        /// Where.
        folder: String,
    },
    /// Somebody has interrupted it: what was found is kept.
    #[error("interrupted; what was measured is kept, and the same command goes on from there")]
    Interrupted,
}

/// A figure, its places, and what is known of them.
struct Task<'f> {
    figure: &'f Figure,
    places: Vec<Place>,
    results: Results,
}

impl Task<'_> {
    fn has(&self, place: &Place) -> bool {
        self.results.cells.iter().any(|found| is_of(found, place))
    }
}

fn is_of(found: &Found, place: &Place) -> bool {
    found.contender == place.contender
        && (found.x, found.row) == (place.x, place.row)
        && found.cell == place.cell
}

/// Makes the figures, and keeps each cell's result at once. First what is simulated, on all processors at a time: it is the same however busy the
/// machine is. Then what is measured, one cell after the other. A cell that is in two figures is run once; one that was run by the same build on
/// the same machine is not run again.
///
/// # Errors
/// Results could not be kept, or somebody has interrupted it. A cell that fails is no error: its figure says so.
pub fn run(
    figures: &[Figure],
    order: &Order,
    laboratory: &Laboratory,
    store: &Store,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    let mut finished = store.read()?;
    let mut tasks = Vec::with_capacity(figures.len());
    for figure in figures {
        let finished = finished.remove(&figure.name);
        tasks.push(task(figure, finished, order, store)?);
    }
    let cells: usize = tasks.iter().map(|task| missing(task).count()).sum();
    let kept: usize = tasks.iter().map(|task| task.results.cells.len()).sum();
    progress.begins(cells, kept);
    let mut work = Work {
        tasks,
        order,
        laboratory,
        store,
        progress,
    };
    work.share(None)?;
    work.run(
        |cell| !cell.is_here(),
        order.host.processors.max(1) as usize,
    )?;
    work.run(Cell::is_here, 1)
}

/// Figures under way.
struct Work<'w, 'f> {
    tasks: Vec<Task<'f>>,
    order: &'w Order,
    laboratory: &'w Laboratory,
    store: &'w Store,
    progress: &'w mut dyn Progress,
}

/// What a worker says.
enum Said {
    /// It begins with this place.
    Begins(usize),
    /// It has run this place.
    Ran(usize, Found),
}

impl Work<'_, '_> {
    /// Runs the missing cells of a sort, so many at a time.
    fn run(&mut self, sort: impl Fn(&Cell) -> bool, workers: usize) -> Result<(), RunError> {
        let mut places: Vec<(usize, Place)> = Vec::new();
        for (at, task) in self.tasks.iter().enumerate() {
            for place in missing(task).filter(|place| sort(&place.cell)) {
                if !places.iter().any(|(_, known)| known.cell == place.cell) {
                    places.push((at, place.clone()));
                }
            }
        }
        let workers = workers.min(places.len());
        // Relaxed: which place is next, and whether there is a next one; what was found goes through a channel.
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..workers {
                let (sender, places, next, stop) = (sender.clone(), &places, &next, &stop);
                let (order, laboratory) = (self.order, self.laboratory);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some((_, place)) = places.get(at) else {
                            return;
                        };
                        // Nobody listens any more if something else has failed.
                        let _ = sender.send(Said::Begins(at));
                        let found = run_place(place, order, laboratory);
                        let _ = sender.send(Said::Ran(at, found));
                    }
                });
            }
            drop(sender);
            let listened = self.listen(&places, &receiver);
            stop.store(true, Ordering::Relaxed);
            listened
        })
    }

    /// Keeps what the workers find, until there are none, or somebody interrupts.
    fn listen(
        &mut self,
        places: &[(usize, Place)],
        receiver: &mpsc::Receiver<Said>,
    ) -> Result<(), RunError> {
        loop {
            let said = receiver.recv_timeout(LOOK);
            // Before anything is kept: a key that ends this process's children ends their cells as well, and that is no result.
            if self.progress.is_interrupted() {
                return Err(RunError::Interrupted);
            }
            match said {
                Ok(Said::Begins(at)) => {
                    let (task, place) = &places[at];
                    self.progress.runs(self.tasks[*task].figure, place);
                }
                Ok(Said::Ran(at, found)) => {
                    self.keep(places[at].0, &places[at].1, found)?;
                    self.share(Some(&places[at].1.cell))?;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Keeps what was found of a place.
    fn keep(&mut self, at: usize, place: &Place, found: Found) -> Result<(), RunError> {
        let task = &mut self.tasks[at];
        self.progress.ran(task.figure, place, &found);
        task.results.cells.push(found);
        if missing(task).next().is_some() {
            self.store.write_unfinished(&task.results)?;
        } else {
            self.store.finish(&task.results)?;
            self.progress.finishes(task.figure);
        }
        Ok(())
    }

    /// Gives what was found of a cell, or of all, to all figures that have it.
    fn share(&mut self, only: Option<&Cell>) -> Result<(), RunError> {
        let mut shared = Vec::new();
        for (at, task) in self.tasks.iter().enumerate() {
            let wanted = |place: &&Place| only.is_none_or(|only| *only == place.cell);
            for place in missing(task).filter(wanted) {
                let cells = self.tasks.iter().flat_map(|other| &other.results.cells);
                let mut same = cells.filter(|found| found.cell == place.cell);
                if let Some(same) = same.next() {
                    let found = Found {
                        skipped: same.skipped,
                        ..Found::of(
                            place,
                            same.values.clone(),
                            same.seconds,
                            same.failure.clone(),
                        )
                    };
                    shared.push((at, place.clone(), found));
                }
            }
        }
        for (at, place, found) in shared {
            self.keep(at, &place, found)?;
        }
        Ok(())
    }
}

/// How often somebody's wish to stop is looked for.
const LOOK: Duration = Duration::from_millis(50);

fn missing<'t>(task: &'t Task<'_>) -> impl Iterator<Item = &'t Place> {
    task.places.iter().filter(|place| !task.has(place))
}

/// What is to be done for a figure, with what an earlier run of the same kind has left.
fn task<'f>(
    figure: &'f Figure,
    finished: Option<Results>,
    order: &Order,
    store: &Store,
) -> Result<Task<'f>, RunError> {
    let places = places(figure, order.size, order.host.processors);
    let mut results = Results {
        figure: figure.name.clone(),
        size: order.size,
        build: order.build.clone(),
        host: order.host.clone(),
        seed: SEED,
        cells: Vec::new(),
    };
    let unfinished = store.read_unfinished(&figure.name)?;
    if order.size == Size::Quick
        && let Some(finished) = &finished
        && finished.size == Size::Full
    {
        return Err(RunError::WouldReplaceFull {
            figure: figure.name.clone(),
            folder: store.folder().display().to_string(),
        });
    }
    if !order.again {
        let earlier = [unfinished, finished].into_iter().flatten();
        let same = earlier.filter(|earlier| {
            (&earlier.build, &earlier.host, earlier.size, earlier.seed)
                == (&results.build, &results.host, results.size, results.seed)
        });
        // What has failed is tried again.
        let cells = same.flat_map(|earlier| earlier.cells);
        for found in cells.filter(|found| found.failure.is_none()) {
            let wanted = places.iter().any(|place| is_of(&found, place));
            let known = |known: &Found| {
                known.contender == found.contender && (known.x, known.row) == (found.x, found.row)
            };
            if wanted && !results.cells.iter().any(known) {
                results.cells.push(found);
            }
        }
    }
    Ok(Task {
        figure,
        places,
        results,
    })
}

/// What is missing of it, and the way to it.
fn missing_need(need: &Need, order: &Order) -> Option<String> {
    match need {
        Need::Feature(feature) => (!order.features.contains(feature))
            .then(|| format!("not built in: it needs `--features {feature}`")),
        Need::Command(command) => percolog_sim::run::installed(command)
            .is_none()
            .then(|| format!("not installed: it needs the command `{command}`")),
    }
}

fn run_place(place: &Place, order: &Order, laboratory: &Laboratory) -> Found {
    if let Some(why) = place
        .needs
        .as_ref()
        .and_then(|need| missing_need(need, order))
    {
        return Found::skipped(place, why);
    }
    let started = Instant::now();
    let mut values = Vec::new();
    let mut failure = None;
    for _ in 0..place.cell.repetitions {
        match laboratory.run(&place.cell) {
            Ok(found) => values.push(found),
            Err(error @ CellError::NoSimulator(_)) => {
                return Found::skipped(place, error.to_string());
            }
            Err(error) => {
                failure = Some(error.to_string());
                break;
            }
        }
    }
    Found::of(place, values, started.elapsed().as_secs_f64(), failure)
}

#[cfg(test)]
mod tests;
