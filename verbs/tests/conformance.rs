//! The conformance suite of transports, over stand-in devices; each owner is a thread.

use crate::job;
use crate::stand_in::{Fabric, Setup};
use probeline_transport::Owner;
use probeline_transport::conformance::{Failure, Report, Rig, cases};
use probeline_verbs::Builder;
use probeline_verbs_sys::IBV_ATOMIC_GLOB;

/// The cases that are skipped on a device whose atomics are atomic with the CPU's and whose word
/// reads are whole.
const SKIPS: &[&str] = &[];
/// The cases that are skipped on a device that promises neither.
const MIN_SKIPS: &[&str] = &["words_are_whole_under_a_writer", "atomic_with_the_cpu"];

/// Where a case runs.
#[derive(Clone, Copy, PartialEq)]
enum On {
    /// On an engine whose word reads are whole.
    WholeReads,
    Engine,
    /// On a channel of a channel, beside busy channels.
    Channel,
}

/// Runs all cases, each on a new fabric with a machine for each owner, which `setup` configures.
fn suite(on: On, fabric: impl Fn() -> Fabric, setup: impl Fn(Owner) -> Setup) {
    let whole = on == On::WholeReads;
    for owners in 1..=3 {
        let mut report = Report::new(owners);
        for case in cases(owners) {
            let sizes = if on == On::Channel { case.sizes_with_channels() } else { case.sizes };
            let fabric = fabric();
            let machines: Vec<_> =
                (0..owners).map(|owner| fabric.machine(setup(Owner(owner)))).collect();
            let verdicts = job::run(&machines, |machine, exchange| {
                let builder = Builder::new(sizes).libibverbs(machine.libibverbs());
                let mut engine = job::open(&builder.word_reads_whole(whole), exchange)
                    .map_err(|error| Failure(format!("{error} ({error:?})")))?;
                match on {
                    On::Channel => case.run_on_channel(&mut engine, exchange, |rig| rig),
                    _ => case.run(&mut Rig::new(&mut engine, exchange)),
                }
            });
            report.add(case, &verdicts);
            drop(machines);
            fabric.judge_empty();
        }
        report.judge(if whole { SKIPS } else { MIN_SKIPS }).unwrap();
    }
}

#[test]
fn on_ethernet_immediate() {
    let setup = |_| Setup::with(|device| device.atomics = IBV_ATOMIC_GLOB);
    suite(On::WholeReads, Fabric::new, setup);
}

#[test]
fn on_ethernet_reordered() {
    suite(On::Engine, || Fabric::lazy(7), |_| Setup::default());
}

#[test]
fn on_nested_channel() {
    suite(On::Channel, || Fabric::lazy(7), |_| Setup::default());
}

#[test]
fn on_infiniband() {
    suite(On::Engine, Fabric::new, |_| Setup::with(|device| device.ethernet = false));
}

#[test]
fn on_different_devices() {
    let setup = |owner: Owner| {
        Setup::with(|device| {
            device.mtu += owner.0;
            device.reads >>= owner.0;
            device.inline_bytes = 32 * owner.0;
            device.gids.rotate_left(owner.0 as usize);
        })
    };
    suite(On::Engine, Fabric::new, setup);
}
