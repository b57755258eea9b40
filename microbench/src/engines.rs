//! Engines of all transports, opened according to the options.

use probeline::pin::{self, MemoryPolicy};
use probeline::transport::{Exchange, LINE_WORDS, Sizes};
use probeline_programs::Timed;

use crate::cli::{UcxArgs, VerbsArgs};
use crate::failure::Result;
use crate::terminal::{self, Missing};

/// The engine of a rank.
// A rank has one, or two while a table grows.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Engine {
    Shm(probeline::shm::Engine),
    Verbs(probeline::verbs::Engine),
    Ucx(probeline::ucx::Engine),
    #[cfg(feature = "mpi")]
    Mpi(probeline::mpi::Engine),
    Sim(probeline::sim::Engine),
}

/// Work that is compiled for each type of engine, because it measures single operations.
pub(crate) trait Measurement {
    type Output;

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output>;
}

impl Engine {
    pub(crate) fn timed(&mut self) -> &mut dyn Timed {
        match self {
            Self::Shm(engine) => engine,
            Self::Verbs(engine) => engine,
            Self::Ucx(engine) => engine,
            #[cfg(feature = "mpi")]
            Self::Mpi(engine) => engine,
            Self::Sim(engine) => engine,
        }
    }

    /// Runs `measurement` as compiled for the type of this engine.
    pub(crate) fn measure<M: Measurement>(
        &mut self,
        measurement: &M,
        exchange: &mut dyn Exchange,
    ) -> Result<M::Output> {
        match self {
            Self::Shm(engine) => measurement.run(engine, exchange),
            Self::Verbs(engine) => measurement.run(engine, exchange),
            Self::Ucx(engine) => measurement.run(engine, exchange),
            #[cfg(feature = "mpi")]
            Self::Mpi(engine) => measurement.run(engine, exchange),
            Self::Sim(engine) => measurement.run(engine, exchange),
        }
    }
}

pub(crate) fn open_shm(
    sizes: Sizes,
    memory: MemoryPolicy,
    exchange: &mut dyn Exchange,
) -> Result<(Engine, String)> {
    let engine = probeline::shm::Builder::new(sizes).memory(memory).open(exchange)?;
    let unbound = unbound(engine.policy_refused(), exchange)?;
    let mut line = format!("shm, {} ranks{unbound}", exchange.owners());
    // Work that uses no window opens one of a line.
    if sizes.window_words > LINE_WORDS.into() {
        line += &format!(", windows on {}", engine.pages());
    }
    Ok((Engine::Shm(engine), line))
}

pub(crate) fn open_verbs(
    args: &VerbsArgs,
    sizes: Sizes,
    memory: MemoryPolicy,
    exchange: &mut dyn Exchange,
) -> Result<(Engine, String)> {
    // The device accesses the windows; the CPU hardly does.
    let memory = MemoryPolicy { node: None, ..memory };
    let engine = verbs_builder(args, sizes)?.memory(memory).open(exchange)?;
    let unbound = unbound(engine.policy_refused(), exchange)?;
    let line = format!("verbs, {} ranks{unbound}, {}", exchange.owners(), engine.link());
    Ok((Engine::Verbs(engine), line))
}

/// Prints one note for all ranks if the memory of any rank is not bound to a node, and returns the
/// matching text for the line about the engine. All ranks call this.
fn unbound(refused: Option<&pin::Error>, exchange: &mut dyn Exchange) -> Result<&'static str> {
    let any = terminal::say_once(Missing::Policy, refused, exchange)?;
    Ok(if any { ", without a NUMA policy" } else { "" })
}

pub(crate) fn open_ucx(
    args: &UcxArgs,
    sizes: Sizes,
    exchange: &mut dyn Exchange,
) -> Result<(Engine, String)> {
    let engine = probeline::ucx::Builder::new(sizes)
        .tls(args.ucx_tls.as_deref())
        .device(args.ucx_device.as_deref())
        .gid_index(args.ucx_gid_index)
        .atomics(args.ucx_atomics)
        .open(exchange)?;
    let line = format!("ucx, {} ranks, {}", exchange.owners(), engine.info());
    Ok((Engine::Ucx(engine), line))
}

/// Returns a builder of an engine of libibverbs without a memory policy.
pub(crate) fn verbs_builder(args: &VerbsArgs, sizes: Sizes) -> Result<probeline::verbs::Builder> {
    Ok(probeline::verbs::Builder::new(sizes)
        .device(args.device.as_deref())
        .port(args.ib_port)
        .gid_index(args.gid_index)
        .pkey_index(args.pkey_index)
        .service_level(args.service_level)
        .traffic_class(args.traffic_class)
        .retry(probeline::verbs::Retry::new(args.timeout, args.retries)?))
}

/// Opens an engine of MPI and returns a line about it.
#[cfg(feature = "mpi")]
pub(crate) fn open_mpi(
    sizes: Sizes,
    members: &mut probeline::mpi::Members,
) -> Result<(Engine, String)> {
    let engine = probeline::mpi::Builder::new(sizes).open(members)?;
    let line = format!("mpi, {} ranks, {}", members.owners(), engine.info());
    Ok((Engine::Mpi(engine), line))
}
