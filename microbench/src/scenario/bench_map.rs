//! `bench-map`: measures gets and puts of the map by all ranks at once, by mode, workload, keys and
//! load factor, on the workloads of M. Lübke et al., *A Distributed Hash Table for MPI* (2025).

mod entries;
pub(super) mod row;

use clap::{Args, ValueEnum, value_parser};
use probeline::map::{Config, Map, Mode, Operation, Stats};
use probeline::transport::{Exchange, Owner, Sizes};
use probeline_programs::Timed;

use self::entries::{Client, Key, Value};
use self::row::MapRow;
use super::report_job;
use crate::cli::{JobArgs, MAX_ROUNDS, TransportName, name, on_off, one_of, rounds, within};
use crate::failure::Result;
use crate::keys::Keys;
use crate::options::Options;
use crate::progress::Progress;
use crate::run_report::{answer, fields, side_by_side};
use crate::series::Run;
use crate::size::Size;
use crate::table::{batch, in_flight, name_of};
use crate::units;

/// The keys of the paper's Zipf distribution.
const ZIPF_KEYS: u64 = 712_500;
const TABLE_SIZE_HELP: &str =
    "Memory for the map's buckets, all ranks together [default: 256MiB, over verbs 32MiB]";
/// Of this number of operations in `mixed`, one is a put.
const MIXED_PUTS: usize = 20;

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| option.help(TABLE_SIZE_HELP)))]
pub(crate) struct MapArgs {
    /// How writers stay out of each other's way, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "MODE,...", value_parser = one_of(&MODES))]
    #[arg(default_value = "claims,part-locks,bucket-locks,unlocked")]
    mode: Vec<Mode>,

    /// Workloads to run, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,...")]
    #[arg(default_value = "fill,read,write,mixed")]
    workload: Vec<Workload>,

    /// Distributions of the keys of read, write and mixed, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,...")]
    #[arg(default_value = "uniform,zipf")]
    key_distribution: Vec<KeysName>,

    /// Load factors to which the map is filled, separated by commas
    #[arg(long = "load-factor", value_delimiter = ',', value_name = "F,...")]
    #[arg(default_value = "0.5", value_parser = within("load factors", 0.001..=0.95))]
    load_factors: Vec<f64>,

    /// Operations of each rank in read, write and mixed
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    ops: u32,

    /// Runs of each workload; the median is reported
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = rounds())]
    rounds: u32,

    /// Operations in one batch call, whose misses and roundtrips overlap; 1 is blocking calls
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = batch())]
    batch: u32,

    /// Operations in flight of each rank that are posted
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = in_flight(1))]
    in_flight: u32,

    /// Measure the mode claims also with requests that the CPU runs itself, where it reaches all
    /// words; all modes are measured posted [default: on; off on the simulator]
    #[arg(long, value_name = "SWITCH", value_parser = on_off())]
    direct: Option<bool>,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

const MODES: [(&str, &str, Mode); 4] = [
    ("claims", "Writers claim buckets, readers change nothing", Mode::Claims),
    ("part-locks", "A lock for each rank's part: the paper's coarse-grained", Mode::PartLocks),
    ("bucket-locks", "A lock for each bucket: the paper's fine-grained", Mode::BucketLocks),
    ("unlocked", "No lock: the paper's lock-free; may lose a put", Mode::Unlocked),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Puts of different keys into an empty map, up to the load factor
    Fill,
    /// Gets
    Read,
    /// Puts
    Write,
    /// 95 % gets, 5 % puts
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeysName {
    /// All keys that filled the map, equally likely
    Uniform,
    /// Zipf-distributed with exponent 0.99 over 712,500 of them, or all if they are fewer
    Zipf,
}

pub(crate) fn run(mut args: MapArgs) -> Result<()> {
    args.job.resolve(Size::mib(256), Size::mib(32), &[entries::BUCKET_WORDS])?;
    args.check()?;
    let reported = report_job("bench-map", &args.job, args.sizes(), |engine, exchange| {
        args.rows(engine.current.timed(), exchange)
    })?;
    let Some((mut report, files, rows)) = reported else { return Ok(()) };
    report.parameter("buckets_per_rank", args.buckets_per_owner());
    report.parameter("ops_per_rank", args.ops);
    report.parameters(fields!(args; rounds, batch, in_flight));
    report.parameter("direct", args.direct());
    report.summary = args.summary(&rows);
    report.note(args.notes());
    report.publish(files, &rows)
}

/// A step of the measurement: one row.
#[derive(Clone, Copy)]
struct Step {
    mode: Mode,
    /// Whether the CPU runs the requests itself.
    direct: bool,
    workload: Workload,
    keys: KeysName,
    load_factor: f64,
}

impl Step {
    fn path(&self) -> &'static str {
        if self.direct { "direct" } else { "posted" }
    }
}

