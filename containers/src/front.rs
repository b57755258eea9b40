//! Macros that give a container the front of its structure.

/// Lets a container, a newtype of a `Structure` of this kind, be opened and used as one. In brackets are its
/// parameters beside the engine and the storage, with their bounds.
macro_rules! front {
    ([$($bound:tt)*] $name:ident<$($type:ident),*>, $kind:ty) => {
        crate::front::open!([$($bound)*] $name<$($type),*>, $kind);

        impl<T, S, $($bound)*> core::ops::DerefMut for $name<T, S, $($type),*> {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    };
}

/// As [`front`], but lends the structure for reading only. Further fields begin with `$state`.
macro_rules! open {
    ([$($bound:tt)*] $name:ident<$($type:ident),*>, $kind:ty $(, $state:expr)?) => {
        impl<T, S, $($bound)*> core::ops::Deref for $name<T, S, $($type),*> {
            type Target = probeline_pipeline::Structure<T, S, $kind>;

            #[inline(always)]
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl<T, S, $($bound)*> $name<T, S, $($type),*>
        where
            T: probeline_transport::Transport,
            S: AsMut<[probeline_pipeline::OperationOf<$kind>]>,
        {
            /// Opens the container together with all other owners and checks that their parameters are
            /// equal.
            ///
            /// # Errors
            /// [`CollectiveError`](crate::CollectiveError): an invalid configuration, a failed exchange, or an owner
            /// without the container or with other parameters.
            pub fn open(
                transport: T,
                config: Config,
                operations: S,
                exchange: &mut (impl probeline_transport::Exchange + ?Sized),
            ) -> Result<Self, crate::CollectiveError> {
                let structure =
                    probeline_pipeline::Structure::open(transport, config, operations, exchange)?;
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

pub(crate) use {front, open};
