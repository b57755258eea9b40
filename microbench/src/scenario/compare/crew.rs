//! The ranks of one column: they wait asleep for what rank 0 is told to measure.

use std::io;

use probeline_transport::{AtomicScope, Exchange, Owner};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::CompareArgs;
use super::bench::Bench;
use super::order::{Ability, Answer, Order};
use super::plan::{Step, steps};
use super::sample::Sample;
use crate::agreement::Input;
use crate::failure::{Failure, Result};
use crate::job::{self, Scenario, Shape};
use crate::scenario::gather;
use crate::timed::Timed;

/// What rank 0 tells the others: what is no number of a step ends their work.
const END: u64 = u64::MAX;

/// One column's work.
struct Crew<'a>(&'a CompareArgs);

/// Runs this process as one of a column's ranks until there are no more orders.
pub(super) fn serve(args: &CompareArgs) -> Result<()> {
    // A launcher that is killed cannot end its ranks.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let ended = job::run(&args.job, &Crew(args));
    let answer = match &ended {
        Ok(None) => return Ok(()),
        Ok(Some(ended)) => Answer::Ended(ended.transport.clone()),
        // Rank 0 says so; from others it would come out as rank 0's.
        Err(failure) if leads()? => Answer::Failed(failure.to_string()),
        Err(_) => return ended.map(drop),
    };
    answer.say()?;
    ended.map(drop)
}

/// Whether this process is rank 0, which its launcher has told it, or which no launcher has started.
fn leads() -> Result<bool> {
    Ok(probeline_exchange::Launch::from_env()?.is_none_or(|launch| launch.rank == 0))
}

impl Scenario for Crew<'_> {
    type Output = ();

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn inputs(&self) -> Vec<Input> {
        Vec::new()
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<()> {
        let steps = steps();
        let mut bench = Bench::new(self.0, engine);
        if exchange.me() != Owner(0) {
            return follow(&steps, &mut bench, exchange);
        }
        Answer::Ready(ability(self.0, bench.engine())).say()?;
        let mut orders = io::stdin().lock();
        while let Order::Measure { step, round } = Order::next(&mut orders)? {
            let sample = lead(&steps, &mut bench, (step, round), exchange)?;
            Answer::Measured(Box::new(sample)).say()?;
        }
        gather(exchange, [END, 0])?;
        Ok(())
    }
}

/// What an engine says of itself.
pub(super) fn ability<T: Timed>(args: &CompareArgs, engine: &T) -> Ability {
    let caps = engine.caps();
    Ability {
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

/// Rank 0's part in one step.
fn lead<T: Timed>(
    steps: &[Step],
    bench: &mut Bench<'_, T>,
    (step, round): (usize, u64),
    exchange: &mut dyn Exchange,
) -> Result<Sample> {
    let Some(&what) = steps.get(step) else {
        return Err(Failure::new(format!(
            "there is no step {step}: both are to be of one version"
        )));
    };
    gather(exchange, [step as u64, round])?;
    let sample = bench.measure(what, round, exchange)?;
    sample.ok_or_else(|| Failure::new("rank 0 has measured nothing"))
}

/// The other ranks' part in all steps.
fn follow<T: Timed>(
    steps: &[Step],
    bench: &mut Bench<'_, T>,
    exchange: &mut dyn Exchange,
) -> Result<()> {
    loop {
        let told = gather(exchange, [0, 0])?;
        let Some([step, round]) = told.first().copied() else { return Ok(()) };
        let Some(&what) = usize::try_from(step).ok().and_then(|step| steps.get(step)) else {
            return Ok(());
        };
        bench.measure(what, round, exchange)?;
    }
}
