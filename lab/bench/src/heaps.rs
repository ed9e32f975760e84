//! Memory for objects of a cache line: percolog's slab, beside an allocator for everything and a table for objects of one type. They are
//! freed where they were allocated, or elsewhere.

use std::fmt;
use std::marker::PhantomData;

use percolog::reclaim::{Domain, Owned};
use percolog::slab::{InSlab, Slab};

use crate::exchange::{self, Place, Source};
use crate::runner::{Cell, RunError, Settings};

/// An object, one word of which is used.
pub type Object = [u64; 8];

fn object(number: u64) -> Object {
    [number, 0, 0, 0, 0, 0, 0, 0]
}

static DOMAIN: Domain = Domain::new();

/// [`Slab`]. Its objects are gone at once, since nobody else has seen them; or they are retired, and wait until no section can see them, as
/// those that others may be reading have to.
#[derive(Debug)]
pub struct SlabHeap<const RETIRED: bool>(Slab<'static, Object>);

/// Objects are gone at once.
pub type OurHeap = SlabHeap<false>;

/// Objects wait.
pub type RetiringHeap = SlabHeap<true>;

impl<const RETIRED: bool> Source for SlabHeap<RETIRED> {
    const NAME: &'static str = if RETIRED { "Slab, retiring" } else { "Slab" };
    type Thing = Owned<Object, InSlab>;

    fn new() -> Self {
        Self(Slab::new(&DOMAIN))
    }

    #[inline]
    fn take(&self, number: u64) -> Self::Thing {
        self.0.insert(object(number)).expect("there is memory")
    }

    #[inline]
    fn give_back(&self, object: Self::Thing) -> Option<u64> {
        let number = object[0];
        if RETIRED {
            // SAFETY: no link led to it.
            unsafe { self.0.free(object.into()) };
        }
        Some(number)
    }
}

/// The allocator of the program, which is the system's unless somebody has chosen another one: what most programs have.
#[derive(Debug)]
pub struct SystemHeap(PhantomData<fn() -> Object>);

impl Source for SystemHeap {
    const NAME: &'static str = "Box";
    type Thing = Box<Object>;

    fn new() -> Self {
        Self(PhantomData)
    }

    #[inline]
    fn take(&self, number: u64) -> Box<Object> {
        // An allocation that nobody sees would not be made.
        std::hint::black_box(Box::new(object(number)))
    }

    #[inline]
    fn give_back(&self, object: Box<Object>) -> Option<u64> {
        Some(object[0])
    }
}

/// `sharded-slab` 0.1: a table for objects of one type, found by keys.
pub struct ShardedHeap(sharded_slab::Slab<Object>);

impl fmt::Debug for ShardedHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedHeap").finish_non_exhaustive()
    }
}

impl Source for ShardedHeap {
    const NAME: &'static str = "sharded-slab";
    type Thing = usize;

    fn new() -> Self {
        Self(sharded_slab::Slab::new())
    }

    #[inline]
    fn take(&self, number: u64) -> usize {
        self.0.insert(object(number)).expect("there is room")
    }

    #[inline]
    fn give_back(&self, key: usize) -> Option<u64> {
        let number = self.0.get(key).map(|object| object[0]);
        // What is not there any more is as wrong as a number that no object had.
        let was_there = self.0.remove(key);
        number.filter(|_| was_there).or(Some(u64::MAX))
    }
}

/// `mimalloc`, called directly.
#[cfg(feature = "c-peers")]
#[derive(Debug)]
pub struct MimallocHeap;

#[cfg(feature = "c-peers")]
mod block {
    //! Objects in memory of `mimalloc`.

    use std::alloc::{GlobalAlloc, Layout};
    use std::ptr::NonNull;

    use mimalloc::MiMalloc;

    use super::{MimallocHeap, Object, Source, object};

    /// Memory that has not been freed.
    #[derive(Debug)]
    pub struct Block(NonNull<Object>);

    // SAFETY: whoever has it has the memory to itself.
    unsafe impl Send for Block {}

    impl Source for MimallocHeap {
        const NAME: &'static str = "mimalloc";
        type Thing = Block;

        fn new() -> Self {
            Self
        }

        #[inline]
        fn take(&self, number: u64) -> Block {
            // SAFETY: the layout has a size.
            let memory = unsafe { MiMalloc.alloc(Layout::new::<Object>()) };
            let block = NonNull::new(memory.cast::<Object>()).expect("there is memory");
            // SAFETY: just allocated, with this layout.
            unsafe { block.write(object(number)) };
            Block(block)
        }

        #[inline]
        fn give_back(&self, Block(block): Block) -> Option<u64> {
            // SAFETY: allocated above with this layout, written, and nobody else has it.
            unsafe {
                let number = block.as_ref()[0];
                MiMalloc.dealloc(block.as_ptr().cast(), Layout::new::<Object>());
                Some(number)
            }
        }
    }
}

/// Runs one cell. An operation is allocating an object and freeing it.
///
/// # Errors
/// Another object came back than the one that was allocated, or a thread could not be started.
pub fn run<S: Source>(settings: Settings, place: Place) -> Result<Cell, RunError> {
    exchange::run::<S>(settings, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heap_gives_what_was_allocated() {
        for place in [Place::Here, Place::Elsewhere] {
            for threads in [1, 3] {
                let settings = Settings::until(threads, 2000);
                for run in [
                    run::<OurHeap>,
                    run::<RetiringHeap>,
                    run::<SystemHeap>,
                    run::<ShardedHeap>,
                ] {
                    assert!(run(settings, place).expect("it is what it was").operations > 0);
                }
            }
        }
    }

    /// Gives an object twice as high a number as any.
    struct Wrong;

    impl Source for Wrong {
        const NAME: &'static str = "wrong";
        type Thing = u64;

        fn new() -> Self {
            Self
        }

        fn take(&self, number: u64) -> u64 {
            number + 1000
        }

        fn give_back(&self, number: u64) -> Option<u64> {
            Some(number)
        }
    }

    #[test]
    fn another_object_is_an_error() {
        let settings = Settings::until(1, 2000);
        assert!(run::<Wrong>(settings, Place::Here).is_err());
    }
}
