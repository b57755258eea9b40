//! What goes wrong with a peer or the network, and what the others see of it, in which time.
//!
//! The bounds: a request tries for (retries + 1) times its timeout, 0.47 s with timeout 14 and
//! 1.9 s with 16 (`verbs::Retry::bound`), and emulated machines are slow to run at all. An engine
//! with nothing under way asks after its owner every 16,384 polls.

use core::time::Duration;
use std::thread::sleep;
use std::time::Instant;

use super::conformance::{exact, none_wrong};
use super::trial::{Ranks, TRIAL, together};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::faults::Link;

/// The longest until both ranks of a trial work.
const UNDER_WAY: Duration = Duration::from_secs(30);
/// How long a machine or a link is away for a moment.
const MOMENT: Duration = Duration::from_millis(500);
/// The longest until an operation on a machine that stands still has failed.
const FAILED: Duration = Duration::from_secs(5);

/// Rank 1 is lost, within this time.
const LOST: &str = "stream --expect lost --within-ms 2500";
/// All goes on, with no silence longer than this.
const SURVIVAL: &str = "stream --expect survival --within-ms 2500";

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Two, "a_killed_process_is_named", |bed| {
        lost(bed, &format!("{LOST} --timeout 14"), |_, ranks| Ok(ranks.rank(1)?.signal("KILL")?))
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_killed_process_is_named_to_an_idle_engine", |bed| {
        // Until it is asked after: in an emulated machine some seconds.
        let idle = "stream --expect lost --idle --within-ms 20000 --timeout 14";
        lost(bed, idle, |_, ranks| Ok(ranks.rank(1)?.signal("KILL")?))
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "an_owner_that_never_polls_is_served", |bed| {
        said(&together(bed, 2, &format!("{SURVIVAL} --seconds 3 --asleep"))?)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_stopped_process_is_served", |bed| {
        let ranks = begin(bed, &format!("{SURVIVAL} --seconds 3"))?;
        ranks.rank(1)?.signal("STOP")?;
        sleep(Duration::from_secs(2));
        ranks.rank(1)?.signal("CONT")?;
        said(&ranks.finish()?)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_link_off_for_a_moment_is_survived", |bed| {
        let ranks = begin(bed, &format!("{SURVIVAL} --seconds 4"))?;
        bed.machine(2).set_link(Link::Off)?;
        sleep(MOMENT);
        bed.machine(2).set_link(Link::On)?;
        said(&ranks.finish()?)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_link_off_for_good_ends_it", |bed| {
        let outcome = lost(bed, LOST, |bed, _| Ok(bed.machine(2).set_link(Link::Off)?));
        bed.machine(2).set_link(Link::On)?;
        outcome
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_machine_frozen_for_a_moment_is_survived", |bed| {
        let ranks = begin(bed, &format!("{SURVIVAL} --seconds 4"))?;
        bed.machine(2).freeze()?;
        sleep(MOMENT);
        bed.machine(2).thaw()?;
        said(&ranks.finish()?)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_frozen_machine_is_named", |bed| {
        let outcome = lost(bed, LOST, |bed, _| Ok(bed.machine(2).freeze()?));
        bed.machine(2).thaw()?;
        outcome
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "an_unknown_outcome_is_repeated_safely", unknown).needs(TRIAL),
    Case::new(Layer::Two, "nothing_is_lost_with_1_percent_loss", |bed| lossy(bed, 1)).needs(TRIAL),
    Case::new(Layer::Two, "nothing_is_lost_with_5_percent_loss", |bed| lossy(bed, 5)).needs(TRIAL),
    Case::new(Layer::Two, "a_killed_machine_is_named", |bed| {
        lost(bed, LOST, |bed, _| Ok(bed.machine(2).kill()?))
    })
    .needs(TRIAL)
    .spoils(),
];

/// Starts both ranks and waits until they work.
fn begin(bed: &Bed, arguments: &str) -> Result<Ranks, Failure> {
    let ranks = Ranks::start(bed, "trial", 2, arguments)?;
    ranks.rank(0)?.wait_for("streaming", UNDER_WAY)?;
    sleep(MOMENT);
    Ok(ranks)
}

/// Rank 0 has to name rank 1 after `fault`.
fn lost(
    bed: &Bed,
    arguments: &str,
    fault: impl FnOnce(&Bed, &Ranks) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let ranks = begin(bed, arguments)?;
    fault(bed, &ranks)?;
    let output = ranks.finish_first()?;
    said(&output)?;
    ensure(output.contains("OwnerLost(Owner(1))"), || output.clone())
}

/// Shows what rank 0 has seen.
fn said(output: &str) -> Result<(), Failure> {
    let line = output.lines().find(|line| line.contains("longest silence"));
    println!("{}", line.ok_or_else(|| Failure(output.to_owned()))?);
    Ok(())
}

/// Loss and duplication on the way to both machines: all is exact, and packets were sent again.
fn lossy(bed: &Bed, percent: u32) -> Result<(), Failure> {
    let before = sent_again(bed)?;
    for machine in bed.machines() {
        machine.netem(&format!("loss {percent}% duplicate {percent}%"))?;
    }
    let outcome = together(bed, 4, "contention --adds 500 --swaps 50")
        .and_then(|output| exact(&output))
        .and_then(|()| none_wrong(&together(bed, 2, "soak --data 1000")?));
    for machine in bed.machines() {
        machine.netem_off()?;
    }
    outcome?;
    let again = sent_again(bed)? - before;
    println!("{again} requests timed out and were sent again");
    ensure(again > 0, || "no packet was lost".into())
}

/// Requests of both machines that were sent again because nothing came back.
fn sent_again(bed: &Bed) -> Result<u64, Failure> {
    let counters = bed.machines().iter().map(|machine| machine.counter("completer_retry_err"));
    Ok(counters.sum::<Result<u64, _>>()?)
}

/// A machine is frozen until an operation of the other has failed, and then goes on.
fn unknown(bed: &Bed) -> Result<(), Failure> {
    let ranks = Ranks::start(bed, "trial", 2, "unknown --timeout 14")?;
    ranks.rank(0)?.wait_for("putting", UNDER_WAY)?;
    sleep(MOMENT);
    bed.machine(2).freeze()?;
    let begin = Instant::now();
    let failed = ranks.rank(0)?.wait_for("of unknown outcome", FAILED);
    bed.machine(2).thaw()?;
    println!("{} ({:.1?} after the freeze)", failed?, begin.elapsed());
    let output = ranks.finish()?;
    let repeated = output.lines().find(|line| line.starts_with("repeated"));
    println!("{}", repeated.ok_or_else(|| Failure(output.clone()))?);
    ensure(output.contains("each there once"), || output.clone())
}
