//! Objects in front of other objects: they see each call, and can refuse it.

use core::fmt;

use alloc::sync::Arc;

/// An observer of the calls of an object, which may refuse them.
///
/// See [`ObjectRef::interpose`](super::ObjectRef::interpose).
///
/// One interposer is told by all slots at once: what it counts it should count with a [`Counter`](crate::counter::Counter) or the like.
/// A closure that takes a [`Call`] and returns a `Result` is one that has nothing to do after a call.
pub trait Interposer: Send + Sync + 'static {
    /// Before a call. Several interposers are asked in the order opposite to that in which they came.
    ///
    /// # Errors
    /// If the call is not to be made. Then it is answered as [`interposable!`](crate::interposable) says.
    fn before(&self, call: &Call) -> Result<(), CallRejected>;

    /// After a call that was made, also if it panicked.
    fn after(&self, call: &Call) {
        let _ = call;
    }
}

impl<F> Interposer for F
where
    F: Fn(&Call) -> Result<(), CallRejected> + Send + Sync + 'static,
{
    fn before(&self, call: &Call) -> Result<(), CallRejected> {
        self(call)
    }
}

/// A call, as interposers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    method: &'static str,
    object: u64,
}

impl Call {
    /// The name of the method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// The [bits](super::ObjectRef::to_bits) of the reference to the object that is called.
    #[must_use]
    pub fn object(&self) -> u64 {
        self.object
    }

    /// For [`Interposer::before`]: this call is not to be made.
    ///
    /// # Errors
    /// Always.
    pub fn reject(&self, reason: &'static str) -> Result<(), CallRejected> {
        Err(CallRejected {
            method: self.method,
            reason,
        })
    }
}

/// The error of a call that an interposer refused: it was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallRejected {
    /// The method that was called.
    pub method: &'static str,
    /// What the interposer says.
    pub reason: &'static str,
}

impl fmt::Display for CallRejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the call of {} was refused: {}",
            self.method, self.reason
        )
    }
}

impl core::error::Error for CallRejected {}

/// The return type of an interposable method: says what a refused call returns.
///
/// Methods that return anything else say themselves what that is: see [`interposable!`](crate::interposable).
pub trait Answer {
    /// The answer to a refused call.
    fn rejected(rejected: CallRejected) -> Self;
}

/// The call has no effect.
impl Answer for () {
    fn rejected(_: CallRejected) -> Self {}
}

impl<T> Answer for Option<T> {
    fn rejected(_: CallRejected) -> Self {
        None
    }
}

impl<T, E: From<CallRejected>> Answer for Result<T, E> {
    fn rejected(rejected: CallRejected) -> Self {
        Err(rejected.into())
    }
}

/// An interface that interposers can be put in front of.
///
/// Implemented by [`interposable!`](crate::interposable).
pub trait Interposable: Sync + 'static {
    /// The interposer as its callers see it.
    fn interface(interposed: &Interposed<Self>) -> &Self;
}

/// An interposer in front of a representative.
///
/// It implements the interface, by [`interposable!`](crate::interposable).
pub struct Interposed<I: ?Sized> {
    target: Target<I>,
    interposer: Arc<dyn Interposer>,
    object: u64,
}

/// A representative, or another interposer in front of it.
struct Target<I: ?Sized>(*const I);

// SAFETY: it stands for a shared reference, and `I: Sync`.
unsafe impl<I: ?Sized + Sync> Send for Target<I> {}
// SAFETY: as above.
unsafe impl<I: ?Sized + Sync> Sync for Target<I> {}

impl<I: ?Sized> Interposed<I> {
    /// # Safety
    /// The target lives at least as long as this can be used.
    pub(super) unsafe fn new(
        target: *const I,
        interposer: Arc<dyn Interposer>,
        object: u64,
    ) -> Self {
        Self {
            target: Target(target),
            interposer,
            object,
        }
    }

    /// Whether this is what it stands in front of.
    pub(super) fn is_in_front_of(&self, target: *const I) -> bool {
        core::ptr::addr_eq(self.target.0, target)
    }

    /// Asks the interposer. What is returned leads to what it stands in front of, and tells it when it is dropped that the call is over.
    ///
    /// # Errors
    /// If the call is refused.
    #[inline]
    pub fn enter(&self, method: &'static str) -> Result<PassedCall<'_, I>, CallRejected> {
        let call = Call {
            method,
            object: self.object,
        };
        self.interposer.before(&call)?;
        Ok(PassedCall {
            interposed: self,
            call,
        })
    }
}

impl<I: ?Sized> fmt::Debug for Interposed<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interposed").finish_non_exhaustive()
    }
}

/// A call that an interposer has let pass.
#[must_use = "the call is over when this is dropped"]
pub struct PassedCall<'a, I: ?Sized> {
    interposed: &'a Interposed<I>,
    call: Call,
}

impl<I: ?Sized> PassedCall<'_, I> {
    /// What the call goes to.
    #[must_use]
    pub fn target(&self) -> &I {
        // SAFETY: lives as long as the interposer can be used, by the contract of `Interposed::new`.
        unsafe { &*self.interposed.target.0 }
    }
}

