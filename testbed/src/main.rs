//! `vm-test`: tries the verbs in virtual machines with Soft-RoCE. See the README of this crate.

use std::process::ExitCode;

use clap::Parser;
use probeline_testbed::runner::{Selection, build, run};
use probeline_testbed::{Error, Failure, Layer};

/// Tries the verbs in virtual machines with Soft-RoCE
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Run only cases whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Run only cases of this layer: loopback, two, icount, tearing, numa; may be repeated
    #[arg(long = "layer", value_name = "NAME", value_parser = layer)]
    layers: Vec<Layer>,
    /// Run the benchmarks instead of the tests; each prints its verdicts, one a line
    #[arg(long)]
    bench: bool,
    /// Fail if a verdict of a benchmark is missed
    #[arg(long, requires = "bench")]
    check: bool,
    /// Print the names of the cases and run none
    #[arg(long)]
    list: bool,
    /// Build what the cases need and run none
    #[arg(long, conflicts_with = "list")]
    build: bool,
    /// Keep the logs of boots that went well, too
    #[arg(long)]
    keep: bool,
}

fn layer(name: &str) -> Result<Layer, String> {
    let found = Layer::ALL.into_iter().find(|layer| layer.name() == name);
    found.ok_or_else(|| "no such layer; there are loopback, two, icount, tearing, numa".to_owned())
}

/// Names of the cases, one a line.
fn list(selection: &Selection) -> Result<bool, Error> {
    selection.cases()?.iter().for_each(|case| println!("{}", case.full_name()));
    Ok(true)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let selection = Selection {
        only: cli.only,
        layers: cli.layers,
        bench: cli.bench,
        check: cli.check,
        keep: cli.keep,
    };
    let done = if cli.list {
        list(&selection)
    } else if cli.build {
        build(&selection).map(|()| true)
    } else {
        run(&selection)
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("vm-test: {}", Failure::from(error));
            ExitCode::FAILURE
        }
    }
}
