//! What a rank brings to the rendezvous, and what all ranks have to agree on.

use core::fmt;
use core::time::Duration;

use probeline_transport::MAX_OWNERS;

use crate::error::JoinError;
use crate::link::MAX_PARAMETERS_BYTES;
use crate::secret::Secret;

/// The maximum number of ranks: each is an owner, and rank 0 polls a socket to each of them.
pub const MAX_RANKS: u32 = MAX_OWNERS;

/// What a rank brings to the rendezvous.
#[derive(Clone, Debug)]
pub struct Terms {
    /// This rank, from 0.
    pub rank: u32,
    /// How many ranks there are.
    pub size: u32,
    /// What all ranks have to have alike, such as `chunk_buckets=32 max_chunks=64`: fields
    /// separated by spaces, at most [`MAX_PARAMETERS_BYTES`] in all. Not kept from who listens.
    pub parameters: String,
    /// What all ranks know and nobody else does.
    pub secret: Secret,
    /// How long to wait.
    pub limits: Limits,
}

impl Terms {
    /// # Errors
    /// What makes them impossible, whatever the other ranks bring.
    pub(crate) fn check(&self) -> Result<(), JoinError> {
        let Self { rank, size, .. } = *self;
        if !(1..=MAX_RANKS).contains(&size) {
            return Err(JoinError::Size { size });
        }
        if rank >= size {
            return Err(JoinError::RankOutOfRange { rank, size });
        }
        let bytes = self.parameters.len();
        if bytes > MAX_PARAMETERS_BYTES {
            return Err(JoinError::ParametersTooLong { bytes });
        }
        Ok(())
    }
}

/// How long to wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Until all ranks have met: 60 s unless told otherwise, for a launcher that is slow to start
    /// the last node.
    pub rendezvous: Duration,
    /// Within one collective call: 600 s unless told otherwise, for the slowest phase between two
    /// barriers. It also bounds the wait for a machine that vanished in the middle of a message.
    pub collective: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rendezvous: Duration::from_secs(60), collective: Duration::from_secs(600) }
    }
}

/// The first field in which the parameters of two ranks differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field's name.
    pub field: String,
    /// Its value here; `None` where it is absent.
    pub mine: Option<String>,
    /// Its value there.
    pub theirs: Option<String>,
}

impl Difference {
    /// The first field that differs, in the order of `mine`; `None` if the texts are equal.
    #[must_use]
    pub fn between(mine: &str, theirs: &str) -> Option<Self> {
        if mine == theirs {
            return None;
        }
        let names = fields(mine).chain(fields(theirs)).map(|(name, _)| name);
        let differs = |name: &&str| value(mine, name) != value(theirs, name);
        let owned = |value: Option<&str>| value.map(str::to_owned);
        Some(match { names }.find(differs) {
            Some(name) => Self {
                field: name.to_owned(),
                mine: owned(value(mine, name)),
                theirs: owned(value(theirs, name)),
            },
            // The same fields in another order, or one of them twice.
            None => Self {
                field: "the order of the parameters".to_owned(),
                mine: owned(Some(mine)),
                theirs: owned(Some(theirs)),
            },
        })
    }
}

fn fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split_whitespace().map(|field| field.split_once('=').unwrap_or((field, "")))
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    fields(text).find(|(found, _)| *found == name).map(|(_, value)| value)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |value: &Option<String>| match value {
            Some(value) => format!("{value:?}"),
            None => "not given".to_owned(),
        };
        write!(f, "{} is {} here and {} there", self.field, side(&self.mine), side(&self.theirs))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(mine: &str, theirs: &str) -> String {
        Difference::between(mine, theirs).map(|found| found.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_first_field_that_differs_is_named_with_both_values() {
        assert_eq!(message("c=32 m=64", "c=32 m=64"), "");
        assert_eq!(message("c=32 m=64 b=1", "c=32 m=16 b=2"), "m is \"64\" here and \"16\" there");
        assert_eq!(message("c=32 m=64", "c=32"), "m is \"64\" here and not given there");
        assert_eq!(message("c=32", "c=32 m=64"), "m is not given here and \"64\" there");
        assert_eq!(message("c=32 fast", "c=32"), "fast is \"\" here and not given there");
        assert_eq!(
            message("a=1 b=2", "b=2 a=1"),
            "the order of the parameters is \"a=1 b=2\" here and \"b=2 a=1\" there"
        );
    }

    #[test]
    fn impossible_terms_are_refused() {
        let check = |rank, size, bytes| {
            let secret = Secret::new(vec![7; 16]).unwrap();
            let parameters = "x".repeat(bytes);
            Terms { rank, size, parameters, secret, limits: Limits::default() }.check()
        };
        assert!(check(0, 1, MAX_PARAMETERS_BYTES).is_ok());
        assert!(check(MAX_RANKS - 1, MAX_RANKS, 0).is_ok());
        assert!(matches!(check(0, 0, 0), Err(JoinError::Size { size: 0 })));
        assert!(matches!(check(0, MAX_RANKS + 1, 0), Err(JoinError::Size { .. })));
        assert!(matches!(check(2, 2, 0), Err(JoinError::RankOutOfRange { rank: 2, size: 2 })));
        let long = check(0, 1, MAX_PARAMETERS_BYTES + 1);
        assert!(matches!(long, Err(JoinError::ParametersTooLong { .. })));
    }

    proptest! {
        #[test]
        fn texts_differ_if_and_only_if_a_difference_is_found(
            mine in "[ab=1 ]{0,8}", theirs in "[ab=1 ]{0,8}"
        ) {
            let found = Difference::between(&mine, &theirs);
            prop_assert_eq!(found.is_none(), mine == theirs);
            if let Some(found) = found {
                prop_assert_ne!(found.mine, found.theirs);
            }
        }
    }
}
