//! An open device, its limits, its ports and its protection domains.

use alloc::string::String;
use alloc::sync::Arc;
use core::ffi::CStr;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use probeline_verbs_sys::{self as sys, Verbs};

use crate::{Gid, GidEntry, GidKind, Port, VerbFailed};

/// An open device. It is closed with the last of its clones and of the objects created on it.
#[derive(Clone)]
pub struct Context(Arc<Open>);

struct Open {
    verbs: Verbs,
    context: NonNull<sys::ibv_context>,
    name: String,
}

// SAFETY: libibverbs lets any thread call verbs on a context, at any time (ibv_open_device(3),
// rdma-core's Documentation/libibverbs.md).
unsafe impl Send for Open {}
// SAFETY: libibverbs lets any thread call verbs on a context, at any time (ibv_open_device(3)).
unsafe impl Sync for Open {}

/// The scope of a device's atomics (`enum ibv_atomic_cap`): the accesses with which they are
/// atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicCapability {
    /// The device has no atomics.
    None,
    /// Atomic with other atomics of this device.
    Device,
    /// Atomic also with those of the CPU and of other devices.
    Global,
}

/// The limits of a device (ibv_query_device(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceLimits {
    /// The maximum number of queue pairs.
    pub queue_pairs: u32,
    /// The maximum number of work requests outstanding on a queue pair.
    pub work_requests: u32,
    /// The maximum number of entries of a completion queue.
    pub completions: u32,
    /// The maximum number of the peer's READs and atomics that a queue pair executes concurrently.
    pub responder_rd_atomic: u8,
    /// The maximum number of READs and atomics that a queue pair has outstanding.
    pub initiator_rd_atomic: u8,
    /// The maximum size of a memory region in bytes.
    pub region_bytes: u64,
    /// The scope of its atomics.
    pub atomics: AtomicCapability,
    /// The number of ports, which are counted from 1.
    pub ports: u8,
}

/// The model and firmware of a device (ibv_query_device(3)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceIdentity {
    /// The firmware version as the vendor writes it; empty if unknown.
    pub firmware: String,
    /// The vendor's number, mostly an IEEE OUI.
    pub vendor: u32,
    /// The vendor's part number.
    pub part: u32,
    /// The hardware revision.
    pub revision: u32,
}

/// The 8-byte atomics that the device performs by PCI Express atomics, so that they are atomic with
/// the CPU's (ibv_query_device_ex(3)). All are false if the library or the provider cannot report
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciAtomics {
    /// Whether the device performs compare-and-swap so.
    pub compare_and_swap: bool,
    /// Whether the device performs fetch-and-add so.
    pub fetch_add: bool,
}

impl Context {
    pub(crate) fn new(verbs: Verbs, context: NonNull<sys::ibv_context>, name: String) -> Self {
        Self(Arc::new(Open { verbs, context, name }))
    }

