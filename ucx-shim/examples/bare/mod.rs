//! The calls of UCP in a loop with nothing around them: what a program pays that knows that it has
//! one operation at a time and nobody to look after.

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

use crate::Result;
use crate::landing::landing_like;

const BYTES: usize = 8192;
/// Words of a request in front of what it is named by: more than any version of UCX asks for.
const REQUEST_WORDS: usize = 256;
/// Of rank 1's memory the word that says that rank 0 is through, and the one that is worked at: at
/// the place in a page that the engine's has, whose window begins on a page too.
const THROUGH: usize = 0;
const AT: usize = 16;

/// On cache lines of its own, as the engine's memory is.
#[repr(align(64))]
struct Aligned<T>(T);

/// A worker with an endpoint to the other rank. It is left to the end of the process.
pub(crate) struct Bare {
    ucp: Ucp,
    worker: ucp_worker_h,
    endpoint: ucp_ep_h,
    key: ucp_rkey_h,
    own: *const AtomicU64,
    theirs: u64,
    params: Box<ucp_request_param_t>,
    ended: Box<Cell<Option<ucs_status_t>>>,
    landing: &'static mut [u64],
    /// An atomic's operand and its result, in one line as the engine's are.
    words: Box<Aligned<[u64; 2]>>,
    _request: Box<Aligned<[u64; REQUEST_WORDS]>>,
}

unsafe extern "C" fn ended(_request: *mut c_void, status: ucs_status_t, user_data: *mut c_void) {
    // SAFETY: the cell that `Bare` owns, of this thread.
    unsafe { &*user_data.cast::<Cell<Option<ucs_status_t>>>() }.set(Some(status));
}

fn good(call: &str, status: ucs_status_t) -> Result<()> {
    if status == UCS_OK { Ok(()) } else { Err(format!("{call} gave {status}").into()) }
}

/// What each says: lengths and an address, then the worker's address, then the key.
fn all_said(job: &mut Job, mine: &[u8]) -> Result<Vec<u8>> {
    let mut all = vec![0; mine.len() * job.owners() as usize];
    job.all_gather(mine, &mut all)?;
    let other = 1 - job.me().0 as usize;
    Ok(all[other * mine.len()..][..mine.len()].to_vec())
}

impl Bare {
    /// One whose READs land as in `slot`, which is the engine's.
    pub(crate) fn open(job: &mut Job, tls: &str, slot: &[u64]) -> Result<Self> {
        /// Longer than addresses and keys over the transports compared here.
        const ROOM: usize = 2048;
        let ucp = Ucp::load()?;
        let context = context(&ucp, tls)?;
        let mut worker = ptr::null_mut();
        // SAFETY: parameters of integers and pointers, of which none is named; an open context.
        let status = unsafe {
            let params = core::mem::zeroed();
            (ucp.ucp_worker_create)(context, &raw const params, &raw mut worker)
        };
        good("ucp_worker_create", status)?;
        let (memory, own) = allocate(&ucp, context)?;
        let mut said = (own.addr() as u64).to_ne_bytes().to_vec();
        for mut bytes in [address(&ucp, worker)?, packed_key(&ucp, context, memory)?] {
            bytes.resize(ROOM, 0);
            said.extend(bytes);
        }
        let theirs = all_said(job, &said)?;
        let (their_own, rest) = theirs.split_first_chunk().ok_or("nothing said")?;
        let (address, key) = rest.split_at(ROOM);
        let (mut endpoint, mut unpacked) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: zero is valid for these; a live worker, and what the other rank's UCX has made.
        unsafe {
            let mut params: probeline_ucx_sys::ucp_ep_params_t = core::mem::zeroed();
            params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS.into();
            params.address = address.as_ptr().cast();
            let status = (ucp.ucp_ep_create)(worker, &raw const params, &raw mut endpoint);
            good("ucp_ep_create", status)?;
            let key = key.as_ptr().cast();
            good("ucp_ep_rkey_unpack", (ucp.ucp_ep_rkey_unpack)(endpoint, key, &raw mut unpacked))?;
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
        // The last line is what the request is named by, and stays free.
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
            landing: landing_like(slot),
            words,
            _request: request,
        })
    }

    /// A READ of so many words, as many as land at most, from the call to its end.
    #[inline]
    pub(crate) fn read(&mut self, words: u32) -> Result<()> {
        self.params.datatype = ucp_dt_make_contig(1);
        let (at, into) = (self.theirs + (AT * 8) as u64, self.landing.as_mut_ptr().cast());
        let bytes = (words as usize).min(self.landing.len()) * 8;
        // SAFETY: a live endpoint and its key; the landing is there until this has ended.
        let answer = unsafe {
            let params = &raw const *self.params;
            (self.ucp.ucp_get_nbx)(self.endpoint, into, bytes, at, self.key, params)
        };
        self.end(answer)
    }

    /// A compare-and-swap of 0 by 0.
    #[inline]
    pub(crate) fn compare_and_swap(&mut self) -> Result<()> {
        self.words.0[1] = 0;
        self.atomic(UCP_ATOMIC_OP_CSWAP, 0, AT)
    }

    /// A fetch-and-add of 0.
    #[inline]
    pub(crate) fn fetch_add(&mut self) -> Result<()> {
        self.atomic(UCP_ATOMIC_OP_ADD, 0, AT)
    }

    #[inline]
    fn atomic(&mut self, code: ucp_atomic_op_t, operand: u64, index: usize) -> Result<()> {
        self.params.datatype = ucp_dt_make_contig(8);
        self.words.0[0] = operand;
        let (at, operand) = (self.theirs + (index * 8) as u64, self.words.0.as_ptr().cast());
        // SAFETY: as for READ; operand and reply are there until this has ended, too.
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
            return good("the call", UCS_PTR_STATUS(answer));
        }
        loop {
            if let Some(status) = self.ended.take() {
                return good("the operation", status);
            }
            self.progress();
        }
    }

    fn progress(&self) {
        // SAFETY: a live worker of this thread.
        unsafe { (self.ucp.ucp_worker_progress)(self.worker) };
    }

    pub(crate) fn tell_through(&mut self) -> Result<()> {
        self.atomic(UCP_ATOMIC_OP_ADD, 1, THROUGH)
    }

    /// Progresses for the other rank until it is through.
    pub(crate) fn poll_until_through(&self) {
        // SAFETY: mapped by `allocate`, zeroed, and touched by atomics alone.
        let through = unsafe { &*self.own.add(THROUGH) };
        while through.load(Acquire) == 0 {
            self.progress();
        }
        // What answers rank 0 leaves with one of these.
        (0..100_000).for_each(|_| self.progress());
        through.store(0, Release);
    }
}

