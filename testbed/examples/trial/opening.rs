//! The test bed kills rank 1 while engines are opened: rank 0's error names the lost rank.

use std::thread::sleep;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use probeline_transport::{Exchange, ExchangeError, Owner, Sizes};
use probeline_verbs::{OpenError, SetupError};

use crate::job::{HANG_TIMEOUT, JobArgs};

#[derive(Args)]
pub(crate) struct OpeningArgs {
    /// Open engines in both ranks until rank 1 is killed; otherwise rank 1 joins and opens none
    #[arg(long)]
    repeat: bool,
    #[command(flatten)]
    job: JobArgs,
}

pub(crate) fn run(args: &OpeningArgs) -> Result<()> {
    let mut job = args.job.join("opening".into())?;
    println!("joined");
    if job.me() != Owner(0) && !args.repeat {
        sleep(HANG_TIMEOUT);
        bail!("rank 1 was not killed");
    }
    let builder = args.job.builder(Sizes::new(64))?;
    let start = Instant::now();
    let mut opened = 0;
    while start.elapsed() < HANG_TIMEOUT {
        match builder.open(&mut job).map(drop) {
            Ok(()) => opened += 1,
            Err(
                error @ OpenError::Setup(SetupError::Exchange(ExchangeError::OwnerLost(Owner(1)))),
            ) => {
                println!("lost rank 1 after {opened} engines: {error}");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    bail!("no rank was lost")
}
