//! The list of the reclaimers that stand beside each other.

use super::Reclaimer;
#[cfg(feature = "c-peers")]
use super::peers::{
    BrLock, CkEpochCall, CkEpochWait, McsLock, UrcuMbCall, UrcuMbWait, UrcuMembCall, UrcuMembWait,
};
use super::peers::{
    ClockAtExit, Coarse, Fenced, Forgetting, NotBorrowing, Percolog, ScansInOrder, Tsc, TscFenced,
};
use super::peers::{CrossbeamEpoch, Seize};

/// Something that can be done with each of them.
pub trait Visitor {
    /// What it gives.
    type Output;

    /// Does it with one.
    fn visit<R: Reclaimer>(self) -> Self::Output;
}

macro_rules! kinds {
    ($($text:literal $(where $condition:meta)? => $kind:ident($reclaimer:ty),)*) => {
        /// The reclaimers that stand beside each other.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ReclaimerKind {
            $(#[doc = $text] $(#[cfg($condition)])? $kind,)*
        }

        impl ReclaimerKind {
            /// All that this build has.
            pub const ALL: &[Self] = &[$($(#[cfg($condition)])? Self::$kind,)*];

            /// Those that are not ours.
            pub fn peers() -> impl Iterator<Item = Self> {
                Self::ALL.iter().copied().filter(|kind| !kind.is_ours())
            }

            /// Whether it is [`percolog::reclaim`], in some variant.
            #[must_use]
            pub fn is_ours(self) -> bool {
                self.name().starts_with("percolog")
            }

            /// How tables call it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg($condition)])? Self::$kind => <$reclaimer as Reclaimer>::NAME,)*
                }
            }

            /// Whether an update waits until the object is freed.
            #[must_use]
            pub fn waits(self) -> bool {
                match self {
                    $($(#[cfg($condition)])? Self::$kind => <$reclaimer as Reclaimer>::WAITS,)*
                }
            }

            /// Lets `visitor` do its work with it.
            pub fn accept<V: Visitor>(self, visitor: V) -> V::Output {
                match self {
                    $($(#[cfg($condition)])? Self::$kind => visitor.visit::<$reclaimer>(),)*
                }
            }
        }
    };
}

kinds! {
    "[`percolog::reclaim`] as it comes." => Percolog(Percolog<Coarse>),
    "The same with a fence in every section." => Fenced(Percolog<Fenced>),
    "With the time stamp counter." => Tsc(Percolog<Tsc>),
    "With both." => TscFenced(Percolog<TscFenced>),
    "Without the paper's first optimization; the clock is the time stamp counter." => ClockAtExit(Percolog<ClockAtExit>),
    "Without the second." => NotBorrowing(Percolog<NotBorrowing>),
    "Without the third." => Forgetting(Percolog<Forgetting>),
    "Without the fourth." => ScansInOrder(Percolog<ScansInOrder>),
    "`crossbeam-epoch` 0.9." => CrossbeamEpoch(CrossbeamEpoch),
    "`seize` 0.5." => Seize(Seize),
    "liburcu with `membarrier`, `call_rcu`." where feature = "c-peers" => UrcuMembCall(UrcuMembCall),
    "liburcu with `membarrier`, `synchronize_rcu`." where feature = "c-peers" => UrcuMembWait(UrcuMembWait),
    "liburcu with fences, `call_rcu`." where feature = "c-peers" => UrcuMbCall(UrcuMbCall),
    "liburcu with fences, `synchronize_rcu`." where feature = "c-peers" => UrcuMbWait(UrcuMbWait),
    "Concurrency Kit's epochs, `ck_epoch_call` and `ck_epoch_poll`." where feature = "c-peers" => CkEpochCall(CkEpochCall),
    "Concurrency Kit's epochs, `ck_epoch_synchronize`." where feature = "c-peers" => CkEpochWait(CkEpochWait),
    "Concurrency Kit's big-reader lock." where feature = "c-peers" => BrLock(BrLock),
    "Concurrency Kit's queue lock of Mellor-Crummey and Scott." where feature = "c-peers" => McsLock(McsLock),
}
