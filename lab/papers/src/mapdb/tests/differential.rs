//! Random programs: each database does what the model does.

use super::super::back_end::BackEnd;
use super::super::{
    Mapping, MappingDatabase, Mappings, OneLock, SoftwareTables, Space, SpaceLocks,
};
use super::model::{Model, Pages};
use super::{NO_TLBS, PAGES};
use percolog::reclaim::Domain;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Create,
    Grant(usize, u32),
    Reserve(usize, u32),
    Alias(usize, (u32, u32), usize),
    AliasInto(usize, (u32, u32), usize),
    Revoke(usize, (u32, u32)),
    Release(usize, (u32, u32)),
    Terminate(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..64_usize;
    let some = (0..6_u32, 1..7_u32);
    prop_oneof![
        1 => Just(Step::Create),
        4 => (any.clone(), 0..7_u32).prop_map(|(space, pages)| Step::Grant(space, pages)),
        2 => (any.clone(), 1..5_u32).prop_map(|(space, pages)| Step::Reserve(space, pages)),
        9 => (any.clone(), some.clone(), any.clone()).prop_map(|(from, part, to)| Step::Alias(from, part, to)),
        3 => (any.clone(), some.clone(), any.clone()).prop_map(|(from, part, to)| Step::AliasInto(from, part, to)),
        3 => (any.clone(), some.clone()).prop_map(|(of, part)| Step::Revoke(of, part)),
        3 => (any.clone(), some).prop_map(|(of, part)| Step::Release(of, part)),
        1 => any.prop_map(Step::Terminate),
    ]
}

pub(super) fn program() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..50)
}

/// A part of a mapping, made to fit; of the model's, and of the database's.
fn part((pages, mapping): &(Pages, Mapping), (from, length): (u32, u32)) -> (Pages, Mapping) {
    let from = from % mapping.len();
    let end = (from + length).min(mapping.len());
    let part = mapping.part(from..end).expect("made to fit");
    (pages[from as usize..end as usize].to_vec(), part)
}

/// All mappings there have ever been, as the model and as the database names them.
pub(super) struct Course {
    pub(super) model: Model,
    pub(super) mappings: Vec<(Pages, Mapping)>,
}

/// Runs the program; `look` is told of every state.
pub(super) fn run<M: Mappings>(
    database: &M,
    program: &[Step],
    mut look: impl FnMut(&Course) -> Result<(), TestCaseError>,
) -> Result<Course, TestCaseError> {
    let mut spaces: Vec<Space> = Vec::new();
    let mut course = Course {
        model: Model::default(),
        mappings: Vec::new(),
    };
    for step in program {
        let Course { model, mappings } = &mut course;
        if spaces.len() < 2 {
            spaces.push(database.create().expect("there is room"));
            model.create();
        }
        // Wherever there is none yet, nothing happens.
        let chosen =
            |at: &usize| (!mappings.is_empty()).then(|| mappings[at % mappings.len()].clone());
        match step {
            Step::Create => {
                spaces.push(database.create().expect("there is room"));
                model.create();
            }
            Step::Grant(space, count) => {
                let space = space % spaces.len();
                let granted = database.grant(spaces[space], *count).ok();
                let expected = model.grant(space, *count);
                prop_assert_eq!(granted.is_some(), expected.is_some(), "{:?}", step);
                mappings.extend(expected.zip(granted));
            }
            Step::Reserve(space, count) => {
                let space = space % spaces.len();
                let reserved = database.reserve(spaces[space], *count).ok();
                let expected = model.reserve(space, *count);
                prop_assert_eq!(reserved.is_some(), expected.is_some(), "{:?}", step);
                mappings.extend(expected.zip(reserved));
            }
            Step::Alias(from, offsets, to) => {
                if let Some(from) = chosen(from) {
                    let to = to % spaces.len();
                    let (pages, from) = part(&from, *offsets);
                    let aliased = database.alias(from, spaces[to]).ok();
                    let expected = model.alias(&pages, to);
                    prop_assert_eq!(aliased.is_some(), expected.is_some(), "{:?}", step);
                    mappings.extend(expected.zip(aliased));
                }
            }
            Step::AliasInto(from, offsets, to) => {
                if let (Some(from), Some(to)) = (chosen(from), chosen(to)) {
                    let (pages, from) = part(&from, *offsets);
                    // As long as it is, as a rule.
                    let (own, to) = part(&to, (0, from.len()));
                    let aliased = database.alias_into(from, to).ok();
                    prop_assert_eq!(aliased, model.alias_into(&pages, &own), "{:?}", step);
                }
            }
            Step::Revoke(of, offsets) => {
                if let Some(of) = chosen(of) {
                    let (pages, of) = part(&of, *offsets);
                    let removed = database.revoke(of).ok();
                    prop_assert_eq!(removed, model.revoke(&pages), "{:?}", step);
                }
            }
            Step::Release(of, offsets) => {
                if let Some(of) = chosen(of) {
                    let (pages, of) = part(&of, *offsets);
                    let removed = database.release(of).ok();
                    prop_assert_eq!(removed, model.release(&pages), "{:?}", step);
                }
            }
            Step::Terminate(space) => {
                // Not the first two, so that something is left.
                let space = space % spaces.len();
                if space >= 2 || program.len().is_multiple_of(3) {
                    let removed = database.terminate(spaces[space]).ok();
                    prop_assert_eq!(removed, model.terminate(space), "{:?}", step);
                }
            }
        }
        look(&course)?;
    }
    Ok(course)
}

