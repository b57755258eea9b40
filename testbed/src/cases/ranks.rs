//! Jobs in the guests: ranks of `trial` or `probeline` on one machine or on both.

use core::sync::atomic::{AtomicU16, Ordering::Relaxed};
use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::case::Outcome;
use crate::command::GuestCommand;
use crate::programs::{self, program};
use crate::testbed::Testbed;

/// Bounds a job, which takes some minutes less on a quiet host.
pub(super) const JOB_TIMEOUT: Duration = Duration::from_secs(1200);

/// The secret that the ranks of a job share.
const SECRET: &str = "PROBELINE_SECRET=0123456789abcdef0123456789abcdef";

/// Returns a port that no case has used before.
pub(super) fn unused_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(7000);
    NEXT.fetch_add(1, Relaxed)
}

/// Returns the command line of a program, with the secret.
pub(super) fn command(name: &str, arguments: &str) -> Result<String> {
    Ok(format!("{SECRET} {} {arguments}", program(name)?))
}

/// Runs `trial` on machine 1, which spawns all ranks there; its output.
pub(super) fn run_on_one(testbed: &Testbed, arguments: &str) -> Result<String> {
    testbed.machine(1).output(&command(programs::TRIAL, arguments)?, JOB_TIMEOUT)
}

/// Runs `ranks` ranks of `trial` on all machines; the output of rank 0.
pub(super) fn run_on_all(testbed: &Testbed, ranks: u32, arguments: &str) -> Result<String> {
    Ranks::start(testbed, programs::TRIAL, ranks, arguments)?.finish()
}

/// The running ranks of a job. Rank 0 and all even ranks are on machine 1.
pub(super) struct Ranks(Vec<GuestCommand>);

impl Ranks {
    /// Starts `ranks` ranks of the program `name`, each with the same `arguments`.
    pub(super) fn start(
        testbed: &Testbed,
        name: &str,
        ranks: u32,
        arguments: &str,
    ) -> Result<Self> {
        let (port, address) = (unused_port(), testbed.machine(1).address());
        let start = |(rank, machine): (u32, &crate::machine::Machine)| {
            let place = format!("--ranks {ranks} --rank {rank} --rendezvous {address}:{port}");
            machine.start(&command(name, &format!("{arguments} {place}"))?, JOB_TIMEOUT)
        };
        (0..ranks)
            .zip(testbed.machines().iter().cycle())
            .map(start)
            .collect::<Result<_>>()
            .map(Self)
    }

    pub(super) fn rank(&self, rank: usize) -> Result<&GuestCommand> {
        self.0.get(rank).with_context(|| format!("no rank {rank}"))
    }

    /// Waits until all ranks have succeeded; the output of rank 0.
    pub(super) fn finish(self) -> Result<String> {
        let outputs = self.0.into_iter().map(|rank| rank.wait()?.success());
        outputs.collect::<Result<Vec<_>>>()?.into_iter().next().context("the job has no rank")
    }

    /// Waits until rank 0 has succeeded, and kills the others; its output.
    pub(super) fn finish_first(self) -> Result<String> {
        self.0.into_iter().next().context("the job has no rank")?.wait()?.success()
    }
}

/// Repeats a trial, which succeeds only if a rare event happened, for a minute at most. Prints the
/// line of its output that contains `marker`.
pub(super) fn repeat_until_success(
    testbed: &Testbed,
    arguments: &str,
    marker: &str,
) -> Result<Outcome> {
    const LIMIT: Duration = Duration::from_secs(60);
    let command = command(programs::TRIAL, arguments)?;
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < LIMIT {
        rounds += 1;
        let exit = testbed.machine(1).run(&command, JOB_TIMEOUT)?;
        let line = exit.output.lines().find(|line| line.contains(marker));
        let line = line.with_context(|| exit.output.clone())?;
        if exit.status == 0 {
            println!("round {rounds}: {line}");
            return Ok(Outcome::Passed);
        }
    }
    Ok(Outcome::Ignored(format!("the event did not happen in {rounds} rounds")))
}
