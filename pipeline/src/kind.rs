//! The trait that defines a data structure: configuration, operations and words.
//! [`Structure`](crate::Structure) provides the rest, and a macro the front of a newtype.

use core::sync::atomic::AtomicU64;

use probeline_transport::{Exchange, Transport};

use crate::collective::{Collective, CollectiveError, Parameter};
use crate::error::{ConfigError, Error};
use crate::machine::{Machine, Run};

/// A kind of data structure: its configuration, its operations, and its words in the windows.
///
/// An operation is an `Action` on a `Key`, which callers pass by reference.
pub trait Kind: Sized {
    /// The parameters.
    type Config: Copy;
    /// The state that all operations of a client share.
    type Context;
    /// The key of an operation.
    type Key: Copy + 'static;
    /// The action of an operation on its key.
    type Action: Copy + 'static;
    /// The state machine of an operation.
    type Machine: Run<Self::Context>;
    /// The counters of a client's operations.
    type Stats;

    /// The name of the structure, which its collective calls begin with.
    const NAME: &'static str;

    /// Returns what all owners must have in common.
    fn parameters(
        config: &Self::Config,
        context: &Self::Context,
    ) -> impl Iterator<Item = Parameter> + Clone;

    /// Creates the machine of an operation.
    ///
    /// # Errors
    /// [`Error`]: the structure cannot have such a key or value.
    fn machine(
        key: &Self::Key,
        action: Self::Action,
        context: &Self::Context,
    ) -> Result<Self::Machine, Error>;

    /// Starts a blocking operation. Returns its outcome if the CPU has run it, otherwise the machine to
    /// run. The default always returns the machine.
    ///
    /// # Errors
    /// As for [`machine`](Self::machine).
    #[inline(always)]
    fn start(
        key: &Self::Key,
        action: Self::Action,
        _transport: &impl Transport,
        context: &mut Self::Context,
    ) -> Result<Started<Self::Machine>, Error> {
        Self::machine(key, action, context).map(Started::Pending)
    }

    /// Returns whether [`start`](Self::start) may wait for a word that an operation in flight has claimed.
    fn may_wait(_context: &Self::Context) -> bool {
        false
    }

    /// Returns whether the configuration lets this owner's CPU run all operations and it reaches all
    /// words. CPUs run operations only if all owners return true.
    fn can_be_direct(
        _config: &Self::Config,
        _context: &Self::Context,
        _transport: &impl Transport,
    ) -> bool {
        false
    }

    /// Completes the opening after the owners have agreed on the parameters. `is_direct` tells whether
    /// the CPUs of all owners run all operations.
    ///
    /// # Errors
    /// [`CollectiveError`] of a step that the structure takes.
    fn on_opened(
        _context: &mut Self::Context,
        _is_direct: bool,
        _call: &mut Collective<'_, impl Exchange + ?Sized>,
    ) -> Result<(), CollectiveError> {
        Ok(())
    }

    /// Returns the counters.
    fn stats(context: &Self::Context) -> &Self::Stats;

    /// Sets all counters to 0.
    fn reset_stats(context: &mut Self::Context);

    /// Drops cached knowledge of the content; called before a collective call changes it.
    fn forget(_config: &Self::Config, _context: &mut Self::Context) {}

    /// Returns the number of elements in this owner's window, between two barriers.
    ///
    /// # Errors
    /// [`Error::Window`].
    fn count(
        config: &Self::Config,
        context: &Self::Context,
        window: &[AtomicU64],
    ) -> Result<u64, Error>;

    /// Empties the structure's part of this owner's window, between two barriers.
    ///
    /// # Errors
    /// [`Error::Window`].
    fn empty(
        config: &Self::Config,
        context: &Self::Context,
        window: &[AtomicU64],
    ) -> Result<(), Error>;
}

/// A kind that [`Structure::open`](crate::Structure::open) creates from a configuration alone.
pub trait Open: Kind {
    /// Checks the configuration against the limits of a transport, for this number of operations.
    /// The number itself is checked against the transport's slots.
    ///
    /// # Errors
    /// [`ConfigError`] names a parameter out of its range, or a slot, depth or window that is too small.
    fn check(
        _config: &Self::Config,
        _transport: &impl Transport,
        _operations: usize,
    ) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Creates the context of a valid configuration.
    fn context(config: &Self::Config, transport: &impl Transport) -> Self::Context;
}

