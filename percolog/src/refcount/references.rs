//! The references that users have.

use alloc::boxed::Box;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use super::count::DEAD;
use super::generation::{Generation, Seen};
use super::shared::{
    Boxed, COLLECTOR, Header, Inline, end_boxed, end_inline, free_boxed, free_inline, give_up,
    take_one,
};
use crate::cpu::{barrier, lease};
use crate::sync::global::Ordering;

/// A reference-counted pointer, like [`Arc`](alloc::sync::Arc), that many cores can clone and drop at the same time.
///
/// Read first [what not to put in it](super#what-not-to-put-in-it).
///
/// Before: every clone and every drop moves the line of the one count to its processor.
///
/// ```
/// use std::sync::Arc;
///
/// let text: Arc<str> = Arc::from("what many threads read");
/// let weak = Arc::downgrade(&text);
/// let other = text.clone();
/// assert_eq!((&*other, Arc::strong_count(&text)), ("what many threads read", 2));
///
/// drop((text, other));
/// assert!(weak.upgrade().is_none());
/// ```
///
/// After: a thread counts in memory of its own, and the value is destroyed a little later.
///
/// ```
/// use percolog::refcount::{self, CoreArc};
///
/// let text: CoreArc<str> = CoreArc::from("what many threads read");
/// let weak = CoreArc::downgrade(&text);
/// let other = text.clone();
/// assert_eq!((&*other, CoreArc::count(&text)), ("what many threads read", 2));
///
/// drop((text, other));
/// refcount::reclaim();
/// assert!(weak.upgrade().is_none());
/// ```
///
/// # When the value is destroyed
///
/// Not by the last drop (unless the value was [switched to atomic](Self::switch_to_atomic) counting), but in a *round* after it. There is one
/// * when a thread has dropped 4 MiB of values more than it cloned (each counted as 1 KiB at least: 4096 small ones)
///   since its last round: that drop makes one, after the one that may be under way, and destroys what it finds, on its own
///   stack;
/// * in [`reclaim`](super::reclaim).
///
/// So at any time no more than 8 MiB (and one value) for each thread that lives, or lived at the same time as others, are
/// dead and not found yet; and a program that drops nothing any more destroys nothing any more, unless it calls
/// [`reclaim`](super::reclaim). What is found is destroyed at once, with the locks released: a destructor may clone, drop and
/// upgrade whatever it likes. Values that own each other in a chain die one level a round. When the process exits, what has not
/// been found is not destroyed.
///
/// Apart from this, and from an [upgrade](CoreWeak::upgrade) that succeeds after the last drop, everything is as with
/// `Arc`: what threads did with a value before they dropped their references happened before its destructor.
///
/// # Cost
///
/// *Time:* a clone and its drop are some 100 instructions together, none of them atomic updates, on lines of the calling
/// thread's own row. They move a line when a round has emptied the row since (two lines, and the value's counts are read),
/// and when another object has its place in the row: a row has 1024 places, and objects that fall on the same one push each
/// other out, which takes an atomic update of the count of the one that goes.
///
/// *Memory:* 104 bytes an object beside its value, and 17 KiB for each thread that lives at the same time as others.
///
/// # Progress
///
/// Clone and drop wait while a round empties the caller's row (some microseconds), or while some thread counts exactly
/// ([`count`](Self::count), [`get_mut`](Self::get_mut), [`try_unwrap`](Self::try_unwrap),
/// [`switch_to_atomic`](Self::switch_to_atomic)); else they are wait-free. The first one on a thread allocates the row. A drop that
/// makes a round waits for the one that may be under way, and runs destructors: else several threads could drop faster than
/// one of them looks.
///
/// `fork` waits until no other thread is in the middle of a clone or drop, and a child counts as its parent did; what
/// other threads of the parent held is never given up there.
///
/// Not for signal handlers: one that interrupts a clone or drop on the same thread would write the same row.
pub struct CoreArc<T: ?Sized + Send + Sync + 'static> {
    header: NonNull<Header>,
    value: NonNull<T>,
    owns: PhantomData<T>,
}

