//! An engine of any transport, as one type: the structures are compiled once.

use probeline::transport::{Transport, forward_transport};

/// An engine of the transport of the job.
pub(crate) struct Engine(Box<dyn Transport>);

impl Engine {
    pub(crate) fn new(engine: impl Transport + 'static) -> Self {
        Self(Box::new(engine))
    }
}

impl Transport for Engine {
    forward_transport!(0: caps, geometry, in_flight, post, kick);
    forward_transport!(0: poll, landed, staged, window, direct);
}
