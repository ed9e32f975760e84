//! One thread, on slots of its choice: every system does what a model does that has no frames.

use super::super::{AddressSpace, Choice, FaultError, File, MapError, OutOfMemory, System};
use super::{Numbers, with_each_choice};
use percolog::clustered::ObjectRef;
use percolog::cpu::{self, CoreId};
use percolog::requests::StopError;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const FRAMES: u32 = 40;
const MOST: usize = 6;
const STEPS: usize = 1500;

/// What a region shows.
enum Shown {
    /// What was written to it; with a page that was only read.
    Fresh(HashMap<u64, u64>),
    /// Pages of the file from this one on.
    Numbered(usize, u64),
}

struct Region {
    pages: u64,
    /// Those left of them.
    kept: u64,
    shown: Shown,
    name: ObjectRef<dyn super::super::Region>,
}

#[derive(Default)]
struct Space {
    regions: BTreeMap<u64, Region>,
}

impl Space {
    fn find(&mut self, page: u64) -> Option<(u64, &mut Region)> {
        let (first, region) = self.regions.range_mut(..=page).next_back()?;
        (page - first < region.kept).then_some((page - first, region))
    }

    fn overlap(&self, first: u64, pages: u64) -> bool {
        let reaches =
            |(at, region): (&u64, &Region)| *at < first + pages && first < at + region.pages;
        self.regions.iter().any(reaches)
    }

    fn fresh_pages(&self) -> usize {
        let pages = self.regions.values().map(|region| match &region.shown {
            Shown::Fresh(pages) => pages.len(),
            Shown::Numbered(..) => 0,
        });
        pages.sum()
    }
}

