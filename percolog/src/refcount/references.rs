//! The references that users have, and keep the value.

use alloc::boxed::Box;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use super::count::Count;
use super::generation::{Generation, Seen};
use super::shared::{
    Boxed, COLLECTOR, Counted, Header, Inline, end_boxed, end_inline, free_boxed, free_inline,
    give_up, take_one, take_one_if_hot,
};
use super::tagged::Tagged;
use super::weak::CoreWeak;
use crate::cpu::{barrier, lease};

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
/// After: the same, until there is contention; then a thread counts in memory of its own, and the value is destroyed a little later.
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
/// assert!(weak.upgrade().is_none());
///
/// // As if other threads had cloned it all the time:
/// let text: CoreArc<str> = CoreArc::into_hot(CoreArc::from("what many threads clone"));
/// let weak = CoreArc::downgrade(&text);
/// drop(text);
/// refcount::reclaim();
/// assert!(weak.upgrade().is_none());
/// ```
///
/// # Cold and hot
///
/// A value is *cold* at first: its references are counted in one atomic word, as those of an `Arc`. It becomes *hot* when its
/// references are cloned on several cores in quick succession: one clone of 16 or so notes the core, and 8 changes of the core,
/// each within some 0.5 ms, are contention. [`into_hot`](Self::into_hot) makes it hot at once.
///
/// References that were made while the value was cold stay cold, and are dropped in the word; those that are made while it is hot,
/// out of whichever, are counted on the core of the thread. A hot value becomes cold again when a round finds that all its hot references are gone;
/// at once if there are no cold ones, which is its end, and else after 60 such rounds in succession.
///
/// # When the value is destroyed
///
/// By the last drop, at once and on its own thread, if the value is cold or was [switched to atomic](Self::switch_to_atomic) counting. Values
/// that own each other in a chain are then destroyed by one drop, each on the stack of the one before.
///
/// If it is hot, in a *round* after the last drop. There is one
/// * when a thread has dropped 4 MiB of values more than it cloned (each counted as 1 KiB at least: 4096 small ones)
///   since its last round: that drop makes one, after the one that may be under way, and destroys what it finds, on its own
///   stack;
/// * when a thread has dropped 64 cold references that were the last ones of hot values;
/// * in [`reclaim`](super::reclaim).
///
/// So at any time no more than 8 MiB (and one value) for each thread that lives, or lived at the same time as others, are
/// dead and not found yet, or 64 values whose last reference was a cold one; and a program that drops nothing any more destroys nothing any more, unless it calls
/// [`reclaim`](super::reclaim). What is found is destroyed at once, with the locks released: a destructor may clone, drop and
/// upgrade whatever it likes. Hot values that own each other in a chain die one level a round. When the process exits, what has not
/// been found is not destroyed.
///
/// Apart from this, from an [upgrade](CoreWeak::upgrade) of a hot value that succeeds after the last drop, and from a destructor that panics,
/// which is contained and [counted](super::RefcountStats::panics), everything is as with `Arc`: what threads did with a value before they dropped their references happened before its destructor.
///
/// # Cost
///
/// *Time, cold:* a clone and its drop are some 40 instructions together, two of them atomic updates of the value's line, which goes from core to
/// core if several use it.
///
/// *Time, hot:* a clone and its drop are some 130 instructions together, none of them atomic updates, on lines of the calling
/// thread's own row. They move a line when a round has emptied the row since (two lines, and the value's counts are read),
/// and when another object has its place in the row: a row has 1024 places, and objects that fall on the same one push each
/// other out, which takes an atomic update of the count of the one that goes.
///
/// *Memory:* 112 bytes an object beside its value; and, if there are hot ones, 17 KiB for each thread that uses them and lives at the same time as others.
///
/// # Progress
///
/// Clone and drop of a cold reference are wait-free while the value is cold. Those of a hot one wait while a round empties the caller's row (some microseconds), or while some thread counts exactly
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
    header: Tagged,
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
            Header::link(inline.cast());
            Self {
                header: Tagged::cold(NonNull::new_unchecked(inline.cast())),
                value: NonNull::new_unchecked((&raw mut (*inline).value).cast()),
                owns: PhantomData,
            }
        }
    }

    /// The value, if this is the only `CoreArc` to it; or else the reference back.
    ///
    /// If it succeeds, no [`CoreWeak`] can be upgraded any more.
    ///
    /// *Progress* and *cost:* as [`count`](Self::count).
    ///
    /// # Errors
    /// The reference itself, if there is another one; or if the kernel refuses a barrier that it offered before.
    pub fn try_unwrap(mut this: Self) -> Result<T, Self> {
        if !this.cool() || !this.strong().take() {
            return Err(this);
        }
        let this = ManuallyDrop::new(this);
        // SAFETY: this was the only reference, none can be made any more, and the count knows that the value is gone: its death drops
        // what the value was in.
        unsafe {
            let value = this.value.read();
            Count::die(NonNull::from(this.strong()));
            Ok(value)
        }
    }
}

