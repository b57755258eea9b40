//! Errors of configurations.

use probeline_pipeline::OperationsError;
use thiserror::Error;

/// An invalid configuration, with the allowed range. The call changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A parameter is out of its range.
    #[error("{what} is {found}: it must be {min} to {max}")]
    Range {
        /// The name of the parameter.
        what: &'static str,
        /// The value as given.
        found: u64,
        /// The smallest valid value.
        min: u64,
        /// The largest valid value.
        max: u64,
    },
    /// The windows are too small.
    #[error(
        "the container needs {needed} words of each window, which has {found}: open the engine with \
         config.sizes(operations)"
    )]
    Window {
        /// Words that the container needs, those before its first word included.
        needed: u64,
        /// Words of a window.
        found: u64,
    },
    /// An element does not fit a slot or a one-sided operation of the transport.
    #[error(
        "an element has {needed} words, a slot or a READ at most {found}: open the engine with \
         config.sizes(operations)"
    )]
    Slot {
        /// Words of an element.
        needed: u64,
        /// The most words here.
        found: u64,
    },
    /// No storage for operations, or more than the transport has slots for.
    #[error(transparent)]
    Operations(#[from] OperationsError),
}

/// The reason why a container was not opened.
pub type OpenError = probeline_pipeline::OpenError<ConfigError>;
