//! Opening an engine: an owner creates its objects, then connects to its peers.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;

use probeline_transport::SetupError;
use probeline_transport::engine::Deadline;
use probeline_transport::engine::setup::{check_sizes, random};
use probeline_transport::{AtomicScope, Caps, Geometry, Owner};

use super::Link;
use super::connection::{Connection, control_words};
use super::connection_info::ConnectionInfo;
use super::private::{Allocation, Private};
use super::self_test::SelfTest;
use super::{Builder, DEVICE_PATIENCE, OWN_REQUESTS, OpenError};
use crate::memory::MESSAGE_LIMIT_BYTES;
use crate::{
    Access, AtomicCapability, Capacity, CompletionQueue, Context, Device, DeviceLimits, DeviceList,
    GidEntry, INLINE_WORDS, Init, Library, Memory, MemoryRegion, Path, Peer, Port, PortError,
    ProtectionDomain, QueuePair, ReadyToReceive, Reset, Retry, VerbFailed,
};

/// The maximum depth of an engine, whose completions fit the completion queue of every device.
pub const MAX_DEPTH: u32 = 1 << 14;
/// The maximum number of words that a WRITE carries inline, if the device supports it.
#[allow(clippy::cast_possible_truncation)]
const MAX_INLINE_WORDS: u32 = INLINE_WORDS as u32;
/// The maximum time of the self-test, however long a queue pair retries.
const SELF_TEST_TIME: Duration = Duration::from_secs(30);

impl Builder {
    /// Creates everything that does not depend on the peers.
    pub(super) fn create(
        &self,
        (me, owners): (Owner, u32),
        allocate_private: impl FnOnce(&Context, usize) -> Result<Allocation, OpenError>,
        allocate_window: impl FnOnce(&Context, usize) -> Result<Box<dyn Memory + Send>, OpenError>,
    ) -> Result<Own, OpenError> {
        self.check()?;
        let ChosenPort { context, limits, port, gid } = self.choose_port()?;
        self.check_limits(owners, &limits, &port)?;

        let domain = ProtectionDomain::new(&context)?;
        // All requests of all queue pairs may be outstanding at once, including those of a
        // shutdown.
        let completions = CompletionQueue::new(&context, self.sizes.depth + OWN_REQUESTS * owners)?;
        let words = Private::words(&self.sizes).ok_or(SetupError::NO_SLOT_MEMORY)?;
        let memory = allocate_private(&context, words)?;
        let private = Private::register(&domain, memory, &self.sizes)?;
        let words = control_words(owners).saturating_add(self.sizes.window_words);
        let words = usize::try_from(words).map_err(|_| SetupError::WINDOW_TOO_LARGE)?;
        let memory = allocate_window(&context, words)?;
        let window = register_window(&domain, memory, words, owners)?;
        let loopback = self.queue_pair(&domain, &completions, &port, MAX_INLINE_WORDS);
        // If one queue pair cannot carry words inline, none does.
        let inline_words = if loopback.is_ok() { MAX_INLINE_WORDS } else { 0 };
        let create = || self.queue_pair(&domain, &completions, &port, inline_words);
        let loopback = loopback.or_else(|_| create())?;
        let pairs = (0..owners).map(|_| create()).collect::<Result<Vec<_>, _>>()?;
        let numbers: Vec<_> = pairs.iter().map(QueuePair::number).collect();
        let info = ConnectionInfo {
            window_words: self.sizes.window_words,
            slot_words: self.sizes.slot_words,
            psn: u32::try_from(random()? & 0x00ff_ffff).unwrap_or_default(),
            region: window.remote(),
            gid: gid.gid,
            gid_kind: gid.kind,
            lid: port.lid,
            link_layer: port.link_layer,
            global: port.global,
            mtu: port.mtu,
            responder_rd_atomic: limits.responder_rd_atomic.min(self.rd_atomic),
            initiator_rd_atomic: limits.initiator_rd_atomic.min(self.rd_atomic),
            queue_pair: numbers.get(me.0 as usize).copied().unwrap_or_default(),
        };
        let link = Link {
            device: context.name().to_string(),
            link_layer: port.link_layer,
            gid,
            pkey_index: self.pkey_index,
            path: Path {
                gid_index: gid.index,
                traffic_class: self.traffic_class,
                service_level: self.service_level,
                rd_atomic: info.initiator_rd_atomic,
                psn: info.psn,
                retry: self.retry,
                ..Path::over(&port)
            },
            atomics: limits.atomics,
            inline_words,
            queue_pairs: owners + 1,
        };
        let geometry = self.sizes.geometry(me, owners);
        Ok(Own { geometry, link, info, pairs, numbers, loopback, completions, private, window })
    }

