//! An engine with capabilities declared by the test, which counts its posts.

use probeline_transport::{Caps, PostError, Request, Token, Transport, forward_transport};

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
    forward_transport!(inner: geometry, in_flight, kick, poll, landed, staged, window, direct);

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        self.inner.post(token, request)?;
        match request {
            Request::Read { .. } => self.posts.reads += 1,
            Request::Write { .. } => {}
            Request::CompareAndSwap { .. } => self.posts.compare_and_swaps += 1,
            Request::FetchAdd { .. } => self.posts.fetch_adds += 1,
        }
        Ok(())
    }
}
