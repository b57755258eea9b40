//! Translates the options of `simulate` into runs of the simulator.

use probeline::table::Config;
use probeline_profile::paper::{self, WORKLOADS};
use probeline_profile::{Profile, ProfileError, Shape};
use probeline_simulate::{LatencyPlan, MAX_AT_ONCE, Setup, ThroughputPlan};

use super::{Experiment, SimulateArgs};
use crate::failure::{Failure, Result};
use crate::options::Options;
use crate::size::Size;

/// One run of the simulator; a latency run yields several rows of the report, a throughput run one.
pub(super) enum Run {
    Latency(LatencyPlan),
    Throughput(ThroughputPlan),
}

pub(super) const PAPERS_MACHINES: u32 = 48;
/// The number of machines on which a CPU can load every word of the table.
const ONE: u32 = 1;
/// Buckets of each owner in a latency run: the same total for all owners as in the paper's runs
/// with two.
const LATENCY_BUCKETS: u64 = 1 << 22;
const MIN_BUCKETS: u64 = 1 << 12;
/// Buckets per operation that the ranks of a throughput run start, at least; inserts then change the
/// load factor by 1/16 at most.
const BUCKETS_OF_OPERATION: u64 = 16;
/// Empty buckets per such operation, at least. In a table of fewer, inserts that are in flight at
/// once would often claim the same bucket.
const EMPTY_OF_OPERATION: u64 = 8;
/// The maximum memory, in bytes, of all runs that execute at the same time. A run that executes
/// alone may use all available memory.
const MAX_BYTES_AT_ONCE: u64 = 8 << 30;
/// The simulator refuses more ranks, whatever their memory.
const MAX_RANKS: u32 = 4096;
/// The maximum C. With a larger C, READs would need more memory than the table.
pub(super) const MAX_CHUNK_BUCKETS: u32 = 1 << 12;

impl Run {
    pub(super) fn name(&self) -> String {
        let Setup { shape: Shape { machines, ranks_per_machine }, table, .. } = self.setup();
        match self {
            Self::Latency(_) => format!("latency, C = {}", table.chunk_buckets),
            Self::Throughput(plan) => {
                format!("{} on {machines} x {ranks_per_machine}", plan.workload.name())
            }
        }
    }

    fn setup(&self) -> &Setup {
        match self {
            Self::Latency(plan) => &plan.setup,
            Self::Throughput(plan) => &plan.setup,
        }
    }
}

