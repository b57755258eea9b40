//! A job: the same scenario run by all ranks over one transport.

use core::time::Duration;

use probeline_exchange::{Job, Limits, Options, Rendezvous, Secret, Start};
use probeline_pin::{Affinity, MemoryPolicy, NodeId, PolicyRefused};
use probeline_transport::{Exchange, Owner, Transport};

use crate::agreement::{Agreement, Input};
use crate::checkup::{Checkup, Device, Machines};
use crate::cli::{ExchangeName, JobArgs, TransportName, UcxArgs, VerbsArgs};
use crate::failure::{Failure, Result};
use crate::nodes;
use crate::note::{self, Missing};
use crate::place::place;
use crate::progress::waiting;
use crate::terminal;
use crate::timed::Timed;

/// The longest wait for children to end after the last barrier, when nothing is left to do.
const CHILDREN_LEAVE: Duration = Duration::from_secs(10);

/// Seconds until all ranks have met, for a launcher that is slow to start the last one; and for a
/// person who is to start the second of two nodes.
const MEET_S: u64 = 60;
const FOR_A_PERSON_S: u64 = 600;

/// Polls for each owner after which the engine of shared memory has asked whether all of them
/// live: twice what it takes. That of verbs is told with the next poll.
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

    /// The inputs that each rank reads or computes itself and that must be the same on all ranks.
    fn inputs(&self) -> Vec<Input>;

    /// The longest that one rank measures while the others wait for it in a collective call: by so
    /// much they wait longer than they would else.
    fn longest_alone(&self) -> Duration {
        Duration::ZERO
    }

    /// The work of one rank.
    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output>;
}

/// What rank 0 has when the job has ended.
pub(crate) struct Ended<O> {
    pub(crate) output: O,
    /// How the transport was set up, in words.
    pub(crate) transport: Vec<String>,
    /// What the doctor says of each machine, and of the device that it went over, if it was one of
    /// verbs; of this machine only that.
    pub(crate) doctor: Checkup,
}

/// Runs a scenario; `None` on every rank but 0.
pub(crate) fn run<S: Scenario>(args: &JobArgs, scenario: &S) -> Result<Option<Ended<S::Output>>> {
    match args.transport {
        TransportName::Shm => run_on_machines(args, scenario, None, open_shm, no_device),
        TransportName::Verbs => run_verbs(args, scenario),
        TransportName::Ucx => {
            let open = |shape, _, job: &mut Job| {
                open_ucx(&args.ucx, args.ucx.ucx_tls.as_deref(), shape, job)
            };
            run_on_machines(args, scenario, None, open, no_device)
        }
        #[cfg(feature = "mpi")]
        TransportName::Mpi => crate::mpi_job::run(args, scenario),
        TransportName::Sim => run_sim(args, scenario).map(Some),
    }
}

fn run_verbs<S: Scenario>(args: &JobArgs, scenario: &S) -> Result<Option<Ended<S::Output>>> {
    let device = args.verbs.device.as_deref();
    let builder = builder(&args.verbs, scenario.shape())?;
    if args.meeting.rendezvous.is_none() && args.meeting.server().is_none() && !is_launched()? {
        // Before anybody is asked to start the other node. Ranks that meet elsewhere may be of
        // several machines, and learn of it from each other when all open their engines.
        builder.probe_for(args.ranks)?;
    }
    let near =
        device.and_then(|name| probeline_pin::device_node("/sys".as_ref(), name).ok().flatten());
    let open = |shape, memory, job: &mut Job| open_verbs(&args.verbs, shape, memory, job);
    run_on_machines(args, scenario, near, open, |engine| Some(Device::named(&engine.link().device)))
}

/// The device of an engine if the doctor is to look at none.
fn no_device<E>(_: &E) -> Option<Device> {
    None
}

/// An engine of shared memory, and a line about it.
pub(crate) fn open_shm(
    shape: Shape,
    memory: MemoryPolicy,
    exchange: &mut impl Exchange,
) -> Result<(probeline_shm::Engine, String)> {
    let engine = probeline_shm::Builder::new(shape.window_words)
        .slots(shape.slots, shape.slot_words)
        .depth(shape.depth)
        .memory(memory)
        .open(exchange)?;
    let unbound = unbound(engine.policy_refused(), exchange)?;
    let line = format!("shm, {} ranks{unbound}, windows on {}", exchange.owners(), engine.pages());
    Ok((engine, line))
}

