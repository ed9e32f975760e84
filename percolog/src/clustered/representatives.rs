//! The representatives of one implementation: made one at a time, and looked at while none is made.
//!
//! *Invariant:* a representative is in the list exactly from when it was made on, and stays where it is until the list is
//! dropped. One lock makes and looks: so one that is made during a look is made after it.

use super::root::{Place, Root};
use crate::cpu::CoreId;
use crate::cpu::undivided::Step;
use crate::sync::{Isolated, ObjectLock, Patience, UnsafeCell, despite_panics, held};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;

/// What a representative lies in: lines of its own.
type Own<P> = Isolated<P>;

/// A representative, and its number.
type Member<P> = (usize, Box<Own<P>>);

/// The representatives of one implementation, in the order of their numbers.
pub(super) struct Registry<P> {
    lock: ObjectLock,
    members: UnsafeCell<Vec<Member<P>>>,
}

// SAFETY: the list is used under the lock only, and hands out `&P` to any thread (`P: Sync`), made and dropped on any (`P: Send`).
unsafe impl<P: Send + Sync> Sync for Registry<P> {}

impl<P: Send + Sync> Registry<P> {
    pub(super) fn new() -> Self {
        Self {
            lock: ObjectLock::new(),
            members: UnsafeCell::new(Vec::new()),
        }
    }

    /// All representatives, while no other is made.
    ///
    /// # Panics
    /// If this thread has the guard already, or makes one of them.
    pub(super) fn all(&self) -> Representatives<'_, P> {
        // Begun before the lock is taken: a `fork` waits for who has it, and that one for nobody who waits for the `fork`.
        let step = Step::begin();
        let address = core::ptr::from_ref(self).addr();
        if !self.lock.try_exclusive() {
            assert!(
                !held::contains(address),
                "the representatives of an object were asked for by a thread that looks at them already, or makes one of them"
            );
            self.lock.exclusive(Patience::Unlimited);
        }
        held::push(address);
        Representatives {
            registry: self,
            _step: step,
        }
    }

    /// The representative with this number, made if it is not there.
    pub(super) fn get_or_make(&self, number: usize, make: impl FnOnce() -> P) -> *const P {
        let all = self.all();
        let at = match all.position(number) {
            Ok(at) => at,
            Err(at) => {
                let made = Box::new(Own::new(make()));
                // SAFETY: `all` has the lock, and no reference to the list: those to members are to what their boxes hold.
                self.members
                    .with_mut(|members| unsafe { (*members).insert(at, (number, made)) });
                at
            }
        };
        all.at(at).map_or(core::ptr::null(), |(_, it)| it)
    }
}

impl<P> Drop for Registry<P> {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more.
        let members = self
            .members
            .with_mut(|members| unsafe { core::mem::take(&mut *members) });
        despite_panics(members, drop);
    }
}

/// The existing representatives of an implementation, while no other is made.
///
/// Whoever needs one that has not been made waits until this is dropped; calls on the others go on. So what is gathered from them has, of a
/// representative that comes into being meanwhile, all or nothing.
///
/// It stays with its thread, and a `fork` of another thread waits until it is dropped.
///
/// *Progress:* blocking, against others who look and while one is made. *Cost:* a transfer for the list, and what is looked at.
#[must_use = "no representative is made until this is dropped"]
pub struct Representatives<'a, P> {
    registry: &'a Registry<P>,
    /// Ends when the lock has been let go: fields are dropped after `drop`.
    _step: Step,
}

impl<P> Representatives<'_, P> {
    fn members<R>(&self, f: impl FnOnce(&Vec<Member<P>>) -> R) -> R {
        // SAFETY: this has the lock, and the list is changed only by `get_or_make`, not during `f`.
        self.registry.members.with(|it| f(unsafe { &*it }))
    }

    fn position(&self, number: usize) -> Result<usize, usize> {
        self.members(|members| members.binary_search_by_key(&number, |(it, _)| *it))
    }

    fn at(&self, at: usize) -> Option<(usize, &P)> {
        let found = self.members(|members| {
            members
                .get(at)
                .map(|(number, it)| (*number, core::ptr::from_ref(&***it)))
        });
        // SAFETY: members stay where they are while the registry lives, which `self` borrows.
        found.map(|(number, it)| (number, unsafe { &*it }))
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members(Vec::len)
    }

    /// Returns whether none has been made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The one with this number.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&P> {
        let at = self.position(number).ok()?;
        self.at(at).map(|(_, it)| it)
    }

    /// All of them with their numbers, which are the order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &P)> {
        (0..self.len()).filter_map(|at| self.at(at))
    }
}

