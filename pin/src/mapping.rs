//! Zeroed memory with the requested page size and NUMA node. The kernel provides all pages when the
//! memory is mapped, so that a lack of memory is an error and not a later signal.

mod pages;
#[cfg(test)]
mod tests;

pub use pages::{NoHuge, Pages, memory_available};

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, SealFlags, fallocate, fchmod, fcntl_add_seals,
    fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

use crate::errno::Errno;
use crate::error::Error;
use crate::numa::{NodeId, bind_range};
use pages::{PRIVATE_THP, SHARED_THP, area_at, memory_installed, transparent_bytes, why_base};

/// Makes huge pages whatever the kernel's settings, except `deny` (madvise(2), Linux 6.1). `libc`
/// defines it for glibc only.
const MADV_COLLAPSE: c_int = 25;
/// Maximum calls while the kernel answers that pages are busy, for example on another CPU's list.
const COLLAPSE_ATTEMPTS: usize = 3;
/// Maximum searches for aligned addresses. In a test of four threads 16 sufficed in each of 20 runs, and 1 never did.
const ALIGN_ATTEMPTS: usize = 16;

/// The NUMA node and the page size of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPolicy {
    /// The preferred NUMA node; with `None` the thread that first touches a page determines its
    /// node. A refused policy is not an error: see [`Mapping::policy_refused`].
    pub node: Option<NodeId>,
    /// Whether to use huge pages.
    pub huge: HugePages,
}

/// Whether to use huge pages: hugetlb pages if enough are free, otherwise transparent ones. Since
/// Linux 6.1 the latter need neither root nor a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Only base pages, also on a system that makes all pages huge.
    Never,
    /// Huge pages if they are available and the mapping fills at least one.
    #[default]
    Try,
    /// Huge pages for the whole mapping, or an error. The size is rounded up to them.
    Require,
}

/// Page-aligned zeroed memory, unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    /// Mapped bytes, a multiple of the page size.
    length: usize,
    words: usize,
    pages: Pages,
    policy_refused: Option<Error>,
}