/// An engine of libibverbs, and a line about it.
pub(crate) fn open_verbs(
    args: &VerbsArgs,
    shape: Shape,
    memory: MemoryPolicy,
    exchange: &mut impl Exchange,
) -> Result<(probeline_verbs::Engine, String)> {
    // The device reads and writes it, and the CPU hardly.
    let memory = MemoryPolicy { node: None, ..memory };
    let engine = builder(args, shape)?.memory(memory).open(exchange)?;
    let unbound = unbound(engine.policy_refused(), exchange)?;
    let line = format!("verbs, {} ranks{unbound}, {}", exchange.owners(), engine.link());
    Ok((engine, line))
}

/// Prints one note for all ranks if the memory of any rank is not bound to a node, and returns the
/// matching text for the line about the engine. All ranks call this.
fn unbound(refused: Option<PolicyRefused>, exchange: &mut impl Exchange) -> Result<&'static str> {
    let any = note::say_once(Missing::Policy, refused, exchange)?;
    Ok(if any { ", without a NUMA policy" } else { "" })
}

/// An engine of UCX over these transports of its, and a line about it.
pub(crate) fn open_ucx(
    args: &UcxArgs,
    tls: Option<&str>,
    shape: Shape,
    exchange: &mut impl Exchange,
) -> Result<(probeline_ucx_shim::ucx::Engine, String)> {
    let engine = probeline_ucx_shim::ucx::Builder::new(shape.window_words)
        .slots(shape.slots, shape.slot_words)
        .depth(shape.depth)
        .tls(tls)
        .device(args.ucx_device.as_deref())
        .gid_index(args.ucx_gid_index)
        .atomics(args.atomics())
        .open(exchange)?;
    let line = format!("ucx, {} ranks, {}", exchange.owners(), engine.info());
    Ok((engine, line))
}

/// All of an engine but where its memory lies.
fn builder(args: &VerbsArgs, shape: Shape) -> Result<probeline_verbs::Builder> {
    Ok(probeline_verbs::Builder::new(shape.window_words)
        .slots(shape.slots, shape.slot_words)
        .depth(shape.depth)
        .device(args.device.as_deref())
        .port(args.ib_port)
        .gid_index(args.gid_index)
        .pkey_index(args.pkey_index)
        .service_level(args.service_level)
        .traffic_class(args.traffic_class)
        .retry(args.retry()?))
}

/// Runs a scenario on ranks that are processes, placed close to `near` where that is known, each
/// with the engine that `open` gives and a line about it. In the end the doctor looks at the `device`
/// that the engine went over.
fn run_on_machines<S: Scenario, E: Timed>(
    args: &JobArgs,
    scenario: &S,
    near: Option<NodeId>,
    open: impl FnOnce(Shape, MemoryPolicy, &mut Job) -> Result<(E, String)>,
    device: impl FnOnce(&E) -> Option<Device>,
) -> Result<Option<Ended<S::Output>>> {
    // Before anything pins: afterwards the mask is that of the pinned thread.
    let affinity = Affinity::take();
    let (mut job, farewell) = join(args, scenario.inputs(), scenario.longest_alone())?;
    let me = job.me();
    let machines = Machines::look(&mut job, args.meeting.collective_limit())?;
    let mut transport = Vec::new();
    let memory = place(&args.place, near, &affinity, &mut job, &mut transport)?;
    let open = || open(scenario.shape(), memory, &mut job);
    let (mut engine, line) = waiting("opening the transport", me == Owner(0), open)?;
    transport.push(line);
    let output = scenario
        .run(&mut engine, &mut job)
        .map_err(|failure| naming_the_first(failure, &mut engine))?;
    let doctor = machines.tell(device(&engine), &mut job)?;
    match doctor.is_of_a_loss() {
        true => leave_behind(job),
        false => leave(job, farewell)?,
    }
    Ok((me == Owner(0)).then_some(Ended { output, transport, doctor }))
}

/// Leaves the job together with the others, and says what there is to say in the end.
pub(crate) fn leave(mut job: Job, farewell: Option<String>) -> Result<()> {
    job.barrier()?;
    job.finish(CHILDREN_LEAVE)?;
    if let Some(farewell) = farewell {
        // Nothing of this rank's is lost with it.
        let _ = terminal::stdout().line(&farewell);
    }
    Ok(())
}

/// Leaves a job of which somebody is lost when rank 0 has all that the work has brought: who ended
/// badly is told, and loses none of it.
pub(crate) fn leave_behind(job: Job) {
    if let Err(failed) = job.finish(CHILDREN_LEAVE) {
        let _ = terminal::stderr().line(&format!("after the work: {failed}"));
    }
}

