//! Rank 0 edits pages of shared memory whose home is rank 1, under a lock of rank 1, while the test bed stops rank 1's
//! process: pages and locks need no CPU of their home. Rank 0 prints its progress, for which the test bed waits.

use core::time::Duration;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use probeline_dsm::{Config, Operation, Region};
use probeline_transport::{Exchange, Owner};

use crate::job::{HANG_TIMEOUT, JobArgs};

#[derive(Args)]
pub(crate) struct PagesArgs {
    /// Stop once this file exists
    #[arg(long, value_name = "FILE")]
    until: PathBuf,
    #[command(flatten)]
    job: JobArgs,
}

/// Four pages of the default size, of which rank 1 has the last two; an element of each of these.
const ELEMENTS: u64 = 2048;
const EDITED: [usize; 2] = [1024, 2047];
/// A lock of rank 1.
const LOCK: u32 = 1;
/// Edits of both elements between two reports.
const REPORT_INTERVAL: u64 = 20;

pub(crate) fn run(args: &PagesArgs) -> Result<()> {
    let mut job = args.job.join("pages".into())?;
    // With room for one page, each edit reads its page again.
    let config = Config { mirror_pages: 1, edited_pages: 1, ..Config::new(ELEMENTS) };
    let engine = args.job.builder(config.sizes::<u64>(job.owners(), 8))?.open(&mut job)?;
    let memory = vec![0; config.memory_words::<u64>(job.owners())];
    let mut region =
        Region::<u64, _, _, _>::open(engine, config, [Operation::EMPTY; 8], memory, &mut job)?;
    let (mut edits, start) = (0, Instant::now());
    while !args.until.exists() {
        ensure!(start.elapsed() < HANG_TIMEOUT, "not stopped within {HANG_TIMEOUT:?}");
        if job.me() == Owner(1) {
            sleep(Duration::from_millis(50));
            continue;
        }
        for _ in 0..REPORT_INTERVAL {
            region.acquire(LOCK)?;
            for element in EDITED {
                region.edit(element..element + 1)?[0] += 1;
            }
            region.release(LOCK)?;
        }
        edits += REPORT_INTERVAL;
        println!("{edits} edits of each page have completed");
    }
    region.barrier(&mut job)?;
    let all = job.sum(edits)?;
    for element in EDITED {
        let found = region.view(element..element + 1)?[0];
        ensure!(found == all, "element {element} has {found} edits, not {all}");
    }
    let fetches = region.stats().fetches;
    ensure!(
        job.me() == Owner(1) || fetches >= edits,
        "{fetches} pages were read for {edits} edits"
    );
    println!("{edits} operations, {fetches} pages read, no edit lost");
    job.barrier()?;
    drop(region);
    Ok(job.finish(HANG_TIMEOUT)?)
}
