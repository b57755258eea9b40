//! What can stand beside what, and how its ranks are started.

use clap::ValueEnum;

/// A transport with its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ColumnName {
    /// Shared memory; the table's CPU loads and claims in place
    Shm,
    /// Shared memory; the table reads and claims through the transport, as elsewhere
    ShmPosted,
    /// libibverbs
    Verbs,
    /// UCP over shared memory
    UcxShm,
    /// UCP over TCP
    UcxTcp,
    /// UCP over RC queue pairs
    UcxRc,
    /// Open MPI, window component sm
    OscSm,
    /// Open MPI, window component ucx
    OscUcx,
    /// The same with acc_single_intrinsic
    OscUcxIntrinsic,
    /// Open MPI, window component rdma
    OscRdma,
    /// Open MPI, window component pt2pt
    OscPt2pt,
    /// MPICH
    Mpich,
    /// The simulator, in virtual time
    Sim,
}

/// Who starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launcher {
    /// This command.
    Own,
    /// mpirun of Open MPI, with these MCA parameters.
    OpenMpi(&'static [(&'static str, &'static str)]),
    /// mpiexec of MPICH.
    Mpich,
}

/// Open MPI leaves UCX out without a fast network, unless it is told of any.
const OSC_UCX: &[(&str, &str)] = &[
    ("osc", "ucx"),
    ("pml", "ucx"),
    ("opal_common_ucx_tls", "any"),
    ("opal_common_ucx_devices", "any"),
];
const OSC_UCX_INTRINSIC: &[(&str, &str)] = &[
    ("osc", "ucx"),
    ("pml", "ucx"),
    ("opal_common_ucx_tls", "any"),
    ("opal_common_ucx_devices", "any"),
    ("osc_ucx_acc_single_intrinsic", "1"),
];
/// Without the second its compare-and-swap crashes on one machine.
const OSC_RDMA: &[(&str, &str)] = &[("osc", "rdma"), ("btl_vader_single_copy_mechanism", "none")];

impl ColumnName {
    /// The name that it is asked for by.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Options that its ranks are given.
    pub(super) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Shm => &["--transport", "shm"],
            Self::ShmPosted => &["--transport", "shm", "--direct", "off"],
            Self::Verbs => &["--transport", "verbs"],
            Self::UcxShm => &["--transport", "ucx", "--ucx-tls", "posix,sysv,cma,self"],
            Self::UcxTcp => &["--transport", "ucx", "--ucx-tls", "tcp,self"],
            Self::UcxRc => &["--transport", "ucx", "--ucx-tls", "rc,self"],
            _ if self.is_mpi() => &["--transport", "mpi"],
            _ => &["--transport", "sim"],
        }
    }

    /// What its ranks run over.
    pub(super) fn transport(self) -> &'static str {
        self.options()[1]
    }

    /// The component of Open MPI that has to serve its windows.
    pub(super) fn component(self) -> Option<&'static str> {
        match self.launcher() {
            Launcher::OpenMpi(parameters) => parameters.first().map(|&(_, component)| component),
            _ => None,
        }
    }

    /// Who starts its ranks.
    pub(super) fn launcher(self) -> Launcher {
        match self {
            Self::OscSm => Launcher::OpenMpi(&[("osc", "sm")]),
            Self::OscUcx => Launcher::OpenMpi(OSC_UCX),
            Self::OscUcxIntrinsic => Launcher::OpenMpi(OSC_UCX_INTRINSIC),
            Self::OscRdma => Launcher::OpenMpi(OSC_RDMA),
            Self::OscPt2pt => Launcher::OpenMpi(&[("osc", "pt2pt")]),
            Self::Mpich => Launcher::Mpich,
            _ => Launcher::Own,
        }
    }

    /// Whether its time can stand beside that of others.
    pub(super) fn is_real(self) -> bool {
        self != Self::Sim
    }

    /// Whether a launcher of MPI starts its ranks.
    pub(super) fn is_mpi(self) -> bool {
        self.launcher() != Launcher::Own
    }

    /// What its ranks have to say of themselves; otherwise the library took another way.
    pub(super) fn says(self) -> Vec<String> {
        let component = self.component().map(|component| format!("osc {component}"));
        let single = (self == Self::OscUcxIntrinsic).then(|| "acc_single_intrinsic on".to_owned());
        component.into_iter().chain(single).collect()
    }

    /// Whether it is a component of Open MPI.
    pub(super) fn is_osc(self) -> bool {
        self.component().is_some()
    }

    /// What one operation takes, from post to completion.
    pub(super) fn includes(self) -> &'static str {
        match self {
            Self::Shm | Self::ShmPosted => {
                "the caller's CPU loads, stores, swaps and adds in the owner's window when an \
                 operation is posted, and the next poll reports it"
            }
            Self::Verbs => {
                "work request, doorbell, the device's work and the completion queue's poll; an \
                 atomic is the device's"
            }
            Self::UcxShm | Self::UcxTcp | Self::UcxRc => {
                "ucp_get_nbx; ucp_put_nbx and a flush of the endpoint; ucp_atomic_op_nbx with a \
                 reply; ucp_worker_progress until its callback has come"
            }
            _ if self.is_mpi() => {
                "MPI_Get, MPI_Put, MPI_Compare_and_swap or MPI_Fetch_and_op and MPI_Win_flush of \
                 its target, in an epoch of MPI_Win_lock_all that was opened once"
            }
            _ => "what its model says, in virtual time",
        }
    }
}
