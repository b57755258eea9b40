//! Measures the limits of memory, by pages and by cores.

use core::num::NonZero;
use core::sync::atomic::AtomicU64;
use std::io;
use std::sync::RwLock;
use std::thread;

use probeline::pin::{Affinity, CpuId, HugePages, Mapping, MemoryPolicy, NodeId, Pages};
use probeline_limits::memory::{self, Memory};

use super::row::{LimitsRow, of_memory};
use super::{CoresName, LimitsArgs};
use crate::failure::{Failure, Result};
use crate::note::{self, Missing};
use crate::pinning::{self, InitialAffinity};
use crate::progress::Progress;

/// Measurements of memory in each round for each number of cores, one of which is shorter.
const MEASUREMENTS: u32 = 8;

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
        let (mut rows, mut given) = (Vec::new(), Vec::new());
        let kinds = self.kinds(&args.cores);
        let steps = args.pages.len() * args.rounds as usize;
        let mut progress = Progress::new(steps as u64, true);
        for (turn, &pages) in (0..).zip(&args.pages) {
            let done = turn * u64::from(args.rounds);
            let map = || self.memory(args, pages);
            let memory = progress.during(done, "mapping memory", map)?;
            let words: Vec<_> = memory.iter().map(Mapping::words).collect();
            let mut rounds = vec![Vec::new(); kinds.len()];
            for round in 0..args.rounds {
                for (cpus, rounds) in kinds.iter().zip(&mut rounds) {
                    let longest = MEASUREMENTS * args.time();
                    progress.expecting(done + u64::from(round), "random lines of memory", longest);
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

    fn kinds(&self, names: &[CoresName]) -> Vec<&[Option<CpuId>]> {
        let cpus = |name: &CoresName| match name {
            CoresName::One => &self.cpus[..1],
            CoresName::All => &self.cpus[..],
        };
        let mut kinds: Vec<_> = names.iter().map(cpus).collect();
        // On a machine with one core both choices are the same.
        kinds.dedup();
        kinds
    }

    /// Maps the memory in equal parts on all nodes, like the windows of ranks on all nodes.
    fn memory(&self, args: &LimitsArgs, huge: HugePages) -> Result<Vec<Mapping>> {
        let bytes = usize::try_from(args.size.0 / self.nodes())?;
        let map = |&node| Mapping::anonymous(bytes, &MemoryPolicy { node, huge });
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

    fn round(
        &self,
        cpus: &[Option<CpuId>],
        words: &[&[AtomicU64]],
        args: &LimitsArgs,
    ) -> Result<Vec<Memory>> {
        let gate = RwLock::new(());
        let measure = &|cpu| -> Result<Memory> {
            self.pin(cpu, args)?;
            // The gate opens after all threads have started or one of them has failed to start.
            drop(gate.read());
            Ok(memory::measure(words, args.time())?)
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

fn name(pages: Pages) -> String {
    match pages {
        Pages::Transparent { huge_bytes, mapped_bytes } if huge_bytes == mapped_bytes => {
            "huge pages".to_owned()
        }
        Pages::HugeTlb { .. } => "huge pages".to_owned(),
        Pages::Base { page_bytes, .. } => format!("{} KiB pages", page_bytes >> 10),
        Pages::Transparent { .. } => "partly huge".to_owned(),
        Pages::Unknown { .. } => "unknown pages".to_owned(),
    }
}

fn line(asked: HugePages, pages: Pages) -> String {
    match (asked, pages) {
        (HugePages::Try, Pages::Base { .. }) => {
            format!("memory measured: huge pages were requested but not available: {pages}")
        }
        _ => format!("memory measured: {pages}"),
    }
}
