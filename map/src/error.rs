//! The error of saved maps.

#[cfg(feature = "std")]
use std::io;
#[cfg(feature = "std")]
use std::path::{Path, PathBuf};

use probeline_pipeline::{BatchError, CollectiveError};
use probeline_transport::Owner;
use thiserror::Error;

use crate::saved::VERSION;

/// The reason why a map was not saved or not loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// A collective call failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// The system refused an access to the file.
    #[cfg(feature = "std")]
    #[error("cannot {what} {}: {error}{}", path.display(), advice(what, error))]
    Io {
        /// The access that was tried, as a verb: "read", "write", ...
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        error: io::Error,
    },
    /// The content of the file is not for this map; the error is one of the next variants.
    #[cfg(feature = "std")]
    #[error("cannot load {}: {error}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        error: std::boxed::Box<FileError>,
    },
    /// It begins with other bytes.
    #[error("it is not a saved map: give a file that a map was saved to")]
    NoMap,
    /// Its numbers have another order of bytes.
    #[error(
        "a machine with another order of bytes has saved it: load it on such a machine, because \
         keys and values are plain bytes"
    )]
    ByteOrder,
    /// It has another version.
    #[error("it has version {found}, not {VERSION}: load it with the version that has saved it")]
    Version {
        /// The version found.
        found: u64,
    },
    /// The check of its header does not match.
    #[error("its header is damaged: load another copy")]
    Damaged,
    /// Its keys or values have another size.
    #[error(
        "its {what} have {found} bytes, those of this map {expected}: load it into a map of the \
         types that it was saved from"
    )]
    Size {
        /// Keys or values.
        what: &'static str,
        /// Bytes in the file.
        found: u64,
        /// Bytes in the map.
        expected: u64,
    },
    /// Its keys or values have another meaning.
    #[error(
        "its keys and values have format {found}, those of this map {expected}: they have the same \
         sizes and another meaning; load it into a map with that Config::format, or save a new one"
    )]
    Format {
        /// The format of the file.
        found: u64,
        /// The format of the map.
        expected: u64,
    },
    /// It has another length than its header says.
    #[error(
        "it has {found} bytes, and {expected} by its header; it was cut short or changed: load \
         another copy"
    )]
    Length {
        /// Its length in bytes.
        found: u64,
        /// Its length in bytes by the header.
        expected: u64,
    },
    /// The ranks have opened different files.
    #[error("rank {} has opened another file; give all ranks the same file", owner.0)]
    Differs {
        /// The first rank that has opened another file than this one.
        owner: Owner,
    },
    /// An entry is damaged. Those before it may have been loaded.
    #[error(
        "entry {entry} is damaged; clear the map and load another copy, or go on with the entries \
         that were loaded"
    )]
    Entry {
        /// The number of the entry, from 0 on.
        entry: u64,
    },
    /// The ranks save to files of different names.
    #[cfg(feature = "std")]
    #[error(
        "cannot save to {}: rank {} gives another name; give all ranks the same name", path.display(),
        owner.0
    )]
    NameDiffers {
        /// The name that this rank gives.
        path: PathBuf,
        /// The first rank that gives another name than this one.
        owner: Owner,
    },
    /// Entries were written during the save. An older file is as it was.
    #[error("the map has changed while it was saved: save it when no rank writes")]
    Changed,
    /// An entry could not be stored.
    #[error("cannot store an entry of the file: {0}")]
    Put(#[from] BatchError),
}

#[cfg(feature = "std")]
impl FileError {
    pub(crate) fn loading(self, path: &Path) -> Self {
        Self::Load { path: path.into(), error: std::boxed::Box::new(self) }
    }
}

/// Advises what to do if that may be the cause: a rank does not see the file that another one created.
#[cfg(feature = "std")]
fn advice(what: &str, error: &io::Error) -> &'static str {
    match (what, error.kind()) {
        ("open", io::ErrorKind::NotFound) => {
            "; if another rank sees the file, give a folder in a file system that all ranks share"
        }
        _ => "",
    }
}

#[cfg(test)]
#[cfg(feature = "std")]
mod tests {
    use super::*;

    #[test]
    fn failed_open_mentions_shared_path() {
        let text = |what, kind: io::ErrorKind| {
            FileError::Io { what, path: "a.map".into(), error: kind.into() }.to_string()
        };
        assert!(text("open", io::ErrorKind::NotFound).contains("that all ranks share"));
        for (what, kind) in [
            ("create", io::ErrorKind::NotFound),
            ("open", io::ErrorKind::PermissionDenied),
            ("write to", io::ErrorKind::StorageFull),
        ] {
            assert!(!text(what, kind).contains("share"), "{what}");
        }
    }
}
