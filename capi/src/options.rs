//! Structures of options and counters that later versions may extend at their end, and the values that
//! options may have.

use core::fmt;

use probeline::pipeline::Parameter;
use probeline::transport::Owner;

use crate::call::out;
use crate::status::Error;

/// A structure that begins with its size as the caller's header has it.
///
/// # Safety
/// It is `repr(C)`, begins with a `usize` that is the size, and every bit pattern is a value.
pub(crate) unsafe trait Extensible: Copy {}

/// Options with the values that each of their numbers may have.
pub(crate) trait Options: Extensible {
    /// The default values, with the size of this version.
    const DEFAULT: Self;

    /// Returns all numbers.
    fn fields(&self) -> Vec<Field>;

    /// Checks all numbers. Call it before anything else: no value that it accepts overflows.
    fn check(&self) -> Result<(), Error> {
        self.fields().iter().try_for_each(Field::check)
    }

    /// Returns the checked numbers that all ranks must give equal, which are all but those of these names.
    fn parameters(&self, own: &[&str]) -> Vec<Parameter> {
        let shared = self.fields().into_iter().filter(|field| !own.contains(&field.name));
        shared.map(|field| (field.name, u64::try_from(field.value).unwrap_or(u64::MAX))).collect()
    }
}

/// A number of options, and the values that it may have.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) value: i128,
    pub(crate) allowed: Allowed,
}

/// The most keys or buckets, far more than any memory has room for.
pub(crate) const MAX_KEYS: u64 = 1 << 48;
/// The most operations in flight over any transport.
pub(crate) const MAX_OPERATIONS: u64 = 1 << 16;

/// The values that a number of options may have.
#[derive(Clone, Copy)]
pub(crate) enum Allowed {
    /// 0 or 1.
    Flag,
    /// The constants of these names, from 0 on.
    Constants(&'static [&'static str]),
    /// At least the first, at most the second number.
    Range(i64, u64),
    /// The multiples of the first number from itself up to the second number.
    Multiples(u32, u32),
    /// The widths of keys in bits: 63, or those of 1 up to this number of words.
    KeyBits(usize),
}

impl Allowed {
    fn contains(self, value: i128) -> bool {
        match self {
            Self::Flag => (0..=1).contains(&value),
            Self::Constants(names) => (0..names.len() as i128).contains(&value),
            Self::Range(least, most) => (least.into()..=most.into()).contains(&value),
            Self::Multiples(of, most) => {
                (of.into()..=most.into()).contains(&value) && value % i128::from(of) == 0
            }
            Self::KeyBits(words) => {
                value == 63 || value % 64 == 0 && (1..=words as i128).contains(&(value / 64))
            }
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("0 or 1"),
            Self::Constants(names) => f.write_str(&names.join(", ")),
            Self::Range(least, most) => write!(f, "{least} to {most}"),
            Self::Multiples(of, most) => write!(f, "a multiple of {of} from {of} to {most}"),
            Self::KeyBits(words) => write!(f, "63, or a multiple of 64 up to {}", words * 64),
        }
    }
}

impl Field {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { name, value, allowed } = self;
        if allowed.contains(*value) {
            return Ok(());
        }
        Err(Error::invalid(format_args!("{name} is {value}: give {allowed}")))
    }
}

/// Checks a rank that the caller gives under this name.
pub(crate) fn check_rank(name: &'static str, rank: u32, ranks: u32) -> Result<Owner, Error> {
    let allowed = Allowed::Range(0, u64::from(ranks).saturating_sub(1));
    Field { name, value: rank.into(), allowed }.check()?;
    Ok(Owner(rank))
}

/// Implements [`Options`]: each name with its default and, for a number, the values allowed, which may depend on
/// the options under the name between the bars.
macro_rules! options {
    ($options:ident |$all:pat_param| $($name:ident = $default:expr $(, $allowed:expr)?;)*) => {
        impl crate::options::Options for $options {
            const DEFAULT: Self = Self { size: size_of::<Self>(), $($name: $default),* };

            fn fields(&self) -> Vec<crate::options::Field> {
                let $all = self;
                vec![$($(crate::options::Field {
                    name: stringify!($name),
                    value: i128::try_from(self.$name).unwrap_or(i128::MAX),
                    allowed: $allowed,
                },)?)*]
            }
        }
    };
}
pub(crate) use options;

