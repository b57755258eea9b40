//! The results of a batch, in the places that the caller gives.

use crate::outcome::{Answer, Ended};
use crate::{BatchError, OperationError};

/// The result of one key of a batch: an answer, which is one byte, or a [`Result`] with it. A find
/// answers `bool`, a find-or-put [`Outcome`](crate::Outcome).
pub trait BatchResult: Copy {
    /// The answer, which determines the operation.
    type Answer: Answer;

    /// Returns the result of an operation with this answer.
    fn from_answer(answer: Self::Answer) -> Self;

    /// Returns the result of an operation that failed; `None` if this type has no place for errors.
    fn from_error(error: OperationError) -> Option<Self>;
}

impl<A: Answer> BatchResult for A {
    type Answer = A;

    #[inline(always)]
    fn from_answer(answer: A) -> Self {
        answer
    }

    fn from_error(_: OperationError) -> Option<Self> {
        None
    }
}

impl<A: Answer> BatchResult for Result<A, OperationError> {
    type Answer = A;

    #[inline(always)]
    fn from_answer(answer: A) -> Self {
        Ok(answer)
    }

    fn from_error(error: OperationError) -> Option<Self> {
        Some(Err(error))
    }
}

/// The results of a batch.
pub(crate) struct Results<'b, R> {
    places: &'b mut [R],
    /// The error of the first key whose error the places have no room for.
    error: Option<BatchError>,
}

impl<'b, R: BatchResult> Results<'b, R> {
    pub(crate) fn new(places: &'b mut [R]) -> Self {
        Self { places, error: None }
    }

    /// Returns the error of the first key whose error the results have no place for.
    pub(crate) fn error(&self) -> Option<BatchError> {
        self.error
    }

    /// Returns the places of a block of keys.
    pub(crate) fn block(&mut self, places: core::ops::Range<usize>) -> &mut [R] {
        self.places.get_mut(places).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn put(&mut self, place: usize, ended: Result<Ended, OperationError>) {
        let stored = match ended {
            Ok(ended) => Some(R::from_answer(R::Answer::from_ended(ended))),
            Err(error) => R::from_error(error),
        };
        match (self.places.get_mut(place), stored, ended) {
            (Some(place), Some(stored), _) => *place = stored,
            (Some(_), None, Err(error)) => self.keep_first(place, error),
            _ => debug_assert!(false, "the batch has no place {place}"),
        }
    }

    #[cold]
    fn keep_first(&mut self, place: usize, error: OperationError) {
        match self.error {
            Some(BatchError::Failed { place: first, .. }) if first < place => {}
            _ => self.error = Some(BatchError::Failed { place, error }),
        }
    }
}
