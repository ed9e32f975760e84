//! Entering the calling thread's local table, and staying: [`Shards`] whose owners are inside from their first guard to their last.
//!
//! # Why nobody waits in a circle
//!
//! Who is inside a table waits for no table and for no visitor: another lookup by the same thread finds itself inside, and goes on. It waits
//! for locks of the master table only. Who has one of those waits for nothing of this table's. A visitor takes the gate, then waits for the
//! users of all local tables, and then takes locks of the master table, which nobody has by then. So each waits only for those further down in
//! this list: gate, local tables, master. (Two `DHash`es have no order: who waits for the one with a guard of the other in its hands must have
//! agreed with others on which comes first, as with all locks.)
//!
//! # Leases and guards
//!
//! A guard may outlive its thread's lease, in a thread-local value that is destroyed late. Such a lease is
//! [not given back](lease::expect_guards), and the thread stays in its table until the guard is gone.

use super::Reentered;
use super::local::{Left, Local};
use super::master::Master;
use crate::cpu::lease::{self, Who};
use crate::cpu::shards::{self, NoVisit, Shard, Shards};
use alloc::sync::Arc;
use core::marker::PhantomData;

/// Local tables, and the way from each to the master table.
pub(super) type Locals<K, S, L> = Shards<Local<K, S, L>, Arc<Master<K, S, L>>>;

/// One of them.
type Table<K, S, L> = Shard<Local<K, S, L>, Arc<Master<K, S, L>>>;

/// Use of a local table by its owner. The table is left with the last of these.
pub(super) struct Inside<'a, K, S, L> {
    shard: &'a Table<K, S, L>,
    /// The table is this thread's.
    stays: PhantomData<*const ()>,
}

impl From<shards::Reentered> for Reentered {
    fn from(shards::Reentered: shards::Reentered) -> Self {
        Self(())
    }
}

impl From<Reentered> for NoVisit {
    fn from(Reentered(()): Reentered) -> Self {
        Self::Reentered
    }
}

impl<'a, K, S, L> Inside<'a, K, S, L> {
    /// Enters the table of a lease; again, if the thread is inside.
    ///
    /// # Safety
    /// The caller holds the lease, and drops what is returned itself.
    #[inline(always)]
    pub(super) unsafe fn leased(
        locals: &'a Locals<K, S, L>,
        lease: usize,
        master: &Arc<Master<K, S, L>>,
    ) -> Result<Self, Reentered> {
        let shard = match locals.find(Who::Leased(lease)) {
            Some(shard) => shard,
            None => make_leased(locals, lease, master)?,
        };
        if shard.is_inside() {
            return Ok(Self::again(shard));
        }
        // SAFETY: the caller holds the lease, and is not inside: this has just been seen.
        unsafe { locals.own(shard) }?.keep();
        Ok(Self::first(shard, false))
    }

    /// Enters a common table, with this number unless the thread is inside another one: again, if it is, as far as that is
    /// [known](Shards::entered).
    #[cold]
    pub(super) fn common(
        locals: &'a Locals<K, S, L>,
        number: usize,
        master: &Arc<Master<K, S, L>>,
    ) -> Result<Self, Reentered> {
        // Also in the table of a lease that the thread had.
        if let Some(shard) = locals.entered() {
            return Ok(Self::again(shard));
        }
        let who = Who::Common(number);
        let shard = match locals.find(who) {
            Some(shard) => shard,
            None => locals.make(who, || (Local::new(), master.clone()))?,
        };
        locals.enter_common(shard)?.keep();
        Ok(Self::first(shard, true))
    }

    #[inline(always)]
    fn first(shard: &'a Table<K, S, L>, is_common: bool) -> Self {
        let inside = Self {
            shard,
            stays: PhantomData,
        };
        inside.local().enter(is_common);
        inside
    }

    fn again(shard: &'a Table<K, S, L>) -> Self {
        let inside = Self {
            shard,
            stays: PhantomData,
        };
        inside.local().enter_again();
        inside
    }

    #[inline(always)]
    pub(super) fn local(&self) -> &'a Local<K, S, L> {
        // SAFETY: the owner is inside until the last of these is dropped, and exclusive references are made by visitors only.
        unsafe { self.shard.owned() }
    }

    pub(super) fn master(&self) -> &'a Master<K, S, L> {
        self.shard.shared()
    }
}

impl<K, S, L> Drop for Inside<'_, K, S, L> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.local().leave() {
            Left::Again => {}
            // SAFETY: this was the last use of the table, which was entered in `leased`.
            Left::Leased => unsafe { self.shard.leave() },
            // SAFETY: the same, in `common`.
            Left::Common => unsafe { self.shard.leave_common() },
        }
    }
}

#[cold]
#[inline(never)]
fn make_leased<'a, K, S, L>(
    locals: &'a Locals<K, S, L>,
    lease: usize,
    master: &Arc<Master<K, S, L>>,
) -> Result<&'a Table<K, S, L>, Reentered> {
    let shard = locals.make(Who::Leased(lease), || (Local::new(), master.clone()))?;
    lease::expect_guards(lease);
    Ok(shard)
}
