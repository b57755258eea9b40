//! The options of an engine, and how the engines of a job map each other's memory.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process;

use probeline_pin::{MemoryPolicy, Pages};
use probeline_transport::SetupError;
use probeline_transport::engine::setup::{
    agree, check_memory, check_owners, check_sizes, gather_records, random, together,
};
use probeline_transport::engine::{CpuMemory, Slots};
use probeline_transport::{AtomicScope, Caps, Exchange, Owner, Sizes};

use crate::window::{ConnectionInfo, PROTOCOL, Window};
use crate::{Engine, OpenError};

/// The maximum depth of an engine: 16 MiB of completions, far more operations than hide the latency of
/// memory.
pub const MAX_DEPTH: u32 = 1 << 20;

/// The options of an engine. All owners of a job choose the same window and slot sizes.
#[derive(Clone, Debug)]
pub struct Builder {
    sizes: Sizes,
    memory: MemoryPolicy,
}

impl Builder {
    /// Options for an engine of these sizes, of a depth up to 2^20, with huge pages if available.
    #[must_use]
    pub fn new(sizes: Sizes) -> Self {
        Self { sizes, memory: MemoryPolicy::default() }
    }

    /// Sets the NUMA node and the page size of the window. Slots are small and lie on the node of
    /// the thread that opens the engine.
    #[must_use]
    pub fn memory(mut self, policy: MemoryPolicy) -> Self {
        self.memory = policy;
        self
    }

    /// Opens this owner's engine, with a window of zeros. Every member of `exchange` calls it, in
    /// the thread that will use the engine. It waits for the other owners as long as the exchange
    /// does.
    ///
    /// # Errors
    /// [`OpenError`] of this owner or of another one. If one owner fails, all do.
    pub fn open<E: Exchange + ?Sized>(&self, exchange: &mut E) -> Result<Engine, OpenError> {
        check_owners(exchange.owners())?;
        let own = self.create(exchange.owners());
        let info = own.as_ref().ok().map(|own| own.info.to_words());
        let all = gather_records(exchange, PROTOCOL, info);
        let (mut own, all, me) = (own?, all?, exchange.me());
        let mapped = own.map_windows(me, &all).map(|windows| (windows, own));
        // All peers have mapped this window by now, or never will: its descriptor is closed.
        let (windows, Own { pages, slots, .. }) = together(exchange, mapped)?;
        let geometry = self.sizes.geometry(me, exchange.owners());
        Ok(Engine::new(self.caps(), geometry, pages, windows, slots))
    }

    /// Allocates the memory and slots of this owner. All owners are on this machine.
    fn create(&self, owners: u32) -> Result<Own, OpenError> {
        let Sizes { window_words, slots, slot_words, .. } = self.sizes;
        check_sizes(&self.sizes, MAX_DEPTH)?;
        check_memory(&self.sizes, owners)?;
        let slots = Slots::for_cpu(slots, slot_words).ok_or(SetupError::NO_SLOT_MEMORY)?;
        let nonce = random()?;
        let (window, file) = Window::create(window_words, nonce, owners > 1, &self.memory)?;
        let fd = file.as_ref().map_or(0, |file| file.as_raw_fd().unsigned_abs());
        let (pid, fd) = (process::id().into(), fd.into());
        let info = ConnectionInfo { pid, fd, nonce, window_words, slot_words: slot_words.into() };
        let pages = window.pages();
        Ok(Own { info, pages, window: Some(window), _file: file, slots })
    }

    fn caps(&self) -> Caps {
        Caps {
            depth: self.sizes.depth,
            atomics: AtomicScope::Cpu,
            words_per_op: self.sizes.slot_words,
            word_reads_whole: true,
            // Operations are executed in the order of their posts: the WRITE by release stores, the
            // atomic by a sequentially consistent instruction behind them.
            write_then_atomic: true,
            names_lost_owners: true,
            needs_owner_progress: false,
            poll_may_wait: false,
        }
    }
}

/// The resources of this owner before it maps the peers' windows.
struct Own {
    info: ConnectionInfo,
    pages: Pages,
    window: Option<Window>,
    /// Open until peers have mapped the window.
    _file: Option<OwnedFd>,
    slots: Slots<CpuMemory>,
}

impl Own {
    /// Maps the windows of all owners; this owner's is mapped already.
    fn map_windows(
        &mut self,
        me: Owner,
        all: &[[u64; ConnectionInfo::WORDS]],
    ) -> Result<Box<[Window]>, OpenError> {
        let peers = || (0..).map(Owner).zip(all.iter().copied().map(ConnectionInfo::from_words));
        // Before any window is mapped, because mapping touches every page and takes long.
        for (owner, theirs) in peers() {
            agree(owner, "words in the window", self.info.window_words, theirs.window_words)?;
            agree(owner, "words in a slot", self.info.slot_words, theirs.slot_words)?;
        }
        peers()
            .map(|(owner, theirs)| match self.window.take_if(|_| owner == me) {
                Some(own) => Ok(own),
                None => Window::map_peer(owner, &theirs),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
