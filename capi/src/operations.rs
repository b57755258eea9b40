//! Operations of a program on the keys of a structure: blocking calls, batches, and those that it submits with
//! places for their results, and polls.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;

use probeline::pipeline::{Bytes, Error as OperationError, Plain, Tag};

use crate::call::{out, product, room, slice};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{Inner, Pointee, Structure, with};

/// Room for values, which may be uninitialized.
pub(crate) type Place<'v> = &'v mut [MaybeUninit<u8>];
/// Room for the outcomes of a batch.
pub(crate) type Outcomes<'o> = &'o mut [MaybeUninit<probeline_outcome>];
/// Room for operations that have ended.
pub(crate) type Room<'r> = &'r mut [MaybeUninit<probeline_finished>];
/// The outcome of an operation, or why it failed.
pub(crate) type Ended = Result<probeline_outcome, Error>;
/// Whether an operation has started.
pub(crate) type Started = Result<(), OperationError>;

/// The sizes of what a request of a program has at each key.
pub(crate) struct Sizes {
    /// Words of the key.
    pub(crate) key: usize,
    /// Bytes of its operand, and of its result.
    pub(crate) operand: usize,
    pub(crate) result: usize,
    /// Whether the program may have no place for the result.
    pub(crate) is_optional: bool,
}

/// A structure with operations on keys.
pub(crate) trait Keyed: Pointee<Structure: Submit<Self>> {
    /// The words for keys and values in errors.
    const KEY: &'static str = "key";
    const VALUE: &'static str = "value";
    /// An operation, without its key and its operand.
    type Request: Copy;
    /// The type of C of which keys are arrays.
    type Word: Copy;

    /// Returns the sizes of a request, if the structure has it.
    fn sizes(options: &Self::Options, request: Self::Request) -> Result<Sizes, Error>;

    /// Checks keys, before any operation begins.
    fn check(_inner: &Inner<Self>, _keys: &[Self::Word]) -> Result<(), Error> {
        Ok(())
    }
}

/// A structure whose operations a program submits.
pub(crate) trait Submit<P: Keyed>: Structure {
    fn submit(&mut self, tag: Tag, request: P::Request, key: &[P::Word], operand: &[u8])
    -> Started;
}

/// A structure whose operations a program also runs one by one and in batches. Operands and room for results have
/// the sizes of the request.
pub(crate) trait Run<P: Keyed>: Submit<P> {
    fn run(
        &mut self,
        request: P::Request,
        key: &[P::Word],
        operand: &[u8],
        result: Place<'_>,
    ) -> Ended;
    /// Runs a request on each key, and stores the outcomes if there is room for them.
    fn batch(
        &mut self,
        request: P::Request,
        keys: &[P::Word],
        operands: &[u8],
        results: Place<'_>,
        outcomes: Outcomes<'_>,
    ) -> Result<(), Error>;
}

/// Keys, operands, and room for results of a program.
pub(crate) type Pointers<P> = (*const <P as Keyed>::Word, *const c_void, *mut c_void);

/// Checked keys, operands, and room for results.
type Arguments<'a, P> = (&'a [<P as Keyed>::Word], &'a [u8], Place<'a>);

/// Returns what a program gives for a request on `count` keys.
///
/// # Safety
/// Keys and operands are NULL or valid for `count` of them, and results are NULL or have room for as many, which
/// nothing else accesses meanwhile.
#[inline(always)]
pub(crate) unsafe fn arguments<'a, P: Keyed>(
    inner: &Inner<P>,
    request: P::Request,
    (keys, operands, results): Pointers<P>,
    count: usize,
) -> Result<Arguments<'a, P>, Error> {
    let Sizes { key, operand, result, is_optional } = P::sizes(&inner.options, request)?;
    let result = if is_optional && results.is_null() { 0 } else { result };
    // SAFETY: the caller passes NULL, or `count` keys, operands, and room for results (# Safety).
    let (keys, operands, results) = unsafe {
        let keys = slice(keys, product(count, key)?, P::KEY)?;
        let operands = slice(operands.cast::<u8>(), product(count, operand)?, P::VALUE)?;
        (keys, operands, room(results.cast::<u8>(), product(count, result)?, P::VALUE)?)
    };
    P::check(inner, keys)?;
    Ok((keys, operands, results))
}

/// Returns a place for an outcome that a program may not want.
pub(crate) fn optional(outcome: *mut probeline_outcome) -> Option<*mut probeline_outcome> {
    (!outcome.is_null()).then_some(outcome)
}

