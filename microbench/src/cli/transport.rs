//! The transport option, and the options of single transports.

use std::path::Path;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum, ValueHint, value_parser};
use probeline::ucx::Atomics;
use probeline_profile::{Profile, Shape};

use super::{heading, name, one_of};
use crate::failure::{Failure, Result};

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
    #[cfg_attr(not(feature = "mpi"), value(hide = true))]
    Mpi,
    /// The seeded simulator, in virtual time
    Sim,
}

impl TransportName {
    pub(crate) fn name(self) -> String {
        name(self)
    }
}

/// Parses the name of a transport over which a job may open several engines.
pub(crate) fn with_several_engines() -> impl TypedValueParser<Value = TransportName> {
    one_of(&[
        ("shm", "Shared memory between processes of this machine", TransportName::Shm),
        ("verbs", "RDMA: reliable connected queue pairs of libibverbs", TransportName::Verbs),
        ("ucx", "UCP of UCX", TransportName::Ucx),
    ])
}

/// The device, its port and the attributes of queue pairs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::VERBS)]
pub(crate) struct VerbsArgs {
    /// RDMA device, such as mlx5_0 [default: the first usable one]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,

    /// Port of the device, counted from 1 as by ibv_devinfo [default: the first active one]
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..))]
    pub(crate) ib_port: Option<u8>,

    /// Index of this node's address in the port's GID table [default: the first usable one]
    #[arg(long, value_name = "N")]
    pub(crate) gid_index: Option<u8>,

    /// Index of the partition's key in the port's P_Key table
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) pkey_index: u16,

    /// Service level on InfiniBand, 0 to 15, or priority on Ethernet, 0 to 7
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = value_parser!(u8).range(0..=15))]
    pub(crate) service_level: u8,

    /// Traffic class; on Ethernet 4 * DSCP + ECN
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) traffic_class: u8,

    /// Local ACK timeout of queue pairs: 4.096 us * 2^EXPONENT until a packet is sent again, 268 ms
    /// by default; devices may take up to four times as long
    #[arg(long = "qp-timeout", value_name = "EXPONENT", default_value_t = 16)]
    #[arg(value_parser = value_parser!(u8).range(1..=31))]
    pub(crate) timeout: u8,

    /// Retry count of queue pairs, 0 to 6, after which the peer counts as lost; at 7 some devices
    /// never give up
    #[arg(long = "qp-retry-count", value_name = "N", default_value_t = 6)]
    #[arg(value_parser = value_parser!(u8).range(0..=6))]
    pub(crate) retries: u8,
}

/// The transports and devices of UCX.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::UCX)]
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

    /// Executor of atomics: UCX_ATOMIC_MODE
    #[arg(long, value_name = "WHO", default_value = "cpu", value_parser = ucx_atomics())]
    pub(crate) ucx_atomics: Atomics,
}

fn ucx_atomics() -> impl TypedValueParser<Value = Atomics> {
    one_of(&[
        ("cpu", "The CPU: consistent with its own atomics", Atomics::Cpu),
        ("device", "The device, where it has all of them", Atomics::Device),
    ])
}

/// Returns the built-in profile of this name, or the profile in the file of this name.
pub(crate) fn network(name: &str) -> Result<Profile> {
    if let Some(profile) = Profile::built_in(name) {
        return Ok(profile);
    }
    if Path::new(name).exists() {
        return Ok(Profile::load(Path::new(name))?);
    }
    let names: Vec<_> = Profile::built_in_names().collect();
    let names = names.join(", ");
    Err(Failure::usage(format!("there is no profile and no file {name:?}; give {names} or a file")))
}

/// Times of operations in the simulator.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::SIM)]
pub(crate) struct SimArgs {
    /// Roundtrip between two owners without a network; one within an owner takes a tenth of it
    #[arg(long = "sim-roundtrip-ns", value_name = "NS", default_value_t = 2000)]
    #[arg(conflicts_with = "profile", value_parser = value_parser!(u64).range(1..))]
    roundtrip_ns: u64,

    /// A network: one of simulate's profiles, or a file
    #[arg(long = "sim-profile", value_name = "P|FILE")]
    #[arg(value_hint = ValueHint::FilePath)]
    profile: Option<String>,

    /// Ranks on each machine of that network
    #[arg(long = "sim-ranks-per-machine", value_name = "K", default_value_t = 1)]
    #[arg(requires = "profile", value_parser = value_parser!(u32).range(1..=4096))]
    ranks_per_machine: u32,
}

impl SimArgs {
    pub(crate) fn model(&self, ranks: u32) -> Result<probeline::sim::Model> {
        if let Some(name) = &self.profile {
            let ranks_per_machine = self.ranks_per_machine;
            let machines = ranks.div_ceil(ranks_per_machine);
            let shape = Shape { machines, ranks_per_machine };
            return Ok(network(name)?.model(shape)?);
        }
        Ok(probeline::sim::Model::simple(self.roundtrip_ns))
    }

    pub(crate) fn about(&self) -> String {
        match &self.profile {
            Some(name) => format!("profile {name}, {} ranks a machine", self.ranks_per_machine),
            None => format!("{} ns roundtrip between two", self.roundtrip_ns),
        }
    }
}
