//! `probeline`: measures the table and its transports, and explores Petri nets with the table.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod agreement;
mod cli;
mod engines;
mod failure;
mod interrupt;
mod job;
mod keys;
mod machine;
mod memory;
mod meter;
#[cfg(feature = "mpi")]
mod mpi_job;
mod options;
mod output_file;
mod pinning;
mod progress;
mod run_report;
mod scenario;
mod series;
mod size;
mod table;
mod terminal;
mod tuning_file;
mod two_nodes;
mod units;

use std::ffi::OsString;
use std::process::{self, ExitCode};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use cli::GlobalArgs;
use failure::Result;
use options::Options;
use scenario::{
    bale, bench_map, bench_queue, compare, completions, contigs, doctor, dsm, explore, isx, kmers,
    latency as bench_latency, limits, report as page, roundtrips, simulate, surrogate, throughput,
    topology, tune,
};

/// Distributed data structures over one-sided RDMA: measure them, count k-mers, find unitigs, explore Petri
/// nets, sort.
#[derive(Parser)]
#[command(name = "probeline", version, about, bin_name = "probeline", after_help = failure::STATUS_HELP)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the latency of READ, WRITE, CAS, FAA and find-or-put
    BenchLatency(bench_latency::LatencyArgs),
    /// Measure find-or-puts per second by all ranks, on several workloads
    BenchThroughput(throughput::ThroughputArgs),
    /// Measure gets and puts of the map by all ranks, by mode, workload and load factor
    #[command(mut_arg("tuning", without_a_table))]
    BenchMap(bench_map::MapArgs),
    /// Measure pushes and pops of queues by all ranks, on one ring or one each, singly or in batches
    #[command(mut_arg("tuning", without_a_table), mut_arg("table_size_asked", without_a_table))]
    #[command(mut_arg("seed", without_a_table))]
    BenchQueue(bench_queue::QueueArgs),
    /// Count the chunk READs of an insert, by load factor and C
    Roundtrips(roundtrips::RoundtripsArgs),
    /// Measure the limits of this machine's memory and of a transport
    #[command(mut_arg("tuning", without_a_table))]
    Limits(limits::LimitsArgs),
    /// Compare the latency and the throughput over all available transports, by turns
    Compare(compare::CompareArgs),
    /// Explore the states of a Petri net, with the table as the set of visited states
    #[command(mut_arg("seed", |option| option.help("Seed of the simulator")))]
    Explore(explore::ExploreArgs),
    /// Find the unitigs of FASTA and FASTQ files, the paths without branches between their k-mers
    #[command(mut_arg("tuning", without_a_table), mut_arg("seed", without_a_table))]
    Contigs(contigs::ContigsArgs),
    /// Count the k-mers of FASTA and FASTQ files
    #[command(mut_arg("tuning", without_a_table), mut_arg("seed", without_a_table))]
    Kmers(kmers::KmersArgs),
    /// Sort random integers over all ranks, as the benchmark ISx
    #[command(mut_arg("tuning", without_a_table), mut_arg("table_size_asked", without_a_table))]
    Isx(isx::IsxArgs),
    /// Run an irregular kernel of the benchmark suite bale
    #[command(mut_arg("tuning", without_a_table), mut_arg("table_size_asked", without_a_table))]
    Bale(bale::BaleArgs),
    /// Run a program on shared memory by pages, beside the same program on one rank
    #[command(mut_arg("tuning", without_a_table), mut_arg("table_size_asked", without_a_table))]
    #[command(mut_arg("seed", without_a_table))]
    Dsm(dsm::DsmArgs),
    /// Simulate reactive transport, with the map as a cache of its chemistry
    #[command(mut_arg("tuning", without_a_table))]
    Surrogate(surrogate::SurrogateArgs),
    /// Simulate the paper's experiments on a cluster, with the profile of a network
    Simulate(simulate::SimulateArgs),
    /// Choose C, M, read-ahead and depth for this network and a workload; writes a file for
    /// --tuning
    #[command(mut_arg("tuning", without_a_table))]
    Tune(tune::TuneArgs),
    /// Plot the JSON of any number of runs as a page or SVG files
    Report(page::ReportArgs),
    /// Show the nodes and cores of this machine, and the core of each rank
    Topology(topology::TopologyArgs),
    /// Check the setup of this machine and its RDMA devices
    Doctor(doctor::DoctorArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

/// Hides an option that ranks have and this command refuses.
fn without_a_table(option: clap::Arg) -> clap::Arg {
    option.hide(true)
}

fn main() -> ExitCode {
    progress::begin();
    match command().and_then(run) {
        Ok(code) => code,
        Err(failure) => {
            failure.show();
            ExitCode::from(failure.status())
        }
    }
}

/// Returns all commands with their options, and with examples in their help.
fn definition() -> clap::Command {
    cli::help::with_short_help(Cli::command())
}

/// Returns the command with its options, including those that a tuning sets.
fn command() -> Result<Command> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let mut definition = self::definition();
    let mut matches = parse(&mut definition, &arguments);
    let tuning_file =
        tuning_file::with_defaults(self::definition(), &matches)?.map(|(tunable, file)| {
            definition = tunable;
            matches = parse(&mut definition, &arguments);
            file
        });
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| end_by_clap(error));
    terminal::set_quiet(cli.global.quiet);
    if let Some((name, matches)) = matches.subcommand()
        && let Some(definition) = definition.find_subcommand(name)
    {
        Options::parsed(definition, matches).keep(tuning_file);
    }
    Ok(cli.command)
}

fn parse(definition: &mut clap::Command, arguments: &[OsString]) -> ArgMatches {
    let matches = definition.try_get_matches_from_mut(arguments);
    matches.unwrap_or_else(|error| end_by_clap(error))
}

fn end_by_clap(error: clap::Error) -> ! {
    let status = error.exit_code();
    terminal::print_clap(error);
    process::exit(status)
}

fn run(command: Command) -> Result<ExitCode> {
    let done = match command {
        Command::BenchLatency(args) => bench_latency::run(args),
        Command::BenchThroughput(args) => throughput::run(args),
        Command::BenchMap(args) => bench_map::run(args),
        Command::BenchQueue(args) => bench_queue::run(args),
        Command::Roundtrips(args) => roundtrips::run(args),
        Command::Limits(args) => limits::run(args),
        Command::Compare(args) => return compare::run(args),
        Command::Explore(args) => return explore::run(args),
        Command::Contigs(args) => contigs::run(args),
        Command::Kmers(args) => kmers::run(args),
        Command::Surrogate(args) => surrogate::run(args),
        Command::Dsm(args) => dsm::run(args),
        Command::Isx(args) => isx::run(args),
        Command::Bale(args) => bale::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Report(args) => page::run(&args),
        Command::Topology(args) => topology::run(&args),
        Command::Doctor(args) => return doctor::run(&args),
        Command::Completions(args) => completions::run(args, &definition()),
    };
    done.map(|()| ExitCode::SUCCESS)
}