impl<I: ?Sized> Drop for PassedCall<'_, I> {
    fn drop(&mut self) {
        self.interposed.interposer.after(&self.call);
    }
}

impl<I: ?Sized> fmt::Debug for PassedCall<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassedCall")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

/// Declares an interface that interposers can be put in front of: a trait, and the forwarding of all its methods.
///
/// Each method takes `&self` and arguments that are names, and ends with a semicolon, also behind a default body. (Parameters of
/// types have no place in an interface, which is called through `dyn`; lifetimes of a method's own are left to be inferred. Supertraits are
/// paths.) What a refused call returns comes from [`Answer`], or stands behind an arrow.
///
/// ```
/// use percolog::clustered::{self, Call, CallRejected, Shared};
/// use std::sync::{Arc, Mutex, atomic::{AtomicU64, Ordering}};
///
/// percolog::interposable! {
///     /// A set of keys.
///     trait Store: Sync {
///         fn put(&self, key: u64) -> Result<(), CallRejected>;
///         /// How many keys there are.
///         fn len(&self) -> usize => 0;
///         fn is_empty(&self) -> bool { self.len() == 0 } => true;
///     }
/// }
///
/// impl Store for Mutex<Vec<u64>> {
///     fn put(&self, key: u64) -> Result<(), CallRejected> { self.lock().unwrap().push(key); Ok(()) }
///     fn len(&self) -> usize { self.lock().unwrap().len() }
/// }
///
/// let store = clustered::create(Shared::new(Mutex::new(vec![]), |it| it as &dyn Store));
/// let read_only = store.interpose(Arc::new(|call: &Call| match call.method() {
///     "put" => call.reject("it is read-only now"),
///     _ => Ok(()),
/// }))?;
/// assert!(store.call(|store| store.put(1))?.is_err());
/// assert_eq!(store.call(|store| store.len())?, 0);
/// store.remove_interposer(read_only)?;
/// assert!(store.call(|store| store.put(1))?.is_ok());
/// store.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Traits that are declared elsewhere
///
/// `interposable! { impl Store { … } }` writes the forwarding for a trait that exists. **Repeat every method of it, also those that have a
/// default**, with their attributes or without. A default that is left out runs on the interposer: an implementation that overrides it is
/// not asked, so an interposer that lets all calls pass changes the answer. No compiler notices; Clippy's lint `missing_trait_methods` does.
///
/// [`Answer`]: crate::clustered::Answer
#[macro_export]
macro_rules! interposable {
    (
        $(#[$of_trait:meta])*
        $visibility:vis trait $interface:ident : $($bound:ident)::+ $(+ $($more:ident)::+)* {
            $(
                $(#[$attribute:meta])*
                fn $method:ident(&$self:ident $(, $argument:ident : $type:ty)* $(,)?)
                $(-> $answer:ty)? $($default:block)? $(=> $refused:expr)?;
            )*
        }
    ) => {
        $(#[$of_trait])*
        $visibility trait $interface: $($bound)::+ $(+ $($more)::+)* {
            $(
                $crate::__declared! {
                    [$(#[$attribute])* fn $method(&$self $(, $argument: $type)*) $(-> $answer)?]
                    $($default)?
                }
            )*
        }

        $crate::interposable! {
            impl $interface {
                $(fn $method(&$self $(, $argument: $type)*) $(-> $answer)? $(=> $refused)?;)*
            }
        }
    };
    (impl $interface:path {
        $(
            $(#[$attribute:meta])*
            fn $method:ident(&self $(, $argument:ident : $type:ty)* $(,)?)
            $(-> $answer:ty)? $(=> $refused:expr)?;
        )*
    }) => {
        impl $interface for $crate::clustered::Interposed<dyn $interface> {
            $(
                // What is said of the trait's method, `#[must_use]` for one, says nothing here.
                #[allow(unused_attributes)]
                $(#[$attribute])*
                fn $method(&self $(, $argument: $type)*) $(-> $answer)? {
                    match self.enter(::core::stringify!($method)) {
                        ::core::result::Result::Ok(passage) => {
                            passage.target().$method($($argument),*)
                        }
                        ::core::result::Result::Err(rejected) => {
                            $crate::__refused!(rejected $(, $refused)?)
                        }
                    }
                }
            )*
        }

        impl $crate::clustered::Interposable for dyn $interface {
            fn interface(interposed: &$crate::clustered::Interposed<Self>) -> &Self {
                interposed
            }
        }
    };
}

/// A method of a trait. Part of [`interposable!`](crate::interposable).
#[doc(hidden)]
#[macro_export]
macro_rules! __declared {
    ([$($signature:tt)*]) => { $($signature)*; };
    ([$($signature:tt)*] $default:block) => { $($signature)* $default };
}

/// What a refused call returns. Part of [`interposable!`](crate::interposable).
#[doc(hidden)]
#[macro_export]
macro_rules! __refused {
    ($rejected:ident) => {
        $crate::clustered::Answer::rejected($rejected)
    };
    ($rejected:ident, $refused:expr) => {{
        let _ = $rejected;
        $refused
    }};
}
