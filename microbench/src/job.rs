//! A job: the same scenario run by all ranks over one transport.

use core::time::Duration;

use exchange::{Limits, Options, Rendezvous, Secret, Start};
use pin::Affinity;
use transport::{Exchange, Owner, Transport};

use crate::cli::{JobArgs, TransportName};
use crate::failure::{Failure, Result};
use crate::place::place;
use crate::timed::Timed;

/// The longest wait for children to end after the last barrier, when nothing is left to do.
const CHILDREN_LEAVE: Duration = Duration::from_secs(10);

/// Polls for each owner after which the engine of shared memory has asked whether all of them
/// live: twice what it takes.
const POLLS_TO_ASK: u32 = 128;

/// The sizes of the engines that a scenario needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) window_words: u64,
    pub(crate) slots: u32,
    pub(crate) slot_words: u32,
    pub(crate) depth: u32,
}

/// What all ranks do.
pub(crate) trait Scenario: Sync {
    /// What rank 0 knows in the end.
    type Output: Send;

    /// The engines it needs.
    fn shape(&self) -> Shape;

    /// What all ranks must have been given alike, as `name=value` separated by spaces.
    fn parameters(&self) -> String;

    /// The work of one rank.
    fn run<T: Timed>(&self, engine: T, exchange: &mut dyn Exchange) -> Result<Self::Output>;
}

/// What rank 0 has when the job has ended.
pub(crate) struct Ended<O> {
    pub(crate) output: O,
    /// How the transport was set up, in words.
    pub(crate) transport: Vec<String>,
}

/// Runs a scenario; `None` on every rank but 0.
pub(crate) fn run<S: Scenario>(args: &JobArgs, scenario: &S) -> Result<Option<Ended<S::Output>>> {
    match args.transport {
        TransportName::Shm => run_shm(args, scenario),
        TransportName::Sim => run_sim(args, scenario).map(Some),
    }
}

fn run_shm<S: Scenario>(args: &JobArgs, scenario: &S) -> Result<Option<Ended<S::Output>>> {
    // Before anything pins: afterwards the mask is that of the pinned thread.
    let affinity = Affinity::take()?;
    let mut job = exchange::join(options(args, scenario)?)?;
    let me = job.me();
    let mut transport = Vec::new();
    let memory = place(&args.place, &affinity, &mut job, &mut transport)?;
    let shape = scenario.shape();
    let mut engine = shm::Builder::new(shape.window_words)
        .slots(shape.slots, shape.slot_words)
        .depth(shape.depth)
        .memory(memory)
        .open(&mut job)?;
    transport.push(format!("shm, {} ranks, windows on {}", job.owners(), engine.pages()));
    let output = scenario
        .run(&mut engine, &mut job)
        .map_err(|failure| naming_the_first(failure, &mut engine))?;
    job.barrier()?;
    for (rank, status) in job.finish(CHILDREN_LEAVE) {
        if !status.is_some_and(|status| status.success()) {
            return Err(Failure::new(format!("rank {rank} ended badly ({status:?})")));
        }
    }
    Ok((me == Owner(0)).then_some(Ended { output, transport }))
}

/// Who leaves because of another's loss is lost too, to those who then wait for it in the
/// exchange. The engine knows who was first.
fn naming_the_first(failure: Failure, engine: &mut shm::Engine) -> Failure {
    if !failure.is_loss() {
        return failure;
    }
    let polls = POLLS_TO_ASK * engine.geometry().owners;
    let fault = (0..polls).find_map(|_| engine.poll(&mut []).err());
    fault.map_or(failure, Failure::from)
}

fn options<S: Scenario>(args: &JobArgs, scenario: &S) -> Result<Options> {
    let meeting = &args.meeting;
    let rendezvous = meeting
        .rendezvous
        .as_ref()
        .map(|address| Rendezvous { address: address.clone(), allow_remote: meeting.allow_remote });
    let launched = is_launched()?;
    let start = match (rendezvous, meeting.rank) {
        (Some(rendezvous), Some(rank)) => Start::Placed { rank, size: args.ranks, rendezvous },
        (rendezvous, None) if launched => Start::Launched { rendezvous },
        (Some(_), None) => {
            return Err(Failure::new(
                "--rendezvous without a launcher: say which rank this is with --rank, \
                 0 to the number of --ranks less one",
            ));
        }
        (None, _) => Start::Spawn { ranks: args.ranks, arguments: None },
    };
    let secret = meeting.secret_file.as_ref().map(Secret::from_file).transpose()?;
    let limits = Limits {
        rendezvous: Duration::from_secs(meeting.meet_timeout),
        collective: Duration::from_secs(meeting.collective_timeout),
    };
    // All ranks take part in the placement, or none.
    let parameters = format!("{} pin={:?}", scenario.parameters(), args.place.pin);
    Ok(Options { start, parameters, secret, limits })
}

/// Whether a launcher has started this process as one of several.
fn is_launched() -> Result<bool> {
    Ok(exchange::Launch::from_env()?.is_some_and(|launch| launch.size > 1))
}

fn run_sim<S: Scenario>(args: &JobArgs, scenario: &S) -> Result<Ended<S::Output>> {
    if args.meeting.rendezvous.is_some() || is_launched()? {
        return Err(Failure::new(
            "the simulator has all ranks in one process: start it once, with --ranks, without a \
             launcher and --rendezvous",
        ));
    }
    let shape = scenario.shape();
    let config = sim::Config {
        owners: args.ranks,
        window_words: shape.window_words,
        slots: shape.slots,
        slot_words: shape.slot_words,
        depth: shape.depth,
        seed: args.seed,
        model: sim::Model::simple(args.sim.sim_roundtrip_ns),
        ..sim::Config::default()
    };
    let cluster = sim::Cluster::new(config)?;
    let outputs = sim::stage::run(&cluster, |engine, mut exchange| -> Result<S::Output> {
        let output = scenario.run(engine, &mut exchange)?;
        exchange.barrier()?;
        Ok(output)
    })?;
    let transport = vec![
        format!(
            "sim, {} owners, {} ns roundtrip between two, seed {}; times are virtual",
            args.ranks, args.sim.sim_roundtrip_ns, args.seed
        ),
        format!("trace {:016x}", cluster.trace_hash()),
    ];
    let mut failures = Vec::new();
    let mut output = None;
    for (rank, ended) in (0..).zip(outputs) {
        match ended {
            Ok(of_rank) => output = output.or(Some(of_rank)),
            // What every rank says is told once.
            Err(failure) if failure.is_everywhere() => return Err(failure),
            Err(failure) => failures.push(format!("rank {rank}: {failure}")),
        }
    }
    let output = match output {
        Some(output) if failures.is_empty() => output,
        _ => return Err(Failure::new(failures.join("; "))),
    };
    Ok(Ended { output, transport })
}
