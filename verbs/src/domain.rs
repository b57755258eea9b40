//! Protection domains.

use alloc::sync::Arc;
use core::fmt;
use core::ptr::NonNull;

use probeline_verbs_sys as sys;

use crate::{Context, VerbFailed};

/// A protection domain: a queue pair can access only regions of its own domain (ibv_alloc_pd(3)). It
/// is freed with the last of its clones and of the objects created in it.
#[derive(Clone)]
pub struct ProtectionDomain(Arc<Allocated>);

struct Allocated {
    domain: NonNull<sys::ibv_pd>,
    context: Context,
}

// SAFETY: any thread may use a domain (ibv_alloc_pd(3) has no restriction).
unsafe impl Send for Allocated {}
// SAFETY: any thread may use a domain (ibv_alloc_pd(3) has no restriction).
unsafe impl Sync for Allocated {}

impl ProtectionDomain {
    /// Allocates a domain of an open device.
    ///
    /// # Errors
    /// [`VerbFailed`].
    pub fn new(context: &Context) -> Result<Self, VerbFailed> {
        // SAFETY: the context is open while the domain holds it.
        let domain = unsafe { (context.verbs().ibv_alloc_pd)(context.as_ptr()) };
        let domain = NonNull::new(domain).ok_or_else(|| VerbFailed::last("ibv_alloc_pd"))?;
        Ok(Self(Arc::new(Allocated { domain, context: context.clone() })))
    }

    /// Returns the open device to which the domain belongs.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_pd {
        self.0.domain.as_ptr()
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: all objects created in the domain held it, and are destroyed.
        if unsafe { (self.context.verbs().ibv_dealloc_pd)(self.domain.as_ptr()) } != 0 {
            // The domain is leaked, and so is its device.
            core::mem::forget(self.context.clone());
        }
    }
}

impl fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProtectionDomain").field(self.context()).finish()
    }
}
