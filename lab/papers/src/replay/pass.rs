//! One pass through a load, from the moment when all threads are ready until every object has been brought together.

use super::load::Load;
use super::meeting::Waiting;
use super::model::Model;
use super::run::{Isolated, Script, Stage};
use super::schedule::Schedule;
use super::{ReplayError, difference};
use crate::subsystem::{Entry, SharedObject, Subsystem};
use crate::trace::plan::Update;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is to be passed through, again and again.
pub(super) struct Course<'l, O> {
    pub(super) load: &'l Load,
    pub(super) schedule: Schedule,
    pub(super) objects: Vec<Isolated<O>>,
    /// Cycles of other work before each event.
    work: u64,
    /// What should be left at the end of a pass, in each object where that is anything.
    left: BTreeMap<u32, Vec<Entry>>,
}

/// How long a pass took.
pub(super) struct Pass {
    /// All of it.
    pub(super) elapsed: Duration,
    /// The last look at each object, which is part of it.
    pub(super) looked: Duration,
}

/// What one thread did, and when.
struct Span<V> {
    begun: Instant,
    ended: Instant,
    /// How long it looked at the objects that it used last.
    looked: Duration,
    /// What its reads took away.
    taken: Vec<V>,
    /// What it saw at last.
    seen: Vec<(u32, V)>,
}

impl<'l, O: SharedObject> Course<'l, O> {
    pub(super) fn new(load: &'l Load, threads: usize, work: u64) -> Self {
        let plan = &load.plan;
        let mut model = Model::new(load.subsystem(), plan.objects());
        for update in plan.updates() {
            model.apply(update);
        }
        let left = (0..plan.objects())
            .map(|object| (object as u32, model.entries(object)))
            .filter(|(_, entries)| !entries.is_empty())
            .collect();
        Course {
            load,
            schedule: Schedule::new(plan, threads),
            objects: super::run::objects(plan),
            work,
            left,
        }
    }

    /// One pass; tells how long it took.
    ///
    /// At the end each object is looked at by the thread that used it last, as far as the trace tells: work that was
    /// put off is paid for inside. The look begins when all threads are done; waiting for that is not counted, neither by the
    /// clock nor by a simulator.
    pub(super) fn pass(&self) -> Result<Pass, ReplayError> {
        let stage = Stage::new(&self.load.plan, &self.schedule, &self.objects);
        // By each thread's own clock: nobody else needs to be awake to tell.
        let spans: Mutex<Vec<Span<O::View>>> = Mutex::default();
        let body = |_: usize, mut script: Script<'_, O>| {
            let mut taken = Vec::new();
            // What a read sees depends on the order of the threads; that it looks is what counts. But what it takes
            // away must not be lost.
            let mut seen = |view| match O::taken(&view) {
                Some(_) => taken.push(view),
                None => drop(black_box(view)),
            };
            script.perform(self.load.set_up(), &mut seen);
            script.work = self.work;
            let events = script.left;
            if !stage.meeting.attend(Waiting::Looking) {
                return;
            }
            percolog_roi::begin();
            let begun = Instant::now();
            script.perform(usize::MAX, &mut seen);
            let ended = Instant::now();
            percolog_roi::end(events);
            if !stage.meeting.attend(Waiting::Asleep) {
                return;
            }
            percolog_roi::begin();
            let last_look = Instant::now();
            let last_used = script.share.last_used.iter();
            let seen: Vec<_> = last_used
                .map(|&number| (number, self.last_look(number)))
                .collect();
            let looked = last_look.elapsed();
            percolog_roi::end(0);
            let span = Span {
                begun,
                ended,
                looked,
                taken,
                seen,
            };
            spans
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(span);
        };
        stage.run(body)?;
        let spans = spans.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.compare(&spans)?;

        let begun = spans.iter().map(|span| span.begun).min();
        let ended = spans.iter().map(|span| span.ended).max();
        let looked = spans.iter().map(|span| span.looked).max();
        let elapsed = match (begun, ended, looked) {
            (Some(begun), Some(ended), Some(looked)) => ended - begun + looked,
            // There is at least one thread, and each that does not panic leaves its span.
            _ => Duration::ZERO,
        };
        Ok(Pass {
            elapsed,
            looked: looked.unwrap_or_default(),
        })
    }

    /// Looks at an object that will not be used again in this pass. What would stay in it is taken.
    fn last_look(&self, object: u32) -> O::View {
        let object = &self.objects[object as usize].0;
        match self.load.subsystem() {
            Subsystem::Events => object.read(0),
            _ => object.view(),
        }
    }

    /// Compares what was seen last of each object with what should be left in it; or, where reads have taken anything
    /// away, what was taken and what was left together with everything that has come.
    fn compare(&self, spans: &[Span<O::View>]) -> Result<(), ReplayError> {
        if spans.iter().any(|span| !span.taken.is_empty()) {
            return self.compare_sum(spans);
        }
        for (object, found) in spans.iter().flat_map(|span| &span.seen) {
            let expected = O::expected(match self.left.get(object) {
                Some(entries) => entries,
                None => &[],
            });
            if *found != expected {
                return Err(
                    self.differs(*object, difference("at the end there is", found, &expected))
                );
            }
        }
        Ok(())
    }

    fn compare_sum(&self, spans: &[Span<O::View>]) -> Result<(), ReplayError> {
        let views = spans.iter().flat_map(|span| {
            span.taken
                .iter()
                .chain(span.seen.iter().map(|(_, view)| view))
        });
        let mut found: Vec<Entry> = views.filter_map(O::taken).flatten().copied().collect();
        found.sort_unstable();
        let plan = &self.load.plan;
        let mut expected: Vec<Entry> = plan
            .updates()
            .iter()
            .filter_map(|update| match *update {
                Update::Enter { entry, .. } => Some(entry),
                _ => None,
            })
            .collect();
        expected.sort_unstable();
        if found == expected {
            return Ok(());
        }
        // Reads take entries away only in subsystems of one object.
        Err(self.differs(0, difference("all reads together took", &found, &expected)))
    }

    fn differs(&self, object: u32, difference: String) -> ReplayError {
        ReplayError::Differs {
            event: self.load.events(),
            object: self.load.name(object as usize),
            difference,
        }
    }
}
