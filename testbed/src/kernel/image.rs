//! Extracts the uncompressed kernel from a bzImage, so that the guest does not have to decompress
//! it. QEMU starts it by its PVH entry.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};

use crate::HANG_TIMEOUT;
use crate::tool::Tool;

/// Writes the kernel in the bzImage `from` to `into`.
pub(super) fn extract(from: &Path, into: &Path) -> Result<()> {
    let image = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    let (program, payload) = find_payload(&image).with_context(|| {
        format!("{} is not a bzImage with a kernel compressed by xz or zstd", from.display())
    })?;
    let packed = into.with_extension("packed");
    let failed = || format!("extracting {}", into.display());
    fs::write(&packed, payload).with_context(failed)?;
    let input = File::open(&packed).with_context(failed)?;
    let output = File::create(into).with_context(failed)?;
    // Both formats have checksums.
    Tool::new(program).arg("-dc").stdin(input).stdout(output).run(HANG_TIMEOUT)?;
    fs::remove_file(&packed).with_context(failed)
}

/// Finds the program that decompresses the payload, and the payload, by the set-up header (Linux,
/// Documentation/arch/x86/boot.rst, protocol 2.08 and later).
fn find_payload(image: &[u8]) -> Option<(&'static str, &[u8])> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let word = |at: usize| {
        let bytes = image.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    // Zero stands for four, for old boot loaders.
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * 512 + word(0x248)?;
    // The last four bytes are the uncompressed size.
    let payload = image.get(start..start.checked_add(word(0x24c)?)?.checked_sub(4)?)?;
    match payload {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(("xz", payload)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(("zstd", payload)),
        _ => None,
    }
}
