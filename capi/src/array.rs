//! Arrays: elements in the memory of all ranks.

use core::any::Any;
use core::ffi::{c_int, c_void};
use core::ptr;

use probeline::containers::array::{Action, Array, Config, Operation, Order};
use probeline::containers::{Distribution, OperationError, Plain};
use probeline::pipeline::{self, Tag};
use probeline::transport::Exchange;

use crate::array_options::{PROBELINE_DISTRIBUTION_CYCLIC, probeline_array_options};
use crate::cache::{Place, copy};
use crate::call::{call, out, product, room, slice};
use crate::handle::Handle;
use crate::job::{Members, probeline_job};
use crate::options::Allowed::Constants;
use crate::options::{self, Field, Options};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{
    self, Engine, InnerOf, Plan, PlanOf, Pointee, Structure, open_container, structure,
    tuple_of_handle, with, with_block,
};
use crate::submitted::{self, Poll, Started, Submitted, implement_poll};

/// Add the operand to an element, modulo 2^64.
pub const PROBELINE_ADD: c_int = 0;
/// Store the operand if the element is larger.
pub const PROBELINE_MIN: c_int = 1;
/// Store the operand if the element is smaller.
pub const PROBELINE_MAX: c_int = 2;

/// An array in the memory of all ranks.
pub struct probeline_array(Handle<ArrayInner>);

type ArrayInner = InnerOf<probeline_array>;

pub(crate) struct Detail {
    len: u64,
    element_bytes: usize,
}

/// Access of an operation to its element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Get,
    Put,
    /// PROBELINE_ADD, PROBELINE_MIN or PROBELINE_MAX, on words.
    Update(c_int),
    /// Store the operand if the word is this one.
    CompareAndSwap(u64),
}

impl Access {
    /// Returns the action with this operand.
    #[inline(always)]
    fn action<V: Plain>(self, operand: &[u8]) -> Action<V> {
        match self {
            Self::Get => Action::Get,
            Self::Put => Action::Put(V::from_bytes(operand)),
            Self::Update(PROBELINE_MIN) => Action::Min(word(operand), Order::Unsigned),
            Self::Update(PROBELINE_MAX) => Action::Max(word(operand), Order::Unsigned),
            Self::Update(_) => Action::Add(word(operand)),
            Self::CompareAndSwap(expected) => {
                Action::CompareAndSwap { expected, new: word(operand) }
            }
        }
    }
}

impl Detail {
    /// Checks that elements are words, which have this update.
    fn check_update(&self, operation: c_int) -> Result<(), Error> {
        if self.element_bytes != size_of::<u64>() {
            let bytes = self.element_bytes;
            let text = format_args!("element_bytes is {bytes}: numbers are elements of 8 bytes");
            return Err(Error::invalid(text));
        }
        let allowed = Constants(&["PROBELINE_ADD", "PROBELINE_MIN", "PROBELINE_MAX"]);
        Field { name: "operation", value: operation.into(), allowed }.check()
    }

    /// Checks that an access has elements of this array as operands, before any of them is loaded.
    fn check_access(&self, access: Access) -> Result<(), Error> {
        match access {
            Access::Get | Access::Put => Ok(()),
            Access::Update(operation) => self.check_update(operation),
            Access::CompareAndSwap(_) => self.check_update(PROBELINE_ADD),
        }
    }

    fn check_indices(&self, indices: &[u64]) -> Result<(), Error> {
        let invalid = indices.iter().find(|index| **index >= self.len);
        invalid.map_or(Ok(()), |&index| Err(OperationError::Index { index }.into()))
    }
}

impl Pointee for probeline_array {
    const NAME: &'static str = "array";
    type Options = probeline_array_options;
    type Structure = dyn Elements;
    type Detail = Detail;

    fn plan(members: &mut Members, options: &Self::Options) -> Result<PlanOf<Self>, Error> {
        let &probeline_array_options { len, element_bytes, operations, .. } = options;
        members.check_depth(operations, operations)?;
        let distribution = match options.distribution {
            PROBELINE_DISTRIBUTION_CYCLIC => Distribution::Cyclic,
            _ => Distribution::Block,
        };
        let direct = options.direct != 0;
        let config = Config { distribution, element_bytes, direct, ..Config::new(len) };
        Ok(Plan {
            parameters: vec![("len", len), ("element_bytes", element_bytes as u64)],
            detail: Detail { len, element_bytes },
            submitted: operations,
            open: Box::new(move |members| {
                with_block!(element_bytes, V => {
                    let array = open_container!(Opened<V>, members, operations, config.sizes::<V>);
                    Ok(Box::new(Typed { array, bytes: element_bytes }))
                })
            }),
        })
    }

