//! What operations take in the simulator.

use clap::{Args, ValueEnum, ValueHint, value_parser};
use probeline_profile::Shape;

use crate::failure::{Failure, Result};
use crate::network;

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

    /// A network in place of a model: one of simulate's profiles, or a file
    #[arg(long = "sim-profile", value_name = "P|FILE", conflicts_with = "model_asked")]
    #[arg(value_hint = ValueHint::FilePath)]
    profile: Option<String>,

    /// Ranks on each machine of that network, 1 without it
    #[arg(long = "sim-ranks-per-machine", value_name = "K", requires = "profile")]
    #[arg(value_parser = value_parser!(u32).range(1..=4096))]
    ranks_per_machine: Option<u32>,
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
    /// The model of a job of so many ranks.
    pub(crate) fn model(&self, ranks: u32) -> Result<probeline_sim::Model> {
        if let Some(name) = &self.profile {
            let ranks_per_machine = self.ranks_per_machine();
            let machines = ranks.div_ceil(ranks_per_machine);
            let shape = Shape { machines, ranks_per_machine };
            return Ok(network::profile(name)?.model(shape)?);
        }
        Ok(match self.name() {
            SimModelName::Simple => probeline_sim::Model::simple(self.roundtrip_ns()),
            SimModelName::Oortwijn2015 => probeline_sim::Model::oortwijn2015(),
        })
    }

    /// Whether the cluster is the paper's, with one rank per machine.
    pub(crate) fn is_papers_cluster(&self) -> bool {
        match &self.profile {
            Some(name) => name == "das5-fdr" && self.ranks_per_machine() == 1,
            None => self.name() == SimModelName::Oortwijn2015,
        }
    }

    /// Which machine of the network a rank is on.
    pub(crate) fn machine(&self, rank: u32) -> u64 {
        u64::from(rank / self.ranks_per_machine())
    }

    fn ranks_per_machine(&self) -> u32 {
        self.ranks_per_machine.unwrap_or(1)
    }

    /// The model in words.
    pub(crate) fn about(&self) -> String {
        if let Some(name) = &self.profile {
            return format!("profile {name}, {} ranks a machine", self.ranks_per_machine());
        }
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
        let profile = self.profile.as_ref().map(|_| "--sim-profile");
        self.model_asked.map(|_| "--sim-model").or(roundtrip).or(profile)
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.roundtrip_ns_asked.is_none() {
            return Ok(());
        }
        if self.profile.is_some() {
            return Err(Failure::usage(
                "--sim-roundtrip-ns is for --sim-model simple, and the profile has its own: leave \
                 out one of the two options",
            ));
        }
        if self.name() == SimModelName::Simple {
            return Ok(());
        }
        Err(Failure::usage(
            "--sim-roundtrip-ns is for --sim-model simple: leave out one of the two options",
        ))
    }
}
