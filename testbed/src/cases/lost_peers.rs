//! What goes wrong with a peer or the network, and what the others see of it, in which time.
//!
//! The bounds: a request tries for (retries + 1) times its timeout, 0.47 s with timeout 14 and
//! 1.9 s with 16 (`verbs::Retry::bound`), and emulated machines are slow to run at all. An engine
//! with nothing under way asks after all owners in turn, with pauses of an eighth of that together;
//! two such rounds make the bound a quarter longer.
//! The host's clock measures from the fault until rank 0 says what it has seen.

use core::time::Duration;
use std::fs;
use std::thread::sleep;
use std::time::Instant;

use super::conformance::{exact, none_wrong};
use super::trial::{Ranks, TRIAL, together};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::error::Error;
use crate::faults::Link;
use crate::machine::Machine;

/// The longest until both ranks of a trial work.
const UNDER_WAY: Duration = Duration::from_secs(30);
/// How long a machine or a link is away for a moment.
const MOMENT: Duration = Duration::from_millis(500);
/// The longest until an operation on a machine that stands still has failed.
const FAILED: Duration = Duration::from_secs(5);
/// What an emulated machine takes longer than the requests try.
const SLOW: Duration = Duration::from_millis(2500);
/// How long an engine that is left tries to tell a rank that is gone.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often operations fail whose outcome is unknown.
const ROUNDS: u32 = 3;
/// How long requests try with timeout 14, and with 16.
const SHORT_TRY: Duration = Duration::from_millis(470);
const LONG_TRY: Duration = Duration::from_millis(1880);

