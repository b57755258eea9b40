//! The memory's limits, by pages and by cores.

use core::sync::atomic::AtomicU64;
use std::io;
use std::sync::RwLock;
use std::thread;

use limits::memory::{Memory, measure_parts};
use pin::{Affinity, CpuId, HugePages, Mapping, MemoryPolicy, NodeId, Pages, Topology};

use super::row::{LimitsRow, of_memory};
use super::{CoresName, LimitsArgs, PagesName};
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// One CPU of each core that this process may use, and the nodes of their memory.
pub(super) struct Cores {
    affinity: Affinity,
    cpus: Vec<CpuId>,
    nodes: Vec<NodeId>,
}

impl Cores {
    pub(super) fn find() -> Result<Self> {
        let affinity = Affinity::take()?;
        let topology = Topology::from_sysfs("/sys".as_ref())?;
        let usable =
            |core: &&pin::Core| core.cpus.iter().any(|cpu| affinity.allowed().contains(cpu));
        let count = u32::try_from(topology.cores().iter().filter(usable).count())?;
        let places = pin::place(&topology, affinity.allowed(), count.max(1), None)?;
        let mut nodes: Vec<NodeId> = places.iter().map(|place| place.memory).collect();
        nodes.sort_unstable();
        nodes.dedup();
        Ok(Self { affinity, cpus: places.iter().map(|place| place.cpu).collect(), nodes })
    }

    /// The nodes that the memory is spread over.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// The rows of all that was asked for, and what pages there were, in words.
    pub(super) fn rows(&self, args: &LimitsArgs) -> Result<(Vec<LimitsRow>, Vec<String>)> {
        let (mut rows, mut given) = (Vec::new(), Vec::new());
        let kinds = self.kinds(&args.cores);
        let steps = args.pages.len() * args.rounds as usize;
        let mut progress = Progress::new(steps as u64, true);
        for (turn, &pages) in (0..).zip(&args.pages) {
            let memory = self.memory(args, pages)?;
            let words: Vec<_> = memory.iter().map(Mapping::words).collect();
            let mut rounds = vec![Vec::new(); kinds.len()];
            for round in 0..args.rounds {
                let done = turn * u64::from(args.rounds) + u64::from(round);
                progress.set(done, "random lines of memory");
                for (cpus, rounds) in kinds.iter().zip(&mut rounds) {
                    rounds.push(self.round(cpus, &words, args)?);
                }
            }
            let names: Vec<_> = memory.iter().map(|part| name(part.pages())).collect();
            given.extend(memory.iter().map(|part| line(pages, part.pages())));
            for rounds in &rounds {
                rows.extend(of_memory(&names[0], rounds));
            }
        }
        Ok((rows, given))
    }

    /// The CPUs that measure at once, once for each kind.
    fn kinds(&self, names: &[CoresName]) -> Vec<&[CpuId]> {
        let cpus = |name: &CoresName| match name {
            CoresName::One => &self.cpus[..1],
            CoresName::All => &self.cpus[..],
        };
        let mut kinds: Vec<_> = names.iter().map(cpus).collect();
        // On a machine with one core both are the same.
        kinds.dedup();
        kinds
    }

    /// The memory in equal parts on all nodes, as that of a table is where ranks are on all.
    fn memory(&self, args: &LimitsArgs, pages: PagesName) -> Result<Vec<Mapping>> {
        let huge = match pages {
            PagesName::Base => HugePages::Never,
            PagesName::Huge => HugePages::Try,
        };
        let bytes = usize::try_from(args.size.0 / self.nodes())?;
        let map = |&node| Mapping::anonymous(bytes, &MemoryPolicy { node: Some(node), huge });
        Ok(self.nodes.iter().map(map).collect::<core::result::Result<_, _>>()?)
    }

    /// Measures with a thread on each of `cpus`, all at once.
    fn round(
        &self,
        cpus: &[CpuId],
        words: &[&[AtomicU64]],
        args: &LimitsArgs,
    ) -> Result<Vec<Memory>> {
        let gate = RwLock::new(());
        let measure = &|cpu| -> Result<Memory> {
            self.affinity.pin(cpu)?;
            // Open once all threads are there, or one of them cannot be.
            drop(gate.read());
            Ok(measure_parts(words, args.time())?)
        };
        thread::scope(|scope| {
            let closed = gate.write();
            let start = |&cpu| thread::Builder::new().spawn_scoped(scope, move || measure(cpu));
            let threads: io::Result<Vec<_>> = cpus.iter().map(start).collect();
            drop(closed);
            let ended = threads?.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::new("a thread that measured ended")))
            });
            ended.collect()
        })
    }
}

/// The pages in a word or two, where they are what they are called.
fn name(pages: Pages) -> String {
    match pages {
        Pages::Transparent { huge_bytes, mapped_bytes } if huge_bytes == mapped_bytes => {
            "huge pages".to_owned()
        }
        Pages::HugeTlb { .. } => "huge pages".to_owned(),
        Pages::Base { page_bytes, .. } => format!("{} KiB pages", page_bytes >> 10),
        Pages::Transparent { .. } => "partly huge".to_owned(),
    }
}

/// What pages there are.
fn line(asked: PagesName, pages: Pages) -> String {
    match (asked, pages) {
        (PagesName::Huge, Pages::Base { .. }) => {
            format!("memory measured: huge pages were asked for and not given: {pages}")
        }
        _ => format!("memory measured: {pages}"),
    }
}
