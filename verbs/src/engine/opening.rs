//! What opening an engine does before and after the owners have told each other of themselves.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;

use probeline_transport::{Exchange, Geometry, MAX_OWNERS, Owner};

use super::control::control_words;
use super::deadline::{Deadline, PATIENCE};
use super::hello::Hello;
use super::lane::Lane;
use super::link::Link;
use super::private::{Private, PrivateMemory};
use super::self_test::{SelfTest, SelfTestFailed};
use super::{Builder, OpenError, SPARE_REQUESTS};
use crate::{
    Access, AtomicCapability, Capacity, CompletionQueue, Context, Device, DeviceLimits, DeviceList,
    GidEntry, INLINE_WORDS, Init, Library, Memory, MemoryRegion, Path, Peer, Port,
    ProtectionDomain, QueuePair, ReadyToReceive, Reset, Retry, VerbFailed,
};

/// The largest depth: its completions fit every device's queue with some to spare.
const MAX_DEPTH: u32 = 1 << 14;
/// Words that a WRITE carries inline where the device lets it.
#[allow(clippy::cast_possible_truncation)]
const MOST_INLINE: u32 = INLINE_WORDS as u32;
/// The longest that the self-test may take, however long a queue pair would try.
const SELF_TEST: Duration = Duration::from_secs(30);

const TOO_LARGE: OpenError = OpenError::Sizes("window or slots do not fit the address space");
const SHORT: OpenError = OpenError::Sizes("the memory given is shorter than what was asked for");

impl Builder {
    /// Everything that does not depend on the others.
    pub(super) fn create<E: Exchange + ?Sized>(
        &self,
        exchange: &E,
        allocate_private: impl FnOnce(&Context, usize) -> Result<PrivateMemory, OpenError>,
        allocate_window: impl FnOnce(&Context, usize) -> Result<Box<dyn Memory + Send>, OpenError>,
    ) -> Result<Own, OpenError> {
        self.check()?;
        let (me, owners) = (exchange.me(), exchange.owners());
        let Chosen { context, limits, port, gid } = self.choose_port()?;
        self.check_limits(owners, &limits, &port)?;

        let domain = ProtectionDomain::new(&context)?;
        // Every request of all queue pairs may be outstanding at once, those of leaving too.
        let completions = CompletionQueue::new(&context, self.depth + SPARE_REQUESTS * owners)?;
        let geometry = Geometry {
            me,
            owners,
            window_words: self.window_words,
            slots: self.slots,
            slot_words: self.slot_words,
        };
        let words = Private::words(&geometry, self.depth).ok_or(TOO_LARGE)?;
        let memory = allocate_private(&context, words)?;
        let private = Private::register(&domain, memory, &geometry, self.depth)?;
        let words = usize::try_from(control_words(owners).saturating_add(self.window_words))
            .map_err(|_| TOO_LARGE)?;
        let memory = allocate_window(&context, words)?;
        let window = window(&domain, memory, words, owners)?;
        let mirror = self.queue_pair(&domain, &completions, &port, MOST_INLINE);
        // None of them carries words inline where one does not.
        let inline_words = if mirror.is_ok() { MOST_INLINE } else { 0 };
        let make = || self.queue_pair(&domain, &completions, &port, inline_words);
        let mirror = mirror.or_else(|_| make())?;
        let pairs = (0..owners).map(|_| make()).collect::<Result<Vec<_>, _>>()?;
        let numbers: Vec<_> = pairs.iter().map(QueuePair::number).collect();
        let hello = Hello {
            window_words: self.window_words,
            slot_words: self.slot_words,
            psn: random()? & 0x00ff_ffff,
            region: window.remote(),
            gid: gid.gid,
            gid_kind: gid.kind,
            lid: port.lid,
            link_layer: port.link_layer,
            global: port.needs_global_route(),
            mtu: port.mtu,
            responder_rd_atomic: limits.responder_rd_atomic.min(self.rd_atomic),
            initiator_rd_atomic: limits.initiator_rd_atomic.min(self.rd_atomic),
            queue_pair: numbers.get(me.0 as usize).copied().unwrap_or_default(),
        };
        let link = Link {
            device: context.name().to_string(),
            port: port.number,
            link_layer: port.link_layer,
            gid,
            global: hello.global,
            pkey_index: self.pkey_index,
            service_level: self.service_level,
            traffic_class: self.traffic_class,
            mtu: port.mtu,
            rd_atomic: hello.initiator_rd_atomic,
            retry: self.retry,
            atomics: limits.atomics,
            inline_words,
            queue_pairs: owners + 1,
        };
        Ok(Own { geometry, link, hello, pairs, numbers, mirror, completions, private, window })
    }

