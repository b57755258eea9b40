//! The pages of a mapping as `/proc/self/smaps` reports them (proc_pid_smaps(5)), and the reasons
//! why they are not huge.

use core::fmt;
use std::{fs, io};

use crate::errno::Errno;

/// The pages of a mapping, as the kernel reported them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Base pages.
    Base {
        /// The size of a page.
        page_bytes: usize,
        /// The reason why the pages are not huge, if huge pages were requested.
        reason: Option<NoHuge>,
    },
    /// Transparent huge pages, at least for a part of the mapping.
    Transparent {
        /// Bytes in huge pages.
        huge_bytes: usize,
        /// Bytes mapped.
        mapped_bytes: usize,
    },
    /// Pages of the hugetlb pool.
    HugeTlb {
        /// The size of a page.
        page_bytes: usize,
    },
    /// `/proc/self/smaps`, which lists page sizes, cannot be read.
    Unknown {
        /// The `errno` of reading the file.
        errno: i32,
    },
}

/// The reason why a mapping has no huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHuge {
    /// They were not requested.
    NotAsked,
    /// The mapping is smaller than one huge page.
    Small,
    /// The kernel has no transparent huge pages.
    Absent,
    /// No hugetlb page was free, transparent ones are off for private memory, and the kernel does
    /// not make them on request: it is older than 6.1, the setting is `deny`, or a seccomp filter
    /// refuses the call.
    PrivateOff,
    /// The same as [`PrivateOff`](Self::PrivateOff), for shared memory.
    SharedOff,
    /// No hugetlb page was free, and the kernel provided no transparent ones: memory is fragmented
    /// or short.
    NotGiven,
}

impl fmt::Display for NoHuge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off = |setting| format!("no free hugetlb page, {THP}/{setting} is off, {COLLAPSE}");
        f.write_str(match self {
            Self::NotAsked => "huge pages were not requested",
            Self::Small => "less than one huge page",
            Self::Absent => "no free hugetlb page, no transparent huge pages",
            Self::PrivateOff => return f.write_str(&off(PRIVATE_THP)),
            Self::SharedOff => return f.write_str(&off(SHARED_THP)),
            Self::NotGiven => "no free hugetlb page, and the kernel provided no transparent one",
        })
    }
}

/// The settings of transparent huge pages for private and for shared memory, in `THP`.
pub(super) const PRIVATE_THP: &str = "enabled";
pub(super) const SHARED_THP: &str = "shmem_enabled";
const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const COLLAPSE: &str = "and MADV_COLLAPSE (Linux 6.1) is not available";

/// Returns the size of a transparent huge page, if the kernel has them. See the kernel's
/// Documentation/admin-guide/mm/transhuge.rst.
pub(super) fn transparent_bytes() -> Option<usize> {
    let text = fs::read_to_string(format!("{THP}/hpage_pmd_size")).ok()?;
    text.trim().parse().ok().filter(|bytes: &usize| bytes.is_power_of_two())
}

/// Returns the reason for base pages on a kernel that cannot collapse them.
pub(super) fn why_base(setting: &str) -> NoHuge {
    let chosen = fs::read_to_string(format!("{THP}/{setting}")).unwrap_or_default();
    match setting {
        _ if !chosen.contains("[never]") && !chosen.contains("[deny]") => NoHuge::NotGiven,
        SHARED_THP => NoHuge::SharedOff,
        _ => NoHuge::PrivateOff,
    }
}

impl Pages {
    /// Returns the pages of a mapping of `mapped_bytes` bytes that `area` describes.
    pub(super) fn seen(area: &Area, mapped_bytes: usize, reason: Option<NoHuge>) -> Self {
        if area.page_bytes > rustix::param::page_size() {
            return Self::HugeTlb { page_bytes: area.page_bytes };
        }
        if area.huge_bytes > 0 {
            return Self::Transparent { huge_bytes: area.huge_bytes, mapped_bytes };
        }
        Self::Base { page_bytes: area.page_bytes, reason }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base { page_bytes, reason: None } => {
                write!(f, "{} KiB pages", page_bytes >> 10)
            }
            Self::Base { page_bytes, reason: Some(reason) } => {
                write!(f, "{} KiB pages ({reason})", page_bytes >> 10)
            }
            Self::Transparent { huge_bytes, mapped_bytes } => write!(
                f,
                "transparent huge pages for {} of {} MiB",
                huge_bytes >> 20,
                mapped_bytes >> 20
            ),
            Self::HugeTlb { page_bytes } => write!(f, "hugetlb pages of {} KiB", page_bytes >> 10),
            Self::Unknown { errno } => {
                write!(f, "pages of unknown size (/proc/self/smaps: {})", Errno(*errno))
            }
        }
    }
}

