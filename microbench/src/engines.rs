//! Opens engines of all transports according to the options.

use probeline::pin::{self, MemoryPolicy};
use probeline::transport::{Exchange, LINE_WORDS, Sizes};

use crate::cli::{UcxArgs, VerbsArgs};
use crate::failure::Result;
use crate::note::{self, Missing};

pub(crate) fn open_shm(
    sizes: Sizes,
    memory: MemoryPolicy,
    exchange: &mut dyn Exchange,
) -> Result<(probeline::shm::Engine, String)> {
    let engine = probeline::shm::Builder::new(sizes).memory(memory).open(exchange)?;
    let unbound = unbound(engine.policy_refused(), exchange)?;
    let mut line = format!("shm, {} ranks{unbound}", exchange.owners());
    // Work that uses no window opens one of a line.
    if sizes.window_words > LINE_WORDS.into() {
        line += &format!(", windows on {}", engine.pages());
    }
    Ok((engine, line))
}

pub(crate) fn open_verbs(
    args: &VerbsArgs,
    sizes: Sizes,
    memory: MemoryPolicy,
    exchange: &mut dyn Exchange,
) -> Result<(probeline::verbs::Engine, String)> {
    // The device accesses the windows; the CPU hardly does.
    let memory = MemoryPolicy { node: None, ..memory };
    let engine = verbs_builder(args, sizes)?.memory(memory).open(exchange)?;
    let unbound = unbound(engine.policy_refused(), exchange)?;
    let line = format!("verbs, {} ranks{unbound}, {}", exchange.owners(), engine.link());
    Ok((engine, line))
}

/// Prints one note for all ranks if the memory of any rank is not bound to a node, and returns the
/// matching text for the line about the engine. All ranks call this.
fn unbound(refused: Option<&pin::Error>, exchange: &mut dyn Exchange) -> Result<&'static str> {
    let any = note::say_once(Missing::Policy, refused, exchange)?;
    Ok(if any { ", without a NUMA policy" } else { "" })
}

pub(crate) fn open_ucx(
    args: &UcxArgs,
    sizes: Sizes,
    exchange: &mut dyn Exchange,
) -> Result<(probeline::ucx::Engine, String)> {
    let engine = probeline::ucx::Builder::new(sizes)
        .tls(args.ucx_tls.as_deref())
        .device(args.ucx_device.as_deref())
        .gid_index(args.ucx_gid_index)
        .atomics(args.ucx_atomics)
        .open(exchange)?;
    let line = format!("ucx, {} ranks, {}", exchange.owners(), engine.info());
    Ok((engine, line))
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
) -> Result<(probeline::mpi::Engine, String)> {
    let engine = probeline::mpi::Builder::new(sizes).open(members)?;
    let line = format!("mpi, {} ranks, {}", members.owners(), engine.info());
    Ok((engine, line))
}
