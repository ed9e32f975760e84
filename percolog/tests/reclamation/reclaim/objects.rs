//! Objects that show it when they were destroyed, and the yard where they lie then.
//!
//! A destructor that runs too early must show as a failed test, not as undefined behaviour. So nothing
//! that was destroyed goes back to the allocator before the test is over: a destroyed object has
//! another *canary*, and whoever still reads it sees that.

use percolog::reclaim::{Domain, InSection, Link, Owned, Unlinked};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

const ALIVE: usize = 0x5afe;
const DEAD: usize = 0xdead;

/// An object of a [`Yard`].
pub(crate) struct Object {
    canary: AtomicUsize,
    pub(crate) number: usize,
    yard: *const Yard,
    next: AtomicPtr<Object>,
}

// SAFETY: the yard is shared by all threads and outlives the objects; everything else is atomic or
// constant.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    pub(crate) fn is_alive(&self) -> bool {
        // Acquire: a destruction that is seen has happened with everything before it.
        self.canary.load(Ordering::Acquire) == ALIVE
    }

    /// Fails if the object was destroyed.
    #[track_caller]
    pub(crate) fn check(&self) {
        assert!(
            self.is_alive(),
            "object {} was destroyed too early",
            self.number
        );
    }
}

/// Where objects come from and end up. It must outlive the domain they are retired in. No locks: a
/// forked child uses it.
pub(crate) struct Yard {
    made: AtomicUsize,
    destroyed: AtomicUsize,
    /// Objects that were destroyed twice.
    again: AtomicUsize,
    dead: AtomicPtr<Object>,
}

impl Yard {
    pub(crate) const fn new() -> Self {
        Self {
            made: AtomicUsize::new(0),
            destroyed: AtomicUsize::new(0),
            again: AtomicUsize::new(0),
            dead: AtomicPtr::new(ptr::null_mut()),
        }
    }

    pub(crate) fn object(&self) -> Owned<Object> {
        Owned::new(Object {
            canary: AtomicUsize::new(ALIVE),
            number: self.made.fetch_add(1, Ordering::Relaxed),
            yard: self,
            next: AtomicPtr::new(ptr::null_mut()),
        })
    }

    pub(crate) fn link(&self) -> Link<Object> {
        Link::new(self.object())
    }

    /// Retires an object of this yard that was unlinked; the pointer can be looked at even then.
    pub(crate) fn retire(&self, domain: &Domain, unlinked: Unlinked<Object>) -> Seen {
        let object = ptr::from_ref(&*unlinked);
        // Dropping what was unlinked leaks it: it is ours now.
        // SAFETY: unlinked from the only link that led to it, and read in sections of the domain only.
        unsafe { domain.retire_with(object.cast_mut(), destroy) };
        Seen(object)
    }

    /// Retires an object that nobody has ever seen.
    pub(crate) fn retire_new(&self, domain: &Domain) -> Seen {
        self.retire(domain, self.object().into())
    }

    /// Puts a new object into a link and retires what was there.
    pub(crate) fn replace(&self, domain: &Domain, link: &Link<Object>) -> Seen {
        let old = link.swap(Some(self.object()));
        self.retire(domain, old.expect("these links always lead somewhere"))
    }

    pub(crate) fn destroyed(&self) -> usize {
        self.destroyed.load(Ordering::Acquire)
    }

    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Fails unless everything that was made was destroyed, and once.
    #[track_caller]
    pub(crate) fn check_all_destroyed(&self) {
        assert_eq!(self.again.load(Ordering::Relaxed), 0, "destroyed twice");
        assert_eq!(self.destroyed(), self.made(), "lost");
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let mut at = *self.dead.get_mut();
        while !at.is_null() {
            // SAFETY: a dead object is only reached from here; it came from an `Owned`, so from a box.
            let mut object = unsafe { Box::from_raw(at) };
            at = *object.next.get_mut();
        }
    }
}

/// # Safety
/// The object came from its yard, and was not destroyed before.
unsafe fn destroy(object: *mut Object) {
    // SAFETY: the object lies in its yard until that is gone, so this is no danger even when it is a
    // mistake.
    let (this, yard) = unsafe { (&*object, &*(*object).yard) };
    if this.canary.swap(DEAD, Ordering::AcqRel) != ALIVE {
        yard.again.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // Release: who follows the list finds the object whole.
    let mut first = yard.dead.load(Ordering::Relaxed);
    loop {
        this.next.store(first, Ordering::Relaxed);
        match yard
            .dead
            .compare_exchange_weak(first, object, Ordering::Release, Ordering::Relaxed)
        {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    yard.destroyed.fetch_add(1, Ordering::Release);
}

/// An object that was seen, and that may have been destroyed since. Its yard still exists.
#[derive(Clone, Copy)]
pub(crate) struct Seen(*const Object);

// SAFETY: objects can be looked at by any thread.
unsafe impl Send for Seen {}
// SAFETY: as above.
unsafe impl Sync for Seen {}

impl Seen {
    pub(crate) fn new(object: &Object) -> Self {
        Self(object)
    }

    pub(crate) fn is_alive(self) -> bool {
        // SAFETY: objects lie in their yard until that is gone.
        unsafe { &*self.0 }.is_alive()
    }
}

/// Reads a link in a section.
#[track_caller]
pub(crate) fn look<'s>(link: &'s Link<Object>, section: &'s impl InSection) -> &'s Object {
    let object = link
        .load(section)
        .expect("these links always lead somewhere")
        .get();
    object.check();
    object
}

/// Takes the objects out of the links and retires them, so that all that was made is retired.
pub(crate) fn clear(yard: &Yard, domain: &Domain, links: &[Link<Object>]) {
    for link in links {
        if let Some(last) = link.swap(None) {
            yard.retire(domain, last);
        }
    }
}
