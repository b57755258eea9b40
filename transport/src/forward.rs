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
///     forward_transport!(inner: caps, geometry, in_flight, read, write, compare_and_swap);
///     forward_transport!(inner: fetch_add, kick, landed, staged, window, direct);
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
    (@read [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn read(
            &mut self,
            token: $crate::Token,
            from: $crate::Segment,
            into: $crate::Local,
        ) -> Result<(), $crate::PostError> {
            ($($deref)* self $($field)*).read(token, from, into)
        }
    };
    (@write [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn write(
            &mut self,
            token: $crate::Token,
            from: $crate::Local,
            to: $crate::Segment,
        ) -> Result<(), $crate::PostError> {
            ($($deref)* self $($field)*).write(token, from, to)
        }
    };
    (@compare_and_swap [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn compare_and_swap(
            &mut self,
            token: $crate::Token,
            at: $crate::RemoteWord,
            expected: u64,
            desired: u64,
        ) -> Result<(), $crate::PostError> {
            ($($deref)* self $($field)*).compare_and_swap(token, at, expected, desired)
        }
    };
    (@fetch_add [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn fetch_add(
            &mut self,
            token: $crate::Token,
            at: $crate::RemoteWord,
            addend: u64,
        ) -> Result<(), $crate::PostError> {
            ($($deref)* self $($field)*).fetch_add(token, at, addend)
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
        fn landed(&self, at: $crate::Local) -> Result<&[u64], $crate::SlotError> {
            ($($deref)* self $($field)*).landed(at)
        }
    };
    (@staged [$($deref:tt)*] [$($field:tt)*]) => {
        #[inline]
        fn staged(&mut self, at: $crate::Local) -> Result<&mut [u64], $crate::SlotError> {
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
    forward_transport!(@read [**] []);
    forward_transport!(@write [**] []);
    forward_transport!(@compare_and_swap [**] []);
    forward_transport!(@fetch_add [**] []);
    forward_transport!(@kick [**] []);
    forward_transport!(@poll [**] []);
    forward_transport!(@landed [**] []);
    forward_transport!(@staged [**] []);
    forward_transport!(@window [**] []);
    forward_transport!(@direct [**] []);
}
