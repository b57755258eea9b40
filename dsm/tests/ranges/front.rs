//! The calls of a program: to a region with private memory, or to one in windows.

use super::*;

/// A region, or another front of it.
pub(crate) trait Shared<T: 'static>: Sized {
    fn open(
        engine: AnyEngine<'static>,
        config: Config,
        operations: u32,
        job: &mut impl Exchange,
    ) -> Result<Self, CollectiveError>;
    fn view(&mut self, range: Range<usize>) -> Result<&[T], OperationError>;
    fn edit(&mut self, range: Range<usize>, overwrites: bool) -> Result<&mut [T], OperationError>;
    fn access(&mut self, views: Pair, edits: Pair) -> Result<Slices<'_, T>, OperationError>;
    fn call(&mut self, call: Call) -> Result<(), OperationError>;
    fn barrier(&mut self, job: &mut impl Exchange) -> Result<(), CollectiveError>;
}

/// A call without elements.
pub(crate) enum Call {
    Acquire(u32),
    Release(u32),
    Prefetch(Range<usize>),
    /// Send what a barrier would.
    Flush,
}

pub(crate) type Pair = [Range<usize>; 2];
pub(crate) type Slices<'s, T> = ([&'s [T]; 2], [&'s mut [T]; 2]);
pub(crate) type Core<T, M> = Region<T, AnyEngine<'static>, Vec<Operation>, M>;

/// The arguments of a call that opens a region, without its memory.
type Opening<'j, J> = (AnyEngine<'static>, Config, Vec<Operation>, &'j mut J);
type Opened<T, M> = Result<Core<T, M>, CollectiveError>;

/// The private memory of a region.
trait Memory: AsMut<[u64]> + Sized {
    fn open<T: Pod, J: Exchange>(opening: Opening<'_, J>) -> Opened<T, Self>;
}

impl Memory for Vec<u64> {
    fn open<T: Pod, J: Exchange>(opening: Opening<'_, J>) -> Opened<T, Self> {
        let (engine, config, storage, job) = opening;
        let memory = vec![0; config.memory_words::<T>(job.owners())];
        Region::open(engine, config, storage, memory, job)
    }
}

impl Memory for Window {
    fn open<T: Pod, J: Exchange>(opening: Opening<'_, J>) -> Opened<T, Self> {
        let (engine, config, storage, job) = opening;
        // SAFETY: the programs are properly synchronised, and each rank has its own mapping of all windows.
        unsafe { Region::open_in_windows(engine, config, storage, job) }
    }
}

impl<T: Pod, M: Memory> Shared<T> for Core<T, M> {
    fn open(
        engine: AnyEngine<'static>,
        config: Config,
        operations: u32,
        job: &mut impl Exchange,
    ) -> Result<Self, CollectiveError> {
        M::open((engine, config, vec![Operation::EMPTY; operations as usize], job))
    }

    fn view(&mut self, range: Range<usize>) -> Result<&[T], OperationError> {
        self.view(range)
    }

    fn edit(&mut self, range: Range<usize>, overwrites: bool) -> Result<&mut [T], OperationError> {
        if overwrites { self.overwrite(range) } else { self.edit(range) }
    }

    fn access(&mut self, views: Pair, edits: Pair) -> Result<Slices<'_, T>, OperationError> {
        self.access(views, edits)
    }

    fn call(&mut self, call: Call) -> Result<(), OperationError> {
        match call {
            Call::Acquire(lock) => self.acquire(lock),
            Call::Release(lock) => self.release(lock),
            Call::Prefetch(range) => self.prefetch(range),
            Call::Flush => {
                self.start_barrier()?;
                while !self.poll()? {}
                Ok(())
            }
        }
    }

    fn barrier(&mut self, job: &mut impl Exchange) -> Result<(), CollectiveError> {
        self.barrier(job)
    }
}
