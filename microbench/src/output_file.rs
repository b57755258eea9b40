//! A file for results.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use probeline_programs::STANDARD;

use crate::failure::{Failure, Result};
use crate::terminal;

/// A file that is opened before a run, so that the run does not fail after its measurements. Its
/// old content remains until there are results. A file that this type has created is removed if
/// there are none.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: Option<File>,
    created: bool,
}

impl OutputFile {
    /// Opens the file if this rank `writes` the results. Other ranks may have the same path and
    /// must not remove it. With [`STANDARD`] as path the results go to standard output, and all other text to
    /// standard error.
    pub(crate) fn of(path: &Path, writes: bool) -> Result<Self> {
        let mut file = Self { path: path.to_owned(), file: None, created: false };
        match (writes, file.is_stdout()) {
            (true, true) => terminal::leave_stdout(),
            (true, false) => drop(file.open()?),
            (false, _) => {}
        }
        Ok(file)
    }

    fn is_stdout(&self) -> bool {
        self.path == Path::new(STANDARD)
    }

    fn open(&mut self) -> Result<&File> {
        let path = &self.path;
        let open = |create| File::options().write(true).create_new(create).open(path);
        let (file, created) = match open(true) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (open(false), false),
            opened => (opened, true),
        };
        let refused =
            |error| Failure::new(format!("{} cannot be written: {error}", path.display()));
        self.created = created;
        Ok(self.file.insert(file.map_err(refused)?))
    }

    /// Replaces the content of the file.
    pub(crate) fn write(&mut self, text: &str) -> Result<()> {
        if self.is_stdout() {
            return Ok(terminal::write_stdout(text)?);
        }
        let mut file = match self.file {
            Some(ref file) => file,
            None => self.open()?,
        };
        // Ignores an error: devices and pipes cannot be truncated.
        let _ = file.set_len(0);
        Ok(file.write_all(text.as_bytes())?)
    }
}

/// Refuses an output that is also an input or another output. Several outputs may go to one device.
pub(crate) fn check_distinct<'p>(
    inputs: &[PathBuf],
    outputs: impl IntoIterator<Item = (&'p str, &'p Option<PathBuf>)>,
) -> Result<()> {
    // Hard links are the same file. One that does not exist yet has the path that is given.
    let place = |path: &Path| {
        let file = path.metadata().map(|file| (file.dev(), file.ino()));
        file.map_err(|_| path.to_owned())
    };
    let inputs: Vec<_> = inputs.iter().map(|path| place(path)).collect();
    let mut earlier = Vec::new();
    for (option, path) in outputs {
        let is_device = |path: &Path| path.exists() && !path.is_file();
        let Some(path) = path.as_deref().filter(|path| !is_device(path)) else { continue };
        let place = place(path);
        let what = if inputs.contains(&place) {
            "an input"
        } else if earlier.contains(&place) {
            "another output"
        } else {
            earlier.push(place);
            continue;
        };
        let path = path.display();
        return Err(Failure::usage(format!("{option} {path} is also {what}: give another file")));
    }
    Ok(())
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        let is_empty = |file: &File| file.metadata().is_ok_and(|file| file.len() == 0);
        if self.created && self.file.as_ref().is_some_and(is_empty) {
            // Ignores an error: the file may be gone.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_content_removes_empty_files() {
        let folder = tempfile::tempdir().unwrap();
        let [unused, used, old] = ["unused", "used", "old"].map(|name| folder.path().join(name));
        drop(OutputFile::of(&unused, true).unwrap());
        assert!(!unused.exists());

        let other = OutputFile::of(&used, false).unwrap();
        assert!(!used.exists());
        let mut file = OutputFile::of(&used, true).unwrap();
        drop(other);
        file.write("results").unwrap();
        drop(file);
        assert_eq!(fs::read(&used).unwrap(), b"results");
        OutputFile::of(&used, true).unwrap().write("short").unwrap();
        assert_eq!(fs::read(&used).unwrap(), b"short");

        fs::write(&old, "").unwrap();
        drop(OutputFile::of(&old, true).unwrap());
        assert!(old.exists());
        let mut late = OutputFile::of(&old, false).unwrap();
        late.write("late").unwrap();
        assert_eq!(fs::read(&old).unwrap(), b"late");
    }
}
