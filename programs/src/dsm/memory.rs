//! Memory that all ranks of a program share: a region of pages, or the memory of one rank alone.

use core::ops::Range;

use probeline::dsm::{Operation, Region, Stats};
use probeline::transport::Exchange;

use super::Costs;
use crate::{Error, Timed};

/// Elements to view, in `N` ranges, and those to edit.
pub(super) type Changed<'m, T, const N: usize> = ([&'m [T]; N], &'m mut [T]);

/// Memory that all ranks share.
pub(super) trait Shared<T> {
    fn rank(&self) -> usize;
    fn ranks(&self) -> usize;
    fn view(&mut self, range: Range<usize>) -> Result<&[T], Error>;
    fn edit(&mut self, range: Range<usize>) -> Result<&mut [T], Error>;
    /// Returns elements to write all of, which need not be read before.
    fn overwrite(&mut self, range: Range<usize>) -> Result<&mut [T], Error> {
        self.edit(range)
    }
    /// Returns ranges to view and one to edit, which is apart from them.
    fn change<const N: usize>(
        &mut self,
        views: [Range<usize>; N],
        edit: Range<usize>,
    ) -> Result<Changed<'_, T, N>, Error>;
    /// Runs `change` while no other rank is in a change under this lock.
    fn locked(
        &mut self,
        lock: u32,
        change: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error>;
    fn barrier(&mut self) -> Result<(), Error>;
    /// Notes floating-point operations that this rank has done, for which a simulated CPU takes its time.
    fn work(&mut self, flops: u64);
}

/// A memory with a clock and counters.
pub(super) trait Measured {
    fn now_ns(&self) -> u64;
    /// Returns the counters, and the messages sent.
    fn counts(&self) -> (Stats, u64);
    /// Tells homes that this rank needs nothing more.
    fn leave(&mut self) -> Result<(), Error>;
    fn exchange(&mut self) -> &mut dyn Exchange;
}

/// The memory of one rank alone, and the work on it.
pub(super) struct Alone<T> {
    pub(super) memory: Vec<T>,
    pub(super) flops: u64,
}

impl<T> Alone<T> {
    pub(super) fn new(memory: Vec<T>) -> Self {
        Self { memory, flops: 0 }
    }
}

fn beyond() -> Error {
    Error::Wrong("ranges beyond the memory, or overlapping".to_owned())
}

/// Returns ranges of a memory to view, and one to edit.
pub(super) fn disjoint<T, const N: usize>(
    memory: &mut [T],
    views: [Range<usize>; N],
    edit: Range<usize>,
) -> Result<Changed<'_, T, N>, Error> {
    let (rest, behind) = memory.split_at_mut_checked(edit.end).ok_or_else(beyond)?;
    let (before, edit) = rest.split_at_mut_checked(edit.start).ok_or_else(beyond)?;
    let (before, behind, end) = (&*before, &*behind, before.len() + edit.len());
    let views = views.map(|Range { start, end: until }| match start.checked_sub(end) {
        Some(start) => behind.get(start..until - end),
        None => before.get(start..until),
    });
    if views.iter().any(Option::is_none) {
        return Err(beyond());
    }
    Ok((views.map(Option::unwrap_or_default), edit))
}

impl<T> Shared<T> for Alone<T> {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn view(&mut self, range: Range<usize>) -> Result<&[T], Error> {
        self.memory.get(range).ok_or_else(beyond)
    }

    fn edit(&mut self, range: Range<usize>) -> Result<&mut [T], Error> {
        self.memory.get_mut(range).ok_or_else(beyond)
    }

    fn change<const N: usize>(
        &mut self,
        views: [Range<usize>; N],
        edit: Range<usize>,
    ) -> Result<Changed<'_, T, N>, Error> {
        disjoint(&mut self.memory, views, edit)
    }

    fn locked(
        &mut self,
        _: u32,
        change: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        change(self)
    }

    fn barrier(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn work(&mut self, flops: u64) {
        self.flops += flops;
    }
}

/// A region and the ranks of its job.
pub(super) struct Pages<'e, T, E, M> {
    pub(super) region: Region<T, E, Vec<Operation>, M>,
    pub(super) exchange: &'e mut dyn Exchange,
    pub(super) costs: Costs,
    pub(super) page_words: u32,
    /// Words that have been copied, as far as a simulated CPU has taken its time for them.
    pub(super) copied: u64,
}

impl<T: bytemuck::Pod, E: Timed, M: AsMut<[u64]>> Shared<T> for Pages<'_, T, E, M> {
    fn rank(&self) -> usize {
        self.exchange.me().0 as usize
    }

    fn ranks(&self) -> usize {
        self.exchange.owners() as usize
    }

    fn view(&mut self, range: Range<usize>) -> Result<&[T], Error> {
        Ok(self.region.view(range)?)
    }

    fn edit(&mut self, range: Range<usize>) -> Result<&mut [T], Error> {
        Ok(self.region.edit(range)?)
    }

    fn overwrite(&mut self, range: Range<usize>) -> Result<&mut [T], Error> {
        Ok(self.region.overwrite(range)?)
    }

    fn change<const N: usize>(
        &mut self,
        views: [Range<usize>; N],
        edit: Range<usize>,
    ) -> Result<Changed<'_, T, N>, Error> {
        let (views, [edit]) = self.region.access(views, [edit])?;
        Ok((views, edit))
    }

    fn locked(
        &mut self,
        lock: u32,
        change: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.region.acquire(lock)?;
        change(self)?;
        Ok(self.region.release(lock)?)
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.work(0);
        Ok(self.region.barrier(&mut *self.exchange)?)
    }

    /// Takes the time of what was copied between pages and slots as well.
    fn work(&mut self, flops: u64) {
        let Stats { fetches, written_words, adds, .. } = *self.region.stats();
        let words = fetches * u64::from(self.page_words) + written_words + adds;
        let copied = words - core::mem::replace(&mut self.copied, words);
        let ns = self.costs.flops_ns(flops) + self.costs.bytes_ns(8 * copied);
        if ns > 0 {
            self.region.engine_mut().pass(ns);
        }
    }
}

impl<T: bytemuck::Pod, E: Timed, M: AsMut<[u64]>> Measured for Pages<'_, T, E, M> {
    fn now_ns(&self) -> u64 {
        self.region.engine().now_ns()
    }

    /// A lock takes a fetch-and-add and a READ, and a WRITE and a fetch-and-add to pass on; a barrier tells each other
    /// rank.
    fn counts(&self) -> (Stats, u64) {
        let stats = *self.region.stats();
        let Stats { fetches, writes, adds, acquires, lock_reads, barriers, .. } = stats;
        let others = u64::from(self.exchange.owners() - 1);
        (stats, fetches + writes + adds + 4 * acquires + lock_reads + others * barriers)
    }

    fn leave(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn exchange(&mut self) -> &mut dyn Exchange {
        self.exchange
    }
}
