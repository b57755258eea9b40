//! A loop of the bare calls of UCP, with one operation at a time and without tokens, slots, checks
//! or lost owners.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::slice;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::ffi::CString;

use probeline_exchange::Job;
use probeline_transport::Exchange;
use probeline_ucx_sys::{
    UCP_ATOMIC_OP_ADD, UCP_ATOMIC_OP_CSWAP, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, UCP_FEATURE_AMO64,
    UCP_FEATURE_RMA, UCP_MEM_ATTR_FIELD_ADDRESS, UCP_MEM_MAP_ALLOCATE,
    UCP_MEM_MAP_PARAM_FIELD_FLAGS, UCP_MEM_MAP_PARAM_FIELD_LENGTH, UCP_OP_ATTR_FIELD_CALLBACK,
    UCP_OP_ATTR_FIELD_DATATYPE, UCP_OP_ATTR_FIELD_REPLY_BUFFER, UCP_OP_ATTR_FIELD_REQUEST,
    UCP_OP_ATTR_FIELD_USER_DATA, UCP_PARAM_FIELD_FEATURES, UCS_OK, UCS_PTR_IS_PTR, UCS_PTR_STATUS,
    Ucp, ucp_atomic_op_t, ucp_context_h, ucp_dt_make_contig, ucp_ep_h, ucp_init, ucp_mem_h,
    ucp_request_param_t, ucp_rkey_h, ucp_worker_h, ucs_status_ptr_t, ucs_status_t,
};

use crate::shared::{Result, buffer_like};

const BYTES: usize = 8192;
/// The number of words of a request, which end at the pointer to it: more than any version of UCX
/// needs.
const REQUEST_WORDS: usize = 256;
/// The word of rank 1 that rank 0 changes when it has finished.
const FINISHED: usize = 0;
/// The word of rank 1 that is measured, at the same offset in a page as that of the engine.
const AT: usize = 16;

/// Aligned to a cache line, as the engine's memory is.
#[repr(align(64))]
struct Aligned<T>(T);

/// A worker with an endpoint to the other rank. It lives until the process ends.
pub(crate) struct Bare {
    ucp: Ucp,
    worker: ucp_worker_h,
    endpoint: ucp_ep_h,
    key: ucp_rkey_h,
    own: *const AtomicU64,
    theirs: u64,
    params: Box<ucp_request_param_t>,
    ended: Box<Cell<Option<ucs_status_t>>>,
    buffer: &'static mut [u64],
    /// The operand and the result of an atomic, in one cache line as the engine's.
    words: Box<Aligned<[u64; 2]>>,
    _request: Box<Aligned<[u64; REQUEST_WORDS]>>,
}

unsafe extern "C" fn ended(_request: *mut c_void, status: ucs_status_t, user_data: *mut c_void) {
    // SAFETY: the cell of a `Bare` of this thread.
    unsafe { &*user_data.cast::<Cell<Option<ucs_status_t>>>() }.set(Some(status));
}

fn check(call: &str, status: ucs_status_t) -> Result<()> {
    if status == UCS_OK {
        Ok(())
    } else {
        Err(format!("{call} failed with status {status}").into())
    }
}

/// Exchanges bytes with the other rank.
fn swap(job: &mut Job, mine: &[u8]) -> Result<Vec<u8>> {
    let mut all = vec![0; mine.len() * job.owners() as usize];
    job.all_gather(mine, &mut all)?;
    let other = 1 - job.me().0 as usize;
    Ok(all[other * mine.len()..][..mine.len()].to_vec())
}

