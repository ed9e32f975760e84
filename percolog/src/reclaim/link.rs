//! Objects, and the links that lead to them.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

use alloc::boxed::Box;

use super::section::InSection;
use super::stalled::StalledSection;
use crate::sync::atomic::{AtomicPtr, Ordering};

/// A kind of memory that objects lie in: a box ([`Boxed`]), or a [slab](crate::slab::InSlab).
///
/// # Safety
/// `destroy` may be called on any thread, and makes no use of the object after it has dropped it.
pub unsafe trait Memory: 'static {
    /// Drops an object, and gives its memory back.
    ///
    /// # Safety
    /// The object lies in memory of this kind, and nobody else has it or will have it.
    unsafe fn destroy<T>(object: NonNull<T>);
}

/// The [kind of memory](Memory) of a `Box`.
#[derive(Debug, Clone, Copy)]
pub enum Boxed {}

// SAFETY: a box can be dropped on any thread; that it may on another than its `T` was made on is for whoever sends it to say.
unsafe impl Memory for Boxed {
    unsafe fn destroy<T>(object: NonNull<T>) {
        // SAFETY: by contract it came from a box, and nobody else has it.
        drop(unsafe { Box::from_raw(object.as_ptr()) });
    }
}

/// An owning pointer to an object that is not linked.
///
/// *Cost:* making one allocates, as a `Box` does; [`Slab::insert`](crate::slab::Slab::insert) makes others.
pub struct Owned<T, M: Memory = Boxed> {
    object: NonNull<T>,
    owns: PhantomData<(T, M)>,
}

// SAFETY: owning an `Owned<T>` is owning a `T`, and memory of any kind can be given back anywhere.
unsafe impl<T: Send, M: Memory> Send for Owned<T, M> {}
// SAFETY: `&Owned<T>` gives `&T` and nothing else.
unsafe impl<T: Sync, M: Memory> Sync for Owned<T, M> {}

impl<T> Owned<T> {
    /// Puts an object on the heap.
    #[must_use]
    pub fn new(object: T) -> Self {
        Self::from_box(Box::new(object))
    }

    /// Takes over a box, without allocating.
    #[must_use]
    pub fn from_box(object: Box<T>) -> Self {
        // SAFETY: a box's pointer is not null.
        unsafe { Self::from_raw(NonNull::new_unchecked(Box::into_raw(object))) }
    }

    /// The object as a box, without allocating.
    #[must_use]
    pub fn into_box(self) -> Box<T> {
        // SAFETY: every `Owned` came from a box.
        unsafe { Box::from_raw(self.into_raw().as_ptr()) }
    }

    /// The object itself.
    #[must_use]
    pub fn into_inner(self) -> T {
        *self.into_box()
    }
}

impl<T, M: Memory> Owned<T, M> {
    pub(crate) fn into_raw(self) -> NonNull<T> {
        let object = self.object;
        core::mem::forget(self);
        object
    }

    /// # Safety
    /// The object lies in memory of this kind, and nobody else has it.
    pub(crate) unsafe fn from_raw(object: NonNull<T>) -> Self {
        Self {
            object,
            owns: PhantomData,
        }
    }
}

impl<T, M: Memory> Drop for Owned<T, M> {
    fn drop(&mut self) {
        // SAFETY: lies in memory of this kind, and nobody else has it.
        unsafe { M::destroy(self.object) };
    }
}

impl<T, M: Memory> Deref for Owned<T, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: live, and lent through `self` alone.
        unsafe { self.object.as_ref() }
    }
}

impl<T, M: Memory> DerefMut for Owned<T, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, exclusively.
        unsafe { self.object.as_mut() }
    }
}

impl<T> From<T> for Owned<T> {
    fn from(object: T) -> Self {
        Self::new(object)
    }
}

impl<T: fmt::Debug, M: Memory> fmt::Debug for Owned<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owned").field(&**self).finish()
    }
}

/// An object that was taken out of a link, and that sections may still read.
///
/// It can be read, and [retired](super::Domain::retire). Dropping it leaks the object.
#[must_use = "retire it, or the object is leaked"]
pub struct Unlinked<T, M: Memory = Boxed> {
    object: NonNull<T>,
    owns: PhantomData<(T, M)>,
}

// SAFETY: whoever has it reads the object, along with sections on other threads (`Sync`), and hands
// it to whoever destroys it (`Send`).
unsafe impl<T: Send + Sync, M: Memory> Send for Unlinked<T, M> {}
// SAFETY: `&Unlinked<T>` gives `&T` and nothing else.
unsafe impl<T: Sync, M: Memory> Sync for Unlinked<T, M> {}

impl<T, M: Memory> Unlinked<T, M> {
    pub(crate) fn into_raw(self) -> NonNull<T> {
        self.object
    }

    /// Takes the object back, instead of retiring it.
    ///
    /// # Safety
    /// No section can have a reference to it: everything that was open when it was unlinked has
    /// [ended](super::Domain::quiescent), and no link leads to it.
    #[must_use]
    pub unsafe fn into_owned(self) -> Owned<T, M> {
        // SAFETY: by contract; linked objects come from an `Owned` of this kind.
        unsafe { Owned::from_raw(self.object) }
    }
}

