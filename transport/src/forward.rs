//! A borrowed engine is an engine, so that a caller can lend one, also as a trait object.

use core::sync::atomic::AtomicU64;

use crate::{
    Caps, Completion, Fault, Geometry, Local, PostError, RemoteWord, Segment, SlotError, Token,
    Transport,
};

impl<T: Transport + ?Sized> Transport for &mut T {
    fn caps(&self) -> &Caps {
        (**self).caps()
    }

    fn geometry(&self) -> &Geometry {
        (**self).geometry()
    }

    fn in_flight(&self) -> u32 {
        (**self).in_flight()
    }

    fn read(&mut self, token: Token, from: Segment, into: Local) -> Result<(), PostError> {
        (**self).read(token, from, into)
    }

    fn write(&mut self, token: Token, from: Local, to: Segment) -> Result<(), PostError> {
        (**self).write(token, from, to)
    }

    fn compare_and_swap(
        &mut self,
        token: Token,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), PostError> {
        (**self).compare_and_swap(token, at, expected, desired)
    }

    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError> {
        (**self).fetch_add(token, at, addend)
    }

    fn kick(&mut self) {
        (**self).kick();
    }

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        (**self).poll(out)
    }

    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        (**self).landed(at)
    }

    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        (**self).staged(at)
    }

    fn window(&self) -> &[AtomicU64] {
        (**self).window()
    }

    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        (**self).direct(at)
    }
}
