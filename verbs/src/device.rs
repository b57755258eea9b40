//! The loaded libibverbs, and the RDMA devices of this machine.

use alloc::string::String;
use core::ffi::{CStr, c_int};
use core::fmt;
use core::ptr::NonNull;

use probeline_transport::SetupError;
use probeline_verbs_sys::{self as sys, Verbs};

use crate::{Context, VerbFailed};

/// A list of the devices that existed when it was created (ibv_get_device_list(3)).
pub struct DeviceList {
    verbs: Verbs,
    /// An array of `len` devices, or `None` if the kernel has no RDMA support.
    devices: Option<NonNull<*mut sys::ibv_device>>,
    len: usize,
}

impl DeviceList {
    /// Lists the devices.
    ///
    /// # Errors
    /// [`VerbFailed`]. Without RDMA support in the kernel the list is empty.
    pub fn new(library: Library) -> Result<Self, VerbFailed> {
        let verbs = library.verbs();
        let mut len: c_int = 0;
        // SAFETY: the library writes one number.
        let devices = unsafe { (verbs.ibv_get_device_list)(&raw mut len) };
        let devices = NonNull::new(devices);
        if devices.is_none() {
            let failed = VerbFailed::last("ibv_get_device_list");
            if failed.errno != libc::ENOSYS {
                return Err(failed);
            }
        }
        Ok(Self { verbs, devices, len: usize::try_from(len).unwrap_or(0) })
    }

    /// Returns the devices, in the library's order.
    pub fn iter(&self) -> impl Iterator<Item = Device<'_>> {
        let devices = match self.devices {
            // SAFETY: the library returned an array of `len` devices, which drop frees.
            Some(devices) => unsafe { core::slice::from_raw_parts(devices.as_ptr(), self.len) },
            None => &[],
        };
        devices
            .iter()
            .filter_map(|device| Some(Device { list: self, device: NonNull::new(*device)? }))
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        if let Some(devices) = self.devices {
            // SAFETY: from ibv_get_device_list, freed here only. A Device borrows the list, and the
            // library counts the references of open devices.
            unsafe { (self.verbs.ibv_free_device_list)(devices.as_ptr()) };
        }
    }
}

impl fmt::Debug for DeviceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A device that is not open.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    list: &'a DeviceList,
    device: NonNull<sys::ibv_device>,
}

impl Device<'_> {
    /// Returns the name of the device, such as `mlx5_0`.
    #[must_use]
    pub fn name(&self) -> String {
        // SAFETY: the list keeps the device, whose name is a C string.
        let name = unsafe {
            let name = (self.list.verbs.ibv_get_device_name)(self.device.as_ptr());
            if name.is_null() { c"" } else { CStr::from_ptr(name) }
        };
        name.to_string_lossy().into_owned()
    }

    /// Opens the device.
    ///
    /// # Errors
    /// [`VerbFailed`]: EACCES if the process may not use the device.
    pub fn open(&self) -> Result<Context, VerbFailed> {
        // SAFETY: the list keeps the device while it is opened.
        let context = unsafe { (self.list.verbs.ibv_open_device)(self.device.as_ptr()) };
        let context = NonNull::new(context).ok_or_else(|| VerbFailed::last("ibv_open_device"))?;
        Ok(Context::new(self.list.verbs, context, self.name()))
    }
}

impl fmt::Debug for Device<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.name()).finish()
    }
}

/// libibverbs, loaded at run time and never unloaded.
///
/// Safe code cannot replace its functions:
///
/// ```compile_fail,E0616
/// fn replace(mut library: probeline_verbs::Library, other: probeline_verbs::Library) {
///     library.verbs.ibv_open_device = other.verbs.ibv_open_device;
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Library {
    verbs: Verbs,
}

impl Library {
    /// Loads the system's libibverbs.
    ///
    /// # Errors
    /// [`SetupError`] names the package that is missing or too old.
    pub fn load() -> Result<Self, SetupError> {
        Verbs::load().map(|verbs| Self { verbs })
    }

    /// Uses other functions of the same names, such as a test's.
    ///
    /// # Safety
    /// Each function fulfils the contract of the manual page of its name.
    #[must_use]
    pub unsafe fn from_verbs(verbs: Verbs) -> Self {
        Self { verbs }
    }

    pub(crate) fn verbs(self) -> Verbs {
        self.verbs
    }
}