/// Implements the conversion of counts of the library to a structure with the same names.
macro_rules! from_counts {
    ($counts:ty => $to:ident { $($name:ident),* }) => {
        impl From<$counts> for $to {
            fn from(counts: $counts) -> Self {
                Self { size: size_of::<Self>(), $($name: counts.$name),* }
            }
        }
    };
}
pub(crate) use from_counts;

/// The size field of a structure.
type Size = usize;

/// Returns whether a structure may have this size, in this version or another one.
fn is_size_of<O>(size: usize) -> bool {
    let sizes = size_of::<Size>()..=16 * size_of::<O>();
    sizes.contains(&size) && size.is_multiple_of(size_of::<Size>())
}

/// Checks the place and the size of a structure that will be written.
pub(crate) fn check<O: Extensible>(to: *mut O, size: usize) -> Result<(), Error> {
    // SAFETY: nothing is written through it.
    unsafe { out(to, "the structure") }?;
    if !is_size_of::<O>(size) {
        let text = format_args!(
            "the size of the structure is {size}: give its sizeof, {}",
            size_of::<O>()
        );
        return Err(Error::invalid(text));
    }
    Ok(())
}

/// Writes `value` to a structure of `size` bytes, as much of it as there is room for.
///
/// # Safety
/// `to` is NULL or valid for writes of `size` bytes.
pub(crate) unsafe fn write<O: Extensible>(to: *mut O, size: usize, value: &O) -> Result<(), Error> {
    check(to, size)?;
    // SAFETY: the caller gives room for `size` bytes (# Safety); the structure begins with its size, as
    // `Extensible` asks. What a newer header has at its end stays 0.
    unsafe {
        to.cast::<u8>().write_bytes(0, size);
        let from = core::ptr::from_ref(value).cast::<u8>();
        from.copy_to_nonoverlapping(to.cast(), size.min(size_of::<O>()));
        to.cast::<Size>().write(size);
    }
    Ok(())
}

/// Reads a structure; NULL gives the default.
///
/// # Safety
/// `from` is NULL or valid for reads of as many bytes as its size field says.
pub(crate) unsafe fn read<O: Options>(from: *const O, init: &str) -> Result<O, Error> {
    if from.is_null() {
        return Ok(O::DEFAULT);
    }
    // SAFETY: the structure begins with its size.
    let size = if from.is_aligned() { unsafe { from.cast::<Size>().read() } } else { 0 };
    // A structure never has a size like this, but uninitialized memory may.
    if !is_size_of::<O>(size) {
        return Err(Error::invalid(format_args!("the options have no size: call {init} first")));
    }
    let mut options = O::DEFAULT;
    // SAFETY: both have at least this many bytes, and every bit pattern is a value.
    unsafe {
        let to = core::ptr::from_mut(&mut options).cast::<u8>();
        from.cast::<u8>().copy_to_nonoverlapping(to, size.min(size_of::<O>()));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Two {
        size: usize,
        first: u64,
        second: u64,
    }

    // SAFETY: numbers, of which the first is the size.
    unsafe impl Extensible for Two {}
    options!(Two |_| first = 1; second = 2;);

    /// A program that was compiled with a header without `second`.
    #[test]
    fn older_program_gets_defaults() {
        let mut there = Two { size: 77, first: 77, second: 77 };
        // SAFETY: the structure is longer than it says.
        unsafe { write(&raw mut there, 16, &Two::DEFAULT) }.unwrap();
        assert_eq!(there, Two { size: 16, first: 1, second: 77 });
        there.first = 5;
        // SAFETY: the structure has the size that it says, or more.
        let read = unsafe { read(&raw const there, "init") }.unwrap();
        assert_eq!((read.first, read.second), (5, 2));
    }

    #[test]
    fn refuses_uninitialized_options() {
        for size in [0, 7, 25, usize::MAX] {
            let there = Two { size, first: 0, second: 0 };
            // SAFETY: refused before more than the size is read.
            assert!(unsafe { read(&raw const there, "init") }.is_err(), "{size}");
        }
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { read::<Two>(core::ptr::null(), "init") }.unwrap(), Two::DEFAULT);
    }
}
