//! What opening an engine does before and after the owners have told each other of themselves.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;

use transport::{Exchange, Geometry, Owner};

use super::control::control_words;
use super::hello::Hello;
use super::lane::{BATCH, Lane};
use super::link::Link;
use super::private::Private;
use super::self_test::{SelfTest, SelfTestFailed};
use super::{Builder, OpenError, SPARE_REQUESTS};
use crate::{
    Access, AtomicCapability, Capacity, CompletionQueue, Context, DeviceLimits, DeviceList, Gid,
    INLINE_WORDS, Init, LinkLayer, Memory, MemoryRegion, Path, Peer, Port, ProtectionDomain,
    QueuePair, ReadyToReceive, Reset, Retry, VerbFailed, Verbs,
};

/// The largest depth: its completions fit every device's queue with some to spare.
const MAX_DEPTH: u32 = 1 << 14;

impl Builder {
    /// Everything that does not depend on the others.
    pub(super) fn create<E, F>(&self, exchange: &E, allocate: F) -> Result<Own, OpenError>
    where
        E: Exchange + ?Sized,
        F: FnOnce(&Context, usize) -> Result<Box<dyn Memory + Send>, OpenError>,
    {
        self.check()?;
        let (me, owners) = (exchange.me(), exchange.owners());
        let (context, port) = self.choose_port()?;
        let limits = context.limits()?;
        if limits.atomics == AtomicCapability::None {
            return Err(OpenError::NoAtomics { device: context.name().to_string() });
        }
        let gid = self.choose_gid(&context, &port)?;
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
        let private = Private::register(&domain, &geometry, self.depth)?;
        let words = usize::try_from(control_words(owners).saturating_add(self.window_words))
            .map_err(|_| OpenError::Sizes("the window does not fit the address space"))?;
        let window = MemoryRegion::register(&domain, allocate(&context, words)?, Access::WINDOW)?;
        if window.words().len() < words {
            return Err(OpenError::Sizes(
                "the memory for the window is shorter than was asked for",
            ));
        }
        // What an engine before this one was told in the same memory is over.
        let control = usize::try_from(control_words(owners)).unwrap_or(words);
        window.words().iter().take(control).for_each(|word| word.store(0, SeqCst));
        let (pairs, inline_words) = self.queue_pairs(&domain, &completions, &port, owners + 1)?;
        let (mirror, pairs) = split_mirror(pairs)?;
        let hello = Hello {
            window_words: self.window_words,
            slot_words: self.slot_words,
            packet_sequence: random()? & 0x00ff_ffff,
            region: window.remote(),
            gid: gid.map(|(_, gid)| gid).unwrap_or_default(),
            lid: port.lid,
            link_layer: port.link_layer,
            mtu: port.mtu,
            responder_reads: limits.responder_reads.min(self.reads),
            initiator_reads: limits.initiator_reads.min(self.reads),
            queue_pairs: pairs.iter().map(QueuePair::number).collect(),
        };
        let link = Link {
            device: context.name().to_string(),
            port: port.number,
            link_layer: port.link_layer,
            gid,
            mtu: port.mtu,
            reads: hello.initiator_reads,
            retry: self.retry,
            atomics: limits.atomics,
            inline_words,
            queue_pairs: owners + 1,
        };
        Ok(Own { geometry, link, hello, pairs, mirror, completions, private, window })
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
            Self { reads: 0, .. } => "at least 1 READ must be outstanding, or none ever completes",
            _ => return Ok(()),
        };
        Err(OpenError::Sizes(refusal))
    }

    /// The device and port that were asked for, or the first active one.
    fn choose_port(&self) -> Result<(Context, Port), OpenError> {
        let verbs = self.library.map_or_else(Verbs::load, Ok).map_err(OpenError::Library)?;
        let list = DeviceList::new(verbs)?;
        let found: Vec<String> = list.iter().map(|device| device.name()).collect();
        if found.is_empty() {
            return Err(OpenError::NoDevice);
        }
        let wanted = |name: &str| self.device.as_deref().is_none_or(|wanted| wanted == name);
        let mut inactive = Vec::new();
        for device in list.iter().filter(|device| wanted(&device.name())) {
            let context = device.open()?;
            let ports = context.limits()?.ports;
            let numbers = self.port.map_or(1..=ports, |port| port..=port);
            for number in numbers {
                let port = context.port(number)?;
                if port.active {
                    return Ok((context, port));
                }
                inactive.push(alloc::format!("{}/{number}", context.name()));
            }
        }
        match self.device.clone() {
            Some(name) if inactive.is_empty() => Err(OpenError::NoSuchDevice { name, found }),
            _ => Err(OpenError::NoActivePort { ports: inactive }),
        }
    }

    fn choose_gid(&self, context: &Context, port: &Port) -> Result<Option<(u8, Gid)>, OpenError> {
        if port.link_layer == LinkLayer::Infiniband {
            return Ok(None);
        }
        let chosen = context.choose_gid(port, self.gid_index);
        chosen.map(Some).map_err(|source| OpenError::Gid {
            device: context.name().to_string(),
            port: port.number,
            source,
        })
    }

    fn check_limits(
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

    /// So many queue pairs in INIT, and the words that they carry inline: all that are of use, or
    /// none where the device does not.
    fn queue_pairs(
        &self,
        domain: &ProtectionDomain,
        completions: &CompletionQueue,
        port: &Port,
        count: u32,
    ) -> Result<(Vec<QueuePair<Init>>, u32), OpenError> {
        let requests = self.depth + SPARE_REQUESTS;
        let make = |inline_words| {
            QueuePair::<Reset>::new(domain, completions, Capacity { requests, inline_words })
        };
        #[allow(clippy::cast_possible_truncation)]
        let mut inline_words = INLINE_WORDS as u32;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let pair = match make(inline_words) {
                Err(_) if pairs.is_empty() => {
                    inline_words = 0;
                    make(inline_words)?
                }
                made => made?,
            };
            pairs.push(pair.init(port, Access::WINDOW)?);
        }
        Ok((pairs, inline_words))
    }
}

