//! The sizes of an engine, its device, and how the engines of a job find one another.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;
#[cfg(feature = "pin")]
use core::cell::Cell;
#[cfg(feature = "pin")]
use core::sync::atomic::AtomicU64;

use probeline_transport::{AtomicScope, Caps, Exchange, Owner};

use super::hello::Hello;
use super::opening::{Chosen, Connected, Own};
use super::private::PrivateMemory;
use super::{Engine, OpenError};
use crate::{AtomicCapability, Context, Library, Memory, Retry};

/// READs and atomics outstanding on a queue pair at most, if nothing else was asked: what most
/// devices have.
const RD_ATOMIC: u8 = 16;
/// The sizes of an engine and the device it goes over. All owners of a job choose the same window
/// and slot sizes.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) loaded: Option<Library>,
    pub(super) window_words: u64,
    pub(super) slots: u32,
    pub(super) slot_words: u32,
    pub(super) depth: u32,
    pub(super) device: Option<String>,
    pub(super) port: Option<u8>,
    pub(super) gid_index: Option<u8>,
    pub(super) retry: Retry,
    pub(super) rd_atomic: u8,
    pub(super) pkey_index: u16,
    pub(super) service_level: u8,
    pub(super) traffic_class: u8,
    pub(super) word_reads_whole: bool,
    #[cfg(feature = "pin")]
    memory: probeline_pin::MemoryPolicy,
}

impl Builder {
    /// An engine whose window has `window_words` words, with 64 slots of 64 words and depth 64,
    /// over the first device that can be used.
    #[must_use]
    pub fn new(window_words: u64) -> Self {
        Self {
            loaded: None,
            window_words,
            slots: 64,
            slot_words: 64,
            depth: 64,
            device: None,
            port: None,
            gid_index: None,
            retry: Retry::default(),
            rd_atomic: RD_ATOMIC,
            pkey_index: 0,
            service_level: 0,
            traffic_class: 0,
            word_reads_whole: false,
            #[cfg(feature = "pin")]
            memory: probeline_pin::MemoryPolicy::default(),
        }
    }

    /// The library to use; without it the system's is loaded.
    #[must_use]
    pub fn libibverbs(mut self, library: Library) -> Self {
        self.loaded = Some(library);
        self
    }

    /// The number of private slots, and the words in each: a multiple of 8.
    #[must_use]
    pub fn slots(mut self, slots: u32, words_each: u32) -> Self {
        self.slots = slots;
        self.slot_words = words_each;
        self
    }

    /// The most operations in flight, at least 1 and at most 2^14.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// The device, by its name; `None` for the first one that can be used.
    #[must_use]
    pub fn device(mut self, name: Option<&str>) -> Self {
        self.device = name.map(ToString::to_string);
        self
    }

    /// The device's port, from 1 on; `None` for the first active one.
    #[must_use]
    pub fn port(mut self, port: Option<u8>) -> Self {
        self.port = port;
        self
    }

    /// The index of the GID to use; `None` for the first routable RoCE v2 one on Ethernet, and for
    /// the first one on InfiniBand.
    #[must_use]
    pub fn gid_index(mut self, index: Option<u8>) -> Self {
        self.gid_index = index;
        self
    }

    /// How long a request tries to reach its owner. A lost one is known after that.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// READs and atomics outstanding on a queue pair at most, at least 1; the devices of both ends
    /// bound them too.
    #[must_use]
    pub fn rd_atomic(mut self, rd_atomic: u8) -> Self {
        self.rd_atomic = rd_atomic;
        self
    }

    /// The place of the partition's key in the port's table, 0 unless told otherwise.
    #[must_use]
    pub fn pkey_index(mut self, index: u16) -> Self {
        self.pkey_index = index;
        self
    }

    /// The service level on InfiniBand, 0 to 15, or the priority on Ethernet, 0 to 7.
    #[must_use]
    pub fn service_level(mut self, level: u8) -> Self {
        self.service_level = level;
        self
    }

    /// The class of traffic: on Ethernet DSCP in the upper six bits, and ECN.
    #[must_use]
    pub fn traffic_class(mut self, class: u8) -> Self {
        self.traffic_class = class;
        self
    }

    /// States that on these devices a READ brings every word whole, which no specification
    /// promises: [`Caps::word_reads_whole`]. Wrongly stated, a table loses data.
    #[must_use]
    pub fn word_reads_whole(mut self, whole: bool) -> Self {
        self.word_reads_whole = whole;
        self
    }

    /// Sets the NUMA node and the page size of the window. The default node is the device's, if it
    /// is known. A refused policy is not an error: see [`Engine::policy_refused`].
    #[cfg(feature = "pin")]
    #[must_use]
    pub fn memory(mut self, policy: probeline_pin::MemoryPolicy) -> Self {
        self.memory = policy;
        self
    }

