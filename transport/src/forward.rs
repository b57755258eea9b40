//! Transports that forward their calls to another one.

use crate::Transport;

/// Implements methods of [`Transport`] by the same calls on a field, within an `impl`.
///
/// A wrapper writes the methods that it changes, and forwards the others:
///
/// ```
/// use probeline_transport::{Completion, Fault, Transport, forward_transport};
///
/// struct CountsPolls<T> {
///     inner: T,
///     polls: u64,
/// }
///
/// impl<T: Transport> Transport for CountsPolls<T> {
///     forward_transport!(inner: caps, geometry, in_flight, post, kick);
///     forward_transport!(inner: landed, staged, window, direct);
///
///     fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
///         self.polls += 1;
///         self.inner.poll(out)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_transport {
    ($field:tt: $($method:ident),+) => {
        $($crate::forward_transport!(@$method [] [.$field]);)+
    };
    (@caps [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn caps(&self) -> &$crate::Caps {
            ($($deref)* self $($field)*).caps()
        }
    };
    (@geometry [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn geometry(&self) -> &$crate::Geometry {
            ($($deref)* self $($field)*).geometry()
        }
    };
    (@in_flight [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn in_flight(&self) -> u32 {
            ($($deref)* self $($field)*).in_flight()
        }
    };
    (@post [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline(always)]
        fn post(
            &mut self,
            token: $crate::Token,
            request: $crate::Request,
        ) -> Result<(), $crate::PostError> {
            ($($deref)* self $($field)*).post(token, request)
        }
    };
    (@kick [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn kick(&mut self) {
            ($($deref)* self $($field)*).kick();
        }
    };
    (@poll [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn poll(&mut self, out: &mut [$crate::Completion]) -> Result<usize, $crate::Fault> {
            ($($deref)* self $($field)*).poll(out)
        }
    };
    (@landed [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn landed(&self, at: $crate::SlotRange) -> Result<&[u64], $crate::PostError> {
            ($($deref)* self $($field)*).landed(at)
        }
    };
    (@staged [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn staged(&mut self, at: $crate::SlotRange) -> Result<&mut [u64], $crate::PostError> {
            ($($deref)* self $($field)*).staged(at)
        }
    };
    (@window [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn window(&self) -> &[core::sync::atomic::AtomicU64] {
            ($($deref)* self $($field)*).window()
        }
    };
    (@direct [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn direct(&self, at: $crate::Segment) -> Option<&[core::sync::atomic::AtomicU64]> {
            ($($deref)* self $($field)*).direct(at)
        }
    };
}

/// A borrowed engine is an engine, so that a caller can lend one, also as a trait object.
impl<T: Transport + ?Sized> Transport for &mut T {
    forward_transport!(@caps [**] []);
    forward_transport!(@geometry [**] []);
    forward_transport!(@in_flight [**] []);
    forward_transport!(@post [**] []);
    forward_transport!(@kick [**] []);
    forward_transport!(@poll [**] []);
    forward_transport!(@landed [**] []);
    forward_transport!(@staged [**] []);
    forward_transport!(@window [**] []);
    forward_transport!(@direct [**] []);
}
