//! The weak references that users have.

use core::fmt;
use core::ptr::NonNull;

use super::references::CoreArc;
use super::shared::{give_up, take_one, take_one_if_hot};
use super::tagged::Tagged;

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
/// After: an upgrade of a hot value writes memory of its own thread only, and may succeed until the value was found to be unused.
///
/// ```
/// use percolog::refcount::{self, CoreArc, CoreWeak};
///
/// let parent = CoreArc::into_hot(CoreArc::new("parent"));
/// let weak: CoreWeak<&str> = CoreArc::downgrade(&parent);
/// assert_eq!(weak.upgrade().as_deref(), Some(&"parent"));
/// drop(parent);
/// refcount::reclaim();
/// assert!(weak.upgrade().is_none());
/// ```
pub struct CoreWeak<T: ?Sized + Send + Sync + 'static> {
    pub(super) header: Tagged,
    pub(super) value: NonNull<T>,
}

// SAFETY: it gives a `CoreArc`, which is `Send` and `Sync` itself.
unsafe impl<T: ?Sized + Send + Sync> Send for CoreWeak<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for CoreWeak<T> {}

impl<T: ?Sized + Send + Sync> CoreWeak<T> {
    /// A reference that keeps the value alive, unless it was found that there is none.
    ///
    /// **May succeed after the last `CoreArc` was dropped**, if the value is [hot](CoreArc#cold-and-hot): until a
    /// round has found that out, which [`reclaim`](super::reclaim) makes sure of. What is upgraded is then alive again, as if the last drop had not been. Once it has
    /// failed, it fails for ever.
    ///
    /// *Progress:* as a clone, but lock-free where that of a cold reference is wait-free. *Cost:* as a clone, and a load of the count's line,
    /// which rounds write; where barriers are [fences](crate::cpu::barrier::BarrierMode::Fence), one of them. While a round checks
    /// whether this very value is dead, as a clone of a cold one.
    #[must_use]
    pub fn upgrade(&self) -> Option<CoreArc<T>> {
        // SAFETY: the header lives while `self` does.
        let strong = unsafe { self.header.get() }.strong();
        // SAFETY: as above.
        let is_hot = if strong.rest.is_hot() && unsafe { take_one_if_hot(strong) } {
            true
        } else {
            strong.count.add_unless_zero()?
        };
        Some(CoreArc::counted(self.header.but(is_hot), self.value))
    }

    /// Returns whether both lead to the same value.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.header.is_of(other.header)
    }
}

impl<T: ?Sized + Send + Sync> Clone for CoreWeak<T> {
    /// Another weak reference. *Progress* and *cost:* as the clone of a [`CoreArc`].
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: `self` is a reference that the count counts, and keeps the header.
        let is_hot = unsafe { take_one(self.header.get().weak(), self.header.is_hot()) };
        Self {
            header: self.header.but(is_hot),
            value: self.value,
        }
    }
}

impl<T: ?Sized + Send + Sync> Drop for CoreWeak<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` is a reference that the count counts, and is gone.
        unsafe { give_up(NonNull::from(&self.header.get().weak), self.header.is_hot()) };
    }
}

impl<T: ?Sized + Send + Sync> fmt::Debug for CoreWeak<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(CoreWeak)")
    }
}