    tuple_of_handle!();
}

/// An array whose elements have a size that is known at run time only. Callers pass exactly this size.
pub(crate) trait Elements: Structure + Poll {
    /// Accesses the element at each index with its operand, if the access has operands, and stores the elements
    /// before, if there is room for them.
    fn batch(
        &mut self,
        access: Access,
        indices: &[u64],
        operands: &[u8],
        before: Place<'_>,
    ) -> Result<(), Error>;
    /// Starts an access to an element, with its operand if it has one.
    fn submit(&mut self, tag: Tag, access: Access, index: u64, operand: &[u8]) -> Started;
    fn fill(&mut self, value: &[u8], exchange: &mut dyn Exchange) -> Result<(), Error>;
    /// Reduces elements that are words.
    fn reduce(&mut self, operation: c_int, exchange: &mut dyn Exchange) -> Result<u64, Error>;
    fn for_each_local(&self, visit: &mut dyn FnMut(u64, &[u8]));
}

struct Typed<V: Plain> {
    array: Opened<V>,
    bytes: usize,
}

type Opened<V> = Array<Engine, Vec<Operation<V>>, V>;

impl<V: Plain> Typed<V> {
    fn run(
        &mut self,
        indices: &[u64],
        action: impl Fn(usize) -> Option<Action<V>>,
        mut store: impl FnMut(usize, V),
    ) -> Result<(), Error> {
        // One by itself needs nothing of a batch.
        if let ([index], Some(action)) = (indices, action(0)) {
            store(0, self.array.call(index, action)?);
            return Ok(());
        }
        Ok(self.array.run_all(indices, action, store)?)
    }
}

structure!(Typed<V> [V: Plain], array, |array, exchange| pipeline::Structure::len(array, exchange));

impl<V: Plain> Elements for Typed<V> {
    fn batch(
        &mut self,
        access: Access,
        indices: &[u64],
        operands: &[u8],
        before: Place<'_>,
    ) -> Result<(), Error> {
        let bytes = V::SIZE.unwrap_or(self.bytes);
        let range = |place: usize| place * bytes..(place + 1) * bytes;
        let operand = |place: usize| operands.get(range(place));
        let store = |place: usize, value: V| {
            if let Some(to) = before.get_mut(range(place)) {
                copy(value.bytes(), to);
            }
        };
        let action = |access: Access| move |place| Some(access.action(operand(place)?));
        match access {
            Access::Get => self.run(indices, |_| Some(Action::Get), store),
            Access::Put => self.run(indices, action(Access::Put), |_, _| ()),
            Access::Update(_) | Access::CompareAndSwap(_) => {
                self.run(indices, action(access), store)
            }
        }
    }

    fn submit(&mut self, tag: Tag, access: Access, index: u64, operand: &[u8]) -> Started {
        self.array.submit(tag, &index, access.action(operand))
    }

    fn fill(&mut self, value: &[u8], exchange: &mut dyn Exchange) -> Result<(), Error> {
        Ok(self.array.fill(&V::from_bytes(value), exchange)?)
    }

    fn reduce(&mut self, operation: c_int, exchange: &mut dyn Exchange) -> Result<u64, Error> {
        let array: &mut dyn Any = &mut self.array;
        let not_words = || Error::invalid("the elements are not words");
        let array: &mut Opened<u64> = array.downcast_mut().ok_or_else(not_words)?;
        Ok(match operation {
            PROBELINE_MIN => array.min(exchange),
            PROBELINE_MAX => array.max(exchange),
            _ => array.sum(exchange),
        }?)
    }

    fn for_each_local(&self, visit: &mut dyn FnMut(u64, &[u8])) {
        self.array.local().for_each(|(index, value)| visit(index, value.bytes()));
    }
}

implement_poll!(Typed<V> [V: Plain], array, {
    value => (probeline_outcome::PROBELINE_FOUND, Some(value.bytes())),
});

