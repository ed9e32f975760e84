//! Single objects: where frames and members are, and what is visible at the edges.

use super::super::memory::Memory;
use super::super::objects::Member;
use super::super::{Choice, CloseError, FaultError, Kind, System};
use super::with_each_choice;
use percolog::clustered;
use percolog::cpu::{self, CoreId};

#[test]
fn frames_move_between_slots() {
    const FRAMES: u64 = 64;
    let system = System::new(Choice::DISTRIBUTED, FRAMES as u32, 16).expect("there is room");
    for slot in [1, 2, 1, 3] {
        cpu::bind(CoreId::new(slot));
        let space = system.start().expect("there is room");
        space.map(0, FRAMES + 1).expect("nothing is there");
        // All of them, wherever they are.
        for page in 0..FRAMES {
            space.fault(page).expect("there is memory");
        }
        assert!(matches!(
            space.fault(FRAMES),
            Err(FaultError::OutOfMemory(_))
        ));
        assert_eq!(system.free(), 0);
        space.exit().expect("nothing keeps it");
        assert_eq!(system.free(), FRAMES as usize);
    }
    cpu::unbind();
}

/// A slot that only takes frames back keeps some of them, and no more.
#[test]
fn a_slot_keeps_so_many_frames_at_most() {
    const MOST: usize = 8;
    let (_, frames) = Memory::new(0);
    assert!(frames.is_empty());
    let pool = clustered::create(super::super::pages::DistributedPool::new(
        Memory::new(40).1,
        MOST,
    ));
    let section = clustered::enter();
    cpu::bind(CoreId::new(1));
    let taken: Vec<_> = (0..40)
        .map(|_| {
            pool.get(&section)
                .expect("it is there")
                .allocate(&section)
                .expect("there are 40")
        })
        .collect();
    for (back, frame) in taken.into_iter().enumerate() {
        let pool = pool.get(&section).expect("it is there");
        pool.give_back(&section, frame);
        assert_eq!(pool.free(), back + 1);
    }
    let in_slot = pool
        .inspect(|current| {
            let slots = current.representatives::<super::super::pages::DistributedPool>();
            slots
                .expect("of this type")
                .iter()
                .map(|(_, slot)| slot.here())
                .max()
        })
        .expect("nobody swaps it");
    assert!(
        in_slot.is_some_and(|in_slot| (1..=MOST).contains(&in_slot)),
        "{in_slot:?}"
    );
    cpu::unbind();
    pool.destroy().expect("once");
}

#[test]
fn members_are_known_where_they_were_made() {
    let choice = Choice::DISTRIBUTED;
    let system = System::new(choice, 4, 2).expect("there is room");
    let pool = clustered::create(super::super::pages::DistributedPool::new(Vec::new(), 1));
    let attach = |slot| {
        cpu::bind(CoreId::new(slot));
        let member = Member::Manager(pool);
        pool.call(|it| it.attach(member)).expect("it is there")
    };
    let (here, there) = (attach(5), attach(6));
    assert_eq!((here.home, there.home), (5, 6));
    assert_eq!(pool.call(|it| it.members()), Ok(2));
    // From another slot than its own.
    pool.call(|it| it.detach(here)).expect("it is there");
    assert_eq!(pool.call(|it| it.members()), Ok(1));
    cpu::unbind();
    pool.destroy().expect("once");
    drop(system);
}

#[test]
fn a_page_has_one_frame_on_all_slots() {
    with_each_choice(|choice| {
        let system = System::new(choice, 8, 2).expect("there is room");
        let space = system.start().expect("there is room");
        space.map(10, 4).expect("nothing is there");
        for slot in 0..6 {
            cpu::bind(CoreId::new(slot));
            assert_eq!(space.read(12, 1), Ok(u64::from(slot)));
            space
                .write(12, 1, u64::from(slot) + 1)
                .expect("it is there");
        }
        cpu::unbind();
        assert_eq!(system.free(), 7);
        assert_eq!(space.mapped(), 6, "once on each slot");
        space.unmap(10).expect("it is there");
        assert_eq!(space.mapped(), 0);
        assert_eq!(system.free(), 8);
        // A new region there is not the old one.
        space.map(10, 4).expect("nothing is there");
        for slot in 0..6 {
            cpu::bind(CoreId::new(slot));
            assert_eq!(space.read(12, 1), Ok(0));
        }
        cpu::unbind();
    });
}

#[test]
fn what_is_reclaimed_is_mapped_nowhere_and_read_again() {
    with_each_choice(|choice| {
        let system = System::new(choice, 16, 4).expect("there is room");
        let file = system.open().expect("there is room");
        let (one, other) = (
            system.start().expect("there is room"),
            system.start().expect("there is room"),
        );
        one.map_file(100, 8, &file, 0).expect("nothing is there");
        other.map_file(7, 4, &file, 2).expect("nothing is there");
        for slot in 0..3 {
            cpu::bind(CoreId::new(slot));
            for page in 0..4 {
                assert_eq!(one.read(102 + page, 0), Ok(2 + page));
                assert_eq!(other.read(7 + page, 9), Ok(2 + page));
            }
        }
        assert_eq!((file.resident(), one.mapped(), other.mapped()), (4, 12, 12));
        assert_eq!(system.reclaim(100), 4);
        assert_eq!((file.resident(), one.mapped(), other.mapped()), (0, 0, 0));
        assert_eq!(system.free(), 16);
        assert_eq!(other.read(8, 0), Ok(3));
        assert_eq!(file.resident(), 1);
        cpu::unbind();

        let not = file.close().expect_err("it is mapped");
        assert_eq!(not.reason, CloseError::Mapped { regions: 2 });
        one.exit().expect("nothing keeps it");
        other.unmap(7).expect("it is there");
        assert_eq!(not.file.close().expect("it is mapped nowhere"), 1);
    });
}

/// The shared pool has no slots to keep members at.
#[test]
fn a_shared_pool_is_one_place() {
    let choice = Choice {
        pages: Kind::Shared,
        ..Choice::DISTRIBUTED
    };
    let system = System::new(choice, 4, 2).expect("there is room");
    let spaces = [1, 2].map(|slot| {
        cpu::bind(CoreId::new(slot));
        system.start().expect("there is room")
    });
    cpu::unbind();
    assert_eq!(system.members(), 2);
    drop(spaces);
    assert_eq!(system.members(), 0);
}
