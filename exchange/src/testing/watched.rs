//! An engine that counts calls, declares other capabilities, and refuses what a test says.

use core::cell::Cell;
use core::sync::atomic::AtomicU64;

use probeline_transport::{
    Caps, Completion, Fault, OpError, PostError, Request, SlotRange, Token, Transport,
    forward_transport,
};

/// Wraps an engine for the tests of a structure.
pub struct Watched<T> {
    inner: T,
    caps: Caps,
    /// Posts that were accepted.
    pub posts: Posts,
    /// Polls so far.
    pub polls: u64,
    /// Kicks and polls that had posts to ring for.
    pub rings: u64,
    unrung: u64,
    /// The number of words by which the window is too short, which is a defect.
    pub hidden_words: usize,
    /// The access to an idle slot that is refused once, which is a defect.
    pub refuse: Option<Access>,
    accesses: Cell<u64>,
    /// Whether an access was refused.
    pub refused: Cell<bool>,
    /// Changes the own word of the next compare-and-swap before it, as another client does.
    pub rival: Option<fn(&AtomicU64)>,
    /// The posts whose operations fail.
    pub fails: Option<fn(&Request) -> bool>,
    failing: Vec<Token>,
}

/// Numbers of posts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Posts {
    pub reads: u64,
    pub writes: u64,
    pub compare_and_swaps: u64,
    pub fetch_adds: u64,
}

impl Posts {
    /// Returns the posts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            compare_and_swaps: self.compare_and_swaps - before.compare_and_swaps,
            fetch_adds: self.fetch_adds - before.fetch_adds,
        }
    }
}

/// An access to a slot: the one after this number of the same kind since `refuse` was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access {
    Landed(u64),
    Staged(u64),
}

impl<T: Transport> Watched<T> {
    /// Wraps `inner`.
    pub fn new(inner: T) -> Self {
        Self {
            caps: *inner.caps(),
            inner,
            posts: Posts::default(),
            polls: 0,
            rings: 0,
            unrung: 0,
            hidden_words: 0,
            refuse: None,
            accesses: Cell::new(0),
            refused: Cell::new(false),
            rival: None,
            fails: None,
            failing: Vec::new(),
        }
    }

    /// Wraps `inner` with the capabilities that `declare` changes.
    pub fn declaring(inner: T, declare: impl FnOnce(&mut Caps)) -> Self {
        let mut engine = Self::new(inner);
        declare(&mut engine.caps);
        engine
    }

    fn ring(&mut self) {
        self.rings += u64::from(self.unrung > 0);
        self.unrung = 0;
    }

    fn check(&self, access: fn(u64) -> Access) -> Result<(), PostError> {
        let Some(refuse) = self.refuse else { return Ok(()) };
        let nth = self.accesses.get();
        let is_counted = core::mem::discriminant(&refuse) == core::mem::discriminant(&access(0));
        self.accesses.set(nth + u64::from(is_counted));
        if refuse != access(nth) {
            return Ok(());
        }
        self.refused.set(true);
        Err(PostError::Busy)
    }
}

impl<T: Transport> Transport for Watched<T> {
    forward_transport!(inner: geometry, in_flight, direct);

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        if let Request::CompareAndSwap { at, .. } = request
            && let Some(change) = self.rival.take()
        {
            change(&self.inner.window()[usize::try_from(at.index).expect("an own word")]);
        }
        self.inner.post(token, request)?;
        self.failing.extend(self.fails.filter(|fails| fails(&request)).map(|_| token));
        self.unrung += 1;
        match request {
            Request::Read { .. } => self.posts.reads += 1,
            Request::Write { .. } => self.posts.writes += 1,
            Request::CompareAndSwap { .. } => self.posts.compare_and_swaps += 1,
            Request::FetchAdd { .. } => self.posts.fetch_adds += 1,
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.ring();
        self.inner.kick();
    }

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.ring();
        self.polls += 1;
        let count = self.inner.poll(out)?;
        let failed = out[..count].iter_mut().filter(|end| self.failing.contains(&end.token));
        failed.for_each(|end| end.result = Err(OpError::RetryExceeded));
        Ok(count)
    }

    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        self.check(Access::Landed)?;
        self.inner.landed(at)
    }

    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        self.check(Access::Staged)?;
        self.inner.staged(at)
    }

    fn window(&self) -> &[AtomicU64] {
        let window = self.inner.window();
        &window[..window.len() - self.hidden_words]
    }
}

/// An engine whose type is chosen at run time. A test that uses several engines compiles once.
pub struct AnyEngine<'e>(Box<dyn Transport + 'e>);

impl<'e> AnyEngine<'e> {
    /// Boxes `engine`.
    pub fn new(engine: impl Transport + 'e) -> Self {
        Self(Box::new(engine))
    }
}

impl Transport for AnyEngine<'_> {
    forward_transport!(0: caps, geometry, in_flight, post, kick, poll);
    forward_transport!(0: landed, staged, window, direct);
}
