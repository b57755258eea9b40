//! An engine that says of itself what the test wants, and counts what is posted on it.

use core::sync::atomic::AtomicU64;

use probeline_transport::{
    Caps, Completion, Fault, Geometry, Local, PostError, RemoteWord, Segment, SlotError, Token,
    Transport,
};

pub(crate) struct Declared<T> {
    inner: T,
    caps: Caps,
    pub(crate) posts: Posts,
}

/// Posts that were accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Posts {
    pub(crate) reads: u64,
    pub(crate) compare_and_swaps: u64,
    pub(crate) fetch_adds: u64,
}

impl<T: Transport> Declared<T> {
    pub(crate) fn new(inner: T, declare: impl Fn(&mut Caps)) -> Self {
        let mut caps = *inner.caps();
        declare(&mut caps);
        Self { inner, caps, posts: Posts::default() }
    }
}

impl<T: Transport> Transport for Declared<T> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn read(&mut self, token: Token, from: Segment, into: Local) -> Result<(), PostError> {
        let posted = self.inner.read(token, from, into);
        self.posts.reads += u64::from(posted.is_ok());
        posted
    }

    fn write(&mut self, token: Token, from: Local, to: Segment) -> Result<(), PostError> {
        self.inner.write(token, from, to)
    }

    fn compare_and_swap(
        &mut self,
        token: Token,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), PostError> {
        let posted = self.inner.compare_and_swap(token, at, expected, desired);
        self.posts.compare_and_swaps += u64::from(posted.is_ok());
        posted
    }

    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError> {
        let posted = self.inner.fetch_add(token, at, addend);
        self.posts.fetch_adds += u64::from(posted.is_ok());
        posted
    }

    fn kick(&mut self) {
        self.inner.kick();
    }

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.inner.poll(out)
    }

    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        self.inner.landed(at)
    }

    fn staged(&mut self, at: Local) -> Result<&mut [u64], SlotError> {
        self.inner.staged(at)
    }

    fn window(&self) -> &[AtomicU64] {
        self.inner.window()
    }

    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.inner.direct(at)
    }
}