    fn check(&self) -> Result<(), OpenError> {
        check_sizes(&self.sizes, MAX_DEPTH)?;
        let refusal = match self {
            Self { rd_atomic: 0, .. } => {
                "at least 1 READ or atomic must be outstanding, or none ever completes"
            }
            Self { service_level: 16.., .. } => "a service level is at most 15",
            _ => return Ok(()),
        };
        Err(SetupError::Sizes(refusal).into())
    }

    /// Opens the requested device and port, or the first with everything that an engine needs.
    pub(super) fn choose_port(&self) -> Result<ChosenPort, OpenError> {
        let library = self.library.map_or_else(Library::load, Ok)?;
        let list = DeviceList::new(library)?;
        let found: Vec<String> = list.iter().map(|device| device.name()).collect();
        if found.is_empty() {
            return Err(OpenError::NoDevice);
        }
        let wanted = |name: &str| self.device.as_deref().is_none_or(|wanted| wanted == name);
        // The error of the first device is returned if no other device can be used.
        let mut first_error = None;
        for device in list.iter().filter(|device| wanted(&device.name())) {
            match self.try_device(&device) {
                Ok(chosen) => return Ok(chosen),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let name = self.device.clone().unwrap_or_default();
        Err(first_error.unwrap_or(OpenError::NoSuchDevice { name, found }))
    }

    fn try_device(&self, device: &Device<'_>) -> Result<ChosenPort, OpenError> {
        let context = device.open()?;
        let name = || context.name().to_string();
        let limits = context.limits()?;
        let all = 1..=limits.ports;
        let numbers = all.filter(|number| self.port.is_none_or(|wanted| wanted == *number));
        let ports = numbers.map(|number| context.port(number)).collect::<Result<Vec<_>, _>>()?;
        let Some(&port) = ports.iter().find(|port| port.active) else {
            let requested = self.port.filter(|_| ports.is_empty());
            let numbers = ports.iter().map(|port| port.number).chain(requested);
            let ports = numbers.map(|number| format!("{}/{number}", name())).collect();
            return Err(OpenError::NoActivePort { ports });
        };
        if limits.atomics == AtomicCapability::None {
            return Err(OpenError::NoAtomics { device: name() });
        }
        let gid = context.choose_gid(&port, self.gid_index).map_err(|source| OpenError::Gid {
            device: name(),
            port: port.number,
            source,
        })?;
        Ok(ChosenPort { context, limits, port, gid })
    }

    /// Fails if the device's limits are too low for an engine in a job of `owners`.
    pub(super) fn check_limits(
        &self,
        owners: u32,
        limits: &DeviceLimits,
        port: &Port,
    ) -> Result<(), OpenError> {
        let window_words = control_words(owners).saturating_add(self.sizes.window_words);
        let (depth, owners) = (u64::from(self.sizes.depth), u64::from(owners));
        let own = u64::from(OWN_REQUESTS);
        let checks = [
            ("queue pairs", owners + 1, u64::from(limits.queue_pairs)),
            ("work requests on a queue pair", depth + own, u64::from(limits.work_requests)),
            ("entries of a completion queue", depth + own * owners, u64::from(limits.completions)),
            ("bytes in a memory region", window_words.saturating_mul(8), limits.region_bytes),
            (
                "bytes in a message",
                u64::from(self.sizes.slot_words) * 8,
                u64::from(port.message_bytes.min(MESSAGE_LIMIT_BYTES - 1)),
            ),
        ];
        match checks.into_iter().find(|(_, needed, limit)| needed > limit) {
            Some((what, needed, limit)) => Err(OpenError::Beyond { what, needed, limit }),
            None => Ok(()),
        }
    }

    /// Creates a queue pair in the state INIT.
    fn queue_pair(
        &self,
        domain: &ProtectionDomain,
        completions: &CompletionQueue,
        port: &Port,
        inline_words: u32,
    ) -> Result<QueuePair<Init>, VerbFailed> {
        let capacity = Capacity { requests: self.sizes.depth + OWN_REQUESTS, inline_words };
        let pair = QueuePair::<Reset>::new(domain, completions, capacity)?;
        pair.init(port, self.pkey_index, Access::WINDOW)
    }

    pub(super) fn caps(&self, atomics: AtomicCapability) -> Caps {
        Caps {
            depth: self.sizes.depth,
            atomics: match atomics {
                AtomicCapability::Global => AtomicScope::Cpu,
                AtomicCapability::Device | AtomicCapability::None => AtomicScope::Device,
            },
            words_per_op: self.sizes.slot_words,
            word_reads_whole: self.word_reads_whole,
            // Both requests use the one queue pair to that owner, which keeps their order.
            write_then_atomic: true,
            names_lost_owners: true,
            needs_owner_progress: false,
            poll_may_wait: false,
        }
    }
}

/// An open device that an engine can use, and its port.
pub(super) struct ChosenPort {
    context: Context,
    pub(super) limits: DeviceLimits,
    pub(super) port: Port,
    gid: GidEntry,
}

/// Registers a window of `words` words, control words included.
fn register_window(
    domain: &ProtectionDomain,
    memory: Box<dyn Memory + Send>,
    words: usize,
    owners: u32,
) -> Result<MemoryRegion<Box<dyn Memory + Send>>, OpenError> {
    const SHORT: SetupError =
        SetupError::Sizes("the allocated window is shorter than requested: allocate all words");
    if memory.words().len() < words {
        return Err(SHORT.into());
    }
    // An earlier engine in the same memory may have left values there.
    let control = usize::try_from(control_words(owners)).unwrap_or(usize::MAX);
    memory.words().iter().take(control).for_each(|word| word.store(0, SeqCst));
    Ok(MemoryRegion::register(domain, memory, Access::WINDOW)?)
}

/// The objects of an owner that is not connected to its peers.
pub(super) struct Own {
    geometry: Geometry,
    link: Link,
    info: ConnectionInfo,
    /// Queue pairs by owner; this owner's own is connected to `loopback`.
    pairs: Vec<QueuePair<Init>>,
    numbers: Vec<u32>,
    loopback: QueuePair<Init>,
    completions: CompletionQueue,
    private: Private,
    window: MemoryRegion<Box<dyn Memory + Send>>,
}

impl Own {
    /// Returns the information that this owner sends to its peers: its side of the connections, and
    /// the numbers of its queue pairs by owner.
    pub(super) fn connection_info(&self) -> (&ConnectionInfo, &[u32]) {
        (&self.info, &self.numbers)
    }

    /// Connects all queue pairs to their peers, and tests the atomics on this owner's own words.
    /// Returns no engine yet, which would notify its peers when it is dropped.
    pub(super) fn connect(
        mut self,
        all: &[ConnectionInfo],
    ) -> Result<(Geometry, Link, Parts), OpenError> {
        let owners = || (0..).map(Owner).zip(all);
        owners().try_for_each(|(owner, theirs)| self.info.agree(owner, theirs))?;
        self.negotiate(all);
        let Geometry { me, owners: count, window_words, .. } = self.geometry;
        let path = self.link.path;
        let loopback = self.loopback.number();
        let mut connections = Vec::with_capacity(all.len());
        for ((owner, theirs), pair) in owners().zip(self.pairs) {
            let number = if owner == me { loopback } else { theirs.queue_pair };
            let pair = pair.ready_to_receive(&peer(number, theirs), &path)?.ready_to_send(&path)?;
            let control_words = control_words(count);
            connections.push(Connection::new(pair, theirs.region, control_words, window_words));
        }
        let own = &self.info;
        let loopback = self.loopback.ready_to_receive(&peer(own.queue_pair, own), &path)?;
        let mut parts = Parts {
            connections,
            _loopback: loopback,
            completions: self.completions,
            private: self.private,
            window: self.window,
        };
        let device = self.link.device.clone();
        parts.self_test(me, path.retry).map_err(|source| OpenError::SelfTest { device, source })?;
        Ok((self.geometry, self.link, parts))
    }

    /// Sets the parameters of all paths to the lowest values that any owner supports.
    fn negotiate(&mut self, all: &[ConnectionInfo]) {
        let path = &mut self.link.path;
        for theirs in all {
            path.mtu = path.mtu.min(theirs.mtu);
            path.global |= theirs.global;
            let rd_atomic = theirs.initiator_rd_atomic.min(theirs.responder_rd_atomic);
            path.rd_atomic = path.rd_atomic.min(rd_atomic).max(1);
        }
    }
}

/// The objects of an engine. The queue pairs are destroyed before the objects that they use.
pub(super) struct Parts {
    /// Connections by owner.
    pub(super) connections: Vec<Connection>,
    /// The other end of this owner's connection to itself.
    pub(super) _loopback: QueuePair<ReadyToReceive>,
    pub(super) completions: CompletionQueue,
    pub(super) private: Private,
    pub(super) window: MemoryRegion<Box<dyn Memory + Send>>,
}

impl Parts {
    fn self_test(&mut self, me: Owner, retry: Retry) -> Result<(), PortError> {
        let connection = self.connections.get_mut(me.0 as usize);
        let scratch = self.window.words().first();
        let (connection, scratch) = connection.zip(scratch).ok_or(PortError::NotRun)?;
        let test = SelfTest {
            connection,
            completions: &mut self.completions,
            private: &self.private,
            scratch,
            deadline: Deadline::after(SELF_TEST_TIME.min(retry.bound() * 4 + DEVICE_PATIENCE)),
        };
        test.run()
    }
}

fn peer(queue_pair: u32, info: &ConnectionInfo) -> Peer {
    let &ConnectionInfo { psn, lid, gid, .. } = info;
    Peer { queue_pair, psn, lid, gid }
}
