//! What UCX may use.

use clap::{Args, ValueEnum};

/// What UCX goes over.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "UCX (ucx)")]
pub(crate) struct UcxArgs {
    /// Transports that UCX may use, such as posix,sysv,cma,self or tcp or rc: UCX_TLS. What the
    /// environment says without it, or all
    #[arg(long, value_name = "NAME,...")]
    pub(crate) ucx_tls: Option<String>,

    /// Network devices that it may use, such as mlx5_0:1 or eth0: UCX_NET_DEVICES
    #[arg(long, value_name = "NAME,...")]
    pub(crate) ucx_device: Option<String>,

    /// Place of this node's address in the port's GID table: UCX_IB_GID_INDEX
    #[arg(long, value_name = "N")]
    pub(crate) ucx_gid_index: Option<u8>,

    /// Atomics that it uses, UCX_ATOMIC_MODE: those that are consistent with the CPU's, or the
    /// device's where it has all; cpu without it
    #[arg(long, value_enum, value_name = "WHOSE")]
    ucx_atomics: Option<UcxAtomics>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UcxAtomics {
    Cpu,
    Device,
}

impl UcxArgs {
    pub(crate) fn atomics(&self) -> probeline_ucx_shim::ucx::Atomics {
        match self.ucx_atomics {
            Some(UcxAtomics::Device) => probeline_ucx_shim::ucx::Atomics::Device,
            Some(UcxAtomics::Cpu) | None => probeline_ucx_shim::ucx::Atomics::Cpu,
        }
    }

    /// The first option that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--ucx-tls", self.ucx_tls.is_some()),
            ("--ucx-device", self.ucx_device.is_some()),
            ("--ucx-gid-index", self.ucx_gid_index.is_some()),
            ("--ucx-atomics", self.ucx_atomics.is_some()),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}
