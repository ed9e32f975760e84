//! One sender's events: a chain of segments with one producer and one consumer.
//!
//! The producer writes an event into the last segment and then publishes it in `sent`. The consumer reads what is published and then
//! counts it in `taken`. Neither ever waits for the other.
//!
//! # Why a segment is not reused too early
//!
//! All segments of a chain are linked, oldest first. The consumer leaves a segment when it takes the first event of the next one, and
//! counts that event in `taken` after it has read the link. So once `taken` exceeds the index at which a segment ends, the consumer reads
//! neither the segment's events nor its link any more. Only then does the producer take the segment from the front of the chain and append it
//! at the end, with Acquire on `taken` in between. `taken` is never more than `sent`, so that segment is not the last one.
//!
//! # Who frees a chain
//!
//! Each side has a [`Handle`]; the second one that is dropped frees the chain with the events that are still in it. A consumer that sees
//! that the producer's handle is gone ([`Source::look`]) sees all of its events as well.

#[cfg(feature = "std")]
use crate::collections::event_queue::bell::Bell;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Isolated, UnsafeCell, despite_panics};
use alloc::boxed::Box;
use core::cell::Cell;
use core::iter;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
#[cfg(feature = "std")]
use std::time::Instant;

/// Events in a segment: a power of two, at least two.
#[cfg(not(percolog_loom))]
const SEGMENT: usize = 64;
#[cfg(percolog_loom)]
const SEGMENT: usize = 2;

/// Whether a chain of this capacity can be full.
#[inline(always)]
const fn is_bounded(capacity: usize) -> bool {
    capacity != usize::MAX
}

/// The place in its segment of the event with this index.
const fn place(index: usize) -> usize {
    index % SEGMENT
}

struct Segment<T> {
    /// The producer writes it once it has begun the next segment, before it publishes that one's first event.
    next: UnsafeCell<*mut Isolated<Segment<T>>>,
    events: [UnsafeCell<MaybeUninit<T>>; SEGMENT],
}

/// A segment that shares no line with other memory.
type SegmentPointer<T> = *mut Isolated<Segment<T>>;

impl<T> Segment<T> {
    fn allocate() -> SegmentPointer<T> {
        let mut segment = Box::<Isolated<Self>>::new_uninit();
        // In place: a segment may be too large for the stack.
        // SAFETY: the memory is valid for writes; `Isolated` has its value where `value_in` says.
        unsafe {
            let segment = Isolated::value_in(segment.as_mut_ptr());
            (&raw mut (*segment).next).write(UnsafeCell::new(ptr::null_mut()));
            // Loom's cells have a state of their own.
            #[cfg(percolog_loom)]
            for place in 0..SEGMENT {
                (&raw mut (*segment).events[place]).write(UnsafeCell::new(MaybeUninit::uninit()));
            }
        }
        // SAFETY: the link is initialized; cells of uninitialized events are valid as they are, and the rest is padding.
        Box::into_raw(unsafe { segment.assume_init() })
    }

    /// The segment that is linked behind this one.
    ///
    /// # Safety
    /// `segment` is alive, and nobody writes its link meanwhile.
    unsafe fn behind(segment: SegmentPointer<T>) -> SegmentPointer<T> {
        // SAFETY: by the caller.
        unsafe { (&*segment).next.with(|next| *next) }
    }

    /// Moves the event with this index out.
    ///
    /// # Safety
    /// `segment` is alive and has the event, nobody writes there meanwhile, and the event is not read again.
    #[inline(always)]
    unsafe fn take(segment: SegmentPointer<T>, index: usize) -> T {
        // SAFETY: by the caller.
        unsafe { (&*segment).events[place(index)].with(|event| (*event).assume_init_read()) }
    }
}

/// All segments of a chain, which are freed with it.
struct Segments<T> {
    /// The oldest one; null while there is none.
    oldest: SegmentPointer<T>,
    /// The index of its first event.
    from: usize,
}

