//! What an implementation says about itself: which representatives there are, and how one is made.

use super::representatives::{Registry, Siblings};
use crate::cpu::CoreId;
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;

/// An implementation of an interface: the part of an object that exists once, and makes the representatives.
///
/// State that all representatives need lies in an `Arc`, of which the root gives a clone to each (K42's representatives have a pointer
/// to their root). State that one of them needs lies in it. How they come together for a sum is [`Siblings`].
///
/// Nothing here is seen by callers: they name the interface.
///
/// ```
/// use percolog::clustered::{self, Place, Placement, Root};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// trait Limit: Sync {
///     fn admits(&self, size: u64) -> bool;
///     fn refused(&self) -> u64;
/// }
///
/// /// The limit is set once; refusals are counted on each chip.
/// struct ByChip { most: Arc<AtomicU64> }
/// struct Chip { most: Arc<AtomicU64>, refused: AtomicU64 }
///
/// impl Limit for Chip {
///     fn admits(&self, size: u64) -> bool {
///         let admitted = size <= self.most.load(Ordering::Relaxed);
///         if !admitted { self.refused.fetch_add(1, Ordering::Relaxed); }
///         admitted
///     }
///     fn refused(&self) -> u64 { self.refused.load(Ordering::Relaxed) }
/// }
///
/// impl Root for ByChip {
///     type Interface = dyn Limit;
///     type Rep = Chip;
///     fn placement(&self) -> Placement { Placement::EachChip }
///     fn create(&self, _: &Place<'_, Chip>) -> Chip {
///         Chip { most: self.most.clone(), refused: AtomicU64::new(0) }
///     }
///     fn interface(rep: &Chip) -> &Self::Interface { rep }
/// }
///
/// let limit = clustered::create(ByChip { most: Arc::new(AtomicU64::new(10)) });
/// assert!(!limit.call(|it| it.admits(11))?);
/// limit.destroy()?;
/// # Ok::<(), clustered::StaleRef>(())
/// ```
pub trait Root: Send + Sync + Sized + 'static {
    /// What callers see: a trait object, as a rule. `Sync`, since a thread may migrate in the middle of a call, and another one
    /// calls the same representative: write `trait Count: Sync`.
    type Interface: ?Sized + Sync + 'static;

    /// A representative.
    type Rep: Send + Sync + 'static;

    /// Which slots have a representative in common. One each, if nothing is said. Must not change.
    fn placement(&self) -> Placement {
        Placement::EachSlot
    }

    /// Makes a representative, when it is called for the first time. Called once for each number, one after the other; calls on
    /// representatives that are there go on.
    ///
    /// Whoever needs a representative of *this* object waits for it, so it should be short, and must not call the object itself, nor
    /// anything that does. If it panics, so does the call that needed the representative; the next one tries again.
    fn create(&self, place: &Place<'_, Self::Rep>) -> Self::Rep;

    /// The representative as its callers see it: `rep`, nearly always.
    fn interface(rep: &Self::Rep) -> &Self::Interface;
}

/// The assignment of slots to representatives.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Placement {
    /// All of them: an object that is shared.
    One,
    /// Each its own.
    EachSlot,
    /// Those on one chip (NUMA node), as far as the system says. It is asked when a slot makes its first call: a slot that is not a
    /// processor's can be on several chips in its life.
    EachChip,
    /// So many slots with consecutive numbers. 0 is 1.
    Every(u32),
    /// As the function says: slots for which it returns the same number.
    By(fn(CoreId) -> usize),
}

impl Placement {
    pub(super) fn number(self, slot: CoreId, chip: usize) -> usize {
        match self {
            Self::One => 0,
            Self::EachSlot => slot.index(),
            Self::EachChip => chip,
            Self::Every(slots) => slot.index() / slots.max(1) as usize,
            Self::By(rule) => rule(slot),
        }
    }
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("One"),
            Self::EachSlot => f.write_str("EachSlot"),
            Self::EachChip => f.write_str("EachChip"),
            Self::Every(slots) => f.debug_tuple("Every").field(slots).finish(),
            Self::By(_) => f.write_str("By"),
        }
    }
}

/// The place of a representative: the slot it is made for, and its number.
pub struct Place<'a, P> {
    slot: CoreId,
    number: usize,
    registry: &'a Arc<Registry<P>>,
}

impl<'a, P: Send + Sync> Place<'a, P> {
    pub(super) fn new(slot: CoreId, number: usize, registry: &'a Arc<Registry<P>>) -> Self {
        Self {
            slot,
            number,
            registry,
        }
    }

    /// The slot of the call that needs it. Others can come to use it as well.
    #[must_use]
    pub fn slot(&self) -> CoreId {
        self.slot
    }

    /// Its number among the representatives, as the [`Placement`] gives it.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The way to all representatives of this implementation, to be kept in this one. It can be used when this one is made.
    #[must_use]
    pub fn siblings(&self) -> Siblings<P> {
        Siblings::new(self.registry)
    }
}

