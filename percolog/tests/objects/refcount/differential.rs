//! The same steps with `Arc` and `CoreArc`, on one thread; some values are made hot or ordinary on the way.

use super::Watched;
use percolog::refcount::{self, CoreArc, CoreWeak};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

fn count(dropped: &AtomicUsize) -> usize {
    dropped.load(Ordering::Acquire)
}

#[derive(Debug, Clone)]
enum Step {
    New,
    MakeOrdinary(usize),
    MakeHot(usize),
    Clone(usize),
    Drop(usize),
    Downgrade(usize),
    CloneWeak(usize),
    Upgrade(usize),
    DropWeak(usize),
    GetMut(usize),
    Unwrap(usize),
    Reclaim,
}

fn pick<T>(list: &[T], at: usize) -> Option<usize> {
    (!list.is_empty()).then(|| at % list.len())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || any::<usize>();
    let step = prop_oneof![
        Just(Step::New),
        at().prop_map(Step::MakeOrdinary),
        at().prop_map(Step::MakeHot),
        at().prop_map(Step::Clone),
        at().prop_map(Step::Drop),
        at().prop_map(Step::Drop),
        at().prop_map(Step::Downgrade),
        at().prop_map(Step::CloneWeak),
        at().prop_map(Step::Upgrade),
        at().prop_map(Step::DropWeak),
        at().prop_map(Step::GetMut),
        at().prop_map(Step::Unwrap),
        Just(Step::Reclaim),
    ];
    prop::collection::vec(step, 0..200)
}

/// What is known of a value: that it was made ordinary, or hot, and how often each of the two was destroyed.
#[derive(Default)]
struct Known {
    is_ordinary: bool,
    was_hot: bool,
    theirs: Arc<AtomicUsize>,
    ours: Arc<AtomicUsize>,
}

impl Known {
    /// Whether it may be destroyed later than an `Arc`'s.
    fn is_late(&self) -> bool {
        self.was_hot && !self.is_ordinary
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Exempt: an upgrade where `Arc`'s fails since the last reference is gone, and when a destructor runs; of what is ordinary,
    /// or was never hot, nothing.
    #[test]
    fn as_arc(steps in steps()) {
        let mut strong: Vec<(Arc<Watched>, CoreArc<Watched>)> = Vec::new();
        let mut weak: Vec<(usize, Weak<Watched>, CoreWeak<Watched>)> = Vec::new();
        let mut known: Vec<Known> = Vec::new();
        for step in steps {
            match step {
                Step::New => {
                    let (new, number) = (Known::default(), known.len() as u64);
                    strong.push((
                        Arc::new(Watched::new(number, &new.theirs)),
                        CoreArc::new(Watched::new(number, &new.ours)),
                    ));
                    known.push(new);
                }
                Step::MakeOrdinary(at) => if let Some(at) = pick(&strong, at) {
                    prop_assert!(CoreArc::switch_to_atomic(&strong[at].1));
                    known[strong[at].0.number as usize].is_ordinary = true;
                },
                Step::MakeHot(at) => if let Some(at) = pick(&strong, at) {
                    let (theirs, ours) = strong.swap_remove(at);
                    known[theirs.number as usize].was_hot = true;
                    strong.push((theirs, CoreArc::into_hot(ours)));
                },
                Step::Clone(at) => if let Some(at) = pick(&strong, at) {
                    let copy = strong[at].clone();
                    strong.push(copy);
                },
                Step::Drop(at) => if let Some(at) = pick(&strong, at) {
                    strong.swap_remove(at);
                },
                Step::Downgrade(at) => if let Some(at) = pick(&strong, at) {
                    let (theirs, ours) = &strong[at];
                    let number = theirs.number as usize;
                    weak.push((number, Arc::downgrade(theirs), CoreArc::downgrade(ours)));
                },
                Step::CloneWeak(at) => if let Some(at) = pick(&weak, at) {
                    let copy = weak[at].clone();
                    weak.push(copy);
                },
                Step::Upgrade(at) => if let Some(at) = pick(&weak, at) {
                    let (number, theirs, ours) = &weak[at];
                    match (theirs.upgrade(), ours.upgrade()) {
                        (Some(theirs), Some(ours)) => strong.push((theirs, ours)),
                        (None, None) => {}
                        (theirs, _) => {
                            prop_assert!(theirs.is_none() && known[*number].is_late());
                        }
                    }
                },
                Step::DropWeak(at) => if let Some(at) = pick(&weak, at) {
                    weak.swap_remove(at);
                },
                Step::GetMut(at) => if let Some(at) = pick(&strong, at) {
                    let (theirs, ours) = &mut strong[at];
                    match (Arc::get_mut(theirs), CoreArc::get_mut(ours)) {
                        (Some(theirs), Some(ours)) => {
                            theirs.changes += 1;
                            ours.changes += 1;
                        }
                        (theirs, ours) => prop_assert_eq!(theirs.is_some(), ours.is_some()),
                    }
                },
                Step::Unwrap(at) => if let Some(at) = pick(&strong, at) {
                    let (theirs, ours) = strong.swap_remove(at);
                    match (Arc::try_unwrap(theirs), CoreArc::try_unwrap(ours)) {
                        (Ok(theirs), Ok(ours)) => prop_assert_eq!(theirs.number, ours.number),
                        (Err(theirs), Err(ours)) => strong.push((theirs, ours)),
                        _ => prop_assert!(false, "one was unwrapped"),
                    }
                },
                Step::Reclaim => {
                    refcount::reclaim();
                    // Nothing can be brought back any more.
                    for (_, theirs, ours) in &weak {
                        let (theirs, ours) = (theirs.upgrade(), ours.upgrade());
                        prop_assert_eq!(theirs.is_some(), ours.is_some());
                    }
                }
            }
            for (theirs, ours) in &strong {
                ours.check();
                prop_assert_eq!((theirs.number, theirs.changes), (ours.number, ours.changes));
                prop_assert_eq!(Arc::strong_count(theirs), CoreArc::count(ours));
                prop_assert_eq!(Arc::weak_count(theirs), CoreArc::weak_count(ours));
            }
            for known in &known {
                let (theirs, ours) = (count(&known.theirs), count(&known.ours));
                prop_assert!(ours == theirs || (ours < theirs && known.is_late()));
            }
        }
    }
}
