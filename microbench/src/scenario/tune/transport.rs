//! Measures the transport without a table: for the model with all ranks at once, and for a profile
//! also with one rank alone.

use core::time::Duration;
use std::collections::BTreeSet;
use std::path::Path;

use probeline::transport::{Exchange, Owner};
use probeline_limits::remote::{Meter, Operation, Plan, WORDS};
use probeline_profile::{Given, Kind, Profile};
use probeline_results::gather_values;
use probeline_tune::Rates;

use super::bench::lower_quartile;
use crate::cli::{JobArgs, TransportName};
use crate::failure::Result;
use crate::machine::Machine;
use crate::options::Options;
use crate::pinning;
use crate::progress::Progress;
use crate::scenario::median;
use crate::timed::Timed;

/// Rounds in which all kinds of operations are measured in turn.
const ROUNDS: u64 = 5;
/// Operations of a measurement in the simulator, which would need long for a measurement by time.
const SIMULATED: u64 = 500;

/// Measures READs by size and compare-and-swaps, at depths 1 to `deepest`, uniformly over the
/// windows of all owners. Returns the same on all ranks. The windows must not be in use.
pub(super) fn rates<T: Timed>(
    engine: &mut T,
    job: &JobArgs,
    deepest: u32,
    time: Duration,
    exchange: &mut dyn Exchange,
) -> Result<Rates> {
    let owners: Vec<Owner> = (0..exchange.owners()).map(Owner).collect();
    let plan = plan(engine, job, &owners, time);
    let kinds = Meter::new(&mut *engine, T::now_ns, plan, 0)?.kinds();
    let asked = |(kind, depth): &_| *kind != Operation::Add && *depth <= deepest;
    let of = |(operation, depth)| Measurement::new(operation, depth, Who::All, Place::Random);
    let mut all: Vec<_> = kinds.into_iter().filter(asked).map(of).collect();
    measure(&mut all, engine, job, &owners, time, exchange)?;
    let mut rates = Rates::new();
    for Measurement { operation, depth, rounds, .. } in all {
        let mean_ns =
            |rates: Vec<f64>| rates.iter().map(|rate| 1e9 / rate).sum::<f64>() / rates.len() as f64;
        let ns = lower_quartile(rounds.into_iter().map(mean_ns).collect());
        match operation {
            Operation::Read { words } => rates.read(words, depth, ns),
            Operation::Swap | Operation::Add => rates.swap(depth, ns),
        }
    }
    Ok(rates)
}

/// The longest READ, which measures the byte rate of a link.
const LONGEST: Operation = Operation::Read { words: WORDS[WORDS.len() - 1] };
const SHORTEST: Operation = Operation::Read { words: WORDS[0] };
/// If atomics on one word reach less than this share of the rate on random words, the word is the
/// bottleneck.
const AS_FAST: f64 = 0.9;
const PLACES: [&str; 9] =
    ["out", "profile-out", "json", "csv", "markdown", "rank", "rendezvous", "secret-file", "port"];
/// The option that names a built-in network or a file.
const SIMULATED_PROFILE: &str = "sim-profile";

#[derive(Clone, Debug)]
struct Measurement {
    operation: Operation,
    depth: u32,
    who: Who,
    place: Place,
    /// The rate of each rank in each round; 0 for ranks that do not measure.
    rounds: Vec<Vec<f64>>,
}

impl Measurement {
    fn new(operation: Operation, depth: u32, who: Who, place: Place) -> Self {
        Self { operation, depth, who, place, rounds: Vec::new() }
    }

    fn per_s(&self) -> f64 {
        median(self.rounds.iter().map(|rates| rates.iter().sum()).collect()).unwrap_or(0.0)
    }
}

/// The ranks that measure; the others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    First,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Random words of the most distant owners.
    Random,
    /// The same word for all ranks.
    OneWord,
}

#[derive(Clone, Debug)]
pub(super) struct Network {
    all: Vec<Measurement>,
    machines: u32,
    ranks: u32,
}

/// Measures together with the other ranks, at the requested depths. The windows must not be in use.
pub(super) fn network<T: Timed>(
    engine: &mut T,
    job: &JobArgs,
    depths: &[u32],
    time: Duration,
    exchange: &mut dyn Exchange,
) -> Result<Network> {
    let machines = match job.transport {
        TransportName::Sim => (0..exchange.owners()).map(|rank| job.sim.machine(rank)).collect(),
        _ => pinning::machines(exchange)?,
    };
    let by_cpu = job.transport == TransportName::Shm;
    let owners = match by_cpu {
        true => (0..exchange.owners()).map(Owner).collect(),
        false => far(&machines, exchange.me()),
    };
    let mut all = measurements(depths, by_cpu);
    measure(&mut all, engine, job, &owners, time, exchange)?;
    Ok(Network { all, machines: distinct(&machines), ranks: exchange.owners() })
}

