//! Measures a region beside the one-sided operations that it posts, on two ranks over shared memory.
//!
//! `cargo run --release -p probeline-dsm --example costs`

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use probeline_dsm::{Config, Operation, Region};
use probeline_exchange::{Job, Options, Start, join};
use probeline_shm::{Builder, Engine};
use probeline_transport::{
    Completion, Exchange, Owner, RemoteWord, Request, Segment, Slot, SlotRange, Token, Transport,
};

const OPERATIONS: usize = 32;
const PAGE_WORDS: u32 = 512;
const PAGES: usize = 256;
/// Words of a page that a release sends.
const CHANGED: u32 = 16;
/// Measurements by turns, of which the median counts.
const TURNS: usize = 51;

type Rank = Region<u64, Engine, [Operation; OPERATIONS], Vec<u64>>;
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let start = Start::Spawn { ranks: 2, arguments: None };
    let mut job = join(Options { start, ..Options::default() })?;
    if job.me() == Owner(0) {
        println!("{:48} {:>10} {:>10} {:>6}", "", "region", "bare", "ratio");
    }
    fetches(&mut job)?;
    for pages in [1, 16, PAGES] {
        releases(&mut job, pages)?;
    }
    whole_pages(&mut job, false)?;
    whole_pages(&mut job, true)?;
    locks(&mut job)?;
    handovers(&mut job)?;
    barriers(&mut job)?;
    Ok(job.finish(Duration::from_secs(60))?)
}

/// Ranks that measure.
#[derive(PartialEq)]
enum Ranks {
    /// Rank 1 only has memory.
    First,
    Both,
}

/// Measures both by turns, and prints the medians.
fn compare(
    job: &mut Job,
    (what, ranks): (&str, Ranks),
    mut region: impl FnMut(&mut Job) -> Outcome<Duration>,
    mut bare: impl FnMut(&mut Job) -> Outcome<Duration>,
) -> Outcome<()> {
    let mut times = [Vec::new(), Vec::new()];
    if ranks == Ranks::Both || job.me() == Owner(0) {
        for _ in 0..TURNS {
            times[0].push(region(job)?);
            times[1].push(bare(job)?);
        }
    }
    job.barrier()?;
    if job.me() == Owner(0) {
        times.iter_mut().for_each(|times| times.sort_unstable());
        let [region, bare] = times.map(|times| times[TURNS / 2]);
        let ratio = region.as_secs_f64() / bare.as_secs_f64();
        println!("{what:48} {region:>10.2?} {bare:>10.2?} {ratio:>6.2}");
    }
    Ok(())
}

/// Returns the time of each of `count` runs, which get their numbers.
fn time(count: usize, run: impl FnMut(usize) -> Outcome<()>) -> Outcome<Duration> {
    let begun = Instant::now();
    (0..count).try_for_each(run)?;
    Ok(begun.elapsed() / count as u32)
}

/// Opens a region, and an engine of the same sizes without one.
fn open(job: &mut Job, config: Config) -> Outcome<(Rank, Engine)> {
    let sizes = config.sizes::<u64>(2, OPERATIONS as u32);
    let engine = Builder::new(sizes).open(job)?;
    let memory = vec![0; config.memory_words::<u64>(2)];
    let region = Region::open(engine, config, [Operation::EMPTY; OPERATIONS], memory, job)?;
    Ok((region, Builder::new(sizes).open(job)?))
}

const fn config(pages: usize) -> Config {
    Config { page_words: PAGE_WORDS, ..Config::new((2 * pages * PAGE_WORDS as usize) as u64) }
}

/// Runs requests, as many in flight as there are slots.
fn run(bare: &mut Engine, requests: impl IntoIterator<Item = Request>) -> Outcome<()> {
    let mut out = [Completion { token: Token(0), result: Ok(0) }; OPERATIONS];
    let (mut in_flight, mut requests) = (0, requests.into_iter().peekable());
    while in_flight > 0 || requests.peek().is_some() {
        while in_flight < OPERATIONS
            && let Some(request) = requests.next()
        {
            bare.post(Token(0), request)?;
            in_flight += 1;
        }
        in_flight -= bare.poll(&mut out)?;
    }
    Ok(())
}

/// Words of a page of rank 1, and those of a slot.
fn words(page: usize, words: u32) -> (Segment, SlotRange) {
    let index = page as u64 * u64::from(PAGE_WORDS);
    let at = Segment { start: RemoteWord { owner: Owner(1), index }, words };
    (at, SlotRange { slot: Slot((page % OPERATIONS) as u32), start: 0, words })
}

