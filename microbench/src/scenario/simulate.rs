//! The command `simulate`: the options, rows and notes of the experiments of `probeline_simulate`.

mod plan;
pub(super) mod row;
mod verdict;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint, value_parser};
use probeline::table::{OneRoundtrip, Probing, ReadAhead};
use probeline_profile::paper::{WORKLOADS, Workload};
use probeline_profile::{Given, Kind, Profile, Quantity};
use probeline_simulate::{latency, run_all, throughput};

use crate::cli::{OutputArgs, chunk_buckets, heading, max_chunks, name, network};
use crate::failure::Result;
use crate::options::Options;
use crate::progress::Progress;
use crate::run_report::{Files, RunReport, fields};
use crate::table::{MAX_ENTRIES, in_flight, name_of, one_roundtrip, probing, read_ahead};
use plan::Run;
use row::SimulateRow;

/// Options that have no effect on a latency.
const OF_THROUGHPUT: [&str; 6] = [
    "workload",
    "in-flight",
    "truncate-us",
    "throughput-load-factor",
    "throughput-chunk-buckets",
    "ops",
];
/// Options that have no effect on a throughput.
const OF_LATENCY: [&str; 2] = ["load-factor", "chunk-buckets"];

#[derive(Args, Clone, Debug)]
pub(crate) struct SimulateArgs {
    /// The network: das5-fdr, connectx6-200g, pik-ndr, soft-roce, shm, or a file
    #[arg(long, default_value = "das5-fdr", value_name = "P|FILE")]
    #[arg(value_hint = ValueHint::FilePath)]
    profile: String,

    /// Set a quantity of the profile, which then counts as assumed
    #[arg(long = "set", value_name = "QUANTITY=VALUE", value_parser = assumed)]
    set: Vec<(String, u64)>,

    /// Machines, one number or several separated by commas
    #[arg(long, default_value = "48", value_delimiter = ',', value_name = "N,...")]
    #[arg(value_parser = value_parser!(u32).range(1..=4096))]
    machines: Vec<u32>,

    /// Ranks on each machine, one number or several
    #[arg(long, default_value = "16", value_delimiter = ',', value_name = "K,...")]
    #[arg(value_parser = value_parser!(u32).range(1..=4096))]
    ranks_per_machine: Vec<u32>,

    /// Simulate everything that the paper's authors measured, on up to 48 machines: each load
    /// factor, number of machines and ranks, and throughputs as with --truncate-us
    #[arg(long, conflicts_with_all = [
        "machines", "ranks_per_machine", "load_factors", "throughput_load_factor", "throughput_chunk_buckets",
        "max_chunks",
    ])]
    paper_figures: bool,

    /// Experiment to simulate
    #[arg(long, value_enum, default_value_t = Experiment::All)]
    experiment: Experiment,

    /// Workloads of throughputs, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "W,...", value_parser = workload())]
    #[arg(default_value = "mixed,read-intensive,write-intensive")]
    workload: Vec<Workload>,

    /// Operations in flight of a rank in a throughput; 1 is the paper's
    #[arg(id = "simulated_in_flight", long = "in-flight", default_value_t = 1, value_name = "N", value_parser = in_flight(1))]
    in_flight: u32,

    /// Entries of a rank's cache; the paper has none
    #[arg(long, help_heading = heading::LATENCY, default_value_t = 0, value_name = "N", value_parser = value_parser!(u32).range(0..=i64::from(MAX_ENTRIES)))]
    cache: u32,

    /// When an operation claims its home bucket along with its first READ: saves an insert a
    /// roundtrip and costs a find an atomic
    #[arg(long, help_heading = heading::LATENCY, default_value = "off", value_name = "WHEN", value_parser = one_roundtrip())]
    one_roundtrip: OneRoundtrip,

    /// When the next chunk is requested before the present one is scanned
    #[arg(long, help_heading = heading::LATENCY, default_value = "always", value_name = "WHEN", value_parser = read_ahead())]
    read_ahead: ReadAhead,

    /// Order in which buckets are probed
    #[arg(long, help_heading = heading::LATENCY, default_value = "linear", value_name = "ORDER", value_parser = probing())]
    probing: Probing,

    /// Take the defaults of C, M, operations in flight, cache, read-ahead and one-roundtrip inserts
    /// from a file that probeline tune wrote
    #[arg(long, value_name = "FILE", help_heading = heading::LATENCY)]
    tuning: Option<PathBuf>,

    /// Compare throughputs with each operation's time cut to whole microseconds, as the program of
    /// the paper's authors cuts it
    #[arg(long)]
    truncate_us: bool,

    /// Load factors of latencies, from 0.02 to 0.92, rising, separated by commas
    #[arg(
        long = "load-factor",
        default_value = "0.5,0.6,0.7,0.8,0.9",
        value_delimiter = ',',
        value_name = "F,..."
    )]
    #[arg(value_parser = percent(2, 92))]
    load_factors: Vec<u32>,

    /// Load factor of the table when ranks begin a throughput
    #[arg(long, default_value = "0.01", value_name = "F", value_parser = percent(0, 90))]
    throughput_load_factor: u32,

    /// C of latencies, buckets that one chunk READ transfers: multiples of 8 from 8 to 4096,
    /// separated by commas
    #[arg(short = 'C', long, default_value = "8,16,32,64,128", value_delimiter = ',')]
    #[arg(value_name = "C,...", value_parser = chunk_buckets(plan::MAX_CHUNK_BUCKETS))]
    chunk_buckets: Vec<u32>,

    /// C of throughputs
    #[arg(long, default_value_t = 32, value_name = "C", value_parser = chunk_buckets(plan::MAX_CHUNK_BUCKETS))]
    throughput_chunk_buckets: u32,

    /// M, maximum chunks that an operation probes before it answers full; the program of the
    /// paper's authors has 64
    #[arg(short = 'M', long, default_value_t = 64, value_name = "M", value_parser = max_chunks())]
    max_chunks: u32,

    /// Measured operations of each rank in a throughput
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = value_parser!(u32).range(1..=1 << 20))]
    ops: u32,

    /// Seed of the keys and of the simulator
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = value_parser!(u64).range(0..1 << 20))]
    seed: u64,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// Inserts by one rank, by C and load factor: Table 1 left, Fig. 2
    Latency,
    /// All ranks at once: Table 1 right, Fig. 3
    Throughput,
    /// Both
    All,
}

