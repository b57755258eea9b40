//! What goes wrong with a peer or the network, and what the others see of it.
//!
//! The tests wait for what must happen, however slow the host is. The benchmark holds the time until
//! rank 0 names a lost rank to a bound: a request tries for (retries + 1) times its timeout, 1.9 s
//! with timeout 16 (`probeline_verbs::Retry::bound`), and emulated machines are slow to run at all. An engine
//! with nothing under way asks after all owners in turn, with pauses of an eighth of that together;
//! two such rounds make the bound a quarter longer.
//! The host's clock measures from the fault until rank 0 says what it has seen.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use super::conformance::{exact, none_wrong};
use super::trial::{Ranks, TRIAL, together};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::error::Error;
use crate::faults::Link;
use crate::machine::Machine;
use crate::patience::PATIENCE;
use crate::verdict::{Bound, Verdict};

/// How often operations fail whose outcome is unknown.
const ROUNDS: u32 = 3;

/// How long requests try with timeout 16.
const TRIES: Duration = Duration::from_millis(1880);
/// How long an engine that is left tries to tell a rank that is gone.
const FAREWELL: Duration = Duration::from_secs(1);
/// What an emulated machine on a quiet host takes longer.
const SLOW: Duration = Duration::from_millis(2500);

/// Rank 0 works until rank 1 is lost, or only polls until then.
const LOST: &str = "stream --expect lost";
const LOST_IDLE: &str = "stream --expect lost --idle";
/// What rank 0 then says.
const LOST_OWNER: &str = "OwnerLost(Owner(1))";

