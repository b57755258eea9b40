//! `just bench-speed`: the table on shared memory, beside what this machine's memory does at best
//! and beside the sets that a user would take instead, all in one run whose rounds take turns.
#![deny(unsafe_code)]

pub(crate) mod args;
mod crew;
#[allow(unsafe_code, reason = "an allocator is")]
mod huge;
mod job;
mod keys;
mod peers;
mod plan;
mod process;
mod ratios;
mod report;
mod samples;
mod targets;
mod timed;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use args::Args;

#[global_allocator]
static ALLOCATOR: huge::Huge = huge::Huge;

type Result<T> = core::result::Result<T, Box<dyn core::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let args = Args::parse();
    let (text, status) = match run(&args) {
        Ok(ended) => ended,
        Err(error) => {
            eprintln!("bench-speed: {error}");
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
    let targets = targets::judge(args, &measured.samples);
    let text = report::publish(args, &measured, &targets, file)?;
    let missed = args.check && targets.iter().any(|target| !target.met());
    Ok((text, if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
}
