//! The ranks of one column in processes of their own, and what rank 0 exchanges with the command: a
//! line of JSON for each request on standard input and for each response on standard output.

use std::io::{self, BufRead, Write};

use probeline::transport::{Exchange, Owner, Sizes};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::CompareArgs;
use super::bench::Bench;
use super::measured::{Capabilities, Sample};
use super::step::steps;
use crate::failure::{Failure, Result};
use crate::job::{self, Scenario};
use crate::scenario::of_rank_0;
use crate::timed::Timed;

/// Starts the line of a response, because libraries print to standard output too.
const MARK: &str = "probeline-compare ";

/// A measurement: the numbers of the column, of the step and of the round.
pub(super) type Turn = (usize, usize, u64);

/// A response of a column. A request is a [`Turn`], or `None` if there are no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Response {
    Ready(Capabilities),
    Measured(Box<Sample>),
    /// The last response: how the transport was set up.
    Finished(Vec<String>),
    /// The last response: why the column failed.
    Failed(String),
}

pub(super) fn request(turn: Option<Turn>) -> String {
    // JSON can hold every request.
    serde_json::to_string(&turn).unwrap_or_default()
}

/// Reads the next request; `None` also if the command has closed the pipe.
fn read(from: &mut impl BufRead) -> io::Result<Option<Turn>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(serde_json::from_str(&line)?)
}

impl Response {
    fn print(&self) -> io::Result<()> {
        let text = serde_json::to_string(self)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{MARK}{text}")?;
        out.flush()
    }

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

struct Worker<'a>(&'a CompareArgs);

impl Scenario for Worker<'_> {
    type Output = ();

    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<()> {
        let mut bench = Bench::new(self.0, engine);
        let steps = steps();
        let leads = exchange.me() == Owner(0);
        if leads {
            Response::Ready(bench.capabilities()).print()?;
        }
        loop {
            let mine = if leads { read(&mut io::stdin().lock())? } else { None };
            let Some((_, step, round)) = of_rank_0(exchange, &mine)? else { return Ok(()) };
            let unknown = || {
                Failure::new(format!(
                    "step {step} is unknown: use one version of probeline for all columns"
                ))
            };
            let step = *steps.get(step).ok_or_else(unknown)?;
            match bench.measure(step, round, exchange)? {
                Some(sample) if leads => Response::Measured(Box::new(sample)).print()?,
                None if leads => return Err(Failure::new("rank 0 has no sample: this is a bug")),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_responses_survive_a_line() {
        let turn = Some((1, 7, 3));
        let mut lines = io::Cursor::new(format!("{}\n{}\n", request(turn), request(None)));
        assert_eq!(read(&mut lines).unwrap(), turn);
        assert_eq!(read(&mut lines).unwrap(), None);
        assert_eq!(read(&mut lines).unwrap(), None);
        assert!(read(&mut io::Cursor::new("measure\n")).is_err());

        let sample = Sample { operations: 9, p50_ns: Some(46), mean_ns: 0.1, ..Sample::default() };
        let response = Response::Measured(Box::new(sample));
        let line = format!("{MARK}{}", serde_json::to_string(&response).unwrap());
        assert_eq!(Response::from_line(&line), Some(response));
        assert_eq!(Response::from_line("PMIX ERROR: UNREACHABLE"), None);
    }
}
