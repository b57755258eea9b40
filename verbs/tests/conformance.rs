//! The conformance suite of transports, over stand-in devices; each owner is a thread.

use core::sync::atomic::AtomicU64;

use crate::stand_in::{Fabric, Machine, Setup};
use probeline_transport::conformance::{Case, Failure, Report, Rig, Verdict, cases, on_threads};
use probeline_transport::{Exchange, Owner, Sizes};
use probeline_verbs::{Builder, Engine};
use probeline_verbs_sys::IBV_ATOMIC_GLOB;

/// The cases that are skipped on a device whose atomics are atomic with the CPU's and whose word
/// reads are whole.
const SKIPS: &[&str] = &[];
/// The cases that are skipped on a device that promises neither.
const MIN_SKIPS: &[&str] = &["words_are_whole_under_a_writer", "atomic_with_the_cpu"];

fn open(
    sizes: Sizes,
    machine: &Machine,
    whole: bool,
    exchange: &mut dyn Exchange,
) -> Result<Engine, Failure> {
    Builder::new(sizes)
        .libibverbs(machine.libibverbs())
        .word_reads_whole(whole)
        .open_in(exchange, |_, words| Ok(Box::new(zeroes(words))))
        .map_err(|error| Failure(format!("{error} ({error:?})")))
}

fn zeroes(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// A function that runs a case on the machine of its owner. The flag says whether words are read
/// whole.
type Run = fn(&Case, &Machine, bool, &mut dyn Exchange) -> Result<Verdict, Failure>;

fn on_engine(
    case: &Case,
    machine: &Machine,
    whole: bool,
    exchange: &mut dyn Exchange,
) -> Result<Verdict, Failure> {
    let mut engine = open(case.sizes, machine, whole, exchange)?;
    case.run(&mut Rig::new(&mut engine, exchange))
}

/// Runs the case on a channel of a channel, beside busy channels.
fn on_channel(
    case: &Case,
    machine: &Machine,
    whole: bool,
    exchange: &mut dyn Exchange,
) -> Result<Verdict, Failure> {
    let mut engine = open(case.sizes_with_channels(), machine, whole, exchange)?;
    case.run_on_channel(&mut engine, exchange, |rig| rig)
}

/// Runs all cases, each on a new fabric with a machine for each owner, which `setup` configures.
fn suite(run: Run, fabric: impl Fn() -> Fabric, setup: impl Fn(Owner) -> Setup, whole: bool) {
    let skips = if whole { SKIPS } else { MIN_SKIPS };
    for owners in 1..=3 {
        let mut report = Report::new(owners);
        for case in cases(owners) {
            let fabric = fabric();
            let machines: Vec<_> =
                (0..owners).map(|owner| fabric.machine(setup(Owner(owner)))).collect();
            let verdicts = on_threads(probeline_exchange::threads(owners), |mut member| {
                run(case, &machines[member.me().0 as usize], whole, &mut member)
            });
            report.add(case, &verdicts);
            drop(machines);
            fabric.judge_empty();
        }
        report.judge(skips).unwrap();
    }
}

#[test]
fn on_ethernet_immediate() {
    let setup = |_| Setup::with(|device| device.atomics = IBV_ATOMIC_GLOB);
    suite(on_engine, Fabric::new, setup, true);
}

#[test]
fn on_ethernet_reordered() {
    suite(on_engine, || Fabric::lazy(7), |_| Setup::default(), false);
}

#[test]
fn on_nested_channel() {
    suite(on_channel, || Fabric::lazy(7), |_| Setup::default(), false);
}

#[test]
fn on_infiniband() {
    suite(on_engine, Fabric::new, |_| Setup::with(|device| device.ethernet = false), false);
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
    suite(on_engine, Fabric::new, setup, false);
}
