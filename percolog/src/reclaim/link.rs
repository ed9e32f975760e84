//! Objects, and the links that lead to them.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

use alloc::boxed::Box;

use super::section::Inside;
use super::stalled::Stalled;
use crate::sync::atomic::{AtomicPtr, Ordering};

/// An object on the heap that nobody else has: not linked yet, or not any more.
///
/// *Cost:* making one allocates, as a `Box` does.
pub struct Owned<T> {
    object: NonNull<T>,
    owns: PhantomData<Box<T>>,
}

// SAFETY: owning an `Owned<T>` is owning a `T`.
unsafe impl<T: Send> Send for Owned<T> {}
// SAFETY: `&Owned<T>` gives `&T` and nothing else.
unsafe impl<T: Sync> Sync for Owned<T> {}

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

    fn into_raw(self) -> NonNull<T> {
        let object = self.object;
        core::mem::forget(self);
        object
    }

    /// # Safety
    /// The object came from a box, and nobody else has it.
    unsafe fn from_raw(object: NonNull<T>) -> Self {
        Self {
            object,
            owns: PhantomData,
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: came from a box, and nobody else has it.
        drop(unsafe { Box::from_raw(self.object.as_ptr()) });
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: live, and lent through `self` alone.
        unsafe { self.object.as_ref() }
    }
}

impl<T> DerefMut for Owned<T> {
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

impl<T: fmt::Debug> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owned").field(&**self).finish()
    }
}

/// An object that was taken out of a link, and that sections may still read.
///
/// It can be read, and [retired](super::Domain::retire). Dropping it leaks the object.
#[must_use = "retire it, or the object is leaked"]
pub struct Unlinked<T> {
    object: NonNull<T>,
}

// SAFETY: whoever has it reads the object, along with sections on other threads (`Sync`), and hands
// it to whoever destroys it (`Send`).
unsafe impl<T: Send + Sync> Send for Unlinked<T> {}
// SAFETY: `&Unlinked<T>` gives `&T` and nothing else.
unsafe impl<T: Sync> Sync for Unlinked<T> {}

impl<T> Unlinked<T> {
    pub(super) fn into_raw(self) -> NonNull<T> {
        self.object
    }

    /// Takes the object back, instead of retiring it.
    ///
    /// # Safety
    /// No section can have a reference to it: everything that was open when it was unlinked has
    /// [ended](super::Domain::quiescent), and no link leads to it.
    #[must_use]
    pub unsafe fn into_owned(self) -> Owned<T> {
        // SAFETY: by contract; linked objects come from an `Owned`, so from a box.
        unsafe { Owned::from_raw(self.object) }
    }
}

impl<T> From<Owned<T>> for Unlinked<T> {
    /// An object that was never linked is retired like any other.
    fn from(owned: Owned<T>) -> Self {
        Self {
            object: owned.into_raw(),
        }
    }
}

impl<T> Deref for Unlinked<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: not retired yet, so live.
        unsafe { self.object.as_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Unlinked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unlinked").field(&**self).finish()
    }
}

/// The domain is full: [`Domain::try_retire`](super::Domain::try_retire) hands the object back.
pub struct Refused<T> {
    /// What was to be retired.
    pub unlinked: Unlinked<T>,
    /// How many bytes the domain holds.
    pub unreclaimed_bytes: u64,
    /// The section that keeps them from being destroyed, if it is still open.
    pub stalled: Option<Stalled>,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("unreclaimed_bytes", &self.unreclaimed_bytes)
            .field("stalled", &self.stalled)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Refused<T> {
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

impl<T> core::error::Error for Refused<T> {}

/// A reference to an object that was found in a section, good for as long as the section and the link
/// through which it was found are.
pub struct Ref<'s, T> {
    object: &'s T,
}

impl<'s, T> Ref<'s, T> {
    /// The object, for as long as the section lasts.
    #[inline]
    #[must_use]
    pub fn get(self) -> &'s T {
        self.object
    }