impl<T, M: Memory> From<Owned<T, M>> for Unlinked<T, M> {
    /// An object that was never linked is retired like any other.
    fn from(owned: Owned<T, M>) -> Self {
        Self {
            object: owned.into_raw(),
            owns: PhantomData,
        }
    }
}

impl<T, M: Memory> Deref for Unlinked<T, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: not retired yet, so live.
        unsafe { self.object.as_ref() }
    }
}

impl<T: fmt::Debug, M: Memory> fmt::Debug for Unlinked<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unlinked").field(&**self).finish()
    }
}

/// The error of [`Domain::try_retire`](super::Domain::try_retire), with the object: the domain is full.
pub struct DomainFull<T, M: Memory = Boxed> {
    /// What was to be retired.
    pub unlinked: Unlinked<T, M>,
    /// How many bytes the domain holds.
    pub unreclaimed_bytes: u64,
    /// The section that keeps them from being destroyed, if it is still open.
    pub stalled: Option<StalledSection>,
}

impl<T, M: Memory> fmt::Debug for DomainFull<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainFull")
            .field("unreclaimed_bytes", &self.unreclaimed_bytes)
            .field("stalled", &self.stalled)
            .finish_non_exhaustive()
    }
}

impl<T, M: Memory> fmt::Display for DomainFull<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes are retired and cannot be destroyed yet",
            self.unreclaimed_bytes
        )?;
        match &self.stalled {
            Some(stalled) => write!(f, "; in the way: {stalled}"),
            None => Ok(()),
        }
    }
}

impl<T, M: Memory> core::error::Error for DomainFull<T, M> {}

/// A reference to an object that was found in a section.
pub struct Ref<'s, T> {
    /// What the link said, and not a reference: [`Link::relink`] puts it into another link, from which the object is taken out
    /// with all that was allocated for it.
    object: NonNull<T>,
    lends: PhantomData<&'s T>,
}

// SAFETY: a `Ref` is a `&T`.
unsafe impl<T: Sync> Send for Ref<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Ref<'_, T> {}

impl<'s, T> Ref<'s, T> {
    /// The object, for as long as the section lasts.
    #[inline]
    #[must_use]
    pub fn get(self) -> &'s T {
        // SAFETY: live while the section is open, which `'s` lies in.
        unsafe { self.object.as_ref() }
    }

    /// Returns whether both are the same object, not only equal ones.
    #[inline]
    #[must_use]
    pub fn is(self, other: Ref<'_, T>) -> bool {
        self.object == other.object
    }
}

impl<T> Clone for Ref<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<'_, T> {}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.get()
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// An atomic pointer to an object or to none, read in sections and changed at any time.
///
/// Reading is one load. A link owns what an [`Owned`] put there, but does not destroy it when it is
/// dropped: in a list that is changed by [relinking](Self::relink) several links can lead to one
/// object. Whoever drops a structure takes the objects [out](Self::take).
///
/// ```
/// use percolog::reclaim::{Domain, Link, Owned};
///
/// static DOMAIN: Domain = Domain::new();
/// let mut link = Link::new(Owned::new("old"));
///
/// let section = DOMAIN.enter();
/// let old = link.load(&section).unwrap();
/// let unlinked = link.swap(Some(Owned::new("new"))).unwrap();
/// // SAFETY: no other link led to it, and this one is read in sections of DOMAIN only.
/// unsafe { DOMAIN.retire(unlinked) };
/// assert_eq!(*old, "old"); // still there: the section is open
/// assert_eq!(*link.load(&section).unwrap(), "new");
/// drop(section);
/// # drop(link.take());
/// ```
pub struct Link<T, M: Memory = Boxed> {
    object: AtomicPtr<T>,
    owns: PhantomData<(T, M)>,
}

// SAFETY: a link gives `&T` to many threads (`Sync`) and takes and gives objects (`Send`).
unsafe impl<T: Send + Sync, M: Memory> Sync for Link<T, M> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, M: Memory> Send for Link<T, M> {}

/// The error of [`Link::compare_exchange`]: nothing was changed.
pub struct CompareExchangeError<'s, T, M: Memory = Boxed> {
    /// What the link leads to.
    pub found: Option<Ref<'s, T>>,
    /// What was to be put there.
    pub new: Option<Owned<T, M>>,
}

impl<T, M: Memory> fmt::Debug for CompareExchangeError<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompareExchangeError")
    }
}

fn raw<T, M: Memory>(object: Option<Owned<T, M>>) -> *mut T {
    object.map_or(ptr::null_mut(), |object| object.into_raw().as_ptr())
}

fn unlinked<T, M: Memory>(object: *mut T) -> Option<Unlinked<T, M>> {
    NonNull::new(object).map(|object| Unlinked {
        object,
        owns: PhantomData,
    })
}

