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
    Completion, Exchange, Local, Owner, RemoteWord, Request, Segment, Slot, Token, Transport,
};

const OPERATIONS: usize = 32;
const PAGE_WORDS: u32 = 512;
const PAGES: usize = 256;
/// Words of a page that a release sends.
const CHANGED: u32 = 16;
/// Measurements by turns, of which the median counts.
const TURNS: usize = 15;

type Rank = Region<u64, Engine, [Operation; OPERATIONS], Vec<u64>>;
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let start = Start::Spawn { ranks: 2, arguments: None };
    let mut job = join(Options { start, ..Options::default() })?;
    let lines = [
        fetches(&mut job)?,
        releases(&mut job, 1)?,
        releases(&mut job, 16)?,
        releases(&mut job, PAGES)?,
        whole_pages(&mut job, false)?,
        whole_pages(&mut job, true)?,
        locks(&mut job)?,
        handovers(&mut job)?,
        barriers(&mut job)?,
    ];
    job.barrier()?;
    if job.me() == Owner(0) {
        println!("{:48} {:>10} {:>10} {:>6}", "", "region", "bare", "ratio");
        for Line { what, region, bare } in lines {
            let ratio = region.as_secs_f64() / bare.as_secs_f64();
            println!("{what:48} {region:>10.2?} {bare:>10.2?} {ratio:>6.2}");
        }
    }
    Ok(job.finish(Duration::from_secs(60))?)
}

/// A cost beside that of the bare operations.
struct Line {
    what: String,
    region: Duration,
    bare: Duration,
}

/// Measures both on rank 0 by turns; `count` is how many times each does it.
fn measure(
    job: &mut Job,
    what: String,
    count: u32,
    mut region: impl FnMut() -> Outcome<()>,
    mut bare: impl FnMut() -> Outcome<()>,
) -> Outcome<Line> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        let [first, second] = &mut times;
        let begun = Instant::now();
        region()?;
        first.push(begun.elapsed() / count);
        let begun = Instant::now();
        bare()?;
        second.push(begun.elapsed() / count);
    }
    job.barrier()?;
    let [region, bare] = times.map(|mut times| {
        times.sort_unstable();
        times[TURNS / 2]
    });
    Ok(Line { what, region, bare })
}

/// Returns a line without a measurement, on a rank that only has memory.
fn idle(job: &mut Job) -> Outcome<Line> {
    job.barrier()?;
    Ok(Line { what: String::new(), region: Duration::ZERO, bare: Duration::ZERO })
}

fn open(job: &mut Job, config: Config) -> Outcome<(Rank, Bare)> {
    let sizes = config.sizes::<u64>(2, OPERATIONS as u32);
    let engine = Builder::new(sizes).open(job)?;
    let memory = vec![0; config.memory_words::<u64>(2)];
    let region = Region::open(engine, config, [Operation::EMPTY; OPERATIONS], memory, job)?;
    Ok((region, Bare { engine: Builder::new(sizes).open(job)? }))
}

const fn config(pages: usize) -> Config {
    Config { page_words: PAGE_WORDS, ..Config::new((2 * pages * PAGE_WORDS as usize) as u64) }
}

/// An engine without a region.
struct Bare {
    engine: Engine,
}

impl Bare {
    /// Runs requests, as many in flight as there are slots.
    fn run(&mut self, requests: impl IntoIterator<Item = Request>) -> Outcome<()> {
        let mut out = [Completion { token: Token(0), result: Ok(0) }; OPERATIONS];
        let (mut in_flight, mut requests) = (0, requests.into_iter().peekable());
        while in_flight > 0 || requests.peek().is_some() {
            while in_flight < OPERATIONS
                && let Some(request) = requests.next()
            {
                self.engine.post(Token(0), request)?;
                in_flight += 1;
            }
            in_flight -= self.engine.poll(&mut out)?;
        }
        Ok(())
    }
}

/// Words of a page of rank 1, and those of a slot.
fn words(page: usize, words: u32) -> (Segment, Local) {
    let index = page as u64 * u64::from(PAGE_WORDS);
    let at = Segment { start: RemoteWord { owner: Owner(1), index }, words };
    (at, Local { slot: Slot((page % OPERATIONS) as u32), start: 0, words })
}

fn fetches(job: &mut Job) -> Outcome<Line> {
    // A view displaces the page of the one before.
    let (mut region, mut bare) = open(job, Config { mirror_pages: 1, ..config(PAGES) })?;
    if job.me() == Owner(1) {
        return idle(job);
    }
    let page = |nth: usize| (PAGES + nth) * PAGE_WORDS as usize;
    let mut sum = 0;
    let views = || {
        for nth in 0..PAGES {
            sum += region.view(page(nth)..page(nth) + 1)?[0];
        }
        Ok(())
    };
    let reads = || {
        for nth in 0..PAGES {
            let (from, into) = words(nth, PAGE_WORDS);
            bare.run([Request::Read { from, into }])?;
        }
        Ok(())
    };
    measure(job, "fetch of a page of 4 KiB, by one READ".into(), PAGES as u32, views, reads)
}

