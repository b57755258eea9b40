//! Completion queues, the completions in them, and their statuses.

use alloc::sync::Arc;
use core::cell::Cell;
use core::error::Error;
use core::ffi::c_int;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use probeline_verbs_sys as sys;

use crate::{Context, VerbFailed};

/// A completion queue (ibv_create_cq(3)). Queue pairs may share one, which is destroyed with the
/// last of them.
///
/// It may be sent to another thread and is polled by one thread at a time:
///
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<probeline_verbs::CompletionQueue>();
/// ```
pub struct CompletionQueue(Arc<Created>, PhantomData<Cell<()>>);

/// The part of a completion queue that its queue pairs keep alive.
pub(crate) struct Created {
    queue: NonNull<sys::ibv_cq>,
    context: Context,
}

// SAFETY: any thread may destroy it; polling takes the one CompletionQueue by `&mut`.
unsafe impl Send for Created {}
// SAFETY: polling takes the one CompletionQueue by `&mut`; queue pairs use its address only.
unsafe impl Sync for Created {}

impl CompletionQueue {
    /// Creates a queue for at least `entries` completions.
    ///
    /// The caller keeps at most that number of work requests outstanding on all its queue pairs
    /// together. More completions would overrun the queue, which fails it and its queue pairs.
    ///
    /// # Errors
    /// [`VerbFailed`]: EINVAL for 0, or more than [`crate::DeviceLimits::completions`].
    pub fn new(context: &Context, entries: u32) -> Result<Self, VerbFailed> {
        let asked = c_int::try_from(entries).unwrap_or(c_int::MAX);
        let create = context.verbs().ibv_create_cq;
        // SAFETY: the context is open while the queue holds it. No completion channel, vector 0.
        let queue = unsafe { create(context.as_ptr(), asked, ptr::null_mut(), ptr::null_mut(), 0) };
        let queue = NonNull::new(queue).ok_or_else(|| VerbFailed::last("ibv_create_cq"))?;
        Ok(Self(Arc::new(Created { queue, context: context.clone() }), PhantomData))
    }

    pub(crate) fn created(&self) -> &Arc<Created> {
        &self.0
    }

    /// Moves completions into `out`, oldest first, and returns their number. Never waits.
    ///
    /// # Errors
    /// [`VerbFailed`]: the queue was overrun, or its device is gone.
    #[inline]
    pub fn poll(&mut self, out: &mut [WorkCompletion]) -> Result<usize, VerbFailed> {
        let room = c_int::try_from(out.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is alive, `&mut` makes this the only poll, and `out` has room for
        // `room` values of `ibv_wc`, which a WorkCompletion is.
        let found =
            unsafe { sys::ibv_poll_cq(self.0.queue.as_ptr(), room, out.as_mut_ptr().cast()) };
        usize::try_from(found).map_err(|_| poll_failed())
    }
}

/// Returns the error of a failed poll. A provider returns its own value, not an errno.
#[cold]
fn poll_failed() -> VerbFailed {
    VerbFailed { verb: "ibv_poll_cq", errno: libc::EIO }
}

impl Created {
    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_cq {
        self.queue.as_ptr()
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        // SAFETY: queue pairs hold the completion queue that they use, so all of them are
        // destroyed.
        if unsafe { (self.context.verbs().ibv_destroy_cq)(self.queue.as_ptr()) } != 0 {
            // The queue is leaked, and so is its device.
            core::mem::forget(self.context.clone());
        }
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

/// The completion of a work request.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct WorkCompletion(sys::ibv_wc);

// SAFETY: plain numbers.
unsafe impl Send for WorkCompletion {}
// SAFETY: plain numbers.
unsafe impl Sync for WorkCompletion {}

impl WorkCompletion {
    /// Returns the ID under which the request was posted.
    #[inline]
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    /// Returns the result of the request.
    ///
    /// # Errors
    /// The [`Status`] of a request that failed: its effect is unknown, and its queue pair is in
    /// the error state.
    #[inline]
    pub fn result(&self) -> Result<(), Status> {
        Status::from_code(self.0.status)
    }

    /// Returns the number of the queue pair.
    #[inline]
    #[must_use]
    pub fn queue_pair(&self) -> u32 {
        self.0.qp_num
    }

    /// Returns the vendor's error code.
    #[must_use]
    pub fn vendor_error(&self) -> u32 {
        self.0.vendor_err
    }
}

impl Default for WorkCompletion {
    /// Returns a value for the array that is passed to `poll`.
    fn default() -> Self {
        // SAFETY: plain numbers, for which zero is valid.
        Self(unsafe { MaybeUninit::zeroed().assume_init() })
    }
}

impl fmt::Debug for WorkCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkCompletion")
            .field("id", &self.id())
            .field("result", &self.result())
            .field("queue_pair", &self.queue_pair())
            .finish_non_exhaustive()
    }
}

/// The reason why a work request failed, a code of `enum ibv_wc_status` (InfiniBand specification,
/// 10.10.3; ibv_poll_cq(3)). Its queue pair enters the error state, which flushes later requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u32);

impl Status {
    /// The local range is not registered for this access.
    pub const LOCAL_PROTECTION: Self = Self(sys::IBV_WC_LOC_PROT_ERR);
    /// Flushed because the queue pair had failed.
    pub const FLUSHED: Self = Self(sys::IBV_WC_WR_FLUSH_ERR);
    /// The responder's memory is not registered for this access.
    pub const REMOTE_ACCESS: Self = Self(sys::IBV_WC_REM_ACCESS_ERR);
    /// The responder did not acknowledge within the retries.
    pub const RETRY_EXCEEDED: Self = Self(sys::IBV_WC_RETRY_EXC_ERR);

    /// Returns the result for a completion's code.
    ///
    /// # Errors
    /// The status, unless the code is success.
    #[inline]
    pub const fn from_code(code: u32) -> Result<(), Self> {
        if code == sys::IBV_WC_SUCCESS { Ok(()) } else { Err(Self(code)) }
    }

    /// Returns the code.
    #[must_use]
    pub const fn code(self) -> u32 {
        self.0
    }
}

/// Names the statuses that one-sided requests of reliable connections can have.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            sys::IBV_WC_LOC_LEN_ERR => "the message does not fit the local buffer",
            sys::IBV_WC_LOC_QP_OP_ERR => "the queue pair cannot carry out the request",
            sys::IBV_WC_LOC_PROT_ERR => "the local range is not registered for this access",
            sys::IBV_WC_WR_FLUSH_ERR => "flushed, the queue pair had failed",
            sys::IBV_WC_BAD_RESP_ERR => "the responder sent an unexpected response",
            sys::IBV_WC_REM_INV_REQ_ERR => "the responder does not support the request",
            sys::IBV_WC_REM_ACCESS_ERR => {
                "the responder's memory is not registered for this access"
            }
            sys::IBV_WC_REM_OP_ERR => "the responder could not carry out the request",
            sys::IBV_WC_RETRY_EXC_ERR => "the responder did not answer within the retries",
            sys::IBV_WC_RNR_RETRY_EXC_ERR => "the responder was not ready to receive",
            sys::IBV_WC_REM_ABORT_ERR => "the responder aborted the request",
            sys::IBV_WC_FATAL_ERR => "the device failed",
            sys::IBV_WC_RESP_TIMEOUT_ERR => "the responder's answer took too long",
            sys::IBV_WC_GENERAL_ERR => "the device reported a general error",
            code => return write!(f, "completion status {code} (enum ibv_wc_status)"),
        })
    }
}

impl Error for Status {}
