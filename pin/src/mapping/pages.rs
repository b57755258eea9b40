//! The pages a mapping really has, and why they are not huge.

use core::fmt;
use std::fs;

use super::smaps::Area;
use crate::errno::Errno;

/// The pages of a mapping, as the kernel reported them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Base pages.
    Base {
        /// Bytes in a page.
        page_bytes: usize,
        /// Why they are not huge, where that was asked for.
        reason: Option<NoHuge>,
    },
    /// Transparent huge pages, for all of the mapping or a part.
    Transparent {
        /// Bytes in huge pages.
        huge_bytes: usize,
        /// Bytes mapped.
        mapped_bytes: usize,
    },
    /// Pages of the hugetlb pool.
    HugeTlb {
        /// Bytes in a page.
        page_bytes: usize,
    },
    /// `/proc/self/smaps`, which lists page sizes, cannot be read.
    Unknown {
        /// The `errno` of reading the file.
        errno: i32,
    },
}

/// Why a mapping has no huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHuge {
    /// They were not asked for.
    NotAsked,
    /// The mapping is smaller than one huge page.
    Small,
    /// The kernel has no transparent huge pages.
    Absent,
    /// No hugetlb page was free, and transparent ones are off for private memory.
    PrivateOff,
    /// No hugetlb page was free, and transparent ones are off for shared memory.
    SharedOff,
    /// No hugetlb page was free, and the kernel gave no transparent ones when asked: memory is
    /// fragmented or short.
    NotGiven,
}

/// The settings for private and for shared memory, in the directory below.
pub(super) const PRIVATE_THP: &str = "enabled";
pub(super) const SHARED_THP: &str = "shmem_enabled";
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Bytes in a transparent huge page, or why there are none. See the kernel's
/// Documentation/admin-guide/mm/transhuge.rst.
pub(super) fn transparent_bytes(setting: &str) -> Result<usize, NoHuge> {
    let read = |name: &str| fs::read_to_string(format!("{THP}/{name}")).ok();
    let bytes = read("hpage_pmd_size").and_then(|text| text.trim().parse().ok());
    let (Some(bytes), Some(chosen)) = (bytes, read(setting)) else {
        return Err(NoHuge::Absent);
    };
    if chosen.contains("[never]") || chosen.contains("[deny]") {
        return Err(if setting == SHARED_THP { NoHuge::SharedOff } else { NoHuge::PrivateOff });
    }
    Ok(bytes)
}

impl Pages {
    /// What `area` says of a mapping of `mapped_bytes`.
    pub(super) fn seen(area: &Area, mapped_bytes: usize, reason: Option<NoHuge>) -> Self {
        if area.page_bytes > super::page_bytes() {
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

impl fmt::Display for NoHuge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("huge pages were not asked for"),
            Self::Small => f.write_str("less than one huge page"),
            Self::Absent => f.write_str("no free hugetlb page, no transparent huge pages"),
            Self::PrivateOff => write!(f, "no free hugetlb page, and {THP}/{PRIVATE_THP} is off"),
            Self::SharedOff => write!(f, "no free hugetlb page, and {THP}/{SHARED_THP} is off"),
            Self::NotGiven => f.write_str("no free hugetlb page, and no transparent one was given"),
        }
    }
}