/// Rank 1 is lost, with no silence longer than this.
const LOST: &str = "stream --expect lost --within-ms 2500";
/// What rank 0 then says.
const LOST_OWNER: &str = "OwnerLost(Owner(1))";
/// All goes on, with no silence longer than this; requests try for 3.8 s.
const SURVIVAL: &str = "stream --expect survival --within-ms 6000 --timeout 17 --seconds 6";
/// How long a process stands still, and less than which a silence shows that it was served.
const STOPPED: Duration = Duration::from_secs(3);

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Two, "a_killed_process_is_named", |bed| {
        let work = format!("{LOST} --timeout 14");
        lost(bed, &work, SHORT_TRY, |_, ranks| Ok(ranks.rank(1)?.signal("KILL")?))
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_killed_process_is_named_to_an_idle_engine", |bed| {
        let idle = "stream --expect lost --idle --timeout 14";
        lost(bed, idle, SHORT_TRY, |_, ranks| Ok(ranks.rank(1)?.signal("KILL")?))
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "an_owner_that_never_polls_is_served", |bed| {
        silence(&together(bed, 2, &format!("{SURVIVAL} --asleep"))?).map(|_| ())
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_stopped_process_is_served", stopped).needs(TRIAL),
    Case::new(Layer::Two, "a_link_off_for_a_moment_is_survived", |bed| {
        survived(bed, |machine| machine.set_link(Link::Off), |machine| machine.set_link(Link::On))
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_link_off_for_good_ends_it", |bed| {
        let outcome = lost(bed, LOST, LONG_TRY, |bed, _| Ok(bed.machine(2).set_link(Link::Off)?));
        bed.machine(2).set_link(Link::On)?;
        outcome
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_machine_frozen_for_a_moment_is_survived", |bed| {
        survived(bed, Machine::freeze, Machine::thaw)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_frozen_machine_is_named", |bed| {
        let outcome = lost(bed, LOST, LONG_TRY, |bed, _| Ok(bed.machine(2).freeze()?));
        bed.machine(2).thaw()?;
        outcome
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_rank_killed_before_it_opens_is_named", killed_before_opening)
        .needs(TRIAL),
    Case::new(Layer::Two, "a_rank_killed_while_it_opens_is_named", killed_while_opening)
        .needs(TRIAL),
    Case::new(Layer::Two, "an_unknown_outcome_is_repeated_safely", unknown).needs(TRIAL),
    Case::new(Layer::Two, "nothing_is_lost_with_1_percent_loss", |bed| lossy(bed, 1)).needs(TRIAL),
    Case::new(Layer::Two, "nothing_is_lost_with_5_percent_loss", |bed| lossy(bed, 5)).needs(TRIAL),
    Case::new(Layer::Two, "a_killed_machine_is_named", |bed| {
        lost(bed, LOST, LONG_TRY, |bed, _| Ok(bed.machine(2).kill()?))
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

/// Rank 0 has to name rank 1 after `fault`, as soon as a request that tries so long can tell.
fn lost(
    bed: &Bed,
    arguments: &str,
    tries: Duration,
    fault: impl FnOnce(&Bed, &Ranks) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let ranks = begin(bed, arguments)?;
    let begin = Instant::now();
    fault(bed, &ranks)?;
    let line = ranks.rank(0)?.wait_for(LOST_OWNER, UNDER_WAY)?;
    let took = begin.elapsed();
    println!("{line}; told {took:.1?} after it happened");
    ensure(took <= tries + SLOW, || format!("only after {took:?}"))?;
    ranks.finish_first().map(|_| ())
}

/// What is done to machine 2 for a moment shows as a silence, and then all goes on.
fn survived(
    bed: &Bed,
    begin_it: impl FnOnce(&Machine) -> Result<(), Error>,
    end_it: impl FnOnce(&Machine) -> Result<(), Error>,
) -> Result<(), Failure> {
    let ranks = begin(bed, SURVIVAL)?;
    begin_it(bed.machine(2))?;
    sleep(MOMENT);
    end_it(bed.machine(2))?;
    let silence = silence(&ranks.finish()?)?;
    ensure(silence >= MOMENT * 4 / 5, || format!("nothing happened: a silence of {silence:?}"))
}

/// Rank 1 stands still, and its window is served all the same.
fn stopped(bed: &Bed) -> Result<(), Failure> {
    let ranks = begin(bed, SURVIVAL)?;
    let rank = ranks.rank(1)?;
    rank.signal("STOP")?;
    let states = format!("cat $(pgrep -g {} trial | sed 's|.*|/proc/&/status|')", rank.pid()?);
    let states = bed.machine(2).output(&states, UNDER_WAY)?;
    ensure(states.contains("T (stopped)"), || format!("it does not stand still: {states}"))?;
    sleep(STOPPED);
    rank.signal("CONT")?;
    let silence = silence(&ranks.finish()?)?;
    ensure(silence < STOPPED, || format!("a silence of {silence:?}"))
}

/// Shows what rank 0 has seen; its longest silence.
fn silence(output: &str) -> Result<Duration, Failure> {
    let line = output.lines().find(|line| line.contains("longest silence"));
    let line = line.ok_or_else(|| Failure(output.to_owned()))?;
    println!("{line}");
    let words = line.rsplit_once("longest silence ").and_then(|(_, rest)| rest.split_once(' '));
    let ms = words.and_then(|(ms, _)| ms.parse().ok());
    ms.map(Duration::from_millis).ok_or_else(|| Failure(format!("no silence in: {line}")))
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

/// A machine is frozen until operations of the other have failed, and then goes on.
fn unknown(bed: &Bed) -> Result<(), Failure> {
    let arguments = format!("unknown --timeout 14 --rounds {ROUNDS} --told-in $SHARE");
    let ranks = Ranks::start(bed, "trial", 2, &arguments)?;
    for round in 1..=ROUNDS {
        ranks.rank(0)?.wait_for(&format!("ready for round {round}"), UNDER_WAY)?;
        bed.machine(2).freeze()?;
        sleep(MOMENT);
        let begin = Instant::now();
        fs::write(bed.dir().join(format!("share/frozen-{round}")), "")?;
        let failed = ranks.rank(0)?.wait_for(&format!("round {round}, "), FAILED);
        bed.machine(2).thaw()?;
        println!("{} ({:.1?} after they were sent)", failed?, begin.elapsed());
    }
    let output = ranks.finish()?;
    output.lines().filter(|line| line.contains("took effect")).for_each(|line| println!("{line}"));
    ensure(output.contains("each there once"), || output.clone())
}

/// Rank 1 is killed when it has joined, before it opens its engine.
fn killed_before_opening(bed: &Bed) -> Result<(), Failure> {
    lost_while_opening(bed, "opening", Duration::ZERO)
}

/// Rank 1 is killed somewhere in the opening of an engine, or between two of them.
fn killed_while_opening(bed: &Bed) -> Result<(), Failure> {
    for delay_ms in [1000, 1313, 1771] {
        lost_while_opening(bed, "opening --over-and-over", Duration::from_millis(delay_ms))?;
    }
    Ok(())
}

/// The exchange tells of a rank that ended as soon as its connection does; before that rank 0 may
/// bid a farewell to it, for a second at most.
fn lost_while_opening(bed: &Bed, arguments: &str, delay: Duration) -> Result<(), Failure> {
    let ranks = Ranks::start(bed, "trial", 2, &format!("{arguments} --timeout 14"))?;
    ranks.rank(0)?.wait_for("joined", UNDER_WAY)?;
    ranks.rank(1)?.wait_for("joined", UNDER_WAY)?;
    sleep(delay);
    let begin = Instant::now();
    ranks.rank(1)?.signal("KILL")?;
    let line = ranks.rank(0)?.wait_for("died or left", UNDER_WAY)?;
    let took = begin.elapsed();
    println!("{line} ({took:.1?} after it was killed)");
    ensure(took <= FAREWELL + SLOW, || format!("only after {took:?}"))?;
    ranks.finish_first().map(|_| ())
}
