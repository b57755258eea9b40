//! libibverbs, loaded.

use probeline_verbs_sys::{LoadError, Verbs};

/// libibverbs, loaded at run time and never unloaded. Copies are the same library.
///
/// Its functions are not for safe code to replace:
///
/// ```compile_fail,E0616
/// fn replace(mut library: probeline_verbs::Library, other: probeline_verbs::Library) {
///     library.verbs.ibv_open_device = other.verbs.ibv_open_device;
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Library {
    verbs: Verbs,
}

impl Library {
    /// The system's libibverbs.
    ///
    /// # Errors
    /// [`LoadError`] says which package is missing, or too old.
    pub fn load() -> Result<Self, LoadError> {
        Verbs::load().map(|verbs| Self { verbs })
    }

    /// Another one behind the same functions, such as a test's.
    ///
    /// # Safety
    /// Each function keeps the contract of the manual page of its name.
    #[must_use]
    pub unsafe fn from_verbs(verbs: Verbs) -> Self {
        Self { verbs }
    }

    pub(crate) fn verbs(self) -> Verbs {
        self.verbs
    }
}
