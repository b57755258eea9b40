//! A job whose owners are threads, each with its own machine.

use core::sync::atomic::AtomicU64;

use probeline_exchange::{Thread, threads};
use probeline_transport::conformance::on_threads;
use probeline_transport::{Exchange, Sizes};
use probeline_verbs::{Builder, Engine, OpenError};

use crate::stand_in::{Fabric, Machine, Setup};

/// The number of words of a window.
pub(crate) const WINDOW_WORDS: u64 = 64;
/// The number of slots.
pub(crate) const SLOTS: u32 = 4;
pub(crate) const SLOT_WORDS: u32 = 16;
/// The maximum number of operations in flight.
pub(crate) const DEPTH: u32 = 48;

pub(crate) const SIZES: Sizes =
    Sizes { window_words: WINDOW_WORDS, slots: SLOTS, slot_words: SLOT_WORDS, depth: DEPTH };

/// Returns a builder with the sizes above, for the machine's devices.
pub(crate) fn builder(machine: &Machine) -> Builder {
    Builder::new(SIZES).libibverbs(machine.libibverbs())
}

/// Opens an engine whose window is zero.
pub(crate) fn open<E>(builder: &Builder, exchange: &mut E) -> Result<Engine, OpenError>
where
    E: Exchange + ?Sized,
{
    builder.open_in(exchange, |_, words| Ok(Box::new(zeroes(words))))
}

pub(crate) fn zeroes(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// Runs `body` on one thread for each machine, and returns the results.
pub(crate) fn run<R: Send>(
    machines: &[Machine],
    body: impl Fn(&Machine, &mut Thread) -> R + Sync,
) -> Vec<R> {
    let members = threads(u32::try_from(machines.len()).unwrap());
    on_threads(members, |mut member| body(&machines[member.me().0 as usize], &mut member))
}

/// Adds `owners` machines with one device each.
pub(crate) fn machines(fabric: &Fabric, owners: usize) -> Vec<Machine> {
    (0..owners).map(|_| fabric.machine(Setup::default())).collect()
}

/// Opens an engine on each machine. The calling thread uses all of them.
pub(crate) fn engines(machines: &[Machine]) -> Vec<Engine> {
    run(machines, |machine, member| open(&builder(machine), member).unwrap())
}
