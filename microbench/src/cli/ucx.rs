//! Options of UCX.

use clap::{Args, ValueEnum};

/// The transports and devices of UCX.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "UCX (ucx)")]
pub(crate) struct UcxArgs {
    /// Transports that UCX may use, such as posix,sysv,cma,self or tcp or rc: UCX_TLS [default: the
    /// variable, else all]
    #[arg(long, value_name = "NAME,...")]
    pub(crate) ucx_tls: Option<String>,

    /// Network devices that UCX may use, such as mlx5_0:1 or eth0: UCX_NET_DEVICES
    #[arg(long, value_name = "NAME,...")]
    pub(crate) ucx_device: Option<String>,

    /// Index of this node's address in the port's GID table: UCX_IB_GID_INDEX
    #[arg(long, value_name = "N")]
    pub(crate) ucx_gid_index: Option<u8>,

    /// Who executes atomics: UCX_ATOMIC_MODE
    #[arg(long, value_enum, value_name = "WHO", default_value_t = UcxAtomics::Cpu)]
    ucx_atomics: UcxAtomics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UcxAtomics {
    /// The CPU: consistent with its own atomics
    Cpu,
    /// The device, where it has all of them
    Device,
}

impl UcxArgs {
    pub(crate) fn atomics(&self) -> probeline::ucx::Atomics {
        match self.ucx_atomics {
            UcxAtomics::Device => probeline::ucx::Atomics::Device,
            UcxAtomics::Cpu => probeline::ucx::Atomics::Cpu,
        }
    }
}
