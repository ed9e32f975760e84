//! Every interleaving of lending, taking back and merging, within loom's bounds.
//!
//! Tables have one place, so that all objects have the same one. What no model here can see is what those of
//! the engine cannot see either; and the hash of addresses.

use super::cache::{Cache, CacheOptions};
use super::object::{DEFERS, Lent};
use crate::engine::limits::{Mode, OnDrop, Options};
use crate::engine::models::{Note, Notes, PATIENT, Pad, Scripted, Watched, bind, explore, join};
use crate::sync::atomic::{AtomicUsize, Ordering};
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

type Shelf = Cache<Notes, Pad, Scripted>;

/// An object, and the cache that it has its queues from.
struct Page {
    object: Lent<Notes>,
    shelf: Arc<Shelf>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.shelf.destroy(&mut self.object);
        // Nobody else touches the memory of an object that is gone.
        let Self { object, .. } = self;
        object.get_mut().look(|_| ());
        // SAFETY: nobody writes it any more: loom looks.
        let flags = unsafe { object.gate.flags.unsync_load() };
        assert_eq!(flags & !DEFERS, 0);
        assert!(self.shelf.has_no_tag(&self.object));
    }
}

impl Shelf {
    fn has_no_tag(&self, object: &Lent<Notes>) -> bool {
        self.slots.iter().all(|(_, table)| {
            let tag = table
                .places
                .made(0)
                .and_then(|place| place.lock().get().tag);
            let mut side = table.side.lock();
            tag != Some(object.tag()) && side.get().take(object).is_none()
        })
    }
}

/// As for the tests of what is queued.
const DEFERRING: Options = Options {
    mode: Mode::Deferring,
    ..Options::DEFAULT
};

fn shelf(objects: Options) -> Arc<Shelf> {
    bind(0, 0);
    let options = CacheOptions {
        objects,
        places: 1,
        queues: 4,
        room: 8,
    };
    Arc::new(Cache::new(options, Scripted::default()))
}

fn page(shelf: &Arc<Shelf>) -> Arc<Page> {
    Arc::new(Page {
        object: Lent::new(Watched::new(Vec::new())),
        shelf: shelf.clone(),
    })
}

impl Page {
    fn note(&self, note: Note) {
        let queued = self.shelf.queue(&self.object, note, None);
        queued.expect("there is room, or will be");
    }

    fn shown(&self) -> Vec<Note> {
        let guard = self.shelf.synchronize(&self.object, PATIENT);
        guard.expect("nothing panics").look(Vec::clone)
    }
}

fn spawn_on<R: 'static>(
    slot: u32,
    page: &Arc<Page>,
    f: impl FnOnce(&Page) -> R + 'static,
) -> thread::JoinHandle<R> {
    let page = page.clone();
    thread::spawn(move || {
        bind(slot, 0);
        f(&page)
    })
}

/// A reader is shown every update that finished before it began, the others or not, in their order; and in the
/// end each exactly once.
#[test]
fn a_reader_is_shown_what_finished_before() {
    explore(|| {
        let page = page(&shelf(DEFERRING));
        let finished = Arc::new(AtomicUsize::new(0));
        let updater = spawn_on(1, &page, {
            let finished = finished.clone();
            move |page| {
                page.note(1);
                finished.store(1, Ordering::Release);
                page.note(2);
                finished.store(2, Ordering::Release);
            }
        });
        let reader = spawn_on(0, &page, move |page| {
            let before = finished.load(Ordering::Acquire);
            let shown = page.shown();
            assert!(before <= shown.len() && shown == [1, 2][..shown.len()]);
        });
        join(updater);
        join(reader);
        assert_eq!(page.shown(), [1, 2]);
    });
}

/// An operation, then another one on another slot by the same thread: no reader is shown the second without the
/// first, whichever of the slots have a queue of the object before.
#[test]
fn no_effect_without_its_cause_when_a_thread_moves() {
    for dirty in [&[][..], &[0], &[1], &[0, 1]] {
        explore(move || {
            let page = page(&shelf(DEFERRING));
            for slot in dirty {
                bind(*slot, 0);
                page.note(9);
            }
            let updater = spawn_on(0, &page, |page| {
                page.note(1);
                bind(1, 0);
                page.note(2);
            });
            let reader = spawn_on(2, &page, Page::shown);
            let has_existed = |shown: &[Note]| {
                let chain: Vec<_> = shown.iter().copied().filter(|note| *note < 9).collect();
                chain == [1, 2][..chain.len()]
            };
            assert!(has_existed(&join(reader)));
            join(updater);
            let all = page.shown();
            assert!(has_existed(&all) && all.len() == 2 + dirty.len());
        });
    }
}

