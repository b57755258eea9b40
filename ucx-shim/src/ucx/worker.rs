//! Workers of UCP, which progress communication, their connections to the other owners, and the
//! thread that progresses a worker for peers' operations.

use core::ffi::c_int;
use core::ptr;
use core::slice;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use probeline_transport::WORD_BYTES;
use probeline_ucx_sys::{
    UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
    UCP_ERR_HANDLING_MODE_NONE, UCP_WORKER_PARAM_FIELD_THREAD_MODE, UCS_ERR_BUSY, UCS_OK,
    UCS_THREAD_MODE_SERIALIZED, Ucp, ucp_ep_h, ucp_ep_params_t, ucp_rkey_h, ucp_worker_h,
    ucp_worker_params_t,
};

use super::OpenError;
use super::connection_info::ConnectionInfo;
use super::context::Context;
use super::error::{check, failed};

/// A worker, for one thread at a time.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) context: Rc<Context>,
    pub(super) calls: WorkerCalls,
}

impl Worker {
    pub(super) fn create(context: &Rc<Context>) -> Result<Self, OpenError> {
        // SAFETY: a struct of integers, pointers and arrays of them, for which zero is valid; UCP
        // reads only the fields in the mask.
        let mut params: ucp_worker_params_t = unsafe { core::mem::zeroed() };
        params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE.into();
        params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
        let mut handle = ptr::null_mut();
        let ucp = &context.ucp;
        // SAFETY: an open context and live pointers; the field in the mask is set.
        let status =
            unsafe { (ucp.ucp_worker_create)(context.handle, &raw const params, &raw mut handle) };
        check(ucp, "ucp_worker_create", status)?;
        Ok(Self { context: Rc::clone(context), calls: WorkerCalls { ucp: *ucp, handle } })
    }

    /// Returns the address that peers' endpoints connect to.
    pub(super) fn address(&self) -> Result<Vec<u8>, OpenError> {
        let ucp = &self.context.ucp;
        let (mut address, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: a live worker and live pointers for the results.
        let status = unsafe {
            (ucp.ucp_worker_get_address)(self.calls.handle, &raw mut address, &raw mut bytes)
        };
        check(ucp, "ucp_worker_get_address", status)?;
        // SAFETY: the address has this number of bytes until it is released, below.
        let copy = unsafe { slice::from_raw_parts(address.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: the address is of this worker and is released once.
        unsafe { (ucp.ucp_worker_release_address)(self.calls.handle, address) };
        Ok(copy)
    }

    /// Returns the descriptor that becomes readable when the armed worker has something to
    /// progress.
    fn event_fd(&self) -> Result<c_int, OpenError> {
        let mut fd = -1;
        // SAFETY: a live worker and a live pointer for the result.
        let status =
            unsafe { (self.context.ucp.ucp_worker_get_efd)(self.calls.handle, &raw mut fd) };
        check(&self.context.ucp, "ucp_worker_get_efd", status)?;
        Ok(fd)
    }

    /// Lends this worker to another thread.
    ///
    /// # Safety
    /// The result is not used after the worker is dropped, and never at the same time as the worker
    /// or another loan of it.
    pub(super) unsafe fn lend(&self) -> WorkerCalls {
        self.calls
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: created above and destroyed once, with its endpoints. The engine drops its keys
        // before, and afterwards nothing of the worker calls back.
        unsafe { (self.context.ucp.ucp_worker_destroy)(self.calls.handle) };
    }
}

/// The calls on a worker, for the thread that uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerCalls {
    ucp: Ucp,
    pub(super) handle: ucp_worker_h,
}

// SAFETY: workers are created in serialized mode, and one thread at a time uses them, which the
// caller of `lend` upholds.
unsafe impl Send for WorkerCalls {}

impl WorkerCalls {
    /// Progresses communication. Returns whether it made progress.
    #[inline]
    pub(super) fn progress(&self) -> bool {
        // SAFETY: a live worker, which one thread at a time uses: the worker has these calls, or
        // they are lent.
        unsafe { (self.ucp.ucp_worker_progress)(self.handle) != 0 }
    }

    /// Arms the descriptor. Returns false if the worker must be progressed first.
    fn arm(&self) -> Result<bool, OpenError> {
        // SAFETY: as in `progress`.
        match unsafe { (self.ucp.ucp_worker_arm)(self.handle) } {
            UCS_OK => Ok(true),
            UCS_ERR_BUSY => Ok(false),
            status => Err(failed(&self.ucp, "ucp_worker_arm", status)),
        }
    }
}

/// The maximum time to wait for events, in milliseconds. If an event is missed, peers' operations
/// wait no longer than that.
const WAIT_MS: c_int = 100;

/// A thread that sleeps until a worker has events, and progresses it. Dropping this stops the
/// thread.
pub(super) struct ProgressThread {
    shared: Arc<Shared>,
    worker: WorkerCalls,
    thread: Option<JoinHandle<()>>,
}

/// Whether the thread must end. The thread holds the lock while it uses the worker.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<bool>);

impl Shared {
    /// Keeps the thread from using the worker until the guard is dropped. Returns within the time
    /// of the thread's calls on the worker.
    pub(super) fn pause(&self) -> MutexGuard<'_, bool> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgressThread {
    /// Starts a thread that progresses `worker`.
    ///
    /// # Safety
    /// The worker outlives the result, and no other thread uses it unless this thread is paused.
    pub(super) unsafe fn start(worker: &Worker) -> Result<Self, OpenError> {
        let events = worker.event_fd()?;
        // SAFETY: the caller upholds that the worker outlives the thread, and pauses it to use the
        // worker.
        let lent = unsafe { worker.lend() };
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("ucx-progress".into())
            .spawn(move || progress_until_told(lent, events, &of_thread))
            .map_err(|error| OpenError::Thread { errno: error.raw_os_error().unwrap_or(0) })?;
        Ok(Self { shared, worker: lent, thread: Some(thread) })
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        *self.shared.pause() = true;
        // SAFETY: may be called from any thread in any thread mode. The caller of `start` upholds
        // that the worker outlives this value. If the call fails, the thread wakes after `WAIT_MS`.
        unsafe { (self.worker.ucp.ucp_worker_signal)(self.worker.handle) };
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic; if it did, it would have ended too.
            let _ = thread.join();
        }
    }
}

fn progress_until_told(worker: WorkerCalls, events: c_int, shared: &Shared) {
    loop {
        let must_end = shared.pause();
        if *must_end {
            return;
        }
        // Arming a completion queue gives no event for completions that arrived before
        // (ibv_req_notify_cq(3)), hence one more call of progress. Without arming, the wait is a
        // sleep of `WAIT_MS`.
        let idle = !worker.progress() && worker.arm().unwrap_or(true) && !worker.progress();
        drop(must_end);
        if idle {
            let mut descriptor = libc::pollfd { fd: events, events: libc::POLLIN, revents: 0 };
            // SAFETY: one live descriptor. Whatever the result, the worker is progressed next.
            unsafe { libc::poll(&raw mut descriptor, 1, WAIT_MS) };
        }
    }
}

/// A connection to one owner. Its endpoint is destroyed with the worker.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) endpoint: ucp_ep_h,
    pub(super) key: Key,
    /// The address of the owner's window.
    address: u64,
}

