//! The options that several commands share.

mod chunks;
mod global;
mod job;
mod meeting;
mod nodes;
mod output;
mod place;
mod sim;
mod transport;
mod ucx;
mod verbs;

pub(crate) use chunks::{ChunkArgs, ChunkListArgs, max_chunks};
pub(crate) use global::GlobalArgs;
pub(crate) use job::JobArgs;
pub(crate) use meeting::{ExchangeName, MeetingArgs};
pub(crate) use nodes::{DEFAULT_PORT, NodesArgs};
pub(crate) use output::OutputArgs;
pub(crate) use place::{HugeName, PinName, PlaceArgs};
pub(crate) use sim::SimArgs;
pub(crate) use transport::TransportName;
pub(crate) use ucx::UcxArgs;
pub(crate) use verbs::VerbsArgs;
