//! Cases on a channel of a channel, while other channels of the same engine are busy.

use super::{Case, Failure, Rig, Verdict};
use crate::{
    Completion, Exchange, Fault, Owner, Pending, RemoteWord, Sizes, Splitter, StableMemory, Token,
    Transport, forward_transport,
};

/// The sizes of a busy channel.
const BUSY: Sizes = Sizes { window_words: 11, slots: 1, slot_words: 8, depth: 3 };

impl Case {
    /// Returns the sizes of an engine for [`run_on_channel`](Self::run_on_channel).
    #[must_use]
    pub fn sizes_with_channels(&self) -> Sizes {
        BUSY.plus(BUSY.plus(self.sizes))
    }

    /// Runs the case on a channel of a channel of `engine`. Each poll also posts and polls on two
    /// other channels, so that each channel's polls find completions of the others.
    ///
    /// # Errors
    /// As for [`run`](Self::run), or a wrong completion on a busy channel.
    pub fn run_on_channel<T: StableMemory>(
        &self,
        engine: &mut T,
        exchange: &mut dyn Exchange,
        configure: impl FnOnce(Rig<'_>) -> Rig<'_>,
    ) -> Result<Verdict, Failure> {
        let unsplit = |error: &dyn core::error::Error| Failure(error.to_string());
        let mut storage = vec![Pending::EMPTY; self.sizes_with_channels().depth as usize];
        let mut inner_storage = storage.clone();
        let plan = [BUSY, BUSY.plus(self.sizes)];
        let splitter = Splitter::new(engine, plan, &mut storage).map_err(|e| unsplit(&e))?;
        let [busy, mut outer] = splitter.channels().ok_or(Failure("no channels".into()))?;
        let plan = [BUSY, self.sizes];
        let inner = Splitter::new(&mut outer, plan, &mut inner_storage).map_err(|e| unsplit(&e))?;
        let [inner_busy, tested] = inner.channels().ok_or(Failure("no channels".into()))?;
        let mut joined = Joined {
            tested,
            busy: BusyChannel::new(busy),
            inner_busy: BusyChannel::new(inner_busy),
        };
        let verdict = self.run(&mut configure(Rig::new(&mut joined, exchange)))?;
        let wrong = joined.busy.wrong.or(joined.inner_busy.wrong);
        wrong.map_or(Ok(verdict), |wrong| Err(Failure(format!("on a busy channel: {wrong:?}"))))
    }
}

/// The channel under test, whose polls drive the others.
struct Joined<A, B, C> {
    tested: A,
    busy: BusyChannel<B>,
    inner_busy: BusyChannel<C>,
}

impl<A: Transport, B: Transport, C: Transport> Transport for Joined<A, B, C> {
    forward_transport!(tested: caps, geometry, in_flight, post, kick);
    forward_transport!(tested: landed, staged, window, direct);

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        self.busy.turn();
        self.inner_busy.turn();
        self.tested.poll(out)
    }
}

/// A channel that adds 1 to a word of each owner in turn, at full depth.
struct BusyChannel<T> {
    channel: T,
    turns: u32,
    posted: u64,
    /// The tokens in flight.
    open: Vec<Token>,
    /// The first completion whose token the channel did not post.
    wrong: Option<Completion>,
}

impl<T: Transport> BusyChannel<T> {
    fn new(channel: T) -> Self {
        let open = Vec::with_capacity(channel.caps().depth as usize);
        Self { channel, turns: 0, posted: 0, open, wrong: None }
    }

    /// Fills the channel; every third turn also polls, so that other polls find its completions.
    fn turn(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        let (owners, index) = (self.channel.geometry().owners, BUSY.window_words - 1);
        loop {
            let owner = Owner(u32::try_from(self.posted).unwrap_or(0) % owners);
            let token = Token(u64::MAX - self.posted);
            if self.channel.fetch_add(token, RemoteWord { owner, index }, 1).is_err() {
                break;
            }
            self.open.push(token);
            self.posted += 1;
        }
        if !self.turns.is_multiple_of(3) {
            return;
        }
        let mut done = [Completion::default(); 2];
        let polled = self.channel.poll(&mut done).unwrap_or(0);
        for completion in done.iter().take(polled) {
            match self.open.iter().position(|token| *token == completion.token) {
                Some(at) => drop(self.open.swap_remove(at)),
                None => self.wrong = self.wrong.or(Some(*completion)),
            }
        }
    }
}
