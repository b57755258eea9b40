//! Losses of a rank, a machine, the network or the device, and what the other ranks see of them.
//!
//! The cases wait for events, however slow the host is. As benchmarks they bound the time until
//! rank 0 reports the loss, by the host's clock.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::conformance::none_wrong;
use super::ranks::{JOB_TIMEOUT, Ranks, run_on_all};
use super::{TRIAL, trial};
use crate::HANG_TIMEOUT;
use crate::case::{Bound, Case, Figure, Layer, Mode};
use crate::error::Error;
use crate::machine::{Link, Machine};
use crate::programs;
use crate::testbed::Testbed;

/// A request is sent for (retries + 1) times its timeout, which is 1.9 s with timeout 16
/// (`probeline_verbs::Retry::bound`). The keepalives of an idle engine add a quarter, for two rounds.
const RETRY_TIME: Duration = Duration::from_millis(1880);
/// The same with timeout 14.
const SHORT_RETRY_TIME: Duration = Duration::from_millis(470);
/// The time for which an engine that is dropped tries to notify a lost rank.
const SHUTDOWN_TIME: Duration = Duration::from_secs(1);
/// Additional time that an emulated machine on a quiet host takes.
const EMULATION_TIME: Duration = Duration::from_millis(2500);
/// After the loss of a device or port Soft-RoCE refuses a request at once, or reports nothing any
/// more. The engine then waits for four times the retry time, and 5 s.
const DEVICE_LOSS_TIME: Duration =
    SHORT_RETRY_TIME.saturating_mul(4).saturating_add(Duration::from_secs(5));

/// Rank 0's arguments: it operates until rank 1 is lost, or only polls.
const BUSY: &str = "stream --expect lost --timeout 16";
const IDLE: &str = "stream --expect lost --timeout 16 --idle";

/// The time until a loss was reported, with its bound.
type Report = Result<Vec<Figure>>;

pub(super) const CASES: &[Case] = &[
    loss(Layer::Two, "a_killed_process_is_named", |testbed, _| {
        lose_rank_1(testbed, BUSY, kill_rank_1, |_| Ok(()))
    }),
    loss(Layer::Two, "a_killed_process_is_named_by_an_idle_engine", |testbed, _| {
        lose_rank_1(testbed, IDLE, kill_rank_1, |_| Ok(()))
    }),
    trial(Layer::Two, "values_of_a_killed_push_arrive_in_order", |testbed| {
        lose_rank_1(testbed, "queue --timeout 16", kill_rank_1, |_| Ok(())).map(drop)
    }),
    loss(Layer::Two, "a_frozen_machine_is_named", |testbed, _| {
        lose_rank_1(testbed, BUSY, |machine, _| machine.freeze(), Machine::thaw)
    }),
    loss(Layer::Two, "an_owner_without_link_is_named", |testbed, _| {
        let down = |machine: &Machine, _: &Ranks| machine.set_link(Link::Down);
        lose_rank_1(testbed, BUSY, down, |machine| machine.set_link(Link::Up))
    }),
    loss(Layer::Two, "a_killed_machine_is_named", |testbed, _| {
        lose_rank_1(testbed, BUSY, kill_machine, |_| Ok(()))
    })
    .destructive(),
    loss(Layer::Two, "a_rank_killed_before_it_opens_is_named", |testbed, _| {
        kill_while_opening(testbed, "opening", Duration::ZERO)
    }),
    trial(Layer::Two, "a_rank_killed_while_it_opens_is_named", |testbed| {
        // While it opens an engine, or between two engines.
        [1000, 1313, 1771]
            .map(Duration::from_millis)
            .into_iter()
            .try_for_each(|delay| kill_while_opening(testbed, "opening --repeat", delay).map(drop))
    }),
    trial(Layer::Two, "an_owner_that_never_polls_is_read", |testbed| {
        let stream = Stream::start(testbed, "asleep", "stream --expect survival --asleep")?;
        stream.wait_for_progress()?;
        stream.finish()
    }),
    trial(Layer::Two, "a_stopped_process_is_read", |testbed| {
        stopped_process(testbed, "read", "stream --expect survival")
    }),
    trial(Layer::Two, "a_stopped_home_serves_pages_and_locks", |testbed| {
        stopped_process(testbed, "pages", "pages")
    }),
    trial(Layer::Two, "a_short_link_outage_is_survived", |testbed| {
        let up = |machine: &Machine| machine.set_link(Link::Up);
        survives(testbed, "link", |machine| machine.set_link(Link::Down), up)
    }),
    trial(Layer::Two, "a_short_freeze_is_survived", |testbed| {
        survives(testbed, "freeze", Machine::freeze, Machine::thaw)
    }),
    trial(Layer::Two, "repeating_an_unknown_outcome_is_safe", unknown_outcome),
    trial(Layer::Two, "results_are_exact_with_packet_loss", packet_loss),
    loss(Layer::Loopback, "a_removed_device_is_reported", removed_device).destructive(),
    loss(Layer::Loopback, "a_port_that_goes_down_is_reported", port_down).destructive(),
    loss(Layer::Two, "a_port_that_goes_down_is_reported", port_down).destructive(),
    loss(Layer::Two, "an_unplugged_card_is_reported", |testbed, _| {
        lose_device(testbed, "echo 1 >$(readlink -f /sys/class/net/eth0/device/..)/remove")
    })
    .destructive(),
];

