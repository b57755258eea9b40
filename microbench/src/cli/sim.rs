//! What operations take in the simulator.

use clap::{Args, ValueEnum, value_parser};

use crate::failure::{Failure, Result};

/// The simulator's model.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Simulator (sim)")]
pub(crate) struct SimArgs {
    /// What operations take: simple without it
    #[arg(long = "sim-model", value_enum, value_name = "MODEL")]
    model_asked: Option<SimModelName>,

    /// Roundtrip between two owners in the simple model, 2000 ns without it; to its own part an
    /// owner takes a tenth of it
    #[arg(long = "sim-roundtrip-ns", value_name = "NS", value_parser = value_parser!(u64).range(1..))]
    roundtrip_ns_asked: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SimModelName {
    /// One roundtrip for everything
    Simple,
    /// The cluster of the paper, by the latencies measured there
    Oortwijn2015,
}

const DEFAULT_ROUNDTRIP_NS: u64 = 2000;

impl SimArgs {
    pub(crate) fn model(&self) -> sim::Model {
        match self.name() {
            SimModelName::Simple => sim::Model::simple(self.roundtrip_ns()),
            SimModelName::Oortwijn2015 => sim::Model::oortwijn2015(),
        }
    }

    /// The model in words.
    pub(crate) fn about(&self) -> String {
        match self.name() {
            SimModelName::Simple => format!("{} ns roundtrip between two", self.roundtrip_ns()),
            SimModelName::Oortwijn2015 => "latencies as on DAS-5 in the paper".to_owned(),
        }
    }

    fn name(&self) -> SimModelName {
        self.model_asked.unwrap_or(SimModelName::Simple)
    }

    fn roundtrip_ns(&self) -> u64 {
        self.roundtrip_ns_asked.unwrap_or(DEFAULT_ROUNDTRIP_NS)
    }

    /// The first option that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let roundtrip = self.roundtrip_ns_asked.map(|_| "--sim-roundtrip-ns");
        self.model_asked.map(|_| "--sim-model").or(roundtrip)
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.name() == SimModelName::Simple || self.roundtrip_ns_asked.is_none() {
            return Ok(());
        }
        Err(Failure::new(
            "--sim-roundtrip-ns is for --sim-model simple: leave out one of the two options",
        ))
    }
}