/// Returns the word of an element of 8 bytes.
fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Accesses the elements at `count` indices.
///
/// # Safety
/// `array` is NULL or open, and the others are NULL or have `count` numbers, operands and room for elements.
unsafe fn access(
    array: *mut probeline_array,
    access: Access,
    indices: *const u64,
    operands: *const c_void,
    count: usize,
    before: *mut c_void,
) -> probeline_status {
    let body = |ArrayInner { structure, detail, .. }: &mut ArrayInner| {
        let all = product(count, detail.element_bytes)?;
        let given = if access == Access::Get { 0 } else { all };
        let stored = if access != Access::Get && before.is_null() { 0 } else { all };
        detail.check_access(access)?;
        // SAFETY: the caller passes NULL or `count` indices, operands, and room for elements (# Safety).
        let (indices, operands, before) = unsafe {
            let indices = slice(indices, count, "the index")?;
            let operands = slice(operands.cast::<u8>(), given, "the value")?;
            (indices, operands, room(before.cast::<u8>(), stored, "the value")?)
        };
        detail.check_indices(indices)?;
        structure.batch(access, indices, operands, before)
    };
    // SAFETY: the caller passes NULL or an open array (# Safety).
    unsafe { with(array, body) }
}

/// Stores the default options and `size`, which is sizeof(probeline_array_options).
/// Never waits; any thread.
///
/// # Safety
/// `options` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_options_init(
    options: *mut probeline_array_options,
    size: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or `size` bytes (# Safety).
    call(|| unsafe { options::write(options, size, &probeline_array_options::DEFAULT) })
}

/// Opens an array, all bytes 0, and stores its handle at `array`. The options must have a length.
/// Collective.
///
/// # Safety
/// `job` is NULL or open, `options` is NULL or initialized, and `array` is NULL or has room for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_open(
    job: *mut probeline_job,
    options: *const probeline_array_options,
    array: *mut *mut probeline_array,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { structure::open(job, options, array) }
}

/// Waits for all ranks, closes the array and frees it; `array` may be NULL. Collective.
///
/// # Safety
/// `array` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_close(array: *mut probeline_array) -> probeline_status {
    // SAFETY: the program passes NULL or an open array (# Safety).
    unsafe { structure::close(array) }
}

/// Stores an element at `value`. Beside a put, it may be the old or the new one, and of more than 8 bytes a
/// mixture. Waits for its operation.
///
/// # Safety
/// `array` is NULL or open, and `value` is NULL or has room for an element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_get(
    array: *mut probeline_array,
    index: u64,
    value: *mut c_void,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open array and room for an element (# Safety).
    unsafe { access(array, Access::Get, &raw const index, ptr::null(), 1, value) }
}

/// Stores `value` in an element. Every get that begins after it has ended returns it. Waits for its
/// operation.
///
/// # Safety
/// `array` is NULL or open, and `value` is NULL or an element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_put(
    array: *mut probeline_array,
    index: u64,
    value: *const c_void,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open array and an element (# Safety).
    unsafe { access(array, Access::Put, &raw const index, value, 1, ptr::null_mut()) }
}

/// Gets the elements at `count` indices, with as many in flight as the options allow, and stores them one
/// after another in `values`. If it fails, they are undefined. Waits for its operations.
///
/// # Safety
/// `array` is NULL or open, `indices` is NULL or has `count` numbers, and `values` is NULL or has room for
/// `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_gather(
    array: *mut probeline_array,
    indices: *const u64,
    count: usize,
    values: *mut c_void,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open array, indices, and room for elements (# Safety).
    unsafe { access(array, Access::Get, indices, ptr::null(), count, values) }
}

/// Stores `count` values, one after another in `values`, in the elements at `indices`, with as many in
/// flight as the options allow. Of an index that occurs twice, either value remains. If it fails, some elements
/// are changed. Waits for its operations.
///
/// # Safety
/// `array` is NULL or open, and `indices` and `values` are NULL or have `count` numbers and elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_scatter(
    array: *mut probeline_array,
    indices: *const u64,
    values: *const c_void,
    count: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open array, indices and elements (# Safety).
    unsafe { access(array, Access::Put, indices, values, count, ptr::null_mut()) }
}