const fn loss(layer: Layer, name: &'static str, cause: fn(&Testbed, Mode) -> Report) -> Case {
    Case::figures(layer, name, cause).needs(TRIAL)
}

/// Bounds the time since the fault, which is over now.
fn report(start: Instant, bound: Duration) -> Report {
    let name = "seconds from the fault until its report".to_owned();
    let bound = Bound::AtMost((bound + EMULATION_TIME).as_secs_f64());
    Ok(vec![Figure { name, value: start.elapsed().as_secs_f64(), bound }])
}

fn kill_rank_1(_: &Machine, ranks: &Ranks) -> Result<()> {
    ranks.rank(1)?.signal("KILL")
}

fn kill_machine(machine: &Machine, ranks: &Ranks) -> Result<()> {
    machine.kill()?;
    let error = ranks.rank(1)?.wait_for_line("nothing").err().context("the command goes on")?;
    let ended = matches!(error.downcast_ref(), Some(Error::MachineEnded { machine: 2, .. }));
    ensure!(ended, "{error:#}");
    Ok(())
}

/// Applies `fault` to machine 2 or rank 1 and waits until rank 0 names rank 1. `repair` then lets
/// the commands of machine 2 end.
fn lose_rank_1(
    testbed: &Testbed,
    arguments: &str,
    fault: impl FnOnce(&Machine, &Ranks) -> Result<()>,
    repair: impl FnOnce(&Machine) -> Result<()>,
) -> Report {
    let ranks = Ranks::start(testbed, programs::TRIAL, 2, arguments)?;
    let running = if arguments == IDLE { "streaming" } else { "have completed" };
    ranks.rank(0)?.wait_for_line(running)?;
    let start = Instant::now();
    fault(testbed.machine(2), &ranks)?;
    let line = ranks.rank(0)?.wait_for_line("OwnerLost(Owner(1))");
    let report = report(start, RETRY_TIME);
    repair(testbed.machine(2))?;
    println!("{}", line?);
    ranks.finish_first()?;
    report
}

