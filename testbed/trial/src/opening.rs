//! Rank 1 is killed while engines are opened, by whoever runs this: rank 0 hears who was lost.

use std::io::{Write, stdout};
use std::thread::sleep;
use std::time::Instant;

use clap::Args;
use probeline_transport::{Exchange, ExchangeError, Owner};
use probeline_verbs::OpenError;

use crate::failure::{Failure, Result, ensure};
use crate::job::JobArgs;
use crate::patience::PATIENCE;

#[derive(Args)]
pub(crate) struct OpeningArgs {
    /// Engines are opened over and over, and rank 1 is killed at any time; without it, when it has
    /// joined and has not begun to open
    #[arg(long)]
    over_and_over: bool,
    #[command(flatten)]
    job: JobArgs,
}

pub(crate) fn run(args: &OpeningArgs) -> Result<()> {
    let mut job = args.job.join("opening".into())?;
    println!("joined");
    stdout().flush()?;
    if job.me() != Owner(0) && !args.over_and_over {
        sleep(PATIENCE);
        return Err(Failure("it was not killed".into()));
    }
    let builder = args.job.builder(64)?;
    let begin = Instant::now();
    let mut opened = 0;
    while begin.elapsed() < PATIENCE {
        match builder.open(&mut job).map(drop) {
            Ok(()) => opened += 1,
            Err(error) => return judge(&error, opened),
        }
    }
    Err(Failure("nothing happened".into()))
}

fn judge(error: &OpenError, opened: u32) -> Result<()> {
    let named = matches!(error, OpenError::Exchange(ExchangeError::OwnerLost(Owner(1))));
    ensure(named, || format!("{error} ({error:?})"))?;
    println!("after {opened} engines: {}", Failure::from(error.clone()));
    Ok(())
}
