//! The test bed itself: commands run in guests and end, and guests are configured. The cases of
//! other files show that the device is active and that faults happen.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::HANG_TIMEOUT;
use crate::case::{Case, Layer};
use crate::error::Error;
use crate::machine::Machine;
use crate::testbed::Testbed;

pub(super) const CASES: &[Case] = &[
    Case::test(Layer::Loopback, "commands_are_killed_with_their_children", killed_with_children),
    Case::test(Layer::Loopback, "commands_have_their_environment", environment),
];

/// Kills commands by a signal, by a drop and at their time limit.
fn killed_with_children(testbed: &Testbed) -> Result<()> {
    const KILLED: i32 = 128 + 9;
    let node = testbed.machine(1);
    let parent = node.start("sleep 3599 & echo started; wait", HANG_TIMEOUT)?;
    parent.wait_for_line("started")?;
    parent.signal("KILL")?;
    ensure!(parent.wait()?.status == KILLED, "the command was not killed");
    // Dropped at once, so that now and then the signal arrives before the command has started.
    for _ in 0..3 {
        drop(node.start("exec sleep 3597", HANG_TIMEOUT)?);
    }
    let (start, limit) = (Instant::now(), Duration::from_millis(500));
    let error = node.run("echo begun; sleep 3598", limit).err().context("it ended")?;
    ensure!(matches!(error.downcast_ref(), Some(Error::Timeout { .. })), "{error:#}");
    ensure!(start.elapsed() < HANG_TIMEOUT, "the limit was exceeded");
    no_process(node, "sleep 359[789]")
}

/// Fails if a process of the guest matches the pattern.
fn no_process(node: &Machine, pattern: &str) -> Result<()> {
    let left = node.run(&format!("pgrep -f '{pattern}'"), HANG_TIMEOUT)?;
    ensure!(left.status == 1, "left behind: {}", left.output);
    Ok(())
}

fn environment(testbed: &Testbed) -> Result<()> {
    let node = testbed.machine(1);
    let show = "echo $NODE $HOME $(hostname) $(ulimit -l) $(id -u); tc -V; touch $SHARE/left";
    let text = node.output(show, HANG_TIMEOUT)?;
    ensure!(text.starts_with("1 /run/home node1 unlimited 0\n"), "{text}");
    let left = testbed.dir().join("share/left");
    ensure!(left.exists(), "no {}", left.display());
    // With ERMS the guest's kernel would copy byte by byte.
    node.output("grep -q '^flags' /proc/cpuinfo && ! grep -qw erms /proc/cpuinfo", HANG_TIMEOUT)?;
    let missing = node.start("echo one thing", HANG_TIMEOUT)?.wait_for_line("another");
    let error = missing.err().context("found a line that was not printed")?;
    ensure!(matches!(error.downcast_ref(), Some(Error::NoOutput { .. })), "{error:#}");
    Ok(())
}
