//! The test bed itself: commands run in guests, guests are configured, and faults happen.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::perftest;
use crate::HANG_TIMEOUT;
use crate::case::{Case, Layer};
use crate::error::Error;
use crate::machine::{Link, Machine};
use crate::testbed::Testbed;

pub(super) const CASES: &[Case] = &[
    Case::test(Layer::Loopback, "commands_run_concurrently", commands_run_concurrently),
    Case::test(Layer::Loopback, "commands_are_killed_with_their_children", killed_with_children),
    Case::test(Layer::Loopback, "dropped_commands_are_killed", dropped),
    Case::test(Layer::Loopback, "a_command_is_killed_at_its_limit", limit),
    Case::test(Layer::Loopback, "commands_have_their_environment", environment),
    Case::test(Layer::Loopback, "the_device_is_active", device),
    Case::test(Layer::Loopback, "the_gid_is_roce_v2", gid),
    Case::test(Layer::Loopback, "the_cpu_has_no_erms", |testbed| has_erms(testbed, false)),
    Case::test(Layer::Tearing, "the_cpu_has_erms", |testbed| has_erms(testbed, true)),
    Case::test(Layer::Two, "a_link_goes_down_and_up", link),
    Case::test(Layer::Two, "a_frozen_machine_resumes", freeze),
    Case::test(Layer::Two, "lost_packets_are_retransmitted", loss),
    Case::test(Layer::Two, "a_killed_machine_does_not_affect_the_other", kill).destructive(),
];

fn commands_run_concurrently(testbed: &Testbed) -> Result<()> {
    const KILLED_LATER: &str = "touch /run/flag; echo created; sleep 3600";
    let node = testbed.machine(1);
    let waiter =
        node.start("until [ -e /run/flag ]; do sleep 0.05; done; echo seen", HANG_TIMEOUT)?;
    let creator = node.start(KILLED_LATER, HANG_TIMEOUT)?;
    ensure!(creator.wait_for_line("created")? == "created", "unexpected line");
    ensure!(waiter.wait()?.success()? == "seen\n", "unexpected output");
    let exit = node.run("echo bad; exit 3", HANG_TIMEOUT)?;
    ensure!((exit.status, exit.output.as_str()) == (3, "bad\n"), "{exit:?}");
    let missing = node.start("echo one thing", HANG_TIMEOUT)?.wait_for_line("another");
    let error = missing.err().context("found a line that was not printed")?;
    ensure!(matches!(error.downcast_ref(), Some(Error::NoOutput { .. })), "{error:#}");
    Ok(())
}

fn killed_with_children(testbed: &Testbed) -> Result<()> {
    const KILLED: i32 = 128 + 9;
    let node = testbed.machine(1);
    let parent = node.start("sleep 3599 & echo started; wait", HANG_TIMEOUT)?;
    parent.wait_for_line("started")?;
    parent.signal("KILL")?;
    ensure!(parent.wait()?.status == KILLED, "the command was not killed");
    no_process(node, "sleep 359[9]")
}

fn dropped(testbed: &Testbed) -> Result<()> {
    let node = testbed.machine(1);
    // Dropped at once, so that now and then the signal arrives before the command has started.
    for _ in 0..3 {
        drop(node.start("exec sleep 3597", HANG_TIMEOUT)?);
    }
    no_process(node, "sleep 359[7]")
}

fn limit(testbed: &Testbed) -> Result<()> {
    let node = testbed.machine(1);
    let (start, limit) = (Instant::now(), Duration::from_millis(500));
    let error = node.run("echo begun; sleep 3598", limit).err().context("it ended")?;
    ensure!(matches!(error.downcast_ref(), Some(Error::Timeout { .. })), "{error:#}");
    ensure!(start.elapsed() < HANG_TIMEOUT, "the limit was exceeded");
    no_process(node, "sleep 359[8]")
}

/// Fails if a process of the guest matches the pattern.
fn no_process(node: &Machine, pattern: &str) -> Result<()> {
    let left = node.run(&format!("pgrep -f '{pattern}'"), HANG_TIMEOUT)?;
    ensure!(left.status == 1, "left behind: {}", left.output);
    Ok(())
}