/// Kills rank 1 `delay` after both ranks have joined, and waits until rank 0 names it. The exchange
/// reports a rank once its connection has ended; before that rank 0's engine may try to notify it.
fn kill_while_opening(testbed: &Testbed, arguments: &str, delay: Duration) -> Report {
    let ranks = Ranks::start(testbed, programs::TRIAL, 2, arguments)?;
    ranks.rank(0)?.wait_for_line("joined")?;
    ranks.rank(1)?.wait_for_line("joined")?;
    sleep(delay);
    let start = Instant::now();
    ranks.rank(1)?.signal("KILL")?;
    let line = ranks.rank(0)?.wait_for_line("lost rank 1")?;
    let report = report(start, SHUTDOWN_TIME);
    println!("{line}");
    ranks.finish_first()?;
    report
}

/// Rank 0 operates on rank 1's window until it is stopped.
struct Stream {
    ranks: Ranks,
    /// The file that stops both ranks.
    stop: PathBuf,
}

impl Stream {
    /// Starts both ranks and waits until operations complete. `name` is unique in a boot.
    fn start(testbed: &Testbed, name: &str, trial: &str) -> Result<Self> {
        // Requests are sent for 15 s, longer than a slow host needs to end a fault.
        let arguments = format!("{trial} --until $SHARE/stop-{name}");
        let ranks = Ranks::start(testbed, programs::TRIAL, 2, &arguments)?;
        let stop = testbed.dir().join(format!("share/stop-{name}"));
        let stream = Self { ranks, stop };
        stream.wait_for_progress()?;
        Ok(stream)
    }

    /// Waits until operations complete that are posted from now on.
    fn wait_for_progress(&self) -> Result<()> {
        // The operations of the next report may have been posted before; those of the second not.
        self.wait_for_reports("more operations", 2, |line| line.ends_with(" have completed"))
    }

    /// Waits until rank 0 reports a silence.
    fn wait_for_silence(&self) -> Result<()> {
        self.wait_for_reports("a silence", 1, |line| line.starts_with("silent for "))
    }

    fn wait_for_reports(&self, wanted: &str, more: usize, is_one: fn(&&str) -> bool) -> Result<()> {
        let rank = self.ranks.rank(0)?;
        let count = |output: &str| output.lines().filter(is_one).count();
        let target = count(&rank.output()) + more;
        rank.wait_for_output(wanted, |output| (count(output) >= target).then_some(()))
    }

    /// Stops both ranks, which check that no addition was lost.
    fn finish(self) -> Result<()> {
        fs::write(&self.stop, "")?;
        let output = self.ranks.finish()?;
        let line = output.lines().find(|line| line.contains(" operations, "));
        println!("{}", line.context(output.clone())?);
        Ok(())
    }
}

/// Checks that operations pause while machine 2 has a fault, and go on after it.
fn survives(
    testbed: &Testbed,
    name: &str,
    begin: impl FnOnce(&Machine) -> Result<()>,
    end: impl FnOnce(&Machine) -> Result<()>,
) -> Result<()> {
    let stream = Stream::start(testbed, name, "stream --expect survival")?;
    begin(testbed.machine(2))?;
    let silence = stream.wait_for_silence();
    end(testbed.machine(2))?;
    silence?;
    stream.wait_for_progress()?;
    stream.finish()
}

/// Checks that operations on the window of a stopped process complete.
fn stopped_process(testbed: &Testbed, name: &str, trial: &str) -> Result<()> {
    let stream = Stream::start(testbed, name, trial)?;
    let rank = stream.ranks.rank(1)?;
    rank.signal("STOP")?;
    let states = format!("cat $(pgrep -g {} trial | sed 's|.*|/proc/&/status|')", rank.pid()?);
    let until = format!("until {states} | grep -q 'T (stopped)'; do sleep 0.05; done");
    testbed.machine(2).output(&until, HANG_TIMEOUT)?;
    stream.wait_for_progress()?;
    rank.signal("CONT")?;
    stream.finish()
}

