//! An engine with capabilities declared by the test, which counts its posts.

use probeline_transport::{
    Caps, Local, PostError, RemoteWord, Segment, Token, Transport, forward_transport,
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
    forward_transport!(inner: geometry, in_flight, write, poll, landed, staged, window, direct);

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn read(&mut self, token: Token, from: Segment, into: Local) -> Result<(), PostError> {
        let posted = self.inner.read(token, from, into);
        self.posts.reads += u64::from(posted.is_ok());
        posted
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
}
