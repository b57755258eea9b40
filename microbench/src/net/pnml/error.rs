//! Why a text gives no place/transition net, with the line and what to do.

use core::error::Error;
use core::fmt;

use super::super::{MAX_TOKENS, NetError};
use super::{MAX_ELEMENTS, PNML, PT_NET};

/// Why a text gives no place/transition net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PnmlError {
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// What is wrong there.
    pub(crate) fault: PnmlFault,
}

/// What is wrong in a PNML text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PnmlFault {
    /// It is not well-formed XML.
    Malformed(roxmltree::Error),
    /// It has a document type definition, whose entities may expand without end.
    DocumentType,
    /// It has more tags and attributes than are read.
    TooManyElements,
    /// Its root is another element, or `pnml` of another grammar.
    NotPnml {
        /// The root's name.
        root: String,
    },
    /// No net is in it.
    NoNet,
    /// More than one net is in it.
    SeveralNets,
    /// Its tokens have colours.
    Coloured {
        /// What shows it.
        sign: String,
    },
    /// The net's type is not known.
    NetType {
        /// The type.
        net_type: String,
    },
    /// An element that is not known here and may change what the net does.
    Unknown {
        /// Its name.
        element: String,
        /// What it stands in.
        parent: String,
    },
    /// An element lacks an attribute.
    MissingAttribute {
        /// The element.
        element: String,
        /// The attribute.
        attribute: &'static str,
    },
    /// A label stands twice where one is meant.
    Repeated {
        /// Its name.
        label: &'static str,
    },
    /// Two objects have one identifier.
    DuplicateId {
        /// The identifier.
        id: String,
    },
    /// A marking or weight is no number, or too large.
    Count {
        /// What it says.
        said: String,
    },
    /// An arc has weight 0.
    NoWeight,
    /// An arc does more than move tokens.
    ArcKind {
        /// What it is called.
        kind: String,
    },
    /// No place, transition or reference has the identifier that is referred to.
    Dangling {
        /// The identifier.
        id: String,
    },
    /// An arc joins two places or two transitions.
    SameKind,
    /// A reference leads back to itself.
    Cycle,
    /// A reference of places leads to a transition, or the other way round.
    WrongReference,
    /// The parts make no net.
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
            Self::Malformed(error) => write!(f, "not well-formed XML: {error}"),
            Self::DocumentType => {
                f.write_str("document type definitions are not read; delete the <!DOCTYPE ...>")
            }
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
                f.write_str("a second net begins here; put each net in a file of its own")
            }
            Self::Coloured { sign } => write!(
                f,
                "this is a coloured net ({sign}): only place/transition nets work; \
                 use the P/T version ('-PT-') of the model"
            ),
            Self::NetType { net_type } => {
                write!(f, "nets of type '{net_type}' are not known; only {PT_NET} works")
            }
            Self::Unknown { element, parent } => write!(
                f,
                "<{element}> in <{parent}> is not part of a place/transition net; \
                 delete it if it does not change what the net does"
            ),
            Self::MissingAttribute { element, attribute } => {
                write!(f, "this <{element}> needs an attribute '{attribute}'")
            }
            Self::Repeated { label } => write!(f, "a second <{label}> stands here; keep one"),
            Self::DuplicateId { id } => {
                write!(f, "the id '{id}' is taken by an earlier element; rename one of them")
            }
            Self::Count { said } => {
                write!(f, "'{said}' is no number of tokens; write a number from 0 to {MAX_TOKENS}")
            }
            Self::NoWeight => f.write_str("this arc has weight 0; delete it or give it a weight"),
            Self::ArcKind { kind } => write!(
                f,
                "'{kind}' arcs are not read: only arcs that move tokens work, \
                 and these have no kind or are 'normal'"
            ),
            Self::Dangling { id } => {
                write!(f, "no place or transition has the id '{id}' that this element refers to")
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
