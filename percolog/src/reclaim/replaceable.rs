//! A value that is read in sections, and replaced whole.

use core::fmt;

use super::domain::Domain;
use super::link::{DomainFull, Link, Owned, Ref};
use super::section::InSection;

/// A value that many threads read at any time, without writing a shared line, and that is replaced whole now and then.
///
/// Everything is safe here: the value is linked in one place only, and read in sections of its own domain only.
///
/// ```
/// use percolog::reclaim::Replaceable;
///
/// static ROUTES: Replaceable<Vec<&str>> = Replaceable::lazy(|| vec!["a"]);
///
/// let section = ROUTES.domain().enter();
/// let before = ROUTES.load(&section);
/// ROUTES.replace(vec!["a", "b"]);
/// assert_eq!(before.len(), 1); // the section still has what it found
/// assert_eq!(ROUTES.load(&section).len(), 2);
/// drop(section);
/// assert_eq!(ROUTES.read(|routes| routes.len()), 2);
/// ```
///
/// It has a [domain](Domain) of its own, unless it is made with [`new`](Self::new): values that are read together share one, so
/// that one section is enough for all of them.
pub struct Replaceable<'d, T: Send + Sync + 'static> {
    link: Link<T>,
    /// What is there before anything else is.
    first: Option<fn() -> T>,
    /// Last: what has been retired is destroyed when it is dropped.
    home: Home<'d>,
}

enum Home<'d> {
    Own(Domain),
    Shared(&'d Domain),
}

impl<'d, T: Send + Sync + 'static> Replaceable<'d, T> {
    /// A value that is made when it is first asked for, for use in a `static`. Allocates nothing before.
    ///
    /// If several threads ask at once, each of them may make one, and all get the same. A panic of `first` goes to who asked, and the next one
    /// tries again. Where the value has been replaced before anybody asked, `first` is not called.
    #[must_use]
    pub const fn lazy(first: fn() -> T) -> Self {
        Self {
            link: Link::null(),
            first: Some(first),
            home: Home::Own(Domain::new()),
        }
    }

    /// Makes a value replaceable that is read in sections of a domain which others may use as well. Allocates.
    #[must_use]
    pub fn new(domain: &'d Domain, value: T) -> Self {
        Self {
            link: Link::new(Owned::new(value)),
            first: None,
            home: Home::Shared(domain),
        }
    }

    /// The domain whose sections the value is read in.
    #[inline]
    #[must_use]
    pub fn domain(&self) -> &Domain {
        match &self.home {
            Home::Own(domain) => domain,
            Home::Shared(domain) => domain,
        }
    }

    /// The value, for as long as the section lasts.
    ///
    /// *Progress:* wait-free, once the value has been made. *Cost:* one load.
    ///
    /// # Panics
    /// If the section is one of another domain, or if the value has yet to be made and that panics.
    #[inline]
    #[must_use]
    pub fn load<'s>(&'s self, section: &'s impl InSection) -> Ref<'s, T> {
        assert!(
            section.is_of(self.domain()),
            "the section is one of another domain than the value"
        );
        match self.link.load(section) {
            Some(value) => value,
            None => self.begin(section),
        }
    }

    /// Makes the first value, if nobody else has done so meanwhile.
    #[cold]
    fn begin<'s>(&'s self, section: &'s impl InSection) -> Ref<'s, T> {
        let first = Owned::new(self.make());
        // Whoever has lost has made a value that nobody has seen, and drops it.
        drop(self.link.compare_exchange(None, Some(first), section));
        match self.link.load(section) {
            Some(value) => value,
            None => unreachable!("a replaceable value is replaced by values only"),
        }
    }

    fn make(&self) -> T {
        match self.first {
            Some(first) => first(),
            None => unreachable!("there is a value from the beginning, or a way to make one"),
        }
    }

    /// Reads the value in a section of its own.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        let section = self.domain().enter();
        f(&self.load(&section))
    }

    /// Puts another value in its place; the old one is retired.
    ///
    /// *Progress:* wait-free but for the allocator, if the domain has no cap. *Cost:* an allocation, an
    /// atomic exchange, and [`Domain::retire`].
    pub fn replace(&self, value: T) {
        if let Some(old) = self.link.swap(Some(Owned::new(value))) {
            // SAFETY: this link alone led to it, and is read in sections of the domain only.
            unsafe { self.domain().retire(old) };
        }
    }

    /// Replaces the value, unless the domain is full.
    ///
    /// # Errors
    /// If the domain is full the *old* value comes back, and the new one is in its place: see
    /// [`DomainFull`].
    pub fn try_replace(&self, value: T) -> Result<(), DomainFull<T>> {
        match self.link.swap(Some(Owned::new(value))) {
            // SAFETY: as in `replace`.
            Some(old) => unsafe { self.domain().try_retire(old) },
            None => Ok(()),
        }
    }

    /// Replaces the value with what `f` makes of it; again if somebody else was faster.
    ///
    /// *Progress:* lock-free. *Cost:* as [`replace`](Self::replace), for each attempt.
    pub fn update(&self, mut f: impl FnMut(&T) -> T) {
        let section = self.domain().enter();
        let mut current = self.load(&section);
        loop {
            let new = Owned::new(f(&current));
            match self
                .link
                .compare_exchange(Some(current), Some(new), &section)
            {
                Ok(old) => {
                    if let Some(old) = old {
                        // SAFETY: as in `replace`.
                        unsafe { self.domain().retire(old) };
                    }
                    return;
                }
                Err(_) => current = self.load(&section),
            }
        }
    }

    /// The value itself.
    #[must_use]
    pub fn into_inner(mut self) -> T {
        match self.link.take() {
            Some(value) => value.into_inner(),
            None => self.make(),
        }
    }
}

/// With a domain of its own. Allocates.
impl<T: Send + Sync + 'static> From<T> for Replaceable<'_, T> {
    fn from(value: T) -> Self {
        Self {
            link: Link::new(Owned::new(value)),
            first: None,
            home: Home::Own(Domain::new()),
        }
    }
}

impl<T: Send + Sync + Default + 'static> Default for Replaceable<'_, T> {
    fn default() -> Self {
        Self::lazy(T::default)
    }
}

impl<T: Send + Sync + 'static> Drop for Replaceable<'_, T> {
    fn drop(&mut self) {
        drop(self.link.take());
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Replaceable<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|value| f.debug_tuple("Replaceable").field(value).finish())
    }
}
