//! Rank 0 works on rank 1's window without a break, while something happens to rank 1, its machine
//! or the network. What rank 0 sees must be what was expected, in time.

use core::time::Duration;
use std::io::{Write, stdout};
use std::time::Instant;

use clap::{Args, ValueEnum};
use transport::{
    Completion, Exchange, Fault, Local, OpError, Owner, PostError, RemoteWord, Segment, Slot,
    Token, Transport,
};
use verbs::Engine;

use crate::failure::{Failure, Result, ensure};
use crate::job::{JobArgs, finish, part};
use crate::patience::Patience;

#[derive(Args)]
pub(crate) struct StreamArgs {
    /// What is to become of it
    #[arg(long, value_enum)]
    expect: Expected,
    /// How long it goes on if nothing happens
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// The bound on what rank 0 may be without an answer, in milliseconds
    #[arg(long, required_unless_present = "idle")]
    within_ms: Option<u64>,
    /// Nothing is under way when it happens: rank 0 polls only, and how long it takes to see what
    /// has happened is for whoever made it happen to say
    #[arg(long, conflicts_with = "within_ms")]
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
    /// All goes on, the slowest operation within the bound
    Survival,
}

/// Operations in flight.
const DEPTH: u32 = 8;
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
    let seen = if args.idle { idle(args, &mut engine)? } else { work(args, &mut engine)? };
    println!("{seen}");
    match (args.expect, seen.fault) {
        (Expected::Survival, None) => {
            args.in_time(&seen)?;
            engine.fetch_add(Token(0), COUNTED, 0)?;
            let sum = finish(&mut engine)?;
            ensure(sum == seen.added, || format!("the sum is {sum} for {}", seen.added))?;
            part(job, engine)
        }
        (Expected::Lost, Some(Fault::OwnerLost(Owner(1)))) | (Expected::Fault, Some(_)) => {
            args.in_time(&seen)
        }
        (expected, fault) => Err(Failure(format!("expected {expected:?}, fault {fault:?}"))),
    }
}

impl StreamArgs {
    /// No silence was longer than allowed.
    fn in_time(&self, seen: &Seen) -> Result<()> {
        let within = self.within_ms.map_or(Duration::MAX, Duration::from_millis);
        ensure(seen.longest <= within, || format!("longer than {within:?}"))
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
    // Longer than rank 0 works, which ends this by leaving or by a barrier.
    let rest = Duration::from_secs(args.seconds);
    while begin.elapsed() < rest {
        std::thread::sleep(Duration::from_millis(50));
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
    let begin = Instant::now();
    let mut sign_of_life = begin;
    let mut patience = Patience::new("completion");
    while seen.fault.is_none() {
        let goes_on = begin.elapsed() < Duration::from_secs(args.seconds);
        patience.turn()?;
        while goes_on && post(engine, &mut seen)? {}
        let mut ends = [Completion::default(); 8];
        match engine.poll(&mut ends) {
            Ok(0) if !goes_on && engine.in_flight() == 0 => return Ok(seen),
            Ok(0) => continue,
            Ok(found) => {
                seen.longest = seen.longest.max(sign_of_life.elapsed());
                sign_of_life = Instant::now();
                patience.renew();
                ends.iter().take(found).for_each(|end| seen.take(end));
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
fn idle(args: &StreamArgs, engine: &mut Engine) -> Result<Seen> {
    let mut seen = Seen::default();
    let begin = Instant::now();
    while seen.fault.is_none() && begin.elapsed() < Duration::from_secs(args.seconds) {
        seen.fault = engine.poll(&mut []).err();
    }
    Ok(seen)
}