fn environment(testbed: &Testbed) -> Result<()> {
    let show = "echo $NODE $HOME $(hostname) $(ulimit -l) $(id -u); tc -V; touch $SHARE/left";
    let text = testbed.machine(1).output(show, HANG_TIMEOUT)?;
    ensure!(text.starts_with("1 /run/home node1 unlimited 0\n"), "{text}");
    let left = testbed.dir().join("share/left");
    ensure!(left.exists(), "no {}", left.display());
    Ok(())
}

fn device(testbed: &Testbed) -> Result<()> {
    let text = testbed.machine(1).output("ibv_devinfo -d rxe0", HANG_TIMEOUT)?;
    let line = text.lines().find(|line| line.trim_start().starts_with("state:"));
    ensure!(line.is_some_and(|line| line.contains("PORT_ACTIVE")), "{text}");
    Ok(())
}

fn gid(testbed: &Testbed) -> Result<()> {
    let table = "/sys/class/infiniband/rxe0/ports/1";
    let show = format!("cd {table}; cat gids/$GID_INDEX gid_attrs/types/$GID_INDEX");
    let text = testbed.machine(1).output(&show, HANG_TIMEOUT)?;
    ensure!(text == "0000:0000:0000:0000:0000:ffff:0a00:0001\nRoCE v2\n", "{text}");
    Ok(())
}

/// Without ERMS the guest's kernel copies by words, with it byte by byte.
fn has_erms(testbed: &Testbed, expected: bool) -> Result<()> {
    let text = testbed.machine(1).output("cat /proc/cpuinfo", HANG_TIMEOUT)?;
    let flags = text.lines().find(|line| line.starts_with("flags"));
    let flags = flags.with_context(|| format!("no flags: {text}"))?;
    ensure!(flags.split_whitespace().any(|flag| flag == "erms") == expected, "{flags}");
    Ok(())
}

fn link(testbed: &Testbed) -> Result<()> {
    let (near, far) = (testbed.machine(1), testbed.machine(2));
    far.set_link(Link::Down)?;
    wait_for_port(far, "DOWN")?;
    let near_port = near.run(&port_is("ACTIVE"), HANG_TIMEOUT);
    // The next case needs the link, whatever was seen.
    far.set_link(Link::Up)?;
    ensure!(near_port?.status == 0, "the port of the other machine went down");
    wait_for_port(far, "ACTIVE")?;
    perftest::measure("ib_read_lat --iters 100", far, near).map(drop)
}

fn wait_for_port(machine: &Machine, state: &str) -> Result<()> {
    let until = format!("until {}; do sleep 0.05; done", port_is(state));
    machine.output(&until, HANG_TIMEOUT).map(drop)
}

fn port_is(state: &str) -> String {
    format!("grep -q {state} /sys/class/infiniband/rxe0/ports/1/state")
}

fn freeze(testbed: &Testbed) -> Result<()> {
    /// A running guest prints many ticks in this time.
    const FROZEN_TIME: Duration = Duration::from_secs(1);
    let machine = testbed.machine(2);
    let ticks = machine.start("while sleep 0.05; do echo tick; done", HANG_TIMEOUT)?;
    ticks.wait_for_line("tick")?;
    machine.freeze()?;
    let before = ticks.output().len();
    thread::sleep(FROZEN_TIME);
    let after = ticks.output().len();
    machine.thaw()?;
    ensure!(before == after, "the guest ran while it was frozen");
    let deadline = Instant::now() + HANG_TIMEOUT;
    while ticks.output().len() == after {
        ensure!(Instant::now() < deadline, "the guest did not resume");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn loss(testbed: &Testbed) -> Result<()> {
    let (near, far) = (testbed.machine(1), testbed.machine(2));
    let before = near.counter("completer_retry_err")?;
    far.netem("loss 10%")?;
    let outcome = perftest::measure("ib_read_lat --iters 100", far, near);
    far.netem_off()?;
    outcome?;
    let retries = near.counter("completer_retry_err")? - before;
    ensure!(retries > 0, "no packet was retransmitted");
    Ok(())
}

fn kill(testbed: &Testbed) -> Result<()> {
    let (near, far) = (testbed.machine(1), testbed.machine(2));
    let running = far.start("echo started; sleep 3600", HANG_TIMEOUT)?;
    running.wait_for_line("started")?;
    far.kill()?;
    let error = running.wait().err().context("the command ended")?;
    let ended = matches!(error.downcast_ref(), Some(Error::MachineEnded { machine: 2, .. }));
    ensure!(ended, "{error:#}");
    near.output("true", HANG_TIMEOUT).map(drop)
}
