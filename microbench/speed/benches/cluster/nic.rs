//! A simulated engine in which claims may wait for READs at the initiator's NIC.

use probeline_sim::Engine;
use probeline_transport::{Owner, PostError, Request, Token, Transport, forward_transport};

/// A simulated engine in which claims may take the turns of READs at the NIC. In the model the two
/// have turns of their own.
pub(super) struct Nic {
    engine: Engine,
    turn_ns: u64,
    /// The start of the next free turn.
    free_ns: u64,
}

impl Nic {
    /// `turn_ns` is the time from one turn to the next; 0 leaves turns to the model.
    pub(super) fn new(engine: Engine, turn_ns: u64) -> Self {
        Self { engine, turn_ns, free_ns: 0 }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    /// Waits for the turn of an operation on `owner`'s window; the CPU accesses the own one.
    ///
    /// The CPU posts as late as the NIC would send. That is equivalent, because the caller would
    /// otherwise only wait for the first completion, which takes longer than all these turns.
    fn wait_for_turn(&mut self, owner: Owner) {
        if self.turn_ns == 0 || owner == self.engine.geometry().me {
            return;
        }
        let now_ns = self.engine.now_ns();
        let turn_ns = now_ns.max(self.free_ns);
        self.engine.spend(turn_ns - now_ns);
        self.free_ns = turn_ns + self.turn_ns;
    }
}

impl Transport for Nic {
    forward_transport!(engine: caps, geometry, in_flight, kick, poll, landed, staged, window, direct);

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        self.wait_for_turn(request.owner());
        self.engine.post(token, request)
    }
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use probeline_transport::{Completion, Local, RemoteWord, Segment, Slot};

    use super::super::engines;
    use super::*;

    /// When a claim and a READ complete that are posted to `owner` one after the other.
    fn completed_ns(shares_turns: bool, owner: Owner) -> Vec<u64> {
        let (mut nic, _peer) = engines(8, 1, shares_turns).unwrap();
        let at = RemoteWord { owner, index: 0 };
        nic.compare_and_swap(Token(0), at, 0, 1).unwrap();
        let into = Local { slot: Slot(0), start: 0, words: 8 };
        nic.read(Token(1), Segment { start: at, words: 8 }, into).unwrap();
        let mut ends = vec![0; 2];
        while nic.in_flight() > 0 {
            let mut end = [Completion::default()];
            if nic.poll(&mut end).unwrap() == 1 {
                ends[usize::try_from(end[0].token.0).unwrap()] = nic.now_ns();
            }
        }
        ends
    }

    #[test]
    fn a_read_waits_for_the_claim_before_it_only_where_they_share_turns() {
        assert_eq!(completed_ns(false, Owner(1)), [3_745, 3_405]);
        assert_eq!(completed_ns(true, Owner(1)), [3_745, 1_311 + 3_405]);
        let own = completed_ns(false, Owner(0));
        assert_eq!(completed_ns(true, Owner(0)), own);
    }
}