impl<T> Drop for Segments<T> {
    fn drop(&mut self) {
        let mut segment = self.oldest;
        while !segment.is_null() {
            // SAFETY: segments come from `Segment::allocate`, each is linked once, and nobody else has the chain any more.
            let freed = unsafe { Box::from_raw(segment) };
            segment = freed.next.with(|next| {
                // SAFETY: this is the only reference.
                unsafe { *next }
            });
        }
    }
}

pub(super) struct Chain<T> {
    produced: Isolated<Produced<T>>,
    consumed: Isolated<Consumed>,
    /// The next chain of those that have not been found by the consumer: belongs to whoever registers the chain, then to the consumer.
    pub(super) link: UnsafeCell<*mut Chain<T>>,
}

/// What the producer writes.
struct Produced<T> {
    /// How many events have been sent (modulo 2^N, as all indices).
    sent: AtomicUsize,
    /// How many handles there are.
    handles: AtomicU32,
    /// The producer's; the consumer reads the oldest one when it takes the first event of all, before any segment can be reused.
    segments: UnsafeCell<Segments<T>>,
}

/// What the consumer writes.
struct Consumed {
    /// How many events have been taken, exactly if the chain has a bound. If not, it is written once a segment.
    taken: AtomicUsize,
    /// The producer sleeps here while the chain is full.
    #[cfg(feature = "std")]
    bell: Bell,
}

impl<T> Chain<T> {
    fn new() -> Self {
        Self {
            produced: Isolated::new(Produced {
                sent: AtomicUsize::new(0),
                handles: AtomicU32::new(2),
                segments: UnsafeCell::new(Segments {
                    oldest: ptr::null_mut(),
                    from: 0,
                }),
            }),
            consumed: Isolated::new(Consumed {
                taken: AtomicUsize::new(0),
                #[cfg(feature = "std")]
                bell: Bell::new(),
            }),
            link: UnsafeCell::new(ptr::null_mut()),
        }
    }
}

impl<T> Drop for Chain<T> {
    fn drop(&mut self) {
        // Relaxed, both: the last handle's drop has synchronized with that of the other one.
        let sent = self.produced.sent.load(Ordering::Relaxed);
        let mut index = self.consumed.taken.load(Ordering::Relaxed);
        let (mut segment, mut from) = self.produced.segments.with(|segments| {
            // SAFETY: this is the only reference to the chain.
            unsafe { ((*segments).oldest, (*segments).from) }
        });
        let left = iter::from_fn(|| {
            if index == sent {
                return None;
            }
            while index.wrapping_sub(from) >= SEGMENT {
                // SAFETY: as for the event, below; a segment that has a successor is linked to it.
                segment = unsafe { Segment::behind(segment) };
                from = from.wrapping_add(SEGMENT);
            }
            // SAFETY: events from `taken` to `sent` are in their segments, which are not reused before they are taken; the index is
            // advanced, so this one is read once. Nobody else has the chain.
            let event = unsafe { Segment::take(segment, index) };
            index = index.wrapping_add(1);
            Some(event)
        });
        // The segments are freed afterwards, whatever panics.
        despite_panics(left, drop);
    }
}

/// One of a chain's two owners.
pub(super) struct Handle<T>(NonNull<Chain<T>>);

