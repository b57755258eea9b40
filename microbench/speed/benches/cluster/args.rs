//! The command line.

use std::path::PathBuf;

use clap::{ArgAction, Parser};

/// Measures the table in virtual time on the latency model of the paper's cluster: what each means
/// against latency gains there.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-speed-cluster", version)]
pub(crate) struct Args {
    /// What all keys and all chance come from
    #[arg(long, default_value_t = 1, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..1 << 20))]
    pub(crate) seed: u64,

    /// Half the table, and the adaptive C at fewer load factors
    #[arg(long)]
    pub(crate) quick: bool,

    /// End with status 1 if a target is missed
    #[arg(long)]
    pub(crate) check: bool,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Given by `cargo bench`
    #[arg(long, hide = true, action = ArgAction::SetTrue)]
    bench: bool,
}
