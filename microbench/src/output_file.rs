//! A file for results.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// A file that is opened before a run, so that nothing is measured in vain. What it held before
/// stays until there are results; one that was not there goes again if there are none.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    path: PathBuf,
    created: bool,
}

impl OutputFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let open = |create| File::options().write(true).create_new(create).open(path);
        let (file, created) = match open(true) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (open(false), false),
            opened => (opened, true),
        };
        let refused =
            |error| Failure::new(format!("{} cannot be written: {error}", path.display()));
        Ok(Self { file: file.map_err(refused)?, path: path.to_owned(), created })
    }

    /// Without what it held; to be flushed.
    pub(crate) fn emptied(&self) -> BufWriter<&File> {
        // Devices and pipes cannot be cut short and need not be.
        let _ = self.file.set_len(0);
        BufWriter::new(&self.file)
    }

    /// Puts `text` in the place of what it held.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        let mut file = self.emptied();
        file.write_all(text.as_bytes())?;
        Ok(file.flush()?)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.created && self.file.metadata().is_ok_and(|file| file.len() == 0) {
            // Somebody may have taken it away before.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_results_goes_and_others_stay() {
        let path = |name| {
            let name = format!("probeline-output-{}-{name}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let (unused, used, old) = (path("unused"), path("used"), path("old"));
        drop(OutputFile::open(&unused).unwrap());
        assert!(!unused.exists());

        let file = OutputFile::open(&used).unwrap();
        file.write("results").unwrap();
        drop(file);
        assert_eq!(fs::read(&used).unwrap(), b"results");

        fs::write(&old, "").unwrap();
        drop(OutputFile::open(&old).unwrap());
        assert!(old.exists());
        for path in [used, old] {
            fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_longer_file_is_cut() {
        let path = std::env::temp_dir().join(format!("probeline-output-{}", std::process::id()));
        fs::write(&path, "a long text").unwrap();
        let file = OutputFile::open(&path).unwrap();
        file.write("short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        fs::remove_file(&path).unwrap();
    }
}