    /// Fails for more than [`MAX_OWNERS`] owners, before any call to the device
    /// or to other owners.
    pub(super) fn check_owners(owners: u32) -> Result<(), OpenError> {
        const TOO_MANY: &str = "verbs connects at most 4096 owners: start fewer ranks";
        if owners <= MAX_OWNERS { Ok(()) } else { Err(OpenError::Sizes(TOO_MANY)) }
    }

    fn check(&self) -> Result<(), OpenError> {
        let refusal = match self {
            Self { window_words: 0, .. } => "a window needs at least 1 word",
            Self { slots: 0, .. } => "an engine needs at least 1 slot",
            Self { slot_words, .. } if *slot_words == 0 || slot_words % 8 != 0 => {
                "a slot's words must be a multiple of 8, at least 8"
            }
            Self { depth, .. } if !(1..=MAX_DEPTH).contains(depth) => {
                "the depth must be at least 1 and at most 2^14"
            }
            Self { rd_atomic: 0, .. } => {
                "at least 1 READ or atomic must be outstanding, or none ever completes"
            }
            Self { service_level: 16.., .. } => "a service level is at most 15",
            _ => return Ok(()),
        };
        Err(OpenError::Sizes(refusal))
    }

    /// The device and port that were asked for, or the first with all that is needed.
    pub(super) fn choose_port(&self) -> Result<Chosen, OpenError> {
        let library = self.loaded.map_or_else(Library::load, Ok).map_err(OpenError::Library)?;
        let list = DeviceList::new(library)?;
        let found: Vec<String> = list.iter().map(|device| device.name()).collect();
        if found.is_empty() {
            return Err(OpenError::NoDevice);
        }
        let wanted = |name: &str| self.device.as_deref().is_none_or(|wanted| wanted == name);
        // What is wrong with the first is told, if no other will do.
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

    fn try_device(&self, device: &Device<'_>) -> Result<Chosen, OpenError> {
        let context = device.open()?;
        let name = || context.name().to_string();
        let limits = context.limits()?;
        let all = 1..=limits.ports;
        let numbers = all.filter(|number| self.port.is_none_or(|wanted| wanted == *number));
        let ports = numbers.map(|number| context.port(number)).collect::<Result<Vec<_>, _>>()?;
        let Some(&port) = ports.iter().find(|port| port.active) else {
            let asked = self.port.filter(|_| ports.is_empty());
            let numbers = ports.iter().map(|port| port.number).chain(asked);
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
        Ok(Chosen { context, limits, port, gid })
    }

    /// Fails if the device's limits are too low for an engine of a job of `owners`.
    pub(super) fn check_limits(
        &self,
        owners: u32,
        limits: &DeviceLimits,
        port: &Port,
    ) -> Result<(), OpenError> {
        let window_bytes =
            (control_words(owners).saturating_add(self.window_words)).saturating_mul(8);
        let checks = [
            ("queue pairs", u64::from(owners) + 1, u64::from(limits.queue_pairs)),
            (
                "work requests on a queue pair",
                u64::from(self.depth + SPARE_REQUESTS),
                u64::from(limits.work_requests),
            ),
            (
                "entries of a completion queue",
                u64::from(self.depth) + u64::from(SPARE_REQUESTS) * u64::from(owners),
                u64::from(limits.completions),
            ),
            ("bytes in a memory region", window_bytes, limits.region_bytes),
            ("bytes in a message", u64::from(self.slot_words) * 8, u64::from(port.message_bytes)),
        ];
        match checks.into_iter().find(|(_, needed, limit)| needed > limit) {
            Some((what, needed, limit)) => Err(OpenError::Beyond { what, needed, limit }),
            None => Ok(()),
        }
    }

    /// A queue pair in INIT.
    fn queue_pair(
        &self,
        domain: &ProtectionDomain,
        completions: &CompletionQueue,
        port: &Port,
        inline_words: u32,
    ) -> Result<QueuePair<Init>, VerbFailed> {
        let capacity = Capacity { requests: self.depth + SPARE_REQUESTS, inline_words };
        let pair = QueuePair::<Reset>::new(domain, completions, capacity)?;
        pair.init_in_partition(port, self.pkey_index, Access::WINDOW)
    }
}

/// A device that can be used, and by which port.
pub(super) struct Chosen {
    context: Context,
    pub(super) limits: DeviceLimits,
    pub(super) port: Port,
    gid: GidEntry,
}

/// A window of `words` words with its control words, which say nothing yet.
fn window(
    domain: &ProtectionDomain,
    memory: Box<dyn Memory + Send>,
    words: usize,
    owners: u32,
) -> Result<MemoryRegion<Box<dyn Memory + Send>>, OpenError> {
    if memory.words().len() < words {
        return Err(SHORT);
    }
    // What an engine before this one was told in the same memory is over.
    let control = usize::try_from(control_words(owners)).map_err(|_| TOO_LARGE)?;
    memory.words().iter().take(control).for_each(|word| word.store(0, SeqCst));
    Ok(MemoryRegion::register(domain, memory, Access::WINDOW)?)
}

/// What an owner has before it knows the others.
pub(super) struct Own {
    geometry: Geometry,
    link: Link,
    pub(super) hello: Hello,
    /// By owner; the one for this owner itself is connected to the mirror.
    pairs: Vec<QueuePair<Init>>,
    numbers: Vec<u32>,
    mirror: QueuePair<Init>,
    completions: CompletionQueue,
    private: Private,
    window: MemoryRegion<Box<dyn Memory + Send>>,
}

impl Own {
    /// What this owner sends to the others: its side, and the numbers of its queue pairs by owner.
    pub(super) fn connection_info(&self) -> (&Hello, &[u32]) {
        (&self.hello, &self.numbers)
    }

    /// Connects all queue pairs to their peers, and tries the atomics on this owner's own words.
    pub(super) fn connect(mut self, all: &[Hello]) -> Result<Connected, OpenError> {
        let owners = || (0..).map(Owner).zip(all);
        owners().try_for_each(|(owner, theirs)| self.hello.agree(owner, theirs))?;
        self.settle(all);
        let me = self.geometry.me;
        let path = Path {
            port: self.link.port,
            global: self.link.global,
            gid_index: self.link.gid.index,
            traffic_class: self.link.traffic_class,
            service_level: self.link.service_level,
            mtu: self.link.mtu,
            rd_atomic: self.link.rd_atomic,
            psn: self.hello.psn,
            retry: self.link.retry,
        };
        let mirror = self.mirror.number();
        let control = control_words(self.geometry.owners);
        let mut lanes = Vec::with_capacity(all.len());
        for ((owner, theirs), pair) in owners().zip(self.pairs) {
            // What the owner has for this one; or for itself, the mirror.
            let number = if owner == me { mirror } else { theirs.queue_pair };
            let pair = pair.ready_to_receive(&peer(number, theirs), &path)?.ready_to_send(&path)?;
            lanes.push(Lane::new(pair, theirs.region, control));
        }
        let own = &self.hello;
        let mirror = self.mirror.ready_to_receive(&peer(own.queue_pair, own), &path)?;
        let mut parts = Parts {
            lanes,
            _mirror: mirror,
            completions: self.completions,
            private: self.private,
            window: self.window,
        };
        let device = self.link.device.clone();
        parts
            .self_test(me, self.link.retry)
            .map_err(|source| OpenError::SelfTest { device, source })?;
        Ok(Connected { geometry: self.geometry, link: self.link, parts })
    }

    /// The least that all owners have, the same for every path.
    fn settle(&mut self, all: &[Hello]) {
        for theirs in all {
            self.link.mtu = self.link.mtu.min(theirs.mtu);
            self.link.global |= theirs.global;
            let rd_atomic = theirs.initiator_rd_atomic.min(theirs.responder_rd_atomic);
            self.link.rd_atomic = self.link.rd_atomic.min(rd_atomic).max(1);
        }
    }
}

/// An owner that is ready. Not an engine yet, which would bid the others farewell if it went.
pub(super) struct Connected {
    pub(super) geometry: Geometry,
    pub(super) link: Link,
    pub(super) parts: Parts,
}

/// What an engine works with. The queue pairs go before what they use.
pub(super) struct Parts {
    pub(super) lanes: Vec<Lane>,
    /// The other end of this owner's lane to itself.
    pub(super) _mirror: QueuePair<ReadyToReceive>,
    pub(super) completions: CompletionQueue,
    pub(super) private: Private,
    pub(super) window: MemoryRegion<Box<dyn Memory + Send>>,
}

impl Parts {
    fn self_test(&mut self, me: Owner, retry: Retry) -> Result<(), SelfTestFailed> {
        let lane = self.lanes.get_mut(me.0 as usize);
        let scratch = self.window.words().first();
        let (lane, scratch) = lane.zip(scratch).ok_or(SelfTestFailed::NotRun)?;
        let test = SelfTest {
            lane,
            completions: &mut self.completions,
            private: &self.private,
            scratch,
            deadline: Deadline::after(SELF_TEST.min(retry.bound() * 4 + PATIENCE)),
        };
        test.run()
    }
}

fn peer(queue_pair: u32, hello: &Hello) -> Peer {
    let &Hello { psn, lid, gid, .. } = hello;
    Peer { queue_pair, psn, lid, gid }
}

fn random() -> Result<u32, OpenError> {
    let mut bytes = [0; 4];
    // SAFETY: the kernel writes at most as many bytes as there are.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) == Ok(bytes.len()) {
        return Ok(u32::from_ne_bytes(bytes));
    }
    Err(OpenError::Random { errno: VerbFailed::last("getrandom").errno })
}
