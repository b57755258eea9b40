//! What becomes of the device itself, or of what carries its packets, while it is used.
//!
//! A process holds on to a Soft-RoCE device that is removed by `rdma link delete`: the kernel (6.1)
//! waits until nobody uses it. One whose network interface is deleted is gone at once.

use core::time::Duration;
use std::thread::sleep;
use std::time::Instant;

use super::trial::{LIMIT, Ranks, TRIAL};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};

/// The longest until both ranks of a trial work.
const UNDER_WAY: Duration = Duration::from_secs(30);
/// How long they work before it happens.
const MOMENT: Duration = Duration::from_millis(500);
/// The longest wait for a rank to say what it has seen: more than the bound, so that it is what
/// fails.
const SAID: Duration = Duration::from_secs(30);
const COMMAND: Duration = Duration::from_secs(20);

/// The longest until rank 0 knows. Soft-RoCE tells that a request was refused, at once, or says
/// nothing any more, depending on what was under way. An engine then gives it four times what
/// requests try with timeout 14, and 5 s; an emulated machine takes longer.
const BOUND: Duration = Duration::from_millis(4 * 470 + 5000 + 2500);

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Loopback, "a_vanished_device_is_reported", vanished).needs(TRIAL).spoils(),
    Case::new(Layer::Loopback, "a_port_that_goes_down_is_reported", down).needs(TRIAL).spoils(),
    Case::new(Layer::Two, "a_port_that_goes_down_is_reported", down).needs(TRIAL).spoils(),
    Case::new(Layer::Two, "an_unplugged_card_is_reported", |bed| {
        dead(bed, "echo 1 >$(readlink -f /sys/class/net/eth0/device/..)/remove")
    })
    .needs(TRIAL)
    .spoils(),
];

fn vanished(bed: &Bed) -> Result<(), Failure> {
    dead(bed, "ip link delete eth0")?;
    let left = bed.machine(1).output("rdma link show", COMMAND)?;
    ensure(left.is_empty(), || format!("it is still there: {left}"))
}

fn down(bed: &Bed) -> Result<(), Failure> {
    dead(bed, "ip link set eth0 down")
}

/// Rank 0's engine has to end with a fault within [`BOUND`] of `command` on its machine, everything
/// in flight reported.
fn dead(bed: &Bed, command: &str) -> Result<(), Failure> {
    let within = BOUND.as_millis();
    let work = format!("stream --expect fault --timeout 14 --seconds 60 --within-ms {within}");
    let ranks = Ranks::start(bed, "trial", 2, &work)?;
    ranks.rank(0)?.wait_for("streaming", UNDER_WAY)?;
    sleep(MOMENT);
    let begin = Instant::now();
    // It may wait for those who use the device.
    let _command = bed.machine(1).start(command, LIMIT)?;
    let line = ranks.rank(0)?.wait_for("longest silence", SAID)?;
    let took = begin.elapsed();
    println!("{line}; told {took:.1?} after it happened");
    ensure(took <= BOUND, || format!("only after {took:?}"))?;
    ranks.finish_first().map(|_| ())
}
