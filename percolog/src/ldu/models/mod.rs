//! Every interleaving of updates, merges and frees, within loom's bounds.
//!
//! Items hold one of loom's counted pointers, so that one that is freed twice, or never, is found. What no
//! model here can see: threads that wait for a claim for long (they yield), the allocator, and panics.

mod fifo;

use super::{Bag, Deferred, DeferredBuilder, Entry, UpdateError, Variant};
use crate::engine::models::{Scripted, bind, explore, join};
use loom::sync::Arc;
use loom::thread;

type Subject = Deferred<Bag<Arc<()>>, Scripted>;

fn subject(variant: Variant) -> Arc<Subject> {
    Arc::new(
        DeferredBuilder::new()
            .variant(variant)
            .build_in(Bag::new(), Scripted::default()),
    )
}

fn entry() -> Entry<Arc<()>> {
    Entry::new(Arc::new(()))
}

fn has(subject: &Subject, entry: &Entry<Arc<()>>) -> bool {
    let guard = subject.synchronize();
    guard.members().any(|member| member.is(entry))
}

/// The handshake of an update with a merge: an update that finds its entry in the log, however lately it was
/// put there by another thread, and returns, is seen by a merge that begins then.
fn what_has_returned_is_seen(variant: Variant) {
    explore(move || {
        let subject = subject(variant);
        let entry = entry();
        let first = thread::spawn({
            let (subject, entry) = (Arc::clone(&subject), entry.clone());
            move || {
                bind(1, 0);
                let outcome = subject.insert(&entry);
                assert!(matches!(outcome, Ok(()) | Err(UpdateError::Present)));
            }
        });
        let second = thread::spawn({
            let (subject, entry) = (Arc::clone(&subject), entry.clone());
            move || {
                bind(0, 0);
                if subject.remove(&entry).is_ok() {
                    subject.insert(&entry).unwrap();
                    assert!(has(&subject, &entry));
                }
            }
        });
        join(first);
        join(second);
        assert!(has(&subject, &entry));
        drop(subject);
        assert!(entry.try_unwrap().is_ok());
    });
}

#[test]
fn what_has_returned_is_seen_by_the_next_merge() {
    what_has_returned_is_seen(Variant::PerCore);
}

#[test]
fn what_has_returned_is_seen_in_the_common_list() {
    what_has_returned_is_seen(Variant::Global);
}

/// An entry is updated while a merge looks at it: nothing is lost, and the last word counts.
fn updates_behind_a_merge_s_back(variant: Variant) {
    explore(move || {
        bind(0, 0);
        let subject = subject(variant);
        let entry = entry();
        subject.insert(&entry).unwrap();
        let updates = thread::spawn({
            let (subject, entry) = (Arc::clone(&subject), entry.clone());
            move || {
                bind(0, 0);
                subject.remove(&entry).unwrap();
                subject.insert(&entry).unwrap();
                subject.remove(&entry).unwrap();
            }
        });
        let merges = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(1, 0);
                drop(subject.synchronize());
            }
        });
        join(updates);
        join(merges);
        assert!(!has(&subject, &entry));
        assert!(entry.try_unwrap().is_ok());
    });
}

#[test]
fn updates_while_an_entry_is_looked_at() {
    updates_behind_a_merge_s_back(Variant::PerCore);
}

#[test]
fn updates_while_an_entry_is_looked_at_from_the_common_list() {
    updates_behind_a_merge_s_back(Variant::Global);
}

/// The last handle goes while a merge looks at the entry: it is freed once.
fn freed_once(variant: Variant) {
    explore(move || {
        bind(0, 0);
        let subject = subject(variant);
        let entry = entry();
        subject.insert(&entry).unwrap();
        let updates = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(0, 0);
                subject.remove(&entry).unwrap();
                drop(entry);
            }
        });
        let merges = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(1, 0);
                drop(subject.synchronize());
            }
        });
        join(updates);
        join(merges);
        assert!(subject.synchronize().is_empty());
    });
}

#[test]
fn an_entry_is_freed_once() {
    freed_once(Variant::PerCore);
}

#[test]
fn an_entry_of_the_common_list_is_freed_once() {
    freed_once(Variant::Global);
}

/// A full log, and an entry in it that came and went: while one thread makes room, another one uses the entry.
fn while_room_is_made(other: impl Fn(&Subject, Entry<Arc<()>>) + Copy + Send + Sync + 'static) {
    explore(move || {
        bind(0, 0);
        let subject = Arc::new(
            DeferredBuilder::new()
                .limit(1)
                .build_in(Bag::new(), Scripted::default()),
        );
        let (gone, new) = (entry(), entry());
        subject.insert(&gone).unwrap();
        subject.remove(&gone).unwrap();
        let makes_room = thread::spawn({
            let (subject, new) = (Arc::clone(&subject), new.clone());
            move || {
                bind(0, 0);
                subject.insert(&new).unwrap();
            }
        });
        let uses = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(1, 0);
                other(&subject, gone);
            }
        });
        join(makes_room);
        join(uses);
        assert!(has(&subject, &new));
    });
}

