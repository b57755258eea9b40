//! The tables of a search: opened on the engine of the job, and moved to a larger one.

use probeline::table::GrowError;
use probeline::transport::{Exchange, Sizes};
use probeline_petri::{Expander, WideExpander};

use super::Exploration;
use super::states::{Expand, Visited, WideStates, open_wide};
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::job::Engines;
use crate::size::Size;
use crate::table::CachedTable;
use crate::timed::{AnyTimed, Timed};

/// The result of a move: the number of keys.
type Moved = core::result::Result<u64, GrowError>;

/// Opens the table of states of `W` words.
pub(super) trait Tables<const W: usize> {
    type Expander: Expand<W>;
    type Table<'t>: Visited<W, Expander = Self::Expander>
    where
        Self: 't;

    /// Opens the table of this size on the current engine, whose windows are 0 or contain it.
    fn open(
        &mut self,
        exploration: &Exploration,
        size: Size,
        exchange: &mut dyn Exchange,
    ) -> Result<Self::Table<'_>>;

    /// Opens a larger engine, moves the table there, and closes the current engine. If that fails,
    /// or is stopped by a signal to a rank, the current engine stays.
    fn grow(
        &mut self,
        exploration: &Exploration,
        sizes: [Size; 2],
        exchange: &mut dyn Exchange,
    ) -> Result<Moved>;

    fn now_ns(&mut self) -> u64;
}

/// Tables of states of one word.
pub(super) struct Narrow<'a, 'e, T>(pub(super) &'a mut Engines<'e, T>);

fn open_narrow<'t, T: Timed>(
    engine: &'t mut T,
    exploration: &Exploration,
    size: Size,
    exchange: &mut dyn Exchange,
) -> Result<CachedTable<&'t mut T>> {
    exploration.args.pipeline.open(engine, exploration.config_of(size), exchange)
}

impl<T: Timed> Tables<1> for Narrow<'_, '_, T> {
    type Expander = Expander;
    type Table<'t>
        = CachedTable<&'t mut T>
    where
        Self: 't;

    fn open(
        &mut self,
        exploration: &Exploration,
        size: Size,
        exchange: &mut dyn Exchange,
    ) -> Result<CachedTable<&mut T>> {
        open_narrow(self.0.current(), exploration, size, exchange)
    }

    fn grow(
        &mut self,
        exploration: &Exploration,
        sizes: [Size; 2],
        exchange: &mut dyn Exchange,
    ) -> Result<Moved> {
        let moved = self.move_to_next(exploration, sizes, exchange);
        self.0.end_growth(matches!(moved, Ok(Ok(_))));
        moved
    }

    fn now_ns(&mut self) -> u64 {
        self.0.current().now_ns()
    }
}

impl<T: Timed> Narrow<'_, '_, T> {
    fn move_to_next(
        &mut self,
        exploration: &Exploration,
        [from, to]: [Size; 2],
        exchange: &mut dyn Exchange,
    ) -> Result<Moved> {
        let (engine, next) = self.0.open_next(exploration.sizes_of(to), exchange)?;
        let mut table = open_narrow(engine, exploration, from, exchange)?;
        let mut target = open_narrow(next, exploration, to, exchange)?;
        Ok(table.grow_into_while(&mut target, exchange, Interrupt::is_awaited))
    }
}

/// Engines as trait objects, so that searches of several words are compiled once for each width.
pub(super) trait AnyEngines {
    fn any_current(&mut self) -> &mut dyn AnyTimed;

    fn any_next(
        &mut self,
        sizes: Sizes,
        exchange: &mut dyn Exchange,
    ) -> Result<(&mut dyn AnyTimed, &mut dyn AnyTimed)>;

    fn end_growth(&mut self, has_moved: bool);
}

impl<T: Timed> AnyEngines for Engines<'_, T> {
    fn any_current(&mut self) -> &mut dyn AnyTimed {
        self.current()
    }

    fn any_next(
        &mut self,
        sizes: Sizes,
        exchange: &mut dyn Exchange,
    ) -> Result<(&mut dyn AnyTimed, &mut dyn AnyTimed)> {
        let (current, next) = self.open_next(sizes, exchange)?;
        Ok((current, next))
    }

    fn end_growth(&mut self, has_moved: bool) {
        Self::end_growth(self, has_moved);
    }
}

/// Tables of states of `W` words.
pub(super) struct Wide<'a, const W: usize>(pub(super) &'a mut dyn AnyEngines);

fn open_of_size<'t, const W: usize>(
    engine: &'t mut dyn AnyTimed,
    exploration: &Exploration,
    size: Size,
    exchange: &mut dyn Exchange,
) -> Result<WideStates<'t, W>> {
    let Exploration { args, packing, .. } = exploration;
    open_wide(engine, exploration.config_of(size), packing, args, exchange)
}

impl<const W: usize> Tables<W> for Wide<'_, W> {
    type Expander = WideExpander;
    type Table<'t>
        = WideStates<'t, W>
    where
        Self: 't;

    fn open(
        &mut self,
        exploration: &Exploration,
        size: Size,
        exchange: &mut dyn Exchange,
    ) -> Result<Self::Table<'_>> {
        open_of_size(self.0.any_current(), exploration, size, exchange)
    }

    fn grow(
        &mut self,
        exploration: &Exploration,
        sizes: [Size; 2],
        exchange: &mut dyn Exchange,
    ) -> Result<Moved> {
        let moved = self.move_to_next(exploration, sizes, exchange);
        self.0.end_growth(matches!(moved, Ok(Ok(_))));
        moved
    }

    fn now_ns(&mut self) -> u64 {
        self.0.any_current().clock_ns()
    }
}

impl<const W: usize> Wide<'_, W> {
    fn move_to_next(
        &mut self,
        exploration: &Exploration,
        [from, to]: [Size; 2],
        exchange: &mut dyn Exchange,
    ) -> Result<Moved> {
        let (engine, next) = self.0.any_next(exploration.sizes_of(to), exchange)?;
        let mut table = open_of_size::<W>(engine, exploration, from, exchange)?;
        let mut target = open_of_size::<W>(next, exploration, to, exchange)?;
        Ok(table.grow_into_while(&mut target, exchange, Interrupt::is_awaited))
    }
}
