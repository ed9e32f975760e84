//! What callers have: references, and sections to use them in.

use super::arrangement::{Arrangement, Implementation};
use super::object::{Caller, Object, StaleRef};
use super::representatives::Incarnation;
use super::root::Root;
use super::translation::{INDICES, Tables};
use super::waiting::{self, DOMAIN};
use crate::cpu::{self, CoreId};
use crate::namespace::{self, Id, InsertReason, Namespace};
use crate::reclaim::{self, Mark};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// The objects: the global translation table.
static OBJECTS: Namespace<'static, Anchor> = namespace::NamespaceBuilder::new()
    .max_ids(INDICES as u32)
    .build(&DOMAIN);

/// The tables of the slots.
pub(super) static TABLES: Tables = Tables::new();

/// What the global table has: an [`Object`], of whatever interface.
struct Anchor {
    object: Arc<dyn Any + Send + Sync>,
}

/// A section in which objects can be called: while it is open, no object that calls in it can use is destroyed.
///
/// It belongs to its thread; sections nest. What it costs, and what it means to keep one open, [`reclaim::Section`] says.
#[must_use = "the section ends when this is dropped"]
pub struct ObjectSection {
    section: reclaim::Section<'static>,
}

/// Enters a section, in which objects can be called.
///
/// *Progress:* wait-free but for a thread's first. *Cost:* some nanoseconds; no shared line is written.
///
/// # Panics
/// If millions of sections are open at once.
#[inline(always)]
pub fn enter() -> ObjectSection {
    ObjectSection {
        section: DOMAIN.enter(),
    }
}

impl ObjectSection {
    /// Leaves and enters again; see [`reclaim::Section::renew`].
    #[inline]
    pub fn renew(&mut self) -> bool {
        self.section.renew()
    }
}

impl fmt::Debug for ObjectSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectSection").finish_non_exhaustive()
    }
}

/// A caller that a section proves to be one.
struct Here<'a>(&'a ObjectSection);

impl Caller for Here<'_> {
    fn slot(&self) -> CoreId {
        cpu::current()
    }

    fn chip(&self) -> usize {
        cpu::chip()
    }

    fn is_one_of(&self, open: &[Mark]) -> bool {
        self.0.section.is_one_of(open)
    }
}

/// The error of [`try_create`](super::try_create): there is no room for another object.
#[derive(Clone, Copy)]
pub struct CreateError<R> {
    /// What was to stand behind it.
    pub root: R,
    /// What there is not.
    pub reason: InsertReason,
}

impl<R> fmt::Debug for CreateError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateError")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<R> fmt::Display for CreateError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<R> core::error::Error for CreateError<R> {}

/// A reference to an object, by its interface: an index and a generation, eight bytes (an `Option` of one, too), `Copy`.
///
/// It says nothing about what stands behind the interface, nor does it keep the object alive: an object lives until it is
/// [destroyed](Self::destroy), and from then on calls return [`StaleRef`].
pub struct ObjectRef<I: ?Sized> {
    id: Id<Anchor>,
    /// Invariant: the object's interface is compared as a type, and a supertype is another one.
    interface: PhantomData<fn(*const I) -> *const I>,
}

/// Makes an object. No representative is made before a call needs one.
///
/// *Progress:* blocking: for the slot's list of free indices, which is held for some instructions, and the allocator; runs destructors of objects that have been destroyed. *Cost:* some allocations;
/// the index is one that the slot has ready, as a rule.
///
/// # Panics
/// If there are 33 million objects, or no memory: see [`try_create`].
pub fn create<R: Root>(root: R) -> ObjectRef<R::Interface> {
    match try_create(root) {
        Ok(made) => made,
        Err(full) => panic!("{}", full.reason),
    }
}

/// Makes an object, if there is room for it.
///
/// *Progress and cost:* as of [`create`].
///
/// # Errors
/// If there are 33 million objects, those included that were destroyed and may be in use, or no memory for more: the root comes back.
pub fn try_create<R: Root>(root: R) -> Result<ObjectRef<R::Interface>, CreateError<R>> {
    let implementation: Arc<dyn Implementation<R::Interface>> = Arc::new(Incarnation::new(root));
    // Nobody asks for the name before there are interposers.
    let object = Object::new(Arrangement::new(0, implementation, Vec::new()));
    let anchor = Anchor {
        object: Arc::new(object),
    };
    match OBJECTS.insert(anchor) {
        Ok(id) => Ok(ObjectRef::new(id)),
        Err(namespace::InsertError { value, reason }) => match root_of::<R>(value) {
            Some(root) => Err(CreateError { root, reason }),
            None => unreachable!("nobody else has ever had it"),
        },
    }
}

