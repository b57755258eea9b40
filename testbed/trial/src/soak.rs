//! All ranks put the same data at once. Every datum must be inserted by exactly one of them, and be
//! in the table once.

use clap::Args;
use probeline_exchange::Job;
use probeline_table::{Config, Finished, Intent, Operation, Outcome, SubmitError, Table};
use probeline_transport::{Exchange, Owner};
use probeline_verbs::Engine;

use crate::failure::{Failure, Result, ensure};
use crate::job::{JobArgs, part};
use crate::operation::one;
use crate::patience::Patience;

#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Data to put
    #[arg(long, default_value_t = 4000)]
    data: u64,
    /// C, buckets in a chunk
    #[arg(short = 'C', long, default_value_t = 32)]
    chunk_buckets: u32,
    /// Operations of each rank in flight
    #[arg(long, default_value_t = 8)]
    operations: u32,
    /// All ranks go in the same order, one datum at a time, so that they meet on every bucket
    #[arg(long)]
    in_step: bool,
    /// State to the table that READs bring words whole, which switches its protection off
    #[arg(long)]
    trust_words: bool,
    /// Ends well only if something went wrong
    #[arg(long)]
    expect_wrong: bool,
    #[command(flatten)]
    job: JobArgs,
}

type Soaked = Table<Engine, Vec<Operation>>;

pub(crate) fn run(args: &SoakArgs) -> Result<()> {
    let parameters = format!("{} {} {}", args.data, args.chunk_buckets, args.operations);
    let mut job = args.job.join(parameters)?;
    let buckets = (args.data * 2 / u64::from(args.job.ranks)).next_multiple_of(8).max(1024);
    let config = Config { chunk_buckets: args.chunk_buckets, ..Config::new(buckets) };
    let engine = args
        .job
        .builder(config.words())?
        .slots(Config::slots(args.operations), args.chunk_buckets)
        .word_reads_whole(args.trust_words)
        .open(&mut job)?;
    let operations = vec![Operation::EMPTY; args.operations as usize];
    let mut table = Table::open(engine, config, operations, &mut job)?;
    job.barrier()?;
    let inserted = if args.in_step {
        in_step(&mut table, args.data)?
    } else {
        spread(&mut table, &job, args)?
    };
    job.barrier()?;
    let wrong = judge(&mut table, &mut job, &inserted)?;
    if job.me() == Owner(0) {
        println!("{} data, {wrong} wrong; {:?}", args.data, table.stats());
    }
    part(job, table.into_transport())?;
    ensure((wrong > 0) == args.expect_wrong, || format!("{wrong} wrong"))
}

/// Different for every number, with bytes of all values, as the table's users have them.
fn datum(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1
}

/// Which data this rank has inserted.
fn in_step(table: &mut Soaked, data: u64) -> Result<Vec<u8>> {
    (0..data).map(|number| counted(one(table, datum(number), Intent::FindOrPut)?)).collect()
}

/// As [`in_step`], many operations in flight, each rank starting elsewhere.
fn spread(table: &mut Soaked, job: &Job, args: &SoakArgs) -> Result<Vec<u8>> {
    let mut inserted = vec![0; usize::try_from(args.data)?];
    let first = args.data * u64::from(job.me().0) / u64::from(job.owners()) / 2;
    let mut waiting = (0..args.data).map(|number| (first + number) % args.data).peekable();
    let (mut under_way, mut ends) = (0, [Finished::default(); 16]);
    let mut patience = Patience::new("end of an operation");
    while waiting.peek().is_some() || under_way > 0 {
        while let Some(&number) = waiting.peek() {
            match table.submit(number, datum(number), Intent::FindOrPut) {
                Ok(()) => under_way += 1,
                // Also where one has ended whose READ ahead of need is still to land.
                Err(SubmitError::Busy) => break,
                Err(error) => return Err(error.into()),
            }
            waiting.next();
        }
        let found = table.poll(&mut ends)?;
        if found == 0 {
            patience.turn()?;
            continue;
        }
        patience.renew();
        for end in ends.iter().take(found) {
            let place = inserted.get_mut(usize::try_from(end.tag)?);
            *place.ok_or_else(|| Failure(format!("tag {}", end.tag)))? += counted(end.result?)?;
            under_way -= 1;
        }
    }
    Ok(inserted)
}

fn counted(outcome: Outcome) -> Result<u8> {
    match outcome {
        Outcome::Inserted => Ok(1),
        Outcome::Found => Ok(0),
        outcome => Err(Failure(format!("{outcome:?}"))),
    }
}

/// How many data were not inserted exactly once, are not found, or lie in the table too often.
fn judge(table: &mut Soaked, job: &mut Job, inserted: &[u8]) -> Result<usize> {
    let mut all = vec![0; inserted.len() * job.owners() as usize];
    job.all_gather(inserted, &mut all)?;
    let by = |datum: usize| all.iter().skip(datum).step_by(inserted.len()).sum::<u8>();
    let not_once = (0..inserted.len()).filter(|&datum| by(datum) != 1).count();
    let mut lost = 0;
    for number in 0..inserted.len() as u64 {
        lost += usize::from(one(table, datum(number), Intent::Find)? != Outcome::Found);
    }
    let held = table.len(job)?;
    let surplus = held.abs_diff(inserted.len() as u64);
    println!("not inserted once {not_once}, not found {lost}, surplus {surplus}");
    Ok(not_once + lost + usize::try_from(surplus)?)
}
