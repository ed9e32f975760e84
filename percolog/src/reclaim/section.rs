//! Being inside.

use core::fmt;
use core::marker::PhantomData;

use super::collector::Collector;
use super::domain::Domain;
use super::open::Mark;
use super::records::Record;
use crate::cpu::Native;

/// A read-side critical section: while it is open, no object found in its [`Domain`] is destroyed.
///
/// It belongs to its thread, and sections nest: the outermost one counts, and the inner ones cost two
/// additions. Several domains can be entered at once, and left in any order. A thread that loses its
/// processor in a section, or moves to another one, is still inside.
///
/// Keep sections short: whatever is retired meanwhile stays, on all threads, until the section is left
/// or [renewed](Self::renew). A section that is forgotten (`mem::forget`) never ends, and from then on
/// nothing of its domain is destroyed; [`Domain::stats`] names its thread.
///
/// A section that is kept in a thread-local value stays open until that value is destroyed, when the thread ends: as long as
/// the thread lives, nothing of the domain that is retired meanwhile is destroyed. Then it ends as any other does, and leaves nothing
/// behind, whichever of the thread's values is destroyed first.
///
/// *Progress:* entering is wait-free, but for a thread's first section in a domain (allocates) and the
/// first after long idleness (a short lock); leaving is wait-free. *Cost:* two stores to a line that
/// only this thread writes; with the coarse clock, one load of a line that moves at most once for
/// every 128 objects that a thread retires. No shared line is written.
#[must_use = "the section ends when this is dropped"]
pub struct Section<'d> {
    collector: &'d Collector<Native>,
    record: &'d Record,
    /// Belongs to the thread that holds the record.
    on_this_thread: PhantomData<*mut ()>,
}

impl<'d> Section<'d> {
    /// The caller holds the record.
    #[inline(always)]
    pub(super) fn enter(collector: &'d Collector<Native>, record: &'d Record) -> Self {
        collector.enter(record);
        Self {
            collector,
            record,
            on_this_thread: PhantomData,
        }
    }

    /// With a record for this section alone.
    #[cold]
    pub(super) fn enter_without_record(collector: &'d Collector<Native>) -> Self {
        let record = collector.take_record(super::domain::hint_for_section());
        Collector::<Native>::last_gives_back(record);
        Self::enter(collector, record)
    }

    /// Whether the section is one of these, which were open.
    pub(crate) fn is_one_of(&self, open: &[Mark]) -> bool {
        Collector::<Native>::is_one_of(self.record, open)
    }

    /// Leaves and enters again, so that what was retired before can be destroyed; no reference that
    /// was found in the section survives it. Returns `false`, and does nothing, in a nested section:
    /// the outer ones may have references.
    ///
    /// For long walks that can start afresh: it costs as much as a section.
    #[inline]
    pub fn renew(&mut self) -> bool {
        if self.record.entered.nested() != 1 {
            return false;
        }
        self.collector.end(self.record);
        self.collector.begin(self.record);
        true
    }
}

impl Drop for Section<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.collector.leave(self.record);
    }
}

impl fmt::Debug for Section<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section").finish_non_exhaustive()
    }
}

/// A section that can be sent to another thread, and kept across suspensions of an asynchronous task.
///
/// *Progress:* lock-free. *Cost:* as a [`Section`], and one atomic update at either end.
///
/// ```
/// use percolog::reclaim::{Domain, Link, Owned};
///
/// static DOMAIN: Domain = Domain::new();
/// let link = Link::new(Owned::new(5));
/// let section = DOMAIN.enter_owned();
/// let five = std::thread::scope(|scope| {
///     scope.spawn(|| link.load(&section).map(|five| *five)).join()
/// });
/// assert_eq!(five.unwrap(), Some(5));
/// # let mut link = link;
/// # drop(link.take());
/// ```
#[must_use = "the section ends when this is dropped"]
pub struct OwnedSection<'d> {
    collector: &'d Collector<Native>,
    record: &'d Record,
}

impl<'d> OwnedSection<'d> {
    pub(super) fn enter(collector: &'d Collector<Native>) -> Self {
        // In a forked child owned sections stay: they are objects, not threads.
        collector.ensure_process();
        let record = collector.take_record(super::domain::hint_for_section());
        collector.enter(record);
        Self { collector, record }
    }

    /// Leaves and enters again: see [`Section::renew`].
    pub fn renew(&mut self) {
        self.collector.end(self.record);
        self.collector.begin(self.record);
    }
}

impl Drop for OwnedSection<'_> {
    fn drop(&mut self) {
        self.collector.leave(self.record);
        self.collector.records.give_back(self.record);
    }
}

impl fmt::Debug for OwnedSection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedSection").finish_non_exhaustive()
    }
}

/// A proof of being inside a section of some [`Domain`]: a [`Section`] or an [`OwnedSection`].
pub trait InSection: sealed::InSection {
    /// Whether the section is one of this domain.
    fn is_of(&self, domain: &Domain) -> bool;
}

impl InSection for Section<'_> {
    #[inline]
    fn is_of(&self, domain: &Domain) -> bool {
        domain.is_made_of(self.collector)
    }
}

impl InSection for OwnedSection<'_> {
    #[inline]
    fn is_of(&self, domain: &Domain) -> bool {
        domain.is_made_of(self.collector)
    }
}

mod sealed {
    pub trait InSection {}
    impl InSection for super::Section<'_> {}
    impl InSection for super::OwnedSection<'_> {}
}