impl Workload {
    /// Returns how many of the operations of the `nth` batch are gets; the others are puts.
    fn gets(self, operations: usize, nth: usize) -> usize {
        match self {
            Self::Read => operations,
            Self::Fill | Self::Write => 0,
            Self::Mixed if operations >= MIXED_PUTS => operations - operations / MIXED_PUTS,
            Self::Mixed if nth % MIXED_PUTS == MIXED_PUTS - 1 => 0,
            Self::Mixed => operations,
        }
    }
}

impl MapArgs {
    fn direct(&self) -> bool {
        self.direct.unwrap_or(self.job.transport != TransportName::Sim)
    }

    fn config(&self, mode: Mode, direct: bool) -> Config {
        Config { mode, direct, ..Config::new(self.buckets_per_owner()) }
    }

    /// Returns the buckets of each rank; a line remains for the lock of its part.
    fn buckets_per_owner(&self) -> u64 {
        let words = self.job.buckets_per_owner().saturating_sub(entries::LINE_WORDS);
        (words / u64::from(entries::BUCKET_WORDS)).max(1)
    }

    fn buckets(&self) -> u64 {
        self.buckets_per_owner() * u64::from(self.job.ranks)
    }

    fn filled(&self, load_factor: f64) -> u64 {
        // A share of a number of buckets.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let filled = (self.buckets() as f64 * load_factor) as u64;
        filled.max(1)
    }

    /// Checks that the workloads use the options given, and that the numbers of the keys, which are drawn before the clock starts, fit in memory with
    /// the map.
    fn check(&self) -> Result<()> {
        if self.workload.iter().all(|workload| *workload == Workload::Fill) {
            let why = "is for --workload read, write or mixed";
            Options::refuse(&["key-distribution"], why)?;
        }
        let ranks = u64::from(self.job.ranks);
        let numbers = (u64::from(self.ops) * ranks).max(self.buckets()).saturating_mul(8);
        self.job.check_memory(numbers, &format!("--ops {}: the keys of all ranks", self.ops))
    }

    /// Returns the modes and whether the CPU runs the requests itself.
    fn ways(&self) -> Vec<(Mode, bool)> {
        let directly = self.mode.iter().filter(|mode| **mode == Mode::Claims && self.direct());
        let directly = directly.map(|&mode| (mode, true));
        directly.chain(self.mode.iter().map(|&mode| (mode, false))).collect()
    }

    /// Returns the rows of a map in their order. It is filled once for each load factor.
    fn steps(&self, (mode, direct): (Mode, bool)) -> Vec<Step> {
        let mut steps = Vec::new();
        for &load_factor in &self.load_factors {
            let of = |workload, keys| Step { mode, direct, workload, keys, load_factor };
            steps.push(of(Workload::Fill, KeysName::Uniform));
            for &keys in &self.key_distribution {
                let filled = self.workload.iter().filter(|one| **one != Workload::Fill);
                steps.extend(filled.map(|workload| of(*workload, keys)));
            }
        }
        steps
    }

    /// Draws the numbers of the keys of this rank for a run. Each workload and each run has a sequence of
    /// its own, because a get of a key that was just put always finds it, and a put never evicts. All modes
    /// have the same ones.
    fn draw(&self, step: &Step, run: u32, me: Owner) -> Result<Vec<u64>> {
        let filled = self.filled(step.load_factor);
        let keys = match (step.workload, step.keys) {
            (Workload::Fill, _) => {
                let mine = u64::from(me.0)..filled;
                return Ok(mine.step_by(self.job.ranks as usize).collect());
            }
            (_, KeysName::Uniform) => Keys::Uniform(filled),
            (_, KeysName::Zipf) => Keys::Zipf(ZIPF_KEYS.min(filled)),
        };
        let phase = 2 * step.workload as u64 + step.keys as u64;
        let sequence = MAX_ROUNDS.cast_unsigned() * phase + u64::from(run);
        // The lower bits are those of the rank.
        keys.draw(self.ops as usize, self.job.seed ^ sequence << 48, me.0)
    }

