//! `just bench-speed`: the table on shared memory beside the limits of this machine's memory and
//! beside the sets that a program could use within one process. All of them take turns in each
//! round.
#![forbid(unsafe_code)]

mod plan;
mod report;
mod sets;
mod table;
mod team;

use core::time::Duration;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser};
use probeline_table::Probing;

type Result<T> = core::result::Result<T, Box<dyn core::error::Error + Send + Sync>>;

/// Measure the table on shared memory beside the machine's limits and beside other sets
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-speed", version)]
pub(crate) struct Args {
    /// Size of the table, all ranks together; caches show below 2GiB
    #[arg(long, default_value = "2GiB", value_name = "SIZE", value_parser = size)]
    table_size: u64,

    /// Rounds; medians are reported
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=999))]
    rounds: u32,

    /// Longest time of each measurement; inserts also end with their keys
    #[arg(long, default_value = "0.1", value_name = "SECONDS", value_parser = seconds)]
    seconds: Duration,

    /// Probe orders; targets are judged by the first one, which takes turns with the other sets
    #[arg(long, default_value = "linear,lines,jump", value_name = "ORDER,...")]
    #[arg(value_delimiter = ',', value_parser = orders())]
    probing: Vec<Order>,

    /// Leave out the other sets
    #[arg(long)]
    without_peers: bool,

    /// Exit with status 1 if a target is missed
    #[arg(long)]
    check: bool,

    /// Size of a table with as many buckets as the other sets have keys and gaps [default: a quarter
    /// of the table]. Smaller is in their favour, larger takes minutes to fill
    #[arg(long, value_name = "SIZE", value_parser = size)]
    peer_size: Option<u64>,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    // `cargo bench` adds it.
    #[arg(long, hide = true, action = ArgAction::SetTrue)]
    bench: bool,
}

/// A probe order and its name.
type Order = (&'static str, Probing);

const ORDERS: [Order; 3] =
    [("linear", Probing::Linear), ("lines", Probing::Lines), ("jump", Probing::Jump)];

fn orders() -> impl TypedValueParser<Value = Order> {
    PossibleValuesParser::new(ORDERS.map(|(name, _)| name))
        .map(|given| ORDERS.into_iter().find(|(name, _)| *name == given).unwrap_or(ORDERS[0]))
}

/// Half of a smaller table has fewer lines than the limits need.
const MIN_SIZE: u64 = 1 << 20;

impl Args {
    fn peer_size(&self) -> u64 {
        self.peer_size.unwrap_or((self.table_size / 4).max(MIN_SIZE))
    }
}

fn size(text: &str) -> core::result::Result<u64, String> {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    match bytes {
        None => Err(format!("{text:?} is not a size such as 4GiB")),
        Some(bytes) if bytes < MIN_SIZE => Err("at least 1MiB is needed".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

fn seconds(text: &str) -> core::result::Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=10.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("0.001 to 10 seconds are possible".to_owned()),
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok((text, status)) => {
            // The reader may close the pipe.
            let _ = writeln!(std::io::stdout(), "{text}");
            status
        }
        Err(error) => {
            eprintln!("bench-speed: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures and writes the JSON. Returns the text of the report, and failure if a target was missed
/// that had to be checked.
pub(crate) fn run(args: &Args) -> Result<(String, ExitCode)> {
    // Before the run, so that no measurement is lost.
    let file = args.json.as_deref().map(report::create).transpose()?;
    let measured = plan::run(args)?;
    let figures = report::figures(args, &measured);
    let text = report::publish(args, &measured, &figures, file)?;
    let missed = args.check && figures.iter().any(|figure| figure.met == Some(false));
    Ok((text, if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
}
