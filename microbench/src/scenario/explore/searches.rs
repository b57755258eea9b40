//! The searches of an exploration: one, and another one after each marking that does not fit.

use core::sync::atomic::Ordering::Relaxed;

use probeline::table::CollectiveError;
use probeline::transport::{Exchange, Owner};
use probeline_petri::Packing;
use probeline_results::gather_values;

use super::expansion::Counts;
use super::row::ExploreRow;
use super::search::{Ended, Ending, Pause, Search};
use super::table_size::{Limit, TableSize};
use super::tables::{Engine, OpenTable, TableStats, Visited};
use super::{Exploration, Explored};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::scenario::limits::TableLimit;
use crate::size::Size;

/// The result of a search that has ended.
pub(super) type Answer = (ExploreRow, Ending);

pub(super) struct Searches<'a> {
    exploration: &'a Exploration,
    packing: Packing,
    limit: Option<TableLimit>,
    start_ns: u64,
    size: TableSize,
    growths: Growths,
}

/// How often the table grew.
#[derive(Clone, Copy, Debug, Default)]
struct Growths {
    count: u32,
    ns: u64,
}

impl<'a> Searches<'a> {
    /// Creates the searches of an exploration that started at `start_ns`.
    pub(super) fn new(
        exploration: &'a Exploration,
        limit: Option<TableLimit>,
        start_ns: u64,
    ) -> Self {
        let packing = exploration.packing.clone();
        let size = TableSize::new(&exploration.args);
        Self { exploration, packing, limit, start_ns, size, growths: Growths::default() }
    }

    /// Searches until all states fit their packing. The window is new. Each search but the first
    /// has a wider field than the one before, so the number of bits bounds the number of searches.
    pub(super) fn run(
        mut self,
        engine: &mut dyn Engine,
        exchange: &mut dyn Exchange,
    ) -> Result<Explored> {
        loop {
            let words = self.packing.words();
            let search = self.exploration.states(words).search;
            if let Some((row, ending)) = search(&mut self, engine, exchange)? {
                let (limit, size) = (self.limit, self.size.now);
                return Ok(Explored { row, limit, words, size, ending });
            }
            // The next search starts with an empty table, and maybe with other words.
            exchange.barrier()?;
            engine.current().window().iter().for_each(|word| word.store(0, Relaxed));
            exchange.barrier()?;
            self.limit = self.limit.filter(|_| self.packing.words() == words);
        }
    }

