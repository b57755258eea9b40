//! Pins each rank to a core and chooses the NUMA node of its memory.

use core::hash::Hasher;
use std::collections::BTreeSet;
use std::hash::DefaultHasher;

use probeline::exchange::machine_id;
use probeline::pin::{Affinity, CpuId, CpuSet, MemoryPolicy, NodeId, Placement, Topology};
use probeline::transport::Exchange;

use crate::cli::PlaceArgs;
use crate::failure::{Failure, Result};
use crate::terminal::{self, Missing};
use probeline_programs::gather;

const UNPINNED: u64 = u64::MAX;

/// The affinity of this process when it started, or why it cannot be read.
pub(crate) type InitialAffinity = core::result::Result<Affinity, probeline::pin::Error>;

/// Pins this rank on `near` or close to it, if that node is known, and returns the node for its
/// memory. All ranks call this with the same `--pin`. `said` receives a text about the places
/// of all ranks. Ranks that cannot be pinned stay unpinned, unless pinning was requested.
pub(crate) fn pin_rank(
    args: &PlaceArgs,
    near: Option<NodeId>,
    given: &InitialAffinity,
    exchange: &mut dyn Exchange,
    said: &mut Vec<String>,
) -> Result<MemoryPolicy> {
    let huge = args.huge_pages;
    if args.pin == Some(false) {
        said.push("ranks are not pinned".to_owned());
        return Ok(MemoryPolicy { node: None, huge });
    }
    // Machines that cannot be identified count as one; each rank still gets a CPU that it may use.
    let machine = machine_id().unwrap_or_default();
    let allowed = allowed(given);
    let (rank, ranks) = among_sharers(&allowed, &machine, exchange)?;
    let (topology, hidden) = topology(&allowed);
    terminal::say_once(Missing::Topology, hidden, exchange)?;
    let pinned = pin(given, &topology, near, rank, ranks);
    if args.pin == Some(true) {
        insist(pinned.as_ref().err(), exchange)?;
    }
    let unpinned =
        |why: &Failure| format!("{why}; containers often forbid this. Continuing without pinning.");
    terminal::say_once(Missing::Pinning, pinned.as_ref().err().map(unpinned), exchange)?;
    let mine = pinned.ok();
    let [cpu, node] = mine.map_or([UNPINNED, 0], |mine| [mine.cpu.0, mine.node.0].map(u64::from));
    let machine = hash(&machine);
    let all = gather(exchange, [machine, cpu, node])?;
    said.push(describe(&topology, machine, &all));
    let node = mine.and_then(|mine| mine.memory).filter(|node| probeline::pin::may_bind(*node));
    Ok(MemoryPolicy { node, huge })
}

/// Returns the CPUs that this process may use, or an empty set if they cannot be read.
pub(crate) fn allowed(given: &InitialAffinity) -> CpuSet {
    given.as_ref().map_or_else(|_| CpuSet::default(), |affinity| affinity.allowed().clone())
}

/// Returns the cores and nodes of this machine. Some containers hide `/sys` or show CPUs other than
/// `allowed`: then the topology consists of `allowed` alone, and the second value states the
/// reason.
pub(crate) fn topology(allowed: &CpuSet) -> (Topology, Option<String>) {
    let why = match Topology::from_sysfs("/sys".as_ref()) {
        Ok(topology) if allowed.is_empty() || !shared(&topology, allowed).is_empty() => {
            return (topology, None);
        }
        Ok(_) => format!("/sys shows none of the CPUs {allowed} that this process may use"),
        Err(error) => error.to_string(),
    };
    let why = format!(
        "{why}; containers often hide it. Continuing as if every CPU were its own core, without NUMA nodes."
    );
    (Topology::from_cpus(allowed), Some(why))
}

fn shared(topology: &Topology, allowed: &CpuSet) -> CpuSet {
    topology.cpus().intersection(allowed)
}

/// Returns `near` if the topology has that node. A container may show the device and hide its node.
pub(crate) fn known(near: Option<NodeId>, topology: &Topology) -> Option<NodeId> {
    near.filter(|node| topology.node(*node).is_some())
}

fn pin(
    given: &InitialAffinity,
    topology: &Topology,
    near: Option<NodeId>,
    rank: u32,
    ranks: u32,
) -> Result<Placement> {
    let affinity = given.as_ref().map_err(Clone::clone)?;
    let places = probeline::pin::place(topology, affinity.allowed(), ranks, known(near, topology))?;
    let Some(mine) = places.get(rank as usize) else {
        return Err(Failure::new(format!("there is no place for rank {rank} of {ranks}")));
    };
    affinity.pin(mine.cpu)?;
    Ok(*mine)
}

/// Fails on all ranks if a rank that must be pinned cannot be.
fn insist(failure: Option<&Failure>, exchange: &mut dyn Exchange) -> Result<()> {
    match (terminal::first_rank(failure.is_some(), exchange)?, failure) {
        (None, _) => Ok(()),
        (Some(rank), Some(why)) if rank == exchange.me().0 => Err(Failure::new(format!(
            "{why}: allow sched_setaffinity where ranks run, or leave out --pin cores"
        ))),
        (Some(rank), _) => {
            let what = format!("rank {rank} cannot be pinned: see the message of that rank");
            Err(Failure::new(what).everywhere())
        }
    }
}

