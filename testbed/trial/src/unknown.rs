//! Operations that completed in error and took effect afterwards, when their peer's machine went
//! on: their outcome was unknown, and repeating them is safe.
//!
//! In each round whoever runs this freezes rank 1's machine when rank 0 says that it is ready, and
//! says so by a file. Only then rank 0's claims and additions are sent. When all have failed the
//! machine is thawed: what took effect did so after it had failed. Both ranks then open engines
//! anew over the windows they had, and rank 0 repeats what had failed.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use clap::Args;
use probeline_exchange::Job;
use probeline_table::{
    Bucket, Config, Finished, Intent, Operation, OperationError, Outcome, Table,
};
use probeline_transport::{Completion, Exchange, OpError, Owner, RemoteWord, Token, Transport};
use probeline_verbs::{Context, Engine, OpenError};

use crate::failure::{Failure, Result, ensure};
use crate::job::{JobArgs, finish, part};
use crate::operation::one;
use crate::patience::{PATIENCE, Patience};

#[derive(Args)]
pub(crate) struct UnknownArgs {
    /// How often rank 1's machine is frozen
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// The folder in which the file `frozen-ROUND` says that rank 1's machine stands still
    #[arg(long)]
    told_in: PathBuf,
    #[command(flatten)]
    job: JobArgs,
}

/// Buckets of each owner: so many that nearly every datum has its home bucket to itself.
const BUCKETS: u64 = 4096;
/// Of each round, the data put and the additions made before the freeze.
const KNOWN: u64 = 20;
/// Of each round, the claims and the additions that are to be sent to a machine that stands still,
/// and fail. A claim whose READs have landed by themselves is sent too early, and succeeds.
const UNKNOWN: usize = 6;
/// Until the READs of claims have landed, and until what was on its way to a thawed machine
/// has taken effect.
const SETTLED: Duration = Duration::from_millis(300);
/// The word that is counted up.
const COUNTED: RemoteWord = RemoteWord { owner: Owner(1), index: 0 };

type Memory = &'static [AtomicU64];
type Given = core::result::Result<Box<dyn probeline_verbs::Memory + Send>, OpenError>;

/// What outlives the engines: their windows, and what rank 0 knows of them.
struct Kept {
    config: Config,
    windows: [Memory; 2],
    /// All data that were put, and of the present round those of unknown outcome.
    data: Vec<u64>,
    unknown: Vec<u64>,
    /// What the counted word is at least.
    sum: u64,
    late_claims: usize,
    late_additions: u64,
}

/// The engines of one round.
struct Pair {
    table: Table<Engine, [Operation; UNKNOWN]>,
    adder: Engine,
}

pub(crate) fn run(args: &UnknownArgs) -> Result<()> {
    let mut job = args.job.join(format!("unknown {}", args.rounds))?;
    let first = job.me() == Owner(0);
    let mut kept = Kept::new();
    let mut pair = kept.open(args, &mut job)?;
    for round in 1..=args.rounds {
        if first {
            kept.until_unknown(args, &mut pair, round)?;
        }
        // Rank 1 is back when it answers here.
        job.barrier()?;
        sleep(SETTLED);
        drop(pair);
        pair = kept.open(args, &mut job)?;
        if first {
            kept.repeat(&mut pair, round)?;
        }
        let (len, expected) = (pair.table.len(&mut job)?, kept.data.len() as u64);
        ensure(!first || len == expected, || format!("{len} in the table for {expected}"))?;
    }
    if first {
        let late = (kept.late_claims, kept.late_additions);
        ensure(late.0 > 0 && late.1 > 0, || format!("nothing took effect late: {late:?}"))?;
        println!("{} data, each there once", kept.data.len());
    }
    job.barrier()?;
    drop(pair.adder);
    part(job, pair.table.into_transport())
}