impl<T> Handle<T> {
    fn chain(&self) -> &Chain<T> {
        // SAFETY: the chain lives for as long as a handle of it.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // Release: what this side has done with the chain comes before it is freed, and the producer's events before a consumer sees that
        // it is gone (`Source::look`). Acquire: pairs with the other side's Release here.
        if self.chain().produced.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the chain comes from a box (`chain`), and the other handle is gone.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

/// Both ends of a new chain, in which at most `capacity` events wait.
pub(super) fn chain<T>(capacity: usize) -> (Producer<T>, NonNull<Chain<T>>) {
    let chain = NonNull::from(Box::leak(Box::new(Chain::new())));
    let producer = Producer {
        chain: Handle(chain),
        segment: Cell::new(ptr::null_mut()),
        taken: Cell::new(0),
        capacity,
    };
    (producer, chain)
}

/// The end of a chain at which events are sent.
pub(super) struct Producer<T> {
    chain: Handle<T>,
    /// The last segment; null before the first event.
    segment: Cell<SegmentPointer<T>>,
    /// How many events were taken when it was last looked.
    taken: Cell<usize>,
    capacity: usize,
}

// SAFETY: a producer is one side of its chain, wherever it is; the events that it hands to the other side, or drops, may be sent.
unsafe impl<T: Send> Send for Producer<T> {}

impl<T> Producer<T> {
    /// Whether another event may be sent.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        // Relaxed: this side alone writes it.
        let sent = self.chain.chain().produced.sent.load(Ordering::Relaxed);
        // An unbounded chain never looks.
        sent.wrapping_sub(self.taken.get()) < self.capacity || self.has_room_now(sent)
    }

    #[cold]
    fn has_room_now(&self, sent: usize) -> bool {
        sent.wrapping_sub(self.look_at_taken()) < self.capacity
    }

    fn look_at_taken(&self) -> usize {
        // Acquire pairs with the Release in `Source::pop`: what was read of a segment comes before it is reused.
        let taken = self.chain.chain().consumed.taken.load(Ordering::Acquire);
        self.taken.set(taken);
        taken
    }

    /// Sends an event. Does not look whether there is room.
    #[inline(always)]
    pub(super) fn push(&self, event: T) {
        let produced = &self.chain.chain().produced;
        // Relaxed: this side alone writes it.
        let sent = produced.sent.load(Ordering::Relaxed);
        if place(sent) == 0 {
            self.begin_segment();
        }
        // SAFETY: the segment is the chain's last one, which is neither freed nor reused before its events are taken. The consumer reads
        // none that is not published, and there is no other producer: a handle is not shared between threads, and nothing here calls it again.
        unsafe {
            (&*self.segment.get()).events[place(sent)].with_mut(|place| (*place).write(event));
        }
        // Release pairs with the Acquire in `Source::look`.
        produced.sent.store(sent.wrapping_add(1), Ordering::Release);
    }

    /// Appends a segment: one that the consumer has left, or a new one.
    #[cold]
    fn begin_segment(&self) {
        let next = self.reuse().unwrap_or_else(Segment::allocate);
        let last = self.segment.replace(next);
        if last.is_null() {
            // SAFETY: the consumer reads this only once an event is published.
            self.chain
                .chain()
                .produced
                .segments
                .with_mut(|segments| unsafe {
                    (*segments).oldest = next;
                });
        } else {
            // SAFETY: the last segment is not reused. The consumer reads the link only once an event behind it is published.
            unsafe { (&*last).next.with_mut(|link| *link = next) };
        }
    }

    /// Takes the oldest segment from the front of the chain if the consumer has left it.
    fn reuse(&self) -> Option<SegmentPointer<T>> {
        let segments = &self.chain.chain().produced.segments;
        // SAFETY: this side alone writes it.
        let (left, from) =
            segments.with(|segments| unsafe { ((*segments).oldest, (*segments).from) });
        let is_left = |taken: usize| taken.wrapping_sub(from) > SEGMENT;
        if !is_left(self.taken.get()) && !is_left(self.look_at_taken()) {
            return None;
        }
        // SAFETY: the consumer has left the segment (see the top of this file), so that nobody else touches its link.
        let oldest = unsafe {
            (&*left)
                .next
                .with_mut(|link| ptr::replace(link, ptr::null_mut()))
        };
        segments.with_mut(|segments| {
            // SAFETY: the consumer reads this for the first event of all, which it has taken.
            unsafe {
                (*segments).oldest = oldest;
                (*segments).from = from.wrapping_add(SEGMENT);
            }
        });
        Some(left)
    }

    /// Sleeps until half of the room is free, or for so long, unless `look` finds something. May return early.
    #[cfg(feature = "std")]
    pub(super) fn sleep(&self, deadline: Option<Instant>, look: impl FnOnce() -> bool) {
        self.chain.chain().consumed.bell.sleep(deadline, look);
    }
}

/// The end of a chain at which events are taken.
pub(super) struct Source<T> {
    chain: Handle<T>,
    /// The segment of the event that was taken last; null before the first.
    segment: SegmentPointer<T>,
    taken: usize,
    /// How many had been sent at the last look.
    seen: usize,
}

// SAFETY: a source is one side of its chain, wherever it is; the events that it hands out, or drops, may be sent.
unsafe impl<T: Send> Send for Source<T> {}

/// What a look at a chain has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Events(usize),
    Nothing,
    /// Nothing, and the producer is gone.
    End,
}