/// A blocking operation that was started.
#[derive(Clone, Copy, Debug)]
pub enum Started<M: Machine> {
    /// It is done, with this outcome.
    Done(M::Outcome),
    /// The pipeline runs this machine.
    Pending(M),
}

/// Returns `count` words of a window from `first` on.
///
/// # Errors
/// [`Error::Window`] if the window does not have them: a defect of the transport.
pub fn words(window: &[AtomicU64], first: u64, count: u64) -> Result<&[AtomicU64], Error> {
    let (first, count) = (usize::try_from(first).ok(), usize::try_from(count).ok());
    let words = first.zip(count).and_then(|(first, count)| window.get(first..)?.get(..count));
    words.ok_or(Error::Window)
}

/// Declares counters of operations, a `u64` each, with their sum.
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// Returns the sums of two sets of counters.
            #[inline]
            #[must_use]
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($field: self.$field + other.$field,)* }
            }

            /// Returns what was counted after an earlier state of the same counters.
            #[inline]
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }
        }
    };
}

/// Lets a newtype of a [`Structure`](crate::Structure) of this kind, or a tuple that begins with one, be opened and
/// used as one. In brackets are its parameters beside the engine and the storage, with their bounds. With `ref` it
/// lends the structure for reading only, and its further field begins as given; with `deref` it is only lent.
#[doc(hidden)]
#[macro_export]
macro_rules! front {
    ([$($bound:tt)*] $name:ident<$($type:ident),*>, $kind:ty) => {
        $crate::front!(deref [$($bound)*] $name<$($type),*>, $kind);
        $crate::front!(open [$($bound)*] $name<$($type),*>, $kind,);
    };
    (ref [$($bound:tt)*] $name:ident<$($type:ident),*>, $kind:ty, $state:expr) => {
        $crate::front!(read [$($bound)*] $name<$($type),*>, $kind);
        $crate::front!(open [$($bound)*] $name<$($type),*>, $kind, $state);
    };
    (deref [$($bound:tt)*] $name:ident<$($type:ident),*>, $kind:ty) => {
        $crate::front!(read [$($bound)*] $name<$($type),*>, $kind);

        impl<T, S, $($bound)*> core::ops::DerefMut for $name<T, S, $($type),*> {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    };
    (read [$($bound:tt)*] $name:ident<$($type:ident),*>, $kind:ty) => {
        impl<T, S, $($bound)*> core::ops::Deref for $name<T, S, $($type),*> {
            type Target = $crate::Structure<T, S, $kind>;

            #[inline(always)]
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
    };
    (open [$($bound:tt)*] $name:ident<$($type:ident),*>, $kind:ty, $($state:expr)?) => {
        impl<T, S, $($bound)*> $name<T, S, $($type),*>
        where
            T: probeline_transport::Transport,
            S: AsMut<[$crate::OperationOf<$kind>]>,
        {
            /// Opens the structure together with all other owners and checks that their parameters are
            /// equal. An owner that cannot open it does not block the others: they report
            /// [`CollectiveError::NotOpened`](crate::CollectiveError::NotOpened).
            ///
            /// # Errors
            /// [`CollectiveError`](crate::CollectiveError): an invalid configuration, a failed exchange, or an owner
            /// without the structure or with other parameters.
            pub fn open(
                transport: T,
                config: <$kind as $crate::Kind>::Config,
                operations: S,
                exchange: &mut (impl probeline_transport::Exchange + ?Sized),
            ) -> Result<Self, $crate::CollectiveError> {
                let structure = $crate::Structure::open(transport, config, operations, exchange)?;
                Ok(Self(structure, $($state)?))
            }

            /// Waits until no operation is in flight and returns the engine, even a dead one. Results that
            /// were not reported, and messages that were not delivered, are lost.
            pub fn into_transport(self) -> T {
                self.0.into_transport()
            }
        }
    };
}