impl<P> fmt::Debug for Place<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("slot", &self.slot)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// A [`Root`](super::Root) with one representative, which all slots use.
///
/// The first step: callers hold a reference to the interface, and the value can be replaced by something that is distributed without
/// one of them noticing.
///
/// ```
/// use percolog::clustered::{self, Shared};
/// use std::sync::Mutex;
///
/// trait Log: Sync { fn note(&self, line: &str); fn len(&self) -> usize; }
/// impl Log for Mutex<Vec<String>> {
///     fn note(&self, line: &str) { self.lock().unwrap().push(line.into()); }
///     fn len(&self) -> usize { self.lock().unwrap().len() }
/// }
///
/// let log = clustered::create(Shared::new(Mutex::new(Vec::new()), |it| it as &dyn Log));
/// log.call(|log| log.note("began"))?;
/// assert_eq!(log.call(|log| log.len())?, 1);
/// log.destroy()?;
/// # Ok::<(), clustered::StaleRef>(())
/// ```
pub struct Shared<T, I: ?Sized> {
    value: Arc<T>,
    interface: fn(&T) -> &I,
}

impl<T: Send + Sync + 'static, I: ?Sized + Sync + 'static> Shared<T, I> {
    /// The value, and how it becomes the interface.
    #[must_use]
    pub fn new(value: T, interface: fn(&T) -> &I) -> Self {
        Self {
            value: Arc::new(value),
            interface,
        }
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &Arc<T> {
        &self.value
    }
}

impl<T: Send + Sync + 'static, I: ?Sized + Sync + 'static> Root for Shared<T, I> {
    type Interface = I;
    type Rep = ValueRep<Arc<T>, T, I>;

    fn placement(&self) -> Placement {
        Placement::One
    }

    fn create(&self, _place: &Place<'_, Self::Rep>) -> Self::Rep {
        ValueRep {
            value: self.value.clone(),
            interface: self.interface,
            of: PhantomData,
        }
    }

    fn interface(rep: &Self::Rep) -> &I {
        (rep.interface)(&rep.value)
    }
}

impl<T, I: ?Sized> fmt::Debug for Shared<T, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A [`Root`](super::Root) whose representatives are independent values, each made by one function.
///
/// ```
/// use percolog::clustered::{self, Distributed, Placement};
/// use percolog::cpu::CoreId;
///
/// trait Named: Sync { fn name(&self) -> String; }
/// impl Named for CoreId { fn name(&self) -> String { format!("slot {}", self.index()) } }
///
/// let names = clustered::create(Distributed::new(
///     Placement::EachSlot,
///     |place| place.slot(),
///     |slot| slot as &dyn Named,
/// ));
/// assert!(names.call(|it| it.name())?.starts_with("slot "));
/// names.destroy()?;
/// # Ok::<(), clustered::StaleRef>(())
/// ```
pub struct Distributed<F, T, I: ?Sized> {
    placement: Placement,
    make: F,
    interface: fn(&T) -> &I,
}

impl<F, T, I> Distributed<F, T, I>
where
    F: Fn(&Place<'_, ValueRep<T, T, I>>) -> T + Send + Sync + 'static,
    T: Send + Sync + 'static,
    I: ?Sized + Sync + 'static,
{
    /// Creates a root from a function that makes a value for each place, and how it becomes the interface.
    #[must_use]
    pub fn new(placement: Placement, make: F, interface: fn(&T) -> &I) -> Self {
        Self {
            placement,
            make,
            interface,
        }
    }
}

impl<F, T, I> Root for Distributed<F, T, I>
where
    F: Fn(&Place<'_, ValueRep<T, T, I>>) -> T + Send + Sync + 'static,
    T: Send + Sync + 'static,
    I: ?Sized + Sync + 'static,
{
    type Interface = I;
    type Rep = ValueRep<T, T, I>;

    fn placement(&self) -> Placement {
        self.placement
    }

    fn create(&self, place: &Place<'_, Self::Rep>) -> Self::Rep {
        ValueRep {
            value: (self.make)(place),
            interface: self.interface,
            of: PhantomData,
        }
    }

    fn interface(rep: &Self::Rep) -> &I {
        (rep.interface)(&rep.value)
    }
}

impl<F, T, I: ?Sized> fmt::Debug for Distributed<F, T, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distributed")
            .field("placement", &self.placement)
            .finish_non_exhaustive()
    }
}

/// The representative of a [`Shared`] or [`Distributed`] value.
pub struct ValueRep<V, T, I: ?Sized> {
    value: V,
    interface: fn(&T) -> &I,
    of: PhantomData<fn(&T) -> &I>,
}

impl<V, T, I: ?Sized> ValueRep<V, T, I> {
    /// The value.
    #[must_use]
    pub fn value(&self) -> &V {
        &self.value
    }
}

impl<V, T, I: ?Sized> fmt::Debug for ValueRep<V, T, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueRep").finish_non_exhaustive()
    }
}