impl Bare {
    /// Opens the worker and connects it. READs land in a buffer like `slot` of the engine.
    pub(crate) fn open(job: &mut Job, tls: &str, slot: &[u64]) -> Result<Self> {
        /// Longer than addresses and keys over the transports that are compared.
        const MAX_BYTES: usize = 2048;
        let ucp = Ucp::load()?;
        let context = context(&ucp, tls)?;
        let mut worker = ptr::null_mut();
        // SAFETY: parameters of integers and pointers with an empty mask; an open context.
        let status = unsafe {
            let params = core::mem::zeroed();
            (ucp.ucp_worker_create)(context, &raw const params, &raw mut worker)
        };
        check("ucp_worker_create", status)?;
        let (memory, own) = allocate(&ucp, context)?;
        let mut mine = (own.addr() as u64).to_ne_bytes().to_vec();
        for mut bytes in [address(&ucp, worker)?, packed_key(&ucp, context, memory)?] {
            bytes.resize(MAX_BYTES, 0);
            mine.extend(bytes);
        }
        let theirs = swap(job, &mine)?;
        let (their_own, rest) = theirs.split_first_chunk().ok_or("an empty message")?;
        let (address, key) = rest.split_at(MAX_BYTES);
        let (mut endpoint, mut unpacked) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: zero is valid for the parameters; a live worker, and the other rank's address and
        // key.
        unsafe {
            let mut params: probeline_ucx_sys::ucp_ep_params_t = core::mem::zeroed();
            params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS.into();
            params.address = address.as_ptr().cast();
            let status = (ucp.ucp_ep_create)(worker, &raw const params, &raw mut endpoint);
            check("ucp_ep_create", status)?;
            let key = key.as_ptr().cast();
            check(
                "ucp_ep_rkey_unpack",
                (ucp.ucp_ep_rkey_unpack)(endpoint, key, &raw mut unpacked),
            )?;
        }
        let ended_at = Box::new(Cell::new(None));
        let mut words = Box::new(Aligned([0_u64; 2]));
        let mut request = Box::new(Aligned([0_u64; REQUEST_WORDS]));
        // SAFETY: zero is valid for integers, pointers and optional functions.
        let mut params: Box<ucp_request_param_t> = Box::new(unsafe { core::mem::zeroed() });
        params.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST
            | UCP_OP_ATTR_FIELD_CALLBACK
            | UCP_OP_ATTR_FIELD_USER_DATA
            | UCP_OP_ATTR_FIELD_DATATYPE
            | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        // The pointer to a request points to its end; the last cache line is not used.
        params.request = request.0[REQUEST_WORDS - 8..].as_mut_ptr().cast();
        params.cb.send = Some(ended);
        params.user_data = (&raw const *ended_at).cast_mut().cast();
        params.reply_buffer = (&raw mut words.0[1]).cast();
        job.barrier()?;
        Ok(Self {
            ucp,
            worker,
            endpoint,
            key: unpacked,
            own,
            theirs: u64::from_ne_bytes(*their_own),
            params,
            ended: ended_at,
            buffer: buffer_like(slot),
            words,
            _request: request,
        })
    }

    /// Executes a READ of `words` words.
    #[inline]
    pub(crate) fn read(&mut self, words: u32) -> Result<()> {
        self.params.datatype = ucp_dt_make_contig(1);
        let (at, into) = (self.theirs + (AT * 8) as u64, self.buffer.as_mut_ptr().cast());
        let bytes = (words as usize).min(self.buffer.len()) * 8;
        // SAFETY: a live endpoint and its key; the buffer is never freed.
        let answer = unsafe {
            let params = &raw const *self.params;
            (self.ucp.ucp_get_nbx)(self.endpoint, into, bytes, at, self.key, params)
        };
        self.end(answer)
    }

    /// Executes a compare-and-swap of 0 by 0.
    #[inline]
    pub(crate) fn compare_and_swap(&mut self) -> Result<()> {
        self.words.0[1] = 0;
        self.atomic(UCP_ATOMIC_OP_CSWAP, 0, AT)
    }

    /// Executes a fetch-and-add of 0.
    #[inline]
    pub(crate) fn fetch_add(&mut self) -> Result<()> {
        self.atomic(UCP_ATOMIC_OP_ADD, 0, AT)
    }

    #[inline]
    fn atomic(&mut self, code: ucp_atomic_op_t, operand: u64, index: usize) -> Result<()> {
        self.params.datatype = ucp_dt_make_contig(8);
        self.words.0[0] = operand;
        let (at, operand) = (self.theirs + (index * 8) as u64, self.words.0.as_ptr().cast());
        // SAFETY: as in `read`; operand and result live until the operation has ended.
        let answer = unsafe {
            let params = &raw const *self.params;
            (self.ucp.ucp_atomic_op_nbx)(self.endpoint, code, operand, 1, at, self.key, params)
        };
        self.end(answer)
    }

