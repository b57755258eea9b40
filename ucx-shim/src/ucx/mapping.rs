//! Memory that UCX knows: a window, which it allocates so that transports through shared memory can
//! reach it, or private memory of this crate's.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU64;
use std::rc::Rc;

use probeline_transport::WORD_BYTES;
use probeline_ucx_sys::{
    UCP_MEM_ATTR_FIELD_ADDRESS, UCP_MEM_ATTR_FIELD_LENGTH, UCP_MEM_MAP_ALLOCATE,
    UCP_MEM_MAP_PARAM_FIELD_ADDRESS, UCP_MEM_MAP_PARAM_FIELD_FLAGS, UCP_MEM_MAP_PARAM_FIELD_LENGTH,
    ucp_mem_attr_t, ucp_mem_h, ucp_mem_map_params_t,
};

use super::context::Context;
use super::{CallFailed, OpenError};

/// Mapped memory of whole words.
#[derive(Debug)]
pub(super) struct Mapping {
    context: Rc<Context>,
    handle: ucp_mem_h,
    first: NonNull<AtomicU64>,
    words: usize,
}

impl Mapping {
    /// So many words, all zero, where UCX allocates them (`UCX_ALLOC_PRIO`).
    pub(super) fn allocate(context: &Rc<Context>, words: u64) -> Result<Self, OpenError> {
        let too_large = OpenError::Sizes("a window of so many words cannot be: choose fewer");
        let Ok(words) = usize::try_from(words) else { return Err(too_large) };
        let Some(bytes) = words.checked_mul(WORD_BYTES) else { return Err(too_large) };
        let handle = map(context, ptr::null_mut(), bytes, UCP_MEM_MAP_ALLOCATE)?;
        // SAFETY: a struct of integers and a pointer, for which zero is valid.
        let mut found: ucp_mem_attr_t = unsafe { core::mem::zeroed() };
        found.field_mask = (UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH).into();
        // SAFETY: mapped above, and a live struct whose mask is set.
        let status = unsafe { (context.ucp.ucp_mem_query)(handle, &raw mut found) };
        let first = NonNull::new(found.address.cast::<AtomicU64>());
        let mapping = Self {
            context: Rc::clone(context),
            handle,
            first: first.unwrap_or(NonNull::dangling()),
            words: if first.is_some() { words } else { 0 },
        };
        CallFailed::check(&context.ucp, "ucp_mem_query", status)?;
        if mapping.words == 0 || !mapping.first.is_aligned() || found.length < bytes {
            return Err(OpenError::Sizes("UCX gave no memory for the window: choose fewer words"));
        }
        // Some of the ways to allocate leave what was there; and every page is provided now.
        mapping
            .words()
            .iter()
            .for_each(|word| word.store(0, core::sync::atomic::Ordering::Relaxed));
        Ok(mapping)
    }

    /// What is mapped, which every peer may change at any time.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: UCX has given so many bytes, aligned, until the mapping is ended in `drop`; they
        // were written once, and are only looked at as atomics, here and by peers.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }

    /// Where it lies, as peers name it.
    pub(super) fn address(&self) -> u64 {
        self.first.addr().get() as u64
    }

    /// The key that peers need.
    pub(super) fn pack_key(&self) -> Result<Vec<u8>, CallFailed> {
        let ucp = &self.context.ucp;
        let (mut key, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: a context, a mapping of it, and live pointers for the results.
        let status = unsafe {
            (ucp.ucp_rkey_pack)(self.context.handle, self.handle, &raw mut key, &raw mut bytes)
        };
        CallFailed::check(ucp, "ucp_rkey_pack", status)?;
        // SAFETY: the key has so many bytes until it is released, below.
        let copy = unsafe { slice::from_raw_parts(key.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: packed above, and released once.
        unsafe { (ucp.ucp_rkey_buffer_release)(key) };
        Ok(copy)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `allocate` and unmapped once. The engine drops its workers before, so
        // that no operation on it is under way here; that peers' have ended is not for this side to
        // see, and UCX's to refuse.
        unsafe { (self.context.ucp.ucp_mem_unmap)(self.context.handle, self.handle) };
    }
}

/// Private memory that is registered for as long as this lives.
#[derive(Debug)]
pub(super) struct Registration {
    context: Rc<Context>,
    handle: ucp_mem_h,
}

impl Registration {
    /// # Safety
    /// The memory lives longer than what is returned.
    pub(super) unsafe fn of(
        context: &Rc<Context>,
        first: NonNull<u64>,
        words: usize,
    ) -> Result<Self, OpenError> {
        let handle = map(context, first.as_ptr().cast(), words * WORD_BYTES, 0)?;
        Ok(Self { context: Rc::clone(context), handle })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` and unmapped once; the memory lives, by the contract there.
        unsafe { (self.context.ucp.ucp_mem_unmap)(self.context.handle, self.handle) };
    }
}

fn map(
    context: &Context,
    address: *mut c_void,
    length: usize,
    flags: u32,
) -> Result<ucp_mem_h, OpenError> {
    // SAFETY: a struct of integers and a pointer, for which zero is valid; only fields named in the
    // mask are looked at.
    let mut params: ucp_mem_map_params_t = unsafe { core::mem::zeroed() };
    params.field_mask = (UCP_MEM_MAP_PARAM_FIELD_ADDRESS
        | UCP_MEM_MAP_PARAM_FIELD_LENGTH
        | UCP_MEM_MAP_PARAM_FIELD_FLAGS)
        .into();
    params.address = address;
    params.length = length;
    params.flags = flags;
    let mut handle = ptr::null_mut();
    // SAFETY: an open context and live pointers. Memory that is not allocated here is private
    // memory of the caller's: being registered does it no harm.
    let status =
        unsafe { (context.ucp.ucp_mem_map)(context.handle, &raw const params, &raw mut handle) };
    CallFailed::check(&context.ucp, "ucp_mem_map", status)?;
    Ok(handle)
}