/// Returns the index of this rank among the ranks of its machine with the same CPUs, and their
/// number. Ranks that a launcher gave the same CPUs divide them.
fn among_sharers(
    allowed: &CpuSet,
    machine: &str,
    exchange: &mut dyn Exchange,
) -> Result<(u32, u32)> {
    let mine = [hash(machine), hash(&allowed.to_string())];
    let all = gather(exchange, mine)?;
    let sharers = (0..).zip(&all).filter(|(_, cpus)| **cpus == mine);
    let before = sharers.clone().filter(|(rank, _)| *rank < exchange.me().0).count();
    // At most as many as there are ranks, which is a u32.
    Ok((u32::try_from(before)?, u32::try_from(sharers.count())?))
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// Describes the CPU and node of every rank. `all` has the machine, CPU and node of each.
fn describe(topology: &Topology, machine: u64, all: &[[u64; 3]]) -> String {
    if all.iter().all(|[_, cpu, _]| *cpu == UNPINNED) {
        return "ranks are not pinned".to_owned();
    }
    let on = |cpus: &CpuSet| {
        let number = |cpu: &u64| u32::try_from(*cpu).is_ok_and(|cpu| cpus.contains(CpuId(cpu)));
        all.iter().filter(|[its, cpu, _]| *its == machine && number(cpu)).count()
    };
    let cpu_shared = topology.cpus().iter().any(|cpu| on(&CpuSet::from_iter([cpu])) > 1);
    let core_shared = topology.cores().iter().any(|core| on(&core.cpus) > 1);
    // First, because long lines are cut at their ends.
    let sharing = match (cpu_shared, core_shared) {
        (true, _) => "ranks share CPUs: ",
        (false, true) => "ranks share cores: ",
        _ => "",
    };
    let place = |&[_, cpu, node]: &[u64; 3]| match cpu {
        UNPINNED => "-".to_owned(),
        cpu => format!("{cpu}/{node}"),
    };
    let places: Vec<String> = all.iter().map(place).collect();
    let machines: BTreeSet<u64> = all.iter().map(|[machine, ..]| *machine).collect();
    let machines = match machines.len() {
        1 => String::new(),
        several => format!(" of {several} machines"),
    };
    format!("{sharing}ranks pinned to CPU/node {}{machines}", places.join(" "))
}

#[cfg(test)]
mod tests {
    use probeline_exchange::testing::on_ranks;

    use super::*;

    /// Returns the index and the number of sharers of each rank, given its CPUs and machine.
    fn places(ranks: &[(&str, &str)]) -> Vec<(u32, u32)> {
        on_ranks(u32::try_from(ranks.len()).unwrap(), |mut exchange| {
            let (cpus, machine) = ranks[exchange.me().0 as usize];
            among_sharers(&cpus.parse().unwrap(), machine, &mut exchange).unwrap()
        })
    }

    #[test]
    fn ranks_divide_common_cpus() {
        let ranks = ["0-3", "4-7", "0-3", "0-7", "4-7", "0-3"].map(|cpus| (cpus, "a"));
        assert_eq!(places(&ranks), [(0, 3), (0, 2), (1, 3), (0, 1), (1, 2), (2, 3)]);
    }

    #[test]
    fn machines_divide_cpus_separately() {
        let ranks = [("0-3", "a"), ("0-3", "b"), ("0-3", "b"), ("0-7", "a"), ("0-3", "a")];
        assert_eq!(places(&ranks), [(0, 2), (0, 2), (1, 2), (0, 1), (1, 2)]);
    }

    #[test]
    fn reports_sharing_within_machine_only() {
        let topology = Topology::from_sysfs("/sys".as_ref()).unwrap();
        let said = |all: &[[u64; 3]]| describe(&topology, 7, all);
        assert_eq!(said(&[[7, 0, 0], [9, 0, 0]]), "ranks pinned to CPU/node 0/0 0/0 of 2 machines");
        let shared = "ranks share CPUs: ranks pinned to CPU/node 0/0 0/0";
        assert_eq!(said(&[[7, 0, 0], [7, 0, 0]]), shared);
    }

    #[test]
    fn unpinned_ranks_have_no_cpu() {
        let topology = Topology::from_cpus(&"0-1".parse().unwrap());
        let said = |all: &[[u64; 3]]| describe(&topology, 7, all);
        assert_eq!(said(&[[7, 0, 0], [7, UNPINNED, 0]]), "ranks pinned to CPU/node 0/0 -");
        assert_eq!(said(&[[7, UNPINNED, 0], [7, UNPINNED, 0]]), "ranks are not pinned");
    }

    #[test]
    fn treats_hidden_cpus_as_cores() {
        let hidden: CpuSet = "65000-65001".parse().unwrap();
        let (topology, why) = topology(&hidden);
        assert_eq!(topology.cpus(), hidden);
        let why = why.unwrap();
        assert!(
            why.contains("none of the CPUs 65000-65001") && why.contains("Continuing"),
            "{why}"
        );
        assert_eq!(known(Some(NodeId(1)), &topology), None);
    }
}
