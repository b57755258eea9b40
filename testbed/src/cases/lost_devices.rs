//! What becomes of the device itself, or of what carries its packets, while it is used.
//!
//! A process holds on to a Soft-RoCE device that is removed by `rdma link delete`: the kernel (6.1)
//! waits until nobody uses it. One whose network interface is deleted is gone at once.

use core::time::Duration;
use std::time::Instant;

use super::trial::{LIMIT, Ranks, TRIAL};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::patience::PATIENCE;
use crate::verdict::{Bound, Verdict};

/// The longest until rank 0 knows, on a quiet host. Soft-RoCE tells that a request was refused, at
/// once, or says nothing any more, depending on what was under way. An engine then gives it four
/// times what requests try with timeout 14, and 5 s; an emulated machine takes longer.
const BOUND: Duration = Duration::from_millis(4 * 470 + 5000 + 2500);

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Loopback, "a_vanished_device_is_reported", |bed| vanished(bed).map(drop))
        .needs(TRIAL)
        .spoils(),
    Case::new(Layer::Loopback, "a_port_that_goes_down_is_reported", |bed| down(bed).map(drop))
        .needs(TRIAL)
        .spoils(),
    Case::new(Layer::Two, "a_port_that_goes_down_is_reported", |bed| down(bed).map(drop))
        .needs(TRIAL)
        .spoils(),
    Case::new(Layer::Two, "an_unplugged_card_is_reported", |bed| unplugged(bed).map(drop))
        .needs(TRIAL)
        .spoils(),
    Case::bench(Layer::Loopback, "a_vanished_device_is_reported_in_time", |bed| {
        Ok(vec![reported("vanished device", vanished(bed)?)])
    })
    .needs(TRIAL)
    .spoils(),
    Case::bench(Layer::Two, "a_port_that_goes_down_is_reported_in_time", |bed| {
        Ok(vec![reported("port down", down(bed)?)])
    })
    .needs(TRIAL)
    .spoils(),
    Case::bench(Layer::Two, "an_unplugged_card_is_reported_in_time", |bed| {
        Ok(vec![reported("unplugged card", unplugged(bed)?)])
    })
    .needs(TRIAL)
    .spoils(),
];

fn reported(what: &str, took: Duration) -> Verdict {
    let what = format!("{what}, seconds until it is reported");
    Verdict { what, value: took.as_secs_f64(), bound: Bound::AtMost(BOUND.as_secs_f64()) }
}

fn vanished(bed: &Bed) -> Result<Duration, Failure> {
    let took = dead(bed, "ip link delete eth0")?;
    let left = bed.machine(1).output("rdma link show", PATIENCE)?;
    ensure(left.is_empty(), || format!("it is still there: {left}"))?;
    Ok(took)
}

fn down(bed: &Bed) -> Result<Duration, Failure> {
    dead(bed, "ip link set eth0 down")
}

fn unplugged(bed: &Bed) -> Result<Duration, Failure> {
    dead(bed, "echo 1 >$(readlink -f /sys/class/net/eth0/device/..)/remove")
}

/// Rank 0's engine has to end with a fault after `command` on its machine, everything in flight
/// reported; how long that took.
fn dead(bed: &Bed, command: &str) -> Result<Duration, Failure> {
    let ranks = Ranks::start(bed, "trial", 2, "stream --expect fault --timeout 14")?;
    ranks.rank(0)?.wait_for("have ended")?;
    let begin = Instant::now();
    // It may wait for those who use the device.
    let _command = bed.machine(1).start(command, LIMIT)?;
    let line = ranks.rank(0)?.wait_for("longest silence")?;
    let took = begin.elapsed();
    println!("{line}; told {took:.1?} after it happened");
    ranks.finish_first()?;
    Ok(took)
}