fn address<T>(object: Option<Ref<'_, T>>) -> *mut T {
    object.map_or(ptr::null_mut(), |object| object.object.as_ptr())
}

/// # Safety
/// What a link said in a section, with all that was done before it was linked, for as long as both last.
unsafe fn lend<'s, T>(object: *mut T) -> Option<Ref<'s, T>> {
    NonNull::new(object).map(|object| Ref {
        object,
        lends: PhantomData,
    })
}

impl<T, M: Memory> Link<T, M> {
    /// Creates a link to nothing.
    #[must_use]
    pub const fn null() -> Self {
        Self {
            object: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// Creates a link to an object.
    #[must_use]
    pub fn new(object: Owned<T, M>) -> Self {
        Self {
            object: AtomicPtr::new(object.into_raw().as_ptr()),
            owns: PhantomData,
        }
    }

    /// What the link leads to.
    ///
    /// *Progress:* wait-free. *Cost:* one load.
    #[inline]
    #[must_use]
    pub fn load<'s>(&'s self, section: &'s impl InSection) -> Option<Ref<'s, T>> {
        let _ = section;
        // Acquire pairs with the Release with which the object was linked.
        let object = self.object.load(Ordering::Acquire);
        // SAFETY: linked when the section was open, so it is not destroyed before the section ends,
        // if it is retired as `Domain::retire` asks; and not taken out for good, for that takes
        // `&mut self`, while `self` is borrowed.
        unsafe { lend(object) }
    }

    /// Returns whether the link leads nowhere.
    #[inline]
    #[must_use]
    pub fn is_null(&self) -> bool {
        // Relaxed: nothing is read through it.
        self.object.load(Ordering::Relaxed).is_null()
    }

    /// Puts an object there, or none, and takes out what was there.
    ///
    /// *Progress:* wait-free. *Cost:* one atomic exchange.
    #[inline]
    pub fn swap(&self, new: Option<Owned<T, M>>) -> Option<Unlinked<T, M>> {
        // Release publishes the new object to the Acquire in `load`; Acquire pairs with the Release of
        // whoever linked the old one.
        unlinked(self.object.swap(raw(new), Ordering::AcqRel))
    }

    /// Puts an object there, or none, if the link still leads where `current` says; takes out what was there.
    ///
    /// *Progress:* wait-free. *Cost:* one atomic exchange.
    ///
    /// # Errors
    /// If the link leads elsewhere: what was found, and `new`.
    #[inline]
    pub fn compare_exchange<'s>(
        &'s self,
        current: Option<Ref<'_, T>>,
        new: Option<Owned<T, M>>,
        section: &'s impl InSection,
    ) -> Result<Option<Unlinked<T, M>>, CompareExchangeError<'s, T, M>> {
        let _ = section;
        let new = raw(new);
        // Orderings as in `swap`; on failure Acquire as in `load`.
        match self.object.compare_exchange(
            address(current),
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(old) => Ok(unlinked(old)),
            Err(found) => Err(CompareExchangeError {
                // SAFETY: as in `load`.
                found: unsafe { lend(found) },
                // SAFETY: came from `raw` above, and was not linked.
                new: NonNull::new(new).map(|new| unsafe { Owned::from_raw(new) }),
            }),
        }
    }

    /// Makes the link lead where another one leads, if it still leads where `current` says: how
    /// objects are taken out of the middle of a list.
    ///
    /// # Safety
    /// From now on two links may lead to `new`, and the old object still has its own links: it is up to
    /// the caller that an object is retired once, when no link that sections follow leads to it, and that none is taken out twice.
    ///
    /// # Errors
    /// If the link leads elsewhere: what was found.
    pub unsafe fn relink<'s>(
        &'s self,
        current: Option<Ref<'_, T>>,
        new: Option<Ref<'_, T>>,
        section: &'s impl InSection,
    ) -> Result<Option<Unlinked<T, M>>, Option<Ref<'s, T>>> {
        let _ = section;
        // Orderings as in `compare_exchange`.
        match self.object.compare_exchange(
            address(current),
            address(new),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(old) => Ok(unlinked(old)),
            // SAFETY: as in `load`.
            Err(found) => Err(unsafe { lend(found) }),
        }
    }

    /// Takes the object out, for good: nobody else can reach the link, so nobody can have found the object.
    pub fn take(&mut self) -> Option<Owned<T, M>> {
        let object = core::mem::replace(self.object.get_mut(), ptr::null_mut());
        // SAFETY: linked objects come from an `Owned`; references to it borrow the link, and it is
        // borrowed exclusively. That no other link leads to it is what `relink` asks for.
        NonNull::new(object).map(|object| unsafe { Owned::from_raw(object) })
    }
}

impl<T, M: Memory> Default for Link<T, M> {
    fn default() -> Self {
        Self::null()
    }
}

impl<T, M: Memory> fmt::Debug for Link<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the object: reading it takes a section.
        f.debug_struct("Link")
            .field("null", &self.is_null())
            .finish()
    }
}
