//! Reliable connected queue pairs, whose states are types.

use alloc::sync::Arc;
use core::cell::Cell;
use core::error::Error;
use core::ffi::c_int;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::{self, NonNull};

use probeline_verbs_sys as sys;

use crate::completion::Created;
use crate::work_request::Prepared;
use crate::{
    Access, CompletionQueue, Gid, Mtu, Port, ProtectionDomain, Retry, VerbFailed, WorkRequest,
    WorkRequestList,
};

/// The state of a new queue pair.
#[derive(Debug)]
pub struct Reset(());
/// The queue pair has a port and access rights.
#[derive(Debug)]
pub struct Init(());
/// The queue pair is connected to a peer and answers its requests.
#[derive(Debug)]
pub struct ReadyToReceive(());
/// The queue pair takes work requests.
#[derive(Debug)]
pub struct ReadyToSend(());

/// A reliable connected queue pair in state `S` (InfiniBand specification, 10.3.1). A transition
/// takes it and returns it in the next state; if it fails, the queue pair is destroyed.
///
/// Requests can be posted only in the state [`ReadyToSend`]:
///
/// ```compile_fail,E0599
/// fn early(pair: &mut probeline_verbs::QueuePair<probeline_verbs::Init>, request: &probeline_verbs::WorkRequest) {
///     let _ = pair.post(request);
/// }
/// ```
/// No transition can be skipped or repeated:
///
/// ```compile_fail,E0599
/// fn hasty(pair: probeline_verbs::QueuePair<probeline_verbs::Reset>, peer: &probeline_verbs::Peer, path: &probeline_verbs::Path) {
///     let _ = pair.ready_to_receive(peer, path);
/// }
/// ```
/// ```compile_fail,E0382
/// fn twice(pair: probeline_verbs::QueuePair<probeline_verbs::Reset>, port: &probeline_verbs::Port) {
///     let _ = pair.init(port, 0, probeline_verbs::Access::WINDOW);
///     let _ = pair.init(port, 0, probeline_verbs::Access::WINDOW);
/// }
/// ```
/// It may be sent to another thread and is used by one thread at a time:
///
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<probeline_verbs::QueuePair<probeline_verbs::ReadyToSend>>();
/// ```
pub struct QueuePair<S> {
    pair: Owned,
    state: PhantomData<S>,
}

/// The capacity of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The maximum number of outstanding work requests.
    pub requests: u32,
    /// Words that an inline WRITE may carry, at most [`crate::INLINE_WORDS`].
    pub inline_words: u32,
}

/// The other end of a connection, as the peer has sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The number of the peer's queue pair.
    pub queue_pair: u32,
    /// The peer's first packet sequence number, 24 bits.
    pub psn: u32,
    /// The address of the peer's port on InfiniBand.
    pub lid: u16,
    /// The address of the peer's port on Ethernet.
    pub gid: Gid,
}

/// The path to a peer. Both ends need the same values, except for port, GID index and PSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The local port.
    pub port: u8,
    /// Whether packets carry a global route header: see [`Port::global`].
    pub global: bool,
    /// The index of the local GID.
    pub gid_index: u8,
    /// The traffic class in the global route header: on Ethernet DSCP and ECN.
    pub traffic_class: u8,
    /// The service level on InfiniBand, 0 to 15; on Ethernet the priority, 0 to 7.
    pub service_level: u8,
    /// The payload of a packet, at most the MTU of both ports.
    pub mtu: Mtu,
    /// READs and atomics outstanding at once, at least 1 and at most the limits of both devices.
    pub rd_atomic: u8,
    /// The first local packet sequence number, 24 bits.
    pub psn: u32,
    /// The timeout and the number of retries of a request.
    pub retry: Retry,
}

impl Path {
    /// Creates a path over `port` with its MTU, its first GID, one READ or atomic outstanding, and traffic
    /// class 0.
    #[must_use]
    pub fn over(port: &Port) -> Self {
        Self {
            port: port.number,
            global: port.global,
            gid_index: 0,
            traffic_class: 0,
            service_level: 0,
            mtu: port.mtu,
            rd_atomic: 1,
            psn: 0,
            retry: Retry::default(),
        }
    }
}

/// The reason why requests were not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostFailed {
    /// The number of requests before the refused one, which are posted. Those after it are not.
    pub posted: usize,
    /// The error: ENOMEM for a full queue pair, EINVAL for an unsupported request.
    pub errno: i32,
    /// The library did not report which request it refused, for example because a doorbell failed:
    /// each request may still be carried out, at any time, and may complete or not.
    pub in_doubt: bool,
}

impl fmt::Display for PostFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.errno == libc::ENOMEM {
            return f.write_str("the queue pair is full: poll, then post");
        }
        VerbFailed { verb: "ibv_post_send", errno: self.errno }.fmt(f)
    }
}

impl Error for PostFailed {}

/// The maximum number of hops to a peer: the largest value, as in perftest.
const HOP_LIMIT: u8 = 0xff;
/// The shortest RNR timer, 0.01 ms. One-sided requests do not use it.
const MIN_RNR_TIMER: u8 = 1;