#[test]
fn an_entry_comes_back_while_it_leaves_a_full_log() {
    while_room_is_made(|subject, gone| {
        subject.insert(&gone).unwrap();
        assert!(has(subject, &gone));
    });
}

#[test]
fn the_last_handle_goes_while_an_entry_leaves_a_full_log() {
    while_room_is_made(|_subject, gone| drop(gone));
}

/// Entries come back into the log while a merge goes through it: all of them are found.
fn queued_again(variant: Variant) {
    explore(move || {
        bind(0, 0);
        let subject = subject(variant);
        let entries = [entry(), entry()];
        for entry in &entries {
            subject.insert(entry).unwrap();
        }
        let updates = thread::spawn({
            let (subject, entries) = (Arc::clone(&subject), entries.clone());
            move || {
                bind(0, 0);
                for entry in &entries {
                    subject.remove(entry).unwrap();
                }
            }
        });
        let merges = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(1, 0);
                drop(subject.synchronize());
            }
        });
        join(updates);
        join(merges);
        assert!(subject.synchronize().is_empty());
        for entry in entries {
            assert!(entry.try_unwrap().is_ok());
        }
    });
}

#[test]
fn entries_queued_again_while_a_merge_goes_on() {
    queued_again(Variant::PerCore);
}

#[test]
fn entries_queued_again_in_the_common_list() {
    queued_again(Variant::Global);
}

/// What one reader of the common list has taken, and has not merged, another one waits for.
#[test]
fn a_list_that_another_reader_has_taken_is_waited_for() {
    explore(|| {
        bind(2, 0);
        let subject = subject(Variant::Global);
        let entry = entry();
        subject.insert(&entry).unwrap();
        let takes = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(0, 0);
                subject.gather();
            }
        });
        let reads = thread::spawn({
            let (subject, entry) = (Arc::clone(&subject), entry.clone());
            move || {
                bind(1, 0);
                assert!(has(&subject, &entry));
            }
        });
        join(takes);
        join(reads);
    });
}

/// Of a thread that pops an entry and one that removes it, one has it.
#[test]
fn popped_or_removed() {
    explore(|| {
        bind(0, 0);
        let subject = subject(Variant::PerCore);
        let entry = entry();
        subject.insert(&entry).unwrap();
        let removes = thread::spawn({
            let (subject, entry) = (Arc::clone(&subject), entry.clone());
            move || {
                bind(0, 0);
                subject.remove(&entry).is_ok()
            }
        });
        let pops = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(1, 0);
                subject.synchronize().pop().is_some()
            }
        });
        assert_ne!(join(removes), join(pops));
        assert!(!entry.is_linked());
    });
}

/// An entry is inserted again while a merge carries out its removal: it stays.
#[test]
fn inserted_again_while_it_is_removed() {
    explore(|| {
        bind(0, 0);
        let subject = subject(Variant::PerCore);
        let entry = entry();
        subject.insert(&entry).unwrap();
        assert!(has(&subject, &entry));
        let updates = thread::spawn({
            let (subject, entry) = (Arc::clone(&subject), entry.clone());
            move || {
                bind(0, 0);
                subject.remove(&entry).unwrap();
                subject.insert(&entry).unwrap();
            }
        });
        let merges = thread::spawn({
            let subject = Arc::clone(&subject);
            move || {
                bind(1, 0);
                drop(subject.synchronize());
            }
        });
        join(updates);
        join(merges);
        assert!(entry.is_linked());
        assert!(has(&subject, &entry));
    });
}

/// Two threads that move an entry from one container to two others: it ends up in one of them.
#[test]
fn bound_to_one_container() {
    explore(|| {
        bind(0, 0);
        let [from, left, right] = [(); 3].map(|()| subject(Variant::PerCore));
        let entry = entry();
        from.insert(&entry).unwrap();
        from.remove(&entry).unwrap();
        let movers = [(0, &left), (1, &right)].map(|(slot, to)| {
            let (to, entry) = (Arc::clone(to), entry.clone());
            thread::spawn(move || {
                bind(slot, 0);
                match to.insert(&entry) {
                    Ok(()) => true,
                    Err(UpdateError::Elsewhere) => false,
                    Err(other) => panic!("{other}"),
                }
            })
        });
        let done = movers.map(join);
        assert!(done[0] != done[1]);
        assert_eq!(done, [has(&left, &entry), has(&right, &entry)]);
    });
}
