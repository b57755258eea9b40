//! A macro that gives a newtype of a structure its front.

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