struct Owned {
    pair: NonNull<sys::ibv_qp>,
    /// Dropped only if the queue pair was destroyed.
    parts: ManuallyDrop<Parts>,
    _of_one_thread: PhantomData<Cell<()>>,
}

/// The objects that the device uses for a queue pair.
struct Parts {
    domain: ProtectionDomain,
    _completions: Arc<Created>,
}

// SAFETY: any thread may use it, one at a time, which `&mut` ensures.
unsafe impl Send for Owned {}

impl Owned {
    fn modify(
        &mut self,
        step: &'static str,
        attr: &mut sys::ibv_qp_attr,
        mask: u32,
    ) -> Result<(), VerbFailed> {
        let modify = self.parts.domain.context().verbs().ibv_modify_qp;
        let mask = (mask | sys::IBV_QP_STATE).cast_signed();
        // SAFETY: the queue pair is alive; the library reads the fields that the mask names.
        VerbFailed::check(step, unsafe { modify(self.pair.as_ptr(), attr, mask) })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let destroy = self.parts.domain.context().verbs().ibv_destroy_qp;
        // SAFETY: created in `new`, destroyed here only.
        if unsafe { destroy(self.pair.as_ptr()) } != 0 {
            // The device may still use it: its domain and completion queue are leaked.
            return;
        }
        // SAFETY: dropped here only.
        unsafe { ManuallyDrop::drop(&mut self.parts) };
    }
}

impl QueuePair<Reset> {
    /// Creates a queue pair that can access the regions of `domain` and completes to `completions`.
    ///
    /// # Errors
    /// [`VerbFailed`]: EINVAL or ENOMEM if the capacity is too large.
    pub fn new(
        domain: &ProtectionDomain,
        completions: &CompletionQueue,
        capacity: Capacity,
    ) -> Result<Self, VerbFailed> {
        let created = completions.created();
        let mut attr = sys::ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: created.as_ptr(),
            recv_cq: created.as_ptr(),
            srq: ptr::null_mut(),
            cap: sys::ibv_qp_cap {
                max_send_wr: capacity.requests,
                // Nothing is received, but some providers refuse 0.
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: capacity.inline_words.saturating_mul(8),
            },
            qp_type: sys::IBV_QPT_RC,
            sq_sig_all: 0,
        };
        let create = domain.context().verbs().ibv_create_qp;
        // SAFETY: domain and completion queue are alive while the queue pair holds them.
        let pair = unsafe { create(domain.as_ptr(), &raw mut attr) };
        let pair = NonNull::new(pair).ok_or_else(|| VerbFailed::last("ibv_create_qp"))?;
        let parts = Parts { domain: domain.clone(), _completions: Arc::clone(created) };
        let parts = ManuallyDrop::new(parts);
        Ok(Self::in_state(Owned { pair, parts, _of_one_thread: PhantomData }))
    }

    /// Moves the queue pair from RESET to INIT: sets the port, the entry of its partition key table
    /// (mostly 0), and the operations that the peer may perform.
    ///
    /// # Errors
    /// [`VerbFailed`]: EINVAL if there is no such entry.
    pub fn init(
        mut self,
        port: &Port,
        pkey_index: u16,
        access: Access,
    ) -> Result<QueuePair<Init>, VerbFailed> {
        let mut attr = no_attributes();
        attr.qp_state = sys::IBV_QPS_INIT;
        attr.port_num = port.number;
        attr.pkey_index = pkey_index;
        attr.qp_access_flags = access.code();
        let mask = sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_ACCESS_FLAGS;
        self.pair.modify("ibv_modify_qp to INIT", &mut attr, mask)?;
        Ok(QueuePair::in_state(self.pair))
    }
}

impl QueuePair<Init> {
    /// Moves the queue pair from INIT to RTR: it answers the peer's requests from now on.
    ///
    /// # Errors
    /// [`VerbFailed`]: EINVAL if the device does not support these values, ETIMEDOUT if the peer's
    /// address cannot be resolved.
    pub fn ready_to_receive(
        mut self,
        peer: &Peer,
        path: &Path,
    ) -> Result<QueuePair<ReadyToReceive>, VerbFailed> {
        let mut attr = no_attributes();
        attr.qp_state = sys::IBV_QPS_RTR;
        attr.path_mtu = u32::from(path.mtu.code());
        attr.dest_qp_num = peer.queue_pair;
        attr.rq_psn = peer.psn;
        attr.max_dest_rd_atomic = path.rd_atomic;
        attr.min_rnr_timer = MIN_RNR_TIMER;
        attr.ah_attr.port_num = path.port;
        attr.ah_attr.dlid = peer.lid;
        attr.ah_attr.sl = path.service_level;
        if path.global {
            attr.ah_attr.is_global = 1;
            attr.ah_attr.grh.traffic_class = path.traffic_class;
            attr.ah_attr.grh.dgid.raw = peer.gid.0;
            attr.ah_attr.grh.sgid_index = path.gid_index;
            attr.ah_attr.grh.hop_limit = HOP_LIMIT;
        }
        let mask = sys::IBV_QP_AV
            | sys::IBV_QP_PATH_MTU
            | sys::IBV_QP_DEST_QPN
            | sys::IBV_QP_RQ_PSN
            | sys::IBV_QP_MAX_DEST_RD_ATOMIC
            | sys::IBV_QP_MIN_RNR_TIMER;
        self.pair.modify("ibv_modify_qp to RTR", &mut attr, mask)?;
        Ok(QueuePair::in_state(self.pair))
    }
}

