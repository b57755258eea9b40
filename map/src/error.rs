//! Errors of configurations, batches and collective calls.

use core::fmt;

pub use probeline_pipeline::BatchError;
use thiserror::Error;

/// An invalid configuration, with the allowed range. The call changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The map does not start on a cache line.
    #[error("first_word is {found}: it must be a multiple of 8")]
    FirstWord {
        /// The word as given.
        found: u64,
    },
    /// A key or a value is larger than its type.
    #[error("a {what} has {found} bytes: its type Bytes has room for {most}")]
    Bytes {
        /// "key" or "value".
        what: &'static str,
        /// The size as given.
        found: usize,
        /// The largest size.
        most: usize,
    },
    /// The map has no bucket, or more than the windows have room for.
    #[error("buckets_per_owner is {found}: {}", advice(*found, *most, *words))]
    Buckets {
        /// Buckets in each part, as given.
        found: u64,
        /// The largest number that fits behind the first word.
        most: u64,
        /// Words of a bucket.
        words: u64,
    },
    /// A bucket does not fit a slot or an operation of the transport.
    #[error(
        "a bucket of these keys and values has {found} words, a slot or a READ at most {most}: open \
         the engine with config.sizes::<K, V>(operations)"
    )]
    BucketWords {
        /// Words of a bucket.
        found: u32,
        /// The most words here.
        most: u32,
    },
    /// A case that other structures have as well.
    #[error(transparent)]
    Common(#[from] probeline_pipeline::ConfigError),
    /// The transport's depth is too small for an eviction.
    #[error(
        "the transport's depth is {found}: at least {least} is needed for an eviction; open the engine \
         with config.sizes::<K, V>(operations)"
    )]
    Depth {
        /// The transport's depth.
        found: u32,
        /// The least depth.
        least: u32,
    },
    /// The fields of a [`Rounding`](crate::Rounding) together are shorter or longer than a key.
    #[error(
        "the fields have {found} bytes, a key {expected}: name all fields in the order of their bytes"
    )]
    FieldBytes {
        /// Bytes of all fields.
        found: usize,
        /// Bytes of a key.
        expected: usize,
    },
    /// A field of a rounding has no digits, or more than its type.
    #[error(
        "field {field} (counted from 0) has {found} digits: give 1 to {most}, or Field::Exact to keep \
         it as it is"
    )]
    Digits {
        /// The index of the field.
        field: usize,
        /// The digits as given.
        found: u8,
        /// The most digits of its type.
        most: u8,
    },
    /// The threshold of a rounding is negative, infinite, or not a number.
    #[error("the threshold below which numbers are 0 must be 0 or a positive finite number")]
    ZeroBelow,
}

/// Advice about a number of buckets.
fn advice(found: u64, most: u64, words: u64) -> impl fmt::Display {
    fmt::from_fn(move |f| match (found, most) {
        (0, _) => f.write_str("it must be at least 1"),
        (_, 0) => write!(
            f,
            "the windows have no room for a single bucket of {words} words; open the engine with \
             config.sizes::<K, V>(operations)"
        ),
        _ => write!(
            f,
            "the windows have room for {most} buckets of {words} words; open the engine with \
             config.sizes::<K, V>(operations)"
        ),
    })
}

/// The reason why a map was not opened.
pub type OpenError = probeline_pipeline::OpenError<ConfigError>;
