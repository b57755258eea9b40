//! The command line.

use core::time::Duration;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser};
use probeline_table::Probing;

/// Measures the table on shared memory: beside what this machine's memory does at best, and beside
/// what could be taken instead within one process.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-speed", version)]
pub(crate) struct Args {
    /// Size of the table over all ranks; below 2GiB caches begin to show
    #[arg(long, default_value = "2GiB", value_name = "SIZE", value_parser = size)]
    pub(crate) table_size: u64,

    /// Rounds of which the medians are reported
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=999))]
    pub(crate) rounds: u32,

    /// Seconds of each measurement at most; inserts end with their keys, too
    #[arg(long, default_value = "0.1", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// Probe orders, separated by commas. By the first one the targets are judged, and it takes
    /// turns with the other sets
    #[arg(long, default_value = "linear,lines,jump", value_name = "ORDER,...")]
    #[arg(value_delimiter = ',', value_parser = orders())]
    pub(crate) probing: Vec<Order>,

    /// Leave out the other sets
    #[arg(long)]
    pub(crate) without_peers: bool,

    /// End with status 1 if a target is missed
    #[arg(long)]
    pub(crate) check: bool,

    /// Size of a table with as many buckets as the other sets are to have, which is a quarter of
    /// the table without this: memory for more takes minutes to fill. Smaller is in their favour
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) peer_size: Option<u64>,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Given by `cargo bench`
    #[arg(long, hide = true, action = ArgAction::SetTrue)]
    bench: bool,
}

impl Args {
    /// Bytes of a table with as many buckets as the other sets.
    pub(crate) fn peer_size(&self) -> u64 {
        self.peer_size.unwrap_or((self.table_size / 4).max(LEAST_SIZE))
    }
}

/// A probe order and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) name: &'static str,
    pub(crate) probing: Probing,
}

fn orders() -> impl TypedValueParser<Value = Order> {
    PossibleValuesParser::new(["linear", "lines", "jump"]).map(|name| order(&name))
}

fn order(name: &str) -> Order {
    match name {
        "lines" => Order { name: "lines", probing: Probing::Lines },
        "jump" => Order { name: "jump", probing: Probing::Jump },
        _ => Order { name: "linear", probing: Probing::Linear },
    }
}

/// Two parts of less would be fewer lines than the limits can be measured on.
const LEAST_SIZE: u64 = 1 << 20;

fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let number: u64 =
        digits.parse().map_err(|_| format!("{text:?} is no size: write for example 4GiB"))?;
    let bytes = number.checked_mul(1 << shift).ok_or("more bytes than there are")?;
    if bytes < LEAST_SIZE { Err("take 1MiB or more".to_owned()) } else { Ok(bytes) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.001..=10.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err("take 0.001 to 10 seconds".to_owned())
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let args = Args::parse_from(
            ["speed", "--bench", "--table-size", "3GiB", "--probing"].iter().chain(&[
                "jump,linear",
                "--seconds",
                "0.5",
            ]),
        );
        assert_eq!(args.table_size, 3 << 30);
        assert_eq!(args.seconds, Duration::from_millis(500));
        let names: Vec<_> = args.probing.iter().map(|order| order.name).collect();
        assert_eq!(names, ["jump", "linear"]);
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            ["--table-size", "1KiB"],
            ["--table-size", "many"],
            ["--seconds", "0"],
            ["--rounds", "0"],
            ["--probing", "square"],
        ] {
            let all = ["speed"].iter().chain(&wrong);
            assert!(Args::try_parse_from(all).is_err(), "{wrong:?}");
        }
    }
}
