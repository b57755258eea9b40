//! The options of an engine.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
#[cfg(feature = "pin")]
use core::cell::OnceCell;
#[cfg(feature = "pin")]
use core::sync::atomic::AtomicU64;

use probeline_transport::engine::setup::{check_owners, together};
use probeline_transport::{Exchange, Sizes};

use super::connection_info::ConnectionInfo;
use super::open::{ChosenPort, Own};
use super::private::Allocation;
use super::{Engine, OpenError};
use crate::{Context, Library, Memory, Retry};

/// The default of [`Builder::rd_atomic`], which most devices support.
const RD_ATOMIC: u8 = 16;

/// The options of an engine. All owners of a job choose the same window and slot sizes.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) library: Option<Library>,
    pub(super) sizes: Sizes,
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
    /// Configures an engine of these sizes, of a depth up to 2^14, on the first device that can be used.
    #[must_use]
    pub fn new(sizes: Sizes) -> Self {
        Self {
            library: None,
            sizes,
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

    /// Sets the library to use. By default the system's libibverbs is loaded.
    #[must_use]
    pub fn libibverbs(mut self, library: Library) -> Self {
        self.library = Some(library);
        self
    }

    /// Sets the name of the device; `None` selects the first one that can be used.
    #[must_use]
    pub fn device(mut self, name: Option<&str>) -> Self {
        self.device = name.map(ToString::to_string);
        self
    }

    probeline_transport::setters! {
        /// Sets the device's port, counted from 1; `None` selects the first active one.
        port: Option<u8>,

        /// Sets the index of the GID; `None` selects the first routable RoCE v2 one on Ethernet, and
        /// the first one on InfiniBand.
        gid_index: Option<u8>,

        /// Sets how long a request is retried. A lost owner is detected after this time.
        retry: Retry,

        /// Sets the maximum number of READs and atomics outstanding on a queue pair, at least 1. The
        /// devices of both ends limit it too.
        rd_atomic: u8,

        /// Sets the index of the partition key in the port's table. [default: 0]
        pkey_index: u16,

        /// Sets the service level on InfiniBand, 0 to 15, or the priority on Ethernet, 0 to 7.
        service_level: u8,

        /// Sets the traffic class: on Ethernet DSCP in the upper six bits, and ECN.
        traffic_class: u8,

        /// States that a READ over these devices never brings a torn word, which no specification
        /// promises: [`Caps::word_reads_whole`](probeline_transport::Caps::word_reads_whole). If this
        /// is wrong, a table loses data.
        word_reads_whole: bool,

        /// Sets the NUMA node and the page size of the window. The default node is the device's, if it
        /// is known. A refused policy is not an error: see [`Engine::policy_refused`].
        #[cfg(feature = "pin")]
        memory: probeline_pin::MemoryPolicy,
    }

    /// Opens this owner's engine, with the window in memory from `pin`. Every member of `exchange`
    /// calls it. The window is zero. Waits for the other owners as long as the exchange does, and
    /// at most 30 seconds for the self-test.
    ///
    /// # Errors
    /// [`OpenError`]: what this owner, or another one, is missing. If one fails, all do.
    #[cfg(feature = "pin")]
    pub fn open<E: Exchange + ?Sized>(&self, exchange: &mut E) -> Result<Engine, OpenError> {
        let refused = OnceCell::new();
        let map = |context: &Context, words: usize| -> Result<probeline_pin::Mapping, OpenError> {
            // If the device's node is unknown, the kernel chooses.
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
            if let Some(error) = mapping.policy_refused() {
                refused.get_or_init(|| error.clone());
            }
            Ok(mapping)
        };
        let mut engine = self.open_parts(
            exchange,
            |context, words| Ok(Allocation::Mapped(map(context, words)?)),
            |context, words| Ok(Box::new(map(context, words)?)),
        )?;
        engine.policy_refused = refused.into_inner();
        Ok(engine)
    }

    /// Opens as [`open`](Self::open), with the window in memory that `allocate` returns, which must have
    /// at least the requested number of words. The memory begins with control words, whose number
    /// depends on the number of owners; the window follows. It contains zeros or the words that an
    /// earlier engine left. Other code may access this memory too. The engine allocates the slots
    /// itself.
    ///
    /// ```compile_fail,E0593
    /// # use core::sync::atomic::AtomicU64;
    /// # use probeline_transport::{Alone, Sizes};
    /// // The caller could store to these slots while the engine shows them as `&[u64]`.
    /// static KEPT: [AtomicU64; 1 << 16] = [const { AtomicU64::new(0) }; 1 << 16];
    /// probeline_verbs::Builder::new(Sizes::new(64)).open_in(&mut Alone, |_, _part, _words| Ok(Box::new(&KEPT[..])));
    /// ```
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_in<E, F>(&self, exchange: &mut E, allocate: F) -> Result<Engine, OpenError>
    where
        E: Exchange + ?Sized,
        F: FnOnce(&Context, usize) -> Result<Box<dyn Memory + Send>, OpenError>,
    {
        self.open_parts(exchange, |_, words| Allocation::on_heap(words), allocate)
    }

    /// Opens with the private memory and the window that these functions allocate.
    fn open_parts<E: Exchange + ?Sized>(
        &self,
        exchange: &mut E,
        private: impl FnOnce(&Context, usize) -> Result<Allocation, OpenError>,
        window: impl FnOnce(&Context, usize) -> Result<Box<dyn Memory + Send>, OpenError>,
    ) -> Result<Engine, OpenError> {
        check_owners(exchange.owners())?;
        let own = self.create((exchange.me(), exchange.owners()), private, window);
        let all = ConnectionInfo::gather(exchange, own.as_ref().ok().map(Own::connection_info));
        let (own, all) = (own?, all?);
        let (geometry, link, parts) = together(exchange, own.connect(&all))?;
        Ok(Engine::new(self.caps(link.atomics), geometry, link, parts))
    }

    /// Checks that there is a device on which an engine of a job of `owners` can be opened.
    ///
    /// # Errors
    /// [`OpenError`] names the resource that this machine lacks: [`OpenError::Setup`] above
    /// [`MAX_OWNERS`](probeline_transport::MAX_OWNERS), and [`OpenError::Beyond`] if the device
    /// supports fewer queue pairs, or shorter completion queues, than such a job needs.
    pub fn probe(&self, owners: u32) -> Result<(), OpenError> {
        check_owners(owners)?;
        let ChosenPort { limits, port, .. } = self.choose_port()?;
        self.check_limits(owners, &limits, &port)
    }
}
