//! What the cases that run the `trial` program have in common.

use core::sync::atomic::{AtomicU16, Ordering::Relaxed};
use core::time::Duration;
use std::time::Instant;

use crate::bed::Bed;
use crate::case::{Failure, Outcome};
use crate::programs::{Build, program};
use crate::running::Running;

/// The program.
pub(super) const TRIAL: &[Build] = &[Build::Release(&["--package", "probeline-trial"])];

/// The longest that a trial may take: some minutes less on a quiet host.
pub(super) const LIMIT: Duration = Duration::from_secs(1200);

/// What the ranks of one boot know, and nobody else could use.
pub(super) const SECRET: &str = "PROBELINE_SECRET=0123456789abcdef0123456789abcdef";

/// A port that no case before has used.
pub(super) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(7000);
    NEXT.fetch_add(1, Relaxed)
}

/// `program arguments`, as the shell of a guest calls it.
pub(super) fn command(name: &str, arguments: &str) -> Result<String, Failure> {
    Ok(format!("{SECRET} {} {arguments}", program(name)?))
}

/// Runs a trial by one machine alone, which starts all ranks; what it wrote.
pub(super) fn alone(bed: &Bed, arguments: &str) -> Result<String, Failure> {
    Ok(bed.machine(1).output(&command("trial", arguments)?, LIMIT)?)
}

/// Ranks of one job, by turns on the machines: rank 0 and all even ones on the first.
pub(super) struct Ranks(Vec<Running>);

impl Ranks {
    /// Starts `ranks` ranks of `program`, each with the same `arguments`.
    pub(super) fn start(
        bed: &Bed,
        name: &str,
        ranks: u32,
        arguments: &str,
    ) -> Result<Self, Failure> {
        let (port, machines) = (port(), bed.machines());
        let (first, _) = machines.split_first().ok_or_else(|| Failure("no machine".into()))?;
        let start = |rank: u32| {
            let meeting = format!("--rank {rank} --rendezvous {}:{port}", first.address());
            let command = command(name, &format!("{arguments} --ranks {ranks} {meeting}"))?;
            // There is a machine, and as many as fit a u32.
            let machine = rank as usize % machines.len();
            let machine = machines.get(machine).unwrap_or(first);
            Ok(machine.start(&command, LIMIT)?)
        };
        (0..ranks).map(start).collect::<Result<_, Failure>>().map(Self)
    }

    /// A rank that runs.
    pub(super) fn rank(&self, rank: usize) -> Result<&Running, Failure> {
        self.0.get(rank).ok_or_else(|| Failure(format!("there is no rank {rank}")))
    }

    /// Waits until all have ended well; what rank 0 wrote.
    pub(super) fn finish(self) -> Result<String, Failure> {
        let mut first = None;
        for rank in self.0 {
            let output = rank.wait()?.good()?;
            first.get_or_insert(output);
        }
        first.ok_or_else(|| Failure("there was no rank".into()))
    }

    /// Waits until rank 0 has ended well, and ends the others; what it wrote.
    pub(super) fn finish_first(self) -> Result<String, Failure> {
        let mut ranks = self.0.into_iter();
        let first = ranks.next().ok_or_else(|| Failure("there was no rank".into()))?;
        Ok(first.wait()?.good()?)
    }
}

/// Runs a trial with `ranks` ranks on all machines; what rank 0 wrote.
pub(super) fn together(bed: &Bed, ranks: u32, arguments: &str) -> Result<String, Failure> {
    Ranks::start(bed, "trial", ranks, arguments)?.finish()
}

/// The longest that a test goes on which waits for what only chance brings about.
const LUCK: Duration = Duration::from_secs(60);

/// Repeats a trial that ends well only where chance has brought about what it waits for; prints the
/// line of it that contains `marker`. That the machines do not do it says nothing.
pub(super) fn by_chance(bed: &Bed, arguments: &str, marker: &str) -> Result<Outcome, Failure> {
    let command = command("trial", arguments)?;
    let begin = Instant::now();
    let mut rounds = 0;
    while begin.elapsed() < LUCK {
        rounds += 1;
        let ended = bed.machine(1).run(&command, LIMIT)?;
        let line = ended.output.lines().find(|line| line.contains(marker));
        let line = line.ok_or_else(|| Failure(ended.output.clone()))?;
        if ended.status == 0 {
            println!("round {rounds}: {line}");
            return Ok(Outcome::Passed);
        }
    }
    Ok(Outcome::Skipped(format!("it did not happen in {rounds} rounds")))
}

/// The number behind `name` in a line of `output`.
pub(super) fn number(output: &str, name: &str) -> Result<f64, Failure> {
    let value = output.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.ok_or_else(|| Failure(format!("no {name} in: {output}")))
}

/// The middle one of some measurements.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