// SAFETY: it gives `&T` on any thread (`T: Sync`), and drops a `T` on whichever thread finds it (`T: Send`).
unsafe impl<T: ?Sized + Send + Sync> Send for CoreArc<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for CoreArc<T> {}

impl<T: Send + Sync> CoreArc<T> {
    /// Puts a value on the heap, with one reference to it.
    ///
    /// *Cost:* one allocation.
    #[must_use]
    pub fn new(value: T) -> Self {
        let inline = Box::into_raw(Box::new(Inline {
            header: Header::new(end_inline::<T>, free_inline::<T>, size_of::<T>()),
            value: ManuallyDrop::new(value),
        }));
        // SAFETY: just allocated, and nobody else knows of it.
        unsafe {
            Header::set_object(&raw mut (*inline).header, inline.cast());
            Self {
                header: NonNull::new_unchecked((&raw mut (*inline).header).cast()),
                value: NonNull::new_unchecked((&raw mut (*inline).value).cast()),
                owns: PhantomData,
            }
        }
    }

    /// The value, if this is the only `CoreArc` to it; or else the reference back.
    ///
    /// If it succeeds, no [`CoreWeak`] can be upgraded any more.
    ///
    /// *Progress:* blocking, see [`count`](Self::count). *Cost:* as [`count`](Self::count).
    ///
    /// # Errors
    /// The reference itself, if there is another one; or if the kernel refuses a barrier that it offered before.
    pub fn try_unwrap(this: Self) -> Result<T, Self> {
        let header = this.header();
        let only = COLLECTOR.exactly(barrier::mode(), [&header.strong], |[strong]| {
            if strong == 1 {
                // Nobody upgrades now: that takes a row.
                header.strong.set_state(DEAD);
            }
            strong == 1
        });
        if only != Ok(true) {
            return Err(this);
        }
        // Relaxed: see `Header::end`.
        header.taken.store(1, Ordering::Relaxed);
        // SAFETY: this was the only reference, none can be made any more, and `taken` says that the value is gone.
        Ok(unsafe { this.value.read() })
    }
}

