//! Owners of one job, each a thread with a machine of its own.

use core::sync::atomic::AtomicU64;
use std::thread;

use probeline_exchange::Thread;
use probeline_transport::Exchange;
use probeline_verbs::{Builder, Engine, OpenError};

use crate::stand_in::{Fabric, Machine, Setup};

/// Words of a window.
pub(crate) const WINDOW_WORDS: u64 = 64;
/// Slots, and words in each.
pub(crate) const SLOTS: u32 = 4;
pub(crate) const SLOT_WORDS: u32 = 16;
/// Operations in flight.
pub(crate) const DEPTH: u32 = 48;

/// The sizes above, over the machine's devices.
pub(crate) fn builder(machine: &Machine) -> Builder {
    let builder = Builder::new(WINDOW_WORDS).libibverbs(machine.libibverbs());
    builder.slots(SLOTS, SLOT_WORDS).depth(DEPTH)
}

/// Opens with a window of zeroes.
pub(crate) fn open(builder: &Builder, exchange: &mut impl Exchange) -> Result<Engine, OpenError> {
    builder.open_in(exchange, |_, words| Ok(Box::new(zeroes(words))))
}

pub(crate) fn zeroes(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// Lets as many owners as there are machines do `body`; what each has returned.
pub(crate) fn run<R: Send>(
    machines: &[Machine],
    body: impl Fn(&Machine, &mut Thread) -> R + Sync,
) -> Vec<R> {
    let members = probeline_exchange::threads(u32::try_from(machines.len()).unwrap());
    thread::scope(|scope| {
        let body = &body;
        let owners: Vec<_> = members
            .into_iter()
            .zip(machines)
            .map(|(mut member, machine)| scope.spawn(move || body(machine, &mut member)))
            .collect();
        owners.into_iter().map(|owner| owner.join().unwrap()).collect()
    })
}

/// So many machines with one device each.
pub(crate) fn machines(fabric: &Fabric, owners: usize) -> Vec<Machine> {
    (0..owners).map(|_| fabric.machine(Setup::default())).collect()
}

/// The engines of all machines, to be used by this thread.
pub(crate) fn engines(machines: &[Machine]) -> Vec<Engine> {
    run(machines, |machine, member| open(&builder(machine), member).unwrap())
}