/// Measures `all` in turn in each round, together with the other ranks; on random words those of
/// `owners`.
fn measure<T: Timed>(
    all: &mut [Measurement],
    engine: &mut T,
    job: &JobArgs,
    owners: &[Owner],
    time: Duration,
    exchange: &mut dyn Exchange,
) -> Result<()> {
    let mut progress = Progress::new(ROUNDS * all.len() as u64, exchange.me() == Owner(0));
    let steps = all.len() as u64;
    for round in 0..ROUNDS {
        let seed = job.seed ^ round << 32 ^ u64::from(exchange.me().0) << 16;
        for (done, one) in (round * steps..).zip(&mut *all) {
            let plan = match one.place {
                Place::Random => plan(engine, job, owners, time),
                Place::OneWord => Plan { words: 0..1, ..plan(engine, job, &[Owner(0)], time) },
            };
            progress.expecting(done, "READs and claims without a table", time);
            exchange.barrier()?;
            let measures = one.who == Who::All || exchange.me() == Owner(0);
            let rate = || -> Result<f64> {
                let mut meter = Meter::new(engine, T::now_ns, plan, seed ^ done)?;
                Ok(meter.rate(one.operation, one.depth)?.per_second)
            };
            let mine = measures.then(rate).transpose()?.unwrap_or(0.0);
            one.rounds.push(gather_values(exchange, &mine)?);
        }
    }
    Ok(())
}

fn plan<'o, T: Timed>(engine: &T, job: &JobArgs, owners: &'o [Owner], time: Duration) -> Plan<'o> {
    let operations = if job.transport == TransportName::Sim { SIMULATED } else { u64::MAX };
    Plan { owners, words: 0..engine.geometry().window_words, time, operations }
}

fn measurements(depths: &[u32], by_cpu: bool) -> Vec<Measurement> {
    let of = Measurement::new;
    let reads = WORDS.map(|words| of(Operation::Read { words }, 1, Who::First, Place::Random));
    let mut all = reads.to_vec();
    all.push(of(Operation::Swap, 1, Who::First, Place::Random));
    for &depth in depths {
        all.push(of(Operation::Swap, depth, Who::All, Place::Random));
        all.push(of(Operation::Swap, depth, Who::All, Place::OneWord));
        if by_cpu {
            // Words that the CPU accesses itself do not queue at a NIC.
            continue;
        }
        for operation in [SHORTEST, Operation::Swap] {
            all.push(of(operation, depth, Who::First, Place::Random));
        }
        for operation in [SHORTEST, LONGEST] {
            all.push(of(operation, depth, Who::All, Place::Random));
        }
    }
    all
}

/// Returns the owners on other machines, or on a single machine all other owners.
fn far(machines: &[u64], me: Owner) -> Vec<Owner> {
    let mine = machines.get(me.0 as usize);
    let of = |apart: fn(Owner, &u64, Owner, Option<&u64>) -> bool| -> Vec<Owner> {
        let owners = (0..).zip(machines).map(|(owner, machine)| (Owner(owner), machine));
        owners.filter(|(owner, its)| apart(*owner, its, me, mine)).map(|(owner, _)| owner).collect()
    };
    let elsewhere = of(|_, its, _, mine| Some(its) != mine);
    let others = of(|owner, _, me, _| owner != me);
    let found = [elsewhere, others].into_iter().find(|owners| !owners.is_empty());
    found.unwrap_or_else(|| vec![me])
}

fn distinct(machines: &[u64]) -> u32 {
    u32::try_from(machines.iter().collect::<BTreeSet<_>>().len()).unwrap_or(u32::MAX)
}

impl Network {
    /// Returns the best rate over all depths, or that of one depth.
    fn best(&self, operation: Operation, who: Who, place: Place, depth: Option<u32>) -> f64 {
        let of = self.all.iter().filter(|one| {
            (one.operation, one.who, one.place) == (operation, who, place)
                && depth.is_none_or(|depth| depth == one.depth)
        });
        of.map(Measurement::per_s).fold(0.0, f64::max)
    }

    fn share(&self, operation: Operation) -> f64 {
        self.best(operation, Who::All, Place::Random, None) / f64::from(self.machines.max(1))
    }

    fn alone_ns(&self, operation: Operation) -> f64 {
        1e9 / self.best(operation, Who::First, Place::Random, Some(1)).max(1e-3)
    }

