//! The searches of an exploration: one, and another one after each marking that does not fit.

use core::sync::atomic::Ordering::Relaxed;

use probeline::table::{EntryStats, Stats};
use probeline::transport::Exchange;
use probeline_petri::Packing;
use probeline_results::gather_values;

use super::expansion::Counts;
use super::row::ExploreRow;
use super::search::{Ended, Ending, search};
use super::states::{self, Visited};
use super::{Exploration, Explored};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::scenario::limits::TableLimit;
use crate::timed::{AnyTimed, Timed};

pub(super) struct Searches<'a> {
    exploration: &'a Exploration,
    packing: Packing,
    limit: Option<TableLimit>,
    start_ns: u64,
}

impl<'a> Searches<'a> {
    pub(super) fn start<T: Timed>(
        exploration: &'a Exploration,
        engine: &mut T,
        exchange: &mut dyn Exchange,
    ) -> Result<Self> {
        let packing = exploration.packing.clone();
        // The limit is that of a table of one word a state.
        let limit = match packing.words() {
            1 => {
                let (config, job) = (exploration.config(), &exploration.args.job);
                TableLimit::measure(engine, &config, job, exchange)?
            }
            _ => None,
        };
        Ok(Self { exploration, packing, limit, start_ns: engine.now_ns() })
    }

    /// Searches until all states fit their packing. The window is new. Each search widens a field
    /// for good, so their number is bounded by that of the bits.
    pub(super) fn run<T: Timed>(
        mut self,
        engine: &mut T,
        exchange: &mut dyn Exchange,
    ) -> Result<Explored> {
        loop {
            let explored = match self.packing.words() {
                1 => {
                    let (pipeline, config) =
                        (&self.exploration.args.pipeline, self.exploration.config());
                    let table = pipeline.open(&mut *engine, config, exchange)?;
                    self.search(table, exchange)?
                }
                2 => self.search_wide::<2>(engine, exchange)?,
                3 => self.search_wide::<3>(engine, exchange)?,
                4 => self.search_wide::<4>(engine, exchange)?,
                8 => self.search_wide::<8>(engine, exchange)?,
                _ => self.search_wide::<16>(engine, exchange)?,
            };
            if let Some(row) = explored {
                let words = self.packing.words();
                return Ok(Explored { row: row.0, limit: self.limit, words, ending: row.1 });
            }
            // The next table has other words.
            exchange.barrier()?;
            engine.window().iter().for_each(|word| word.store(0, Relaxed));
            exchange.barrier()?;
            self.limit = None;
        }
    }

    fn search_wide<const W: usize>(
        &mut self,
        engine: &mut dyn AnyTimed,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<(ExploreRow, Ending)>> {
        let args = &self.exploration.args;
        let config = states::wide_config::<W>(self.exploration.config());
        let table = states::open_wide(engine, config, &args.pipeline, exchange)?;
        self.search(table, exchange)
    }

    /// Searches with states of `W` words. Returns nothing if they need more words.
    fn search<V: Visited<W>, const W: usize>(
        &mut self,
        mut table: V,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<(ExploreRow, Ending)>> {
        let ended = loop {
            match search(self.exploration, &mut table, &self.packing, exchange)? {
                Ok(ended) => break ended,
                Err(grown) => self.packing = grown,
            }
            if self.packing.words() != W {
                return Ok(None);
            }
            table.clear(exchange)?;
            table.reset_stats();
        };
        // More signals may arrive after the first: `timeout` sends two.
        match ended.ending {
            Ending::Interrupted(_) => Interrupt::has_stopped_work(),
            _ => Interrupt::stop_watching(exchange)?,
        }
        let row = self.row(&mut table, &ended, exchange)?;
        Ok(Some((row, ended.ending)))
    }

    fn row<V: Visited<W>, const W: usize>(
        &self,
        table: &mut V,
        ended: &Ended,
        exchange: &mut dyn Exchange,
    ) -> Result<ExploreRow> {
        let took_ns = table.engine().now_ns() - self.start_ns;
        let counts = &ended.counts;
        let all = gather_values(exchange, &(*counts, table.stats()))?;
        let sum =
            |field: fn(&Counts) -> u64| all.iter().map(|(counts, _)| field(counts)).sum::<u64>();
        let stats = all.iter().map(|(_, (stats, _))| *stats).sum::<Stats>().total();
        let entries = all.iter().map(|(_, (_, entries))| *entries);
        let entries = entries.fold(EntryStats::default(), |sum, of_rank| sum.plus(&of_rank));
        let (states, expanded) = (sum(|of| of.states), sum(|of| of.expanded));
        let held = table.len(exchange)?;
        if held != states || expanded + ended.open != states {
            return Err(Failure::new(format!(
                "{states} states were inserted, {held} are in the table, {expanded} were expanded \
                 and {} were not",
                ended.open
            )));
        }
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
            load_factor: states as f64 / table.buckets() as f64,
            known_share: sum(|of| of.known) as f64 / arcs.max(1) as f64,
            find_or_puts_per_state: per_state(find_or_puts),
            cache_hit_share: stats.cache_hits as f64 / puts.max(1.0),
            limit_share: limit.map(|limit| puts / seconds / limit),
            effective_roundtrips_per_state: per_state(stats.effective_roundtrips),
            outgoing_roundtrips_per_state: per_state(stats.outgoing_roundtrips),
            claims_lost: stats.claims_lost,
            lines_per_state: per_state(stats.lines),
            bits: self.packing.bits(),
            bytes: if W == 1 { 8 } else { 8 + 8 * W as u64 },
            false_read_share: entries.false_entry_reads as f64 / entries.entry_reads.max(1) as f64,
            imbalance: busiest as f64 * all.len() as f64 / expanded.max(1) as f64,
            properties: ended.verdicts.clone(),
        })
    }
}
