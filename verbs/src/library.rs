//! The loaded libibverbs.

use probeline_transport::SetupError;
use probeline_verbs_sys::Verbs;

/// libibverbs, loaded at run time and never unloaded.
///
/// Safe code cannot replace its functions:
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
    /// Loads the system's libibverbs.
    ///
    /// # Errors
    /// [`SetupError`] names the package that is missing or too old.
    pub fn load() -> Result<Self, SetupError> {
        Verbs::load().map(|verbs| Self { verbs })
    }

    /// Uses other functions of the same names, such as a test's.
    ///
    /// # Safety
    /// Each function fulfils the contract of the manual page of its name.
    #[must_use]
    pub unsafe fn from_verbs(verbs: Verbs) -> Self {
        Self { verbs }
    }

    pub(crate) fn verbs(self) -> Verbs {
        self.verbs
    }
}