    /// Returns the profile, which takes the name of its file.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn profile(&self, job: &JobArgs, file: &Path) -> Result<Profile> {
        let by_cpu = job.transport == TransportName::Shm;
        let section = if by_cpu { "local" } else { "remote" };
        let transport = job.transport.name();
        let name = file.file_stem().map_or(transport.into(), |stem| stem.to_string_lossy());
        let where_to = match (by_cpu, self.machines) {
            (true, _) => "in shared memory".to_owned(),
            (false, 1) => "of one machine, through its device".to_owned(),
            (false, machines) => format!("on {machines} machines"),
        };
        let about =
            format!("{transport}, {} ranks {where_to}: measured by probeline tune", self.ranks);
        let mut profile = Profile::new(&name, &about);
        let from = format!(
            "{}, {}, {}",
            command_line(&job.options, job.sim.profile()),
            today(),
            Machine::look().short()
        );
        let mut set = |quantity: &str, value: f64, how: &str| {
            let given = Given {
                value: value.round() as u64,
                kind: Kind::Measured,
                source: format!("{from}: {how}"),
            };
            profile.set(quantity, given)
        };
        let alone = "rank 0 alone, one at a time";
        let line = format!("{alone}, the line through READs of 8 B to 4 KiB");
        let reads = WORDS.map(|words| (words, self.alone_ns(Operation::Read { words }) as u64));
        if let Some(cost) = probeline::table::ReadCost::from_measurements(&reads) {
            set(&format!("{section}.read_base_ns"), cost.base_ps as f64 / 1e3, &line)?;
            set(&format!("{section}.read_word_ps"), cost.bucket_ps as f64, &line)?;
        }
        set(&format!("{section}.atomic_ns"), self.alone_ns(Operation::Swap), alone)?;
        if !by_cpu {
            self.set_rates(&mut set)?;
        }
        let one_word = self.best(Operation::Swap, Who::All, Place::OneWord, None);
        if one_word < AS_FAST * self.share(Operation::Swap) {
            let how = format!("{} ranks on one word, the best depth", self.ranks);
            set("word.atomic_ns", 1e9 / one_word.max(1e-3), &how)?;
        }
        Ok(profile)
    }

    /// Sets the maximum rates that one rank and that one machine sends. A machine receives at the
    /// rate at which it sends.
    fn set_rates(
        &self,
        set: &mut impl FnMut(
            &str,
            f64,
            &str,
        ) -> core::result::Result<(), probeline_profile::UnknownQuantity>,
    ) -> Result<()> {
        let alone = "rank 0 alone, the best depth";
        let together = format!("{} ranks at once, a machine's share, the best depth", self.ranks);
        let of = |operation| self.best(operation, Who::First, Place::Random, None);
        set("rank.reads_per_s", of(SHORTEST), &format!("{alone}, READs of 8 B"))?;
        set("rank.atomics_per_s", of(Operation::Swap), alone)?;
        set("nic.reads_per_s", self.share(SHORTEST), &format!("{together}, READs of 8 B"))?;
        set("nic.atomics_per_s", self.share(Operation::Swap), &together)?;
        if self.machines > 1 {
            let bytes = f64::from(LONGEST_BYTES) * self.share(LONGEST);
            set("nic.bytes_per_s", bytes, &format!("{together}, READs of 4 KiB"))?;
        }
        Ok(())
    }
}

const LONGEST_BYTES: u32 = 8 * WORDS[WORDS.len() - 1];

/// Returns today's date in UTC in ISO 8601 format, such as 2026-11-21.
fn today() -> String {
    jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now()).date().to_string()
}

/// Returns the command line of this process without options that name files and addresses.
fn command_line(options: &Options, simulated_profile: Option<&str>) -> String {
    let built_in = simulated_profile.is_some_and(|name| Profile::built_in(name).is_some());
    let keeps = |name: &str| match name {
        SIMULATED_PROFILE => built_in,
        name => !PLACES.contains(&name),
    };
    let argv = options.clone().only(keeps).to_argv();
    let argv: Vec<_> = argv.iter().map(|argument| argument.to_string_lossy()).collect();
    ["probeline", options.command()]
        .into_iter()
        .chain(argv.iter().map(|it| &**it))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::parsed;

    #[test]
    fn the_most_distant_owners_are_chosen() {
        let far = |machines: &[u64], me| far(machines, Owner(me)).iter().map(|o| o.0).collect();
        let of: [Vec<u32>; 3] = [far(&[7, 7, 9, 9], 0), far(&[7, 7, 7], 1), far(&[7], 0)];
        assert_eq!(of, [vec![2, 3], vec![0, 2], vec![0]]);
    }

    #[test]
    fn paths_of_files_are_omitted() {
        let said = |line: &str, profile| {
            let options = parsed(&line.split(' ').collect::<Vec<_>>()).unwrap();
            command_line(&options, profile)
        };
        assert_eq!(said("tune --out=a --csv b --ranks 4", None), "probeline tune --ranks 4");
        for (profile, kept) in [("das5-fdr", " --sim-profile das5-fdr"), ("nic.toml", "")] {
            let line = format!("tune --ranks 4 --sim-profile {profile}");
            assert_eq!(said(&line, Some(profile)), format!("probeline tune --ranks 4{kept}"));
        }
    }
}
