//! Rank 0 works on rank 1's window without a break, while something happens to rank 1, its machine
//! or the network. What rank 0 sees must be what was expected. It reports how far it is, so that
//! whoever runs this waits for events and not for a time.

use core::time::Duration;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use clap::{Args, ValueEnum};
use probeline_transport::{
    Completion, Exchange, Fault, Local, OpError, Owner, PostError, RemoteWord, Segment, Slot,
    Token, Transport,
};
use probeline_verbs::Engine;

use crate::failure::{Failure, Result, ensure};
use crate::job::{JobArgs, finish, part};
use crate::patience::{PATIENCE, Patience};

#[derive(Args)]
pub(crate) struct StreamArgs {
    /// What is to become of it
    #[arg(long, value_enum)]
    expect: Expected,
    /// The file that ends it once it is there
    #[arg(long, value_name = "FILE", required_if_eq("expect", "survival"))]
    until: Option<PathBuf>,
    /// Nothing is under way when it happens: rank 0 polls only
    #[arg(long)]
    idle: bool,
    /// Rank 1 takes no part, not even by polling, as no owner needs to
    #[arg(long)]
    asleep: bool,
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Expected {
    /// Rank 1 is lost
    Lost,
    /// The engine of rank 0 is dead, whatever it says of the reason
    Fault,
    /// All goes on
    Survival,
}

/// Operations in flight.
const DEPTH: u32 = 8;
/// Operations between two reports of rank 0, each of which looks for the file that ends it.
const REPORTED: u64 = 1000;
/// A silence is reported each time that it has lasted so long.
const SILENCE: Duration = Duration::from_millis(400);
/// How often rank 1 looks for the file that ends it.
const LOOK: Duration = Duration::from_millis(50);
/// The word that is counted up, and the first of those that are read.
const COUNTED: RemoteWord = RemoteWord { owner: Owner(1), index: 0 };
const READ: RemoteWord = RemoteWord { owner: Owner(1), index: 8 };

pub(crate) fn run(args: &StreamArgs) -> Result<()> {
    let mut job = args.job.join("stream".into())?;
    let builder = args.job.builder(64)?.slots(DEPTH, 8).depth(DEPTH);
    let mut engine = builder.open(&mut job)?;
    job.barrier()?;
    if job.me() == Owner(1) {
        endure(args, &mut engine)?;
        return if args.expect == Expected::Survival { part(job, engine) } else { Ok(()) };
    }
    println!("{}", engine.link());
    say("streaming");
    let seen = if args.idle { idle(&mut engine)? } else { work(args, &mut engine)? };
    println!("{seen}");
    match (args.expect, seen.fault) {
        (Expected::Survival, None) => {
            engine.fetch_add(Token(0), COUNTED, 0)?;
            let sum = finish(&mut engine)?;
            ensure(sum == seen.added, || format!("the sum is {sum} for {}", seen.added))?;
            part(job, engine)
        }
        (Expected::Lost, Some(Fault::OwnerLost(Owner(1)))) | (Expected::Fault, Some(_)) => Ok(()),
        (expected, fault) => Err(Failure(format!("expected {expected:?}, fault {fault:?}"))),
    }
}

impl StreamArgs {
    fn is_over(&self) -> bool {
        self.until.as_ref().is_some_and(|file| file.exists())
    }
}

/// A line that whoever waits for it sees at once.
fn say(line: &str) {
    println!("{line}");
    // A lost reader is no reason to stop.
    let _ = stdout().flush();
}

/// Rank 1 until it is ended: at rest, or polling. It may be thawed when all is over.
fn endure(args: &StreamArgs, engine: &mut Engine) -> Result<()> {
    let begin = Instant::now();
    while !args.is_over() {
        ensure(begin.elapsed() < PATIENCE, || "nobody has ended it".into())?;
        sleep(LOOK);
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

/// What rank 0 has seen.
#[derive(Default)]
struct Seen {
    accepted: u64,
    ended: u64,
    /// Additions that succeeded.
    added: u64,
    unknown: u64,
    first_error: Option<OpError>,
    /// The longest time between two signs of life; zero where none was to come.
    longest: Duration,
    fault: Option<Fault>,
}

impl core::fmt::Display for Seen {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} operations, {} of unknown outcome, first error {:?}, fault {:?}, longest silence \
             {} ms",
            self.accepted,
            self.unknown,
            self.first_error,
            self.fault,
            self.longest.as_millis()
        )
    }
}

fn work(args: &StreamArgs, engine: &mut Engine) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut sign_of_life = Instant::now();
    let mut patience = Patience::new("completion");
    let (mut goes_on, mut silences) = (true, 0);
    while seen.fault.is_none() {
        patience.turn()?;
        while goes_on && post(engine, &mut seen)? {}
        let mut ends = [Completion::default(); 8];
        match engine.poll(&mut ends) {
            Ok(0) if !goes_on && engine.in_flight() == 0 => return Ok(seen),
            Ok(0) => {
                let silence = sign_of_life.elapsed();
                if silence >= SILENCE * (silences + 1) {
                    silences += 1;
                    say(&format!("silent for {} ms", silence.as_millis()));
                }
            }
            Ok(found) => {
                seen.longest = seen.longest.max(sign_of_life.elapsed());
                (sign_of_life, silences) = (Instant::now(), 0);
                patience.renew();
                let reported = seen.ended / REPORTED;
                ends.iter().take(found).for_each(|end| seen.take(end));
                if seen.ended / REPORTED > reported {
                    say(&format!("{} operations have ended", seen.ended));
                    goes_on = !args.is_over();
                }
            }
            Err(fault) => seen.fault = Some(fault),
        }
    }
    seen.longest = seen.longest.max(sign_of_life.elapsed());
    let open = (seen.accepted - seen.ended, engine.in_flight());
    ensure(open == (0, 0), || format!("accepted and not reported: {open:?}"))?;
    ensure(seen.first_error.is_some(), || "a fault without a failed operation".into())?;
    Ok(seen)
}

impl Seen {
    fn take(&mut self, end: &Completion) {
        self.ended += 1;
        match end.result {
            Ok(_) => self.added += end.token.0,
            Err(error) => {
                self.unknown += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }
}

/// Additions and READs by turns, the token saying what is added; `false` when no more is taken.
fn post(engine: &mut Engine, seen: &mut Seen) -> Result<bool> {
    let posted = if seen.accepted.is_multiple_of(2) {
        engine.fetch_add(Token(1), COUNTED, 1)
    } else {
        let slot = Slot(u32::try_from(seen.accepted / 2 % u64::from(DEPTH))?);
        let into = Local { slot, start: 0, words: 8 };
        engine.read(Token(0), Segment { start: READ, words: 8 }, into)
    };
    match posted {
        Ok(()) => {
            seen.accepted += 1;
            Ok(true)
        }
        Err(PostError::Full | PostError::Closed) => Ok(false),
        Err(refused) => Err(refused.into()),
    }
}

/// Nothing is posted: the engine itself asks after its owners.
fn idle(engine: &mut Engine) -> Result<Seen> {
    let (mut seen, begin) = (Seen::default(), Instant::now());
    while seen.fault.is_none() {
        ensure(begin.elapsed() < PATIENCE, || "nothing has happened".into())?;
        seen.fault = engine.poll(&mut []).err();
    }
    Ok(seen)
}
