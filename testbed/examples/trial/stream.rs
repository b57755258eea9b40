//! Rank 0 operates on rank 1's window without a pause while the test bed injects a fault into rank
//! 1, its machine or the network. Rank 0 must see what `--expect` says. Rank 0 prints its progress,
//! so that the test bed waits for events and not for a time. Or it injects the fault while
//! engines are opened.

use core::time::Duration;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use probeline_transport::conformance::{local, segment, word};
use probeline_transport::{
    Completion, Exchange, ExchangeError, Fault, OpError, Owner, PostError, RemoteWord, Sizes,
    Token, Transport,
};
use probeline_verbs::{Engine, OpenError, SetupError};

use crate::job::{Deadline, HANG_TIMEOUT, JobArgs, close, complete};

#[derive(Args)]
pub(crate) struct StreamArgs {
    /// Expected result
    #[arg(long, value_enum)]
    expect: Expected,
    /// Stop once this file exists
    #[arg(long, value_name = "FILE", required_if_eq("expect", "survival"))]
    until: Option<PathBuf>,
    /// Post nothing in rank 0, only poll
    #[arg(long)]
    idle: bool,
    /// Do not poll in rank 1
    #[arg(long)]
    asleep: bool,
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Expected {
    /// Rank 0's engine reports rank 1 as lost
    Lost,
    /// Rank 0's engine reports any fault
    Fault,
    /// All operations complete
    Survival,
}

/// Operations in flight.
const DEPTH: u32 = 8;
/// Completions between two reports of rank 0, each of which checks for the file that stops it.
const REPORT_INTERVAL: u64 = 1000;
/// Rank 0 reports each time that no completion has arrived for this long.
const SILENCE: Duration = Duration::from_millis(400);
/// The time between two polls of rank 1, which also check for the file that stops it.
const RANK_1_INTERVAL: Duration = Duration::from_millis(50);
/// The word that fetch-and-adds increment.
const ADDED: RemoteWord = word(1, 0);

pub(crate) fn run(args: &StreamArgs) -> Result<()> {
    let mut job = args.job.join("stream".into())?;
    let sizes = Sizes { window_words: 64, slots: DEPTH, slot_words: 8, depth: DEPTH };
    let builder = args.job.builder(sizes)?;
    let mut engine = builder.open(&mut job)?;
    job.barrier()?;
    if job.me() == Owner(1) {
        serve(args, &mut engine)?;
        return if args.expect == Expected::Survival { close(job, engine) } else { Ok(()) };
    }
    println!("{}", engine.link());
    println!("streaming");
    let seen = operate(args, &mut engine)?;
    println!("{seen}");
    match (args.expect, seen.fault) {
        (Expected::Survival, None) => {
            engine.fetch_add(Token(0), ADDED, 0)?;
            let sum = complete(&mut engine)?;
            ensure!(sum == seen.added, "the sum is {sum}, not {}", seen.added);
            close(job, engine)
        }
        (Expected::Lost, Some(Fault::OwnerLost(Owner(1)))) | (Expected::Fault, Some(_)) => Ok(()),
        (expected, fault) => bail!("expected {expected:?}, fault {fault:?}"),
    }
}

impl StreamArgs {
    fn is_over(&self) -> bool {
        self.until.as_ref().is_some_and(|file| file.exists())
    }
}

/// Runs rank 1 until it is stopped. A frozen rank 1 may find after its thaw that rank 0 is gone.
fn serve(args: &StreamArgs, engine: &mut Engine) -> Result<()> {
    let start = Instant::now();
    while !args.is_over() {
        ensure!(start.elapsed() < HANG_TIMEOUT, "rank 1 was not stopped");
        sleep(RANK_1_INTERVAL);
        if args.asleep {
            continue;
        }
        match engine.poll(&mut []) {
            Ok(_) => {}
            Err(Fault::OwnerLost(Owner(0))) if args.expect == Expected::Lost => return Ok(()),
            Err(_) if args.expect == Expected::Fault => return Ok(()),
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(())
}

/// Observations of rank 0.
#[derive(Default)]
struct Observations {
    posted: u64,
    completed: u64,
    /// Additions that succeeded.
    added: u64,
    /// Operations that completed in error, whose outcome is unknown.
    unknown: u64,
    first_error: Option<OpError>,
    /// The longest time without a completion.
    max_silence: Duration,
    fault: Option<Fault>,
}

impl core::fmt::Display for Observations {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { posted, unknown, first_error, fault, max_silence, .. } = self;
        write!(
            f,
            "{posted} operations, {unknown} of unknown outcome, first error {first_error:?}, fault \
             {fault:?}, longest silence {} ms",
            max_silence.as_millis()
        )
    }
}

fn operate(args: &StreamArgs, engine: &mut Engine) -> Result<Observations> {
    let mut seen = Observations::default();
    let mut last_completion = Instant::now();
    let mut deadline = Deadline::new("completion");
    let (mut goes_on, mut reported_silences) = (true, 0);
    while seen.fault.is_none() {
        deadline.check()?;
        while goes_on && !args.idle && post(engine, &mut seen)? {}
        let mut completions = [Completion::default(); 8];
        match engine.poll(&mut completions) {
            Ok(0) if !goes_on && engine.in_flight() == 0 => return Ok(seen),
            Ok(0) => {
                let silence = last_completion.elapsed();
                if silence >= SILENCE * (reported_silences + 1) {
                    reported_silences += 1;
                    println!("silent for {} ms", silence.as_millis());
                }
            }
            Ok(polled) => {
                seen.max_silence = seen.max_silence.max(last_completion.elapsed());
                (last_completion, reported_silences) = (Instant::now(), 0);
                deadline.restart();
                let reports = seen.completed / REPORT_INTERVAL;
                completions.iter().take(polled).for_each(|completion| seen.count(completion));
                if seen.completed / REPORT_INTERVAL > reports {
                    println!("{} operations have completed", seen.completed);
                    goes_on = !args.is_over();
                }
            }
            Err(fault) => seen.fault = Some(fault),
        }
    }
    seen.max_silence = seen.max_silence.max(last_completion.elapsed());
    let open = (seen.posted - seen.completed, engine.in_flight());
    ensure!(open == (0, 0), "operations posted and not completed, in flight: {open:?}");
    ensure!(args.idle || seen.first_error.is_some(), "a fault without a failed operation");
    Ok(seen)
}

impl Observations {
    fn count(&mut self, completion: &Completion) {
        self.completed += 1;
        match completion.result {
            Ok(_) => self.added += completion.token.0,
            Err(error) => {
                self.unknown += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }
}

/// Posts a fetch-and-add or a READ in turn; `false` if the engine accepts no more. The token is the
/// number that the operation adds.
fn post(engine: &mut Engine, seen: &mut Observations) -> Result<bool> {
    let posted = if seen.posted.is_multiple_of(2) {
        engine.fetch_add(Token(1), ADDED, 1)
    } else {
        let slot = u32::try_from(seen.posted / 2 % u64::from(DEPTH))?;
        engine.read(Token(0), segment(1, 8, 8), local(slot, 0, 8))
    };
    match posted {
        Ok(()) => {
            seen.posted += 1;
            Ok(true)
        }
        Err(PostError::Full | PostError::Closed) => Ok(false),
        Err(refused) => Err(refused.into()),
    }
}

#[derive(Args)]
pub(crate) struct OpeningArgs {
    /// Open engines in both ranks until rank 1 is killed; otherwise rank 1 joins and opens none
    #[arg(long)]
    repeat: bool,
    #[command(flatten)]
    job: JobArgs,
}

/// The test bed kills rank 1 while engines are opened: rank 0's error names the lost rank.
pub(crate) fn run_opening(args: &OpeningArgs) -> Result<()> {
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
