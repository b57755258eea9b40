//! Arrays: elements in the memory of all ranks.

use core::ffi::{c_int, c_void};
use core::ptr;

use probeline::containers::array::Config;
use probeline::containers::{Distribution, OperationError};
use probeline::transport::Exchange;

use crate::call::{call, out, slice};
use crate::elements::{Access, Elements, Opened};
use crate::job::{Members, probeline_job};
use crate::operations::{Keyed, Sizes, poll, run, submit};
use crate::options::Allowed::{Constants, Flag, Range};
use crate::options::{self, Extensible, Field, MAX_KEYS, MAX_OPERATIONS, Options, options};
use crate::status::{Error, probeline_finished, probeline_status};
use crate::structure::{self, Inner, MAX_BYTES, Open, Pointee, Typed, with, with_block};

/// Consecutive elements on each rank.
pub const PROBELINE_DISTRIBUTION_BLOCK: c_int = 0;
/// Element i on rank i modulo the number of ranks.
pub const PROBELINE_DISTRIBUTION_CYCLIC: c_int = 1;

/// Options of an array. `operations` and `direct` may differ between ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_array_options {
    /// The size of this structure, which probeline_array_options_init() stores.
    pub size: usize,
    /// Elements of the whole array, 1 to 2^48. [no default]
    pub len: u64,
    /// Bytes of an element, 1 to 1024; atomics need 8. Elements take whole words of 8 bytes. [default: 8]
    pub element_bytes: usize,
    /// PROBELINE_DISTRIBUTION_... [default: PROBELINE_DISTRIBUTION_BLOCK]
    pub distribution: c_int,
    /// Operations of a batch in flight at once, 1 to 65,536; over verbs at most 16,384. A device may have
    /// less. [default: 32]
    pub operations: u32,
    /// Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    /// [default: 1]
    pub direct: c_int,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_array_options {}

options!(probeline_array_options |_|
    len = 0, Range(1, MAX_KEYS);
    element_bytes = 8, Range(1, MAX_BYTES as u64);
    distribution = PROBELINE_DISTRIBUTION_BLOCK, Constants(&[
        "PROBELINE_DISTRIBUTION_BLOCK",
        "PROBELINE_DISTRIBUTION_CYCLIC",
    ]);
    operations = 32, Range(1, MAX_OPERATIONS);
    direct = 1, Flag;
);

/// Add the operand to an element, modulo 2^64.
pub const PROBELINE_ADD: c_int = 0;
/// Store the operand if the element is larger.
pub const PROBELINE_MIN: c_int = 1;
/// Store the operand if the element is smaller.
pub const PROBELINE_MAX: c_int = 2;

/// An array in the memory of all ranks.
pub struct probeline_array(());

/// Checks that elements are words, which have this update.
fn check_update(options: &probeline_array_options, operation: c_int) -> Result<(), Error> {
    if options.element_bytes != size_of::<u64>() {
        let bytes = options.element_bytes;
        let text = format_args!("element_bytes is {bytes}: numbers are elements of 8 bytes");
        return Err(Error::invalid(text));
    }
    let allowed = Constants(&["PROBELINE_ADD", "PROBELINE_MIN", "PROBELINE_MAX"]);
    Field { name: "operation", value: operation.into(), allowed }.check()
}

impl Pointee for probeline_array {
    const NAME: &'static str = "array";
    type Options = probeline_array_options;
    type Structure = dyn Elements;

    fn plan(members: &mut Members, options: &Self::Options) -> Result<Open<dyn Elements>, Error> {
        let &probeline_array_options { len, element_bytes, operations, .. } = options;
        members.check_depth(operations, operations)?;
        let distribution = match options.distribution {
            PROBELINE_DISTRIBUTION_CYCLIC => Distribution::Cyclic,
            _ => Distribution::Block,
        };
        let direct = options.direct != 0;
        let config = Config { distribution, element_bytes, direct, ..Config::new(len) };
        Ok(Box::new(move |members| {
            with_block!(element_bytes, V => {
                let sizes = (config.sizes::<V>(members.owners(), operations), operations);
                let array = structure::open(members, sizes, config, Opened::<V>::open)?;
                Ok(Typed::new(array, (), operations))
            })
        }))
    }
}

