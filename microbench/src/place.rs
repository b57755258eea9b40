//! Where each rank runs, and where its memory lies.

use core::hash::Hasher;
use std::hash::DefaultHasher;
use std::{fs, io};

use pin::{Affinity, CpuId, CpuSet, HugePages, MemoryPolicy, NodeId, Topology};
use transport::Exchange;

use crate::cli::{HugeName, PinName, PlaceArgs};
use crate::failure::{Failure, Result};
use crate::scenario::gather;

/// Another one on each machine and after each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// What the network calls this machine.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Pins this rank, on `near` or close to it if that is known, and says where its memory goes. All
/// ranks call it with the same [`PinName`]; `said` gets where they are, in words.
pub(crate) fn place(
    args: &PlaceArgs,
    near: Option<NodeId>,
    affinity: &Affinity,
    exchange: &mut dyn Exchange,
    said: &mut Vec<String>,
) -> Result<MemoryPolicy> {
    let huge = match args.huge_pages() {
        HugeName::Try => HugePages::Try,
        HugeName::Never => HugePages::Never,
        HugeName::Require => HugePages::Require,
    };
    if args.pin() == PinName::None {
        said.push("ranks are not pinned".to_owned());
        return Ok(MemoryPolicy { node: None, huge });
    }
    let topology = Topology::from_sysfs("/sys".as_ref())?;
    let machine = this_machine(|file| fs::read_to_string(file))?;
    let (rank, ranks) = among_equals(affinity.allowed(), &machine, exchange)?;
    let places = pin::place(&topology, affinity.allowed(), ranks, near)?;
    let Some(mine) = places.get(rank as usize) else {
        return Err(Failure::new(format!("there is no place for rank {rank} of {ranks}")));
    };
    affinity.pin(mine.cpu)?;
    let [cpu, node] = [mine.cpu.0, mine.node.0].map(u64::from);
    let machine = hash(&machine);
    let all = gather(exchange, [machine, cpu, node])?;
    said.push(describe(&topology, machine, &all));
    Ok(MemoryPolicy { node: Some(mine.memory), huge })
}

/// A launcher may have given ranks CPUs of their own; those of one machine with the same ones
/// share them out. Which of these this rank is, and how many there are.
fn among_equals(
    allowed: &CpuSet,
    machine: &str,
    exchange: &mut dyn Exchange,
) -> Result<(u32, u32)> {
    let mine = [hash(machine), hash(&allowed.to_string())];
    let all = gather(exchange, mine)?;
    let equals = (0..).zip(&all).filter(|(_, cpus)| **cpus == mine);
    let before = equals.clone().filter(|(rank, _)| *rank < exchange.me().0).count();
    // At most as many as there are ranks, which is a u32.
    Ok((u32::try_from(before)?, u32::try_from(equals.count())?))
}

/// Which machine each rank is on, in numbers that differ between machines; all ranks call it.
pub(crate) fn machines(exchange: &mut dyn Exchange) -> Result<Vec<u64>> {
    Ok(gather(exchange, [machine()?])?.into_iter().map(|[machine]| machine).collect())
}

/// The number of this machine, another one than any other's.
pub(crate) fn machine() -> Result<u64> {
    Ok(hash(&this_machine(|file| fs::read_to_string(file))?))
}