/// Freezes machine 2 until operations of rank 0 have failed, then lets them take effect.
fn unknown_outcome(testbed: &Testbed) -> Result<()> {
    const ROUNDS: u32 = 3;
    let arguments = format!("unknown --timeout 16 --rounds {ROUNDS} --frozen-in $SHARE");
    let ranks = Ranks::start(testbed, programs::TRIAL, 2, &arguments)?;
    for round in 1..=ROUNDS {
        ranks.rank(0)?.wait_for_line(&format!("ready for round {round}"))?;
        testbed.machine(2).freeze()?;
        let start = Instant::now();
        fs::write(testbed.dir().join(format!("share/frozen-{round}")), "")?;
        let failed = ranks.rank(0)?.wait_for_line(&format!("round {round}: "));
        testbed.machine(2).thaw()?;
        println!("{} ({:.1?} after they were sent)", failed?, start.elapsed());
    }
    let output = ranks.finish()?;
    output.lines().filter(|line| line.contains("took effect")).for_each(|line| println!("{line}"));
    ensure!(output.contains("each in the table once"), "{output}");
    Ok(())
}

/// Checks that results are exact although packets are lost and duplicated in both directions. Some hundred requests
/// time out, each of which takes a quarter of a second. Soft-RoCE may complete an atomic without its result if an
/// answer was lost and a WRITE followed (`firmware-notes/soft-roce.md`): structures with WRITEs lose no answers.
fn packet_loss(testbed: &Testbed) -> Result<()> {
    let outcome = with_losses(testbed, Machine::netem, &[(2, "soak --keys 400")]).and_then(|()| {
        let trials = [(4, "containers --keys 40"), (2, "map --batches 40")];
        with_losses(testbed, Machine::netem_but_answers, &trials)
    });
    for machine in testbed.machines() {
        machine.netem_off()?;
    }
    outcome
}

/// Runs trials, by their ranks, while `lose` drops packets, and checks that requests were sent again.
fn with_losses(
    testbed: &Testbed,
    lose: fn(&Machine, &str) -> Result<()>,
    trials: &[(u32, &str)],
) -> Result<()> {
    let before = retransmissions(testbed)?;
    for machine in testbed.machines() {
        lose(machine, "loss 5% duplicate 5%")?;
    }
    for (ranks, trial) in trials {
        none_wrong(&run_on_all(testbed, *ranks, &format!("{trial} --timeout 16"))?)?;
    }
    let count = retransmissions(testbed)? - before;
    println!("{count} requests timed out and were sent again");
    ensure!(count > 0, "no packet was lost");
    Ok(())
}

/// Returns the requests of both machines that were sent again after a timeout.
fn retransmissions(testbed: &Testbed) -> Result<u64> {
    testbed.machines().iter().map(|machine| machine.counter("completer_retry_err")).sum()
}

/// Deletes the network interface. (After `rdma link delete` the kernel, 6.1, would keep the device
/// until no process uses it.)
fn removed_device(testbed: &Testbed, _: Mode) -> Report {
    let report = lose_device(testbed, "ip link delete eth0")?;
    let left = testbed.machine(1).output("rdma link show", HANG_TIMEOUT)?;
    ensure!(left.is_empty(), "the device still exists: {left}");
    Ok(report)
}

fn port_down(testbed: &Testbed, _: Mode) -> Report {
    lose_device(testbed, "ip link set eth0 down")
}

/// Runs `command` on rank 0's machine and waits until rank 0's engine reports a fault. The trial
/// checks that every operation in flight was reported.
fn lose_device(testbed: &Testbed, command: &str) -> Report {
    let ranks = Ranks::start(testbed, programs::TRIAL, 2, "stream --expect fault --timeout 14")?;
    ranks.rank(0)?.wait_for_line("have completed")?;
    let start = Instant::now();
    // The command may wait until no process uses the device.
    let _command = testbed.machine(1).start(command, JOB_TIMEOUT)?;
    let line = ranks.rank(0)?.wait_for_line("longest silence")?;
    let report = report(start, DEVICE_LOSS_TIME);
    println!("{line}");
    ranks.finish_first()?;
    report
}
