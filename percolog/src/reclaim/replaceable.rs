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
/// use percolog::reclaim::{Domain, Replaceable};
///
/// static DOMAIN: Domain = Domain::new();
/// let routes = Replaceable::new(&DOMAIN, vec!["a"]);
///
/// let section = DOMAIN.enter();
/// let before = routes.load(&section);
/// routes.replace(vec!["a", "b"]);
/// assert_eq!(before.len(), 1); // the section still has what it found
/// assert_eq!(routes.load(&section).len(), 2);
/// drop(section);
/// assert_eq!(routes.read(|routes| routes.len()), 2);
/// ```
pub struct Replaceable<'d, T: Send + Sync + 'static> {
    domain: &'d Domain,
    link: Link<T>,
}

impl<'d, T: Send + Sync + 'static> Replaceable<'d, T> {
    /// Makes a value replaceable. Allocates.
    #[must_use]
    pub fn new(domain: &'d Domain, value: T) -> Self {
        Self {
            domain,
            link: Link::new(Owned::new(value)),
        }
    }

    /// The domain whose sections the value is read in.
    #[must_use]
    pub fn domain(&self) -> &'d Domain {
        self.domain
    }

    /// The value, for as long as the section lasts.
    ///
    /// *Progress:* wait-free. *Cost:* one load.
    ///
    /// # Panics
    /// If the section is one of another domain.
    #[inline]
    #[must_use]
    pub fn load<'s>(&'s self, section: &'s impl InSection) -> Ref<'s, T> {
        assert!(
            section.is_of(self.domain),
            "the section is one of another domain than the value"
        );
        match self.link.load(section) {
            Some(value) => value,
            None => unreachable!("a replaceable value is replaced by values only"),
        }
    }

    /// Reads the value in a section of its own.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        let section = self.domain.enter();
        f(&self.load(&section))
    }

    /// Puts another value in its place; the old one is retired.
    ///
    /// *Progress:* wait-free but for the allocator, if the domain has no cap. *Cost:* an allocation, an
    /// atomic exchange, and [`Domain::retire`].
    pub fn replace(&self, value: T) {
        if let Some(old) = self.link.swap(Some(Owned::new(value))) {
            // SAFETY: this link alone led to it, and is read in sections of the domain only.
            unsafe { self.domain.retire(old) };
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
            Some(old) => unsafe { self.domain.try_retire(old) },
            None => Ok(()),
        }
    }

    /// Replaces the value with what `f` makes of it; again if somebody else was faster.
    ///
    /// *Progress:* lock-free. *Cost:* as [`replace`](Self::replace), for each attempt.
    pub fn update(&self, mut f: impl FnMut(&T) -> T) {
        let section = self.domain.enter();
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
                        unsafe { self.domain.retire(old) };
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
            None => unreachable!("a replaceable value is replaced by values only"),
        }
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