    /// Searches with states of `W` words. Returns nothing if they need another packing.
    pub(super) fn search<const W: usize>(
        &mut self,
        open: OpenTable<W>,
        engine: &mut dyn Engine,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Answer>> {
        let packing = self.packing.clone();
        let is_first = exchange.me() == Owner(0);
        let mut search = Search::<W>::new(self.exploration, &packing, is_first);
        // Each table but the last is larger than the one before it.
        loop {
            let mut table = open(engine.current(), self.exploration, self.size.now, exchange)?;
            let pause = search.run(&mut *table, &self.size, exchange)?;
            match pause {
                Pause::Ended(ended) => return self.end(&mut *table, *ended, exchange).map(Some),
                Pause::Restart(grown) => {
                    self.packing = grown;
                    return Ok(None);
                }
                Pause::Grow(size) => {
                    drop(table);
                    if let Some(limit) = self.grow(open, engine, size, exchange)? {
                        search.stop_growing(limit);
                    }
                }
            }
        }
    }

    /// Moves the states found so far to a table of this size. If that fails, or is stopped, they stay
    /// where they are. Returns the reason of a failure.
    fn grow<const W: usize>(
        &mut self,
        open: OpenTable<W>,
        engine: &mut dyn Engine,
        size: Size,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Limit>> {
        let start_ns = engine.current().now_ns();
        let (exploration, from) = (self.exploration, self.size.now);
        let moved =
            engine.grow(exploration.sizes_of(size), exchange, &mut |now, next, exchange| {
                open(now, exploration, from, exchange)?.move_to(next, exploration, size, exchange)
            });
        let moved = match moved {
            Ok(Err(CollectiveError::Full { .. })) => return Ok(Some(self.size.limit_at(size))),
            // The search ends with its next round, because a rank has got a signal.
            Ok(Err(CollectiveError::Stopped)) => return Ok(None),
            moved => moved.and_then(|moved| Ok(moved?)),
        };
        match moved {
            Ok(_) => {}
            Err(failure) if failure.is_loss() => {
                return Err(failure.or(&format!("while the table grew to {size}")));
            }
            Err(failure) => return Ok(Some(Limit::Failed(size, failure.to_string()))),
        }
        self.size.now = size;
        self.growths.count += 1;
        self.growths.ns += engine.current().now_ns() - start_ns;
        // The limit was that of the smaller table.
        self.limit = None;
        Ok(None)
    }

    fn end<const W: usize>(
        &self,
        table: &mut dyn Visited<W>,
        ended: Ended,
        exchange: &mut dyn Exchange,
    ) -> Result<Answer> {
        // More signals may arrive after the first: `timeout` sends two.
        match ended.ending {
            Ending::Interrupted(_) => Interrupt::has_stopped_work(),
            _ => Interrupt::stop_watching(exchange)?,
        }
        let row = self.row(table, &ended, exchange)?;
        Ok((row, ended.ending))
    }

    fn row<const W: usize>(
        &self,
        table: &mut dyn Visited<W>,
        ended: &Ended,
        exchange: &mut dyn Exchange,
    ) -> Result<ExploreRow> {
        let took_ns = table.engine().now_ns() - self.start_ns;
        let counts = &ended.counts;
        let all = gather_values(exchange, &(*counts, ended.stats))?;
        let sum =
            |field: fn(&Counts) -> u64| all.iter().map(|(counts, _)| field(counts)).sum::<u64>();
        let none = TableStats::default();
        let TableStats { buckets, entries, nodes } =
            all.iter().fold(none, |sum, (_, of_rank)| sum.plus(of_rank));
        let stats = buckets.total();
        let (states, expanded) = (sum(|of| of.states), sum(|of| of.expanded));
        let held = table.len(exchange)?;
        if held != states || expanded + ended.open != states {
            return Err(Failure::new(format!(
                "{states} states were inserted, {held} are in the table, {expanded} were expanded \
                 and {} were not",
                ended.open
            )));
        }
        let occupied = table.occupied(states, exchange)?;
        let busiest = all.iter().map(|(counts, _)| counts.expanded).max().unwrap_or(0);
        let per_state = |sum: u64| sum as f64 / expanded.max(1) as f64;
        let seconds = took_ns as f64 / 1e9;
        let (arcs, find_or_puts) = (sum(|of| of.arcs), sum(|of| of.find_or_puts));
        let puts = find_or_puts as f64;
        let limit =
            self.limit.as_ref().map(|limit| limit.per_second(states as f64 / puts.max(1.0)));
        Ok(ExploreRow {
            model: self.exploration.args.model.clone(),
            ranks: self.exploration.args.job.ranks,
            complete: ended.ending == Ending::Complete,
            states,
            states_not_expanded: ended.open,
            arcs,
            levels: counts.levels,
            deadlocks: sum(|of| of.deadlocks),
            seconds,
            states_per_s: states as f64 / seconds,
            load_factor: occupied as f64 / table.buckets() as f64,
            table_bytes: self.size.now.0,
            growths: self.growths.count,
            growth_seconds: self.growths.ns as f64 / 1e9,
            known_share: sum(|of| of.known) as f64 / arcs.max(1) as f64,
            find_or_puts_per_state: per_state(find_or_puts),
            cache_hit_share: stats.cache_hits as f64 / puts.max(1.0),
            limit_share: limit.map(|limit| puts / seconds / limit),
            effective_roundtrips_per_state: per_state(stats.effective_roundtrips),
            outgoing_roundtrips_per_state: per_state(stats.outgoing_roundtrips),
            claims_lost: stats.claims_lost,
            lines_per_state: per_state(stats.lines),
            bits: self.packing.bits(),
            bytes: 8.0 * occupied as f64 / states.max(1) as f64 + table.entry_bytes() as f64,
            node_hit_share: (nodes.inner_nodes > 0).then(|| nodes.cache_hit_share()),
            false_read_share: entries.false_entry_reads as f64 / entries.entry_reads.max(1) as f64,
            imbalance: busiest as f64 * all.len() as f64 / expanded.max(1) as f64,
            properties: ended.verdicts.clone(),
        })
    }
}