impl<T> Source<T> {
    /// The consumer's end.
    ///
    /// # Safety
    /// The chain is from [`chain`], and this is called once for each.
    pub(super) unsafe fn of(chain: NonNull<Chain<T>>) -> Self {
        Self {
            chain: Handle(chain),
            segment: ptr::null_mut(),
            taken: 0,
            seen: 0,
        }
    }

    /// Looks how many events there are, of at most `capacity`.
    #[inline]
    pub(super) fn look(&mut self, capacity: usize) -> Found {
        let produced = &self.chain.chain().produced;
        // Acquire pairs with the Release in `Producer::push`: the events that are counted, and their segments' links.
        self.seen = produced.sent.load(Ordering::Acquire);
        #[cfg(feature = "std")]
        if is_bounded(capacity) && self.found() <= capacity / 2 {
            self.ring();
        }
        #[cfg(not(feature = "std"))]
        let _ = capacity;
        if self.has_events() {
            return Found::Events(self.found());
        }
        // Acquire pairs with the Release in the drop of the producer's handle: all of its events are then seen below.
        if produced.handles.load(Ordering::Acquire) == 2 {
            return Found::Nothing;
        }
        // Relaxed: it does not change any more, and is ordered by the load above.
        self.seen = produced.sent.load(Ordering::Relaxed);
        match self.found() {
            0 => Found::End,
            events => Found::Events(events),
        }
    }

    /// How many events the last look has found that have not been taken.
    #[inline(always)]
    fn found(&self) -> usize {
        self.seen.wrapping_sub(self.taken)
    }

    /// Whether there are any.
    #[inline(always)]
    pub(super) fn has_events(&self) -> bool {
        self.seen != self.taken
    }

    /// Takes the next event that the last look has found.
    #[inline(always)]
    pub(super) fn pop(&mut self, capacity: usize) -> Option<T> {
        if !self.has_events() {
            return None;
        }
        let index = self.taken;
        if place(index) == 0 {
            self.enter_segment();
        }
        // SAFETY: the event is published, and was seen with Acquire. It is taken once, since the count is advanced before anything else
        // is done, and its segment is not reused before the consumer has left it.
        let event = unsafe { Segment::take(self.segment, index) };
        self.taken = index.wrapping_add(1);
        // The first event of a segment: the one before it has been left.
        if is_bounded(capacity) || place(index) == 0 {
            self.tell();
            // A producer that sleeps had filled the chain; it is worth its while to wake when half of that is taken. If it has sent
            // what has not been seen, a look finds out.
            #[cfg(feature = "std")]
            if self.found() == capacity / 2 {
                self.ring();
            }
        }
        Some(event)
    }

    /// Tells the producer how many events have been taken.
    #[inline(always)]
    fn tell(&self) {
        // Release pairs with the Acquire in `Producer::look_at_taken`.
        self.chain
            .chain()
            .consumed
            .taken
            .store(self.taken, Ordering::Release);
    }

    #[cold]
    fn enter_segment(&mut self) {
        // SAFETY: an event in the segment is published, and with it the link to it. The segment that the link is in has not been
        // left, and the oldest one stays the oldest until the first has been left.
        self.segment = unsafe {
            if self.segment.is_null() {
                self.chain
                    .chain()
                    .produced
                    .segments
                    .with(|segments| (*segments).oldest)
            } else {
                Segment::behind(self.segment)
            }
        };
    }

    /// Wakes the producer if it sleeps.
    #[cfg(feature = "std")]
    pub(super) fn ring(&self) {
        self.chain.chain().consumed.bell.ring();
    }
}

impl<T> Drop for Source<T> {
    fn drop(&mut self) {
        self.look(usize::MAX);
        let left = iter::from_fn(|| {
            let event = self.pop(usize::MAX);
            // Also when there is none: whoever frees the chain drops what has not been taken.
            self.tell();
            event
        });
        despite_panics(left, drop);
    }
}
