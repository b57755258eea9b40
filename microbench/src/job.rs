//! A job: all ranks do the same work over one transport.

use core::time::Duration;
use std::sync::OnceLock;

use probeline::exchange::{self, Job, Limits, Rendezvous, Secret, Start};
use probeline::pin::{Affinity, MemoryPolicy, NodeId};
use probeline::transport::{Completion, Exchange, Owner, Sizes, Token};
use probeline_programs::Timed;

use crate::agreement::{Agreement, Input};
use crate::cli::{ExchangeName, JobArgs, TransportName};
use crate::engines::{self, Engine, open_shm, open_ucx, open_verbs};
use crate::failure::{Failure, Result};
use crate::options::Options;
use crate::pinning::pin_rank;
use crate::progress::waiting;
use crate::terminal;
use crate::two_nodes::{self, Node};

/// The longest wait for child processes to exit after the last barrier, when no work is left.
const CHILDREN_LEAVE: Duration = Duration::from_secs(10);

/// Seconds until all ranks have met: by default, for a launcher that starts ranks slowly; and with
/// `--two-nodes`, for a person who starts the second node.
const RENDEZVOUS_S: u64 = 60;
const FOR_A_PERSON_S: u64 = 600;

/// Polls per owner after which the engine of shared memory has detected a lost owner: twice as many
/// as it needs. The engine of libibverbs detects a loss in the next poll.
const POLLS_TO_ASK: u32 = 128;

/// Requirements of the work of a job.
#[derive(Default)]
pub(crate) struct Needs {
    /// The sizes of the engine.
    pub(crate) sizes: Sizes,
    /// The inputs that each rank reads or computes itself and that must be the same on all ranks.
    pub(crate) inputs: Vec<Input>,
    /// The longest time that one rank measures while the others wait in a collective call. It extends
    /// the limit of collective calls.
    pub(crate) max_alone: Duration,
    /// Whether the simulator orders an atomic after the WRITEs before it, as RC queue pairs do.
    pub(crate) orders_atomics: bool,
}

impl From<Sizes> for Needs {
    fn from(sizes: Sizes) -> Self {
        Self { sizes, ..Self::default() }
    }
}

/// Opens a further engine of these sizes together with the other ranks.
pub(crate) type Open<'o> = dyn Fn(Sizes, &mut dyn Exchange) -> Result<Engine> + 'o;

/// The engine of a rank, and the function that opens further ones.
pub(crate) struct JobEngine<'o> {
    pub(crate) current: Engine,
    pub(crate) open: &'o Open<'o>,
}

/// The work of a rank.
type Work<'w> = dyn Fn(&mut JobEngine<'_>, &mut dyn Exchange) -> Result<()> + Sync + 'w;

