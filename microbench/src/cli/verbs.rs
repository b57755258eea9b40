//! How a device is found, and how long it tries.

use clap::{Args, value_parser};

/// The device, the way through the network, and how long it tries.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "RDMA (verbs)")]
pub(crate) struct VerbsArgs {
    /// RDMA device, such as mlx5_0; the first that can be used without it
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,

    /// Its port, from 1 on, as ibv_devinfo counts them; the first active one without it
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..))]
    pub(crate) ib_port: Option<u8>,

    /// Place of this node's address in the port's GID table; the first that fits without it
    #[arg(long, value_name = "N")]
    pub(crate) gid_index: Option<u8>,

    /// Place of the partition's key in the port's P_Key table, 0 without it
    #[arg(long, value_name = "N")]
    pub(crate) pkey_index: Option<u16>,

    /// Service level on InfiniBand, 0 to 15, or priority on Ethernet, 0 to 7; 0 without it
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(0..=15))]
    pub(crate) service_level: Option<u8>,

    /// Traffic class; on Ethernet four times the DSCP, plus the ECN; 0 without it
    #[arg(long, value_name = "N")]
    pub(crate) traffic_class: Option<u8>,

    /// How long a queue pair waits for an acknowledgement before it sends again: 4.096 us times
    /// two to the power of this, 1 to 31; without it 16, which is 268 ms. Devices may take up to
    /// four times as long
    #[arg(long, value_name = "EXPONENT", value_parser = value_parser!(u8).range(1..=31))]
    pub(crate) timeout: Option<u8>,

    /// How often it then sends again before the peer counts as lost, 0 to 6; 6 without it. At 7
    /// some devices never give up
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(0..=6))]
    pub(crate) retries: Option<u8>,
}

/// The timeout and the retries of a queue pair if nothing else was asked.
const DEFAULT_TIMEOUT: u8 = 16;
const DEFAULT_RETRIES: u8 = 6;

impl VerbsArgs {
    pub(crate) fn retry(
        &self,
    ) -> core::result::Result<probeline_verbs::Retry, probeline_verbs::RetryError> {
        let timeout = self.timeout.unwrap_or(DEFAULT_TIMEOUT);
        probeline_verbs::Retry::new(timeout, self.retries.unwrap_or(DEFAULT_RETRIES))
    }

    /// The first option that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--device", self.device.is_some()),
            ("--ib-port", self.ib_port.is_some()),
            ("--gid-index", self.gid_index.is_some()),
            ("--pkey-index", self.pkey_index.is_some()),
            ("--service-level", self.service_level.is_some()),
            ("--traffic-class", self.traffic_class.is_some()),
            ("--timeout", self.timeout.is_some()),
            ("--retries", self.retries.is_some()),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}