/// The model, and what it is a model of.
struct Course<'s> {
    system: &'s System,
    spaces: Vec<(AddressSpace<'s>, Space)>,
    files: Vec<(File<'s>, BTreeSet<u64>)>,
}

impl<'s> Course<'s> {
    fn fresh(&self) -> usize {
        self.spaces
            .iter()
            .map(|(_, space)| space.fresh_pages())
            .sum()
    }

    fn resident(&self) -> usize {
        self.files.iter().map(|(file, _)| file.resident()).sum()
    }

    /// What touching the page gives, if there is memory.
    fn touch(&mut self, at: usize, page: u64, write: Option<u64>) {
        let (fresh, all) = (self.fresh(), self.system.frames());
        let before = self.system.free();
        let (space, model) = &mut self.spaces[at];
        let found = match write {
            Some(value) => space.write(page, 3, value).map(|()| value),
            None => space.read(page, 3),
        };
        let Some((offset, region)) = model.find(page) else {
            assert_eq!(found, Err(FaultError::NoRegion { page }));
            return;
        };
        match &mut region.shown {
            Shown::Numbered(file, start) if write.is_some() => {
                self.files[*file].1.insert(*start + offset);
                // There may have been no memory to find that out.
                let out = fresh == all && found == Err(OutOfMemory.into());
                assert!(
                    found == Err(FaultError::ReadOnly { page }) || out,
                    "{found:?}"
                );
            }
            Shown::Numbered(file, start) => match found {
                Ok(word) => {
                    assert_eq!(word, *start + offset);
                    self.files[*file].1.insert(word);
                }
                other => {
                    assert_eq!(other, Err(OutOfMemory.into()));
                    assert_eq!(fresh, all, "no file could give a frame back");
                }
            },
            Shown::Fresh(pages) => match found {
                Ok(word) => {
                    let expected = write.unwrap_or(pages.get(&offset).copied().unwrap_or(0));
                    assert_eq!(word, expected);
                    pages.insert(offset, word);
                }
                other => {
                    assert_eq!(other, Err(OutOfMemory.into()));
                    assert_eq!(before, 0, "a frame was free");
                    assert_eq!(fresh, all, "no file could give a frame back");
                    assert!(!pages.contains_key(&offset), "it has a frame");
                }
            },
        }
    }

    fn step(&mut self, numbers: &mut Numbers) {
        // Slots as they come: a process runs on many.
        cpu::bind(CoreId::new(numbers.below(4) as u32));
        if self.spaces.len() < 3 {
            let space = self.system.start().expect("there is room");
            self.spaces.push((space, Space::default()));
        }
        if self.files.len() < 2 {
            let file = self.system.open().expect("there is room");
            self.files.push((file, BTreeSet::new()));
        }
        let at = numbers.below(self.spaces.len() as u64) as usize;
        let page = numbers.below(64);
        match numbers.below(100) {
            0..8 => {
                let pages = numbers.below(12);
                let (space, model) = &mut self.spaces[at];
                let file = numbers.below(4) as usize;
                let offset = numbers.below(20);
                let mapped = match self.files.get(file) {
                    Some((file, _)) => space.map_file(page, pages, file, offset),
                    None => space.map(page, pages),
                };
                match mapped {
                    Ok(name) => {
                        assert!(pages > 0 && !model.overlap(page, pages));
                        let shown = if file < 2 {
                            Shown::Numbered(file, offset)
                        } else {
                            Shown::Fresh(HashMap::new())
                        };
                        let region = Region {
                            pages,
                            kept: pages,
                            shown,
                            name,
                        };
                        model.regions.insert(page, region);
                    }
                    Err(MapError::Length { .. }) => assert_eq!(pages, 0),
                    Err(MapError::Overlap { first }) => {
                        assert!(model.overlap(page, pages));
                        assert!(model.regions.contains_key(&first));
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            8..12 => {
                let (space, model) = &mut self.spaces[at];
                let first = model
                    .regions
                    .range(page..)
                    .next()
                    .map_or(page, |(first, _)| *first);
                match model.regions.remove(&first) {
                    Some(region) => {
                        space.unmap(first).expect("it is there");
                        assert!(!region.name.exists());
                    }
                    None => assert_eq!(space.unmap(first), Err(MapError::NoRegion { first })),
                }
            }
            12..14 => {
                let (_, model) = &mut self.spaces[at];
                if let Some((_, region)) = model.regions.range_mut(page..).next() {
                    let section = percolog::clustered::enter();
                    let kept = numbers.below(8);
                    let object = region.name.get(&section).expect("it is there");
                    object.truncate(&section, kept).expect("nobody unmaps it");
                    region.kept = region.kept.min(kept);
                }
            }
            14 => {
                let (space, _) = self.spaces.swap_remove(at);
                space.exit().expect("nothing keeps it");
            }
            15 => {
                let shows = |region: &Region| matches!(region.shown, Shown::Numbered(1, _));
                let mapped = self
                    .spaces
                    .iter()
                    .any(|(_, space)| space.regions.values().any(shows));
                let (file, seen) = self.files.pop().expect("there are two");
                let resident = file.resident();
                match file.close() {
                    Ok(frames) => {
                        assert!(!mapped);
                        assert_eq!(frames, resident);
                    }
                    Err(not) => {
                        assert!(mapped);
                        self.files.push((not.file, seen));
                    }
                }
            }
            16 => {
                let (wanted, before) = (numbers.below(9) as usize, self.resident());
                assert_eq!(self.system.reclaim(wanted), wanted.min(before));
                assert_eq!(self.resident(), before - wanted.min(before));
            }
            17..50 => {
                let value = numbers.below(1 << 20);
                self.touch(at, page, Some(value));
            }
            _ => self.touch(at, page, None),
        }
        let used = self.fresh() + self.resident();
        assert_eq!(
            self.system.free() + used,
            self.system.frames(),
            "every frame is in one place"
        );
        assert_eq!(self.system.members(), self.spaces.len() + self.files.len());
        for (file, seen) in &self.files {
            assert!(
                file.resident() <= seen.len(),
                "only what was touched is there"
            );
        }
    }
}

fn run(choice: Choice, seed: u64) {
    let mut numbers = Numbers::new(seed);
    let system = System::new(choice, FRAMES, MOST).expect("there is room");
    let mut course = Course {
        system: &system,
        spaces: Vec::new(),
        files: Vec::new(),
    };
    for _ in 0..STEPS {
        course.step(&mut numbers);
    }
    for (space, _) in course.spaces {
        space.exit().expect("nothing keeps it");
    }
    for (file, _) in course.files {
        file.close().expect("nobody maps it");
    }
    cpu::unbind();
    assert_eq!(system.free(), system.frames());
    assert_eq!(system.members(), 0);
}

#[test]
fn every_choice_does_what_the_model_does() {
    with_each_choice(|choice| {
        for seed in 1..4 {
            run(choice, seed);
        }
    });
}

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(
        FaultError::NoRegion { page: 0x1f }.to_string(),
        "there is no region at page 0x1f"
    );
    assert_eq!(
        FaultError::from(OutOfMemory).to_string(),
        OutOfMemory.to_string()
    );
    assert_eq!(
        MapError::from(StopError::Barrier).to_string(),
        format!("faults could not be held off: {}", StopError::Barrier)
    );
    let system = System::new(Choice::SHARED, 1, 1).expect("there is room");
    let space = system.start().expect("there is room");
    let length = space.map(u64::MAX, 2).map(drop);
    assert_eq!(
        length,
        Err(MapError::Length {
            first: u64::MAX,
            pages: 2
        })
    );
}