    #[inline]
    fn end(&self, answer: ucs_status_ptr_t) -> Result<()> {
        if answer.is_null() {
            return Ok(());
        }
        if !UCS_PTR_IS_PTR(answer) {
            return check("a call", UCS_PTR_STATUS(answer));
        }
        loop {
            if let Some(status) = self.ended.take() {
                return check("an operation", status);
            }
            self.progress();
        }
    }

    fn progress(&self) {
        // SAFETY: a live worker of this thread.
        unsafe { (self.ucp.ucp_worker_progress)(self.worker) };
    }

    pub(crate) fn tell_finished(&mut self) -> Result<()> {
        self.atomic(UCP_ATOMIC_OP_ADD, 1, FINISHED)
    }

    /// Progresses for the other rank until it has finished.
    pub(crate) fn poll_until_finished(&self) {
        // SAFETY: allocated and zeroed by `allocate`, and accessed by atomics only.
        let finished = unsafe { &*self.own.add(FINISHED) };
        while finished.load(Acquire) == 0 {
            self.progress();
        }
        // One of these sends the answers for rank 0.
        (0..100_000).for_each(|_| self.progress());
        finished.store(0, Release);
    }
}

fn context(ucp: &Ucp, tls: &str) -> Result<ucp_context_h> {
    let (mut config, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: null for no prefix and no file, live pointers and C strings; zero is valid for
    // parameters of integers and pointers.
    unsafe {
        check("ucp_config_read", (ucp.ucp_config_read)(ptr::null(), ptr::null(), &raw mut config))?;
        for (name, value) in [(c"TLS", tls), (c"ATOMIC_MODE", "cpu")] {
            let value = CString::new(value)?;
            let status = (ucp.ucp_config_modify)(config, name.as_ptr(), value.as_ptr());
            check("ucp_config_modify", status)?;
        }
        let mut params: probeline_ucx_sys::ucp_params_t = core::mem::zeroed();
        params.field_mask = UCP_PARAM_FIELD_FEATURES.into();
        params.features = (UCP_FEATURE_RMA | UCP_FEATURE_AMO64).into();
        check("ucp_init", ucp_init(ucp, &raw const params, config, &raw mut context))?;
        (ucp.ucp_config_release)(config);
    }
    Ok(context)
}

/// Allocates zeroed memory that UCX can share with other processes.
fn allocate(ucp: &Ucp, context: ucp_context_h) -> Result<(ucp_mem_h, *const AtomicU64)> {
    let mut memory = ptr::null_mut();
    // SAFETY: zero is valid for parameters of integers and pointers; an open context; UCX has
    // allocated this number of bytes at the address.
    unsafe {
        let mut params: probeline_ucx_sys::ucp_mem_map_params_t = core::mem::zeroed();
        params.field_mask = (UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS).into();
        params.length = BYTES;
        params.flags = UCP_MEM_MAP_ALLOCATE;
        check("ucp_mem_map", (ucp.ucp_mem_map)(context, &raw const params, &raw mut memory))?;
        let mut found: probeline_ucx_sys::ucp_mem_attr_t = core::mem::zeroed();
        found.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS.into();
        check("ucp_mem_query", (ucp.ucp_mem_query)(memory, &raw mut found))?;
        found.address.cast::<u8>().write_bytes(0, BYTES);
        Ok((memory, found.address.cast::<AtomicU64>()))
    }
}

fn address(ucp: &Ucp, worker: ucp_worker_h) -> Result<Vec<u8>> {
    let (mut address, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: a live worker and live pointers; the bytes are never freed.
    unsafe {
        let status = (ucp.ucp_worker_get_address)(worker, &raw mut address, &raw mut bytes);
        check("ucp_worker_get_address", status)?;
        Ok(slice::from_raw_parts(address.cast::<u8>(), bytes).to_vec())
    }
}

fn packed_key(ucp: &Ucp, context: ucp_context_h, memory: ucp_mem_h) -> Result<Vec<u8>> {
    let (mut key, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: memory mapped in this context and live pointers; the bytes are never freed.
    unsafe {
        let status = (ucp.ucp_rkey_pack)(context, memory, &raw mut key, &raw mut bytes);
        check("ucp_rkey_pack", status)?;
        Ok(slice::from_raw_parts(key.cast::<u8>(), bytes).to_vec())
    }
}
