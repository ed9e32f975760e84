//! What stands behind an interface at one time: an implementation, and the interposers in front of it.

use super::interpose::{Interposed, Interposer};
use super::representatives::{Incarnation, Representatives};
use super::root::Root;
use crate::cpu::CoreId;
use crate::sync::{Isolated, SlotLock};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

/// An implementation, whichever it is.
pub(super) trait Implementation<I: ?Sized>: Send + Sync {
    /// The representative for a slot, made if it is not there. It lives as long as the implementation.
    fn representative(&self, slot: CoreId, chip: usize) -> *const I;

    fn as_any(&self) -> &(dyn Any + Send + Sync);

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<R: Root> Implementation<R::Interface> for Incarnation<R> {
    fn representative(&self, slot: CoreId, chip: usize) -> *const R::Interface {
        Incarnation::representative(self, slot, chip)
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// What a [`Layer`] makes of an interposer: what callers see of it.
type AsInterface<I> = fn(&Interposed<I>) -> &I;

/// An interposer, and its number among those of an object.
pub(super) struct Layer<I: ?Sized> {
    pub(super) number: u64,
    pub(super) interposer: Arc<dyn Interposer>,
    pub(super) interface: AsInterface<I>,
}

impl<I: ?Sized> Clone for Layer<I> {
    fn clone(&self) -> Self {
        Self {
            number: self.number,
            interposer: self.interposer.clone(),
            interface: self.interface,
        }
    }
}

/// An interposer of a layer, in front of one representative.
struct ValueRep<I: ?Sized> {
    layer: u64,
    interposed: Box<Isolated<Interposed<I>>>,
}

/// See the [module](self). Never changed: a swap makes another one.
pub(super) struct Arrangement<I: ?Sized> {
    /// The bits of the object's reference.
    object: u64,
    pub(super) layers: Vec<Layer<I>>,
    /// One for each layer and what stands behind it, made as they are needed. Calls write nothing there: slots may have one in common.
    interposed: SlotLock<Vec<ValueRep<I>>>,
    /// Dropped last: the interposers lead to it.
    pub(super) implementation: Arc<dyn Implementation<I>>,
}

impl<I: ?Sized + Sync + 'static> Arrangement<I> {
    pub(super) fn new(
        object: u64,
        implementation: Arc<dyn Implementation<I>>,
        layers: Vec<Layer<I>>,
    ) -> Self {
        Self {
            object,
            layers,
            interposed: SlotLock::new(Vec::new()),
            implementation,
        }
    }

    /// Where calls on a slot go. It lives as long as the arrangement.
    pub(super) fn entrance(&self, slot: CoreId, chip: usize) -> *const I {
        let mut target = self.implementation.representative(slot, chip);
        for layer in &self.layers {
            // SAFETY: made for this arrangement, and dropped with it.
            target = core::ptr::from_ref((layer.interface)(unsafe {
                &*self.interposed(layer, target)
            }));
        }
        target
    }

    /// The layer's interposer in front of a target, made if it is not there. It lives as long as the arrangement.
    fn interposed(&self, layer: &Layer<I>, target: *const I) -> *const Interposed<I> {
        let mut lock = self.interposed.lock();
        let all = lock.get();
        let known = all
            .iter()
            .position(|made| made.layer == layer.number && made.interposed.is_in_front_of(target));
        let at = known.unwrap_or_else(|| {
            // SAFETY: the target belongs to this arrangement, as the interposer does, which is not used for longer.
            let made = unsafe { Interposed::new(target, layer.interposer.clone(), self.object) };
            all.push(ValueRep {
                layer: layer.number,
                interposed: Box::new(Isolated::new(made)),
            });
            all.len() - 1
        });
        // Only now that the box has its place: to move it there would be a use of it that ends others.
        core::ptr::from_ref(&**all[at].interposed)
    }
}

/// The current implementation of an object, given to the closures of [`swap`](super::ObjectRef::swap) and
/// [`inspect`](super::ObjectRef::inspect).
pub struct CurrentRoot<'a, I: ?Sized> {
    pub(super) implementation: &'a dyn Implementation<I>,
}

impl<I: ?Sized + 'static> CurrentRoot<'_, I> {
    /// The root, if this is the type that it has.
    #[must_use]
    pub fn root<R: Root<Interface = I>>(&self) -> Option<&R> {
        self.incarnation().map(|it| &it.root)
    }

    /// The representatives, if this is the type of their root; none is made until this is dropped.
    ///
    /// *Progress:* blocking: see [`Representatives`].
    ///
    /// # Panics
    /// If this thread has them already.
    #[must_use]
    pub fn representatives<R: Root<Interface = I>>(&self) -> Option<Representatives<'_, R::Rep>> {
        self.incarnation::<R>().map(|it| it.registry.all())
    }

    fn incarnation<R: Root<Interface = I>>(&self) -> Option<&Incarnation<R>> {
        self.implementation.as_any().downcast_ref()
    }
}

impl<I: ?Sized> fmt::Debug for CurrentRoot<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentRoot").finish_non_exhaustive()
    }
}