impl Keyed for probeline_array {
    const KEY: &'static str = "the index";
    const VALUE: &'static str = "the value";
    type Request = Access;
    type Word = u64;

    fn sizes(options: &Self::Options, access: Access) -> Result<Sizes, Error> {
        match access {
            Access::Get | Access::Put => {}
            Access::Update(operation) => check_update(options, operation)?,
            Access::CompareAndSwap(_) => check_update(options, PROBELINE_ADD)?,
        }
        let (is_get, bytes) = (matches!(access, Access::Get), options.element_bytes);
        let operand = if is_get { 0 } else { bytes };
        Ok(Sizes { key: 1, operand, result: bytes, is_optional: !is_get })
    }

    fn check(inner: &Inner<probeline_array>, indices: &[u64]) -> Result<(), Error> {
        let invalid = indices.iter().find(|index| **index >= inner.options.len);
        invalid.map_or(Ok(()), |&index| Err(OperationError::Index { index }.into()))
    }
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
    unsafe { structure::open_for(job, options, array) }
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
    unsafe { run(array, Ok(Access::Get), (&raw const index, ptr::null(), value), 1, None) }
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
    unsafe { run(array, Ok(Access::Put), (&raw const index, value, ptr::null_mut()), 1, None) }
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
    unsafe { run(array, Ok(Access::Get), (indices, ptr::null(), values), count, None) }
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
    unsafe { run(array, Ok(Access::Put), (indices, values, ptr::null_mut()), count, None) }
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
    let pointers = (&raw const index, (&raw const operand).cast(), before.cast());
    // SAFETY: the program passes NULL or an open array and a place for a number (# Safety).
    unsafe { run(array, Ok(Access::Update(operation)), pointers, 1, None) }
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
    let pointers = (&raw const index, (&raw const desired).cast(), before.cast());
    // SAFETY: the program passes NULL or an open array and a place for a number (# Safety).
    unsafe { run(array, Ok(Access::CompareAndSwap(expected)), pointers, 1, None) }
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
    let pointers = (indices, operands.cast(), before.cast());
    // SAFETY: the program passes NULL or an open array, and numbers (# Safety).
    unsafe { run(array, Ok(Access::Update(operation)), pointers, count, None) }
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
    unsafe { submit(array, tag, Ok(Access::Get), (&raw const index, ptr::null(), value)) }
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
    let pointers = (&raw const index, value, ptr::null_mut());
    // SAFETY: the program passes NULL or an open array and an element (# Safety).
    unsafe { submit(array, tag, Ok(Access::Put), pointers) }
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
    let pointers = (&raw const index, (&raw const operand).cast(), before.cast());
    // SAFETY: the program passes NULL or an open array and a place for a number (# Safety).
    unsafe { submit(array, tag, Ok(Access::Update(operation)), pointers) }
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
    let pointers = (&raw const index, (&raw const desired).cast(), before.cast());
    // SAFETY: the program passes NULL or an open array and a place for a number (# Safety).
    unsafe { submit(array, tag, Ok(Access::CompareAndSwap(expected)), pointers) }
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
    unsafe { poll(array, finished, capacity, count) }
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
    let body = |Inner { structure, options, opened }: &mut Inner<probeline_array>| {
        // SAFETY: the program passes NULL or an element (# Safety).
        let value = unsafe { slice(value.cast::<u8>(), options.element_bytes, "value") };
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
    let body = |Inner { structure, options, opened }: &mut Inner<probeline_array>| {
        // SAFETY: the program passes NULL or a place for a number (# Safety).
        let result = unsafe { out(result, "result") };
        let arguments = check_update(options, operation).and(result);
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
    let body = |array: &mut Inner<probeline_array>| {
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