fn fetches(job: &mut Job) -> Outcome<()> {
    // A view displaces the page of the one before.
    let (mut region, mut bare) = open(job, Config { mirror_pages: 1, ..config(PAGES) })?;
    let view = |nth| {
        let first = (PAGES + nth) * PAGE_WORDS as usize;
        core::hint::black_box(region.view(first..first + 1)?);
        Ok(())
    };
    let read = |nth| {
        let (from, into) = words(nth, PAGE_WORDS);
        run(&mut bare, [Request::Read { from, into }])
    };
    compare_runs(job, "fetch of a page of 4 KiB, by one READ", PAGES, view, read)
}

/// Compares the times of each of `count` runs on rank 0.
fn compare_runs(
    job: &mut Job,
    what: &str,
    count: usize,
    mut region: impl FnMut(usize) -> Outcome<()>,
    mut bare: impl FnMut(usize) -> Outcome<()>,
) -> Outcome<()> {
    let what = (what, Ranks::First);
    compare(job, what, |_| time(count, &mut region), |_| time(count, &mut bare))
}

fn releases(job: &mut Job, pages: usize) -> Outcome<()> {
    let (mut region, mut bare) = open(job, config(PAGES))?;
    let mut value = 0;
    let release = |_: &mut Job| {
        value += 1;
        for nth in 0..pages {
            let first = (PAGES + nth) * PAGE_WORDS as usize;
            region.edit(first..first + CHANGED as usize)?.fill(value);
        }
        // Without the edits.
        time(1, |_| flush(&mut region))
    };
    let write = |nth| {
        let (to, from) = words(nth, CHANGED);
        Request::Write { from, to }
    };
    let writes = |_: &mut Job| time(1, |_| run(&mut bare, (0..pages).map(write)));
    let what = format!("release of {pages} pages, {CHANGED} words each, by WRITEs");
    compare(job, (&what, Ranks::First), release, writes)
}

fn flush(region: &mut Rank) -> Outcome<()> {
    region.start_barrier()?;
    while !region.poll()? {}
    Ok(())
}

/// Whole pages, whose home is this rank, beside a copy of as many bytes.
/// With `compares`, no word of a page differs from its twin.
fn whole_pages(job: &mut Job, compares: bool) -> Outcome<()> {
    const SENT: u32 = 16;
    let (mut region, _) = open(job, Config { compares, ..config(PAGES) })?;
    let end = (SENT * PAGE_WORDS) as usize;
    let (from, mut to) = (vec![1_u64; end], vec![0; end]);
    let edit = |_: &mut Job| {
        let edit = |_| {
            region.edit(0..end)?;
            flush(&mut region)
        };
        Ok(time(1, edit)? / SENT)
    };
    let copy = |_: &mut Job| {
        let copy = |_| {
            core::hint::black_box(&mut to).copy_from_slice(core::hint::black_box(&from));
            Ok(())
        };
        Ok(time(1, copy)? / SENT)
    };
    let what = if compares { "twin and comparison of" } else { "edit and release of" };
    compare(job, (&format!("{what} a page, by a copy"), Ranks::First), edit, copy)
}

fn acquire_and_release(region: &mut Rank) -> Outcome<()> {
    region.acquire(1)?;
    Ok(region.release(1)?)
}

fn two_atomics(bare: &mut Engine) -> Outcome<()> {
    let add = Request::FetchAdd { at: words(0, 1).0.start, addend: 1 };
    run(bare, [add])?;
    run(bare, [add])
}

fn locks(job: &mut Job) -> Outcome<()> {
    let (mut region, mut bare) = open(job, config(1))?;
    let (locked, atomics) = (|_| acquire_and_release(&mut region), |_| two_atomics(&mut bare));
    compare_runs(job, "acquire and release, by two fetch-and-adds", 1_000, locked, atomics)
}

/// A lock that both ranks want all the time, beside a word that both add to twice.
fn handovers(job: &mut Job) -> Outcome<()> {
    const COUNT: usize = 10_000;
    let (mut region, mut bare) = open(job, config(1))?;
    let locked = |job: &mut Job| {
        job.barrier()?;
        Ok(time(COUNT, |_| acquire_and_release(&mut region))? / 2)
    };
    let atomics = |job: &mut Job| {
        job.barrier()?;
        time(COUNT, |_| two_atomics(&mut bare))
    };
    let what = "lock passed to a rank that waits, by two atomics";
    compare(job, (what, Ranks::Both), locked, atomics)
}

fn barriers(job: &mut Job) -> Outcome<()> {
    const COUNT: usize = 300;
    let (mut region, _) = open(job, config(1))?;
    let ours = |job: &mut Job| time(COUNT, |_| Ok(region.barrier(job)?));
    let theirs = |job: &mut Job| time(COUNT, |_| Ok(job.barrier()?));
    compare(job, ("barrier, by that of the exchange", Ranks::Both), ours, theirs)
}
