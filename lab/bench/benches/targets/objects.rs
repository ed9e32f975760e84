//! Memory for objects: ours, beside an allocator for everything and a table for objects of one type.
//!
//! The shapes are those of the paper that the slab comes from: small and large objects, freed where they
//! were allocated, and freed by a consumer some 32,000 objects later.

use std::alloc::{GlobalAlloc, Layout};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use percolog::reclaim::{Domain, Owned};
use percolog::slab::{InSlab, Slab};
use percolog_bench::names::BATCH;

use crate::figures::{Line, Unit, medians, nanoseconds_each, on};
use crate::{Effort, Measured};

/// An object of which one byte is used: what is measured is not the writing of the others.
type Bytes<const N: usize> = MaybeUninit<[u8; N]>;

/// What objects of one size are allocated from.
trait Heap: Sync + Sized {
    const NAME: &'static str;
    type Object: Send;

    fn new() -> Self;

    fn allocate(&self, byte: u8) -> Self::Object;

    /// Frees the object; its byte.
    fn free(&self, object: Self::Object) -> u8;
}

fn touch<const N: usize>(bytes: &mut Bytes<N>, byte: u8) {
    // SAFETY: an object has a byte at least.
    unsafe { bytes.as_mut_ptr().cast::<u8>().write(byte) };
}

fn read<const N: usize>(bytes: &Bytes<N>) -> u8 {
    // SAFETY: written by `touch`.
    unsafe { bytes.as_ptr().cast::<u8>().read() }
}

static DOMAIN: Domain = Domain::new();

/// [`Slab`], whose objects are gone at once: nobody else has seen them.
struct Ours<const N: usize>(Slab<'static, Bytes<N>>);

impl<const N: usize> Heap for Ours<N> {
    const NAME: &'static str = "Slab";
    type Object = Owned<Bytes<N>, InSlab>;

    fn new() -> Self {
        Self(Slab::new(&DOMAIN))
    }

    #[inline]
    fn allocate(&self, byte: u8) -> Self::Object {
        match self.0.insert(Bytes::uninit()) {
            Ok(mut object) => {
                touch(&mut object, byte);
                object
            }
            Err(exhausted) => panic!("{exhausted}"),
        }
    }

    #[inline]
    fn free(&self, object: Self::Object) -> u8 {
        read(&object)
    }
}

/// The same, whose objects wait until no section can see them, as the paper's do.
struct Retired<const N: usize>(Ours<N>);

impl<const N: usize> Heap for Retired<N> {
    const NAME: &'static str = "Slab, freed as one that others may be reading";
    type Object = Owned<Bytes<N>, InSlab>;

    fn new() -> Self {
        Self(Ours::new())
    }

    #[inline]
    fn allocate(&self, byte: u8) -> Self::Object {
        self.0.allocate(byte)
    }

    #[inline]
    fn free(&self, object: Self::Object) -> u8 {
        let byte = read(&object);
        // SAFETY: no link led to it.
        unsafe { self.0.0.free(object.into()) };
        byte
    }
}

/// An allocator for everything, called directly.
struct Mimalloc<const N: usize>;

/// Memory that has not been freed.
struct Block<const N: usize>(NonNull<Bytes<N>>);

// SAFETY: whoever has it has the memory to itself.
unsafe impl<const N: usize> Send for Block<N> {}

impl<const N: usize> Heap for Mimalloc<N> {
    const NAME: &'static str = "mimalloc";
    type Object = Block<N>;

    fn new() -> Self {
        Self
    }

    #[inline]
    fn allocate(&self, byte: u8) -> Self::Object {
        // SAFETY: the layout has a size.
        let memory = unsafe { MiMalloc.alloc(Layout::new::<Bytes<N>>()) };
        let mut block = NonNull::new(memory.cast::<Bytes<N>>()).expect("there is memory");
        // SAFETY: just allocated.
        touch(unsafe { block.as_mut() }, byte);
        Block(block)
    }

    #[inline]
    fn free(&self, Block(block): Self::Object) -> u8 {
        // SAFETY: allocated above with this layout, and nobody else has it.
        unsafe {
            let byte = read(block.as_ref());
            MiMalloc.dealloc(block.as_ptr().cast(), Layout::new::<Bytes<N>>());
            byte
        }
    }
}

/// A table for objects of one type, found by keys.
struct Sharded<const N: usize>(sharded_slab::Slab<Bytes<N>>);

impl<const N: usize> Heap for Sharded<N> {
    const NAME: &'static str = "sharded-slab";
    type Object = usize;

    fn new() -> Self {
        Self(sharded_slab::Slab::new())
    }

    #[inline]
    fn allocate(&self, byte: u8) -> usize {
        // Nobody can write to an object that is in the table.
        let mut bytes = Bytes::uninit();
        touch(&mut bytes, byte);
        self.0.insert(bytes).expect("there is room")
    }

    #[inline]
    fn free(&self, key: usize) -> u8 {
        let byte = read(&self.0.get(key).expect("it is there"));
        assert!(self.0.remove(key), "it is there");
        byte
    }
}

/// Nanoseconds for allocating an object and freeing it on the same thread, some dozens at a time.
fn here<H: Heap>(threads: usize, rounds: usize) -> f64 {
    let heap = H::new();
    let start = Barrier::new(threads);
    let pass = |rounds| {
        let mut objects = Vec::with_capacity(BATCH);
        for _ in 0..rounds {
            objects.extend((0..BATCH).map(|byte| heap.allocate(byte as u8)));
            for (byte, object) in objects.drain(..).enumerate() {
                assert_eq!(heap.free(object), byte as u8);
            }
        }
    };
    let times: Vec<Duration> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                let (pass, start) = (&pass, &start);
                scope.spawn(move || {
                    pass(rounds / 10);
                    start.wait();
                    let started = Instant::now();
                    pass(rounds);
                    started.elapsed()
                })
            })
            .collect();
        all.into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    nanoseconds_each(times.iter().sum(), (threads * rounds * BATCH) as u64)
}

