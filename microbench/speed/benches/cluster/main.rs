//! The second half of `just bench-speed`: the table in virtual time on the latency model of the
//! paper's cluster, where each means against latency is measured by the paper's own algorithm.
#![forbid(unsafe_code)]

pub(crate) mod args;
mod batch;
mod cache;
mod claims;
mod job;
mod limit;
mod nic;
mod plan;
mod report;
mod sweep;
mod targets;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use args::Args;

type Result<T> = core::result::Result<T, Box<dyn core::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let (text, status) = match run(&Args::parse()) {
        Ok(ended) => ended,
        Err(error) => {
            eprintln!("bench-speed-cluster: {error}");
            return ExitCode::from(2);
        }
    };
    // Whoever reads the output may stop reading.
    let _ = writeln!(std::io::stdout(), "{text}");
    status
}

/// Measures and writes; the report, and failure where a target is missed and that was to be
/// checked.
pub(crate) fn run(args: &Args) -> Result<(String, ExitCode)> {
    let file = report::open(args.json.as_deref())?;
    let measured = plan::run(args)?;
    let targets = targets::judge(&measured);
    let text = report::publish(&measured, &targets, file)?;
    Ok((text, targets::status(args.check, &targets)))
}
