//! READs a second with several in flight, as perftest's ib_read_bw posts them.

use std::time::Instant;

use clap::Args;
use probeline_transport::{
    Completion, Exchange, Local, Owner, RemoteWord, Segment, Slot, Token, Transport,
};

use crate::failure::Result;
use crate::job::{JobArgs, part};
use crate::patience::Patience;
use crate::words::words;

#[derive(Args)]
pub(crate) struct RateArgs {
    /// Bytes of a READ, a multiple of 8
    #[arg(long = "bytes", value_name = "BYTES", default_value = "64", value_parser = words)]
    words: u32,
    /// READs in flight
    #[arg(long, default_value_t = 16)]
    depth: u32,
    /// READs that count
    #[arg(long, default_value_t = 5000)]
    operations: u64,
    #[command(flatten)]
    job: JobArgs,
}

pub(crate) fn run(args: &RateArgs) -> Result<()> {
    let mut job = args.job.join(format!("{} {}", args.words, args.depth))?;
    let words = args.words;
    let slot_words = words.next_multiple_of(8);
    let builder = args.job.builder(4096)?.slots(args.depth, slot_words).depth(args.depth);
    let mut engine = builder.open(&mut job)?;
    job.barrier()?;
    if job.me() == Owner(0) {
        let warm_up = args.operations / 10;
        read(&mut engine, words, args.depth, warm_up)?;
        let begin = Instant::now();
        read(&mut engine, words, args.depth, args.operations)?;
        #[allow(clippy::cast_precision_loss)]
        let rate = args.operations as f64 / begin.elapsed().as_secs_f64();
        println!("reads_per_s {rate:.1}");
    }
    part(job, engine)
}

/// So many READs, as many in flight as the depth allows.
fn read<T: Transport>(engine: &mut T, words: u32, depth: u32, count: u64) -> Result<()> {
    let start = RemoteWord { owner: Owner(1), index: 0 };
    let post = |engine: &mut T, slot| {
        let into = Local { slot: Slot(slot), start: 0, words };
        engine.read(Token(slot.into()), Segment { start, words }, into)
    };
    let (mut posted, mut ended) = (0, 0);
    while posted < count.min(depth.into()) {
        post(engine, u32::try_from(posted)?)?;
        posted += 1;
    }
    let (mut ends, mut patience) = ([Completion::default(); 16], Patience::new("completion"));
    while ended < count {
        let found = engine.poll(&mut ends)?;
        if found == 0 {
            patience.turn()?;
            continue;
        }
        patience.renew();
        for end in ends.iter().take(found) {
            end.result?;
            ended += 1;
            if posted < count {
                post(engine, u32::try_from(end.token.0)?)?;
                posted += 1;
            }
        }
    }
    Ok(())
}
