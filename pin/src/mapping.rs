//! Zeroed memory with the page size and the NUMA node that were asked for, all of it provided at
//! set-up, so that lack of memory is an error then and not a signal at some later touch.

mod error;
mod pages;
mod smaps;
#[cfg(test)]
mod tests;

pub use error::MappingError;
pub use pages::{NoHuge, Pages};

use core::ffi::{CStr, c_int, c_uint, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::errno::Errno;
use crate::numa::{NodeId, PolicyRefused, bind_range};
use pages::{PRIVATE_THP, SHARED_THP, transparent_bytes};

/// Where memory is to lie and how large its pages are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPolicy {
    /// The NUMA node to prefer; with `None` the thread that first touches a page determines its
    /// node. A refused policy is not an error: see [`Mapping::policy_refused`].
    pub node: Option<NodeId>,
    /// Whether to use huge pages.
    pub huge: HugePages,
}

/// Whether to use huge pages: hugetlb ones where enough are free, else transparent ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Base pages only, also where the system makes all pages huge.
    Never,
    /// Huge pages if there are any, and if the mapping fills at least one.
    #[default]
    Try,
    /// Huge pages for the whole mapping, or an error. The size is rounded up to them.
    Require,
}

/// Page-aligned zeroed memory, unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    /// Bytes mapped, a multiple of the page size.
    length: usize,
    words: usize,
    pages: Pages,
    policy_refused: Option<PolicyRefused>,
}

