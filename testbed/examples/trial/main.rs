//! `trial`: runs the library against a real RDMA stack, one subcommand for each subject. The exit
//! status is 0 if all checks of the subcommand passed.

mod conformance;
mod containers;
mod job;
mod latency;
mod map;
mod pages;
mod soak;
mod stream;
mod ucx;
mod unknown;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use probeline_transport::conformance::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[derive(Parser)]
#[command(
    version,
    about = "Runs the library against a real RDMA stack inside the test bed's virtual machines."
)]
struct Cli {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Subcommand)]
enum Trial {
    /// Run the conformance suite that every transport passes
    Conformance(conformance::ConformanceArgs),
    /// Add to one word by the CPU and through the device, and check that additions are lost
    Contention(conformance::ContentionArgs),
    /// Insert the same keys from all ranks at once, and check that each is inserted exactly once
    Soak(soak::SoakArgs),
    /// Measure the latency of READ or compare-and-swap, one at a time
    Latency(latency::LatencyArgs),
    /// Measure READs per second with several in flight
    Rate(job::JobArgs),
    /// Operate on rank 1's window while the test bed injects a fault
    Stream(stream::StreamArgs),
    /// Open engines until rank 1 is killed
    Opening(stream::OpeningArgs),
    /// Edit pages of rank 1 under its lock while the test bed stops its process
    Pages(pages::PagesArgs),
    /// Repeat operations that failed and may take effect later
    Unknown(unknown::UnknownArgs),
    /// Put, get and remove keys of a map on all ranks at once, and check every value
    Map(map::MapArgs),
    /// Change arrays, counters, maps, wide keys and messages on all ranks at once, and check every result
    Containers(containers::ContainersArgs),
    /// Pop what rank 1 pushes until it is killed
    Queue(containers::QueueArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().trial {
        Trial::Conformance(args) => conformance::run(&args),
        Trial::Contention(args) => conformance::run_contention(&args),
        Trial::Soak(args) => soak::run(&args),
        Trial::Map(args) => map::run(&args),
        Trial::Containers(args) => containers::run(&args),
        Trial::Queue(args) => containers::run_queue(&args),
        Trial::Latency(args) => latency::run(&args),
        Trial::Rate(args) => latency::run_rate(&args),
        Trial::Stream(args) => stream::run(&args),
        Trial::Opening(args) => stream::run_opening(&args),
        Trial::Pages(args) => pages::run(&args),
        Trial::Unknown(args) => unknown::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The messages of the libraries' errors contain their causes.
            eprintln!("trial: {error}");
            ExitCode::FAILURE
        }
    }
}
