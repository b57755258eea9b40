//! `trial`: the library against a real RDMA stack, one subcommand for each thing that is tried. It
//! ends with status 0 when all that it says holds did hold.

mod conformance;
mod contention;
mod failure;
mod job;
mod latency;
mod opening;
mod operation;
mod patience;
mod rate;
mod refusals;
mod soak;
mod stream;
mod ucx;
mod unknown;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use probeline_transport::conformance::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Subcommand)]
enum Trial {
    /// The suite that every transport passes
    Conformance(conformance::ConformanceArgs),
    /// Exact sums of fetch-and-add and compare-and-swap by many queue pairs on one word
    Contention(contention::ContentionArgs),
    /// Requests that the device or the peer must refuse, and with which status
    Refusals,
    /// The same data put by all ranks at once: each inserted once, nothing lost
    Soak(soak::SoakArgs),
    /// Latency of READ and compare-and-swap, one at a time
    Latency(latency::LatencyArgs),
    /// READs a second, several at a time
    Rate(rate::RateArgs),
    /// Rank 0 works on rank 1's window while something happens to it
    Stream(stream::StreamArgs),
    /// A rank that dies while engines are opened
    Opening(opening::OpeningArgs),
    /// Operations that failed and take effect all the same, and their repetition
    Unknown(unknown::UnknownArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().trial {
        Trial::Conformance(args) => conformance::run(&args),
        Trial::Contention(args) => contention::run(&args),
        Trial::Refusals => refusals::run(),
        Trial::Soak(args) => soak::run(&args),
        Trial::Latency(args) => latency::run(&args),
        Trial::Rate(args) => rate::run(&args),
        Trial::Stream(args) => stream::run(&args),
        Trial::Opening(args) => opening::run(&args),
        Trial::Unknown(args) => unknown::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("trial: {failure}");
            ExitCode::FAILURE
        }
    }
}
