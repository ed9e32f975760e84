//! Many threads: faults on the same pages, and regions that come and go under them.

use super::super::{FaultError, System, WORDS};
use super::{Numbers, with_each_choice};
use percolog::clustered;
use percolog::cpu::{self, CoreId};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const THREADS: u64 = 4;

/// Each thread on a slot of its own, all at once.
fn on_every_slot(f: impl Fn(u64) + Sync) {
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (f, barrier) = (&f, &barrier);
            scope.spawn(move || {
                cpu::bind(CoreId::new(thread as u32));
                barrier.wait();
                f(thread);
            });
        }
    });
}

#[test]
fn each_page_is_made_once() {
    const PAGES: u64 = 40;
    with_each_choice(|choice| {
        let system = System::new(choice, 2 * PAGES as u32, 16).expect("there is room");
        for _ in 0..4 {
            let space = system.start().expect("there is room");
            space.map(5, PAGES).expect("nothing is there");
            on_every_slot(|thread| {
                for page in 5..5 + PAGES {
                    // Whoever was here before has written elsewhere.
                    let word = thread as usize;
                    assert_eq!(space.read(page, word), Ok(0));
                    space.write(page, word, thread + 1).expect("it is there");
                }
            });
            assert_eq!(system.free(), PAGES as usize, "one frame for each page");
            assert_eq!(space.mapped() as u64, THREADS * PAGES);
            for page in 5..5 + PAGES {
                for thread in 0..THREADS {
                    let word = thread as usize;
                    assert_eq!(space.read(page, word), Ok(thread + 1), "one frame");
                }
                assert_eq!(space.read(page, WORDS - 1), Ok(0));
            }
            space.exit().expect("nothing keeps it");
            assert_eq!(system.free(), system.frames());
        }
    });
}

/// Threads fault in a region that is unmapped and mapped again, by a thread that looks whether anything is left.
#[test]
fn nothing_is_left_of_an_unmapped_region() {
    const PAGES: u64 = 8;
    with_each_choice(|choice| {
        let system = System::new(choice, 256, 8).expect("there is room");
        let space = system.start().expect("there is room");
        let done = AtomicBool::new(false);
        let touched = AtomicU64::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (space, done, touched) = (&space, &done, &touched);
                scope.spawn(move || {
                    cpu::bind(CoreId::new(thread as u32));
                    let mut numbers = Numbers::new(thread + 1);
                    while !done.load(Ordering::Relaxed) {
                        let page = 100 + numbers.below(PAGES);
                        match space.write(page, 0, 1) {
                            Ok(()) => {
                                touched.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => assert_eq!(error, FaultError::NoRegion { page }),
                        }
                    }
                });
            }
            for round in 0..60 {
                let region = space.map(100, PAGES).expect("nothing is there");
                let before = touched.load(Ordering::Relaxed);
                // So that most rounds have something to take away; not for ever, since threads may have ended by a failure.
                for _ in 0..10_000 {
                    if touched.load(Ordering::Relaxed) > before + 20 {
                        break;
                    }
                    thread::yield_now();
                }
                if round % 4 == 1 {
                    let section = clustered::enter();
                    let object = region.get(&section).expect("nobody has unmapped it");
                    object.truncate(&section, 3).expect("nobody unmaps it");
                    assert!(space.mapped() <= 3 * THREADS as usize);
                }
                space.unmap(100).expect("nobody else unmaps it");
                assert!(!region.exists());
                assert_eq!(space.mapped(), 0, "a page is mapped");
                assert_eq!(system.free(), system.frames(), "a frame is in use");
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(touched.load(Ordering::Relaxed) > 0);
    });
}

/// Of all who unmap a region one does; and what another one maps there stays.
#[test]
fn one_unmaps() {
    with_each_choice(|choice| {
        let system = System::new(choice, 64, 8).expect("there is room");
        let space = system.start().expect("there is room");
        let (mapped, unmapped) = (AtomicU64::new(0), AtomicU64::new(0));
        on_every_slot(|thread| {
            let mut numbers = Numbers::new(thread + 7);
            for _ in 0..500 {
                let first = 4 * numbers.below(3);
                let pages = 1 + numbers.below(6);
                match numbers.below(3) {
                    0 => mapped.fetch_add(
                        u64::from(space.map(first, pages).is_ok()),
                        Ordering::Relaxed,
                    ),
                    1 => {
                        unmapped.fetch_add(u64::from(space.unmap(first).is_ok()), Ordering::Relaxed)
                    }
                    _ => u64::from(space.fault(first + numbers.below(6)).is_ok()),
                };
            }
        });
        let left = (0..3).filter(|at| space.unmap(4 * at).is_ok()).count() as u64;
        assert_eq!(mapped.into_inner(), unmapped.into_inner() + left);
        assert_eq!(space.mapped(), 0);
        assert_eq!(system.free(), system.frames());
    });
}

/// Less memory than all want, and files that give theirs back while they are read.
#[test]
fn files_are_read_while_their_frames_are_taken() {
    const PAGES: u64 = 60;
    with_each_choice(|choice| {
        let system = System::new(choice, 48, 6).expect("there is room");
        let file = system.open().expect("there is room");
        let spaces: Vec<_> = (0..THREADS)
            .map(|_| system.start().expect("there is room"))
            .collect();
        let read = AtomicU64::new(0);
        on_every_slot(|thread| {
            let space = &spaces[thread as usize];
            space
                .map_file(1000, PAGES, &file, 0)
                .expect("nothing is there");
            let mut numbers = Numbers::new(thread + 3);
            for _ in 0..1500 {
                let page = numbers.below(PAGES);
                match space.read(1000 + page, (page % 7) as usize) {
                    Ok(word) => {
                        assert_eq!(word, page, "the right page");
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                    // Others took what was given back.
                    Err(error) => assert!(matches!(error, FaultError::OutOfMemory(_))),
                }
                if numbers.below(100) == 0 {
                    system.reclaim(5);
                }
            }
        });
        assert!(read.into_inner() > 0);
        for space in spaces {
            space.exit().expect("nothing keeps it");
        }
        assert!(file.close().expect("it is mapped nowhere") <= 48);
        assert_eq!(system.free(), system.frames());
    });
}

/// A process ends while others' go on; its pages are theirs then.
#[test]
fn processes_come_and_go() {
    with_each_choice(|choice| {
        let system = System::new(choice, 64, 8).expect("there is room");
        on_every_slot(|thread| {
            for round in 0..60 {
                let space = system.start().expect("there is room");
                let pages = 1 + (thread + round) % 12;
                space.map(9, pages).expect("nothing is there");
                for page in 9..9 + pages {
                    assert_eq!(space.read(page, 5), Ok(0), "nothing of others is seen");
                    space.write(page, 5, thread + 1).expect("it is mapped");
                }
                space.exit().expect("nothing keeps it");
            }
        });
        assert_eq!(system.free(), system.frames());
        assert_eq!(system.members(), 0);
    });
}
