//! Putting another implementation, or an interposer, in the place of what is there.

use super::arrangement::{Arrangement, CurrentRoot, Layer};
use super::interpose::{Interposable, Interposer};
use super::object::{Name, Object, StaleRef, with_layer, without_layer};
use super::reference::{ObjectRef, TABLES};
use super::representatives::Incarnation;
use super::root::Root;
use super::turn::{Taken, Turn};
use super::waiting::{self, DOMAIN};
use crate::sync::global::{AtomicU64, Ordering};
use crate::sync::{Backoff, held};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// The treatment of calls while an implementation is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SwapPolicy {
    /// They go on, to the old implementation. What they change there after the new one has looked at it is lost, unless both have it in common (an
    /// `Arc`), or the old one hands it on when it is dropped.
    ///
    /// The swap waits for nobody.
    Pass,
    /// They wait, until the new implementation is there; and it is made when all calls in flight have finished. So it sees all that was ever
    /// done to the old one.
    ///
    /// What a section calls that was open when the swap began is in flight, too, and goes on to the old implementation: the swap waits for
    /// all sections that are open, whatever they call. So no thread may call the object, if it may be swapped like this, while it has a lock that
    /// is taken in sections, or while it makes or visits representatives of another object: the section waits for the lock, the swap for the
    /// section, and the thread for the swap. Nor while it has an element of a [`DHash`](crate::dhash::DHash) or anything else that a `fork` waits for, in a
    /// program that forks: the swap waits for the `fork`. One swap of the process holds calls back at a time, others of this kind wait for it.
    Wait,
}

/// An error of [`ObjectRef::swap`](super::ObjectRef::swap) and of changes to interposers: nothing was exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The object has been destroyed, perhaps meanwhile. A new implementation that was made is dropped.
    Stale,
    /// The calling thread is in a section, and [`SwapPolicy::Wait`] would wait for that. (Without the `std` feature threads are not told apart: it waits.)
    InSection,
    /// The calling thread is in the middle of exchanging something.
    Nested,
    /// Another thread exchanges something of the object, and this one is in a section, for which that may be waiting.
    Busy,
    /// No such interposer stands in front of the object.
    NoSuchInterposer,
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "the object has been destroyed",
            Self::InSection => {
                "a thread in a section waits for calls to finish, and so for itself; leave the section first"
            }
            Self::Nested => "the thread is in the middle of a swap already; make this one after it",
            Self::Busy => {
                "another thread exchanges something of the object; leave the section to wait for it"
            }
            Self::NoSuchInterposer => "no such interposer stands in front of the object",
        })
    }
}

impl core::error::Error for ExchangeError {}

impl From<StaleRef> for ExchangeError {
    fn from(_: StaleRef) -> Self {
        Self::Stale
    }
}

/// The identity of an interposer, for [`ObjectRef::remove_interposer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterposerId(u64);

/// The last number given to an interposer.
static INTERPOSERS: AtomicU64 = AtomicU64::new(0);

/// Held by the one swap that holds calls back.
static HOLDING_BACK: Turn = Turn::new();

/// What is recorded of a thread that exchanges anything.
fn exchanging() -> usize {
    core::ptr::from_ref(&HOLDING_BACK).addr()
}

/// The right to exchange what stands behind one object.
struct Exchange<'a> {
    recorded: [usize; 2],
    _one_of_the_object: Taken<'a>,
    _one_that_holds_back: Option<Taken<'static>>,
}

impl<'a> Exchange<'a> {
    fn begin<I: ?Sized + Sync + 'static>(
        object: &'a Object<I>,
        policy: SwapPolicy,
    ) -> Result<Self, ExchangeError> {
        if held::contains(exchanging()) {
            return Err(ExchangeError::Nested);
        }
        // In this order, everywhere.
        let holding = (policy == SwapPolicy::Wait).then(|| HOLDING_BACK.take());
        let one = if DOMAIN.caller_is_inside() {
            object.exchange.take_briefly().ok_or(ExchangeError::Busy)?
        } else {
            object.exchange.take()
        };
        let recorded = [exchanging(), object.address()];
        recorded.into_iter().for_each(held::push);
        Ok(Self {
            recorded,
            _one_of_the_object: one,
            _one_that_holds_back: holding,
        })
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.recorded.into_iter().for_each(held::pop);
    }
}