impl Experiment {
    /// Refuses options of the other experiment, which would have no effect.
    fn refuse_others(self) -> Result<()> {
        let (options, of): (&[&str], _) = match self {
            Self::All => return Ok(()),
            Self::Latency => (&OF_THROUGHPUT, "throughputs"),
            Self::Throughput => (&OF_LATENCY, "latencies"),
        };
        Options::refuse(options, &format!("is for {of}, not for --experiment {}", name(self)))
    }
}

fn workload() -> impl TypedValueParser<Value = Workload> {
    let by_name = |name: String| WORKLOADS.into_iter().find(|workload| workload.name() == name);
    PossibleValuesParser::new(WORKLOADS.map(Workload::name))
        .try_map(move |name| by_name(name).ok_or("an unknown workload"))
}

fn assumed(text: &str) -> core::result::Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("write QUANTITY=VALUE")?;
    let value = value.parse().map_err(|_| format!("{value:?} is not an integer"))?;
    Quantity::checked(name, value).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value))
}

/// Parses a share in whole hundredths within these bounds.
fn percent(least: u32, most: u32) -> impl TypedValueParser<Value = u32> {
    move |text: &str| {
        let percent = text.parse::<f64>().map_or(f64::NAN, |share| share * 100.0);
        let near = |known: &u32| (f64::from(*known) - percent).abs() < 1e-6;
        (least..=most).find(near).ok_or_else(|| {
            let (least, most) = (f64::from(least) / 100.0, f64::from(most) / 100.0);
            format!("give hundredths from {least} to {most}")
        })
    }
}

pub(crate) fn run(args: SimulateArgs) -> Result<()> {
    args.experiment.refuse_others()?;
    let profile = args.profile()?;
    let runs = args.runs(&profile)?;
    let at_once = args.at_once(&runs)?;
    let files = Files::open(&args.output, true)?;
    let mut report = RunReport::new("simulate");
    report.transport = vec![format!("profile {}: {}", profile.name(), profile.about())];
    report.transport.extend(profile.given().map(|(quantity, Given { value, kind, source })| {
        format!("{} = {value}, {kind}: {source}", quantity.name)
    }));
    args.add_parameters(&mut report, &profile);
    let rows = args.all(&runs, at_once)?;
    report.summary = verdict::summary(&args, &profile, &rows);
    report.note(verdict::notes(&args, &profile, &rows));
    report.publish(files, &rows)
}

impl SimulateArgs {
    fn all(&self, runs: &[Run], at_once: usize) -> Result<Vec<SimulateRow>> {
        let bar = Progress::new(runs.len() as u64, true);
        // Time is virtual, so a drawing thread does not affect it.
        let redrawing = bar.start_redrawing();
        let bar = Mutex::new(bar);
        let bar = || bar.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = run_all(runs, at_once, |run| {
            bar().show(&run.name());
            let rows = match run {
                Run::Latency(plan) => latency(plan)
                    .map(|rows| rows.iter().map(|row| SimulateRow::latency(plan, row)).collect()),
                Run::Throughput(plan) => {
                    throughput(plan).map(|row| vec![SimulateRow::throughput(self, plan, &row)])
                }
            };
            bar().advance(&run.name());
            rows
        });
        drop(redrawing);
        let rows: Vec<Vec<SimulateRow>> = rows?;
        Ok(rows.into_iter().flatten().collect())
    }

    fn profile(&self) -> Result<Profile> {
        let mut profile = network(&self.profile)?;
        for (name, value) in &self.set {
            let source = "--set on the command line".to_owned();
            profile.set(name, Given { value: *value, kind: Kind::Assumed, source })?;
        }
        Ok(profile)
    }

    /// Returns whether operations are those of the paper's algorithm (Fig. 1).
    fn is_paper(&self) -> bool {
        let of_rank = (self.in_flight, self.cache, self.one_roundtrip);
        of_rank == (1, 0, OneRoundtrip::Off)
            && (self.read_ahead, self.probing) == (ReadAhead::Always, Probing::Linear)
    }

    fn truncates(&self) -> bool {
        self.truncate_us || self.paper_figures
    }

    fn add_parameters(&self, report: &mut RunReport, profile: &Profile) {
        report.parameter("profile", profile.name());
        report.parameter("of_the_papers", verdict::is_papers_setup(self, profile));
        report.parameter("truncate_us", self.truncates());
        report.parameters(fields!(self; throughput_chunk_buckets, max_chunks, seed, in_flight));
        report.parameter("throughput_load_factor", f64::from(self.throughput_load_factor) / 100.0);
        report.parameter("ops_per_rank", self.ops);
        report.tuning_file();
        report.parameter("read_ahead", name_of(self.read_ahead));
        report.parameter("one_roundtrip", name_of(self.one_roundtrip));
        report.parameter("probing", name_of(self.probing));
        report.parameter("cache_entries", self.cache);
    }
}