fn context(ucp: &Ucp, tls: &str) -> Result<ucp_context_h> {
    let (mut config, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: null for no prefix and no file; live pointers, strings that end in NUL, and zero is
    // valid for parameters of integers and pointers.
    unsafe {
        good("ucp_config_read", (ucp.ucp_config_read)(ptr::null(), ptr::null(), &raw mut config))?;
        for (name, value) in [(c"TLS", tls), (c"ATOMIC_MODE", "cpu")] {
            let value = CString::new(value)?;
            let status = (ucp.ucp_config_modify)(config, name.as_ptr(), value.as_ptr());
            good("ucp_config_modify", status)?;
        }
        let mut params: probeline_ucx_sys::ucp_params_t = core::mem::zeroed();
        params.field_mask = UCP_PARAM_FIELD_FEATURES.into();
        params.features = (UCP_FEATURE_RMA | UCP_FEATURE_AMO64).into();
        good("ucp_init", ucp_init(ucp, &raw const params, config, &raw mut context))?;
        (ucp.ucp_config_release)(config);
    }
    Ok(context)
}

/// Zeroed memory that UCX allocates, where it can share it with other processes.
fn allocate(ucp: &Ucp, context: ucp_context_h) -> Result<(ucp_mem_h, *const AtomicU64)> {
    let mut memory = ptr::null_mut();
    // SAFETY: zero is valid for parameters of integers and pointers; an open context; UCX has given
    // so many bytes when it is asked where.
    unsafe {
        let mut params: probeline_ucx_sys::ucp_mem_map_params_t = core::mem::zeroed();
        params.field_mask = (UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS).into();
        params.length = BYTES;
        params.flags = UCP_MEM_MAP_ALLOCATE;
        good("ucp_mem_map", (ucp.ucp_mem_map)(context, &raw const params, &raw mut memory))?;
        let mut found: probeline_ucx_sys::ucp_mem_attr_t = core::mem::zeroed();
        found.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS.into();
        good("ucp_mem_query", (ucp.ucp_mem_query)(memory, &raw mut found))?;
        found.address.cast::<u8>().write_bytes(0, BYTES);
        Ok((memory, found.address.cast::<AtomicU64>()))
    }
}

fn address(ucp: &Ucp, worker: ucp_worker_h) -> Result<Vec<u8>> {
    let (mut address, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: a live worker and live pointers; so many bytes that stay.
    unsafe {
        let status = (ucp.ucp_worker_get_address)(worker, &raw mut address, &raw mut bytes);
        good("ucp_worker_get_address", status)?;
        Ok(slice::from_raw_parts(address.cast::<u8>(), bytes).to_vec())
    }
}

fn packed_key(ucp: &Ucp, context: ucp_context_h, memory: ucp_mem_h) -> Result<Vec<u8>> {
    let (mut key, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: a mapping of this context and live pointers; so many bytes that stay.
    unsafe {
        let status = (ucp.ucp_rkey_pack)(context, memory, &raw mut key, &raw mut bytes);
        good("ucp_rkey_pack", status)?;
        Ok(slice::from_raw_parts(key.cast::<u8>(), bytes).to_vec())
    }
}