/// What tells this machine from others: its boot's number, or its name where that is hidden, as in
/// some containers.
fn this_machine(read: impl Fn(&str) -> io::Result<String>) -> Result<String> {
    let text = |file| read(file).ok().filter(|text| !text.trim().is_empty());
    [BOOT_ID, HOST_NAME].into_iter().find_map(text).ok_or_else(|| {
        Failure::new(format!(
            "neither {BOOT_ID} nor {HOST_NAME} can be read, so that this machine cannot be told \
             from others: mount /proc where ranks run"
        ))
    })
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// CPU and node of every rank, in words. Of each: its machine, CPU and node.
fn describe(topology: &Topology, machine: u64, all: &[[u64; 3]]) -> String {
    let on = |cpus: &CpuSet| {
        let number = |cpu: &u64| u32::try_from(*cpu).is_ok_and(|cpu| cpus.contains(CpuId(cpu)));
        all.iter().filter(|[its, cpu, _]| *its == machine && number(cpu)).count()
    };
    let cpu_shared = topology.cpus().iter().any(|cpu| on(&CpuSet::from_iter([cpu])) > 1);
    let core_shared = topology.cores().iter().any(|core| on(&core.cpus) > 1);
    let sharing = match (cpu_shared, core_shared) {
        (true, _) => "; some share a CPU and take turns",
        (false, true) => "; some share a core",
        _ => "",
    };
    let places: Vec<String> = all.iter().map(|[_, cpu, node]| format!("{cpu}/{node}")).collect();
    let mut machines: Vec<u64> = all.iter().map(|[machine, ..]| *machine).collect();
    machines.sort_unstable();
    machines.dedup();
    let machines = match machines.len() {
        1 => String::new(),
        several => format!(" of {several} machines"),
    };
    format!("ranks pinned to CPU/node {}{machines}{sharing}", places.join(" "))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// What each rank, told by its CPUs and machine, finds itself to be.
    fn places(ranks: &[(&str, &str)]) -> Vec<(u32, u32)> {
        thread::scope(|scope| {
            let all = exchange::threads(u32::try_from(ranks.len()).unwrap()).into_iter().zip(ranks);
            let all: Vec<_> = all
                .map(|(mut exchange, (cpus, machine))| {
                    let cpus: CpuSet = cpus.parse().unwrap();
                    scope.spawn(move || among_equals(&cpus, machine, &mut exchange).unwrap())
                })
                .collect();
            all.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_share_out_the_cpus_they_have_in_common() {
        let ranks = ["0-3", "4-7", "0-3", "0-7", "4-7", "0-3"].map(|cpus| (cpus, "a"));
        assert_eq!(places(&ranks), [(0, 3), (0, 2), (1, 3), (0, 1), (1, 2), (2, 3)]);
    }

    #[test]
    fn ranks_of_other_machines_have_other_cpus() {
        let ranks = [("0-3", "a"), ("0-3", "b"), ("0-3", "b"), ("0-7", "a"), ("0-3", "a")];
        assert_eq!(places(&ranks), [(0, 2), (0, 2), (1, 2), (0, 1), (1, 2)]);
    }

    #[test]
    fn a_machine_without_a_boot_s_number_goes_by_its_name() {
        let machine = |files: &[(&str, &str)]| {
            let found = |file: &str| files.iter().find(|(name, _)| *name == file);
            let read = |file: &str| found(file).ok_or(io::ErrorKind::PermissionDenied);
            this_machine(|file| Ok(read(file)?.1.to_owned()))
        };
        assert_eq!(machine(&[(BOOT_ID, "7"), (HOST_NAME, "a")]).unwrap(), "7");
        assert_eq!(machine(&[(HOST_NAME, "a")]).unwrap(), "a");
        assert_eq!(machine(&[(BOOT_ID, "\n"), (HOST_NAME, "b")]).unwrap(), "b");
        for files in [&[][..], &[(BOOT_ID, ""), (HOST_NAME, "\n")]] {
            let said = machine(files).unwrap_err().to_string();
            assert!(said.contains("mount /proc where ranks run"), "{said}");
        }
    }

    #[test]
    fn a_cpu_is_shared_on_one_machine_only() {
        let topology = Topology::from_sysfs("/sys".as_ref()).unwrap();
        let said = |all: &[[u64; 3]]| describe(&topology, 7, all);
        assert_eq!(said(&[[7, 0, 0], [9, 0, 0]]), "ranks pinned to CPU/node 0/0 0/0 of 2 machines");
        assert!(
            said(&[[7, 0, 0], [7, 0, 0]]).ends_with("0/0 0/0; some share a CPU and take turns")
        );
    }
}