impl QueuePair<ReadyToReceive> {
    /// Moves the queue pair from RTR to RTS: it takes work requests from now on. The peer must be in
    /// RTR before the first one is posted.
    ///
    /// # Errors
    /// [`VerbFailed`] with the code of the transition.
    pub fn ready_to_send(mut self, path: &Path) -> Result<QueuePair<ReadyToSend>, VerbFailed> {
        let mut attr = no_attributes();
        attr.qp_state = sys::IBV_QPS_RTS;
        attr.sq_psn = path.psn;
        attr.max_rd_atomic = path.rd_atomic;
        attr.timeout = path.retry.timeout();
        attr.retry_cnt = path.retry.count();
        attr.rnr_retry = path.retry.count();
        let mask = sys::IBV_QP_SQ_PSN
            | sys::IBV_QP_MAX_QP_RD_ATOMIC
            | sys::IBV_QP_TIMEOUT
            | sys::IBV_QP_RETRY_CNT
            | sys::IBV_QP_RNR_RETRY;
        self.pair.modify("ibv_modify_qp to RTS", &mut attr, mask)?;
        Ok(QueuePair::in_state(self.pair))
    }
}

impl QueuePair<ReadyToSend> {
    /// Posts one request with one doorbell.
    ///
    /// # Errors
    /// [`PostFailed`] states whether the request was certainly not posted.
    #[inline]
    pub fn post(&mut self, request: &WorkRequest) -> Result<(), PostFailed> {
        // The library does not read the fields that a request leaves uninitialised.
        let mut prepared = MaybeUninit::<Prepared>::uninit();
        let prepared = prepared.as_mut_ptr();
        // SAFETY: a local that lives until the request is posted.
        unsafe {
            Prepared::link(prepared, ptr::null_mut());
            Prepared::fill(prepared, request);
        }
        self.post_chain(prepared.cast()).map_err(|(errno, refused)| PostFailed {
            posted: 0,
            errno,
            in_doubt: refused.is_null(),
        })
    }

    /// Posts all requests of `list`, in their order and with one doorbell, and empties the list.
    ///
    /// # Errors
    /// [`PostFailed`]: the requests from the refused one on were not posted and stay in the list.
    /// If it is unknown which requests were posted, all stay in the list.
    #[inline]
    pub fn post_list(&mut self, list: &mut WorkRequestList) -> Result<(), PostFailed> {
        let Some(first) = list.first() else { return Ok(()) };
        match self.post_chain(first) {
            Ok(()) => {
                list.clear();
                Ok(())
            }
            Err((errno, refused)) if refused.is_null() => {
                Err(PostFailed { posted: 0, errno, in_doubt: true })
            }
            Err((errno, refused)) => {
                Err(PostFailed { posted: list.keep_from(refused), errno, in_doubt: false })
            }
        }
    }

    #[inline]
    fn post_chain(
        &mut self,
        first: *mut sys::ibv_send_wr,
    ) -> Result<(), (c_int, *mut sys::ibv_send_wr)> {
        let mut refused = ptr::null_mut();
        // SAFETY: the queue pair is alive and takes requests; `first` is a list of requests that
        // `Prepared::fill` has filled, ended by null, to which the library keeps no pointer. Their
        // memory is that of a region or inline; with a wrong key they fail at the device.
        match unsafe { sys::ibv_post_send(self.pair.pair.as_ptr(), first, &raw mut refused) } {
            0 => Ok(()),
            returned => Err((VerbFailed::from_returned("ibv_post_send", returned).errno, refused)),
        }
    }

    /// Moves the queue pair to the error state: outstanding requests complete as flushed, and the
    /// peer's requests are not answered any more. This is a control verb, not for the data path.
    ///
    /// # Errors
    /// [`VerbFailed`] with the code of the transition.
    pub fn fail(&mut self) -> Result<(), VerbFailed> {
        let mut attr = no_attributes();
        attr.qp_state = sys::IBV_QPS_ERR;
        self.pair.modify("ibv_modify_qp to ERR", &mut attr, 0)
    }
}

impl<S> QueuePair<S> {
    fn in_state(pair: Owned) -> Self {
        Self { pair, state: PhantomData }
    }

    /// Returns the number of the queue pair, which the peer needs.
    #[must_use]
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is alive, and its number never changes.
        unsafe { (*self.pair.pair.as_ptr()).qp_num }
    }
}

impl<S> fmt::Debug for QueuePair<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair").field("number", &self.number()).finish_non_exhaustive()
    }
}

fn no_attributes() -> sys::ibv_qp_attr {
    // SAFETY: plain numbers, for which zero is valid.
    unsafe { MaybeUninit::zeroed().assume_init() }
}