    /// Opens this owner's engine, its window in memory from `pin`; every member of `exchange` does
    /// so. The window is zero. Waits for the others as long as the exchange does, and for its own
    /// self-test 30 seconds at most.
    ///
    /// # Errors
    /// [`OpenError`]: what this owner, or another one, is missing. If one fails, all do.
    #[cfg(feature = "pin")]
    pub fn open<E: Exchange + ?Sized>(&self, exchange: &mut E) -> Result<Engine, OpenError> {
        let refused = Cell::new(None);
        let map = |context: &Context, words: usize| -> Result<probeline_pin::Mapping, OpenError> {
            // The node is a preference: if it is unknown, the kernel chooses.
            let device_node = || {
                let node =
                    probeline_pin::device_node("/sys".as_ref(), context.name()).ok().flatten();
                node.filter(|node| probeline_pin::may_bind(*node))
            };
            let policy = probeline_pin::MemoryPolicy {
                node: self.memory.node.or_else(device_node),
                ..self.memory
            };
            let bytes = words.saturating_mul(size_of::<AtomicU64>());
            let mapping =
                probeline_pin::Mapping::anonymous(bytes, &policy).map_err(OpenError::Memory)?;
            refused.set(refused.get().or(mapping.policy_refused()));
            Ok(mapping)
        };
        let mut engine = self.open_parts(
            exchange,
            |context, words| Ok(PrivateMemory::Mapped(map(context, words)?)),
            |context, words| Ok(Box::new(map(context, words)?)),
        )?;
        engine.policy_refused = refused.get();
        Ok(engine)
    }

    /// As [`open`](Self::open), with the window in memory that `allocate` returns, which must have
    /// at least the requested number of words. The memory begins with control words, whose number
    /// depends on the number of owners; the window follows. It contains zeros or the words that an
    /// earlier engine left. Other code may access this memory too. The engine allocates the slots
    /// itself.
    ///
    /// ```compile_fail,E0593
    /// # use core::sync::atomic::AtomicU64;
    /// # use probeline_transport::Alone;
    /// // The caller could store to these slots while the engine shows them as `&[u64]`. static
    /// KEPT: [AtomicU64; 1 << 16] = [const { AtomicU64::new(0) }; 1 << 16];
    /// probeline_verbs::Builder::new(64).open_in(&mut Alone, |_, _part, _words| Ok(Box::new(&KEPT[..])));
    /// ```
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_in<E, F>(&self, exchange: &mut E, allocate: F) -> Result<Engine, OpenError>
    where
        E: Exchange + ?Sized,
        F: FnOnce(&Context, usize) -> Result<Box<dyn Memory + Send>, OpenError>,
    {
        self.open_parts(exchange, |_, words| PrivateMemory::on_heap(words), allocate)
    }

    /// Opens with the private memory and the window that these functions return.
    fn open_parts<E: Exchange + ?Sized>(
        &self,
        exchange: &mut E,
        private: impl FnOnce(&Context, usize) -> Result<PrivateMemory, OpenError>,
        window: impl FnOnce(&Context, usize) -> Result<Box<dyn Memory + Send>, OpenError>,
    ) -> Result<Engine, OpenError> {
        Self::check_owners(exchange.owners())?;
        // An owner that fails still takes part in all calls, so that no other owner waits for it.
        let own = self.create(exchange, private, window);
        let all = match Hello::gather(own.as_ref().ok().map(Own::connection_info), exchange) {
            Ok(all) => all,
            Err(error @ OpenError::Exchange(_)) => return Err(own.err().unwrap_or(error)),
            Err(error) => return Err(refuse(exchange, own.err().unwrap_or(error))),
        };
        let connected = own.and_then(|own| own.connect(&all));
        let everybody = tell(exchange, connected.is_ok());
        let Connected { geometry, link, parts } = connected?;
        everybody?;
        Ok(Engine::new(self.caps(link.atomics), geometry, link, parts))
    }

    /// Whether there is a device that an engine can be opened on, and none is.
    ///
    /// # Errors
    /// [`OpenError`]: what is missing on this machine.
    pub fn probe(&self) -> Result<(), OpenError> {
        self.probe_for(1)
    }

    /// As [`probe`](Self::probe), for a job of `owners`.
    ///
    /// # Errors
    /// Those of [`probe`](Self::probe); [`OpenError::Sizes`] above
    /// [`MAX_OWNERS`](probeline_transport::MAX_OWNERS); and [`OpenError::Beyond`] if the device supports fewer
    /// queue pairs, or shorter completion queues, than such a job needs.
    pub fn probe_for(&self, owners: u32) -> Result<(), OpenError> {
        Self::check_owners(owners)?;
        let Chosen { limits, port, .. } = self.choose_port()?;
        self.check_limits(owners, &limits, &port)
    }

    fn caps(&self, atomics: AtomicCapability) -> Caps {
        Caps {
            depth: self.depth,
            atomics: match atomics {
                AtomicCapability::Global => AtomicScope::Cpu,
                AtomicCapability::Device | AtomicCapability::None => AtomicScope::Device,
            },
            words_per_op: self.slot_words,
            word_reads_whole: self.word_reads_whole,
            // Both go to the one queue pair of the owner.
            write_then_atomic: true,
            needs_owner_progress: false,
            poll_may_wait: false,
        }
    }
}

/// Tells the others that this owner has failed, whose opening has failed too; gives `error` back.
fn refuse<E: Exchange + ?Sized>(exchange: &mut E, error: OpenError) -> OpenError {
    let _ = tell(exchange, false);
    error
}

/// Tells everybody whether this owner is ready; returns when all have told.
fn tell<E: Exchange + ?Sized>(exchange: &mut E, ready: bool) -> Result<(), OpenError> {
    let mut all = vec![0; exchange.owners() as usize];
    exchange.all_gather(&[u8::from(ready)], &mut all).map_err(OpenError::Exchange)?;
    match (0..).zip(all).find(|&(_, ready)| ready == 0) {
        Some((owner, _)) => Err(OpenError::PeerFailed(Owner(owner))),
        None => Ok(()),
    }
}