/// Who leaves because of another's loss is lost too, to those who then wait for it in the
/// exchange. The engine knows who was first.
fn naming_the_first<E: Transport>(failure: Failure, engine: &mut E) -> Failure {
    if !failure.is_loss() {
        return failure;
    }
    let polls = POLLS_TO_ASK * engine.geometry().owners;
    let fault = (0..polls).find_map(|_| engine.poll(&mut []).err());
    fault.map_or(failure, Failure::from)
}

/// Joins the job, whose ranks have the same options and `inputs`, and returns what to print at the
/// end. One rank measures for at most `longest_alone` while the others wait in a collective call.
pub(crate) fn join(
    args: &JobArgs,
    inputs: Vec<Input>,
    longest_alone: Duration,
) -> Result<(Job, Option<String>)> {
    let meeting = &args.meeting;
    let given = meeting.secret_file.as_ref().map(Secret::from_file).transpose()?;
    let first = args.nodes.two_nodes.as_deref() == Some("");
    let limit_s = meeting.meet_timeout.unwrap_or(if first { FOR_A_PERSON_S } else { MEET_S });
    let agreement = Agreement::of_job(args, inputs);
    let parameters = agreement.text().to_owned();
    let limits = Limits {
        rendezvous: Duration::from_secs(limit_s),
        collective: meeting.collective_limit() + longest_alone,
    };
    let Some(node) = nodes::node(&args.nodes, &args.options, limit_s, given.clone())? else {
        let start = start(args)?;
        let options = Options { start, parameters, secret: given, limits };
        let job =
            waiting("waiting for all ranks", args.reports(), || probeline_exchange::join(options));
        return Ok((job.map_err(|error| agreement.explain(error, Failure::from))?, None));
    };
    // Not where the report goes; and it may be that nobody reads.
    let _ = write!(terminal::stderr(), "{}", node.said);
    let options = Options { start: node.start, parameters, secret: node.secret, limits };
    let job = waiting(&node.waits_for, true, || probeline_exchange::join(options));
    let not_met = |error| nodes::not_met(error, &args.nodes);
    let job = job.map_err(|error| agreement.explain(error, not_met))?;
    Ok((job, node.farewell))
}

/// How ranks come to be that are not one on each of two nodes.
fn start(args: &JobArgs) -> Result<Start> {
    let meeting = &args.meeting;
    let rendezvous = meeting
        .rendezvous
        .as_ref()
        .map(|address| Rendezvous { address: address.clone(), allow_remote: meeting.allow_remote });
    if let Some(server) = meeting.server() {
        return Ok(Start::Served(server));
    }
    if meeting.exchange == Some(ExchangeName::Spawn) {
        return Ok(Start::Spawn { ranks: args.ranks, arguments: None });
    }
    Ok(match (rendezvous, meeting.rank) {
        (Some(rendezvous), Some(rank)) => Start::Placed { rank, size: args.ranks, rendezvous },
        (rendezvous, None) if is_launched()? => Start::Launched { rendezvous },
        (Some(_), None) => {
            return Err(Failure::usage(
                "--rendezvous without a launcher: say which rank this is with --rank, \
                 0 to the number of --ranks less one",
            ));
        }
        (None, _) => Start::Spawn { ranks: args.ranks, arguments: None },
    })
}

/// Whether a launcher has started this process as one of several.
pub(crate) fn is_launched() -> Result<bool> {
    Ok(probeline_exchange::Launch::from_env()?.is_some_and(|launch| launch.size > 1))
}

fn run_sim<S: Scenario>(args: &JobArgs, scenario: &S) -> Result<Ended<S::Output>> {
    let two_nodes = args.nodes.two_nodes.is_some();
    if args.meeting.rendezvous.is_some() || two_nodes || is_launched()? {
        return Err(Failure::usage(
            "the simulator has all ranks in one process: start it once, with --ranks, without a \
             launcher and --rendezvous or --two-nodes",
        ));
    }
    let shape = scenario.shape();
    let config = probeline_sim::Config {
        owners: args.ranks,
        window_words: shape.window_words,
        slots: shape.slots,
        slot_words: shape.slot_words,
        depth: shape.depth,
        seed: args.seed,
        model: args.sim.model(args.ranks)?,
        ..probeline_sim::Config::default()
    };
    let cluster = probeline_sim::Cluster::new(config)?;
    let outputs =
        probeline_sim::stage::run(&cluster, |mut engine, mut exchange| -> Result<S::Output> {
            let output = scenario.run(&mut engine, &mut exchange)?;
            exchange.barrier()?;
            Ok(output)
        })?;
    let transport = vec![
        format!(
            "sim, {} owners, {}, seed {}; times are virtual",
            args.ranks,
            args.sim.about(),
            args.seed
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
    Ok(Ended { output, transport, doctor: Checkup::default() })
}