/// Nanoseconds for each object that one thread allocates and another one frees, when a ring of 32,768 lies
/// between them.
fn ring<H: Heap>(laps: usize) -> f64 {
    const RING: usize = 32 << 10;
    const TOGETHER: usize = 1024;
    let heap = H::new();
    let many = laps * RING / TOGETHER;
    let (sender, receiver) = mpsc::sync_channel::<Vec<H::Object>>(RING / TOGETHER);
    let started = Instant::now();
    thread::scope(|scope| {
        let heap = &heap;
        scope.spawn(move || {
            for _ in 0..many {
                let objects = (0..TOGETHER).map(|at| heap.allocate(at as u8)).collect();
                sender.send(objects).expect("it is received");
            }
        });
        scope.spawn(move || {
            for objects in receiver {
                for (at, object) in objects.into_iter().enumerate() {
                    assert_eq!(heap.free(object), at as u8);
                }
            }
        });
    });
    nanoseconds_each(started.elapsed(), (many * TOGETHER) as u64)
}

fn of_size<const N: usize>(effort: Effort, lines: &mut Vec<Line>) {
    let rounds = if N > 1000 { 400 } else { 4000 };
    let mut published = |shape: &str, [ours, retired, mimalloc, sharded]: [f64; 4]| {
        let name = |of: &str| format!("{of}, {N} B, {shape}");
        let line = |of: &str, value| Line::published(name(of), value, Unit::Nanoseconds);
        lines.push(line(Ours::<N>::NAME, ours).beside(Mimalloc::<N>::NAME, mimalloc));
        lines.push(line(Retired::<N>::NAME, retired).beside(Mimalloc::<N>::NAME, mimalloc));
        lines.push(line(Sharded::<N>::NAME, sharded).beside(Mimalloc::<N>::NAME, mimalloc));
    };
    for threads in [1, 2] {
        let all = medians(
            effort.samples,
            [
                &|| here::<Ours<N>>(threads, rounds),
                &|| here::<Retired<N>>(threads, rounds),
                &|| here::<Mimalloc<N>>(threads, rounds),
                &|| here::<Sharded<N>>(threads, rounds),
            ],
        );
        published(&format!("freed here, {}", on(threads)), all);
    }
    let laps = if N > 1000 { 1 } else { 8 };
    let all = medians(
        effort.samples,
        [
            &|| ring::<Ours<N>>(laps),
            &|| ring::<Retired<N>>(laps),
            &|| ring::<Mimalloc<N>>(laps),
            &|| ring::<Sharded<N>>(laps),
        ],
    );
    published("freed elsewhere, a ring of 32 Ki", all);
}

pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    of_size::<1>(effort, &mut lines);
    of_size::<8000>(effort, &mut lines);
    Ok(lines)
}
