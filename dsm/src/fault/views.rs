//! The private memory of a region as a file without a name, mapped once for the library and once, with page
//! protection, for the program; and the stack of the handler.

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::ptr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use probeline_transport::WORD_BYTES;

use super::userfaultfd::Userfaultfd;
use super::{Error, Layout, Protection};

/// Access of the program to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    None,
    Read,
    Write,
}

/// A range of addresses that was mapped for this value.
pub(super) struct Mapping {
    start: *mut c_void,
    bytes: usize,
}

impl Mapping {
    /// Maps a file, or else memory of this process alone.
    pub(super) fn new(file: Option<&OwnedFd>, bytes: usize, access: Access) -> Result<Self, Error> {
        let (flags, file) = match file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: mmap(2): the kernel chooses addresses that nothing else uses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, flags_of(access), flags, file, 0) };
        check("mmap", if start == libc::MAP_FAILED { -1 } else { 0 })?;
        Ok(Self { start, bytes })
    }

    /// Unlocks its pages, which mlockall(2) locks in new mappings, so that they can be taken back.
    fn unlock(&self) -> Result<(), Error> {
        // SAFETY: munlock(2): pages of this mapping.
        check("munlock", unsafe { libc::munlock(self.start, self.bytes) })
    }

    pub(super) fn start(&self) -> *mut c_void {
        self.start
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a range of its bytes.
    fn bytes_at(&self, bytes: &Range<usize>) -> *mut [u8] {
        let start = self.start.wrapping_byte_add(bytes.start);
        ptr::slice_from_raw_parts_mut(start.cast(), bytes.len())
    }

    /// Allows this access to a range of its bytes, which are of whole pages.
    pub(super) fn protect(&self, bytes: Range<usize>, access: Access) -> Result<(), Error> {
        let start = self.start.wrapping_byte_add(bytes.start);
        // SAFETY: mprotect(2): pages of this mapping, which no Rust reference but to cells covers. A region has them if
        // access is allowed.
        check("mprotect", unsafe { libc::mprotect(start, bytes.len(), flags_of(access)) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: munmap(2): this value's mapping, which a forked process inherits; its owner has ended what uses it.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Both views of a region's private memory.
pub(super) struct Views {
    library: Mapping,
    pub(super) program: Mapping,
    /// Protects the program's view; `None` if mprotect(2) does.
    userfaultfd: Option<Userfaultfd>,
}

impl Views {
    pub(super) fn new(layout: &Layout, protection: Protection) -> Result<Self, Error> {
        let bytes = layout.memory_words().saturating_mul(WORD_BYTES);
        // SAFETY: memfd_create(2): a terminated name.
        let file = unsafe { libc::memfd_create(c"probeline-dsm".as_ptr(), libc::MFD_CLOEXEC) };
        check("memfd_create", file)?;
        // SAFETY: a descriptor that was just opened, and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let length = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
        // SAFETY: ftruncate(2) takes no pointer.
        check("ftruncate", unsafe { libc::ftruncate(file.as_raw_fd(), length) })?;
        let library = Mapping::new(Some(&file), bytes, Access::Write)?;
        // The mirror is the first part of the memory.
        let mirror = layout.parts[0].saturating_mul(WORD_BYTES);
        let (access, userfaultfd) = match protection {
            Protection::Mprotect => (Access::None, None),
            Protection::Userfaultfd => (Access::Write, Some(Userfaultfd::open()?)),
        };
        let program = Mapping::new(Some(&file), mirror, access)?;
        let this = Self { library, program, userfaultfd };
        if let Some(userfaultfd) = &this.userfaultfd {
            this.program.unlock()?;
            let pages = this.program.bytes_at(&(0..mirror));
            userfaultfd.register(pages)?;
            // Where mlockall(2) has made the kernel fill new mappings, pages would not fault.
            userfaultfd.protect(pages, ptr::null(), Access::Write, Access::None)?;
        }
        Ok(this)
    }

    /// Returns whether an access that is allowed may fault, because the kernel has taken the page away.
    pub(super) fn may_lose_pages(&self) -> bool {
        self.userfaultfd.is_some()
    }

    /// Grants the program an access to some pages, all of whose access was `before`.
    pub(super) fn protect(
        &self,
        layout: &Layout,
        pages: &Range<u32>,
        before: Access,
        access: Access,
    ) -> Result<(), Error> {
        let page_bytes = layout.page_bytes();
        if pages.is_empty() {
            return Ok(());
        }
        let bytes = pages.start as usize * page_bytes..pages.end as usize * page_bytes;
        let Some(userfaultfd) = &self.userfaultfd else {
            return self.program.protect(bytes, access);
        };
        let library = self.library.bytes_at(&bytes).cast::<u8>();
        userfaultfd.protect(self.program.bytes_at(&bytes), library, before, access)
    }
}

impl AsMut<[u64]> for Views {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut [u64] {
        let words = self.library.bytes / WORD_BYTES;
        // SAFETY: `new` has mapped these words, readable and writable, until `self` is dropped. No other reference
        // to them exists: the program's view is of cells, at other addresses, which its one thread does not access while
        // the library runs, in a call or in the handler of its fault.
        unsafe { core::slice::from_raw_parts_mut(self.library.start.cast(), words) }
    }
}

fn flags_of(access: Access) -> c_int {
    match access {
        Access::None => libc::PROT_NONE,
        Access::Read => libc::PROT_READ,
        Access::Write => libc::PROT_READ | libc::PROT_WRITE,
    }
}

/// Returns the bytes of the system's page.
pub(super) fn page_size() -> usize {
    // SAFETY: sysconf(3) takes no pointer.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Returns the error of a system call that has returned this status.
pub(super) fn check(call: &'static str, status: c_int) -> Result<(), Error> {
    // SAFETY: the error number of this thread.
    let errno = || unsafe { *libc::__errno_location() };
    if status < 0 { Err(Error::System { call, errno: errno() }) } else { Ok(()) }
}
