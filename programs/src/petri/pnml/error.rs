//! Errors of PNML texts.

use super::{MAX_ELEMENTS, PNML, PT_NET};
use crate::petri::{MAX_TOKENS, NetError};

/// The reason why a text does not describe a place/transition net.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {fault}")]
pub struct PnmlError {
    /// The line, counted from 1.
    pub line: usize,
    /// The error in that line.
    pub fault: PnmlFault,
}

/// An error in a PNML text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum PnmlFault {
    /// The text is not well-formed XML.
    #[error("not well-formed XML: {reason}")]
    Malformed { reason: String },
    /// The text has a document type definition, whose entities may expand without end.
    #[error("document type definitions are not supported; delete the <!DOCTYPE ...>")]
    DocumentType,
    /// The text has too many tags and attributes.
    #[error("more than {MAX_ELEMENTS} tags and attributes; take a smaller instance of the model")]
    TooManyElements,
    /// The root element is not `pnml`, or is `pnml` of another grammar.
    #[error("not PNML of the 2009 grammar: the root is <{root}>, not <pnml xmlns=\"{PNML}\">")]
    NotPnml { root: String },
    /// The text has no net.
    #[error("there is no <net> in the file")]
    NoNet,
    /// The text has more than one net.
    #[error("a second net begins here; put each net in its own file")]
    SeveralNets,
    /// The net is coloured.
    #[error(
        "this is a coloured net ({sign}): only place/transition nets are supported; use the P/T \
         version ('-PT-') of the model"
    )]
    Coloured { sign: String },
    /// The type of the net is unknown.
    #[error("nets of type '{net_type}' are not supported, only {PT_NET}")]
    NetType { net_type: String },
    /// An unknown element, which may change the behaviour of the net.
    #[error(
        "<{element}> in <{parent}> is not part of a place/transition net; delete it if it does \
         not change the net's behaviour"
    )]
    Unknown { element: String, parent: String },
    /// An element lacks an attribute.
    #[error("this <{element}> needs an attribute '{attribute}'")]
    MissingAttribute { element: String, attribute: &'static str },
    /// A label is repeated.
    #[error("this is a second <{label}>; keep one")]
    Repeated { label: &'static str },
    /// Two objects have one identifier.
    #[error("the id '{id}' is taken by an earlier element; rename one of them")]
    DuplicateId { id: String },
    /// A marking or weight is not a number, or is too large.
    #[error("'{text}' is not a number of tokens; write 0 to {MAX_TOKENS}")]
    Count { text: String },
    /// An arc has weight 0.
    #[error("this arc has weight 0; delete it or give it a weight")]
    NoWeight,
    /// An arc of a kind that does more than move tokens.
    #[error(
        "'{kind}' arcs are not supported: only arcs that move tokens, of no kind or of kind \
         'normal'"
    )]
    ArcKind { kind: String },
    /// An element refers to an identifier that no place, transition or reference has.
    #[error("this element refers to '{id}', which no place or transition has as its id")]
    Dangling { id: String },
    /// An arc joins two places or two transitions.
    #[error("this arc joins two places or two transitions; it must join one of each")]
    SameKind,
    /// A chain of references returns to itself.
    #[error("this reference leads back to itself")]
    Cycle,
    /// A `referencePlace` leads to a transition, or a `referenceTransition` to a place.
    #[error("a referencePlace must lead to a place, and a referenceTransition to a transition")]
    WrongReference,
    /// The parts are not a valid net.
    #[error(transparent)]
    Net(NetError),
}
