//! A simulated engine that counts what it READs, and may queue claims behind READs.

use probeline_sim::Engine;
use probeline_transport::{
    Local, Owner, PostError, RemoteWord, Segment, Token, Transport, forward_transport,
};
use serde::Serialize;

/// Whose turns at the initiator's NIC are apart by what the model says of READs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Turns {
    /// READs only, as the model has it: claims wait for nothing.
    Reads,
    /// READs and claims together.
    ReadsAndClaims,
}

/// The engine of the owner that works.
pub(crate) struct Nic {
    engine: Engine,
    /// Nanoseconds from one turn to the next; 0 leaves turns to the model.
    turn_ns: u64,
    /// When the next turn is free.
    free_ns: u64,
    /// Words that all READs have brought.
    words: u64,
}

const NS_PER_S: u64 = 1_000_000_000;

impl Nic {
    /// `reads_per_s` is the model's, at least 1.
    pub(crate) fn new(engine: Engine, turns: Turns, reads_per_s: u64) -> Self {
        let turn_ns = match turns {
            Turns::Reads => 0,
            Turns::ReadsAndClaims => NS_PER_S.div_ceil(reads_per_s),
        };
        Self { engine, turn_ns, free_ns: 0, words: 0 }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    /// Words READ so far.
    pub(crate) fn words(&self) -> u64 {
        self.words
    }

    /// Waits for the turn of an operation on `owner`'s window; the own one is the CPU's to reach.
    ///
    /// The model knows no turns of READs and claims together, so the CPU posts as late as they
    /// would be sent. That is the same: it has nothing else to do than to wait for the first of
    /// them, which takes longer than the turns of all that one operation posts.
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
    forward_transport!(engine: caps, geometry, in_flight, poll, landed, staged, window, direct);

    fn read(&mut self, token: Token, from: Segment, into: Local) -> Result<(), PostError> {
        self.wait_for_turn(from.start.owner);
        self.engine.read(token, from, into)?;
        self.words += u64::from(from.words);
        Ok(())
    }

    fn write(&mut self, token: Token, from: Local, to: Segment) -> Result<(), PostError> {
        self.wait_for_turn(to.start.owner);
        self.engine.write(token, from, to)
    }

    fn compare_and_swap(
        &mut self,
        token: Token,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), PostError> {
        self.wait_for_turn(at.owner);
        self.engine.compare_and_swap(token, at, expected, desired)
    }

    fn fetch_add(&mut self, token: Token, at: RemoteWord, addend: u64) -> Result<(), PostError> {
        self.wait_for_turn(at.owner);
        self.engine.fetch_add(token, at, addend)
    }

    fn kick(&mut self) {
        self.engine.kick();
    }
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use probeline_sim::{Cluster, Config, Model};
    use probeline_transport::{Completion, Slot};

    use super::*;

    /// When a claim and a READ end that are posted one after the other to `owner`.
    fn ends_ns(turns: Turns, owner: Owner) -> Vec<u64> {
        let model = Model::oortwijn2015();
        let cluster = Cluster::new(Config { model, ..Config::default() }).unwrap();
        let engine = cluster.engine(Owner(0)).unwrap();
        let _peer = cluster.engine(Owner(1)).unwrap();
        let mut nic = Nic::new(engine, turns, model.initiator.copies_per_s);
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
        assert_eq!(nic.words(), 8);
        ends
    }

    #[test]
    fn a_read_waits_for_the_claim_before_it_only_where_they_share_turns() {
        assert_eq!(ends_ns(Turns::Reads, Owner(1)), [3_745, 3_405]);
        assert_eq!(ends_ns(Turns::ReadsAndClaims, Owner(1)), [3_745, 1_311 + 3_405]);
        let own = ends_ns(Turns::Reads, Owner(0));
        assert_eq!(ends_ns(Turns::ReadsAndClaims, Owner(0)), own);
    }
}
