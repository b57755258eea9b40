//! Completion queues, and what they tell.

use alloc::sync::Arc;
use core::cell::Cell;
use core::ffi::c_int;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use probeline_verbs_sys as sys;

use crate::{Context, Status, VerbFailed};

/// Where the ends of work requests arrive (ibv_create_cq(3)). Many queue pairs may share one; it
/// is destroyed with the last of them.
///
/// It may be sent to another thread, and is polled by one at a time:
///
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<probeline_verbs::CompletionQueue>();
/// ```
pub struct CompletionQueue(Arc<Created>, PhantomData<Cell<()>>);

/// What queue pairs hold of their completion queue.
pub(crate) struct Created {
    queue: NonNull<sys::ibv_cq>,
    context: Context,
    entries: u32,
}

// SAFETY: any thread may destroy it; polling takes the one CompletionQueue by `&mut`.
unsafe impl Send for Created {}
// SAFETY: as above. Queue pairs use its address only.
unsafe impl Sync for Created {}

impl CompletionQueue {
    /// A queue for at least `entries` completions that were not polled for.
    ///
    /// More than that at once overrun it, which ends it and its queue pairs: that no more work
    /// requests are outstanding on all of them together is their user's duty.
    ///
    /// # Errors
    /// [`VerbFailed`]: EINVAL for none, or more than [`crate::DeviceLimits::completions`].
    pub fn new(context: &Context, entries: u32) -> Result<Self, VerbFailed> {
        let asked = c_int::try_from(entries).unwrap_or(c_int::MAX);
        let create = context.verbs().ibv_create_cq;
        // SAFETY: the context is open, and stays so while the queue holds it. No completion
        // channel, vector 0.
        let queue = unsafe { create(context.as_ptr(), asked, ptr::null_mut(), ptr::null_mut(), 0) };
        let queue = NonNull::new(queue).ok_or_else(|| VerbFailed::last("ibv_create_cq"))?;
        Ok(Self(Arc::new(Created { queue, context: context.clone(), entries }), PhantomData))
    }

    /// Entries that were asked for.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.0.entries
    }

    pub(crate) fn created(&self) -> &Arc<Created> {
        &self.0
    }

    /// Moves completions into `out`, oldest first, and says how many. Never waits.
    ///
    /// # Errors
    /// [`VerbFailed`]: the queue was overrun, or its device is gone.
    #[inline]
    pub fn poll(&mut self, out: &mut [WorkCompletion]) -> Result<usize, VerbFailed> {
        let room = c_int::try_from(out.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is alive, `&mut` makes this the only poll, and a WorkCompletion is an
        // `ibv_wc`, of which there is room for as many.
        let found =
            unsafe { sys::ibv_poll_cq(self.0.queue.as_ptr(), room, out.as_mut_ptr().cast()) };
        usize::try_from(found).map_err(|_| poll_failed())
    }
}

/// The value that a provider gives is its own, no errno.
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
        // SAFETY: all queue pairs that use it held it, and are gone.
        if unsafe { (self.context.verbs().ibv_destroy_cq)(self.queue.as_ptr()) } != 0 {
            // It lives as long as the process, and so does its device.
            core::mem::forget(self.context.clone());
        }
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").field("entries", &self.entries()).finish_non_exhaustive()
    }
}

/// The end of a work request.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct WorkCompletion(sys::ibv_wc);

// SAFETY: plain numbers.
unsafe impl Send for WorkCompletion {}
// SAFETY: plain numbers.
unsafe impl Sync for WorkCompletion {}

impl WorkCompletion {
    /// The name the request was posted under.
    #[inline]
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    /// How it ended.
    ///
    /// # Errors
    /// The [`Status`] of a request that failed: its effect is unknown, and its queue pair is in
    /// the error state.
    #[inline]
    pub fn result(&self) -> Result<(), Status> {
        Status::of(self.0.status)
    }

    /// The number of its queue pair.
    #[inline]
    #[must_use]
    pub fn queue_pair(&self) -> u32 {
        self.0.qp_num
    }

    /// The vendor's own code of an error.
    #[must_use]
    pub fn vendor_error(&self) -> u32 {
        self.0.vendor_err
    }
}

impl Default for WorkCompletion {
    /// A value to fill the array that is handed to `poll`.
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