    /// Returns the device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    #[inline]
    pub(crate) fn verbs(&self) -> &Verbs {
        &self.0.verbs
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_context {
        self.0.context.as_ptr()
    }

    fn attributes(&self) -> Result<sys::ibv_device_attr, VerbFailed> {
        let mut attr = MaybeUninit::<sys::ibv_device_attr>::zeroed();
        // SAFETY: the context is open, and the library fills the struct.
        let returned = unsafe { (self.verbs().ibv_query_device)(self.as_ptr(), attr.as_mut_ptr()) };
        VerbFailed::check("ibv_query_device", returned)?;
        // SAFETY: plain numbers, for which zero is valid too.
        Ok(unsafe { attr.assume_init() })
    }

    /// Queries the model and firmware of the device.
    ///
    /// # Errors
    /// [`VerbFailed`] with the code of the query.
    pub fn identity(&self) -> Result<DeviceIdentity, VerbFailed> {
        let attr = self.attributes()?;
        let firmware = attr.fw_ver.map(|byte| byte.to_ne_bytes()[0]);
        // Bytes without NUL are not a C string.
        let firmware = CStr::from_bytes_until_nul(&firmware).unwrap_or_default();
        Ok(DeviceIdentity {
            firmware: firmware.to_string_lossy().trim().into(),
            vendor: attr.vendor_id,
            part: attr.vendor_part_id,
            revision: attr.hw_ver,
        })
    }

    /// Queries the atomics that the device performs by PCI Express.
    ///
    /// # Errors
    /// [`VerbFailed`] with the code of the query.
    pub fn pci_atomics(&self) -> Result<PciAtomics, VerbFailed> {
        let mut attr = MaybeUninit::<sys::ibv_device_attr_ex>::zeroed();
        // SAFETY: the context is open, and the library fills the struct.
        let returned =
            unsafe { sys::ibv_query_device_ex(self.verbs(), self.as_ptr(), attr.as_mut_ptr()) };
        VerbFailed::check("ibv_query_device_ex", returned)?;
        // SAFETY: plain numbers, for which zero is valid too.
        let caps = unsafe { attr.assume_init() }.pci_atomic_caps;
        let eight =
            |sizes: u16| u32::from(sizes) & sys::IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP != 0;
        Ok(PciAtomics {
            compare_and_swap: eight(caps.compare_swap),
            fetch_add: eight(caps.fetch_add),
        })
    }

    /// Queries the device's limits.
    ///
    /// # Errors
    /// [`VerbFailed`] with the code of the query.
    pub fn limits(&self) -> Result<DeviceLimits, VerbFailed> {
        let attr = self.attributes()?;
        let count = |count: i32| u32::try_from(count).unwrap_or(0);
        // A queue pair's attribute has 8 bits.
        let rd_atomic = |count: i32| u8::try_from(count.clamp(0, 255)).unwrap_or(0);
        Ok(DeviceLimits {
            queue_pairs: count(attr.max_qp),
            work_requests: count(attr.max_qp_wr),
            completions: count(attr.max_cqe),
            responder_rd_atomic: rd_atomic(attr.max_qp_rd_atom),
            initiator_rd_atomic: rd_atomic(attr.max_qp_init_rd_atom),
            region_bytes: attr.max_mr_size,
            atomics: match attr.atomic_cap {
                sys::IBV_ATOMIC_HCA => AtomicCapability::Device,
                sys::IBV_ATOMIC_GLOB => AtomicCapability::Global,
                _ => AtomicCapability::None,
            },
            ports: attr.phys_port_cnt,
        })
    }

    /// Queries port `number`, counted from 1.
    ///
    /// # Errors
    /// [`VerbFailed`]: EINVAL if there is no such port.
    pub fn port(&self, number: u8) -> Result<Port, VerbFailed> {
        let mut attr = MaybeUninit::<sys::ibv_port_attr>::zeroed();
        let query_port = self.verbs().ibv_query_port;
        // SAFETY: the context is open, and the library fills a prefix of the struct.
        let returned = unsafe { query_port(self.as_ptr(), number, attr.as_mut_ptr().cast()) };
        VerbFailed::check("ibv_query_port", returned)?;
        // SAFETY: plain numbers, for which zero is valid too.
        let attr = unsafe { attr.assume_init() };
        Ok(Port::new(number, &attr))
    }

    /// Queries the entry `index` of the GID table of port `number`; `None` if it is empty.
    ///
    /// # Errors
    /// [`VerbFailed`] if the device is gone.
    pub fn gid(&self, number: u8, index: u8) -> Result<Option<GidEntry>, VerbFailed> {
        let mut entry = MaybeUninit::<sys::ibv_gid_entry>::zeroed();
        let (port, at) = (u32::from(number), u32::from(index));
        // SAFETY: the context is open, and the library fills the struct. No flags are defined.
        let returned = unsafe {
            sys::ibv_query_gid_ex(self.verbs(), self.as_ptr(), port, at, entry.as_mut_ptr(), 0)
        };
        match VerbFailed::check("ibv_query_gid_ex", returned) {
            Ok(()) => {}
            Err(failed) if matches!(failed.errno, libc::ENODEV | libc::EIO) => return Err(failed),
            // An empty entry has different errnos in different versions.
            Err(_) => return Ok(None),
        }
        // SAFETY: plain numbers and bytes, for which zero is valid too.
        let entry = unsafe { entry.assume_init() };
        // SAFETY: every field of the union is 16 bytes.
        let gid = Gid(unsafe { entry.gid.raw });
        let kind = GidKind::from_code(entry.gid_type);
        Ok((gid != Gid::ZERO).then_some(GidEntry { index, gid, kind }))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: all objects created on the context held it, and are destroyed. If the call fails,
        // the context stays open.
        unsafe { (self.verbs.ibv_close_device)(self.context.as_ptr()) };
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.0.name).finish()
    }
}

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
    /// [`VerbFailed`] with the code of the verb.
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
