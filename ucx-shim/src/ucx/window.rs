//! Memory that is registered with UCX: a window, which UCX allocates so that it can share it between
//! processes, or private memory of this crate.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::rc::Rc;

use probeline_transport::SetupError;
use probeline_transport::WORD_BYTES;
use probeline_transport::engine::Memory;
use probeline_ucx_sys::{
    UCP_MEM_ATTR_FIELD_ADDRESS, UCP_MEM_ATTR_FIELD_LENGTH, UCP_MEM_MAP_ALLOCATE,
    UCP_MEM_MAP_PARAM_FIELD_ADDRESS, UCP_MEM_MAP_PARAM_FIELD_FLAGS, UCP_MEM_MAP_PARAM_FIELD_LENGTH,
    ucp_mem_attr_t, ucp_mem_h, ucp_mem_map_params_t,
};

use super::OpenError;
use super::context::Context;
use super::error::check;

/// A window in memory that UCX has allocated.
#[derive(Debug)]
pub(super) struct Window {
    mapping: Mapping,
    first: NonNull<AtomicU64>,
    words: usize,
}

impl Window {
    /// Allocates `words` words, all zero (`UCX_ALLOC_PRIO` says where).
    pub(super) fn allocate(context: &Rc<Context>, words: u64) -> Result<Self, OpenError> {
        const TOO_LARGE: SetupError = SetupError::WINDOW_TOO_LARGE;
        let words = usize::try_from(words).map_err(|_| TOO_LARGE)?;
        let bytes = words.checked_mul(WORD_BYTES).ok_or(TOO_LARGE)?;
        let mapping = Mapping::new(context, ptr::null_mut(), bytes, UCP_MEM_MAP_ALLOCATE)?;
        // SAFETY: a struct of integers and a pointer, for which zero is valid.
        let mut found: ucp_mem_attr_t = unsafe { core::mem::zeroed() };
        found.field_mask = (UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH).into();
        // SAFETY: mapped above, and a live struct whose mask is set.
        let status = unsafe { (context.ucp.ucp_mem_query)(mapping.handle, &raw mut found) };
        let first = NonNull::new(found.address.cast::<AtomicU64>());
        let window = Self {
            mapping,
            first: first.unwrap_or(NonNull::dangling()),
            words: if first.is_some() { words } else { 0 },
        };
        check(&context.ucp, "ucp_mem_query", status)?;
        if window.words == 0 || !window.first.is_aligned() || found.length < bytes {
            return Err(
                SetupError::Sizes("UCX gave no memory for the window: choose fewer words").into()
            );
        }
        // Some allocators of UCX do not zero memory. This also touches every page.
        window.words().iter().for_each(|word| word.store(0, Relaxed));
        Ok(window)
    }

    /// Returns the words, which every peer may change at any time.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: UCX has allocated this number of words, aligned, until `drop` unmaps them. They
        // were zeroed, and are accessed as atomics only, here and by peers.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }

    /// Returns the address of the first word, for peers.
    pub(super) fn address(&self) -> u64 {
        self.first.addr().get() as u64
    }

    /// Returns the key that peers need to access the words.
    pub(super) fn pack_key(&self) -> Result<Vec<u8>, OpenError> {
        let Mapping { context, handle } = &self.mapping;
        let ucp = &context.ucp;
        let (mut key, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: a context, memory mapped in it, and live pointers for the results.
        let status =
            unsafe { (ucp.ucp_rkey_pack)(context.handle, *handle, &raw mut key, &raw mut bytes) };
        check(ucp, "ucp_rkey_pack", status)?;
        // SAFETY: the key has this number of bytes until it is released, below.
        let copy = unsafe { slice::from_raw_parts(key.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: packed above, and released once.
        unsafe { (ucp.ucp_rkey_buffer_release)(key) };
        Ok(copy)
    }
}

/// Registered memory. The registration of private memory is dropped before the memory.
#[derive(Debug)]
pub(super) struct Mapping {
    context: Rc<Context>,
    handle: ucp_mem_h,
}

impl Mapping {
    /// Registers private memory.
    ///
    /// # Safety
    /// The result is dropped before the memory.
    pub(super) unsafe fn private(
        context: &Rc<Context>,
        memory: &Memory,
    ) -> Result<Self, OpenError> {
        Self::new(context, memory.first().as_ptr().cast(), memory.len() * WORD_BYTES, 0)
    }

    fn new(
        context: &Rc<Context>,
        address: *mut c_void,
        length: usize,
        flags: u32,
    ) -> Result<Self, OpenError> {
        // SAFETY: a struct of integers and a pointer, for which zero is valid; UCP reads only the
        // fields in the mask.
        let mut params: ucp_mem_map_params_t = unsafe { core::mem::zeroed() };
        params.field_mask = (UCP_MEM_MAP_PARAM_FIELD_ADDRESS
            | UCP_MEM_MAP_PARAM_FIELD_LENGTH
            | UCP_MEM_MAP_PARAM_FIELD_FLAGS)
            .into();
        params.address = address;
        params.length = length;
        params.flags = flags;
        let (ucp, mut handle) = (&context.ucp, ptr::null_mut());
        // SAFETY: an open context and live pointers. Memory that UCX does not allocate is private
        // memory, which the caller of `of` keeps until the mapping is dropped.
        let status =
            unsafe { (ucp.ucp_mem_map)(context.handle, &raw const params, &raw mut handle) };
        check(ucp, "ucp_mem_map", status)?;
        Ok(Self { context: Rc::clone(context), handle })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` and unmapped once. The engine drops its workers before, so that
        // none of its operations uses the memory; UCX refuses those of peers.
        unsafe { (self.context.ucp.ucp_mem_unmap)(self.context.handle, self.handle) };
    }
}