/// What an owner has before it knows the others.
pub(super) struct Own {
    geometry: Geometry,
    link: Link,
    pub(super) hello: Hello,
    /// By owner; the one for this owner itself is connected to the mirror.
    pairs: Vec<QueuePair<Init>>,
    mirror: QueuePair<Init>,
    completions: CompletionQueue,
    private: Private,
    window: MemoryRegion<Box<dyn Memory + Send>>,
}

impl Own {
    /// Connects all queue pairs to their peers, and tries the atomics on this owner's own words.
    pub(super) fn connect(mut self, all: &[Hello]) -> Result<Connected, OpenError> {
        let owners = || (0..).map(Owner).zip(all);
        owners().try_for_each(|(owner, theirs)| self.hello.agree(owner, theirs))?;
        self.settle(all);
        let me = self.geometry.me;
        let path = Path {
            port: self.link.port,
            link_layer: self.link.link_layer,
            gid_index: self.link.gid.map_or(0, |(index, _)| index),
            mtu: self.link.mtu,
            reads: self.link.reads,
            packet_sequence: self.hello.packet_sequence,
            retry: self.link.retry,
        };
        let mirror = self.mirror.number();
        let control = control_words(self.geometry.owners);
        let mut lanes = Vec::with_capacity(all.len());
        for ((owner, theirs), pair) in owners().zip(self.pairs) {
            // What the owner has for this one; or for itself, the mirror.
            let theirs_for_me = theirs.queue_pairs.get(me.0 as usize).copied();
            let number = if owner == me { Some(mirror) } else { theirs_for_me };
            let number = number.ok_or(OpenError::PeerFailed(owner))?;
            let pair = pair.ready_to_receive(&peer(number, theirs), &path)?.ready_to_send(&path)?;
            lanes.push(Lane::new(pair, theirs.region, control));
        }
        let own = self.hello.queue_pairs.get(me.0 as usize).copied().unwrap_or_default();
        let mirror = self.mirror.ready_to_receive(&peer(own, &self.hello), &path)?;
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
            let reads = theirs.initiator_reads.min(theirs.responder_reads);
            self.link.reads = self.link.reads.min(reads).max(1);
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
        let Some((lane, scratch)) = lane.zip(scratch) else { return Ok(()) };
        let test = SelfTest {
            lane,
            completions: &mut self.completions,
            private: &self.private,
            scratch,
            retry: retry.bound(),
        };
        test.run()
    }
}

fn peer(queue_pair: u32, hello: &Hello) -> Peer {
    let &Hello { packet_sequence, lid, gid, .. } = hello;
    Peer { queue_pair, packet_sequence, lid, gid }
}

/// Takes the last queue pair, which answers this owner's own requests.
fn split_mirror(
    mut pairs: Vec<QueuePair<Init>>,
) -> Result<(QueuePair<Init>, Vec<QueuePair<Init>>), OpenError> {
    match pairs.pop() {
        Some(mirror) => Ok((mirror, pairs)),
        None => Err(OpenError::Sizes("there is no queue pair")),
    }
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

// The lists of a lane and what is spare fit its queue pair.
const _: () = assert!(BATCH <= MAX_DEPTH as usize);
