//! Errors of the text of an inequality.

use super::MAX_NUMBER;

/// The text is not an inequality over the places of the net.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}', character {position}: {fault}")]
pub struct InvariantError {
    /// The whole text.
    pub text: String,
    /// The number of the character at which the fault is, from 1.
    pub position: usize,
    /// What is wrong there.
    pub fault: InvariantFault,
}

/// What is wrong with the text of an inequality.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum InvariantFault {
    /// Something else stands where a term has to be.
    #[error("expected a place or a number, found {found}; write, for example, '2 * p1 + p2 <= 3'")]
    NoTerm { found: String },
    /// Something else stands where the sum continues or ends.
    #[error(
        "expected '+', '-' or one of <=, >=, ==, !=, <, >, found {found}; an identifier of other \
         characters than letters, digits, _ and . stands in double quotes"
    )]
    NoOperator { found: String },
    /// The inequality is complete, but the text is not.
    #[error("expected the end, '+' or '-', found {found}; give each inequality as one of its own")]
    NoEnd { found: String },
    /// `=` instead of `==`.
    #[error("'=' is no comparison; write ==")]
    SingleEquals,
    /// No place has this identifier or name.
    #[error("the net has no place '{name}'{}", did_you_mean(near, some))]
    UnknownPlace { name: String, near: Vec<String>, some: Vec<String> },
    /// Several places have this name.
    #[error("several places have the name '{name}'; write an identifier: {}", ids.join(", "))]
    AmbiguousPlace { name: String, ids: Vec<String> },
    /// A number is too large.
    #[error("the number is larger than {MAX_NUMBER}; scale the inequality down")]
    LargeNumber,
    /// A quoted identifier does not end.
    #[error("the quoted identifier has no end; add a double quote")]
    OpenQuote,
    /// The inequality compares numbers only.
    #[error("the inequality names no place; write, for example, 'p1 + p2 <= 1'")]
    NoPlace,
}

fn did_you_mean(near: &[String], some: &[String]) -> String {
    match near {
        [] => format!("; identifiers are those of the model, such as {}", some.join(", ")),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
}