impl Peer {
    /// Creates an endpoint of `worker`, before which the result is dropped.
    pub(super) fn connect(worker: &Worker, info: &ConnectionInfo) -> Result<Self, OpenError> {
        let endpoint = create_endpoint(worker, &info.worker)?;
        let ucp = worker.context.ucp;
        let mut handle = ptr::null_mut();
        // SAFETY: a live endpoint, a live pointer, and a key that its owner packed, whole: a key
        // contains its own length.
        let status = unsafe {
            (ucp.ucp_ep_rkey_unpack)(endpoint, info.key.as_ptr().cast(), &raw mut handle)
        };
        check(&ucp, "ucp_ep_rkey_unpack", status)?;
        let key = Key { destroy: ucp.ucp_rkey_destroy, handle };
        Ok(Self { endpoint, key, address: info.address })
    }

    /// Returns the address of word `index` of the owner's window; the caller has checked the index.
    #[inline]
    pub(super) fn word(&self, index: u64) -> u64 {
        self.address.wrapping_add(index.wrapping_mul(WORD_BYTES as u64))
    }
}

fn create_endpoint(worker: &Worker, address: &[u8]) -> Result<ucp_ep_h, OpenError> {
    // SAFETY: a struct of integers, pointers and optional functions, for which zero is valid; UCP
    // reads only the fields in the mask.
    let mut params: ucp_ep_params_t = unsafe { core::mem::zeroed() };
    params.field_mask =
        (UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE).into();
    params.address = address.as_ptr().cast();
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    let mut endpoint = ptr::null_mut();
    let ucp = &worker.context.ucp;
    // SAFETY: a live worker, the address of another one, and live pointers.
    let status =
        unsafe { (ucp.ucp_ep_create)(worker.calls.handle, &raw const params, &raw mut endpoint) };
    check(ucp, "ucp_ep_create", status)?;
    Ok(endpoint)
}

/// An unpacked key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) destroy: unsafe extern "C" fn(ucp_rkey_h),
    pub(super) handle: ucp_rkey_h,
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: unpacked once and destroyed once, before the worker of its endpoint and after all
        // operations that use it (see `shutdown`).
        unsafe { (self.destroy)(self.handle) };
    }
}
