//! Measures the limits of memory on all cores at once.

use core::num::NonZero;
use core::sync::atomic::AtomicU64;
use std::io;
use std::sync::RwLock;
use std::thread;

use probeline::pin::{Affinity, CpuId, HugePages, Mapping, MemoryPolicy, NodeId, Pages};
use probeline_limits::memory::{Rate, measure_keyed};

use super::LimitsArgs;
use super::row::{LimitsRow, of_memory};
use crate::failure::{Failure, Result};
use crate::note::{self, Missing};
use crate::pinning::{self, InitialAffinity};
use crate::progress::Progress;

/// Measurements of memory in each round.
const MEASUREMENTS: u32 = 2;

/// One CPU of each core that this process may use, and their memory nodes unless a container hides
/// them.
pub(super) struct Cores {
    given: InitialAffinity,
    /// `None` if the core exists but its number is unknown.
    cpus: Vec<Option<CpuId>>,
    /// At least one element; `None` lets the kernel choose the node.
    nodes: Vec<Option<NodeId>>,
    hidden: Option<String>,
}

impl Cores {
    pub(super) fn find() -> Result<Self> {
        let given = Affinity::take();
        let allowed = pinning::allowed(&given);
        let (topology, hidden) = pinning::topology(&allowed);
        let usable =
            |core: &&probeline::pin::Core| core.cpus.iter().any(|cpu| allowed.contains(cpu));
        let count = u32::try_from(topology.cores().iter().filter(usable).count())?;
        if count == 0 {
            // The affinity cannot be read.
            let threads = thread::available_parallelism().map_or(1, NonZero::get);
            return Ok(Self { given, cpus: vec![None; threads], nodes: vec![None], hidden });
        }
        let places = probeline::pin::place(&topology, &allowed, count, None)?;
        let mut nodes: Vec<Option<NodeId>> = places
            .iter()
            .map(|place| place.memory.filter(|node| probeline::pin::may_bind(*node)))
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        let cpus = places.iter().map(|place| Some(place.cpu)).collect();
        Ok(Self { given, cpus, nodes, hidden })
    }

    pub(super) fn nodes(&self) -> u64 {
        self.nodes.len() as u64
    }

    pub(super) fn rows(&self, args: &LimitsArgs) -> Result<(Vec<LimitsRow>, Vec<String>)> {
        if let Some(hidden) = &self.hidden {
            note::say(Missing::Topology, 0, hidden);
        }
        let mut progress = Progress::new(u64::from(args.rounds), true);
        let memory = progress.during(0, "mapping memory", || self.memory(args))?;
        let words: Vec<_> = memory.iter().map(Mapping::words).collect();
        let mut rounds = Vec::new();
        for round in 0..args.rounds {
            let longest = MEASUREMENTS * args.time();
            progress.expecting(round.into(), "random lines of memory", longest);
            rounds.push(self.round(&words, args)?);
        }
        let given = memory.iter().map(|part| line(part.pages())).collect();
        Ok((of_memory(name(memory[0].pages()), &rounds), given))
    }

    /// Maps the memory in equal parts on all nodes, like the windows of ranks on all nodes.
    fn memory(&self, args: &LimitsArgs) -> Result<Vec<Mapping>> {
        let bytes = usize::try_from(args.size.0 / self.nodes())?;
        let map = |&node| Mapping::anonymous(bytes, &MemoryPolicy { node, huge: HugePages::Try });
        let parts: Vec<Mapping> =
            self.nodes.iter().map(map).collect::<core::result::Result<_, _>>()?;
        if let Some(refused) = parts.iter().find_map(Mapping::policy_refused) {
            note::say(Missing::Policy, 0, refused);
        }
        Ok(parts)
    }

    /// Pins this thread. If that fails, the thread measures unpinned, unless pinning was requested.
    fn pin(&self, cpu: Option<CpuId>, args: &LimitsArgs) -> Result<()> {
        let affinity = self.given.as_ref().map_err(Clone::clone);
        let pinned = affinity.and_then(|affinity| cpu.map_or(Ok(()), |cpu| affinity.pin(cpu)));
        match pinned.map_err(Failure::from) {
            Err(why) if args.job.place.pin == Some(true) => Err(pinning::must_pin(&why)),
            Err(why) => {
                note::say(Missing::Pinning, 0, pinning::unpinned(&why));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Returns the rates of each core.
    fn round(&self, words: &[&[AtomicU64]], args: &LimitsArgs) -> Result<Vec<[Rate; 2]>> {
        let gate = RwLock::new(());
        let measure = &|cpu| -> Result<[Rate; 2]> {
            self.pin(cpu, args)?;
            // The gate opens after all threads have started or one of them has failed to start.
            drop(gate.read());
            Ok(measure_keyed(words, args.time())?)
        };
        thread::scope(|scope| {
            let closed = gate.write();
            let start = |&cpu| thread::Builder::new().spawn_scoped(scope, move || measure(cpu));
            let threads: io::Result<Vec<_>> = self.cpus.iter().map(start).collect();
            drop(closed);
            let ended = threads?.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::new("a thread that measured ended")))
            });
            ended.collect()
        })
    }
}

fn name(pages: Pages) -> &'static str {
    match pages {
        Pages::Transparent { huge_bytes, mapped_bytes } if huge_bytes == mapped_bytes => {
            "huge pages"
        }
        Pages::HugeTlb { .. } => "huge pages",
        Pages::Base { .. } => "base pages",
        Pages::Transparent { .. } => "partly huge",
        Pages::Unknown { .. } => "unknown pages",
    }
}

fn line(pages: Pages) -> String {
    match pages {
        Pages::Base { .. } => {
            format!("memory measured: huge pages were requested but not available: {pages}")
        }
        _ => format!("memory measured: {pages}"),
    }
}
