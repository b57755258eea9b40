//! Errors of PNML texts.

use core::error::Error;
use core::fmt;

use super::{MAX_ELEMENTS, PNML, PT_NET};
use crate::{MAX_TOKENS, NetError};

/// The reason why a text does not describe a place/transition net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PnmlError {
    /// The line, counted from 1.
    pub line: usize,
    /// The error in that line.
    pub fault: PnmlFault,
}

/// An error in a PNML text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PnmlFault {
    /// The text is not well-formed XML.
    Malformed {
        /// The parser's message.
        reason: String,
    },
    /// The text has a document type definition, whose entities may expand without end.
    DocumentType,
    /// The text has too many tags and attributes.
    TooManyElements,
    /// The root element is not `pnml`, or is `pnml` of another grammar.
    NotPnml {
        /// The root's name.
        root: String,
    },
    /// The text has no net.
    NoNet,
    /// The text has more than one net.
    SeveralNets,
    /// The net is coloured.
    Coloured {
        /// The type or element that shows that the net is coloured.
        sign: String,
    },
    /// The type of the net is unknown.
    NetType {
        /// The type.
        net_type: String,
    },
    /// An unknown element, which may change the behaviour of the net.
    Unknown {
        /// Its name.
        element: String,
        /// The name of its parent.
        parent: String,
    },
    /// An element lacks an attribute.
    MissingAttribute {
        /// The element.
        element: String,
        /// The attribute.
        attribute: &'static str,
    },
    /// A label is repeated.
    Repeated {
        /// Its name.
        label: &'static str,
    },
    /// Two objects have one identifier.
    DuplicateId {
        /// The identifier.
        id: String,
    },
    /// A marking or weight is not a number, or is too large.
    Count {
        /// Its text.
        text: String,
    },
    /// An arc has weight 0.
    NoWeight,
    /// An arc of a kind that does more than move tokens.
    ArcKind {
        /// The kind of arc.
        kind: String,
    },
    /// An element refers to an identifier that no place, transition or reference has.
    Dangling {
        /// The identifier.
        id: String,
    },
    /// An arc joins two places or two transitions.
    SameKind,
    /// A chain of references returns to itself.
    Cycle,
    /// A `referencePlace` leads to a transition, or a `referenceTransition` to a place.
    WrongReference,
    /// The parts are not a valid net.
    Net(NetError),
}

impl fmt::Display for PnmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.fault)
    }
}

impl fmt::Display for PnmlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { reason } => write!(f, "not well-formed XML: {reason}"),
            Self::DocumentType => f.write_str(
                "document type definitions are not supported; delete the <!DOCTYPE ...>",
            ),
            Self::TooManyElements => write!(
                f,
                "more than {MAX_ELEMENTS} tags and attributes; take a smaller instance of the model"
            ),
            Self::NotPnml { root } => write!(
                f,
                "not PNML of the 2009 grammar: the root is <{root}>, not <pnml xmlns=\"{PNML}\">"
            ),
            Self::NoNet => f.write_str("there is no <net> in the file"),
            Self::SeveralNets => {
                f.write_str("a second net begins here; put each net in its own file")
            }
            Self::Coloured { sign } => write!(
                f,
                "this is a coloured net ({sign}): only place/transition nets are supported; \
                 use the P/T version ('-PT-') of the model"
            ),
            Self::NetType { net_type } => {
                write!(f, "nets of type '{net_type}' are not supported, only {PT_NET}")
            }
            Self::Unknown { element, parent } => write!(
                f,
                "<{element}> in <{parent}> is not part of a place/transition net; \
                 delete it if it does not change the net's behaviour"
            ),
            Self::MissingAttribute { element, attribute } => {
                write!(f, "this <{element}> needs an attribute '{attribute}'")
            }
            Self::Repeated { label } => write!(f, "this is a second <{label}>; keep one"),
            Self::DuplicateId { id } => {
                write!(f, "the id '{id}' is taken by an earlier element; rename one of them")
            }
            Self::Count { text } => {
                write!(f, "'{text}' is not a number of tokens; write 0 to {MAX_TOKENS}")
            }
            Self::NoWeight => f.write_str("this arc has weight 0; delete it or give it a weight"),
            Self::ArcKind { kind } => write!(
                f,
                "'{kind}' arcs are not supported: only arcs that move tokens, of no kind or of kind 'normal'"
            ),
            Self::Dangling { id } => {
                write!(
                    f,
                    "this element refers to '{id}', which no place or transition has as its id"
                )
            }
            Self::SameKind => f.write_str(
                "this arc joins two places or two transitions; it must join one of each",
            ),
            Self::Cycle => f.write_str("this reference leads back to itself"),
            Self::WrongReference => f.write_str(
                "a referencePlace must lead to a place, and a referenceTransition to a transition",
            ),
            Self::Net(error) => error.fmt(f),
        }
    }
}

impl Error for PnmlError {}
