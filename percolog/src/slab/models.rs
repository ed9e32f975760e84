//! Every interleaving of threads that allocate, free each other's objects, and take in what came
//! home, within loom's bounds.
//!
//! Objects are memory to loom: a block that two have at a time is a race that loom reports, and so
//! is one that its next user does not see as its last user left it. Chunks have two blocks here,
//! batches one, and two blocks that have come home are many.

use super::chunk::{self, Shape};
use super::places::Core;
use crate::cpu::lease::Who;
use crate::reclaim::models::ModelDomain;
use crate::sync::atomic::{AtomicPtr, Ordering};
use alloc::boxed::Box;
use core::alloc::Layout;
use core::ptr::{self, NonNull};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

type Cell = UnsafeCell<u32>;

const FREE: u32 = 0xdead;

struct World {
    core: NonNull<Core>,
}

// SAFETY: the core is `Sync`, and blocks are handed from thread to thread.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

/// A block that a thread has.
struct Block(NonNull<chunk::Block>);

// SAFETY: whoever has it uses it.
unsafe impl Send for Block {}

impl World {
    fn new() -> Arc<Self> {
        let whole = Box::into_raw(Box::<Core>::new_uninit()).cast::<Core>();
        // SAFETY: just allocated.
        unsafe {
            whole.write(Core::new(
                whole,
                Shape::of(Layout::new::<Cell>()),
                usize::MAX,
                0,
            ))
        };
        Arc::new(Self {
            core: NonNull::new(whole).expect("it comes from a box"),
        })
    }

    fn core(&self) -> &Core {
        // SAFETY: it is closed at the end of each model.
        unsafe { self.core.as_ref() }
    }

    /// Allocates an object with this value.
    fn insert(&self, lease: usize, value: u32) -> Block {
        // SAFETY: in each model a lease is used by one thread.
        let block = unsafe { self.core().allocate(Who::Leased(lease)) };
        let block = block.expect("there is memory");
        // SAFETY: the block is this thread's.
        unsafe { chunk::Block::object::<Cell>(block).write(Cell::new(value)) };
        Block(block)
    }

    fn remove(&self, lease: usize, block: Block) {
        self.remove_as(Who::Leased(lease), block);
    }

    fn remove_as(&self, who: Who, block: Block) {
        read(block.0, |value| assert_ne!(value, FREE));
        // SAFETY: the block is this thread's.
        unsafe { destroy(who, block.0) };
    }

    fn close(&self) {
        // SAFETY: made in `new`, and nobody uses it after this.
        unsafe { Core::close(self.core) };
    }
}

/// Poisons the object, and gives the block back.
///
/// # Safety
/// Nobody else uses the block.
unsafe fn destroy(who: Who, block: NonNull<chunk::Block>) {
    // SAFETY: loom sees to it that nobody else uses it.
    unsafe {
        let object = chunk::Block::object::<Cell>(block);
        object.as_ref().with_mut(|value| *value = FREE);
        Core::give_back(who, Shape::of(Layout::new::<Cell>()).chunk_of(block), block);
    }
}