/// Each page shows what it should: all that come from one grant the same frame, and no others that.
pub(super) fn compare<M: Mappings>(database: &M, course: &Course) -> Result<(), TestCaseError> {
    let mut frames: HashMap<usize, u32> = HashMap::new();
    let mut roots: HashMap<u32, usize> = HashMap::new();
    for (pages, mapping) in &course.mappings {
        for (offset, page) in (0..).zip(pages) {
            let shown = database.frame(*mapping, offset);
            let root = course.model.root(*page);
            prop_assert_eq!(
                shown.is_some(),
                root.is_some(),
                "{:?} at {}",
                mapping,
                offset
            );
            if let (Some(frame), Some(root)) = (shown, root) {
                prop_assert_eq!(*frames.entry(root).or_insert(frame), frame);
                prop_assert_eq!(*roots.entry(frame).or_insert(root), root);
            }
        }
    }
    Ok(())
}

fn locked<M: Mappings>(database: &M, program: &[Step]) -> Result<(), TestCaseError> {
    run(database, program, |course| compare(database, course)).map(drop)
}

fn tables() -> SoftwareTables {
    SoftwareTables::new(&NO_TLBS, PAGES)
}

proptest! {
    #[test]
    fn does_what_the_model_does(program in program()) {
        let domain = Domain::new();
        let database = MappingDatabase::new(&domain, tables(), PAGES);
        run(&database, &program, |course| {
            compare(&database, course)?;
            database.check().map(drop).map_err(TestCaseError::fail)
        })?;
    }

    #[test]
    fn one_lock_does_what_the_model_does(program in program()) {
        locked(&OneLock::new(tables(), PAGES), &program)?;
    }

    #[test]
    fn space_locks_do_what_the_model_does(program in program()) {
        locked(&SpaceLocks::new(tables(), PAGES, 64), &program)?;
    }
}

/// For tests of other back-ends.
pub(super) fn with_back_end<B: BackEnd>(
    database: &MappingDatabase<'_, B>,
    program: &[Step],
) -> Result<Course, TestCaseError> {
    let course = run(database, program, |_| Ok(()))?;
    compare(database, &course)?;
    database.check().map_err(TestCaseError::fail)?;
    Ok(course)
}
