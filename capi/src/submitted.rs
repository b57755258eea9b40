//! Submitted operations of a program: their tags, and the places of their results.

use core::mem::MaybeUninit;
use core::ptr;

use probeline::containers::OperationError;
use probeline::pipeline::{Finished, Kind, OperationOf, OutcomeOf, Structure, Tag};

use crate::call::{out, room};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{Engine, InnerOf, Pointee, with};

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

/// Whether an operation has started.
pub(crate) type Started = Result<(), OperationError>;

/// A structure whose operations are submitted with places for their values.
pub(crate) trait Poll {
    /// Makes progress, and stores operations that have ended. Returns their number.
    ///
    /// # Safety
    /// The places given with operations that were submitted are NULL or valid for writes of their values.
    unsafe fn poll(&mut self, submitted: &mut Submissions, finished: Room<'_>) -> Polled;
}

/// Room for operations that have ended.
pub(crate) type Room<'r> = &'r mut [MaybeUninit<probeline_finished>];

/// The number of operations that have ended.
pub(crate) type Polled = Result<usize, OperationError>;

/// Polls a structure, of which `tell` returns what the program learns of an outcome, and its value.
///
/// # Safety
/// As for [`Poll::poll`]; values of one kind of operation have one size.
pub(crate) unsafe fn poll_structure<K: Kind>(
    structure: &mut Structure<Engine, Vec<OperationOf<K>>, K>,
    Submissions { all, free }: &mut Submissions,
    finished: Room<'_>,
    tell: impl Fn(&OutcomeOf<K>) -> (probeline_outcome, Option<&[u8]>),
) -> Polled {
    let mut ended = [Finished::default(); POLLED];
    let capacity = finished.len().min(POLLED);
    let ended = structure.poll_into(ended.get_mut(..capacity).unwrap_or_default())?;
    for (Finished { tag, result }, room) in ended.iter().zip(finished) {
        // The structure returns the tags that it was given.
        let place = usize::try_from(tag.0).unwrap_or(usize::MAX);
        let Some(Submitted { tag, to }) = all.get(place).copied() else { continue };
        free.push(place);
        let told = result.as_ref().map(&tell);
        if let Ok((_, Some(value))) = told
            && !to.is_null()
        {
            // SAFETY: the caller keeps the places of submitted operations valid for their values
            // (# Safety); values of one structure and one kind of operation have one size.
            unsafe { ptr::copy_nonoverlapping(value.as_ptr(), to, value.len()) };
        }
        let result = told.map(|(outcome, _)| outcome).map_err(|error| *error);
        room.write(probeline_finished::new(tag, result));
    }
    Ok(ended.len())
}

/// Implements [`Poll`] for a type that has a structure of the library in this field, by a match of its outcomes.
macro_rules! implement_poll {
    ($name:ty [$($generics:tt)*], $field:ident, { $($outcome:pat => $told:expr,)+ }) => {
        impl<$($generics)*> crate::submitted::Poll for $name {
            unsafe fn poll(
                &mut self,
                submitted: &mut crate::submitted::Submissions,
                finished: crate::submitted::Room<'_>,
            ) -> crate::submitted::Polled {
                // SAFETY: the caller keeps the places valid (# Safety of `Poll::poll`).
                unsafe {
                    crate::submitted::poll_structure(&mut self.$field, submitted, finished, |outcome| {
                        match outcome { $($outcome => $told,)+ }
                    })
                }
            }
        }
    };
}
pub(crate) use implement_poll;

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
        start: impl FnOnce(Tag) -> Started,
    ) -> Result<(), Error> {
        let place = *self.free.last().ok_or(OperationError::Busy)?;
        start(Tag(place as u64))?;
        self.free.pop();
        if let Some(submitted) = self.all.get_mut(place) {
            *submitted = mine;
        }
        Ok(())
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
        count.write(unsafe { inner.structure.poll(&mut inner.submitted, finished) }?);
        Ok(())
    };
    // SAFETY: the caller passes NULL or an open structure (# Safety).
    unsafe { with(structure, body) }
}