/// An update needs a place that another object has, while that one is read.
#[test]
fn taking_back_against_reading() {
    explore(|| {
        let shelf = shelf(DEFERRING);
        let (one, other) = (page(&shelf), page(&shelf));
        one.note(1);
        let updater = spawn_on(0, &other, |other| other.note(2));
        let reader = spawn_on(1, &one, Page::shown);
        join(updater);
        assert_eq!(join(reader), [1]);
        assert_eq!((one.shown(), other.shown()), ([1].to_vec(), [2].to_vec()));
    });
}

/// Two threads of a slot push each other's object from its place.
#[test]
fn taking_back_against_taking_back() {
    explore(|| {
        let shelf = shelf(DEFERRING);
        let (one, other) = (page(&shelf), page(&shelf));
        let updaters = [(&one, 1), (&other, 2)]
            .map(|(page, note)| spawn_on(0, page, move |page| page.note(note)));
        updaters.into_iter().for_each(join);
        assert_eq!((one.shown(), other.shown()), ([1].to_vec(), [2].to_vec()));
    });
}

/// A queue has been set aside because its object is in use; the same slot updates that object again, while it is merged.
#[test]
fn a_queue_that_was_set_aside_comes_back_or_is_merged() {
    explore(|| {
        let shelf = shelf(DEFERRING);
        let (one, other) = (page(&shelf), page(&shelf));
        let guard = shelf.synchronize(&one.object, PATIENT);
        one.note(1);
        other.note(9);
        drop(guard);
        let updater = spawn_on(0, &one, |one| one.note(2));
        let reader = spawn_on(1, &one, Page::shown);
        let shown = join(reader);
        assert!(shown == [1] || shown == [1, 2]);
        join(updater);
        assert_eq!(
            (one.shown(), other.shown()),
            ([1, 2].to_vec(), [9].to_vec())
        );
    });
}

/// An object goes away while an update of another one takes its queue back. `Page`'s destructor looks whether it is
/// let alone, and whether anything is left of it.
#[test]
fn destruction_against_taking_back() {
    for on_drop in [OnDrop::Apply, OnDrop::Discard] {
        explore(move || {
            let shelf = shelf(Options {
                on_drop,
                ..DEFERRING
            });
            let (one, other) = (page(&shelf), page(&shelf));
            one.note(1);
            let updater = spawn_on(0, &other, |other| other.note(2));
            let owner = thread::spawn(move || {
                bind(1, 0);
                drop(one);
            });
            join(updater);
            join(owner);
            assert_eq!(other.shown(), [2]);
        });
    }
}

/// A thread queues while another one has the object, so that its operation may be appended; who learns that it has returned queues another
/// one, which is never executed before. The object was deferring, and whoever has it makes it eager, if `switches`.
fn overtakes_nothing(switches: bool) {
    explore(move || {
        let page = page(&shelf(Options::DEFAULT));
        page.object.set_defers(switches);
        let finished = Arc::new(AtomicUsize::new(0));
        let first = spawn_on(1, &page, {
            let finished = finished.clone();
            move |page| {
                page.note(1);
                finished.store(1, Ordering::Release);
            }
        });
        let other = spawn_on(2, &page, move |page| {
            let guard = page.shelf.synchronize(&page.object, PATIENT);
            page.object.set_defers(false);
            drop(guard);
        });
        let before = finished.load(Ordering::Acquire) == 1;
        page.note(2);
        let shown = page.shown();
        assert!(shown.contains(&2) && (!before || shown == [1, 2]));
        join(first);
        join(other);
        let mut all = page.shown();
        assert_eq!(all[..shown.len()], shown);
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

#[test]
fn an_update_at_once_overtakes_nothing() {
    overtakes_nothing(false);
}

#[test]
fn an_update_at_once_overtakes_nothing_that_was_deferred() {
    overtakes_nothing(true);
}

/// An update needs a place that an object has which is updated at once just then.
#[test]
fn taking_back_against_an_update_at_once() {
    explore(|| {
        let shelf = shelf(Options::DEFAULT);
        let (one, other) = (page(&shelf), page(&shelf));
        // In a queue, although the object is eager: somebody had it.
        let guard = shelf.synchronize(&one.object, PATIENT);
        one.note(1);
        drop(guard);
        other.object.set_defers(true);
        let updaters = [(&one, 2), (&other, 3)]
            .map(|(page, note)| spawn_on(0, page, move |page| page.note(note)));
        updaters.into_iter().for_each(join);
        assert_eq!(
            (one.shown(), other.shown()),
            ([1, 2].to_vec(), [3].to_vec())
        );
    });
}