/// Runs PROBELINE_ADD, PROBELINE_MIN or PROBELINE_MAX on an element, an unsigned number of 8 bytes, and
/// stores the number before, unless `before` is NULL. Atomic beside other atomics, not beside puts. Returns
/// PROBELINE_ERROR_CONTENDED if a minimum or maximum was too late 64 times. Waits for its operation.
///
/// # Safety
/// `array` is NULL or open, and `before` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_update(
    array: *mut probeline_array,
    operation: c_int,
    index: u64,
    operand: u64,
    before: *mut u64,
) -> probeline_status {
    let (update, operand) = (Access::Update(operation), (&raw const operand).cast());
    // SAFETY: the program passes NULL or an open array and a place for a number (# Safety).
    unsafe { access(array, update, &raw const index, operand, 1, before.cast()) }
}

/// Stores `desired` in an element of 8 bytes if it is `expected`. Stores the element as it was, `expected` if
/// it succeeded, unless `before` is NULL. Atomic as probeline_array_update(). Waits for its operation.
///
/// # Safety
/// As for `probeline_array_update`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_compare_and_swap(
    array: *mut probeline_array,
    index: u64,
    expected: u64,
    desired: u64,
    before: *mut u64,
) -> probeline_status {
    let (swap, desired) = (Access::CompareAndSwap(expected), (&raw const desired).cast());
    // SAFETY: the program passes NULL or an open array and a place for a number (# Safety).
    unsafe { access(array, swap, &raw const index, desired, 1, before.cast()) }
}

/// Runs an operation of probeline_array_update() on each of the elements at `count` indices, with the
/// operand at the same place of `operands`, with as many in flight as the options allow, and stores the
/// numbers before, unless `before` is NULL. If it fails, some elements are changed, and `before` is undefined.
/// Waits for its operations.
///
/// # Safety
/// `array` is NULL or open, and the others are NULL or have `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_update_batch(
    array: *mut probeline_array,
    operation: c_int,
    indices: *const u64,
    operands: *const u64,
    count: usize,
    before: *mut u64,
) -> probeline_status {
    let update = Access::Update(operation);
    // SAFETY: the program passes NULL or an open array, and numbers (# Safety).
    unsafe { access(array, update, indices, operands.cast(), count, before.cast()) }
}

/// Starts an access to an element.
///
/// # Safety
/// `array` is NULL or open, `operand` is NULL or an element, and `before` is NULL or has room for one until the
/// operation has ended or the array is closed.
unsafe fn submit(
    array: *mut probeline_array,
    tag: u64,
    access: Access,
    index: u64,
    operand: *const c_void,
    before: *mut c_void,
) -> probeline_status {
    let body = |ArrayInner { structure, detail, submitted, .. }: &mut ArrayInner| {
        detail.check_access(access)?;
        let bytes = detail.element_bytes;
        let (given, stored) = if access == Access::Get { (0, bytes) } else { (bytes, 0) };
        // SAFETY: the caller passes NULL or an element (# Safety).
        let operand = unsafe { slice(operand.cast::<u8>(), given, "the value") }?;
        // SAFETY: nothing is written through it.
        unsafe { room(before.cast::<u8>(), stored, "the value") }?;
        detail.check_indices(&[index])?;
        let mine = Submitted { tag, to: before.cast() };
        submitted.submit(mine, |tag| structure.submit(tag, access, index, operand))
    };
    // SAFETY: the caller passes NULL or an open array (# Safety).
    unsafe { with(array, body) }
}

/// Starts to get an element, which a poll stores at `value`. The memory there must stay valid until
/// probeline_array_poll() has reported `tag`. Returns PROBELINE_ERROR_BUSY while as many operations are in flight
/// as the options say. Never waits.
///
/// # Safety
/// `array` is NULL or open, and `value` is NULL or has room for an element until the operation has ended or the
/// array is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_submit_get(
    array: *mut probeline_array,
    tag: u64,
    index: u64,
    value: *mut c_void,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open array and room for an element (# Safety).
    unsafe { submit(array, tag, Access::Get, index, ptr::null(), value) }
}

/// Starts to store `value`, which is copied, in an element: see probeline_array_submit_get(). Never waits.
///
/// # Safety
/// `array` is NULL or open, and `value` is NULL or an element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_submit_put(
    array: *mut probeline_array,
    tag: u64,
    index: u64,
    value: *const c_void,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open array and an element (# Safety).
    unsafe { submit(array, tag, Access::Put, index, value, ptr::null_mut()) }
}