// SAFETY: the memory belongs to the mapping, not to a thread; all access is through atomics.
unsafe impl Send for Mapping {}
// SAFETY: all access to the memory is through atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps private memory of at least `bytes` bytes.
    ///
    /// # Errors
    /// [`Error`]: a failed call, or required huge pages that are not available.
    pub fn anonymous(bytes: usize, policy: &MemoryPolicy) -> Result<Self, Error> {
        Self::hugetlb(bytes, policy).map(|(mapping, _)| mapping).or_else(|refused| {
            Plan::new(bytes, policy, PRIVATE_THP)
                .and_then(|plan| Self::plain(policy, &plan, None))
                .map_err(|error| after_hugetlb(error, refused))
        })
    }

    /// Maps memory of at least `bytes` bytes that peers map by the descriptor: a memfd of mode 0600,
    /// sealed against shrinking and growing. It has no name; the kernel frees it with its last
    /// user.
    ///
    /// # Errors
    /// As for [`anonymous`](Self::anonymous).
    pub fn shared(bytes: usize, policy: &MemoryPolicy) -> Result<(Self, OwnedFd), Error> {
        Self::hugetlb(bytes, policy).or_else(|refused| {
            let create = || {
                let plan = Plan::new(bytes, policy, SHARED_THP)?;
                let file = memfd(MemfdFlags::empty(), bytes)?;
                size_and_seal(&file, plan.length)?;
                Ok((Self::plain(policy, &plan, Some(file.as_fd()))?, file))
            };
            create().map_err(|error| after_hugetlb(error, refused))
        })
    }

    /// Maps the memory of a peer, of at least `bytes` bytes, by its [`shared`](Self::shared)
    /// descriptor. It stays mapped after the peer has ended. It has huge pages where the peer's
    /// mapping has them.
    ///
    /// # Errors
    /// [`Error::Short`] and [`Error::NotSealed`] if an access could raise SIGBUS;
    /// otherwise a failed call.
    pub fn from_fd(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, Error> {
        let status = check("fstat", bytes, fstat(file))?;
        if !fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(Error::NotSealed);
        }
        let length = usize::try_from(status.st_size).unwrap_or(0);
        if bytes == 0 || length < bytes {
            return Err(Error::Short { needed_bytes: bytes, found_bytes: length });
        }
        // The kernel maps a huge page of the file whole, if the addresses are aligned.
        let align = transparent_bytes().filter(|&huge| length >= huge).unwrap_or(1);
        Self::map(
            &Plan { bytes, length, align, node: None, advice: None, reason: None },
            Some(file),
        )
    }

    /// Returns the requested words of the memory: `bytes / 8`.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `map` made `words` words from `start` on readable and writable, page-aligned
        // and zero; they stay mapped until drop. All access is through these atomics, by peers too.
        unsafe { core::slice::from_raw_parts(self.start.cast().as_ptr(), self.words) }
    }

    /// Returns the pages as the kernel reported them after all were provided.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Returns the [`Error::Bind`] of the requested memory policy, if a container or a kernel without
    /// NUMA refused it.
    #[must_use]
    pub fn policy_refused(&self) -> Option<&Error> {
        self.policy_refused.as_ref()
    }

    /// Maps memory in hugetlb pages, from a file also for private use, because fallocate(2) works on
    /// it.
    fn hugetlb(bytes: usize, policy: &MemoryPolicy) -> Result<(Self, OwnedFd), Error> {
        if policy.huge == HugePages::Never {
            return Err(no_huge(bytes, NoHuge::NotAsked));
        }
        let file = memfd(MemfdFlags::HUGETLB, bytes)?;
        // hugetlbfs reports its page size as the block size.
        let block_bytes = check("fstat", bytes, fstat(&file))?.st_blksize;
        let page_bytes = usize::try_from(block_bytes).unwrap_or(1);
        if policy.huge == HugePages::Try && bytes < page_bytes {
            return Err(no_huge(bytes, NoHuge::Small));
        }
        let length = round_up(bytes, page_bytes)?;
        size_and_seal(&file, length)?;
        let node = policy.node;
        let plan = Plan { bytes, length, align: 1, node, advice: None, reason: None };
        let mut mapping = Self::map(&plan, Some(file.as_fd()))?;
        if matches!(mapping.pages, Pages::Unknown { .. }) {
            mapping.pages = Pages::HugeTlb { page_bytes };
        }
        Ok((mapping, file))
    }

    /// Maps memory in base pages or transparent huge pages.
    fn plain(
        policy: &MemoryPolicy,
        plan: &Plan,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Self, Error> {
        let bytes = plan.bytes;
        let mapping = Self::map(plan, file)?;
        match mapping.pages {
            Pages::Transparent { huge_bytes, .. } if huge_bytes == plan.length => Ok(mapping),
            _ if policy.huge != HugePages::Require => Ok(mapping),
            Pages::Unknown { errno } => {
                Err(Error::Map { call: "read(/proc/self/smaps)", bytes, errno })
            }
            Pages::Base { reason: Some(reason), .. } => Err(no_huge(bytes, reason)),
            _ => Err(no_huge(bytes, NoHuge::NotGiven)),
        }
    }

    /// Maps `file`, or private zeroes, at a multiple of `align` if such addresses are free, and
    /// provides all pages.
    fn map(plan: &Plan, file: Option<BorrowedFd<'_>>) -> Result<Self, Error> {
        let &Plan { bytes, length, align, .. } = plan;
        let start = map_aligned(length, align, file);
        let start = check("mmap", bytes, start)?.cast();
        let Some(start) = NonNull::new(start) else { return Err(Error::Size { bytes }) };
        let pages = Pages::Base { page_bytes: page_size(), reason: None };
        let words = bytes / size_of::<AtomicU64>();
        let mut mapping = Self { start, length, words, pages, policy_refused: None };
        mapping.bind(plan.node)?;
        let reason = mapping.advise(plan);
        mapping.populate(file)?;
        mapping.pages = match area_at(start.addr().get()) {
            Ok(area) => Pages::seen(&area, length, reason),
            Err(error) => Pages::Unknown { errno: error.raw_os_error().unwrap_or(libc::ENOENT) },
        };
        Ok(mapping)
    }

    /// Prefers `node`. The policy is a preference, so a refusal is recorded and is not an error. A
    /// node that this machine does not have is an error.
    fn bind(&mut self, node: Option<NodeId>) -> Result<(), Error> {
        let Some(node) = node else { return Ok(()) };
        match bind_range(self.start, self.length, node) {
            Err(errno) if Errno(errno).is_refusal() => {
                self.policy_refused = Some(Error::Bind { node, errno });
                Ok(())
            }
            bound => bound.map_err(|errno| Error::Bind { node, errno }),
        }
    }

    /// Forbids huge pages, or makes them. Returns the reason why pages may be base pages. Refusals
    /// are not errors: smaps shows the result.
    fn advise(&self, plan: &Plan) -> Option<NoHuge> {
        let Some(advice) = plan.advice else { return plan.reason };
        // SAFETY: the range is this mapping's own; neither kind of advice used here changes
        // contents.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.length, advice) };
        if advice != Advice::LinuxHugepage {
            return plan.reason;
        }
        match self.collapse(plan.align) {
            Err(errno) if is_unsupported(errno) => plan.reason,
            _ => Some(NoHuge::NotGiven),
        }
    }

    /// Makes huge pages of `huge_bytes`, as far as memory suffices. The base page from which the
    /// kernel makes each one is provided first: collapsing pages that are all present would copy
    /// them.
    ///
    /// # Errors
    /// The `errno` of madvise(2). Some pages may be huge.
    fn collapse(&self, huge_bytes: usize) -> Result<(), i32> {
        let start = self.start.as_ptr();
        for offset in (0..self.length).step_by(huge_bytes) {
            let page = start.wrapping_add(offset).cast();
            // SAFETY: the page is this mapping's own; populating changes no contents.
            let populated = unsafe { madvise(page, page_size(), Advice::LinuxPopulateWrite) };
            populated.map_err(|errno| errno.raw_os_error())?;
        }
        for _ in 0..COLLAPSE_ATTEMPTS {
            // SAFETY: the range is this mapping's own; collapsing changes no contents.
            match unsafe { libc::madvise(start.cast(), self.length, MADV_COLLAPSE) } {
                0 => return Ok(()),
                _ if Errno::last() != libc::EAGAIN => return Err(Errno::last()),
                _ => {}
            }
        }
        Err(libc::EAGAIN)
    }

    /// Provides every page now. If memory is short, madvise(2) returns `EFAULT` or `ENOMEM`,
    /// whereas an access would raise SIGBUS.
    fn populate(&self, file: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        let start = self.start.as_ptr().cast::<c_void>();
        // SAFETY: the range is this mapping's own; populating changes no contents.
        let populated = unsafe { madvise(start, self.length, Advice::LinuxPopulateWrite) };
        match (populated, file) {
            (Err(errno), None) if is_unsupported(errno.raw_os_error()) => {
                self.touch();
                Ok(())
            }
            (Err(errno), Some(file)) if is_unsupported(errno.raw_os_error()) => {
                let allocated = fallocate(file, FallocateFlags::empty(), 0, self.length as u64);
                check("fallocate", self.length, allocated)
            }
            (populated, _) => check("madvise(MADV_POPULATE_WRITE)", self.length, populated),
        }
    }

    /// Writes zero to every page of private memory; a read would map the kernel's shared zero page.
    fn touch(&self) {
        let words_of_a_page = page_size() / size_of::<AtomicU64>();
        self.words()
            .iter()
            .step_by(words_of_a_page)
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` obtained; borrows of its words have ended.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The layout of a mapping.
struct Plan {
    /// The requested bytes.
    bytes: usize,
    length: usize,
    align: usize,
    node: Option<NodeId>,
    advice: Option<Advice>,
    /// Why pages may stay base pages if the kernel does not make huge ones on request.
    reason: Option<NoHuge>,
}

impl Plan {
    /// Plans a mapping without hugetlb pages.
    fn new(bytes: usize, policy: &MemoryPolicy, setting: &str) -> Result<Self, Error> {
        let huge = match (policy.huge, transparent_bytes()) {
            (HugePages::Never, _) => Err(None),
            (HugePages::Require, None) => {
                return Err(no_huge(bytes, NoHuge::Absent));
            }
            (HugePages::Try, None) => Err(Some(NoHuge::Absent)),
            (HugePages::Try, Some(huge)) if bytes < huge => Err(Some(NoHuge::Small)),
            (_, Some(huge)) => Ok(huge),
        };
        let align = huge.unwrap_or(page_size());
        let (advice, reason) = match huge {
            Ok(_) => (Advice::LinuxHugepage, Some(why_base(setting))),
            Err(reason) => (Advice::LinuxNoHugepage, reason),
        };
        let length = round_up(bytes, align)?;
        if let Some(installed_bytes) = memory_installed().filter(|&max| bytes as u64 > max) {
            return Err(Error::TooLarge { bytes, installed_bytes });
        }
        Ok(Self { bytes, length, align, node: policy.node, advice: Some(advice), reason })
    }
}

/// Returns whether an advice of madvise(2) is unknown, as MADV_POPULATE_WRITE before Linux 5.14 and
/// MADV_COLLAPSE before 6.1, or a seccomp filter refuses the call.
fn is_unsupported(errno: i32) -> bool {
    errno == libc::EINVAL || Errno(errno).is_refusal()
}

/// Maps `length` bytes of `file`, or private zeroes, at a multiple of `align`. If other threads map the
/// addresses found in each of `ALIGN_ATTEMPTS` searches, the kernel chooses them, and the mapping has no
/// huge pages.
fn map_aligned(
    length: usize,
    align: usize,
    file: Option<BorrowedFd<'_>>,
) -> rustix::io::Result<*mut c_void> {
    let attempts = if align > page_size() { ALIGN_ATTEMPTS } else { 0 };
    for _ in 0..attempts {
        let hint = aligned_hint(length, align);
        if hint.is_null() {
            break;
        }
        let start = map_at(hint, length, file)?;
        if start == hint {
            return Ok(start);
        }
        // SAFETY: the range was just mapped, and there is no reference to it.
        unsafe { munmap(start, length) }?;
    }
    map_at(ptr::null_mut(), length, file)
}

/// Maps `length` bytes of `file`, or private zeroes, at `hint` if those addresses are free.
fn map_at(
    hint: *mut c_void,
    length: usize,
    file: Option<BorrowedFd<'_>>,
) -> rustix::io::Result<*mut c_void> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without MAP_FIXED the kernel chooses free addresses; no other mapping is replaced.
    unsafe {
        match file {
            Some(file) => mmap(hint, length, access, MapFlags::SHARED, file, 0),
            None => mmap_anonymous(hint, length, access, MapFlags::PRIVATE),
        }
    }
}

/// Returns a multiple of `align` at which `length` bytes are free, or null. A gap stays free after
/// them, so that the kernel does not merge two mappings, whose pages smaps would then report as one.
fn aligned_hint(length: usize, align: usize) -> *mut c_void {
    let Some(room) = length.checked_add(align) else { return ptr::null_mut() };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: without MAP_FIXED the kernel chooses free addresses; no other mapping is replaced.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), room, ProtFlags::empty(), flags) };
    let Ok(start) = start else { return ptr::null_mut() };
    // SAFETY: the range was just mapped, and there is no reference to it.
    let _ = unsafe { munmap(start, room) };
    start.map_addr(|address| address.next_multiple_of(align))
}

/// Creates an empty memory file that only its owner may open.
fn memfd(flags: MemfdFlags, bytes: usize) -> Result<OwnedFd, Error> {
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Hardened systems require MFD_NOEXEC_SEAL; Linux before 6.3 refuses it.
    let file = memfd_create(c"probeline", flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| memfd_create(c"probeline", flags));
    let file = check("memfd_create", bytes, file)?;
    check("fchmod", bytes, fchmod(&file, Mode::RUSR | Mode::WUSR))?;
    Ok(file)
}

/// Sets the final size of `file`, so that no access by a peer raises SIGBUS.
fn size_and_seal(file: &OwnedFd, length: usize) -> Result<(), Error> {
    check("ftruncate", length, ftruncate(file, length as u64))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    check("fcntl(F_ADD_SEALS)", length, fcntl_add_seals(file, seals))
}

fn check<T>(call: &'static str, bytes: usize, result: rustix::io::Result<T>) -> Result<T, Error> {
    result.map_err(|errno| Error::Map { call, bytes, errno: errno.raw_os_error() })
}

fn round_up(bytes: usize, unit: usize) -> Result<usize, Error> {
    let rounded = bytes.checked_next_multiple_of(unit).filter(|&rounded| rounded > 0);
    rounded.ok_or(Error::Size { bytes })
}

fn no_huge(bytes: usize, reason: NoHuge) -> Error {
    Error::NoHugePages { bytes, hugetlb_errno: None, reason }
}

/// Adds the error of mapping hugetlb pages, if huge pages were required.
fn after_hugetlb(error: Error, hugetlb: Error) -> Error {
    match (error, hugetlb) {
        (Error::NoHugePages { bytes, reason, .. }, Error::Map { errno, .. }) => {
            Error::NoHugePages { bytes, hugetlb_errno: Some(errno), reason }
        }
        (error, _) => error,
    }
}
