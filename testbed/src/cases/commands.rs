//! The bed itself: commands start, are heard, and end.

use core::time::Duration;
use std::time::Instant;

use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::error::Error;
use crate::patience::PATIENCE;

const KILLED: i32 = 128 + 9;

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Loopback, "commands_run_side_by_side", commands_run_side_by_side),
    Case::new(Layer::Loopback, "commands_are_killed_with_their_children", killed_with_children),
    Case::new(Layer::Loopback, "commands_that_nobody_waits_for_end", dropped),
    Case::new(Layer::Loopback, "a_late_command_is_reported_and_killed", late),
    Case::new(Layer::Loopback, "commands_have_what_they_need", environment),
];

fn commands_run_side_by_side(bed: &Bed) -> Result<(), Failure> {
    let node = bed.machine(1);
    let hears = node.start("until [ -e /run/said ]; do sleep 0.05; done; echo heard", PATIENCE)?;
    let says = node.start("touch /run/said; echo said; sleep 3600", PATIENCE)?;
    ensure(says.wait_for("said")? == "said", || "another line".to_owned())?;
    ensure(hears.wait()?.good()? == "heard\n", || "another output".to_owned())?;
    let ended = node.run("echo bad; exit 3", PATIENCE)?;
    ensure((ended.status, ended.output.as_str()) == (3, "bad\n"), || format!("{ended:?}"))?;
    let unsaid = node.start("echo one thing", PATIENCE)?.wait_for("another");
    ensure(matches!(unsaid, Err(Error::Unsaid { .. })), || format!("{unsaid:?}"))
}

fn killed_with_children(bed: &Bed) -> Result<(), Failure> {
    let node = bed.machine(1);
    let parent = node.start("sleep 3599 & echo started; wait", PATIENCE)?;
    parent.wait_for("started")?;
    parent.signal("KILL")?;
    ensure(parent.wait()?.status == KILLED, || "it was not killed".to_owned())?;
    let left = node.run("pgrep -f 'sleep 359[9]'", PATIENCE)?;
    ensure(left.status == 1, || format!("left behind: {}", left.output))
}

fn dropped(bed: &Bed) -> Result<(), Failure> {
    let node = bed.machine(1);
    // At once, so that the signal overtakes the start now and then.
    for _ in 0..3 {
        drop(node.start("exec sleep 3597", PATIENCE)?);
    }
    let left = node.run("pgrep -f 'sleep 359[7]'", PATIENCE)?;
    ensure(left.status == 1, || format!("left behind: {}", left.output))
}

fn late(bed: &Bed) -> Result<(), Failure> {
    let node = bed.machine(1);
    let (begin, limit) = (Instant::now(), Duration::from_millis(500));
    let late = node.run("echo begun; sleep 3598", limit);
    ensure(matches!(late, Err(Error::Late { .. })), || format!("{late:?}"))?;
    ensure(begin.elapsed() < PATIENCE, || "the limit did not hold".to_owned())?;
    let left = node.run("pgrep -f 'sleep 359[8]'", PATIENCE)?;
    ensure(left.status == 1, || format!("left behind: {}", left.output))
}

fn environment(bed: &Bed) -> Result<(), Failure> {
    let show = "echo $NODE $HOME $(hostname) $(ulimit -l) $(id -u); tc -V; touch $SHARE/left";
    let text = bed.machine(1).output(show, PATIENCE)?;
    ensure(text.starts_with("1 /run/home node1 unlimited 0\n"), || text.clone())?;
    let left = bed.dir().join("share/left");
    ensure(left.exists(), || format!("{} is not there", left.display()))
}