impl NoHuge {
    /// Returns an alternative to more hugetlb pages.
    pub(crate) fn alternative(self) -> &'static str {
        match self {
            Self::SharedOff => {
                ", or `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`"
            }
            Self::PrivateOff => ", or `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
            Self::NotGiven => ", or `sysctl vm.compact_memory=1` and try again",
            Self::NotAsked | Self::Small | Self::Absent => "",
        }
    }
}

/// The page sizes of one mapped area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Area {
    /// The smallest page of the area.
    page_bytes: usize,
    /// Bytes in transparent huge pages.
    huge_bytes: usize,
}

/// Returns the area of this process that holds `address`.
pub(super) fn area_at(address: usize) -> io::Result<Area> {
    parse(&fs::read("/proc/self/smaps")?, address).ok_or(io::ErrorKind::NotFound.into())
}

fn parse(smaps: &[u8], address: usize) -> Option<Area> {
    // The names of mapped files may not be UTF-8.
    let smaps = String::from_utf8_lossy(smaps);
    let holds = |line: &&str| range(line).is_some_and(|range| range.contains(&address));
    let mut area = Area::default();
    for line in smaps.lines().skip_while(|line| !holds(line)).skip(1) {
        if range(line).is_some() {
            break;
        }
        area.take_field(line);
    }
    Some(area).filter(|area| area.page_bytes > 0)
}

/// Parses the addresses on the first line of an area: `7f0c00000000-7f0c00200000 rw-s ...`.
fn range(line: &str) -> Option<core::ops::Range<usize>> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    Some(hex(start)?..hex(end)?)
}

impl Area {
    /// Reads a line like `KernelPageSize:        4 kB`.
    fn take_field(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else { return };
        let kib = value.trim().strip_suffix(" kB").and_then(|kib| kib.parse().ok());
        let bytes = usize::saturating_mul(kib.unwrap_or(0), 1024);
        match name {
            "KernelPageSize" => self.page_bytes = bytes,
            "AnonHugePages" | "ShmemPmdMapped" => self.huge_bytes += bytes,
            _ => {}
        }
    }
}

/// Returns the bytes of memory that programs can still use without swapping, without huge pages, as
/// proc_meminfo(5) estimates them; `None` where `/proc` is hidden.
#[must_use]
pub fn memory_available() -> Option<u64> {
    meminfo(["MemAvailable:"])
}

/// Returns the bytes of all memory and swap; `None` where `/proc` is hidden.
pub(super) fn memory_installed() -> Option<u64> {
    meminfo(["MemTotal:", "SwapTotal:"])
}

/// Returns the sum of these entries of `/proc/meminfo`, in bytes.
fn meminfo<const N: usize>(names: [&str; N]) -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_end_matches("kB").trim().parse().ok()
    };
    names.into_iter().map(kib).sum::<Option<u64>>().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &[u8] = b"\
7f0000000000-7f0000200000 rw-s 00000000 00:01 7 /memfd:a-b (deleted)
Size:               2048 kB
KernelPageSize:        4 kB
AnonHugePages:         0 kB
ShmemPmdMapped:     2048 kB
VmFlags: rd wr sh
7f0000200000-7f0000400000 rw-p 00000000 00:00 0 /odd\xff:name
KernelPageSize:     2048 kB
AnonHugePages:         0 kB
7f0000400000-7f0000600000 rw-p 00000000 00:00 0
";

    #[test]
    fn finds_area_of_address() {
        let at = |address| parse(SMAPS, address);
        let shared = Area { page_bytes: 4096, huge_bytes: 2 << 20 };
        assert_eq!(at(0x7f00_0000_0000), Some(shared));
        assert_eq!(at(0x7f00_001f_ffff), Some(shared));
        assert_eq!(at(0x7f00_0020_0000), Some(Area { page_bytes: 2 << 20, huge_bytes: 0 }));
    }

    #[test]
    fn unmapped_address_has_no_area() {
        assert!(parse(SMAPS, 0x7f00_0060_0000).is_none());
        assert!(parse(SMAPS, 0x7f00_0040_0000).is_none());
    }

    #[test]
    fn reads_own_smaps() {
        let on_stack = 0_u8;
        let area = area_at((&raw const on_stack).addr()).unwrap();
        assert_eq!(area.page_bytes, rustix::param::page_size());
    }
}
