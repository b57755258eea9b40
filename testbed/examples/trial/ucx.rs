//! Engines over UCX, and the route they use.

use anyhow::Result;
use clap::Args;
use probeline_exchange::Job;
use probeline_transport::{Exchange, Owner, Sizes};
use probeline_ucx_shim::ucx::{Atomics, Builder, Engine, OpenError, Progress};

/// The suite's skips over UCX, which promises neither that a READ returns words whole nor that an
/// atomic follows a WRITE. Its engines do not notice lost owners.
pub(crate) const SKIPS: &[&str] = &[
    "words_are_whole_under_a_writer",
    "an_atomic_follows_the_write_before_it",
    "a_lost_owner_is_named",
];

/// Selects UCX instead of verbs, and its route.
#[derive(Args, Clone, Debug)]
pub(crate) struct UcxArgs {
    /// Use UCX instead of verbs, over these transports of UCX, such as rc
    #[arg(long, value_name = "NAME,...")]
    ucx: Option<String>,
    /// Network devices that UCX may use
    #[arg(long, value_name = "NAME,...", requires = "ucx")]
    ucx_device: Option<String>,
    /// Index of this node's address in the port's GID table
    #[arg(long, value_name = "N", requires = "ucx")]
    ucx_gid_index: Option<u8>,
}

impl UcxArgs {
    pub(crate) fn is_chosen(&self) -> bool {
        self.ucx.is_some()
    }

    pub(crate) fn open<E: Exchange>(
        &self,
        sizes: Sizes,
        progress: Progress,
        exchange: &mut E,
    ) -> core::result::Result<Engine, OpenError> {
        Builder::new(sizes)
            .tls(self.ucx.as_deref())
            .device(self.ucx_device.as_deref())
            .gid_index(self.ucx_gid_index)
            .atomics(Atomics::Cpu)
            .progress(progress)
            .open(exchange)
    }

    /// Prints the route of these engines, and who executes READs and atomics, measured with owners
    /// that do nothing.
    pub(crate) fn print_route(&self, job: &mut Job) -> Result<()> {
        let sizes = Sizes { window_words: 64, slots: 1, slot_words: 8, depth: 1 };
        let engine = self.open(sizes, Progress::Thread, job)?;
        if job.me() == Owner(0) {
            println!("{}", engine.info());
        }
        Ok(job.barrier()?)
    }
}
