//! The sizes of an engine, what it goes over, and how the engines of a job find one another.

use core::fmt;

use probeline_transport::{AtomicScope, Caps, Exchange, MAX_OWNERS};
use probeline_ucx_sys::Ucp;

use super::context::Context;
use super::settings::{Atomics, Settings};
use super::{Engine, OpenError};

/// Who progresses what others do to an owner's window, where UCX needs the owner's CPU for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A thread of the engine's, which sleeps where there is nothing to do. It works on a worker of
    /// its own, so that the engine's takes no lock.
    Thread,
    /// The caller, by polling, also while it waits for others in an [`Exchange`]: others'
    /// operations on its window make no progress while it does not. (If owners share a machine, a
    /// thread still sleeps until one of their processes ends.)
    Caller,
}

impl Progress {
    /// Whom others wait for.
    pub(super) fn whom(self) -> &'static str {
        match self {
            Self::Thread => "a thread of the engine",
            Self::Caller => "the owner's own polling",
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "thread",
            Self::Caller => "caller",
        })
    }
}

/// The sizes of an engine and what it goes over. All owners of a job choose the same sizes, atomic
/// mode and progress.
///
/// What is chosen here is told to UCX by its configuration. A variable of the environment that says
/// something else, such as `UCX_TLS`, is an error; others are UCX's, and
/// [`Description::environment`](super::Description::environment) has them.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) window_words: u64,
    pub(super) slots: u32,
    pub(super) slot_words: u32,
    pub(super) depth: u32,
    pub(super) tls: Option<String>,
    device: Option<String>,
    pub(super) gid_index: Option<u8>,
    pub(super) atomics: Atomics,
    pub(super) progress: Progress,
    word_reads_whole: bool,
}

impl Builder {
    /// The most operations in flight.
    pub(super) const MAX_DEPTH: u32 = 1 << 16;

    /// An engine whose window has `window_words` words, with 64 slots of 64 words and depth 64,
    /// over whatever UCX chooses, with atomics that are consistent with the CPU's, and a thread for
    /// others' operations.
    #[must_use]
    pub fn new(window_words: u64) -> Self {
        Self {
            window_words,
            slots: 64,
            slot_words: 64,
            depth: 64,
            tls: None,
            device: None,
            gid_index: None,
            atomics: Atomics::Cpu,
            progress: Progress::Thread,
            word_reads_whole: false,
        }
    }

    /// The number of private slots, and the words in each: a multiple of 8.
    #[must_use]
    pub fn slots(mut self, slots: u32, words_each: u32) -> Self {
        self.slots = slots;
        self.slot_words = words_each;
        self
    }

    /// The most operations in flight, at least 1 and at most 2^16.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// The transports that UCX may use, separated by commas, such as `posix,sysv,cma,self`, `tcp`
    /// or `rc`: `UCX_TLS`. `None` for what the environment says, or all.
    #[must_use]
    pub fn tls(mut self, tls: Option<&str>) -> Self {
        self.tls = tls.map(str::to_owned);
        self
    }

    /// The network devices that it may use, such as `mlx5_0:1` or `eth0`: `UCX_NET_DEVICES`.
    /// `None` for what the environment says, or all.
    #[must_use]
    pub fn device(mut self, device: Option<&str>) -> Self {
        self.device = device.map(str::to_owned);
        self
    }

    /// The place of this node's address in the port's GID table: `UCX_IB_GID_INDEX`. `None` for
    /// what the environment says, or UCX's choice.
    #[must_use]
    pub fn gid_index(mut self, index: Option<u8>) -> Self {
        self.gid_index = index;
        self
    }

    /// Which atomics UCX is to use: `UCX_ATOMIC_MODE`.
    #[must_use]
    pub fn atomics(mut self, atomics: Atomics) -> Self {
        self.atomics = atomics;
        self
    }

    /// Who progresses what others do to this owner's window.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// States that over these transports a READ brings every word whole, which neither UCX nor a
    /// specification promises: [`Caps::word_reads_whole`]. Wrongly stated, a table loses data.
    #[must_use]
    pub fn word_reads_whole(mut self, whole: bool) -> Self {
        self.word_reads_whole = whole;
        self
    }

    /// Opens this owner's engine; every member of `exchange` does so, in the thread that will use
    /// it. The window is zero.
    ///
    /// Waits for the others as long as the exchange does, for the first operations on their windows
    /// 30 s at most for each, and 200 ms to find out who acts.
    ///
    /// # Errors
    /// [`OpenError`]: what this owner, or another one, is missing. If one fails, all do.
    pub fn open<E: Exchange + ?Sized>(&self, exchange: &mut E) -> Result<Engine, OpenError> {
        if exchange.owners() > MAX_OWNERS {
            return Err(OpenError::Sizes("ucx connects at most 4096 owners: start fewer ranks"));
        }
        self.open_with(exchange)
    }

    /// Whether UCX is there and takes what was chosen.
    ///
    /// # Errors
    /// [`OpenError`]: what is missing on this machine.
    pub fn probe(&self) -> Result<(), OpenError> {
        let ucp = Ucp::load().map_err(OpenError::Library)?;
        Context::open(ucp, &self.settings(), self.progress, 1).map(|_| ())
    }

    pub(super) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.set("ATOMIC_MODE", self.atomics.name());
        if let Some(tls) = &self.tls {
            settings.set("TLS", tls.trim());
        }
        if let Some(device) = &self.device {
            settings.set("NET_DEVICES", device.trim());
        }
        if let Some(index) = self.gid_index {
            settings.set("IB_GID_INDEX", index.to_string());
        }
        settings
    }

    pub(super) fn check(&self) -> Result<(), OpenError> {
        let refusal = match self {
            Self { window_words: 0, .. } => "a window needs at least 1 word",
            Self { slots: 0, .. } => "an engine needs at least 1 slot",
            Self { slot_words, .. } if *slot_words == 0 || slot_words % 8 != 0 => {
                "a slot's words must be a multiple of 8, at least 8"
            }
            Self { depth, .. } if !(1..=Self::MAX_DEPTH).contains(depth) => {
                "the depth must be at least 1 and at most 2^16"
            }
            _ => return Ok(()),
        };
        Err(OpenError::Sizes(refusal))
    }

    pub(super) fn caps(&self) -> Caps {
        Caps {
            depth: self.depth,
            // By the meaning of UCX_ATOMIC_MODE. Where the owner's CPU does them in software it
            // takes its own atomic instructions too, but that is UCX's choice, not its promise.
            atomics: match self.atomics {
                Atomics::Cpu => AtomicScope::Cpu,
                Atomics::Device => AtomicScope::Device,
            },
            words_per_op: self.slot_words,
            word_reads_whole: self.word_reads_whole,
            // Until it is known.
            needs_owner_progress: self.progress == Progress::Caller,
            poll_may_wait: false,
        }
    }
}
