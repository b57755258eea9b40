//! The searches of an exploration: one, and another one after each marking that does not fit.

use core::sync::atomic::Ordering::Relaxed;

use probeline::table::CollectiveError;
use probeline::transport::Exchange;

use super::expansion::Counts;
use super::search::{Ended, Pause, Search};
use super::table_size::{Limit, TableSize};
use super::tables::{Engine, Opened, StateKind, TableStats};
use super::{Exploration, Explored, Host};
use crate::petri::Packing;
use crate::{Error, Timed, gather_values};

pub(super) struct Searches<'a> {
    exploration: &'a Exploration,
    host: &'a mut dyn Host,
    packing: Packing,
    start_ns: u64,
    size: TableSize,
    /// The number of times that the table grew, and the time that it took.
    growths: u32,
    growth_ns: u64,
}

impl<'a> Searches<'a> {
    /// Creates the searches of an exploration that started at `start_ns`.
    pub(super) fn new(exploration: &'a Exploration, start_ns: u64, host: &'a mut dyn Host) -> Self {
        let packing = exploration.packing.clone();
        let size = TableSize::new(exploration);
        Self { exploration, host, packing, start_ns, size, growths: 0, growth_ns: 0 }
    }

    /// Searches until all states fit their packing. The window is new. Each search but the first
    /// has a wider field than the one before, so the number of bits bounds the number of searches.
    pub(super) fn run(
        mut self,
        engine: &mut dyn Engine,
        exchange: &mut dyn Exchange,
    ) -> Result<Explored, Error> {
        loop {
            let words = self.packing.words();
            let search = self.exploration.states(words).search;
            if let Some(explored) = search(&mut self, engine, exchange)? {
                return Ok(explored);
            }
            // The next search starts with an empty table, and maybe with other words.
            exchange.barrier()?;
            engine.current().window().iter().for_each(|word| word.store(0, Relaxed));
            exchange.barrier()?;
        }
    }

    /// Searches with states of `W` words. Returns nothing if they need another packing.
    pub(super) fn search<K: StateKind<W>, const W: usize>(
        &mut self,
        engine: &mut dyn Engine,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Explored>, Error> {
        let packing = self.packing.clone();
        let mut search = Search::<W>::new(self.exploration, &packing);
        // Each table but the last is larger than the one before it.
        loop {
            let now = self.size.now;
            let mut table = K::open(engine.current(), self.exploration, now, self.host, exchange)?;
            let pause = search.run::<K>(&mut table, &self.size, self.host, exchange)?;
            match pause {
                Pause::Ended(ended) => {
                    return self.end::<K, W>(&mut table, *ended, exchange).map(Some);
                }
                Pause::Restart(grown) => {
                    self.packing = grown;
                    return Ok(None);
                }
                Pause::Grow(bytes) => {
                    drop(table);
                    if let Some(limit) = self.grow::<K, W>(engine, bytes, exchange)? {
                        search.stop_growing(limit);
                    }
                }
            }
        }
    }

    /// Moves the states found so far to a table of this size. If that fails, or is stopped, they stay
    /// where they are. Returns the reason of a failure.
    fn grow<K: StateKind<W>, const W: usize>(
        &mut self,
        engine: &mut dyn Engine,
        bytes: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Limit>, Error> {
        let start_ns = engine.current().now_ns();
        let (exploration, from, host) = (self.exploration, self.size.now, &mut *self.host);
        let moved =
            engine.grow(exploration.sizes_of(bytes), exchange, &mut |now, next, exchange| {
                let mut table = K::open(now, exploration, from, host, exchange)?;
                let mut larger = K::open(next, exploration, bytes, host, exchange)?;
                Ok(table.grow_into_while(&mut larger, exchange, || host.stop() == 0))
            });
        let moved = match moved {
            Ok(Err(CollectiveError::Full { .. })) => return Ok(Some(self.size.limit_at(bytes))),
            // The search ends with its next round, because a rank has got a signal.
            Ok(Err(CollectiveError::Stopped)) => return Ok(None),
            moved => moved.and_then(|moved| Ok(moved?)),
        };
        match moved {
            Ok(_) => {}
            Err(error) if error.is_loss() => {
                return Err(Error::Growing { bytes, error: Box::new(error) });
            }
            Err(error) => return Ok(Some(Limit::Failed(bytes, error.to_string()))),
        }
        self.size.now = bytes;
        self.growths += 1;
        self.growth_ns += engine.current().now_ns() - start_ns;
        Ok(None)
    }

    fn end<K: StateKind<W>, const W: usize>(
        &mut self,
        table: &mut Opened<'_, K>,
        ended: Ended,
        exchange: &mut dyn Exchange,
    ) -> Result<Explored, Error> {
        let took_ns = table.transport().now_ns() - self.start_ns;
        let all = gather_values(exchange, &(ended.counts, ended.stats))?;
        let sum =
            |field: fn(&Counts) -> u64| all.iter().map(|(counts, _)| field(counts)).sum::<u64>();
        let counts = Counts {
            states: sum(|of| of.states),
            expanded: sum(|of| of.expanded),
            arcs: sum(|of| of.arcs),
            known: sum(|of| of.known),
            find_or_puts: sum(|of| of.find_or_puts),
            deadlocks: sum(|of| of.deadlocks),
            levels: ended.counts.levels,
        };
        let none = TableStats::default();
        let stats = all.iter().fold(none, |sum, (_, of_rank)| sum.plus(of_rank));
        let (Counts { states, expanded, .. }, open) = (counts, ended.open);
        let held = table.len(exchange)?;
        if held != states || expanded + open != states {
            return Err(Error::Wrong(format!(
                "{states} states were inserted, {held} are in the table, {expanded} were expanded \
                 and {open} were not"
            )));
        }
        Ok(Explored {
            ended: Ended { counts, stats, ..ended },
            busiest: all.iter().map(|(counts, _)| counts.expanded).max().unwrap_or(0),
            took_ns,
            growths: self.growths,
            growth_ns: self.growth_ns,
            table_bytes: self.size.now,
            buckets: table.layout().buckets(),
            occupied: K::occupied(table, states, exchange)?,
            entry_bytes: K::ENTRY_BYTES,
            words: W,
            bits: self.packing.bits(),
        })
    }
}