/// The root that was put into an anchor.
fn root_of<R: Root>(anchor: Anchor) -> Option<R> {
    let object = anchor.object.downcast::<Object<R::Interface>>().ok()?;
    let implementation = Arc::into_inner(object)?.into_implementation();
    let incarnation = implementation
        .into_any()
        .downcast::<Incarnation<R>>()
        .ok()?;
    Some(Arc::into_inner(incarnation)?.root)
}

impl<I: ?Sized> ObjectRef<I> {
    const fn new(id: Id<Anchor>) -> Self {
        Self {
            id,
            interface: PhantomData,
        }
    }

    /// The reference as a number, to be handed to whoever uses the program.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.id.to_bits()
    }

    /// Its index in the tables: at any time that of one object at most.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.id.index()
    }

    /// Which of the objects it is that have had this index.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.id.generation()
    }
}

impl<I: ?Sized + Sync + 'static> ObjectRef<I> {
    /// The reference that a number stands for.
    ///
    /// Any number is safe: the object is looked up, and its interface compared. (Whether whoever hands in the number may use the object
    /// is not looked at.)
    ///
    /// *Progress:* wait-free. *Cost:* a section, and a lookup.
    ///
    /// # Errors
    /// If there is no such object, or it has another interface.
    pub fn from_bits(bits: u64) -> Result<Self, StaleRef> {
        let id = Id::from_bits(bits).ok_or(StaleRef)?;
        let reference = Self::new(id);
        reference.find(&enter()).map(|_| reference)
    }

    /// The object's representative on this slot, for as long as the section lasts. If the slot has none, it is made or found, once.
    ///
    /// The object may be destroyed, or swapped, meanwhile: what is returned can be used all the same until the section ends. So do not keep it
    /// for long, and get it again where the newest implementation matters.
    ///
    /// *Progress:* wait-free if the slot has called the object before, and neither it nor its interposers have been exchanged since. Else blocking: waits for threads that make a
    /// representative of *this* object, and for a swap of it with [`SwapPolicy::Wait`](super::SwapPolicy::Wait). *Cost:* a look at the slot's
    /// own table, 1 to 2 ns; no shared line is written, or read that is ever written. Else some allocations.
    ///
    /// # Errors
    /// If the object has been destroyed.
    ///
    /// # Panics
    /// Where [`Root::create`] does. If it is called from there, or by the thread that swaps this object and holds its callers back.
    #[inline(always)]
    pub fn get(self, section: &ObjectSection) -> Result<&I, StaleRef> {
        match TABLES.find(cpu::current(), self.index(), self.generation()) {
            // SAFETY: bound by `miss` for an object with this index and generation, which has this interface: a reference is made with
            // the object, or compared with it. It was bound while the section was open, so what it leads to stays until that ends.
            Some(words) => Ok(unsafe { &*words.pointer::<I>() }),
            None => self.miss(section),
        }
    }

    #[cold]
    #[inline(never)]
    fn miss(self, section: &ObjectSection) -> Result<&I, StaleRef> {
        let object = self.find(section)?;
        let entrance = object.bind(&TABLES, self.name(), &Here(section))?;
        // SAFETY: it leads to what was the object's arrangement while the section was open, and stays until that ends.
        Ok(unsafe { &*entrance })
    }

    /// Calls the object: a section, [`get`](Self::get), and `f`.
    ///
    /// ```
    /// # use percolog::clustered::{self, Shared};
    /// # trait Double: Sync { fn double(&self, n: u64) -> u64; }
    /// # impl Double for () { fn double(&self, n: u64) -> u64 { 2 * n } }
    /// # let object = clustered::create(Shared::new((), |it| it as &dyn Double));
    /// assert_eq!(object.call(|it| it.double(4)), Ok(8));
    /// object.destroy()?;
    /// assert!(object.call(|it| it.double(4)).is_err());
    /// # Ok::<(), clustered::StaleRef>(())
    /// ```
    ///
    /// *Progress and cost:* as of `get`, and of a section.
    ///
    /// # Errors
    /// If the object has been destroyed.
    ///
    /// # Panics
    /// As `get`, and where `f` does.
    #[inline(always)]
    pub fn call<T>(self, f: impl FnOnce(&I) -> T) -> Result<T, StaleRef> {
        let section = enter();
        self.get(&section).map(f)
    }

    /// Destroys the object: calls in flight finish, the next one gets an error. The root and the representatives are dropped when every section
    /// has ended that is open now, in some later call that makes, destroys or [collects](super::collect) objects, on any thread.
    ///
    /// No lock says whether an object exists, so none is waited for: it can be destroyed from one of its own calls.
    ///
    /// *Progress:* blocking: for the object's own lock and that of the slot's list of indices, which are held for some instructions. *Cost:* one line of each slot that has
    /// called it.
    ///
    /// # Errors
    /// If it has been destroyed already: of several calls, one destroys it.
    pub fn destroy(self) -> Result<(), StaleRef> {
        if !self.find(&enter())?.destroy(&TABLES, self.name()) {
            return Err(StaleRef);
        }
        // Runs destructors, of what was destroyed before: so not in a section.
        OBJECTS.remove(self.id)?;
        Ok(())
    }

    /// Returns whether the object has not been destroyed.
    ///
    /// *Progress:* wait-free. *Cost:* a section, and a lookup.
    #[must_use]
    pub fn exists(self) -> bool {
        self.find(&enter()).is_ok()
    }

    /// On how many slots the object is bound: has been called since it was made or [swapped](Self::swap).
    ///
    /// *Progress:* blocking: for the object's own lock, which is held for some instructions. *Cost:* a section, a lookup, and the lock's line.
    ///
    /// # Errors
    /// If it has been destroyed.
    pub fn bound_slots(self) -> Result<usize, StaleRef> {
        Ok(self.find(&enter())?.bound())
    }

    /// The object, for as long as the section lasts.
    fn find(self, section: &ObjectSection) -> Result<&Object<I>, StaleRef> {
        let anchor = OBJECTS.get(&section.section, self.id)?;
        anchor.object.downcast_ref().ok_or(StaleRef)
    }

    /// The object itself, to be kept beyond a section.
    pub(super) fn object(self) -> Result<Arc<Object<I>>, StaleRef> {
        let section = enter();
        let anchor = OBJECTS.get(&section.section, self.id)?;
        anchor.object.clone().downcast().map_err(|_| StaleRef)
    }
}