fn releases(job: &mut Job, pages: usize) -> Outcome<Line> {
    let (mut region, mut bare) = open(job, config(PAGES))?;
    if job.me() == Owner(1) {
        return idle(job);
    }
    let mut value = 0;
    let mut release = || -> Outcome<Duration> {
        value += 1;
        for nth in 0..pages {
            let first = (PAGES + nth) * PAGE_WORDS as usize;
            region.edit(first..first + CHANGED as usize)?.fill(value);
        }
        let begun = Instant::now();
        region.start_barrier()?;
        while !region.poll()? {}
        Ok(begun.elapsed())
    };
    // Without the edits.
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS * 20 {
        ours.push(release()?);
        let begun = Instant::now();
        bare.run((0..pages).map(|nth| {
            let (to, from) = words(nth, CHANGED);
            Request::Write { from, to }
        }))?;
        theirs.push(begun.elapsed());
    }
    job.barrier()?;
    ours.sort_unstable();
    theirs.sort_unstable();
    let what = format!("release of {pages} pages, {CHANGED} words each, by WRITEs");
    Ok(Line { what, region: ours[ours.len() / 2], bare: theirs[theirs.len() / 2] })
}

/// Whole pages, whose home is this rank, beside a copy of as many bytes.
/// With `compares`, no word of a page differs from its twin.
fn whole_pages(job: &mut Job, compares: bool) -> Outcome<Line> {
    const SENT: usize = 16;
    let (mut region, _) = open(job, Config { compares, ..config(PAGES) })?;
    if job.me() == Owner(1) {
        return idle(job);
    }
    let end = SENT * PAGE_WORDS as usize;
    let (from, mut to) = (vec![1_u64; end], vec![0; end]);
    let edit = || {
        region.edit(0..end)?;
        region.start_barrier()?;
        while !region.poll()? {}
        Ok(())
    };
    let copy = || {
        core::hint::black_box(&mut to).copy_from_slice(core::hint::black_box(&from));
        Ok(())
    };
    let what = if compares { "twin and comparison of" } else { "edit and release of" };
    measure(job, format!("{what} a page, by a copy"), SENT as u32, edit, copy)
}

fn locks(job: &mut Job) -> Outcome<Line> {
    const COUNT: u32 = 1_000;
    let (mut region, mut bare) = open(job, config(1))?;
    if job.me() == Owner(1) {
        return idle(job);
    }
    let locked = || {
        for _ in 0..COUNT {
            region.acquire(1)?;
            region.release(1)?;
        }
        Ok(())
    };
    let atomics = || {
        for _ in 0..COUNT {
            let (at, _) = words(0, 1);
            bare.run([Request::FetchAdd { at: at.start, addend: 1 }])?;
            bare.run([Request::FetchAdd { at: at.start, addend: 1 }])?;
        }
        Ok(())
    };
    measure(job, "acquire and release, by two fetch-and-adds".into(), COUNT, locked, atomics)
}

/// A lock that both ranks want all the time, beside a word that both add to twice.
fn handovers(job: &mut Job) -> Outcome<Line> {
    const COUNT: u32 = 10_000;
    let (mut region, mut bare) = open(job, config(1))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        job.barrier()?;
        let begun = Instant::now();
        for _ in 0..COUNT {
            region.acquire(1)?;
            region.release(1)?;
        }
        ours.push(begun.elapsed() / (2 * COUNT));
        job.barrier()?;
        let begun = Instant::now();
        for _ in 0..COUNT {
            let at = words(0, 1).0.start;
            bare.run([Request::FetchAdd { at, addend: 1 }])?;
            bare.run([Request::FetchAdd { at, addend: 1 }])?;
        }
        theirs.push(begun.elapsed() / COUNT);
    }
    job.barrier()?;
    ours.sort_unstable();
    theirs.sort_unstable();
    let what = "lock passed to a rank that waits, by two atomics".into();
    Ok(Line { what, region: ours[TURNS / 2], bare: theirs[TURNS / 2] })
}

fn barriers(job: &mut Job) -> Outcome<Line> {
    const COUNT: u32 = 300;
    let (mut region, _) = open(job, config(1))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let begun = Instant::now();
        for _ in 0..COUNT {
            region.barrier(job)?;
        }
        ours.push(begun.elapsed() / COUNT);
        let begun = Instant::now();
        for _ in 0..COUNT {
            job.barrier()?;
        }
        theirs.push(begun.elapsed() / COUNT);
    }
    ours.sort_unstable();
    theirs.sort_unstable();
    let what = "barrier, by that of the exchange".into();
    Ok(Line { what, region: ours[TURNS / 2], bare: theirs[TURNS / 2] })
}
