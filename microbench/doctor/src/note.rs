//! The notes that findings refer to.

use core::fmt;

use serde::{Serialize, Serializer};

/// The folder of the notes, relative to the root of the repository.
pub const FOLDER: &str = "firmware-notes";

/// A note in the folder `firmware-notes`, identified by its file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note(&'static str);

macro_rules! notes {
    ($($name:ident = $file:literal;)*) => {
        impl Note {
            $(pub(crate) const $name: Self = Self($file);)*

            /// Every note that a finding can name.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

notes! {
    ATOMIC_BYTE_ORDER = "atomic-byte-order.md";
    CLOCK_SOURCE = "clock-source.md";
    CORES = "cores.md";
    CPU_GOVERNOR = "cpu-governor.md";
    DEVICE_ATOMICS = "device-atomics.md";
    DEVICES_WITHOUT_ATOMICS = "devices-without-atomics.md";
    FIRMWARE_VERSION = "firmware-version.md";
    FORK = "fork.md";
    GIDS = "gids.md";
    HUGE_PAGES = "huge-pages.md";
    IOMMU = "iommu.md";
    LINK_STATE = "link-state.md";
    LOCKED_MEMORY = "locked-memory.md";
    LOSSY_ETHERNET = "lossy-ethernet.md";
    MTU = "mtu.md";
    NO_DEVICE = "no-device.md";
    NUMA_BALANCING = "numa-balancing.md";
    NUMA_NODE = "numa-node.md";
    OUTSTANDING_READS = "outstanding-reads.md";
    PCI_ATOMICS = "pci-atomics.md";
    PCIE_LINK = "pcie-link.md";
    READ_REQUEST_SIZE = "read-request-size.md";
    SHARED_MEMORY = "shared-memory.md";
    SOFT_ROCE = "soft-roce.md";
    WRITE_ORDERING = "write-ordering.md";
}

impl Note {
    /// Returns the file name.
    #[must_use]
    pub fn file(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FOLDER}/{}", self.0)
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
