//! `limits`: measures the maximum rates of this machine now: of its memory, and of a transport
//! between two ranks, by size and operations in flight.

mod beside;
mod cores;
mod row;

use core::time::Duration;

use clap::Args;
use probeline::transport::{Exchange, Owner, Sizes};
use probeline_limits::remote::{Meter, Operation, Plan, WORDS};
use probeline_results::{Note, Row};

pub(crate) use self::beside::TableLimit;
use self::cores::Cores;
use self::row::OfTransport;
pub(crate) use self::row::operation_name;
use super::{of_rank_0, peer, report_job};
use crate::cli::{JobArgs, TransportName, seconds};
use crate::failure::{Failure, Result};
use crate::job::Scenario;
use crate::machine::{less_than, memory_available};
use crate::progress::Progress;
use crate::size::Size;
use crate::table::MOST_IN_FLIGHT;
use crate::timed::Timed;

/// Larger than any cache.
const SIZE: Size = Size::mib(2048);
/// The size of each rank's window if memory permits: larger than any cache.
const WINDOW: Size = Size::mib(256);
/// The maximum share of the available memory for all windows together, as a divisor.
const WINDOWS_SHARE: u64 = 4;
/// Operations of each measurement in the simulator, which would need long for a measurement by
/// time.
const SIMULATED: u64 = 1_000;

#[derive(Args, Clone, Debug)]
pub(crate) struct LimitsArgs {
    /// Memory to measure [default: 2GiB, at most half of the available memory]
    #[arg(long = "size", value_name = "SIZE")]
    size_asked: Option<Size>,

    #[arg(skip)]
    size: Size,

    /// Maximum READs and atomics in flight
    #[arg(long, default_value_t = 64, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MOST_IN_FLIGHT))]
    in_flight: u32,

    /// Seconds for each limit in each round, 0.001 to 3600
    #[arg(long, default_value_t = 0.05, value_name = "SECONDS", value_parser = seconds())]
    seconds_per_measurement: f64,

    /// Rounds in which measurements alternate; medians are reported
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=999))]
    rounds: u32,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

pub(crate) fn run(mut args: LimitsArgs) -> Result<()> {
    args.job.settle(Size::mib(32), Size::mib(1), &[])?;
    args.settle_windows();
    // Found before the job pins this thread.
    let cores = Cores::find()?;
    args.settle_size(&cores)?;
    let Some((mut report, files, output)) = report_job("limits", &args.job, &args)? else {
        return Ok(());
    };
    // Measured after the transport, so that the other ranks need not wait.
    let (mut rows, given) = cores.rows(&args)?;
    rows.extend(row::of_transport(&args.job, &output));
    report.transport.extend(given);
    report.parameter("memory_bytes", args.size.0);
    report.parameter("in_flight", args.in_flight);
    report.parameter("seconds_per_measurement", args.seconds_per_measurement);
    report.parameter("rounds", args.rounds);
    report.rows = rows;
    report.summary = row::summary(args.job.transport.name(), &report.rows);
    report.notes = args.notes();
    report.publish(files)
}

impl LimitsArgs {
    /// Reduces the default window. In the simulator a large window takes as long as a small one,
    /// and over RDMA the pages are locked, of which a user may have few.
    fn settle_windows(&mut self) {
        if self.job.transport != TransportName::Shm {
            return;
        }
        let most = memory_available().map_or(WINDOW.0, |bytes| bytes / WINDOWS_SHARE);
        let part = WINDOW.0.min(most / u64::from(self.job.ranks.max(1)));
        self.job.prefer_part(Size(part));
    }

    fn settle_size(&mut self, cores: &Cores) -> Result<()> {
        let half = memory_available().map_or(SIZE, |bytes| Size(bytes / 2));
        let fits = if half.0 >= SIZE.0 { SIZE } else { half };
        self.size = self.size_asked.unwrap_or(fits);
        let least = Size(probeline_limits::memory::MIN_BYTES as u64 * cores.nodes());
        if self.size.0 < least.0 {
            return Err(Failure::usage(format!(
                "--size {} is too small to be measured: it takes {least} at least",
                self.size
            )));
        }
        match less_than(self.size.0) {
            Some(available) => Err(Failure::usage(format!(
                "--size {} is too large: this machine has {available} of memory available",
                self.size
            ))),
            None => Ok(()),
        }
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds_per_measurement)
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = vec![
            Note::on(
                &["M ops/s"],
                format!("median of {} rounds of {} s", self.rounds, self.seconds_per_measurement),
            ),
            Note::on(&["least", "most"], "minimum and maximum of the rounds"),
            format!("memory: random lines of 64 bytes of {}, chosen by keys", self.size).into(),
            format!(
                "READ, CAS, FAA: by rank 0, on the {} of {}",
                Size(self.job.buckets_per_owner() * 8 / 1024 * 1024),
                peer(self.job.ranks)
            )
            .into(),
        ];
        notes.extend(row::LimitsRow::notes());
        if self.job.transport == TransportName::Sim {
            notes.push(
                format!("simulator: {SIMULATED} operations for each limit, in virtual time").into(),
            );
        }
        notes
    }
}

impl Scenario for LimitsArgs {
    type Output = Vec<Vec<OfTransport>>;

    fn sizes(&self) -> Sizes {
        Sizes {
            window_words: self.job.buckets_per_owner(),
            slots: self.in_flight,
            slot_words: WORDS[WORDS.len() - 1],
            depth: self.in_flight,
        }
    }

    fn longest_alone(&self) -> Duration {
        self.time()
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        if exchange.me() != Owner(0) {
            // The windows must remain until rank 0 has measured everything.
            // All ranks meet after each measurement, so that they wait for at most one at a time.
            while of_rank_0(exchange, &false)? {}
            return Ok(Vec::new());
        }
        let mut progress = Progress::new(u64::from(self.rounds), true);
        let mut rounds = Vec::new();
        for round in 0..self.rounds {
            let announce = |doing: &str| progress.expecting(round.into(), doing, self.time());
            // Uses other words than the previous round, because those may be in a cache.
            let seed = self.job.seed ^ u64::from(round) << 32;
            rounds.push(self.round(engine, seed, announce, exchange)?);
        }
        of_rank_0(exchange, &false)?;
        Ok(rounds)
    }
}

impl LimitsArgs {
    /// Measures each operation once: all of them on random words, and the atomics on one word too.
    fn round<T: Timed>(
        &self,
        engine: &mut T,
        seed: u64,
        mut announce: impl FnMut(&str),
        exchange: &mut dyn Exchange,
    ) -> Result<Vec<OfTransport>> {
        let owners = [peer(self.job.ranks)];
        let mut all = Vec::new();
        for (one_word, end) in [(false, engine.geometry().window_words), (true, 1)] {
            let plan = Plan {
                owners: &owners,
                words: 0..end,
                time: self.time(),
                operations: operations(&self.job),
            };
            let mut meter = Meter::new(&mut *engine, T::now_ns, plan, seed)?;
            for (operation, depth) in meter.kinds() {
                if one_word && matches!(operation, Operation::Read { .. }) {
                    continue;
                }
                announce(&format!("{}, {depth} in flight", operation_name(operation, one_word)));
                all.push(OfTransport { rate: meter.rate(operation, depth)?, one_word });
                of_rank_0(exchange, &true)?;
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
