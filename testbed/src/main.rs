//! `vm-test`: tests the library over Soft-RoCE in one or two virtual machines. The guests run the
//! distribution's kernel on the host's own root file system, emulated without KVM.
//!
//! [`host::Host`] finds the tools and the kernel, [`testbed::Testbed`] boots the machines of a
//! [`case::Layer`], [`machine::Machine`] runs commands in a guest and injects faults, and [`runner`]
//! runs the [`cases`]. No process outlives `vm-test`, even if that is killed: see [`tool::Tool`].
#![forbid(unsafe_code)]

mod agent;
mod case;
mod cases;
mod command;
mod error;
mod host;
mod kernel;
mod limit;
mod machine;
mod programs;
mod qemu;
mod runner;
mod testbed;
mod tool;

use core::time::Duration;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use runner::Selection;

/// Bounds waits for what a quiet host does within seconds. Only a hang takes this long: an emulated
/// machine on a host with ten programs for each CPU is some tens of times slower.
const HANG_TIMEOUT: Duration = Duration::from_secs(300);

/// Test the library over Soft-RoCE in virtual machines
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    selection: Selection,
    /// Print the names of the selected cases and run none
    #[arg(long)]
    list: bool,
    /// Build what the selected cases need and run none
    #[arg(long, conflicts_with = "list")]
    build: bool,
}

impl Cli {
    /// Returns whether all cases passed.
    fn run(&self) -> Result<bool> {
        if self.list {
            self.selection.cases()?.iter().for_each(|case| println!("{}", case.full_name()));
            return Ok(true);
        }
        if self.build {
            return self.selection.build().map(|()| true);
        }
        runner::run(&self.selection)
    }
}

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("vm-test: {error:#}");
            ExitCode::FAILURE
        }
    }
}