impl<T: ?Sized + Send + Sync> CoreArc<T> {
    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: it lives while there is a reference.
        unsafe { self.header.as_ref() }
    }

    /// A reference that does not keep the value alive.
    ///
    /// *Progress* and *cost:* as a clone.
    #[must_use]
    pub fn downgrade(this: &Self) -> CoreWeak<T> {
        // SAFETY: all strong references together have a weak one.
        unsafe { take_one(&this.header().weak) };
        CoreWeak {
            header: this.header,
            value: this.value,
        }
    }

    /// How many `CoreArc`s to the value there are: the number at one moment of this call, never a sum that was added up
    /// while others went on.
    ///
    /// *Progress:* blocking: waits for a round, or another call that counts; and nobody clones or drops while it counts.
    /// *Cost:* a look at each row that there is, and a barrier that makes the kernel interrupt all processors that run
    /// threads of this process.
    ///
    /// Of a value [switched to atomic](Self::switch_to_atomic) counting it is wait-free, a fence and a load, and may count one that
    /// [`clone_if`](Self::clone_if) is about to take back.
    #[must_use]
    pub fn count(this: &Self) -> usize {
        let count = COLLECTOR.sum(barrier::mode(), &this.header().strong);
        usize::try_from(count).unwrap_or_default()
    }

    /// How many [`CoreWeak`]s to the value there are. See [`count`](Self::count).
    #[must_use]
    pub fn weak_count(this: &Self) -> usize {
        // One is that of all strong references.
        let count = COLLECTOR.sum(barrier::mode(), &this.header().weak) - 1;
        usize::try_from(count).unwrap_or_default()
    }

    /// Switches this value to one atomic count from now on, as [`Arc`](alloc::sync::Arc) has: **the last drop
    /// destroys the value**, at once and on its own thread, and no [upgrade](CoreWeak::upgrade) succeeds after it. For ever;
    /// there is no way back.
    ///
    /// For the moment at which it begins to matter when a value goes: before a shutdown that has to see it gone, when a file
    /// or a route is taken out of the table where everybody found it, when what it holds is needed elsewhere. (Linux does so
    /// with `percpu_ref_switch_to_atomic`.)
    ///
    /// ```
    /// use percolog::refcount::CoreArc;
    /// use std::sync::mpsc;
    ///
    /// let (sender, receiver) = mpsc::channel::<u32>();
    /// let sender = CoreArc::new(sender); // cloned and dropped by many threads, all day long
    /// # let weak = CoreArc::downgrade(&sender);
    /// # let other = sender.clone();
    /// // The end of the day: the receiver wants to know when the last one is gone.
    /// assert!(CoreArc::switch_to_atomic(&sender));
    /// # drop(other);
    /// drop(sender);
    /// assert_eq!(receiver.recv(), Err(mpsc::RecvError));
    /// # assert!(weak.upgrade().is_none());
    /// ```
    ///
    /// Returns whether it is so now, by this call or an earlier one, of whichever thread. It is not if the kernel refuses a
    /// barrier that it offered before; then nothing has changed.
    ///
    /// Weak references are counted so too, and the memory is freed with the last reference of either kind. Everything else
    /// goes on as before: a destructor that panics is contained and [counted](super::RefcountStats::panics), and
    /// [`get_mut`](Self::get_mut) and [`try_unwrap`](Self::try_unwrap) are exact. Values that own each other in a chain, if each
    /// counts atomically, are destroyed by one drop, each on the stack of the one before.
    ///
    /// *Progress:* blocking, see [`count`](Self::count). *Cost:* as [`count`](Self::count), and a step for each value that a
    /// round has yet to look at, while nobody clones or drops. From then on a clone or drop of this value is what it was and
    /// two loads and an atomic update of the value's counts more, a line that goes from core to core; and `count` and
    /// `weak_count` of it are a fence and a load, and wait for nobody. Clones and drops of other values stay as they are.
    #[must_use = "false: the kernel refused, and the last drop does not destroy the value"]
    pub fn switch_to_atomic(this: &Self) -> bool {
        let header = this.header();
        COLLECTOR
            .switch_to_atomic(barrier::mode(), &[&header.strong, &header.weak])
            .is_ok()
    }

    /// The value to change, if there is no other reference to it, not even a weak one.
    ///
    /// *Progress:* blocking, see [`count`](Self::count). *Cost:* as [`count`](Self::count). `None` also if the kernel
    /// refuses a barrier that it offered before.
    #[must_use]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        let header = this.header();
        let alone = COLLECTOR.exactly(
            barrier::mode(),
            [&header.strong, &header.weak],
            |references| references == [1, 1],
        );
        if alone != Ok(true) {
            return None;
        }
        // SAFETY: there is no other reference, and `this` is borrowed: none can be made.
        Some(unsafe { this.value.as_mut() })
    }

    /// Another reference, if the generation is still what it was when it was [seen](Generation::current): the *conditional
    /// acquire* of name caches.
    ///
    /// Whoever [changes](Generation::change) the generation and then counts ([`count`](Self::count),
    /// [`get_mut`](Self::get_mut), [`try_unwrap`](Self::try_unwrap)) finds each reference that was taken in the old one;
    /// nobody takes another one in it.
    ///
    /// ```
    /// use percolog::refcount::{CoreArc, Generation};
    ///
    /// struct Entry {
    ///     generation: Generation,
    /// }
    ///
    /// let entry = CoreArc::new(Entry { generation: Generation::new() });
    /// // A lookup reads the generation, then whatever else it needs to know, and then wants the entry:
    /// let seen = entry.generation.current().expect("nobody changes it");
    /// let found = CoreArc::clone_if(&entry, &entry.generation, seen);
    /// assert!(found.is_some());
    ///
    /// // The entry is removed; a lookup that has seen it before has to begin again.
    /// drop(entry.generation.change());
    /// assert!(CoreArc::clone_if(&entry, &entry.generation, seen).is_none());
    /// assert_eq!(CoreArc::count(&entry), 2);
    /// ```
    ///
    /// The reference is added to the caller's row first, then the generation is looked at, and if it is another one the
    /// addition is undone (S. Boyd-Wickizer's thesis, §4.2).
    ///
    /// *Progress* and *cost:* as a clone, and a load of the generation's line; where barriers are
    /// [fences](crate::cpu::barrier::BarrierMode::Fence), one of them.
    #[inline]
    #[must_use]
    pub fn clone_if(this: &Self, generation: &Generation, seen: Seen) -> Option<Self> {
        // SAFETY: the lease is the caller's own, the header lives while `this` does, which is a reference, and generations
        // count nothing.
        let is_same = unsafe {
            COLLECTOR.add_if(
                barrier::mode(),
                lease::mine(),
                &this.header().strong,
                || generation.is(seen),
                |is_same| *is_same,
            )
        };
        (is_same == Some(true)).then(|| Self {
            header: this.header,
            value: this.value,
            owns: PhantomData,
        })
    }

    /// Returns whether both lead to the same value.
    #[must_use]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.header == other.header
    }

    /// Where the value lies. Valid while there is a `CoreArc` to it.
    #[must_use]
    pub fn as_ptr(this: &Self) -> *const T {
        this.value.as_ptr()
    }
}

