//! Where each rank runs, and where its memory lies.

use core::hash::Hasher;
use std::hash::DefaultHasher;

use pin::{Affinity, CpuId, CpuSet, HugePages, MemoryPolicy, Topology};
use transport::Exchange;

use crate::cli::{HugeName, PinName, PlaceArgs};
use crate::failure::{Failure, Result};
use crate::scenario::gather;

/// Pins this rank and says where its memory goes. All ranks, of this machine, call it with the
/// same [`PinName`]; `said` gets where they are, in words.
pub(crate) fn place(
    args: &PlaceArgs,
    affinity: &Affinity,
    exchange: &mut dyn Exchange,
    said: &mut Vec<String>,
) -> Result<MemoryPolicy> {
    let huge = match args.huge_pages {
        HugeName::Try => HugePages::Try,
        HugeName::Never => HugePages::Never,
        HugeName::Require => HugePages::Require,
    };
    if args.pin == PinName::None {
        said.push("ranks are not pinned".to_owned());
        return Ok(MemoryPolicy { node: None, huge });
    }
    let topology = Topology::from_sysfs("/sys".as_ref())?;
    let (rank, ranks) = among_equals(affinity.allowed(), exchange)?;
    let places = pin::place(&topology, affinity.allowed(), ranks, None)?;
    let Some(mine) = places.get(rank as usize) else {
        return Err(Failure::new(format!("there is no place for rank {rank} of {ranks}")));
    };
    affinity.pin(mine.cpu)?;
    let all = gather(exchange, [mine.cpu.0, mine.node.0].map(u64::from))?;
    said.push(describe(&topology, &all));
    Ok(MemoryPolicy { node: Some(mine.memory), huge })
}

/// A launcher may have given ranks CPUs of their own; those with the same ones share them out.
/// Which of these this rank is, and how many there are.
fn among_equals(allowed: &CpuSet, exchange: &mut dyn Exchange) -> Result<(u32, u32)> {
    let mut hasher = DefaultHasher::new();
    hasher.write(allowed.to_string().as_bytes());
    let mine = [hasher.finish()];
    let all = gather(exchange, mine)?;
    let equals = (0..).zip(&all).filter(|(_, cpus)| **cpus == mine);
    let before = equals.clone().filter(|(rank, _)| *rank < exchange.me().0).count();
    // At most as many as there are ranks, which is a u32.
    Ok((u32::try_from(before)?, u32::try_from(equals.count())?))
}

/// CPU and node of every rank, in words.
fn describe(topology: &Topology, all: &[[u64; 2]]) -> String {
    let on = |cpus: &CpuSet| {
        let number = |cpu: &u64| u32::try_from(*cpu).is_ok_and(|cpu| cpus.contains(CpuId(cpu)));
        all.iter().filter(|[cpu, _]| number(cpu)).count()
    };
    let cpu_shared = topology.cpus().iter().any(|cpu| on(&CpuSet::from_iter([cpu])) > 1);
    let core_shared = topology.cores().iter().any(|core| on(&core.cpus) > 1);
    let sharing = match (cpu_shared, core_shared) {
        (true, _) => "; some share a CPU and take turns",
        (false, true) => "; some share a core",
        _ => "",
    };
    let places: Vec<String> = all.iter().map(|[cpu, node]| format!("{cpu}/{node}")).collect();
    format!("ranks pinned to CPU/node {}{sharing}", places.join(" "))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn ranks_share_out_the_cpus_they_have_in_common() {
        let allowed = ["0-3", "4-7", "0-3", "0-7", "4-7", "0-3"];
        let places = thread::scope(|scope| {
            let ranks = exchange::threads(6).into_iter().zip(allowed);
            let ranks: Vec<_> = ranks
                .map(|(mut exchange, cpus)| {
                    let cpus: CpuSet = cpus.parse().unwrap();
                    scope.spawn(move || among_equals(&cpus, &mut exchange).unwrap())
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(places, [(0, 3), (0, 2), (1, 3), (0, 1), (1, 2), (2, 3)]);
    }
}