impl<P> Drop for Representatives<'_, P> {
    fn drop(&mut self) {
        held::pop(core::ptr::from_ref(self.registry).addr());
        self.registry.lock.release_exclusive();
    }
}

impl<P> fmt::Debug for Representatives<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Representatives")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Access of a representative to all others of its implementation.
///
/// ```
/// use percolog::clustered::{self, Place, Root, Siblings};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// trait Count: Sync {
///     fn add(&self, n: u64);
///     fn sum(&self) -> u64;
/// }
///
/// struct Share { count: AtomicU64, siblings: Siblings<Share> }
///
/// impl Count for Share {
///     fn add(&self, n: u64) { self.count.fetch_add(n, Ordering::Relaxed); }
///     fn sum(&self) -> u64 {
///         self.siblings.visit(|all| all.iter().map(|(_, it)| it.count.load(Ordering::Relaxed)).sum())
///             .unwrap_or(0)
///     }
/// }
///
/// struct Counters;
/// impl Root for Counters {
///     type Interface = dyn Count;
///     type Rep = Share;
///     fn create(&self, place: &Place<'_, Share>) -> Share {
///         Share { count: AtomicU64::new(0), siblings: place.siblings() }
///     }
///     fn interface(rep: &Share) -> &Self::Interface { rep }
/// }
///
/// let count = clustered::create(Counters);
/// count.call(|it| it.add(3))?;
/// assert_eq!(count.call(|it| it.sum())?, 3);
/// count.destroy()?;
/// # Ok::<(), clustered::StaleRef>(())
/// ```
pub struct Siblings<P> {
    registry: Weak<Registry<P>>,
}

impl<P: Send + Sync> Siblings<P> {
    pub(super) fn new(registry: &Arc<Registry<P>>) -> Self {
        Self {
            registry: Arc::downgrade(registry),
        }
    }

    /// Runs `f` on all representatives of the implementation, while no other is made: for scatter and gather. `None` if the
    /// implementation has been destroyed, which no call in flight has to expect.
    ///
    /// Only one such visit is made at a time, so what one scatters another one gathers entirely or not at all.
    ///
    /// *Progress:* blocking: see [`Representatives`].
    ///
    /// # Panics
    /// Where `f` does. And if it is called from inside `f`, or from [`Root::create`]: it would wait for itself.
    pub fn visit<R>(&self, f: impl FnOnce(&Representatives<'_, P>) -> R) -> Option<R> {
        let registry = self.registry.upgrade()?;
        Some(f(&registry.all()))
    }
}

impl<P> Clone for Siblings<P> {
    fn clone(&self) -> Self {
        Self {
            registry: self.registry.clone(),
        }
    }
}

impl<P> fmt::Debug for Siblings<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Siblings").finish_non_exhaustive()
    }
}

/// A root with what it has made.
pub(super) struct Incarnation<R: Root> {
    pub(super) root: R,
    pub(super) registry: Arc<Registry<R::Rep>>,
}

impl<R: Root> Incarnation<R> {
    pub(super) fn new(root: R) -> Self {
        Self {
            root,
            registry: Arc::new(Registry::new()),
        }
    }

    /// The representative for a slot, made if it is not there.
    pub(super) fn representative(&self, slot: CoreId, chip: usize) -> *const R::Interface {
        let number = self.root.placement().number(slot, chip);
        let place = Place::new(slot, number, &self.registry);
        let rep = self
            .registry
            .get_or_make(number, || self.root.create(&place));
        // SAFETY: `get_or_make` returns a member, which lives as long as the registry does; and that as long as `self`.
        core::ptr::from_ref(R::interface(unsafe { &*rep }))
    }
}