impl UnknownArgs {
    /// Waits until rank 1's machine stands still.
    fn await_frozen(&self, round: u32) -> Result<()> {
        println!("ready for round {round}");
        stdout().flush()?;
        let (file, begin) = (self.told_in.join(format!("frozen-{round}")), Instant::now());
        while !file.exists() {
            ensure(begin.elapsed() < PATIENCE, || format!("no {}", file.display()))?;
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Kept {
    fn new() -> Self {
        // The paper's: its claims go out only when their READs are polled for.
        let config = Config { chunk_buckets: 8, ..Config::paper(BUCKETS) };
        // With room for the control words in front.
        let window = || (0..config.words() + 1024).map(|_| AtomicU64::new(0)).collect();
        Self {
            config,
            windows: [Vec::leak(window()), Vec::leak(window())],
            data: Vec::new(),
            unknown: Vec::new(),
            sum: 0,
            late_claims: 0,
            late_additions: 0,
        }
    }

    /// Engines over what the windows hold: the table goes on with what is there.
    fn open(&self, args: &UnknownArgs, job: &mut Job) -> Result<Pair> {
        let [table, adder] = self.windows;
        let builder = args.job.builder(self.config.words())?;
        let builder = builder.slots(Config::slots(u32::try_from(UNKNOWN)?), 8);
        let engine = builder.open_in(job, memory(table))?;
        let table = Table::open(engine, self.config, [Operation::EMPTY; UNKNOWN], job)?;
        let adder = builder.open_in(job, memory(adder))?;
        job.barrier()?;
        Ok(Pair { table, adder })
    }

    /// Puts and adds until operations have failed.
    fn until_unknown(&mut self, args: &UnknownArgs, pair: &mut Pair, round: u32) -> Result<()> {
        for _ in 0..KNOWN {
            let datum = self.next(pair)?;
            let outcome = one(&mut pair.table, datum, Intent::FindOrPut)?;
            ensure(outcome == Outcome::Inserted, || format!("{datum}: {outcome:?}"))?;
            pair.adder.fetch_add(Token(0), COUNTED, 1)?;
            finish(&mut pair.adder)?;
        }
        self.sum += KNOWN;
        for _ in 0..UNKNOWN {
            let datum = self.next(pair)?;
            pair.table.submit(datum, datum, Intent::FindOrPut)?;
        }
        pair.bring_up_to_claims()?;
        args.await_frozen(round)?;
        for _ in 0..UNKNOWN {
            pair.adder.fetch_add(Token(0), COUNTED, 1)?;
        }
        pair.adder.kick();
        self.unknown = pair.fail_claims()?;
        let cause = pair.fail_additions()?;
        println!(
            "round {round}, {} claims and {UNKNOWN} additions of unknown outcome: {cause}",
            self.unknown.len()
        );
        Ok(stdout().flush()?)
    }

    /// A new datum whose home is rank 1's.
    fn next(&mut self, pair: &Pair) -> Result<u64> {
        let mut datum = self.data.last().map_or(1, |last| last + 1);
        while pair.table.layout().home(Bucket::new(datum)?).owner != 1 {
            datum += 1;
        }
        self.data.push(datum);
        Ok(datum)
    }

    /// Puts again what had failed. It is there for good now, and once.
    fn repeat(&mut self, pair: &mut Pair, round: u32) -> Result<()> {
        for &datum in self.data.iter().filter(|datum| !self.unknown.contains(datum)) {
            let outcome = one(&mut pair.table, datum, Intent::Find)?;
            ensure(outcome == Outcome::Found, || format!("{datum} is lost"))?;
        }
        let mut claims = 0;
        for &datum in &self.unknown {
            match one(&mut pair.table, datum, Intent::FindOrPut)? {
                Outcome::Found => claims += 1,
                Outcome::Inserted => {}
                outcome => return Err(Failure(format!("{datum}: {outcome:?}"))),
            }
            let again = one(&mut pair.table, datum, Intent::FindOrPut)?;
            ensure(again == Outcome::Found, || format!("{datum} is not found"))?;
        }
        pair.adder.fetch_add(Token(0), COUNTED, 0)?;
        let (sum, known) = (finish(&mut pair.adder)?, self.sum);
        let most = known + UNKNOWN as u64;
        ensure((known..=most).contains(&sum), || format!("{sum} is not in {known} to {most}"))?;
        println!(
            "round {round}: {claims} of {} claims took effect after they had failed; the sum is \
             {sum}, {known} additions were known to have taken effect and {most} made",
            self.unknown.len()
        );
        self.late_claims += claims;
        self.late_additions += sum - known;
        self.sum = sum;
        Ok(())
    }
}

/// Gives the window this memory.
fn memory(window: Memory) -> impl FnOnce(&Context, usize) -> Given {
    move |_, _| Ok(Box::new(window))
}

impl Pair {
    /// Polls until READs have brought something: the claims that follow from it are sent by the
    /// next poll only.
    fn bring_up_to_claims(&mut self) -> Result<()> {
        let (begin, posted) = (Instant::now(), self.table.engine().in_flight());
        while self.table.engine().in_flight() == posted {
            ensure(begin.elapsed() < PATIENCE, || "it hangs: no READ has ended".into())?;
            self.table.poll(&mut [])?;
            sleep(SETTLED);
        }
        Ok(())
    }

    /// Waits until all claims have ended; the data of those that failed, at least one.
    fn fail_claims(&mut self) -> Result<Vec<u64>> {
        let (mut ends, mut patience) = ([Finished::default(); UNKNOWN], Patience::new("failure"));
        let (mut ended, mut failed) = (0, Vec::new());
        while ended < UNKNOWN {
            patience.turn()?;
            let found = self.table.poll(&mut ends)?;
            ended += found;
            for end in ends.iter().take(found) {
                match end.result {
                    Ok(Outcome::Inserted) => {}
                    Err(OperationError::Failed(_)) => failed.push(end.tag),
                    result => return Err(Failure(format!("a claim ended with {result:?}"))),
                }
            }
        }
        ensure(!failed.is_empty(), || "no claim failed".into())?;
        Ok(failed)
    }

    /// Waits until all additions have failed, and says of the first why.
    fn fail_additions(&mut self) -> Result<OpError> {
        let (mut ends, mut patience) = ([Completion::default(); UNKNOWN], Patience::new("failure"));
        let mut causes = Vec::new();
        while causes.len() < UNKNOWN {
            patience.turn()?;
            let found = self.adder.poll(&mut ends)?;
            causes.extend(ends.iter().take(found).filter_map(|end| end.result.err()));
            let good = ends.iter().take(found).any(|end| end.result.is_ok());
            ensure(!good, || "an addition succeeded while rank 1 stood still".into())?;
        }
        causes.first().copied().ok_or_else(|| Failure("no addition".into()))
    }
}
