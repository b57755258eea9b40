//! Page protection by userfaultfd(2): pages without an entry in the page table fault, and so do stores to pages that
//! the kernel write-protects, as a SIGBUS on the thread that makes the access.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use linux_raw_sys::general::{
    UFFD_API, UFFD_FEATURE_MINOR_SHMEM, UFFD_FEATURE_SIGBUS, UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
    UFFD_USER_MODE_ONLY, UFFDIO_REGISTER_MODE_MINOR, UFFDIO_REGISTER_MODE_MISSING,
    UFFDIO_REGISTER_MODE_WP, uffdio_api, uffdio_continue, uffdio_range, uffdio_register,
    uffdio_writeprotect,
};
use linux_raw_sys::ioctl::{UFFDIO_API, UFFDIO_CONTINUE, UFFDIO_REGISTER, UFFDIO_WRITEPROTECT};

use super::Error;
use super::views::{Access, check, page_size};

/// `UFFDIO_WRITEPROTECT_MODE_WP` of linux/userfaultfd.h.
const WRITE_PROTECT: u64 = 1;

/// A descriptor of userfaultfd(2).
pub(super) struct Userfaultfd(OwnedFd);

impl Userfaultfd {
    /// Opens a descriptor that serves a program's own accesses, for which no privilege is needed.
    pub(super) fn open() -> Result<Self, Error> {
        let flags = libc::O_CLOEXEC.cast_unsigned() | UFFD_USER_MODE_ONLY;
        // SAFETY: userfaultfd(2) takes no pointer.
        let file = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let file = c_int::try_from(file).unwrap_or(-1);
        check("userfaultfd", file)?;
        // SAFETY: a descriptor that was just opened, and has no other owner.
        let this = Self(unsafe { OwnedFd::from_raw_fd(file) });
        let features =
            UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
        let mut api = uffdio_api { api: UFFD_API.into(), features: features.into(), ioctls: 0 };
        this.call("UFFDIO_API", UFFDIO_API, &mut api)?;
        Ok(this)
    }

    /// Makes the first access to each page of a mapping fault. `pages` are whole pages of the system.
    pub(super) fn register(&self, pages: *mut [u8]) -> Result<(), Error> {
        let mode =
            UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP;
        let mut register = uffdio_register { range: range(pages), mode: mode.into(), ioctls: 0 };
        self.call("UFFDIO_REGISTER", UFFDIO_REGISTER, &mut register)
    }

    /// Grants an access to pages whose access was `before`. `library` is the address of the library's view of them.
    pub(super) fn protect(
        &self,
        pages: *mut [u8],
        library: *const u8,
        before: Access,
        access: Access,
    ) -> Result<(), Error> {
        if access == Access::None {
            // SAFETY: madvise(2): the file keeps the bytes, and the library's mapping its pages.
            let status = unsafe { libc::madvise(pages.cast(), pages.len(), libc::MADV_DONTNEED) };
            return check("madvise", status);
        }
        if before == Access::None {
            for at in (0..pages.len()).step_by(page_size()) {
                // SAFETY: a byte of the library's mapping, which may change while it is read. The load gives the file
                // a page.
                unsafe { AtomicU8::from_ptr(library.wrapping_add(at).cast_mut()) }.load(Relaxed);
            }
            let mut page_in = uffdio_continue { range: range(pages), mode: 0, mapped: 0 };
            self.call("UFFDIO_CONTINUE", UFFDIO_CONTINUE, &mut page_in)?;
        }
        if before == Access::None && access == Access::Write {
            return Ok(());
        }
        let mode = if access == Access::Read { WRITE_PROTECT } else { 0 };
        let mut protect = uffdio_writeprotect { range: range(pages), mode };
        self.call("UFFDIO_WRITEPROTECT", UFFDIO_WRITEPROTECT, &mut protect)
    }

    fn call<A>(&self, name: &'static str, request: u32, argument: &mut A) -> Result<(), Error> {
        // SAFETY: ioctl(2): a live structure of this request.
        let status =
            unsafe { libc::ioctl(self.0.as_raw_fd(), request.into(), ptr::from_mut(argument)) };
        check(name, status)
    }
}

fn range(pages: *mut [u8]) -> uffdio_range {
    uffdio_range { start: pages.cast::<u8>().addr() as u64, len: pages.len() as u64 }
}