impl<T: ?Sized + Send + Sync> From<Box<T>> for CoreArc<T> {
    /// Takes over what a box holds, also if its size is not known to the compiler: a trait object, a slice, a string.
    ///
    /// *Cost:* one allocation, for the counts.
    fn from(value: Box<T>) -> Self {
        let size = size_of_val(&*value);
        // SAFETY: a box's pointer is not null.
        let value = unsafe { NonNull::new_unchecked(Box::into_raw(value)) };
        let boxed = Box::into_raw(Box::new(Boxed {
            header: Header::new(end_boxed::<T>, free_boxed::<T>, size),
            value,
        }));
        // SAFETY: just allocated, and nobody else knows of it.
        unsafe {
            Header::set_object(&raw mut (*boxed).header, boxed.cast());
            Self {
                header: NonNull::new_unchecked((&raw mut (*boxed).header).cast()),
                value,
                owns: PhantomData,
            }
        }
    }
}

impl<T: Send + Sync> From<T> for CoreArc<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl From<&str> for CoreArc<str> {
    fn from(value: &str) -> Self {
        Self::from(Box::<str>::from(value))
    }
}

impl<T: Send + Sync> From<alloc::vec::Vec<T>> for CoreArc<[T]> {
    fn from(values: alloc::vec::Vec<T>) -> Self {
        Self::from(values.into_boxed_slice())
    }
}

impl<T: ?Sized + Send + Sync> Clone for CoreArc<T> {
    /// Another reference. See [cost](CoreArc#cost) and [progress](CoreArc#progress).
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: `self` is a reference that the count counts.
        unsafe { take_one(&self.header().strong) };
        Self {
            header: self.header,
            value: self.value,
            owns: PhantomData,
        }
    }
}

