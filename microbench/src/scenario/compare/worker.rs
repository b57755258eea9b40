//! The ranks of one column in processes of their own, and what rank 0 exchanges with the command: a
//! line of JSON for each request on standard input and for each response on standard output.

use std::io::{self, BufRead, Write};

use probeline::transport::{AtomicScope, Exchange, Owner};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::CompareArgs;
use super::bench::Bench;
use super::measured::Sample;
use super::step::{Step, steps};
use crate::agreement::Input;
use crate::failure::{Failure, Result};
use crate::job::{self, Scenario, Shape};
use crate::scenario::gather;
use crate::timed::Timed;

/// Starts the line of a response, because libraries print to standard output too.
const MARK: &str = "probeline-compare ";

/// The step number that makes the other ranks finish.
const FINISH: u64 = u64::MAX;

/// A request to a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// Measure the step of this number, in this round.
    Measure { step: usize, round: u64 },
    /// Finish: there are no more steps.
    Finish,
}

/// A response of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Response {
    /// The engines are open.
    Ready(Capabilities),
    /// The result of a step.
    Measured(Box<Sample>),
    /// The last response: how the transport was set up.
    Finished(Vec<String>),
    /// The last response: why the column failed.
    Failed(String),
}

/// The capabilities of a column's engines, and the sizes that they measure with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Capabilities {
    /// Number of steps that its version knows.
    pub(super) steps: usize,
    pub(super) ranks: u32,
    pub(super) buckets_per_rank: u64,
    pub(super) seed: u64,
    pub(super) depth: u32,
    /// The transport's atomics are atomic with those of the CPU.
    pub(super) cpu_atomics: bool,
    pub(super) word_reads_whole: bool,
    /// Operations stall unless the owner of the words polls.
    pub(super) needs_owner_progress: bool,
    /// A poll may wait for the owner of the words.
    pub(super) poll_may_wait: bool,
}

impl Capabilities {
    pub(super) fn of<T: Timed>(args: &CompareArgs, engine: &T) -> Self {
        let caps = engine.caps();
        Self {
            steps: steps().len(),
            ranks: args.job.ranks,
            buckets_per_rank: args.job.buckets_per_owner(),
            seed: args.job.seed,
            depth: caps.depth,
            cpu_atomics: caps.atomics == AtomicScope::Cpu,
            word_reads_whole: caps.word_reads_whole,
            needs_owner_progress: caps.needs_owner_progress,
            poll_may_wait: caps.poll_may_wait,
        }
    }
}

impl Request {
    /// Formats the request as a line.
    pub(super) fn line(self) -> String {
        // JSON can hold every request.
        serde_json::to_string(&self).unwrap_or_default()
    }

    /// Reads the next request; [`Request::Finish`] if the command has closed the pipe.
    fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(Self::Finish);
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Response {
    /// Prints the response.
    fn print(&self) -> io::Result<()> {
        let text = serde_json::to_string(self)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{MARK}{text}")?;
        out.flush()
    }

    /// Parses a line, if it is a response.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line.strip_prefix(MARK)?).ok()
    }
}

/// Runs this process as a rank of a column until there are no more requests.
pub(super) fn serve(args: &CompareArgs) -> Result<()> {
    // A launcher that is killed cannot terminate its ranks.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let ended = job::run(&args.job, &Worker(args));
    let response = match &ended {
        Ok(None) => return Ok(()),
        Ok(Some(ended)) => Response::Finished(ended.transport.clone()),
        // Rank 0 reports; the command would take another rank's report for that of rank 0.
        Err(failure) if is_rank_0()? => Response::Failed(failure.to_string()),
        Err(_) => return ended.map(drop),
    };
    response.print()?;
    ended.map(drop)
}

/// Returns whether this process is rank 0, as its launcher states or because it has none.
fn is_rank_0() -> Result<bool> {
    Ok(probeline::exchange::Launch::from_env()?.is_none_or(|launch| launch.rank == 0))
}

/// A rank of a column.
struct Worker<'a>(&'a CompareArgs);

impl Scenario for Worker<'_> {
    type Output = ();

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn inputs(&self) -> Vec<Input> {
        Vec::new()
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<()> {
        let mut bench = Bench::new(self.0, engine);
        if exchange.me() != Owner(0) {
            return follow(&mut bench, exchange);
        }
        Response::Ready(Capabilities::of(self.0, bench.engine())).print()?;
        let mut requests = io::stdin().lock();
        while let Request::Measure { step, round } = Request::read(&mut requests)? {
            let sample = lead(&mut bench, (step, round), exchange)?;
            Response::Measured(Box::new(sample)).print()?;
        }
        gather(exchange, [FINISH, 0])?;
        Ok(())
    }
}

/// Takes part in one step on rank 0.
fn lead<T: Timed>(
    bench: &mut Bench<'_, T>,
    (step, round): (usize, u64),
    exchange: &mut dyn Exchange,
) -> Result<Sample> {
    let Some(&what) = steps().get(step) else {
        let message =
            format!("step {step} is unknown: use one version of probeline for all columns");
        return Err(Failure::new(message));
    };
    gather(exchange, [step as u64, round])?;
    let sample = bench.measure(what, round, exchange)?;
    sample.ok_or_else(|| Failure::new("rank 0 has no sample: this is a bug"))
}

/// Takes part in all steps on the other ranks.
fn follow<T: Timed>(bench: &mut Bench<'_, T>, exchange: &mut dyn Exchange) -> Result<()> {
    let steps: Vec<Step> = steps();
    loop {
        let requests = gather(exchange, [0, 0])?;
        let Some([step, round]) = requests.first().copied() else { return Ok(()) };
        // `FINISH` is the number of no step.
        let Some(&what) = usize::try_from(step).ok().and_then(|step| steps.get(step)) else {
            return Ok(());
        };
        bench.measure(what, round, exchange)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_responses_survive_a_line() {
        let request = Request::Measure { step: 7, round: 3 };
        let mut lines =
            io::Cursor::new(format!("{}\n{}\n", request.line(), Request::Finish.line()));
        assert_eq!(Request::read(&mut lines).unwrap(), request);
        assert_eq!(Request::read(&mut lines).unwrap(), Request::Finish);
        assert_eq!(Request::read(&mut lines).unwrap(), Request::Finish);
        assert!(Request::read(&mut io::Cursor::new("measure\n")).is_err());

        let sample = Sample { operations: 9, p50_ns: Some(46), mean_ns: 0.1, ..Sample::default() };
        let response = Response::Measured(Box::new(sample));
        let line = format!("{MARK}{}", serde_json::to_string(&response).unwrap());
        assert_eq!(Response::from_line(&line), Some(response));
        assert_eq!(Response::from_line("PMIX ERROR: UNREACHABLE"), None);
    }
}
