//! Options of the simulator.

use clap::{Args, ValueEnum, ValueHint, value_parser};
use probeline_profile::Shape;

use crate::failure::{Failure, Result};
use crate::network;
use crate::options::Options;

/// How long operations take in the simulator.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Simulator (sim)")]
pub(crate) struct SimArgs {
    /// How long operations take
    #[arg(long, value_enum, value_name = "MODEL", default_value_t = SimModelName::Simple)]
    sim_model: SimModelName,

    /// Roundtrip between two owners in the simple model; one within an owner takes a tenth of it
    #[arg(long = "sim-roundtrip-ns", value_name = "NS", default_value_t = 2000)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    roundtrip_ns: u64,

    /// A network in place of a model: one of simulate's profiles, or a file
    #[arg(long = "sim-profile", value_name = "P|FILE", conflicts_with = "sim_model")]
    #[arg(value_hint = ValueHint::FilePath)]
    profile: Option<String>,

    /// Ranks on each machine of that network
    #[arg(long = "sim-ranks-per-machine", value_name = "K", default_value_t = 1)]
    #[arg(requires = "profile", value_parser = value_parser!(u32).range(1..=4096))]
    ranks_per_machine: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SimModelName {
    /// One roundtrip for everything
    Simple,
    /// The cluster of the paper, by the latencies measured there
    Oortwijn2015,
}

impl SimArgs {
    /// Returns the model for a job of this number of ranks.
    pub(crate) fn model(&self, ranks: u32) -> Result<probeline::sim::Model> {
        if let Some(name) = &self.profile {
            let ranks_per_machine = self.ranks_per_machine;
            let machines = ranks.div_ceil(ranks_per_machine);
            let shape = Shape { machines, ranks_per_machine };
            return Ok(network::profile(name)?.model(shape)?);
        }
        Ok(match self.sim_model {
            SimModelName::Simple => probeline::sim::Model::simple(self.roundtrip_ns),
            SimModelName::Oortwijn2015 => probeline::sim::Model::oortwijn2015(),
        })
    }

    /// Returns the name or file of the network, if it replaces the model.
    pub(crate) fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// Returns whether the model is the paper's cluster, with one rank per machine.
    pub(crate) fn is_papers_cluster(&self) -> bool {
        match &self.profile {
            Some(name) => name == "das5-fdr" && self.ranks_per_machine == 1,
            None => self.sim_model == SimModelName::Oortwijn2015,
        }
    }

    /// Returns the machine of a rank in the network.
    pub(crate) fn machine(&self, rank: u32) -> u64 {
        u64::from(rank / self.ranks_per_machine)
    }

    /// Describes the model.
    pub(crate) fn about(&self) -> String {
        if let Some(name) = &self.profile {
            return format!("profile {name}, {} ranks a machine", self.ranks_per_machine);
        }
        match self.sim_model {
            SimModelName::Simple => format!("{} ns roundtrip between two", self.roundtrip_ns),
            SimModelName::Oortwijn2015 => "latencies as on DAS-5 in the paper".to_owned(),
        }
    }

    /// Refuses a roundtrip that has no effect.
    pub(super) fn check(&self, options: &Options) -> Result<()> {
        let simple = self.profile.is_none() && self.sim_model == SimModelName::Simple;
        if simple || !options.is_given("sim-roundtrip-ns") {
            return Ok(());
        }
        Err(Failure::usage(
            "--sim-roundtrip-ns is for --sim-model simple: leave out one of the two options",
        ))
    }
}
