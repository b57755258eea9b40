//! The shutdown of an engine: after a fault it completes the operations in flight, and when it is
//! dropped it notifies its peers.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use probeline_transport::engine::{Deadline, lost_word};
use probeline_transport::{Fault, Owner};

use super::Engine;
use super::connection::{FIRST_LOST, named_owner, shutdown_word};
use super::private::OwnWord;
use crate::WorkRequest;

/// The common part of the IDs of a shutdown's work requests, above the indices of operations and
/// [`KEEPALIVE_WR_ID`](super::KEEPALIVE_WR_ID). The owner and the number of the request, 0 or 1,
/// are added.
const SHUTDOWN_WR_ID: u64 = 1 << 33;
/// The maximum time for notifying the peers.
const NOTIFY_TIME: Duration = Duration::from_secs(1);

impl Engine {
    /// Stops polling the device after a fault if it has not completed the operations in flight in
    /// time. `drained` states that the completion queue was empty.
    #[cold]
    pub(super) fn drain(&mut self, drained: bool) {
        match self.drain_deadline {
            None => self.drain_deadline = Some(self.device_deadline()),
            Some(deadline) if drained && deadline.has_passed() => self.device_silent = true,
            Some(_) => {}
        }
    }

    /// Notifies all peers that this owner shuts down, and which owner was lost first.
    pub(super) fn notify_shutdown(&mut self) {
        let me = self.geometry.me;
        let because = match self.fault {
            Some(Fault::OwnerLost(owner)) => owner,
            _ => me,
        };
        let Some(word) = self.parts.private.own_word(OwnWord::Shutdown) else { return };
        word.store(lost_word(because), Relaxed);
        let Some(from) = self.parts.private.own_range(OwnWord::Shutdown) else { return };
        for (owner, connection) in (0..).map(Owner).zip(&mut self.parts.connections) {
            if owner == me || connection.dead {
                connection.dead = true;
                continue;
            }
            // WRITEs of one queue pair take effect in order: a peer that sees the second word can
            // see the first one too.
            let posted =
                [FIRST_LOST, shutdown_word(me)].into_iter().zip(0..).all(|(word, number)| {
                    let id = SHUTDOWN_WR_ID | (u64::from(owner.0) << 1) | number;
                    let Some(to) = connection.control(word) else { return false };
                    connection.pair.post(&WorkRequest::write(id, from, to)).is_ok()
                });
            connection.dead = !posted;
        }
        self.await_notified();
    }

    /// Waits until every peer is notified, is lost, or has shut down too.
    fn await_notified(&mut self) {
        let deadline = Deadline::after(NOTIFY_TIME);
        while !self.device_silent && !deadline.has_passed() {
            let words = self.parts.window.words();
            for (owner, connection) in (0..).map(Owner).zip(&mut self.parts.connections) {
                connection.dead |=
                    named_owner(words, shutdown_word(owner), self.geometry.owners).is_some();
            }
            if self.parts.connections.iter().all(|connection| connection.dead) {
                return;
            }
            let Ok(found) = self.parts.completions.poll(&mut self.polled) else { return };
            for end in self.polled.iter().take(found) {
                let id = end.id();
                // The second WRITE completes after the first. After an error no further one
                // succeeds.
                if id & SHUTDOWN_WR_ID != 0 && (id & 1 == 1 || end.result().is_err()) {
                    let owner = usize::try_from((id & !SHUTDOWN_WR_ID) >> 1).unwrap_or(usize::MAX);
                    if let Some(connection) = self.parts.connections.get_mut(owner) {
                        connection.dead = true;
                    }
                }
            }
        }
    }
}