/// Runs a request on `count` keys, and stores their outcomes if they are wanted.
///
/// # Safety
/// `structure` is NULL or open, `pointers` are NULL or valid for `count` keys, and `outcomes` is NULL or has room
/// for as many outcomes.
pub(crate) unsafe fn run<P: Keyed<Structure: Run<P>>>(
    structure: *mut P,
    request: Result<P::Request, Error>,
    pointers: Pointers<P>,
    count: usize,
    outcomes: Option<*mut probeline_outcome>,
) -> probeline_status {
    let body = |inner: &mut Inner<P>| {
        let request = request?;
        // SAFETY: the caller passes what these ask for (# Safety).
        let ((keys, operands, results), outcomes) = unsafe {
            let outcomes = outcomes.map(|outcomes| room(outcomes, count, "outcome")).transpose()?;
            (arguments(inner, request, pointers, count)?, outcomes.unwrap_or_default())
        };
        if count != 1 {
            return inner.structure.batch(request, keys, operands, results, outcomes);
        }
        // One by itself needs nothing of a batch.
        let ended = inner.structure.run(request, keys, operands, results)?;
        if let Some(outcome) = outcomes.first_mut() {
            outcome.write(ended);
        }
        Ok(())
    };
    // SAFETY: the caller passes NULL or an open structure (# Safety).
    unsafe { with(structure, body) }
}

/// Starts a request on a key.
///
/// # Safety
/// `structure` is NULL or open, and `pointers` are NULL or valid for one key, the place for the result until the
/// operation has ended or the structure is closed.
pub(crate) unsafe fn submit<P: Keyed>(
    structure: *mut P,
    tag: u64,
    request: Result<P::Request, Error>,
    pointers: Pointers<P>,
) -> probeline_status {
    let body = |inner: &mut Inner<P>| {
        let request = request?;
        // SAFETY: the caller passes what this asks for (# Safety). Nothing is written to the result yet.
        let (key, operand, _) = unsafe { arguments(inner, request, pointers, 1) }?;
        let inside = inner.structure.submitted().next()?;
        inner.structure.submit(inside, request, key, operand)?;
        inner.structure.submitted().started(Submitted { tag, to: pointers.2.cast() });
        Ok(())
    };
    // SAFETY: the caller passes NULL or an open structure (# Safety).
    unsafe { with(structure, body) }
}

/// Makes progress, and stores operations that have ended, and their number.
///
/// # Safety
/// `structure` is NULL or open, `finished` is NULL or has room for `capacity` items, `count` is NULL or has room
/// for a number, and the places of submitted operations are NULL or valid for writes of their values.
pub(crate) unsafe fn poll<P: Pointee<Structure: Structure>>(
    structure: *mut P,
    finished: *mut probeline_finished,
    capacity: usize,
    count: *mut usize,
) -> probeline_status {
    let body = |inner: &mut Inner<P>| {
        // SAFETY: the caller passes `finished` with room for `capacity` items, and `count`, a place for a
        // number (# Safety).
        let (finished, count) =
            unsafe { (room(finished, capacity, "finished")?, out(count, "count")?) };
        count.write(0);
        // SAFETY: the caller keeps the places of submitted operations valid (# Safety).
        count.write(unsafe { inner.structure.poll(finished) }?);
        Ok(())
    };
    // SAFETY: the caller passes NULL or an open structure (# Safety).
    unsafe { with(structure, body) }
}

/// Stores a value that was found.
pub(crate) fn copy(value: &[u8], to: Place<'_>) {
    if to.len() == value.len() {
        to.write_copy_of_slice(value);
    } else {
        debug_assert!(false, "the structure has values of one size");
    }
}

/// Outcome of an operation of the library, as the program learns it.
pub(crate) trait ToC {
    /// Returns the outcome, and its value if it has one. Values of one kind of operation have one size.
    fn to_c(&self) -> (probeline_outcome, Option<&[u8]>);
}

impl ToC for u64 {
    fn to_c(&self) -> (probeline_outcome, Option<&[u8]>) {
        (probeline_outcome::PROBELINE_FOUND, Some(self.bytes()))
    }
}

impl<const N: usize> ToC for Bytes<N> {
    fn to_c(&self) -> (probeline_outcome, Option<&[u8]>) {
        (probeline_outcome::PROBELINE_FOUND, Some(self.bytes()))
    }
}

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

impl Submissions {
    /// Makes room for this many operations in flight.
    pub(crate) fn new(operations: u32) -> Self {
        let places = operations as usize;
        let all = vec![Submitted { tag: 0, to: ptr::null_mut() }; places];
        Self { all, free: (0..places).collect() }
    }

    /// Returns the tag of the next operation inside the structure, which is its place.
    fn next(&self) -> Result<Tag, OperationError> {
        self.free.last().map(|place| Tag(*place as u64)).ok_or(OperationError::Busy)
    }

    /// Stores that the operation has started whose tag was returned last.
    fn started(&mut self, submitted: Submitted) {
        if let Some(place) = self.free.pop().and_then(|place| self.all.get_mut(place)) {
            *place = submitted;
        }
    }

    /// Returns what the program gave with an operation that has ended.
    pub(crate) fn ended(&mut self, tag: Tag) -> Option<Submitted> {
        let place = usize::try_from(tag.0).ok()?;
        let submitted = *self.all.get(place)?;
        self.free.push(place);
        Some(submitted)
    }
}
