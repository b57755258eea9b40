//! Latency of one operation at a time, as perftest measures it: from the post to the completion.

use std::time::Instant;

use clap::{Args, ValueEnum};
use transport::{Exchange, Local, Owner, RemoteWord, Segment, Slot, Token, Transport};

use crate::failure::Result;
use crate::job::{JobArgs, finish, part};
use crate::words::words;

#[derive(Args)]
pub(crate) struct LatencyArgs {
    /// What is measured
    operation: Operation,
    /// Bytes of a READ, a multiple of 8
    #[arg(long = "bytes", value_name = "BYTES", default_value = "64", value_parser = words)]
    words: u32,
    /// Operations that count
    #[arg(long, default_value_t = 1000)]
    operations: usize,
    /// Operations before them
    #[arg(long, default_value_t = 100)]
    warm_up: usize,
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Operation {
    Read,
    Cas,
}

pub(crate) fn run(args: &LatencyArgs) -> Result<()> {
    let mut job = args.job.join(format!("{:?} {}", args.operation, args.words))?;
    let words = args.words;
    let mut engine = args.job.builder(1024)?.slots(1, words.next_multiple_of(8)).open(&mut job)?;
    job.barrier()?;
    if job.me() == Owner(0) {
        let start = RemoteWord { owner: Owner(1), index: 0 };
        let into = Local { slot: Slot(0), start: 0, words };
        let mut times = Vec::with_capacity(args.operations);
        for turn in 0..args.warm_up + args.operations {
            let begin = Instant::now();
            match args.operation {
                Operation::Read => engine.read(Token(0), Segment { start, words }, into)?,
                Operation::Cas => engine.compare_and_swap(Token(0), start, 0, 0)?,
            }
            finish(&mut engine)?;
            if turn >= args.warm_up {
                times.push(begin.elapsed().as_nanos());
            }
        }
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(0);
        println!("median_ns {}", at(50));
        println!("p99_ns {}", at(99));
    }
    part(job, engine)
}
