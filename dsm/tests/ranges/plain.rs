//! The programs on plain memory, whose accesses fault.

use core::slice;

use probeline_dsm::fault::{Error, PlainMemory};

use super::front::{Pair, Slices};
use super::*;

type Plain<T> = PlainMemory<T, AnyEngine<'static>, Vec<Operation>>;

fn of_operation(error: Error) -> OperationError {
    match error {
        Error::Operation(error) => error,
        error => panic!("{error}"),
    }
}

fn of_call(error: Error) -> CollectiveError {
    match error {
        Error::Collective(error) => error,
        error => of_operation(error).into(),
    }
}

/// Returns a range of the memory, after an access to each of its pages: a rank of the simulator that waits lets
/// others run, and must not hold the lock of the test then.
fn slice_of<'s, T: Pod>(
    memory: &Plain<T>,
    range: Range<usize>,
    is_edit: bool,
) -> Result<&'s mut [T], OperationError> {
    if range.start > range.end || range.end > memory.cells().len() {
        return Err(of_operation(memory.view(range).map(drop).unwrap_err()));
    }
    // SAFETY: a range of the memory, used before the next call. Those of one access are disjoint.
    let slice = unsafe { slice::from_raw_parts_mut(memory.as_ptr().add(range.start), range.len()) };
    let bytes = bytemuck::cast_slice_mut::<_, u8>(&mut *slice);
    for at in (0..bytes.len()).step_by(4096).chain(bytes.len().checked_sub(1)) {
        let byte = &raw mut bytes[at];
        // SAFETY: a byte of the slice.
        unsafe {
            let value = byte.read_volatile();
            if is_edit {
                byte.write_volatile(value);
            }
        }
    }
    Ok(slice)
}

impl<T: Pod> Shared<T> for Plain<T> {
    fn open(
        engine: AnyEngine<'static>,
        config: Config,
        operations: u32,
        job: &mut impl Exchange,
    ) -> Result<Self, CollectiveError> {
        let storage = vec![Operation::EMPTY; operations as usize];
        Self::open(engine, config, storage, job).map_err(of_call)
    }

    fn view(&mut self, range: Range<usize>) -> Result<&[T], OperationError> {
        slice_of(self, range, false).map(|elements| &*elements)
    }

    fn edit(&mut self, range: Range<usize>, _: bool) -> Result<&mut [T], OperationError> {
        slice_of(self, range, true)
    }

    /// Refuses: plain memory has no such call.
    fn access(&mut self, _: Pair, _: Pair) -> Result<Slices<'_, T>, OperationError> {
        Err(OperationError::Overlap)
    }

    fn call(&mut self, call: Call) -> Result<(), OperationError> {
        let called = match call {
            Call::Acquire(lock) => self.acquire(lock),
            Call::Release(lock) => self.release(lock),
            Call::Prefetch(range) => (*self).prefetch(range),
            Call::Flush => Ok(()),
        };
        called.map_err(of_operation)
    }

    fn barrier(&mut self, job: &mut impl Exchange) -> Result<(), CollectiveError> {
        (*self).barrier(job).map_err(of_call)
    }
}

fn on_plain_memory<T: Pod + PartialEq + Debug + Send>(on: On, seed: u64) -> bool {
    let mut rng = Rng::new(seed, 3_002);
    let page_words = (config::<T>(&mut rng).page_words * 64).clamp(512, 1024);
    let mut config = config::<T>(&mut rng);
    let bytes = u64::from(page_words) * 8 * (1 + rng.below(3)) - rng.below(60);
    config = Config { page_words, elements: (bytes / size_of::<T>() as u64).max(2), ..config };
    if let On::Simulator { .. } = on {
        // The accesses of a range send none of its pages.
        config.edited_pages = u32::MAX;
    }
    run::<T, Plain<T>>(on, seed, config)
}

#[test]
fn plain_memory_respects_happens_before() {
    let programs = [
        on_plain_memory::<u8>,
        on_plain_memory::<u16>,
        on_plain_memory::<u32>,
        on_plain_memory::<u64>,
        on_plain_memory::<[u8; 3]>,
        on_plain_memory::<[u16; 7]>,
        on_plain_memory::<[u64; 9]>,
        on_plain_memory::<[u32; 31]>,
    ];
    for on in [On::Simulator { errors_ppm: 0 }, On::Threads] {
        count_ended(on, &programs, 3);
    }
}
