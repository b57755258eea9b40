//! Loads a net by name: a built-in model or a PNML file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::petri::generators::{self, BuiltInError, built_in_models};
use crate::petri::{Net, PnmlError};

/// The maximum length of a file, in bytes. The largest place/transition nets of the Model Checking
/// Contest are shorter, and the parsed tree takes several times the memory.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// Loads the net that `model` names. `NAME:NUMBER` is a built-in model unless a file has that name.
pub(crate) fn load(model: &str) -> Result<Net, LoadError> {
    let path = Path::new(model);
    let is_built_in = model.contains(':') && !model.contains('/') && !path.exists();
    if is_built_in {
        return generators::build(model).map_err(LoadError::BuiltIn);
    }
    let text = read(path, model)?;
    Net::from_pnml(&text).map_err(|error| LoadError::Pnml { path: model.to_owned(), error })
}

fn read(path: &Path, name: &str) -> Result<String, LoadError> {
    let name = || name.to_owned();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => LoadError::Missing { path: name() },
        _ => LoadError::Read { path: name(), error },
    };
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(failed)?.take(MAX_FILE_BYTES + 1);
    file.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(LoadError::TooLong { path: name() });
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        LoadError::NotUtf8 { path: name(), line }
    })
}

/// The reason why a model cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum LoadError {
    /// The name is not that of a built-in model.
    #[error("{0}")]
    BuiltIn(#[source] BuiltInError),
    /// The file does not exist.
    #[error(
        "{path}: there is no such file; name a PNML file or a built-in model: {}",
        built_in_models()
    )]
    Missing { path: String },
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Read {
        path: String,
        #[source]
        error: io::Error,
    },
    /// The file is longer than [`MAX_FILE_BYTES`].
    #[error("{path}: the file is longer than {} MiB", MAX_FILE_BYTES >> 20)]
    TooLong { path: String },
    /// The file is not UTF-8.
    #[error(
        "{path}:{line}: the file is not UTF-8 text; unpack it if it is an archive, else convert \
         it with iconv -t UTF-8"
    )]
    NotUtf8 { path: String, line: usize },
    /// The file does not describe a place/transition net.
    #[error("{path}:{error}")]
    Pnml {
        path: String,
        #[source]
        error: PnmlError,
    },
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A temporary file of one test, deleted when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("probeline-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn load(&self) -> LoadError {
            load(&self.0.display().to_string()).unwrap_err()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn loads_built_in_model() {
        assert_eq!(load("philosophers:5").unwrap().places().len(), 25);
    }

    #[test]
    fn errors_list_built_in_models() {
        for model in ["absent", "absent:3", "kanban", "kanban:x", "no/such:1"] {
            let message = load(model).unwrap_err().to_string();
            for name in ["kanban:N", "fms:N", "philosophers:N", "peterson:N"] {
                assert!(message.contains(name), "{message}");
            }
        }
    }

    #[test]
    fn distinguishes_path_from_model() {
        assert!(matches!(load("no/such:1"), Err(LoadError::Missing { .. })));
        assert!(matches!(load("nosuch:1"), Err(LoadError::BuiltIn(_))));
    }

    #[test]
    fn reads_or_refuses_files() {
        let file = Scratch::new("net.pnml");
        let path = file.0.display().to_string();
        let text = r#"<pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">
            <net type="http://www.pnml.org/version-2009/grammar/ptnet"><place id="p"/></net>
            </pnml>"#;
        std::fs::write(&path, text).unwrap();
        assert_eq!(load(&path).unwrap().places()[0].id, "p");
        std::fs::write(&path, "<pnml>\n<net>\n</pnml>").unwrap();
        let message = file.load().to_string();
        assert!(message.starts_with(&format!("{path}:3: ")), "{message}");
        std::fs::write(&path, b"<pnml>\n<!-- caf\xe9 -->\n</pnml>").unwrap();
        assert!(matches!(file.load(), LoadError::NotUtf8 { line: 2, .. }));
        File::create(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(file.load(), LoadError::TooLong { .. }));
        let directory = std::env::temp_dir().display().to_string();
        assert!(matches!(load(&directory), Err(LoadError::Read { .. })));
    }
}