/// Runs `work` on all ranks. Returns its result on rank 0 and lines about the transport; `None` on
/// every rank but 0.
pub(crate) fn run<O: Send + Sync>(
    args: &JobArgs,
    needs: &Needs,
    work: impl Fn(&mut JobEngine<'_>, &mut dyn Exchange) -> Result<O> + Sync,
) -> Result<Option<(O, Vec<String>)>> {
    let output = OnceLock::new();
    let transport = run_ranks(args, needs, &|engine, exchange| {
        let mine = work(engine, exchange)?;
        if exchange.me() == Owner(0) {
            output.get_or_init(|| mine);
        }
        Ok(())
    })?;
    Ok(output.into_inner().zip(transport))
}

/// Runs `work` on all ranks. Returns lines about the transport; `None` on every rank but 0.
fn run_ranks(args: &JobArgs, needs: &Needs, work: &Work<'_>) -> Result<Option<Vec<String>>> {
    match args.transport {
        TransportName::Shm => run_on_machines(args, needs, work, None, &open_shm),
        TransportName::Verbs => run_verbs(args, needs, work),
        TransportName::Ucx => run_on_machines(args, needs, work, None, &|sizes, _, exchange| {
            open_ucx(&args.ucx, sizes, exchange)
        }),
        #[cfg(feature = "mpi")]
        TransportName::Mpi => run_mpi(args, needs, work),
        #[cfg(not(feature = "mpi"))]
        TransportName::Mpi => Err(JobArgs::no_mpi()),
        TransportName::Sim => run_sim(args, needs, work).map(Some),
    }
}

/// Refuses a further engine over a transport that has one in a job.
fn refuse_engine(_: Sizes, _: &mut dyn Exchange) -> Result<Engine> {
    Err(Failure::new(
        "cannot open another engine: this transport has one in a job; use --transport shm, verbs or ucx",
    ))
}

#[cfg(feature = "mpi")]
fn run_mpi(args: &JobArgs, needs: &Needs, work: &Work<'_>) -> Result<Option<Vec<String>>> {
    // Read before any thread is pinned, including MPI's own.
    let affinity = Affinity::take();
    let (world, mut members) = crate::mpi_job::join(args, needs)?;
    let mut transport = Vec::new();
    pin_rank(&args.place, None, &affinity, &mut members, &mut transport)?;
    let (current, line) = engines::open_mpi(needs.sizes, &mut members)?;
    transport.insert(0, line);
    let mut engine = JobEngine { current, open: &refuse_engine };
    if let Err(failure) = work(&mut engine, &mut members) {
        // Printed first: the other ranks may wait for this one in a collective call, until its
        // limit.
        failure.show();
        world.abort(1)
    }
    members.barrier()?;
    Ok((members.me() == Owner(0)).then_some(transport))
}

fn run_verbs(args: &JobArgs, needs: &Needs, work: &Work<'_>) -> Result<Option<Vec<String>>> {
    let device = args.verbs.device.as_deref();
    let builder = engines::verbs_builder(&args.verbs, needs.sizes)?;
    if args.rendezvous.address.is_none() && args.rendezvous.server().is_none() && !is_launched()? {
        // Fails before ranks are started. Ranks that meet over TCP may be on several machines. They
        // fail together when they open their engines.
        builder.probe(args.ranks)?;
    }
    let near =
        device.and_then(|name| probeline::pin::device_node("/sys".as_ref(), name).ok().flatten());
    run_on_machines(args, needs, work, near, &|sizes, memory, exchange| {
        open_verbs(&args.verbs, sizes, memory, exchange)
    })
}

/// Opens an engine of these sizes and returns it with a line about it.
type OpenEngine<'o> =
    dyn Fn(Sizes, MemoryPolicy, &mut dyn Exchange) -> Result<(Engine, String)> + 'o;

/// Runs `work` on ranks that are processes, pinned close to `near` if that is known.
fn run_on_machines(
    args: &JobArgs,
    needs: &Needs,
    work: &Work<'_>,
    near: Option<NodeId>,
    open: &OpenEngine<'_>,
) -> Result<Option<Vec<String>>> {
    // Read before any thread is pinned: afterwards the mask is that of the pinned thread.
    let affinity = Affinity::take();
    let (mut job, last_line) = join(args, needs)?;
    let me = job.me();
    let mut transport = Vec::new();
    let memory = pin_rank(&args.place, near, &affinity, &mut job, &mut transport)?;
    let first = || open(needs.sizes, memory, &mut job);
    let (current, line) = waiting("opening the transport", me == Owner(0), first)?;
    transport.insert(0, line);
    let next = |sizes: Sizes, exchange: &mut dyn Exchange| Ok(open(sizes, memory, exchange)?.0);
    let mut engine = JobEngine { current, open: &next };
    work(&mut engine, &mut job)
        .map_err(|failure| name_first_lost(failure, engine.current.timed()))?;
    leave(job, last_line)?;
    Ok((me == Owner(0)).then_some(transport))
}

/// Leaves the job together with the other ranks, and prints `last_line`.
fn leave(mut job: Job, last_line: Option<String>) -> Result<()> {
    job.barrier()?;
    job.finish(CHILDREN_LEAVE)?;
    if let Some(last_line) = last_line {
        // Ignores an error: the result does not depend on this line.
        let _ = terminal::stdout().line(&last_line);
    }
    Ok(())
}

/// Names the rank that was lost first. Ranks that exit because of that loss look lost to the
/// exchange too; only the engine records which one was first.
fn name_first_lost(failure: Failure, engine: &mut dyn Timed) -> Failure {
    if !failure.is_loss() {
        return failure;
    }
    let polls = POLLS_TO_ASK * engine.geometry().owners;
    // A dead engine reports its fault after all operations in flight.
    let mut reported = [Completion { token: Token(0), result: Ok(0) }; 16];
    let fault = (0..polls).find_map(|_| engine.poll(&mut reported).err());
    fault.map_or(failure, Failure::from)
}

/// Joins the job, whose ranks have the same options and inputs, and returns a line to print at the
/// end.
pub(crate) fn join(args: &JobArgs, needs: &Needs) -> Result<(Job, Option<String>)> {
    let rendezvous = &args.rendezvous;
    let given = rendezvous.secret_file.as_ref().map(Secret::from_file).transpose()?;
    let first = args.nodes.two_nodes.as_deref() == Some("");
    let limit_s =
        rendezvous.rendezvous_timeout.unwrap_or(if first { FOR_A_PERSON_S } else { RENDEZVOUS_S });
    let agreement = Agreement::from_job(args, needs.inputs.clone());
    let parameters = agreement.text.clone();
    let limits = Limits {
        rendezvous: Duration::from_secs(limit_s),
        collective: Duration::from_secs(rendezvous.collective_timeout) + needs.max_alone,
    };
    let node = two_nodes::node(&args.nodes, Options::given(), limit_s, given.clone())?;
    let is_node = node.is_some();
    let node = match node {
        Some(node) => node,
        None => Node::from_start(start(args)?, given),
    };
    // On standard error, because standard output has the report. Ignores an error: standard error
    // may be closed.
    let _ = write!(terminal::stderr(), "{}", node.said);
    let options = exchange::Options { start: node.start, parameters, secret: node.secret, limits };
    let join = || exchange::join(options);
    let job = waiting(&node.waits_for, is_node || args.reports(), join);
    let not_met = |error| two_nodes::not_met(error, &args.nodes);
    Ok((job.map_err(|error| agreement.explain(error, not_met))?, node.last_line))
}

fn start(args: &JobArgs) -> Result<Start> {
    let (rendezvous, ranks) = (&args.rendezvous, args.ranks);
    let allow_remote = rendezvous.allow_remote;
    let address = rendezvous.address.clone().map(|address| Rendezvous { address, allow_remote });
    Ok(match (rendezvous.server(), address, rendezvous.rank) {
        (Some(server), ..) => Start::Served(server),
        _ if rendezvous.exchange == Some(ExchangeName::Spawn) => {
            Start::Spawn { ranks, arguments: None }
        }
        (_, Some(rendezvous), Some(rank)) => Start::Manual { rank, ranks, rendezvous },
        (_, Some(_), None) if !is_launched()? => {
            return Err(Failure::usage(
                "--rendezvous without a launcher: say which rank this is with --rank, \
                 0 to the number of --ranks less one",
            ));
        }
        (_, rendezvous, _) => Start::Auto { ranks, rendezvous },
    })
}

/// Returns whether a launcher has started this process as one of several.
pub(crate) fn is_launched() -> Result<bool> {
    Ok(exchange::Launch::from_env_if_several()?.is_some())
}

fn run_sim(args: &JobArgs, needs: &Needs, work: &Work<'_>) -> Result<Vec<String>> {
    let two_nodes = args.nodes.two_nodes.is_some();
    if args.rendezvous.address.is_some() || two_nodes || is_launched()? {
        return Err(Failure::usage(
            "the simulator has all ranks in one process: start it once, with --ranks, without a \
             launcher and --rendezvous or --two-nodes",
        ));
    }
    let config = probeline::sim::Config {
        seed: args.seed,
        model: args.sim.model(args.ranks)?,
        write_then_atomic: needs.orders_atomics,
        ..probeline::sim::Config::new(args.ranks, needs.sizes)
    };
    let cluster = probeline::sim::Cluster::new(config)?;
    let ended = probeline::sim::stage::run(&cluster, |engine, mut exchange| -> Result<()> {
        let mut engine = JobEngine { current: Engine::Sim(engine), open: &refuse_engine };
        work(&mut engine, &mut exchange)?;
        Ok(exchange.barrier()?)
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
    for (rank, ended) in (0..).zip(ended) {
        match ended {
            Ok(()) => {}
            // Printed once if every rank fails with it.
            Err(failure) if failure.is_everywhere() => return Err(failure),
            Err(failure) => failures.push(format!("rank {rank}: {failure}")),
        }
    }
    if !failures.is_empty() {
        return Err(Failure::new(failures.join("; ")));
    }
    Ok(transport)
}
