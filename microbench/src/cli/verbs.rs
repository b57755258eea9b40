//! Options of libibverbs.

use clap::{Args, value_parser};

/// The device, its port and the attributes of queue pairs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "RDMA (verbs)")]
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
    #[arg(long, value_name = "EXPONENT", default_value_t = 16)]
    #[arg(value_parser = value_parser!(u8).range(1..=31))]
    pub(crate) timeout: u8,

    /// Retry count of queue pairs, 0 to 6, after which the peer counts as lost; at 7 some devices
    /// never give up
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = value_parser!(u8).range(0..=6))]
    pub(crate) retries: u8,
}

impl VerbsArgs {
    pub(crate) fn retry(
        &self,
    ) -> core::result::Result<probeline::verbs::Retry, probeline::verbs::RetryError> {
        probeline::verbs::Retry::new(self.timeout, self.retries)
    }
}