/// Makes rank 0 lose rank 1; how long rank 0 took to name it.
type Loss = fn(&Bed) -> Result<Duration, Failure>;

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Two, "a_killed_process_is_named", |bed| killed_process(bed).map(drop))
        .needs(TRIAL),
    Case::new(Layer::Two, "a_killed_process_is_named_to_an_idle_engine", |bed| {
        killed_process_idle(bed).map(drop)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "an_owner_that_never_polls_is_served", |bed| {
        let stream = Stream::start(bed, "asleep", "--asleep")?;
        stream.goes_on()?;
        stream.finish()
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_stopped_process_is_served", stopped).needs(TRIAL),
    Case::new(Layer::Two, "a_link_off_for_a_moment_is_survived", |bed| {
        let on = |machine: &Machine| machine.set_link(Link::On);
        survived(bed, "link", |machine| machine.set_link(Link::Off), on)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_link_off_for_good_ends_it", |bed| link_off(bed).map(drop))
        .needs(TRIAL),
    Case::new(Layer::Two, "a_machine_frozen_for_a_moment_is_survived", |bed| {
        survived(bed, "freeze", Machine::freeze, Machine::thaw)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_frozen_machine_is_named", |bed| frozen(bed).map(drop)).needs(TRIAL),
    Case::new(Layer::Two, "a_rank_killed_before_it_opens_is_named", |bed| {
        killed_before_opening(bed).map(drop)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "a_rank_killed_while_it_opens_is_named", killed_while_opening)
        .needs(TRIAL),
    Case::new(Layer::Two, "an_unknown_outcome_is_repeated_safely", unknown).needs(TRIAL),
    Case::new(Layer::Two, "nothing_is_lost_with_1_percent_loss", |bed| lossy(bed, 1)).needs(TRIAL),
    Case::new(Layer::Two, "nothing_is_lost_with_5_percent_loss", |bed| lossy(bed, 5)).needs(TRIAL),
    Case::new(Layer::Two, "a_killed_machine_is_named", |bed| killed_machine(bed).map(drop))
        .needs(TRIAL)
        .spoils(),
    Case::bench(Layer::Two, "a_lost_rank_is_named_in_time", |bed| {
        let all: [(&str, Loss, Duration); 6] = [
            ("killed process", killed_process, TRIES),
            ("killed process, idle engine", killed_process_idle, TRIES),
            ("link off", link_off, TRIES),
            ("frozen machine", frozen, TRIES),
            ("killed before it opens", killed_before_opening, FAREWELL),
            ("killed machine", killed_machine, TRIES),
        ];
        all.into_iter().map(|(what, loss, bound)| named(bed, what, loss, bound)).collect()
    })
    .needs(TRIAL)
    .spoils(),
];

fn named(bed: &Bed, what: &str, loss: Loss, bound: Duration) -> Result<Verdict, Failure> {
    let what = format!("{what}, seconds until it is named");
    let bound = Bound::AtMost((bound + SLOW).as_secs_f64());
    Ok(Verdict { what, value: loss(bed)?.as_secs_f64(), bound })
}

fn killed_process(bed: &Bed) -> Result<Duration, Failure> {
    lost(bed, LOST, |_, ranks| Ok(ranks.rank(1)?.signal("KILL")?), |_| Ok(()))
}

fn killed_process_idle(bed: &Bed) -> Result<Duration, Failure> {
    lost(bed, LOST_IDLE, |_, ranks| Ok(ranks.rank(1)?.signal("KILL")?), |_| Ok(()))
}

fn link_off(bed: &Bed) -> Result<Duration, Failure> {
    lost(bed, LOST, |bed, _| Ok(bed.machine(2).set_link(Link::Off)?), |m| m.set_link(Link::On))
}

fn frozen(bed: &Bed) -> Result<Duration, Failure> {
    lost(bed, LOST, |bed, _| Ok(bed.machine(2).freeze()?), Machine::thaw)
}

fn killed_machine(bed: &Bed) -> Result<Duration, Failure> {
    lost(bed, LOST, |bed, _| Ok(bed.machine(2).kill()?), |_| Ok(()))
}

/// Rank 0 has to name rank 1 after `fault`; `repair` then makes machine 2 what it was, so that what
/// runs there can be ended.
fn lost(
    bed: &Bed,
    arguments: &str,
    fault: impl FnOnce(&Bed, &Ranks) -> Result<(), Failure>,
    repair: impl FnOnce(&Machine) -> Result<(), Error>,
) -> Result<Duration, Failure> {
    let ranks = Ranks::start(bed, "trial", 2, arguments)?;
    let works = if arguments == LOST_IDLE { "streaming" } else { "have ended" };
    ranks.rank(0)?.wait_for(works)?;
    let begin = Instant::now();
    fault(bed, &ranks)?;
    let line = ranks.rank(0)?.wait_for(LOST_OWNER);
    let took = begin.elapsed();
    repair(bed.machine(2))?;
    println!("{}; told {took:.1?} after it happened", line?);
    ranks.finish_first()?;
    Ok(took)
}

/// Rank 0 works on rank 1's window until it is told to end.
struct Stream {
    ranks: Ranks,
    /// Ends it once it is there.
    over: PathBuf,
}

impl Stream {
    /// Starts both ranks and waits until they work. No two of a boot have the same `name`.
    fn start(bed: &Bed, name: &str, options: &str) -> Result<Self, Failure> {
        // Requests try for 15 s: longer than a slow host takes to end a fault that it has begun.
        let stream = "stream --expect survival --timeout 19";
        let work = format!("{stream} --until $SHARE/over-{name} {options}");
        let ranks = Ranks::start(bed, "trial", 2, &work)?;
        let over = bed.dir().join(format!("share/over-{name}"));
        let stream = Self { ranks, over };
        stream.goes_on()?;
        Ok(stream)
    }

    /// Waits until operations have ended that have not ended yet.
    fn goes_on(&self) -> Result<(), Failure> {
        // What is reported next has begun before; what is reported after that has not.
        let ended = |output: &str| output.lines().filter(|l| l.ends_with(" have ended")).count();
        let before = ended(&self.ranks.rank(0)?.output());
        let more = |output: &str| (ended(output) >= before + 2).then_some(());
        Ok(self.ranks.rank(0)?.wait_until("more operations", more)?)
    }

    /// Waits until nothing has come back for a while, and still does not.
    fn falls_silent(&self) -> Result<(), Failure> {
        let silent = |output: &str| output.lines().filter(|l| l.starts_with("silent for ")).count();
        let before = silent(&self.ranks.rank(0)?.output());
        let more = |output: &str| (silent(output) > before).then_some(());
        Ok(self.ranks.rank(0)?.wait_until("a silence", more)?)
    }

    /// Ends it; all that was added must be there.
    fn finish(self) -> Result<(), Failure> {
        fs::write(&self.over, "")?;
        let output = self.ranks.finish()?;
        let line = output.lines().find(|line| line.contains("longest silence"));
        println!("{}", line.ok_or_else(|| Failure(output.clone()))?);
        Ok(())
    }
}

/// What is done to machine 2 for a moment shows as a silence, and then all goes on.
fn survived(
    bed: &Bed,
    name: &str,
    begin: impl FnOnce(&Machine) -> Result<(), Error>,
    end: impl FnOnce(&Machine) -> Result<(), Error>,
) -> Result<(), Failure> {
    let stream = Stream::start(bed, name, "")?;
    begin(bed.machine(2))?;
    let silent = stream.falls_silent();
    end(bed.machine(2))?;
    silent?;
    stream.goes_on()?;
    stream.finish()
}

/// Rank 1 stands still, and its window is served all the same.
fn stopped(bed: &Bed) -> Result<(), Failure> {
    let stream = Stream::start(bed, "stopped", "")?;
    let rank = stream.ranks.rank(1)?;
    rank.signal("STOP")?;
    let states = format!("cat $(pgrep -g {} trial | sed 's|.*|/proc/&/status|')", rank.pid()?);
    let until = format!("until {states} | grep -q 'T (stopped)'; do sleep 0.05; done");
    bed.machine(2).output(&until, PATIENCE)?;
    stream.goes_on()?;
    rank.signal("CONT")?;
    stream.finish()
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
    let arguments = format!("unknown --rounds {ROUNDS} --told-in $SHARE");
    let ranks = Ranks::start(bed, "trial", 2, &arguments)?;
    for round in 1..=ROUNDS {
        ranks.rank(0)?.wait_for(&format!("ready for round {round}"))?;
        bed.machine(2).freeze()?;
        let begin = Instant::now();
        fs::write(bed.dir().join(format!("share/frozen-{round}")), "")?;
        let failed = ranks.rank(0)?.wait_for(&format!("round {round}, "));
        bed.machine(2).thaw()?;
        println!("{} ({:.1?} after they were sent)", failed?, begin.elapsed());
    }
    let output = ranks.finish()?;
    output.lines().filter(|line| line.contains("took effect")).for_each(|line| println!("{line}"));
    ensure(output.contains("each there once"), || output.clone())
}

/// Rank 1 is killed when it has joined, before it opens its engine.
fn killed_before_opening(bed: &Bed) -> Result<Duration, Failure> {
    lost_while_opening(bed, "opening", Duration::ZERO)
}

/// Rank 1 is killed somewhere in the opening of an engine, or between two of them.
fn killed_while_opening(bed: &Bed) -> Result<(), Failure> {
    for delay_ms in [1000, 1313, 1771] {
        let delay = Duration::from_millis(delay_ms);
        lost_while_opening(bed, "opening --over-and-over", delay)?;
    }
    Ok(())
}

/// The exchange tells of a rank that ended as soon as its connection does; before that rank 0 may
/// bid a farewell to it, for a second at most.
fn lost_while_opening(bed: &Bed, arguments: &str, delay: Duration) -> Result<Duration, Failure> {
    let ranks = Ranks::start(bed, "trial", 2, arguments)?;
    ranks.rank(0)?.wait_for("joined")?;
    ranks.rank(1)?.wait_for("joined")?;
    sleep(delay);
    let begin = Instant::now();
    ranks.rank(1)?.signal("KILL")?;
    let line = ranks.rank(0)?.wait_for("died or left")?;
    let took = begin.elapsed();
    println!("{line} ({took:.1?} after it was killed)");
    ranks.finish_first()?;
    Ok(took)
}
