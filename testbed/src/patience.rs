//! The bound of waits whose length is not what is tested.

use core::time::Duration;

/// The longest wait for what a quiet host does within seconds. Only what hangs takes as long: an
/// emulated machine on a host with ten programs for each CPU is some tens of times slower.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
