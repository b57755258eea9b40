//! What the library is told to use, and what is known of it then.

use probeline_ucx_shim::mpi::library_version;

/// One way to run over the library.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// What the launcher gets besides the number of ranks.
    pub(crate) arguments: &'static [&'static str],
    /// What the window says that serves it.
    pub(crate) component: &'static str,
    /// As the builder takes it.
    pub(crate) single: Option<bool>,
    /// READs bring whole words here: those of one machine are copied by words or more.
    pub(crate) whole: bool,
    /// Cases of the suite that it cannot pass.
    pub(crate) skips: &'static [&'static str],
    /// Opening must fail.
    pub(crate) refused: bool,
}

/// Of a library whose atomics are its own.
const SKIPS: &[&str] = &["atomic_with_the_cpu", "an_atomic_follows_the_write_before_it"];
/// And which wants owners to take part.
const WAITING: &[&str] = &[
    "atomic_with_the_cpu",
    "an_atomic_follows_the_write_before_it",
    "an_idle_owner_stalls_nobody",
];

const BASE: Setting = Setting {
    name: "",
    arguments: &[],
    component: "",
    single: None,
    whole: true,
    skips: SKIPS,
    refused: false,
};

/// Debian's Open MPI leaves osc ucx out unless it is told, and for want of a fast network too.
const UCX: &[&str] = &[
    "--mca",
    "osc",
    "ucx",
    "--mca",
    "pml",
    "ucx",
    "--mca",
    "opal_common_ucx_tls",
    "any",
    "--mca",
    "opal_common_ucx_devices",
    "any",
];

const OPEN_MPI: &[Setting] = &[
    Setting { name: "osc sm", arguments: &["--mca", "osc", "sm"], component: "osc sm", ..BASE },
    Setting { name: "osc ucx", arguments: UCX, component: "osc ucx", skips: WAITING, ..BASE },
    // What an error advises, with which Open MPI takes osc sm.
    Setting {
        name: "vader none",
        arguments: &["--mca", "btl_vader_single_copy_mechanism", "none"],
        component: "osc sm",
        ..BASE
    },
    Setting {
        name: "osc pt2pt",
        arguments: &["--mca", "osc", "pt2pt"],
        component: "osc pt2pt",
        skips: WAITING,
        ..BASE
    },
    Setting { name: "as it comes", component: "osc rdma", refused: true, ..BASE },
    Setting {
        name: "btl ofi",
        arguments: &[
            "--mca",
            "osc",
            "rdma",
            "--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "ofi,tcp,self",
            "--mca",
            "btl_ofi_provider_include",
            "sockets",
        ],
        component: "osc rdma",
        refused: true,
        ..BASE
    },
];

const MPICH: &[Setting] =
    &[Setting { name: "mpich", component: "device ch4:ucx", skips: WAITING, ..BASE }];

/// Whether this was built for Open MPI.
pub(crate) fn is_open_mpi() -> bool {
    library_version().contains("Open MPI")
}

/// The first line of what the library says of itself.
pub(crate) fn library() -> String {
    library_version().lines().next().unwrap_or_default().to_owned()
}

/// Open MPI's osc ucx between two machines, which the test bed starts; READs may bring torn words.
const APART: Setting =
    Setting { name: "apart", component: "osc ucx", skips: WAITING_APART, whole: false, ..BASE };
const WAITING_APART: &[&str] = &[
    "words_are_whole_under_a_writer",
    "atomic_with_the_cpu",
    "an_atomic_follows_the_write_before_it",
    "an_idle_owner_stalls_nobody",
];

/// The setting of this name.
pub(crate) fn named(name: &str) -> Option<&'static Setting> {
    settings().chain([&APART]).find(|setting| setting.name == name)
}

/// All that the library is tried with.
pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> {
    if is_open_mpi() { OPEN_MPI } else { MPICH }.iter()
}

/// Where a test of an end runs: those of a refusal where there is one, others in one setting.
pub(crate) fn of_ends(test: &str) -> impl Iterator<Item = &'static Setting> {
    let refused = test == "crash_is_refused";
    let most = if refused { usize::MAX } else { 1 };
    settings().filter(move |setting| setting.refused == refused).take(most)
}