/// Calls are held back; they go on as they were when this is dropped, unless something new has been put in.
struct HeldBack<'a, I: ?Sized + Sync + 'static>(&'a Object<I>);

impl<I: ?Sized + Sync + 'static> Drop for HeldBack<'_, I> {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// Waits until nobody uses what stands behind an object any more, whose calls are held back.
fn wait_for_calls_in_flight<I: ?Sized + Sync + 'static>(object: &Object<I>) {
    let mut backoff = Backoff::new();
    let open = loop {
        match DOMAIN.open_sections() {
            Some(open) => break open,
            // The kernel has no memory for the moment.
            None => backoff.wait(),
        }
    };
    object.let_pass(open);
    while let Some(section) = object.in_flight(|section| DOMAIN.has_ended(section)) {
        let mut backoff = Backoff::new();
        while !DOMAIN.has_ended(section) {
            backoff.wait();
        }
    }
}

impl<I: ?Sized + Sync + 'static> ObjectRef<I> {
    /// Replaces the implementation, under load. `make` makes the new root, and may take over what the old implementation has; what calls do
    /// meanwhile, the policy says. Calls in flight finish on the old implementation; interposers stay.
    ///
    /// The old implementation is dropped when every section has ended that is open now: in a later call that swaps, or changes
    /// interposers, of any object and on any thread, some hundreds of these later at most (16 for each thread, if that is more; a thousand where
    /// looking at all threads takes a `membarrier`); or by [`collect`](super::collect). Destructors that panic are contained.
    ///
    /// No call is lost, none is made twice, and none fails because of a swap. References stay as they are.
    ///
    /// ```
    /// use percolog::clustered::{self, Distributed, Placement, SwapPolicy, Shared};
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// trait Count: Sync { fn add(&self, n: u64) -> u64; }
    /// impl Count for AtomicU64 {
    ///     fn add(&self, n: u64) -> u64 { self.fetch_add(n, Ordering::Relaxed) + n }
    /// }
    ///
    /// let count = clustered::create(Shared::new(AtomicU64::new(0), |it| it as &dyn Count));
    /// count.call(|it| it.add(2))?;
    /// count.swap(SwapPolicy::Wait, |old| {
    ///     // Nobody calls it any more: this is all that was ever counted.
    ///     let counted = old.root::<Shared<AtomicU64, dyn Count>>().map_or(0, |it| it.value().load(Ordering::Relaxed));
    ///     Shared::new(AtomicU64::new(counted), |it| it as &dyn Count)
    /// })?;
    /// assert_eq!(count.call(|it| it.add(1))?, 3);
    /// count.destroy()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// *Progress:* blocking: for other exchanges of the object, and as the [`SwapPolicy`] says. *Cost:* one line of each slot on
    /// which the object has been called since the last one; with [`SwapPolicy::Wait`] a look at all threads.
    ///
    /// # Errors
    /// If the object has been destroyed, or the thread would have to wait and must not: nothing was changed.
    ///
    /// # Panics
    /// Where `make` does: nothing was changed. With [`SwapPolicy::Wait`], if `make` calls the object itself: its calls are held back.
    /// (Without the `std` feature it waits for itself.)
    pub fn swap<R: Root<Interface = I>>(
        self,
        policy: SwapPolicy,
        make: impl FnOnce(&CurrentRoot<'_, I>) -> R,
    ) -> Result<(), ExchangeError> {
        if policy == SwapPolicy::Wait && DOMAIN.caller_is_inside() {
            return Err(ExchangeError::InSection);
        }
        let object = self.object()?;
        let exchange = Exchange::begin(&object, policy)?;
        let present = object.present()?;
        let held_back = match policy {
            SwapPolicy::Pass => None,
            SwapPolicy::Wait => {
                object.hold_back(&TABLES, self.name())?;
                let held_back = HeldBack(&object);
                wait_for_calls_in_flight(&object);
                Some(held_back)
            }
        };
        let root = make(&CurrentRoot {
            implementation: &*present.implementation,
        });
        let new = Arrangement::new(
            self.to_bits(),
            Arc::new(Incarnation::new(root)),
            present.layers.clone(),
        );
        let replaced = self.put_in(&object, new);
        drop(held_back);
        drop(exchange);
        // Not the last reference, which waits with the others.
        drop(present);
        waiting::retire(replaced?);
        Ok(())
    }

    /// Puts an interposer in front of the object, and of all interposers that stand there. From now on it is told about each call before that is
    /// made; calls in flight pass it by. It stays there, also when the implementation is swapped, until it is
    /// [removed](Self::remove_interposer), or the object destroyed.
    ///
    /// For an example see [`interposable!`](crate::interposable), which makes this possible for an interface.
    ///
    /// *Progress:* blocking: for other exchanges of the object. *Cost:* as of a [`swap`](Self::swap); then in each call what the interposer does, and a
    /// virtual call more. Each slot has its own way there: an interposer that writes nothing shared costs no transfer.
    ///
    /// # Errors
    /// If the object has been destroyed, or the thread would have to wait and must not.
    pub fn interpose(self, interposer: Arc<dyn Interposer>) -> Result<InterposerId, ExchangeError>
    where
        I: Interposable,
    {
        // Relaxed: any order will do.
        let number = INTERPOSERS.fetch_add(1, Ordering::Relaxed) + 1;
        self.rearrange(|layers| {
            Ok(with_layer(
                layers,
                Layer {
                    number,
                    interposer,
                    interface: I::interface,
                },
            ))
        })?;
        Ok(InterposerId(number))
    }

    /// Takes an interposer away. Calls in flight that it was told about it is also told the end of.
    ///
    /// *Progress and cost:* as of [`interpose`](Self::interpose).
    ///
    /// # Errors
    /// If it does not stand there, the object has been destroyed, or the thread would have to wait and must not.
    pub fn remove_interposer(self, interposer: InterposerId) -> Result<(), ExchangeError> {
        self.rearrange(|layers| {
            without_layer(layers, interposer.0).ok_or(ExchangeError::NoSuchInterposer)
        })
    }

    /// Runs `f` on the implementation as it is, while it is not exchanged.
    ///
    /// For who keeps an object, and knows how it is made: counts its representatives, say. Callers use the interface.
    ///
    /// *Progress:* blocking: for exchanges of the object.
    ///
    /// # Errors
    /// If the object has been destroyed, or the thread would have to wait and must not.
    pub fn inspect<T>(self, f: impl FnOnce(&CurrentRoot<'_, I>) -> T) -> Result<T, ExchangeError> {
        let object = self.object()?;
        let _exchange = Exchange::begin(&object, SwapPolicy::Pass)?;
        let present = object.present()?;
        Ok(f(&CurrentRoot {
            implementation: &*present.implementation,
        }))
    }

    fn rearrange(
        self,
        change: impl FnOnce(&[Layer<I>]) -> Result<Vec<Layer<I>>, ExchangeError>,
    ) -> Result<(), ExchangeError> {
        let object = self.object()?;
        let exchange = Exchange::begin(&object, SwapPolicy::Pass)?;
        let present = object.present()?;
        let layers = change(&present.layers)?;
        let implementation = present.implementation.clone();
        let new = Arrangement::new(self.to_bits(), implementation, layers);
        let replaced = self.put_in(&object, new)?;
        drop(exchange);
        // As in `swap`.
        drop(present);
        waiting::retire(replaced);
        Ok(())
    }

    /// Returns the old one: no entry leads to it, nor does the object, so no section that begins from now on finds it.
    fn put_in(
        self,
        object: &Object<I>,
        new: Arrangement<I>,
    ) -> Result<Arc<Arrangement<I>>, ExchangeError> {
        object
            .exchange(&TABLES, self.name(), Arc::new(new))
            .map_err(|_| ExchangeError::Stale)
    }
}

impl<I: ?Sized> ObjectRef<I> {
    pub(super) fn name(self) -> Name {
        Name {
            index: self.index(),
            generation: self.generation(),
        }
    }
}