fn read(block: NonNull<chunk::Block>, f: impl FnOnce(u32)) {
    // SAFETY: loom sees to it that nobody writes meanwhile.
    unsafe {
        chunk::Block::object::<Cell>(block)
            .as_ref()
            .with(|value| f(*value))
    };
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// One thread frees what another one allocates, while that allocates more.
#[test]
fn what_comes_home_is_used_again_by_one() {
    loom::model(|| {
        let world = World::new();
        let [first, second] = [world.insert(0, 1), world.insert(0, 2)];
        let freer = thread::spawn({
            let world = world.clone();
            move || {
                world.remove(1, first);
                world.remove(1, second);
            }
        });
        let owner = thread::spawn({
            let world = world.clone();
            move || [world.insert(0, 3), world.insert(0, 4)]
        });
        join(freer);
        let [third, fourth] = join(owner);
        read(third.0, |value| assert_eq!(value, 3));
        read(fourth.0, |value| assert_eq!(value, 4));
        world.remove(0, third);
        world.remove(0, fourth);
        world.core().collect();
        assert_eq!(world.core().chunk_bytes(), 0, "everything is home");
        world.close();
    });
}

/// So much has come home that whoever sends more takes it in, while the owner allocates.
#[test]
fn much_is_taken_in_for_the_owner() {
    loom::model(|| {
        let world = World::new();
        let blocks = [(); 4].map(|()| world.insert(0, 1));
        let freer = thread::spawn({
            let world = world.clone();
            move || blocks.map(|block| world.remove(1, block))
        });
        let owner = thread::spawn({
            let world = world.clone();
            move || world.insert(0, 3)
        });
        join(freer);
        let block = join(owner);
        world.remove(0, block);
        world.core().collect();
        assert_eq!(world.core().chunk_bytes(), 0, "everything is home");
        world.close();
    });
}

/// Threads without a lease share a place, and free what the owner of another one has allocated.
#[test]
fn threads_without_a_lease_send_it_home() {
    loom::model(|| {
        let world = World::new();
        let blocks = [world.insert(0, 1), world.insert(0, 2)];
        let freers = blocks.map(|block| {
            let world = world.clone();
            thread::spawn(move || world.remove_as(Who::Common(0), block))
        });
        freers.into_iter().for_each(join);
        let third = world.insert(0, 3);
        world.remove_as(Who::Common(0), third);
        world.core().collect();
        assert_eq!(world.core().chunk_bytes(), 0, "everything is home");
        world.close();
    });
}

/// Memory is collected while its owner uses it, or while another thread sends some home.
fn collecting_beside(act: fn(&World, Block)) {
    loom::model(move || {
        let world = World::new();
        let block = world.insert(0, 1);
        let other = thread::spawn({
            let world = world.clone();
            move || act(&world, block)
        });
        let collector = thread::spawn({
            let world = world.clone();
            move || world.core().collect()
        });
        join(other);
        join(collector);
        world.core().collect();
        assert_eq!(world.core().chunk_bytes(), 0, "everything is home");
        world.close();
    });
}

#[test]
fn collecting_takes_nothing_that_is_in_use() {
    collecting_beside(|world, first| {
        let second = world.insert(0, 2);
        world.remove(0, first);
        world.remove(0, second);
    });
}

#[test]
fn collecting_finds_what_is_on_its_way() {
    collecting_beside(|world, block| world.remove(1, block));
}

/// A slab is dropped while another thread gives back what is left.
#[test]
fn a_slab_is_dropped_before_its_objects() {
    loom::model(|| {
        let world = World::new();
        let [first, second] = [world.insert(0, 1), world.insert(0, 2)];
        let other = thread::spawn({
            let world = world.clone();
            move || world.remove(1, first)
        });
        let closer = thread::spawn({
            let world = world.clone();
            move || world.close()
        });
        join(other);
        join(closer);
        world.remove(0, second);
    });
}

/// A slab is dropped while another thread gives back so much that it takes that in for the owner.
#[test]
fn a_slab_is_dropped_beside_a_sweep() {
    loom::model(|| {
        let world = World::new();
        let blocks = [(); 3].map(|()| world.insert(0, 1));
        let other = thread::spawn({
            let world = world.clone();
            move || blocks.map(|block| world.remove(1, block))
        });
        let closer = thread::spawn({
            let world = world.clone();
            move || world.close()
        });
        join(other);
        join(closer);
    });
}

/// An object is freed while somebody reads it in a section, and its memory used again as soon as that can be.
#[test]
fn memory_is_used_again_when_no_section_can_see_it() {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = builder.max_branches.max(10_000);
    builder.check(|| {
        unsafe fn destroy_of_freer(block: *mut ()) {
            let block = NonNull::new(block.cast()).expect("not null");
            // SAFETY: quiescent, so nobody reads it.
            unsafe { destroy(Who::Leased(0), block) };
        }
        let world = World::new();
        let domain = Arc::new(ModelDomain::new(2));
        let first = world.insert(0, 1);
        let link = Arc::new(AtomicPtr::new(first.0.as_ptr()));
        let reader = thread::spawn({
            let (domain, link) = (domain.clone(), link.clone());
            move || {
                domain.section(1, || {
                    if let Some(found) = NonNull::new(link.load(Ordering::Acquire)) {
                        read(found, |value| assert_eq!(value, 1));
                    }
                });
            }
        });
        let freer = thread::spawn({
            let world = world.clone();
            move || {
                let old = link.swap(ptr::null_mut(), Ordering::AcqRel);
                // SAFETY: no link leads to it, and it is read in sections only.
                unsafe { domain.retire_and_collect(0, old.cast(), destroy_of_freer) };
                let next = world.insert(0, 2);
                world.remove(0, next);
            }
        });
        join(reader);
        join(freer);
        // What is still retired is leaked with the model's domain.
    });
}
