//! `limits`: measures the maximum rates now: of a transport between two ranks, by size and operations
//! in flight, and of memory that the CPU reaches.

pub(super) mod row;

use core::sync::atomic::AtomicU64;
use core::time::Duration;

use clap::Args;
use probeline::transport::{Exchange, Owner, RemoteWord, Segment, Sizes};
use probeline_programs::{Timed, gather_values};

pub(crate) use self::row::operation_name;
use self::row::{LimitsRow, Round};
use super::{broadcast, peer, report_job};
use crate::cli::{JobArgs, TransportName, rounds, seconds, with_default};
use crate::engines::Measurement;
use crate::failure::Result;
use crate::job::Needs;
use crate::machine::memory_available;
use crate::memory;
use crate::meter::{Meter, Operation, Plan, WORDS};
use crate::progress::Progress;
use crate::run_report::fields;
use crate::size::Size;
use crate::table::in_flight;

/// The size of each rank's window if memory permits: larger than any cache.
const WINDOW: Size = Size::mib(256);
/// The maximum share of the available memory for all windows together, as a divisor.
const WINDOWS_SHARE: u64 = 4;
/// Operations of each measurement in the simulator, which would need long for a measurement by
/// time.
const SIMULATED: u64 = 1_000;

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| with_default(option,
    "32MiB, over verbs 1MiB, over shm 256MiB a rank or a quarter of the available memory")))]
pub(crate) struct LimitsArgs {
    /// Maximum READs and atomics in flight
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = in_flight(1))]
    in_flight: u32,

    /// Seconds for each limit in each round, 0.001 to 3600
    #[arg(long, default_value_t = 0.05, value_name = "SECONDS", value_parser = seconds())]
    seconds_per_measurement: f64,

    /// Rounds in which measurements alternate; medians are reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = rounds())]
    rounds: u32,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

pub(crate) fn run(mut args: LimitsArgs) -> Result<()> {
    args.job.resolve_with(windows, &[])?;
    let reported = report_job("limits", &args.job, args.needs(), |engine, exchange| {
        engine.current.measure(&args, exchange)
    })?;
    let Some((mut report, files, output)) = reported else { return Ok(()) };
    report.parameters(fields!(args; in_flight, seconds_per_measurement, rounds));
    let rows = row::rows(args.job.ranks, &output);
    report.summary = row::summary(&args.job.transport.name(), &rows);
    report.note(args.notes());
    report.publish(files, &rows)
}

impl LimitsArgs {
    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds_per_measurement)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            format!(
                "M ops/s: median of {} rounds of {} s",
                self.rounds, self.seconds_per_measurement
            ),
            format!(
                "READ, CAS, FAA: by rank 0, on the {} of {}",
                Size(self.job.buckets_per_owner() * 8 / 1024 * 1024),
                peer(self.job.ranks)
            ),
        ];
        match self.job.transport {
            TransportName::Shm => notes
                .push("random reads: of lines of 64 bytes in all windows, by all ranks".to_owned()),
            TransportName::Sim => notes
                .push(format!("simulator: {SIMULATED} operations for each limit, in virtual time")),
            _ => {}
        }
        notes
    }

    fn needs(&self) -> Needs {
        let sizes = Sizes {
            window_words: self.job.buckets_per_owner(),
            slots: self.in_flight,
            slot_words: WORDS[WORDS.len() - 1],
            depth: self.in_flight,
        };
        Needs { max_alone: self.time(), ..sizes.into() }
    }
}

impl Measurement for LimitsArgs {
    type Output = Vec<Round>;

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        let leads = exchange.me() == Owner(0);
        let mut progress = Progress::new(u64::from(self.rounds), leads);
        let mut rounds = Vec::new();
        for round in 0..self.rounds {
            let mut announce = |doing: &str| progress.expecting(round.into(), doing, self.time());
            announce("random lines of memory");
            let memory = self.memory(engine, exchange)?.map(|rate| (LimitsRow::memory(), rate));
            rounds.push(Round::from_iter(memory));
            if leads {
                // Uses other words than the previous round, because those may be in a cache.
                let seed = self.job.seed ^ u64::from(round) << 32;
                rounds[round as usize].extend(self.round(engine, seed, announce, exchange)?);
                broadcast(exchange, &false)?;
            } else {
                // All ranks meet after each measurement, so that they wait for at most one at a
                // time.
                while broadcast(exchange, &true)? {}
            }
        }
        Ok(rounds)
    }
}

/// Returns the default size of all windows together. In the simulator a large window takes as long as a
/// small one, and over RDMA the pages are locked, of which a user may have few.
fn windows(job: &JobArgs) -> Size {
    match job.transport {
        TransportName::Shm => {
            let ranks = u64::from(job.ranks.max(1));
            let most = memory_available().map_or(u64::MAX, |bytes| bytes / WINDOWS_SHARE);
            Size(WINDOW.0.min(most / ranks).saturating_mul(ranks))
        }
        TransportName::Verbs => Size::mib(1),
        _ => Size::mib(32),
    }
}

/// The longest time in which ranks measure memory and do not poll.
const MEMORY: Duration = Duration::from_millis(500);

impl LimitsArgs {
    /// Returns the reads of random lines per second of all ranks, if CPUs reach all windows and these
    /// are large enough.
    fn memory<T: Timed>(&self, engine: &T, exchange: &mut dyn Exchange) -> Result<Option<f64>> {
        if self.job.transport != TransportName::Shm {
            return Ok(None);
        }
        exchange.barrier()?;
        // At most 32 GiB of a window are measured; more would not change the rate.
        let words = u32::try_from(engine.geometry().window_words).unwrap_or(u32::MAX);
        let window = |owner| {
            let start = RemoteWord { owner: Owner(owner), index: 0 };
            engine.direct(Segment { start, words })
        };
        let windows: Option<Vec<&[AtomicU64]>> =
            (0..engine.geometry().owners).map(window).collect();
        let rate = windows.and_then(|all| memory::reads_per_s(&all, self.time().min(MEMORY)));
        let all = gather_values(exchange, &rate)?;
        Ok(all.into_iter().sum())
    }

    /// Measures each operation once: all of them on random words, and the atomics on one word too.
    fn round<T: Timed>(
        &self,
        engine: &mut T,
        seed: u64,
        mut announce: impl FnMut(&str),
        exchange: &mut dyn Exchange,
    ) -> Result<Round> {
        let mut all = Vec::new();
        for (one_word, end) in [(false, engine.geometry().window_words), (true, 1)] {
            let plan = Plan {
                owner: peer(self.job.ranks),
                words: 0..end,
                time: self.time(),
                operations: operations(&self.job),
            };
            let mut meter = Meter::new(&mut *engine, plan, seed)?;
            for (operation, depth) in meter.kinds() {
                if one_word && matches!(operation, Operation::Read { .. }) {
                    continue;
                }
                let name = operation_name(operation, one_word);
                announce(&format!("{name}, {depth} in flight"));
                let row = LimitsRow::operation(name, self.job.transport.name(), depth);
                all.push((row, meter.rate(operation, depth)?));
                broadcast(exchange, &true)?;
            }
        }
        Ok(all)
    }
}

fn operations(job: &JobArgs) -> u64 {
    match job.transport {
        TransportName::Sim => SIMULATED,
        _ => u64::MAX,
    }
}
