//! `just bench-speed`: the table on shared memory beside the limits of this machine's memory and
//! beside the sets that a program could use within one process, and three optimizations in virtual
//! time beside the paper's own algorithm. The output is a table of ratios with their targets.
#![forbid(unsafe_code)]

pub(crate) mod cluster;
pub(crate) mod memory;
pub(crate) mod rank;
pub(crate) mod sets;
pub(crate) mod team;

use core::fmt::{self, Display};
use core::time::Duration;
use std::io::Write;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser};
use probeline_table::Probing;

type Result<T, E = Box<dyn core::error::Error + Send + Sync>> = core::result::Result<T, E>;

/// Measure the table beside the machine's limits, other sets and the paper's algorithm
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-speed", version)]
pub(crate) struct Args {
    /// Size of the table, all ranks together; caches show below 2GiB
    #[arg(long, default_value = "2GiB", value_name = "SIZE", value_parser = size)]
    pub(crate) table_size: u64,

    /// Rounds; medians are reported
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=999))]
    pub(crate) rounds: u32,

    /// Longest time of each measurement; inserts also end with their keys
    #[arg(long, default_value = "0.1", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// Probe orders; targets are judged by the first one, which takes turns with the other sets
    #[arg(long, default_value = "linear,lines,jump", value_name = "ORDER,...")]
    #[arg(value_delimiter = ',', value_parser = orders())]
    pub(crate) probing: Vec<Order>,

    /// Leave out the other sets
    #[arg(long)]
    pub(crate) without_peers: bool,

    /// Size of a table with as many buckets as the other sets have keys and gaps [default: a quarter
    /// of the table]. Smaller is in their favour, larger takes minutes to fill
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) peer_size: Option<u64>,

    /// Measure only in virtual time, on the model of the paper's cluster
    #[arg(long)]
    pub(crate) cluster: bool,

    /// Exit with status 1 if a target is missed
    #[arg(long)]
    pub(crate) check: bool,

    // `cargo bench` adds it.
    #[arg(long, hide = true, action = ArgAction::SetTrue)]
    bench: bool,
}

/// A probe order and its name.
pub(crate) type Order = (&'static str, Probing);

const ORDERS: [Order; 3] =
    [("linear", Probing::Linear), ("lines", Probing::Lines), ("jump", Probing::Jump)];

fn orders() -> impl TypedValueParser<Value = Order> {
    PossibleValuesParser::new(ORDERS.map(|(name, _)| name))
        .map(|given| ORDERS.into_iter().find(|(name, _)| *name == given).unwrap_or(ORDERS[0]))
}

fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 2] = [("GiB", 30), ("MiB", 20)];
    let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let bytes =
        unit.and_then(|(digits, shift)| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
    // Half of a smaller table has fewer lines than the limits need.
    bytes.filter(|bytes| *bytes > 0).ok_or(format!("{text:?} is not a size such as 4GiB or 64MiB"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=10.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("0.001 to 10 seconds are possible".to_owned()),
    }
}

/// A ratio of two measurements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The probe order, the load factor and the number of ranks.
    pub(crate) case: String,
    pub(crate) unit: &'static str,
    pub(crate) measured: f64,
    pub(crate) baseline: f64,
    pub(crate) target: Option<Target>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    pub(crate) fn ratio(&self) -> f64 {
        self.measured / self.baseline
    }

    /// Returns whether the ratio meets its target; `None` without one.
    pub(crate) fn is_met(&self) -> Option<bool> {
        self.target.map(|target| match target {
            Target::AtLeast(least) => self.ratio() >= least,
            Target::AtMost(most) => self.ratio() <= most,
        })
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ratio, Self { name, case, unit, measured, baseline, .. }) = (self.ratio(), self);
        write!(f, "{name:59} {case:30} {measured:8.1} {baseline:8.1} {unit:3} {ratio:7.3}")?;
        let verdict = if self.is_met() == Some(true) { "met" } else { "MISSED" };
        match self.target {
            None => Ok(()),
            Some(Target::AtLeast(least)) => write!(f, "  >= {least:.2} {verdict}"),
            Some(Target::AtMost(most)) => write!(f, "  <= {most:.2} {verdict}"),
        }
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("bench-speed: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures and prints; returns failure if a target was missed that had to be checked.
fn run(args: &Args) -> Result<ExitCode> {
    let mut rows = Vec::new();
    if !args.cluster {
        let (about, measured) = memory::run(args)?;
        print(&about, &measured);
        rows = measured;
    }
    let simulated = cluster::run(cluster::Scale { buckets_per_owner: 1 << 18, step: 2 })?;
    print("Virtual time, model of the paper's cluster (oortwijn2015), mean times", &simulated);
    rows.extend(simulated);
    let is_missed = args.check && rows.iter().any(|row| row.is_met() == Some(false));
    Ok(if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(about: &str, rows: &[Row]) {
    let (name, case, measured, baseline) = ("ratio of medians", "case", "measured", "baseline");
    let mut text =
        format!("{about}\n{name:59} {case:30} {measured} {baseline}       ratio  target\n");
    rows.iter().for_each(|row| text += &format!("{row}\n"));
    // The reader may close the pipe.
    let _ = writeln!(std::io::stdout(), "{text}");
}