impl<T: ?Sized + Send + Sync> CoreArc<T> {
    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: it lives while there is a reference.
        unsafe { self.header.get() }
    }

    #[inline(always)]
    fn strong(&self) -> &Count {
        &self.header().strong
    }

    /// A reference that was counted.
    #[inline(always)]
    pub(super) fn counted(header: Tagged, value: NonNull<T>) -> Self {
        Self {
            header,
            value,
            owns: PhantomData,
        }
    }

    /// Another one to the same value, which was counted.
    #[inline(always)]
    fn another(&self, is_hot: bool) -> Self {
        Self::counted(self.header.but(is_hot), self.value)
    }

    /// Makes the value cold, and this reference with it, if no other one is hot. Returns whether it did, or it was so.
    fn cool(&mut self) -> bool {
        if !self.header.is_hot() && !self.strong().has_share() {
            return true;
        }
        let is_cold = COLLECTOR.cool(barrier::mode(), self.strong(), self.header.is_hot());
        if is_cold {
            self.header = self.header.but(false);
        }
        is_cold
    }

    /// The same reference, of a *hot* value: counted on each core from here on, as if contention had been noticed. See
    /// [cold and hot](Self#cold-and-hot).
    ///
    /// For what is known to be contended, from its first clone on. It changes nothing of a value that was [switched to
    /// atomic](Self::switch_to_atomic) counting.
    ///
    /// ```
    /// use percolog::refcount::{self, CoreArc};
    ///
    /// let table = CoreArc::into_hot(CoreArc::new([0_u8; 64]));
    /// let weak = CoreArc::downgrade(&table);
    /// drop(table);
    /// refcount::reclaim();
    /// assert!(weak.upgrade().is_none());
    /// ```
    ///
    /// *Progress* and *cost:* as a clone and a drop.
    #[must_use = "the reference that is returned is the one to the value"]
    pub fn into_hot(this: Self) -> Self {
        if this.header.is_hot() {
            return this;
        }
        // The one that `this` is becomes hot, or another one is made for it.
        let strong = this.header().strong();
        // SAFETY: the header lives while `this` does.
        let is_hot = strong.rest.is_hot() && unsafe { take_one_if_hot(strong) };
        if !is_hot && this.strong().become_hot() {
            return ManuallyDrop::new(this).another(true);
        }
        if is_hot { this.another(true) } else { this }
    }

    /// A reference that does not keep the value alive.
    ///
    /// *Progress* and *cost:* as a clone.
    #[must_use]
    pub fn downgrade(this: &Self) -> CoreWeak<T> {
        let weak = &this.header().weak;
        // SAFETY: all strong references together have a weak one, which is cold.
        let is_hot = unsafe { take_one(this.header().weak(), false) };
        weak.unlock();
        CoreWeak {
            // What many threads have, many have weakly.
            header: (this.header).but(is_hot || this.header.is_hot() && weak.become_hot()),
            value: this.value,
        }
    }

    /// How many `CoreArc`s to the value there are: the number at one moment of this call, never a sum that was added up
    /// while others went on.
    ///
    /// *Progress:* of a value that is hot, blocking: waits for a round, or another call that counts; and nobody clones or drops hot ones while it counts.
    /// *Cost:* a look at each row that there is, and a barrier that makes the kernel interrupt all processors that run
    /// threads of this process.
    ///
    /// Of a value that is cold, or [switched to atomic](Self::switch_to_atomic) counting, it is wait-free, one atomic update, and may count one that
    /// [`clone_if`](Self::clone_if) is about to take back.
    #[must_use]
    pub fn count(this: &Self) -> usize {
        let count = COLLECTOR.sum(barrier::mode(), this.strong());
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
    /// Returns whether it is so now, by this call or an earlier one, of whichever thread. It is not if the value is hot and the kernel
    /// refuses a barrier that it offered before.
    ///
    /// Weak references are counted so too, and the memory is freed with the last reference of either kind. Everything else
    /// goes on as before. A value that is cold never becomes hot.
    ///
    /// *Progress* and *cost:* of a value that is cold, two atomic updates. Of a hot one it is blocking, see [`count`](Self::count), with the
    /// cost of that, and a step for each value that a
    /// round has yet to look at, while nobody clones or drops hot references. From then on a clone or drop of this value is an atomic
    /// update of the value's counts, a line that goes from core to core; one of a reference that was hot is also what it was.
    /// Clones and drops of other values stay as they are.
    #[must_use = "false: the kernel refused, and the last drop does not destroy the value"]
    pub fn switch_to_atomic(this: &Self) -> bool {
        let header = this.header();
        COLLECTOR
            .switch_to_atomic(barrier::mode(), &[&header.strong, &header.weak])
            .is_ok()
    }

    /// The value to change, if there is no other reference to it, not even a weak one.
    ///
    /// *Progress* and *cost:* as [`count`](Self::count). `None` also if the kernel
    /// refuses a barrier that it offered before.
    #[must_use]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        if !this.cool() {
            return None;
        }
        let (strong, weak) = (this.strong(), &this.header().weak);
        if weak.has_share() && !COLLECTOR.cool(barrier::mode(), weak, false) {
            return None;
        }
        // Who adds a weak one meanwhile has a strong one, and who upgrades one has a weak one.
        if !weak.is_one_while(|| strong.is_one()) {
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
    /// The reference is added first, to the caller's row if the value is hot; then the generation is looked at, and if it is another one the
    /// addition is undone (S. Boyd-Wickizer's thesis, §4.2).
    ///
    /// *Progress* and *cost:* as a clone, and a load of the generation's line; where barriers are
    /// [fences](crate::cpu::barrier::BarrierMode::Fence), one of them.
    #[inline]
    #[must_use]
    pub fn clone_if(this: &Self, generation: &Generation, seen: Seen) -> Option<Self> {
        let (
            Counted {
                count: strong,
                rest,
            },
            is_hot,
        ) = (this.header().strong(), this.header.is_hot());
        if is_hot || rest.is_hot() {
            let look = || (generation.is(seen), is_hot || rest.is_hot());
            let accepts = |found: &(bool, bool)| *found == (true, true);
            let (mode, lease) = (barrier::mode(), lease::mine());
            // SAFETY: the lease is the caller's own, the header lives while `this` does, generations count nothing, and where there is
            // no share this reference is cold and the count not hot.
            match unsafe { COLLECTOR.add_if(mode, lease, strong, look, accepts) } {
                Some((true, true)) => return Some(this.another(true)),
                Some((false, _)) => return None,
                // Not hot any more, or ordinary.
                Some((true, false)) | None => {}
            }
        }
        let is_hot = strong.add_cold_if(|| generation.is(seen))?;
        Some(this.another(is_hot))
    }

    /// Returns whether both lead to the same value.
    #[must_use]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.header.is_of(other.header)
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
            Header::link(boxed.cast());
            Self {
                header: Tagged::cold(NonNull::new_unchecked(boxed.cast())),
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
        let is_hot = unsafe { take_one(self.header().strong(), self.header.is_hot()) };
        self.another(is_hot)
    }
}

impl<T: ?Sized + Send + Sync> Drop for CoreArc<T> {
    /// See [when the value is destroyed](CoreArc#when-the-value-is-destroyed).
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` is a reference that the count counts, and is gone.
        unsafe { give_up(NonNull::from(self.strong()), self.header.is_hot()) };
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
