//! What is done to machines from outside happens to them.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use super::perftest::figure;
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::error::Error;
use crate::faults::Link;
use crate::machine::Machine;
use crate::patience::PATIENCE;

/// Long enough for a running guest to say something, many times.
const WHILE: Duration = Duration::from_secs(1);

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Two, "a_pulled_wire_is_noticed_and_plugged_in_again", wire),
    Case::new(Layer::Two, "a_frozen_machine_stands_still_and_goes_on", frozen),
    Case::new(Layer::Two, "lost_packets_are_sent_again", loss),
    Case::new(Layer::Two, "a_killed_machine_leaves_the_other_alone", killed).spoils(),
];

fn wire(bed: &Bed) -> Result<(), Failure> {
    let (near, far) = (bed.machine(1), bed.machine(2));
    far.set_link(Link::Off)?;
    await_port(far, "DOWN")?;
    let untouched = near.run(&port_is("ACTIVE"), PATIENCE);
    // Whatever was seen, the next case wants the wire.
    far.set_link(Link::On)?;
    ensure(untouched?.status == 0, || "the other machine noticed as well".to_owned())?;
    await_port(far, "ACTIVE")?;
    figure("ib_read_lat --iters 100", far, near).map(|_| ())
}

fn await_port(machine: &Machine, state: &str) -> Result<(), Failure> {
    let until = format!("until {}; do sleep 0.05; done", port_is(state));
    machine.output(&until, PATIENCE)?;
    Ok(())
}

fn port_is(state: &str) -> String {
    format!("grep -q {state} /sys/class/infiniband/rxe0/ports/1/state")
}

fn frozen(bed: &Bed) -> Result<(), Failure> {
    let machine = bed.machine(2);
    let ticks = machine.start("while sleep 0.05; do echo tick; done", PATIENCE)?;
    ticks.wait_for("tick")?;
    machine.freeze()?;
    let before = ticks.output().len();
    thread::sleep(WHILE);
    let after = ticks.output().len();
    machine.thaw()?;
    ensure(before == after, || "it went on while frozen".to_owned())?;
    let deadline = Instant::now() + PATIENCE;
    while ticks.output().len() == after {
        ensure(Instant::now() < deadline, || "it did not go on once thawed".to_owned())?;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn loss(bed: &Bed) -> Result<(), Failure> {
    let (near, far) = (bed.machine(1), bed.machine(2));
    let before = near.counter("completer_retry_err")?;
    far.netem("loss 10%")?;
    let outcome = figure("ib_read_lat --iters 100", far, near);
    far.netem_off()?;
    outcome?;
    let retries = near.counter("completer_retry_err")? - before;
    ensure(retries > 0, || "nothing was sent again".to_owned())
}

fn killed(bed: &Bed) -> Result<(), Failure> {
    let (near, far) = (bed.machine(1), bed.machine(2));
    let running = far.start("echo started; sleep 3600", PATIENCE)?;
    running.wait_for("started")?;
    far.kill()?;
    let ended = running.wait();
    ensure(matches!(ended, Err(Error::Ended { machine: 2, .. })), || format!("{ended:?}"))?;
    near.output("true", PATIENCE)?;
    Ok(())
}
