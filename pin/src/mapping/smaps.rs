//! What `/proc/self/smaps` tells of the pages of one mapping, see proc_pid_smaps(5).

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// The page sizes of one mapped area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Area {
    /// The smallest page the area can have.
    pub(super) page_bytes: usize,
    /// Bytes in transparent huge pages.
    pub(super) huge_bytes: usize,
}

/// The area of this process that holds `address`.
pub(super) fn area_at(address: usize) -> io::Result<Area> {
    parse(BufReader::new(File::open("/proc/self/smaps")?), address)
}

fn parse(smaps: impl BufRead, address: usize) -> io::Result<Area> {
    let mut area = None;
    for line in smaps.split(b'\n') {
        let line = line?;
        // A file's name need not be UTF-8; everything before it is.
        let line = String::from_utf8_lossy(&line);
        match (range(&line), area.as_mut()) {
            (Some(range), None) if range.contains(&address) => area = Some(Area::default()),
            (Some(_), Some(_)) => break,
            (None, Some(area)) => take_field(&line, area),
            _ => {}
        }
    }
    area.filter(|area| area.page_bytes > 0).ok_or(io::ErrorKind::NotFound.into())
}

/// The addresses on the first line of an area: `7f0c00000000-7f0c00200000 rw-s ...`.
fn range(line: &str) -> Option<core::ops::Range<usize>> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    Some(hex(start)?..hex(end)?)
}

/// A line like `KernelPageSize:        4 kB`.
fn take_field(line: &str, area: &mut Area) {
    let Some((name, value)) = line.split_once(':') else { return };
    let Some(kib) = value.split_ascii_whitespace().next().and_then(|kib| kib.parse().ok()) else {
        return;
    };
    let bytes = usize::saturating_mul(kib, 1024);
    match name {
        "KernelPageSize" => area.page_bytes = bytes,
        "AnonHugePages" | "ShmemPmdMapped" => area.huge_bytes += bytes,
        _ => {}
    }
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
    fn finds_the_area_that_holds_the_address() {
        let at = |address| parse(SMAPS, address).ok();
        let shared = Area { page_bytes: 4096, huge_bytes: 2 << 20 };
        assert_eq!(at(0x7f00_0000_0000), Some(shared));
        assert_eq!(at(0x7f00_001f_ffff), Some(shared));
        assert_eq!(at(0x7f00_0020_0000), Some(Area { page_bytes: 2 << 20, huge_bytes: 0 }));
    }

    #[test]
    fn an_address_that_is_not_mapped_or_not_described_is_an_error() {
        assert!(parse(SMAPS, 0x7f00_0060_0000).is_err());
        assert!(parse(SMAPS, 0x7f00_0040_0000).is_err());
    }

    #[test]
    fn reads_the_kernels_own() {
        let on_stack = 0_u8;
        let area = area_at((&raw const on_stack).addr()).unwrap();
        assert_eq!(area.page_bytes, super::super::page_bytes());
    }
}