    /// Runs a step as often as asked for. A map is filled from empty each time.
    fn measure(
        &self,
        client: &mut Client<'_>,
        step: &Step,
        exchange: &mut dyn Exchange,
    ) -> Result<Vec<Run<Stats>>> {
        let is_fill = step.workload == Workload::Fill;
        let is_asked = !is_fill || self.workload.contains(&Workload::Fill);
        let mut runs = Vec::new();
        for run in 0..if is_asked { self.rounds } else { 1 } {
            let numbers = self.draw(step, run, exchange.me())?;
            if is_fill {
                client.map.clear(exchange)?;
            }
            runs.push(client.once(step.workload, &numbers, exchange)?);
        }
        Ok(if is_asked { runs } else { Vec::new() })
    }

    fn sizes(&self) -> Sizes {
        let of = |mode: &Mode| self.config(*mode, false).sizes::<Key, Value>(self.in_flight);
        let most = |one: Sizes, other: Sizes| Sizes {
            window_words: one.window_words.max(other.window_words),
            slots: one.slots.max(other.slots),
            slot_words: one.slot_words.max(other.slot_words),
            depth: one.depth.max(other.depth),
        };
        self.mode.iter().map(of).reduce(most).unwrap_or_else(|| of(&Mode::Claims))
    }

    fn rows(&self, engine: &mut dyn Timed, exchange: &mut dyn Exchange) -> Result<Vec<MapRow>> {
        let steps: Vec<_> = self.ways().into_iter().map(|way| (way, self.steps(way))).collect();
        let total: usize = steps.iter().map(|(_, steps)| steps.len()).sum();
        let mut progress = Progress::new(total as u64, exchange.me() == Owner(0));
        let mut rows: Vec<MapRow> = Vec::new();
        for ((mode, direct), steps) in steps {
            let operations = vec![Operation::EMPTY; self.in_flight as usize];
            let engine: &mut dyn Timed = &mut *engine;
            let map = Map::open(engine, self.config(mode, direct), operations, exchange)?;
            let mut client = Client::new(map, self.batch as usize);
            // The CPU does not reach all words: the same rows follow as posted ones.
            if direct && !client.map.is_direct() {
                continue;
            }
            for step in &steps {
                let doing = format!("{}, {}, {}", name_of(mode), step.path(), name(step.workload));
                progress.set(rows.len() as u64, &doing);
                let runs = self.measure(&mut client, step, exchange)?;
                let held = client.map.held_lock();
                rows.extend(MapRow::new(step, self.job.ranks, runs, held));
            }
            client.map.clear(exchange)?;
        }
        Ok(rows)
    }

    fn summary(&self, rows: &[MapRow]) -> Vec<String> {
        let title = format!(
            "bench-map: {}, {} ranks, keys of 80 and values of 104 bytes",
            self.job.transport.name(),
            self.job.ranks
        );
        // A line for each workload, a column for each mode and path.
        let way = |row: &MapRow| match &*row.path {
            "direct" => format!("{}, direct", row.mode),
            _ => row.mode.clone(),
        };
        let work = |row: &MapRow| {
            [row.workload.clone(), row.keys.clone(), format!("{:.2}", row.load_factor)]
        };
        let rate = |row: &MapRow| units::rate(row.median_ops_per_s);
        answer(title, side_by_side(["workload", "keys", "load"], rows.iter(), work, way, rate))
    }

    fn notes(&self) -> [String; 2] {
        let calls = match self.batch {
            1 => "one at a time".to_owned(),
            size => format!(
                "in batches of {size}; {} operations in flight where they are posted",
                self.in_flight
            ),
        };
        [
            format!("M ops/s, min, max: of all ranks; median of {} rounds", self.rounds),
            format!("calls: each rank, {calls}"),
        ]
    }
}
