//! The comparison of the parameters of two ranks.

use core::fmt;

/// The first field in which the parameters of two ranks differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field's name.
    pub field: String,
    /// The value on this rank; `None` if the field is absent.
    pub mine: Option<String>,
    /// The value on the other rank.
    pub theirs: Option<String>,
}

impl Difference {
    /// Returns the first field that differs, in the order of `mine`; `None` if the texts are equal.
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
            // The same fields in another order, or one of them repeated.
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
    fn names_first_differing_field() {
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

    proptest! {
        #[test]
        fn finds_difference_iff_texts_differ(
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