impl SimulateArgs {
    pub(super) fn runs(&self, profile: &Profile) -> Result<Vec<Run>> {
        self.check_machines(profile)?;
        if self.load_factors.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Failure::usage(
                "load factors must rise: give --load-factor in ascending order",
            ));
        }
        let mut runs = Vec::new();
        if self.experiment != Experiment::Throughput {
            for shape in self.latency_shapes() {
                for &chunk in &self.chunk_buckets {
                    runs.push(Run::Latency(self.latency_plan(profile, shape, chunk)?));
                }
            }
        }
        if self.experiment != Experiment::Latency {
            for (shape, workload) in self.throughputs() {
                let mut plan = ThroughputPlan::paper(profile, shape, workload)?;
                plan.setup.table.chunk_buckets = self.throughput_chunk_buckets;
                self.adapt(profile, &mut plan.setup)?;
                plan.load_percent = self.throughput_load_factor;
                plan.operations = self.ops;
                let room = (plan.begun() * self.buckets_of_operation()).next_multiple_of(8);
                let buckets = &mut plan.setup.table.buckets_per_owner;
                *buckets = room.max(*buckets);
                runs.push(Run::Throughput(plan));
            }
        }
        Ok(runs)
    }

    fn buckets_of_operation(&self) -> u64 {
        let empty_percent = u64::from(100_u32.saturating_sub(self.throughput_load_factor)).max(1);
        BUCKETS_OF_OPERATION.max((EMPTY_OF_OPERATION * 100).div_ceil(empty_percent))
    }

    /// Returns the number of runs to execute at the same time. Operations in flight, caches and
    /// windows of all ranks may need more memory than the machine has.
    pub(super) fn at_once(&self, runs: &[Run]) -> Result<usize> {
        // Runs with too many ranks are refused for that reason, not for their memory.
        let fewer = runs.iter().map(Run::setup).filter(|setup| setup.ranks() <= MAX_RANKS);
        let mut bytes: Vec<u64> = fewer.map(Setup::bytes).collect();
        let available = probeline::pin::memory_available().unwrap_or(u64::MAX);
        if let Some(at_once) = fit(&mut bytes, available) {
            return Ok(at_once);
        }
        let most = bytes.first().copied().unwrap_or(0);
        let given = Options::given().tuning.as_ref();
        let given = given.map_or(String::new(), |file| format!(" ({})", file.path));
        Err(Failure::usage(format!(
            "what all ranks have in flight, their caches{given} and their parts of the table take \
             {}, and this machine has {} of memory available: give fewer --machines, \
             --ranks-per-machine or --ops, or a lower --in-flight or --cache",
            Size(most).rounded(),
            Size(available).rounded()
        )))
    }

    fn check_machines(&self, profile: &Profile) -> Result<()> {
        let of = |machines| profile.model(Shape { machines, ranks_per_machine: 1 });
        let most = self.machines.iter().copied().max().unwrap_or(1);
        of(most).map_err(|missing| {
            let missing = Failure::from(missing).or("with --set QUANTITY=VALUE");
            match of(ONE) {
                Ok(_) if most > ONE && !self.paper_figures => {
                    missing.or("or take one machine, --machines 1, which it knows")
                }
                _ => missing,
            }
        })?;
        let by_cpu = self.machines.contains(&ONE) && of(ONE).is_ok_and(|model| model.local_by_cpu);
        if by_cpu && self.in_flight > 1 {
            return Err(Failure::usage(format!(
                "within one machine the profile {} has the time of one access of a CPU and not how \
                 many a CPU does at once: give --in-flight 1, give --machines 2 or more, or measure it \
                 with bench-throughput --ranks N",
                profile.name()
            )));
        }
        if self.truncates() && self.in_flight > 1 {
            return Err(Failure::usage(
                "--truncate-us and --paper-figures cut the time of operations one at a time: leave them out, \
                 or give --in-flight 1",
            ));
        }
        Ok(())
    }

    /// Sets what the options determine for all experiments. Only the operations of the paper's
    /// program need the CPU of another rank.
    fn adapt(
        &self,
        profile: &Profile,
        setup: &mut Setup,
    ) -> core::result::Result<(), ProfileError> {
        if !self.is_paper() {
            setup.model = profile.model(setup.shape)?;
        }
        setup.table = Config {
            max_chunks: self.max_chunks,
            read_ahead: self.read_ahead,
            one_roundtrip: self.one_roundtrip,
            probing: self.probing,
            ..setup.table
        };
        (setup.in_flight, setup.cache_entries) = (self.in_flight, self.cache);
        setup.seed = self.seed;
        Ok(())
    }

    fn latency_plan(&self, profile: &Profile, shape: Shape, chunk: u32) -> Result<LatencyPlan> {
        let mut plan = LatencyPlan::paper(profile, shape, chunk)?;
        self.adapt(profile, &mut plan.setup)?;
        let each = LATENCY_BUCKETS / u64::from(plan.setup.ranks().max(1));
        plan.setup.table.buckets_per_owner = each.max(MIN_BUCKETS).next_multiple_of(8);
        if !self.paper_figures {
            plan.load_percents.clone_from(&self.load_factors);
        }
        Ok(plan)
    }

    /// Returns the requested clusters, or with `--paper-figures` those of the paper's latencies: two ranks
    /// on two machines, and two ranks on one.
    fn latency_shapes(&self) -> Vec<Shape> {
        if self.paper_figures {
            return [2, 1]
                .map(|machines| Shape { machines, ranks_per_machine: 2 / machines })
                .to_vec();
        }
        self.shapes()
    }

    fn shapes(&self) -> Vec<Shape> {
        let machines = self.machines.iter();
        machines
            .flat_map(|&machines| {
                let ranks = self.ranks_per_machine.iter();
                ranks.map(move |&ranks_per_machine| Shape { machines, ranks_per_machine })
            })
            .collect()
    }

    fn throughputs(&self) -> Vec<(Shape, paper::Workload)> {
        let wanted = WORKLOADS.into_iter().filter(|workload| self.workload.contains(workload));
        let shapes = self.shapes();
        wanted
            .flat_map(|workload| {
                let shapes =
                    if self.paper_figures { papers_shapes(workload) } else { shapes.clone() };
                shapes.into_iter().map(move |shape| (shape, workload))
            })
            .collect()
    }
}

/// Returns the number of runs whose memory fits even if the largest ones coincide, or `None` if a
/// single run does not fit. Sorts `bytes` in descending order.
fn fit(bytes: &mut [u64], available: u64) -> Option<usize> {
    bytes.sort_unstable_by(|one, other| other.cmp(one));
    if bytes.first().is_some_and(|&most| most > available) {
        return None;
    }
    let room = available.min(MAX_BYTES_AT_ONCE);
    let together = bytes.iter().take(MAX_AT_ONCE).fold(0, |sum: u64, &one| sum.saturating_add(one));
    Some(if together > room { 1 } else { MAX_AT_ONCE })
}

fn papers_shapes(workload: paper::Workload) -> Vec<Shape> {
    let figures = paper::throughputs().into_iter();
    figures
        .filter(|figure| figure.workload == workload && figure.machines <= PAPERS_MACHINES)
        .map(|figure| Shape {
            machines: figure.machines,
            ranks_per_machine: figure.ranks_per_machine,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallelism_follows_two_largest() {
        const GIB: u64 = 1 << 30;
        for (bytes, available, at_once) in [
            (&mut [][..], 0, Some(2)),
            (&mut [2 * GIB, GIB, 3 * GIB], 5 * GIB, Some(2)),
            (&mut [2 * GIB, GIB, 3 * GIB], 5 * GIB - 1, Some(1)),
            (&mut [3 * GIB], 3 * GIB - 1, None),
            (&mut [6 * GIB, 6 * GIB], 64 * GIB, Some(1)),
            (&mut [u64::MAX, u64::MAX], u64::MAX, Some(1)),
        ] {
            assert_eq!(fit(bytes, available), at_once, "{bytes:?}");
        }
    }
}