impl<T: ?Sized + Send + Sync> Drop for CoreArc<T> {
    /// See [when the value is destroyed](CoreArc#when-the-value-is-destroyed).
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` is a reference that the count counts, and is gone.
        unsafe { give_up(NonNull::from(&self.header.as_ref().strong)) };
    }
}

impl<T: ?Sized + Send + Sync> Deref for CoreArc<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the value lives while there is a reference, and is shared.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized + Send + Sync> AsRef<T> for CoreArc<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized + Send + Sync> Borrow<T> for CoreArc<T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T: Default + Send + Sync> Default for CoreArc<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug + Send + Sync> fmt::Debug for CoreArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

impl<T: ?Sized + fmt::Display + Send + Sync> fmt::Display for CoreArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

impl<T: ?Sized + PartialEq + Send + Sync> PartialEq for CoreArc<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: ?Sized + Eq + Send + Sync> Eq for CoreArc<T> {}

impl<T: ?Sized + PartialOrd + Send + Sync> PartialOrd for CoreArc<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: ?Sized + Ord + Send + Sync> Ord for CoreArc<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: ?Sized + Hash + Send + Sync> Hash for CoreArc<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

/// A weak reference of a [`CoreArc`], like [`Weak`](alloc::sync::Weak).
///
/// Before: an upgrade is a loop around a compare-and-exchange of the shared count, and the last drop decides at once.
///
/// ```
/// use std::sync::{Arc, Weak};
///
/// let parent = Arc::new("parent");
/// let weak: Weak<&str> = Arc::downgrade(&parent);
/// assert_eq!(weak.upgrade().as_deref(), Some(&"parent"));
/// drop(parent);
/// assert!(weak.upgrade().is_none());
/// ```
///
/// After: an upgrade writes memory of its own thread only, and may succeed until the value was found to be unused.
///
/// ```
/// use percolog::refcount::{self, CoreArc, CoreWeak};
///
/// let parent = CoreArc::new("parent");
/// let weak: CoreWeak<&str> = CoreArc::downgrade(&parent);
/// assert_eq!(weak.upgrade().as_deref(), Some(&"parent"));
/// drop(parent);
/// refcount::reclaim();
/// assert!(weak.upgrade().is_none());
/// ```
pub struct CoreWeak<T: ?Sized + Send + Sync + 'static> {
    header: NonNull<Header>,
    value: NonNull<T>,
}

// SAFETY: it gives a `CoreArc`, which is `Send` and `Sync` itself.
unsafe impl<T: ?Sized + Send + Sync> Send for CoreWeak<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for CoreWeak<T> {}

impl<T: ?Sized + Send + Sync> CoreWeak<T> {
    /// A reference that keeps the value alive, unless it was found that there is none.
    ///
    /// **May succeed after the last `CoreArc` was dropped**, unless the value was [switched to atomic](CoreArc::switch_to_atomic) counting: until a
    /// round has found that out, which [`reclaim`](super::reclaim) makes sure of. What is upgraded is then alive again, as if the last drop had not been. Once it has
    /// failed, it fails for ever.
    ///
    /// *Progress:* as a clone; and it waits while a round is checking whether this very value is dead, some microseconds
    /// for all that are checked. *Cost:* as a clone, and a load of the count's line, which rounds write; where barriers
    /// are [fences](crate::cpu::barrier::BarrierMode::Fence), one of them.
    #[must_use]
    pub fn upgrade(&self) -> Option<CoreArc<T>> {
        // SAFETY: the lease is the caller's own, and the header lives while `self` does.
        let added = unsafe {
            COLLECTOR.add_if_live(barrier::mode(), lease::mine(), &self.header.as_ref().strong)
        };
        added.then(|| CoreArc {
            header: self.header,
            value: self.value,
            owns: PhantomData,
        })
    }

    /// Returns whether both lead to the same value.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}

impl<T: ?Sized + Send + Sync> Clone for CoreWeak<T> {
    /// Another weak reference. *Progress* and *cost:* as the clone of a [`CoreArc`].
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: `self` is a reference that the count counts.
        unsafe { take_one(&self.header.as_ref().weak) };
        Self {
            header: self.header,
            value: self.value,
        }
    }
}

impl<T: ?Sized + Send + Sync> Drop for CoreWeak<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` is a reference that the count counts, and is gone.
        unsafe { give_up(NonNull::from(&self.header.as_ref().weak)) };
    }
}

impl<T: ?Sized + Send + Sync> fmt::Debug for CoreWeak<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(CoreWeak)")
    }
}