/// Starts an operation of probeline_array_update(): see probeline_array_submit_get(). `before` may be NULL. Never
/// waits.
///
/// # Safety
/// `array` is NULL or open, and `before` is NULL or has room for a number until the operation has ended or the
/// array is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_submit_update(
    array: *mut probeline_array,
    tag: u64,
    operation: c_int,
    index: u64,
    operand: u64,
    before: *mut u64,
) -> probeline_status {
    let (update, operand) = (Access::Update(operation), (&raw const operand).cast());
    // SAFETY: the program passes NULL or an open array and a place for a number (# Safety).
    unsafe { submit(array, tag, update, index, operand, before.cast()) }
}

/// Starts probeline_array_compare_and_swap(): see probeline_array_submit_get(). `before` may be NULL. Never waits.
///
/// # Safety
/// As for `probeline_array_submit_update`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_submit_compare_and_swap(
    array: *mut probeline_array,
    tag: u64,
    index: u64,
    expected: u64,
    desired: u64,
    before: *mut u64,
) -> probeline_status {
    let (swap, desired) = (Access::CompareAndSwap(expected), (&raw const desired).cast());
    // SAFETY: the program passes NULL or an open array and a place for a number (# Safety).
    unsafe { submit(array, tag, swap, index, desired, before.cast()) }
}

/// Makes progress, and stores at most `capacity` operations that have ended, and their number. The outcome of one
/// that has succeeded is PROBELINE_FOUND. Never waits.
///
/// # Safety
/// `array` is NULL or open, `finished` is NULL or has room for `capacity` items, `count` is NULL or has room for a
/// number, and the places given with submitted operations are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_poll(
    array: *mut probeline_array,
    finished: *mut probeline_finished,
    capacity: usize,
    count: *mut usize,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { submitted::poll(array, finished, capacity, count) }
}

/// Stores `value` in all elements. Collective.
///
/// # Safety
/// `array` is NULL or open, and `value` is NULL or an element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_fill(
    array: *mut probeline_array,
    value: *const c_void,
) -> probeline_status {
    let body = |ArrayInner { structure, detail, opened, .. }: &mut ArrayInner| {
        // SAFETY: the program passes NULL or an element (# Safety).
        let value = unsafe { slice(value.cast::<u8>(), detail.element_bytes, "value") };
        let fill = |value: &[u8], exchange: &mut dyn Exchange| structure.fill(value, exchange);
        opened.collective("probeline_array_fill", value, fill)
    };
    // SAFETY: the program passes NULL or an open array (# Safety).
    unsafe { with(array, body) }
}

/// Stores the sum of all elements, at most `UINT64_MAX`, for PROBELINE_ADD, the smallest for
/// PROBELINE_MIN, or the largest for PROBELINE_MAX. Elements have 8 bytes. Collective.
///
/// # Safety
/// `array` is NULL or open, and `result` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_reduce(
    array: *mut probeline_array,
    operation: c_int,
    result: *mut u64,
) -> probeline_status {
    let body = |ArrayInner { structure, detail, opened, .. }: &mut ArrayInner| {
        // SAFETY: the program passes NULL or a place for a number (# Safety).
        let result = unsafe { out(result, "result") };
        let arguments = detail.check_update(operation).and(result);
        opened.collective("probeline_array_reduce", arguments, |result, exchange| {
            result.write(structure.reduce(operation, exchange)?);
            Ok(())
        })
    };
    // SAFETY: the program passes NULL or an open array (# Safety).
    unsafe { with(array, body) }
}

/// Receives the index of an element, the element, aligned to 8 bytes, and the pointer given with the
/// function. It must return: no longjmp, no exception.
pub type probeline_array_visit =
    Option<unsafe extern "C" fn(index: u64, value: *const c_void, context: *mut c_void)>;

/// Calls `visit` with every element in this rank's part of the array, in this thread. The result is exact
/// between barriers. Never waits.
///
/// # Safety
/// `array` is NULL or open, and `visit` is NULL or may be called with elements and `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_array_for_each_local(
    array: *mut probeline_array,
    visit: probeline_array_visit,
    context: *mut c_void,
) -> probeline_status {
    let body = |array: &mut ArrayInner| {
        let visit = visit.ok_or_else(|| Error::invalid("visit is NULL"))?;
        array.structure.for_each_local(&mut |index, value| {
            // SAFETY: the program passes a function that may be called with elements and `context`
            // (# Safety).
            unsafe { visit(index, value.as_ptr().cast(), context) };
        });
        Ok(())
    };
    // SAFETY: the program passes NULL or an open array (# Safety).
    unsafe { with(array, body) }
}
