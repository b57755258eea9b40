//! The transport option.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportName {
    /// Shared memory between processes of this machine
    #[default]
    Shm,
    /// RDMA: reliable connected queue pairs of libibverbs
    Verbs,
    /// UCP of UCX
    Ucx,
    /// One-sided MPI, for ranks that the launcher of this MPI library has started
    #[cfg(feature = "mpi")]
    Mpi,
    /// The seeded simulator, in virtual time
    Sim,
}

impl TransportName {
    /// Returns whether MPI starts and connects the ranks; always false in a build without MPI.
    pub(crate) fn is_mpi(self) -> bool {
        self.name() == "mpi"
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Verbs => "verbs",
            Self::Ucx => "ucx",
            #[cfg(feature = "mpi")]
            Self::Mpi => "mpi",
            Self::Sim => "sim",
        }
    }
}
