//! Engines of UCX, and what they go over.

use clap::{Args, ValueEnum};
use probeline_exchange::Job;
use probeline_transport::Sizes;
use probeline_transport::{Exchange, Owner};
use probeline_ucx_shim::ucx::{Atomics, Builder, Engine, OpenError, Progress};

use crate::failure::Result;

/// What UCX goes over, if it is to be used at all.
#[derive(Args, Clone, Debug)]
pub(crate) struct UcxArgs {
    /// Over UCX instead of verbs, and the transports that it may use, such as rc
    #[arg(long, value_name = "NAME,...")]
    ucx: Option<String>,
    /// The network devices that it may use
    #[arg(long, value_name = "NAME,...", requires = "ucx")]
    ucx_device: Option<String>,
    /// Place of this node's address in the port's GID table
    #[arg(long, value_name = "N", requires = "ucx")]
    ucx_gid_index: Option<u8>,
    /// Which atomics it uses
    #[arg(long, value_enum, value_name = "WHOSE", default_value = "cpu", requires = "ucx")]
    ucx_atomics: Whose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Whose {
    Cpu,
    Device,
}

impl UcxArgs {
    pub(crate) fn is_chosen(&self) -> bool {
        self.ucx.is_some()
    }

    /// In the suite's order. UCX does not promise that a READ brings words whole, and a device's
    /// atomics need not be atomic with the CPU's.
    pub(crate) fn skips(&self) -> &'static [&'static str] {
        match self.ucx_atomics {
            Whose::Cpu => {
                &["words_are_whole_under_a_writer", "an_atomic_follows_the_write_before_it"]
            }
            Whose::Device => &[
                "words_are_whole_under_a_writer",
                "an_atomic_follows_the_write_before_it",
                "atomic_with_the_cpu",
            ],
        }
    }

    pub(crate) fn open<E: Exchange>(
        &self,
        sizes: Sizes,
        progress: Progress,
        exchange: &mut E,
    ) -> core::result::Result<Engine, OpenError> {
        let atomics = match self.ucx_atomics {
            Whose::Cpu => Atomics::Cpu,
            Whose::Device => Atomics::Device,
        };
        Builder::new(sizes.window_words)
            .slots(sizes.slots, sizes.slot_words)
            .depth(sizes.depth)
            .tls(self.ucx.as_deref())
            .device(self.ucx_device.as_deref())
            .gid_index(self.ucx_gid_index)
            .atomics(atomics)
            .progress(progress)
            .open(exchange)
    }

    /// Says what these engines go over, and who acts: measured on owners that stand still.
    pub(crate) fn introduce(&self, job: &mut Job) -> Result<()> {
        let sizes = Sizes { window_words: 64, slots: 1, slot_words: 8, depth: 1 };
        let engine = self.open(sizes, Progress::Thread, job)?;
        if job.me() == Owner(0) {
            println!("{}", engine.info());
        }
        job.barrier()?;
        Ok(())
    }
}