impl<I: ?Sized> Clone for ObjectRef<I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: ?Sized> Copy for ObjectRef<I> {}

impl<I: ?Sized> PartialEq for ObjectRef<I> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<I: ?Sized> Eq for ObjectRef<I> {}

impl<I: ?Sized> Hash for ObjectRef<I> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl<I: ?Sized> fmt::Debug for ObjectRef<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ObjectRef({}, generation {})",
            self.index(),
            self.generation()
        )
    }
}

/// Drops what was destroyed or swapped out, by whichever thread, and no section can be using; says how many things these were. What
/// another thread is dropping at this moment is not waited for.
///
/// For moments at which there is time: otherwise it is done bit by bit when objects are made, destroyed and swapped. If the calling thread is in a
/// section itself, little will be dropped.
///
/// *Progress:* lock-free but for destructors of users, which it runs. *Cost:* a look at all threads, and the lines of what is dropped.
pub fn collect() -> usize {
    OBJECTS.collect() + waiting::collect()
}

/// What there is, and what waits.
///
/// *Progress:* blocking, for some instructions at a time. *Cost:* some lines of each slot.
#[must_use]
pub fn stats() -> ObjectStats {
    let objects = OBJECTS.stats();
    ObjectStats {
        objects: OBJECTS.len() as u64,
        waiting: objects.waiting as u64,
        replaced: waiting::count() as u64,
        memory: OBJECTS.memory_usage() + TABLES.memory(),
    }
}

/// Counts of objects and of memory, returned by [`stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectStats {
    /// Objects that have not been destroyed.
    pub objects: u64,
    /// Indices of objects that have been destroyed, and may still be in use.
    pub waiting: u64,
    /// Implementations and arrangements of interposers that have been replaced, and may still be in use.
    pub replaced: u64,
    /// Bytes of the tables, in the address space; a slot's table takes room in memory only where it has been used.
    pub memory: usize,
}