    /// Whether both are the same object, not only equal ones.
    #[inline]
    #[must_use]
    pub fn is(self, other: Ref<'_, T>) -> bool {
        ptr::eq(self.object, other.object)
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
        self.object
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

/// A place that leads to an object or to none, read in sections and changed at any time.
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
pub struct Link<T> {
    object: AtomicPtr<T>,
    owns: PhantomData<Box<T>>,
}

// SAFETY: a link gives `&T` to many threads (`Sync`) and takes and gives objects (`Send`).
unsafe impl<T: Send + Sync> Sync for Link<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Link<T> {}

/// What [`Link::compare_exchange`] found instead: nothing was changed.
pub struct Changed<'s, T> {
    /// What the link leads to.
    pub found: Option<Ref<'s, T>>,
    /// What was to be put there.
    pub new: Option<Owned<T>>,
}

impl<T> fmt::Debug for Changed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changed")
    }
}

fn raw<T>(object: Option<Owned<T>>) -> *mut T {
    object.map_or(ptr::null_mut(), |object| object.into_raw().as_ptr())
}

fn unlinked<T>(object: *mut T) -> Option<Unlinked<T>> {
    NonNull::new(object).map(|object| Unlinked { object })
}

fn address<T>(object: Option<Ref<'_, T>>) -> *mut T {
    object.map_or(ptr::null_mut(), |object| {
        ptr::from_ref(object.object).cast_mut()
    })
}

impl<T> Link<T> {
    /// A link to nothing.
    #[must_use]
    pub const fn null() -> Self {
        Self {
            object: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// A link to an object.
    #[must_use]
    pub fn new(object: Owned<T>) -> Self {
        Self {
            object: AtomicPtr::new(object.into_raw().as_ptr()),
            owns: PhantomData,
        }
    }

    /// What the link leads to.
    ///
    /// *Progress:* wait-free. *Cost:* one load.
    #[inline]
    pub fn load<'s>(&'s self, section: &'s impl Inside) -> Option<Ref<'s, T>> {
        let _ = section;
        // Acquire pairs with the Release with which the object was linked.
        let object = self.object.load(Ordering::Acquire);
        // SAFETY: linked when the section was open, so it is not destroyed before the section ends,
        // if it is retired as `Domain::retire` asks; and not taken out for good, for that takes
        // `&mut self`, while `self` is borrowed.
        unsafe { object.as_ref() }.map(|object| Ref { object })
    }

    /// Whether the link leads nowhere.
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
    pub fn swap(&self, new: Option<Owned<T>>) -> Option<Unlinked<T>> {
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
        new: Option<Owned<T>>,
        section: &'s impl Inside,
    ) -> Result<Option<Unlinked<T>>, Changed<'s, T>> {
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
            Err(found) => Err(Changed {
                // SAFETY: as in `load`.
                found: unsafe { found.as_ref() }.map(|object| Ref { object }),
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
        section: &'s impl Inside,
    ) -> Result<Option<Unlinked<T>>, Option<Ref<'s, T>>> {
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
            Err(found) => Err(unsafe { found.as_ref() }.map(|object| Ref { object })),
        }
    }

    /// Takes the object out, for good: nobody else can reach the link, so nobody can have found the object.
    pub fn take(&mut self) -> Option<Owned<T>> {
        let object = core::mem::replace(self.object.get_mut(), ptr::null_mut());
        // SAFETY: linked objects come from an `Owned`; references to it borrow the link, and it is
        // borrowed exclusively. That no other link leads to it is what `relink` asks for.
        NonNull::new(object).map(|object| unsafe { Owned::from_raw(object) })
    }
}

impl<T> Default for Link<T> {
    fn default() -> Self {
        Self::null()
    }
}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the object: reading it takes a section.
        f.debug_struct("Link")
            .field("null", &self.is_null())
            .finish()
    }
}
