//! The uncompressed kernel out of a bzImage. QEMU starts it by its PVH entry, which spares the
//! guest the decompression.

use std::fs::{self, File};
use std::path::Path;

use crate::error::Error;
use crate::patience::PATIENCE;
use crate::tool::Tool;

/// Where the compressed kernel lies in a bzImage.
#[derive(Debug, PartialEq, Eq)]
struct Payload {
    program: &'static str,
    start: usize,
    end: usize,
    /// Bytes that it has uncompressed.
    size: u64,
}

/// Writes the kernel in `from`, a bzImage, to `into`.
pub(super) fn extract(from: &Path, into: &Path) -> Result<(), Error> {
    let image = fs::read(from).map_err(Error::io(format!("reading {}", from.display())))?;
    let shown = from.display();
    let no_kernel = |what: &str| Error::NoKernel { reason: format!("{shown} {what}") };
    let payload = payload(&image)
        .ok_or_else(|| no_kernel("is no bzImage with a kernel compressed by xz, zstd or gzip"))?;
    let packed = into.with_extension("packed");
    fs::write(&packed, &image[payload.start..payload.end])
        .map_err(Error::io(format!("writing {}", packed.display())))?;
    let input = File::open(&packed).map_err(Error::io(format!("opening {}", packed.display())))?;
    let output = File::create(into).map_err(Error::io(format!("writing {}", into.display())))?;
    Tool::new(payload.program).arg("-dc").from_file(input).into_file(output).run(PATIENCE)?;
    fs::remove_file(&packed).map_err(Error::io(format!("removing {}", packed.display())))?;
    let size = fs::metadata(into).map_err(Error::io(format!("reading {}", into.display())))?.len();
    if size == payload.size { Ok(()) } else { Err(no_kernel("did not unpack to its stated size")) }
}

/// Reads the set-up header (Linux, Documentation/arch/x86/boot.rst, protocol 2.08 and later). The
/// last four bytes of a payload are its uncompressed size; gzip counts them as its own.
fn payload(image: &[u8]) -> Option<Payload> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let word = |at: usize| {
        let bytes = image.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    // Zero means four, for old boot loaders.
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * 512 + usize::try_from(word(0x248)?).ok()?;
    let end = start.checked_add(usize::try_from(word(0x24c)?).ok()?)?;
    let size_at = end.checked_sub(4)?;
    let size = u64::from(word(size_at)?);
    let payload = |program, end| Some(Payload { program, start, end, size });
    match image.get(start..size_at)? {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => payload("xz", size_at),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => payload("zstd", size_at),
        [0x1f, 0x8b, ..] => payload("gzip", end),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of one set-up sector whose payload begins 16 bytes into the second part.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024 + 16];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        image[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
        image.extend(payload);
        image.extend(b"what follows");
        image
    }

    #[test]
    fn the_payload_is_found_without_its_size() {
        let zstd = image(&[0x28, 0xb5, 0x2f, 0xfd, 9, 9, 0, 1, 0, 0]);
        let expected = Payload { program: "zstd", start: 1040, end: 1046, size: 256 };
        assert_eq!(payload(&zstd), Some(expected));
        let gzip = image(&[0x1f, 0x8b, 9, 9, 7, 0, 0, 0]);
        assert_eq!(payload(&gzip).map(|found| (found.end, found.size)), Some((1048, 7)));
    }

    #[test]
    fn kernels_of_each_compression_come_out() {
        let dir = std::env::temp_dir().join(format!("testbed-image-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (kernel, vmlinuz) = (dir.join("kernel"), dir.join("vmlinuz"));
        let text = "not quite a kernel\n".repeat(1000);
        fs::write(&kernel, &text).unwrap();
        for program in ["xz", "zstd", "gzip"] {
            let packed = dir.join("kernel.packed");
            let into = File::create(&packed).unwrap();
            Tool::new(program).arg("-c").arg(&kernel).into_file(into).run(PATIENCE).unwrap();
            let mut payload = fs::read(&packed).unwrap();
            if program != "gzip" {
                payload.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            }
            fs::write(&vmlinuz, image(&payload)).unwrap();
            let vmlinux = dir.join("vmlinux");
            extract(&vmlinuz, &vmlinux).unwrap();
            assert_eq!(fs::read_to_string(vmlinux).unwrap(), text, "{program}");
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(payload(b"short"), None);
        assert_eq!(payload(&vec![0; 4096]), None);
        assert_eq!(payload(&image(b"LZ4 or so")), None);
        let whole = image(&[0x28, 0xb5, 0x2f, 0xfd, 9, 9, 0, 1, 0, 0]);
        assert_eq!(payload(&whole[..1044]), None);
    }
}