// SAFETY: the memory belongs to the mapping, not to a thread; it is reached through atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private memory of at least `bytes` bytes.
    ///
    /// # Errors
    /// [`MappingError`]: the call that failed, or that there are no huge pages though required.
    pub fn anonymous(bytes: usize, policy: &MemoryPolicy) -> Result<Self, MappingError> {
        let refused = match Self::hugetlb(bytes, policy) {
            Ok((mapping, _)) => return Ok(mapping),
            Err(error) => error,
        };
        Plan::new(bytes, policy, PRIVATE_THP)
            .and_then(|plan| Self::plain(bytes, policy, &plan, None))
            .map_err(|error| error.after(refused))
    }

    /// Memory of at least `bytes` bytes that peers map by the descriptor: a memfd of mode 0600,
    /// sealed so that it can neither shrink nor grow. It has no name and ends with its last user.
    ///
    /// # Errors
    /// As for [`anonymous`](Self::anonymous).
    pub fn shared(bytes: usize, policy: &MemoryPolicy) -> Result<(Self, OwnedFd), MappingError> {
        let refused = match Self::hugetlb(bytes, policy) {
            Ok(both) => return Ok(both),
            Err(error) => error,
        };
        let create = || {
            let plan = Plan::new(bytes, policy, SHARED_THP)?;
            let file = memfd(0, bytes)?;
            size_and_seal(file.as_fd(), plan.length)?;
            Ok((Self::plain(bytes, policy, &plan, Some(file.as_fd()))?, file))
        };
        create().map_err(|error: MappingError| error.after(refused))
    }

    /// The memory of a peer, of at least `bytes` bytes, by its [`shared`](Self::shared)
    /// descriptor. Once mapped it stays, whatever becomes of the peer.
    ///
    /// # Errors
    /// [`MappingError::Short`] and [`MappingError::NotSealed`] where touching it could end in
    /// SIGBUS; otherwise the call that failed.
    pub fn from_fd(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, MappingError> {
        let status = status(file, bytes)?;
        // SAFETY: F_GET_SEALS takes no argument and only reads.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals == -1 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(MappingError::NotSealed);
        }
        let length = usize::try_from(status.st_size).unwrap_or(0);
        if bytes == 0 || length < bytes {
            return Err(MappingError::Short { needed_bytes: bytes, found_bytes: length });
        }
        let align = transparent_bytes(SHARED_THP).unwrap_or(1);
        let mut mapping = Self::map(bytes, length, align, Some(file))?;
        mapping.populate(Some(file))?;
        mapping.pages = mapping.pages_seen(None);
        Ok(mapping)
    }

    /// The words of the memory: `bytes / 8`, as many as were asked for.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `map` made `words` words from `start` on readable and writable, page-aligned
        // and zero; they stay until drop. All access is through these atomics, by peers too.
        unsafe { core::slice::from_raw_parts(self.start.cast().as_ptr(), self.words) }
    }

    /// The pages that were obtained, as the kernel reported them after all were provided.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// The memory policy that was requested and refused, by a container or by a kernel without
    /// NUMA; `None` if the kernel accepted it, or none was requested.
    #[must_use]
    pub fn policy_refused(&self) -> Option<PolicyRefused> {
        self.policy_refused
    }

    /// Memory in hugetlb pages, also for private use: one path, and fallocate(2) works on it.
    fn hugetlb(bytes: usize, policy: &MemoryPolicy) -> Result<(Self, OwnedFd), MappingError> {
        let no_huge = |reason| MappingError::NoHugePages { bytes, hugetlb_errno: 0, reason };
        if policy.huge == HugePages::Never {
            return Err(no_huge(NoHuge::NotAsked));
        }
        let file = memfd(libc::MFD_HUGETLB, bytes)?;
        // hugetlbfs gives its page size as the block size.
        let page_bytes = usize::try_from(status(file.as_fd(), bytes)?.st_blksize).unwrap_or(1);
        if policy.huge == HugePages::Try && bytes < page_bytes {
            return Err(no_huge(NoHuge::Small));
        }
        let length = round_up(bytes, page_bytes)?;
        size_and_seal(file.as_fd(), length)?;
        let mut mapping = Self::map(bytes, length, 1, Some(file.as_fd()))?;
        mapping.bind(policy.node)?;
        mapping.populate(Some(file.as_fd()))?;
        mapping.pages = match mapping.pages_seen(None) {
            Pages::Unknown { .. } => Pages::HugeTlb { page_bytes },
            seen => seen,
        };
        Ok((mapping, file))
    }

    /// Memory in base pages or transparent huge pages.
    fn plain(
        bytes: usize,
        policy: &MemoryPolicy,
        plan: &Plan,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Self, MappingError> {
        let mut mapping = Self::map(bytes, plan.length, plan.align, file)?;
        mapping.bind(policy.node)?;
        mapping.advise(plan.advice);
        mapping.populate(file)?;
        mapping.pages = mapping.pages_seen(plan.reason);
        match mapping.pages {
            Pages::Transparent { huge_bytes, .. } if huge_bytes == plan.length => Ok(mapping),
            _ if policy.huge != HugePages::Require => Ok(mapping),
            Pages::Unknown { errno } => {
                Err(MappingError::Call { call: "read(/proc/self/smaps)", bytes, errno })
            }
            _ => {
                let reason = plan.reason.unwrap_or(NoHuge::NotGiven);
                Err(MappingError::NoHugePages { bytes, hugetlb_errno: 0, reason })
            }
        }
    }

    /// Maps `length` bytes of `file`, or of private zeroes, at a multiple of `align` if the
    /// kernel agrees; the pages seen later show whether it did.
    fn map(
        bytes: usize,
        length: usize,
        align: usize,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Self, MappingError> {
        let (flags, fd) = match file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let hint = if align > page_bytes() { aligned_hint(length, align) } else { ptr::null_mut() };
        // SAFETY: without MAP_FIXED the kernel chooses free addresses; nothing else is replaced.
        let start = unsafe { libc::mmap(hint, length, access, flags, fd, 0) };
        let mapped = (start != libc::MAP_FAILED).then_some(start.cast::<u8>());
        let Some(start) = mapped.and_then(NonNull::new) else {
            return Err(MappingError::last("mmap", bytes));
        };
        let pages = Pages::Base { page_bytes: page_bytes(), reason: None };
        let words = bytes / size_of::<AtomicU64>();
        Ok(Self { start, length, words, pages, policy_refused: None })
    }

    /// Prefers `node`. The policy is a preference, so a refusal is recorded and is not an error. A
    /// node that this machine does not have is an error.
    fn bind(&mut self, node: Option<NodeId>) -> Result<(), MappingError> {
        let Some(node) = node else { return Ok(()) };
        match bind_range(self.start, self.length, node) {
            Err(errno) if Errno(errno).is_refusal() => {
                self.policy_refused = Some(PolicyRefused { node, errno });
                Ok(())
            }
            bound => bound.map_err(|errno| MappingError::Bind { node, errno }),
        }
    }

    /// Advice for the page size; ignored, for a kernel without transparent huge pages refuses it
    /// and what counts is what smaps shows in the end.
    fn advise(&self, advice: c_int) {
        // SAFETY: the range is this mapping's own; the two advices used change no contents.
        let _ = unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, advice) };
    }

    /// Provides every page now. Where memory lacks, madvise(2) answers `EFAULT` or `ENOMEM` where
    /// a touch would have been answered by SIGBUS.
    fn populate(&self, file: Option<BorrowedFd<'_>>) -> Result<(), MappingError> {
        let start = self.start.as_ptr().cast::<c_void>();
        // SAFETY: the range is this mapping's own; populating writes back what is there.
        if unsafe { libc::madvise(start, self.length, libc::MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let error = MappingError::last("madvise(MADV_POPULATE_WRITE)", self.length);
        // Linux before 5.14 does not support this advice, and a seccomp filter may refuse the call.
        let unknown = |errno| errno == libc::EINVAL || Errno(errno).is_refusal();
        match (error, file) {
            (MappingError::Call { errno, .. }, None) if unknown(errno) => {
                self.touch();
                Ok(())
            }
            (MappingError::Call { errno, .. }, Some(file)) if unknown(errno) => {
                let length = offset(self.length)?;
                // SAFETY: changes no memory, only gives the file its blocks.
                let done = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) };
                check("fallocate", self.length, done).map(|_| ())
            }
            (error, _) => Err(error),
        }
    }

    /// Writes to every page of private memory, which is still zero: reading would only map the
    /// kernel's shared zero page.
    fn touch(&self) {
        let words_of_a_page = page_bytes() / size_of::<AtomicU64>();
        self.words()
            .iter()
            .step_by(words_of_a_page)
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// What the kernel says of the pages, `reason` being why they may be base pages.
    fn pages_seen(&self, reason: Option<NoHuge>) -> Pages {
        match smaps::area_at(self.start.addr().get()) {
            Ok(area) => Pages::seen(&area, self.length, reason),
            Err(error) => Pages::Unknown { errno: error.raw_os_error().unwrap_or(libc::ENOENT) },
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` obtained; borrows of its words have ended.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// How a mapping without hugetlb pages is laid out.
struct Plan {
    length: usize,
    align: usize,
    advice: c_int,
    /// Why base pages are no surprise.
    reason: Option<NoHuge>,
}

impl Plan {
    fn new(bytes: usize, policy: &MemoryPolicy, setting: &str) -> Result<Self, MappingError> {
        let huge = match (policy.huge, transparent_bytes(setting)) {
            (HugePages::Never, _) => Err(None),
            (HugePages::Require, Err(reason)) => {
                return Err(MappingError::NoHugePages { bytes, hugetlb_errno: 0, reason });
            }
            (HugePages::Try, Err(reason)) => Err(Some(reason)),
            (HugePages::Try, Ok(huge)) if bytes < huge => Err(Some(NoHuge::Small)),
            (_, Ok(huge)) => Ok(huge),
        };
        let align = huge.unwrap_or(page_bytes());
        let (advice, reason) = match huge {
            Ok(_) => (libc::MADV_HUGEPAGE, Some(NoHuge::NotGiven)),
            Err(reason) => (libc::MADV_NOHUGEPAGE, reason),
        };
        Ok(Self { length: round_up(bytes, align)?, align, advice, reason })
    }
}

/// An address at which `length` bytes are free from a multiple of `align` on. Somebody may take
/// it before it is used, which costs huge pages and nothing else. A gap stays free behind them,
/// so that the kernel merges no two mappings, whose pages smaps would then show as one.
fn aligned_hint(length: usize, align: usize) -> *mut c_void {
    let Some(room) = length.checked_add(align) else { return ptr::null_mut() };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: without MAP_FIXED the kernel chooses free addresses; nothing else is replaced.
    let start = unsafe { libc::mmap(ptr::null_mut(), room, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    // SAFETY: the range just obtained, which nobody has seen.
    let _ = unsafe { libc::munmap(start, room) };
    start.map_addr(|address| address.next_multiple_of(align))
}

/// An empty memory file that its owner alone may open.
fn memfd(flags: c_uint, bytes: usize) -> Result<OwnedFd, MappingError> {
    const NAME: &CStr = c"probeline";
    let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string that outlives the call.
    let create = |flags| unsafe { libc::memfd_create(NAME.as_ptr(), flags) };
    // Hardened systems insist on MFD_NOEXEC_SEAL; Linux before 6.3 does not know it.
    let mut fd = create(flags | libc::MFD_NOEXEC_SEAL);
    if fd == -1 {
        fd = create(flags);
    }
    let fd = check("memfd_create", bytes, fd)?;
    // SAFETY: a descriptor just obtained, owned by nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: changes the mode of our own file.
    check("fchmod", bytes, unsafe { libc::fchmod(file.as_raw_fd(), 0o600) })?;
    Ok(file)
}

/// Gives `file` its final size, so that no peer's touch can ever end in SIGBUS.
fn size_and_seal(file: BorrowedFd<'_>, length: usize) -> Result<(), MappingError> {
    const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    let size = offset(length)?;
    // SAFETY: changes the size of our own file, not mapped yet.
    check("ftruncate", length, unsafe { libc::ftruncate(file.as_raw_fd(), size) })?;
    // SAFETY: F_ADD_SEALS takes an int and touches no memory.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) };
    check("fcntl(F_ADD_SEALS)", length, done).map(|_| ())
}

fn status(file: BorrowedFd<'_>, bytes: usize) -> Result<libc::stat, MappingError> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: writes one `stat` to a place of that type.
    check("fstat", bytes, unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) })?;
    Ok(status)
}

fn check(call: &'static str, bytes: usize, result: c_int) -> Result<c_int, MappingError> {
    if result == -1 { Err(MappingError::last(call, bytes)) } else { Ok(result) }
}

fn offset(bytes: usize) -> Result<libc::off_t, MappingError> {
    libc::off_t::try_from(bytes).map_err(|_| MappingError::Size { bytes })
}

fn round_up(bytes: usize, unit: usize) -> Result<usize, MappingError> {
    let rounded = bytes.checked_next_multiple_of(unit).filter(|&rounded| rounded > 0);
    rounded.ok_or(MappingError::Size { bytes })
}

fn page_bytes() -> usize {
    // SAFETY: only reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}
