//! Submitted operations of a program: their tags, and the places of their results.

use core::mem::MaybeUninit;
use core::ptr;

use probeline::containers::OperationError;
use probeline::pipeline::{Finished, Kind, OperationOf, OutcomeOf, Structure, Tag};

use crate::call::{out, room};
use crate::engine::Engine;
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{InnerOf, Pointee, with};

/// Results of a container that one poll reports.
const POLLED: usize = 16;

/// The operations in flight, by the tags inside the structure.
pub(crate) struct Submissions {
    all: Vec<Submitted>,
    /// Places in `all` that are free.
    free: Vec<usize>,
}

/// Tag and place that the program gave with an operation.
#[derive(Clone, Copy)]
pub(crate) struct Submitted {
    pub(crate) tag: u64,
    /// Where its value goes; may be NULL.
    pub(crate) to: *mut u8,
}

/// Receives a finished operation: its tag, its result, and its value if it has one.
pub(crate) type EachFinished<'c> =
    dyn FnMut(Tag, Result<probeline_outcome, OperationError>, Option<&[u8]>) + 'c;

/// A structure whose operations are submitted with places for their values.
pub(crate) trait Poll {
    /// Makes progress, and calls `each` with operations that have ended, at most `capacity`. Returns their number.
    fn poll(
        &mut self,
        capacity: usize,
        each: &mut EachFinished<'_>,
    ) -> Result<usize, OperationError>;
}

/// Polls a structure, of which `tell` returns what the program learns of an outcome, and its value.
pub(crate) fn poll_structure<K: Kind>(
    structure: &mut Structure<Engine, Vec<OperationOf<K>>, K>,
    capacity: usize,
    each: &mut EachFinished<'_>,
    tell: impl Fn(&OutcomeOf<K>) -> (probeline_outcome, Option<&[u8]>),
) -> Result<usize, OperationError> {
    let mut finished = [Finished::default(); POLLED];
    let ended =
        structure.poll_into(finished.get_mut(..capacity.min(POLLED)).unwrap_or_default())?;
    for Finished { tag, result } in ended {
        match result.as_ref().map(&tell) {
            Ok((outcome, value)) => each(*tag, Ok(outcome), value),
            Err(error) => each(*tag, Err(*error), None),
        }
    }
    Ok(ended.len())
}

impl Submissions {
    /// Makes room for this many operations in flight.
    pub(crate) fn new(operations: u32) -> Self {
        let places = operations as usize;
        let all = vec![Submitted { tag: 0, to: ptr::null_mut() }; places];
        Self { all, free: (0..places).collect() }
    }

    /// Starts an operation, whose tag inside the structure `start` gets.
    pub(crate) fn submit(
        &mut self,
        mine: Submitted,
        start: impl FnOnce(Tag) -> Result<(), OperationError>,
    ) -> Result<(), Error> {
        let place = *self.free.last().ok_or(OperationError::Busy)?;
        start(Tag(place as u64))?;
        self.free.pop();
        if let Some(submitted) = self.all.get_mut(place) {
            *submitted = mine;
        }
        Ok(())
    }

    /// Stores what has ended.
    ///
    /// # Safety
    /// The places given with operations that were submitted are NULL or valid for writes of their values.
    unsafe fn poll(
        &mut self,
        structure: &mut (impl Poll + ?Sized),
        finished: &mut [MaybeUninit<probeline_finished>],
    ) -> Result<usize, Error> {
        let Self { all, free } = self;
        let capacity = finished.len();
        let mut room = finished.iter_mut();
        let count = structure.poll(capacity, &mut |Tag(place), result, value| {
            // The structure returns the tags that it was given.
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            let Some(Submitted { tag, to }) = all.get(place).copied() else { return };
            free.push(place);
            if let Some(value) = value.filter(|_| !to.is_null()) {
                // SAFETY: the caller keeps the places of submitted operations valid for their values
                // (# Safety); values of one structure and one kind of operation have one size.
                unsafe { ptr::copy_nonoverlapping(value.as_ptr(), to, value.len()) };
            }
            let (status, outcome) = match result {
                Ok(outcome) => (probeline_status::PROBELINE_OK, outcome),
                Err(error) => (Error::from(error).report(), probeline_outcome::PROBELINE_ABSENT),
            };
            if let Some(to) = room.next() {
                to.write(probeline_finished { tag, status, outcome });
            }
        })?;
        Ok(count)
    }
}

/// Makes progress, and stores operations that have ended, and their number.
///
/// # Safety
/// `structure` is NULL or open, `finished` is NULL or has room for `capacity` items, `count` is NULL or has room
/// for a number, and the places of submitted operations are NULL or valid for writes of their values.
pub(crate) unsafe fn poll<P: Pointee<Structure: Poll>>(
    structure: *mut P,
    finished: *mut probeline_finished,
    capacity: usize,
    count: *mut usize,
) -> probeline_status {
    let body = |inner: &mut InnerOf<P>| {
        // SAFETY: the caller passes `finished` with room for `capacity` items, and `count`, a place for a
        // number (# Safety).
        let (finished, count) =
            unsafe { (room(finished, capacity, "finished")?, out(count, "count")?) };
        count.write(0);
        // SAFETY: the caller keeps the places of submitted operations valid (# Safety).
        count.write(unsafe { inner.submitted.poll(&mut *inner.structure, finished) }?);
        Ok(())
    };
    // SAFETY: the caller passes NULL or an open structure (# Safety).
    unsafe { with(structure, body) }
}
