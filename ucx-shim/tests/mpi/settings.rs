//! The settings in which the library is tested.

use probeline_ucx_shim::mpi::library_version;

/// Options of the launcher, and the results that are expected with them.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// The arguments of the launcher, without the number of ranks.
    pub(crate) arguments: &'static str,
    /// The component that must implement the window.
    pub(crate) component: &'static str,
    /// Whether READs return whole words: on one machine they are copied by words or more.
    pub(crate) whole: bool,
    /// The cases of the suite that are skipped.
    pub(crate) skips: &'static [&'static str],
    /// Opening must be refused.
    pub(crate) refused: bool,
}

/// The skipped cases between two machines, where READs may bring torn words.
const APART_SKIPS: &[&str] = &[
    "words_are_whole_under_a_writer",
    "an_idle_owner_stalls_nobody",
    "atomic_with_the_cpu",
    "an_atomic_follows_the_write_before_it",
    "a_lost_owner_is_named",
];
/// The skipped cases if operations need the owner's CPU.
const WAITING: &[&str] = APART_SKIPS.split_at(1).1;
/// The skipped cases if atomics are atomic only with each other.
const SKIPS: &[&str] = APART_SKIPS.split_at(2).1;

const BASE: Setting =
    Setting { name: "", arguments: "", component: "", whole: true, skips: SKIPS, refused: false };

/// Debian's Open MPI does not use osc ucx by default, nor without a fast network.
const UCX: &str = "--mca osc ucx --mca pml ucx --mca opal_common_ucx_tls any --mca \
                   opal_common_ucx_devices any";

const OPEN_MPI: &[Setting] = &[
    Setting { name: "osc sm", arguments: "--mca osc sm", component: "osc sm", ..BASE },
    Setting { name: "osc ucx", arguments: UCX, component: "osc ucx", skips: WAITING, ..BASE },
    Setting {
        name: "osc pt2pt",
        arguments: "--mca osc pt2pt",
        component: "osc pt2pt",
        skips: WAITING,
        ..BASE
    },
    Setting { name: "default", component: "osc rdma", refused: true, ..BASE },
    Setting {
        name: "btl ofi",
        arguments: "--mca osc rdma --mca pml ob1 --mca btl ofi,tcp,self --mca btl_ofi_provider_include \
                    sockets",
        component: "osc rdma",
        refused: true,
        ..BASE
    },
];

const MPICH: &[Setting] =
    &[Setting { name: "mpich", component: "device ch4:ucx", skips: WAITING, ..BASE }];

/// Returns whether this was built for Open MPI.
pub(crate) fn is_open_mpi() -> bool {
    library_version().contains("Open MPI")
}

/// Returns the first line of the library's version text.
pub(crate) fn library() -> String {
    library_version().lines().next().unwrap_or_default().to_owned()
}

/// Open MPI's osc ucx between two machines, which the test bed starts.
const APART: Setting =
    Setting { name: "apart", component: "osc ucx", skips: APART_SKIPS, whole: false, ..BASE };

/// Returns the setting of this name.
pub(crate) fn named(name: &str) -> Option<&'static Setting> {
    settings().chain([&APART]).find(|setting| setting.name == name)
}

/// Returns all settings of the library.
pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> {
    if is_open_mpi() { OPEN_MPI } else { MPICH }.iter()
}

/// Returns the settings of a test of [`crate::ENDS`]: all that are refused for the test of
/// refusals, one for the others.
pub(crate) fn settings_of_ends(test: &str) -> impl Iterator<Item = &'static Setting> {
    let refused = test == "crash_is_refused";
    let max = if refused { usize::MAX } else { 1 };
    settings().filter(move |setting| setting.refused == refused).take(max)
}
