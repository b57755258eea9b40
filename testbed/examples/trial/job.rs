//! Jobs of a trial: the rendezvous of the ranks, the engines that they open, and the bounds of
//! their waits.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use probeline_exchange::{Job, Limits, Options, Rendezvous, Start};
use probeline_transport::{Completion, Exchange, Sizes, Transport};
use probeline_verbs::{Builder, Retry};

/// Bounds the wait for other ranks and for one operation. Only a hang takes this long, even on a
/// host with ten programs for each CPU.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_secs(300);

/// Number of times that a request is sent again.
const RETRIES: u8 = 6;

/// The number of this rank and the rendezvous with the others.
#[derive(Args, Clone, Debug)]
pub(crate) struct JobArgs {
    /// Number of ranks
    #[arg(long, default_value_t = 2)]
    pub(crate) ranks: u32,
    /// This process's rank [default: 0, and spawn the other ranks]
    #[arg(long, requires = "rendezvous")]
    rank: Option<u32>,
    /// Address at which rank 0 listens
    #[arg(long)]
    rendezvous: Option<String>,
    /// Local ACK timeout: a request is sent again after 4.096 us * 2^TIMEOUT. A busy host may leave an
    /// emulated machine without a CPU for seconds
    #[arg(long, default_value_t = 19)]
    timeout: u8,
}

impl JobArgs {
    /// Joins the job; `parameters` must be the same in all ranks.
    pub(crate) fn join(&self, parameters: String) -> Result<Job> {
        let start = match (self.rank, &self.rendezvous) {
            (Some(rank), Some(address)) => Start::Manual {
                rank,
                ranks: self.ranks,
                rendezvous: Rendezvous { address: address.clone(), allow_remote: true },
            },
            _ => Start::Spawn { ranks: self.ranks, arguments: None },
        };
        let limits = Limits { rendezvous: HANG_TIMEOUT, collective: 2 * HANG_TIMEOUT };
        Ok(probeline_exchange::join(Options { start, parameters, limits, ..Options::default() })?)
    }

    pub(crate) fn builder(&self, sizes: Sizes) -> Result<Builder> {
        Ok(Builder::new(sizes).retry(Retry::new(self.timeout, RETRIES)?))
    }
}

/// Waits until all ranks are done, drops the engine, and fails if a spawned rank failed.
pub(crate) fn close(mut job: Job, engine: impl Transport) -> Result<()> {
    job.barrier()?;
    drop(engine);
    Ok(job.finish(HANG_TIMEOUT)?)
}

/// Polls until the only operation in flight has completed, and returns its value.
pub(crate) fn complete(engine: &mut impl Transport) -> Result<u64> {
    let (mut completion, mut deadline) = ([Completion::default()], Deadline::new("completion"));
    while engine.poll(&mut completion)? == 0 {
        deadline.check()?;
    }
    Ok(completion[0].result?)
}

/// Collects one value from each rank.
pub(crate) fn gather(job: &mut Job, mine: u64) -> Result<Vec<u64>> {
    let mut all = vec![0; 8 * job.owners() as usize];
    job.all_gather(&mine.to_le_bytes(), &mut all)?;
    Ok(all.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}

/// Checks between two readings of the clock, so that the clock does not show in what is measured:
/// at a microsecond for each poll in an emulated machine, some milliseconds.
const CHECKS_PER_READING: u32 = 1 << 12;

/// The bound of a polling loop. The time starts at the first reading of the clock.
#[derive(Debug)]
pub(crate) struct Deadline {
    what: &'static str,
    timeout: Duration,
    checks: u32,
    start: Option<Instant>,
}

impl Deadline {
    /// Waits for `what` for at most [`HANG_TIMEOUT`].
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, timeout: HANG_TIMEOUT, checks: 0, start: None }
    }

    /// Fails once the deadline has passed; called in each turn of the loop.
    #[inline]
    pub(crate) fn check(&mut self) -> Result<()> {
        self.checks = self.checks.wrapping_add(1);
        if self.checks.is_multiple_of(CHECKS_PER_READING) { self.read_clock() } else { Ok(()) }
    }

    /// Starts the time again, after progress.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.start = None;
    }

    #[cold]
    fn read_clock(&mut self) -> Result<()> {
        let Self { what, timeout, .. } = *self;
        if self.start.get_or_insert_with(Instant::now).elapsed() < timeout {
            return Ok(());
        }
        bail!("hang: no {what} within {timeout:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_ends_stalled_loop() {
        let mut deadline = Deadline { timeout: Duration::from_millis(1), ..Deadline::new("end") };
        let start = Instant::now();
        while deadline.check().is_ok() {
            assert!(start.elapsed() < HANG_TIMEOUT);
        }
        let error = deadline.read_clock().unwrap_err();
        assert_eq!(error.to_string(), "hang: no end within 1ms");
        deadline.restart();
        assert!(deadline.read_clock().is_ok());
    }
}
