//! The model check of lanes: messages arrive once and in order, and a full lane is back pressure.

use core::cell::Cell;
use std::collections::VecDeque;

use probeline_pipeline::model::{Explored, Network, Scripts, Sequential, Stopped, check_linear};
use probeline_pipeline::{Error, Port};
use probeline_transport::{Owner, Transport};

use super::carry::{Action, Carry, Outcome};
use super::lanes::{Context, Header};
use super::{Config, Lanes};
use crate::element::Each;
use crate::hash;
use crate::model::{Mutant, with};

/// The lane from rank 0 to rank 1, of one block of one message.
#[derive(Clone, Default)]
struct Line {
    sent: VecDeque<u64>,
    held: Option<u64>,
    received: u64,
}

/// Returns the words of a window: a count and a lane of this many blocks from each rank, a block filled for each, and one brought
/// from each.
const fn words(blocks: u32) -> usize {
    2 * 2 * 8 * (1 + blocks as usize + 2)
}

thread_local! {
    /// Blocks of the lane.
    static BLOCKS: Cell<u32> = const { Cell::new(1) };
}

impl Line {
    fn receive(&mut self) -> Outcome {
        let Some(message) = self.sent.pop_front() else { return Outcome::Nothing };
        let number = self.received;
        self.received += 1;
        let header = Header { count: 1, is_last: false }.word(number);
        Outcome::Received(1, hash::check(number, [header, message].into_iter()))
    }

    fn put(&mut self, message: u64, outcome: Outcome) -> bool {
        let blocks = BLOCKS.get() as usize;
        let is_full = self.sent.len() >= blocks;
        match (outcome, self.held) {
            (Outcome::Sent, Some(held)) => {
                self.sent.push_back(held);
                self.held = Some(message);
            }
            (Outcome::Sent, None) => self.sent.push_back(message),
            (Outcome::Kept, None) if is_full => self.held = Some(message),
            (Outcome::Full, Some(_)) if is_full => {}
            _ => return false,
        }
        self.sent.len() <= blocks
    }
}

impl Sequential<Each<Lanes<u64>>> for Line {
    /// Runs an operation that failed: a block is in the lane, or a message is held for good.
    fn run(&mut self, _: &Owner, action: Action) -> Outcome {
        if let Action::Put(message) = action {
            self.sent.extend(self.held.replace(message));
            return Outcome::Sent;
        }
        self.receive()
    }

    fn explains(&mut self, _: &Owner, action: Action, outcome: &Outcome) -> bool {
        match action {
            Action::Put(message) => self.put(message, *outcome),
            Action::Send | Action::Receive => self.receive() == *outcome,
        }
    }
}

impl Carry {
    /// Adds the message of a put to the block, if it has room. Returns whether the block is not full then.
    pub(super) fn put(
        &mut self,
        context: &mut Context,
        port: &Port<'_, impl Transport>,
    ) -> Result<bool, Error> {
        let Action::Put(message) = self.action else { return Ok(false) };
        if !context.append((self.peer, self.peer), &message, port.transport().window())? {
            return Ok(false);
        }
        self.action = Action::Send;
        Ok(context.lane(self.peer).filled < context.detail.block)
    }
}

const RECEIVE: (Owner, Action) = (Owner(0), Action::Receive);

const fn put(message: u64) -> (Owner, Action) {
    (Owner(1), Action::Put(message))
}

const THREE: Scripts<Each<Lanes<u64>>> = &[&[put(5), put(6), put(7)], &[RECEIVE, RECEIVE, RECEIVE]];

/// READs tear a word in its middle.
const TEARS: &[u64] = &[0xffff_ffff, !0xffff_ffff];

fn check<const BLOCKS: u32, const WORDS: usize>(
    scripts: Scripts<Each<Lanes<u64>>>,
    tears: &'static [u64],
) -> Result<Explored, Stopped> {
    let config = Config { block: 1, blocks: BLOCKS, ..Config::default() };
    self::BLOCKS.set(BLOCKS);
    let network = Network { owners: 2, failures: 0, tears };
    check_linear::<Each<Lanes<u64>>, Line, WORDS>(config, network, scripts)
}

#[test]
fn delivers_once_in_order() {
    const FOUR: Scripts<Each<Lanes<u64>>> =
        &[&[put(5), put(6), put(7), put(8)], &[RECEIVE, RECEIVE, RECEIVE]];
    let two_blocks = check::<2, { words(2) }>(FOUR, &[]);
    for checked in
        [check::<1, { words(1) }>(THREE, &[]), check::<1, { words(1) }>(THREE, TEARS), two_blocks]
    {
        let (worlds, _) = checked.expect("every history has an order");
        assert!(worlds > 100, "{worlds}");
    }
}

/// Two lanes to rank 0, from ranks 1 and 2, each with room for one block of one message.
#[derive(Clone, Default)]
struct TwoLanes([Line; 2]);

impl Sequential<Each<Lanes<u64>>> for TwoLanes {
    fn run(&mut self, peer: &Owner, action: Action) -> Outcome {
        match action {
            Action::Put(message) if message >= 20 => self.0[1].run(peer, action),
            Action::Put(_) => self.0[0].run(peer, action),
            Action::Send | Action::Receive => self.0[peer.0 as usize - 1].receive(),
        }
    }

    fn explains(&mut self, peer: &Owner, action: Action, outcome: &Outcome) -> bool {
        let from = match action {
            Action::Put(message) => usize::from(message >= 20),
            Action::Send | Action::Receive => peer.0 as usize - 1,
        };
        self.0[from].explains(peer, action, outcome)
    }
}

/// Checks two ranks that send to a third, which receives from each in turn.
#[test]
fn keeps_two_senders_apart() {
    const WORDS: usize = 3 * 3 * 8 * (1 + 1 + 2);
    const TO: Owner = Owner(0);
    const SCRIPTS: [Scripts<Each<Lanes<u64>>>; 2] = [
        &[
            &[(Owner(1), Action::Receive), (Owner(2), Action::Receive)],
            &[(TO, Action::Put(10)), (TO, Action::Put(11))],
            &[(TO, Action::Put(20))],
        ],
        &[
            &[(Owner(2), Action::Receive), (Owner(1), Action::Receive)],
            &[(TO, Action::Put(10))],
            &[(TO, Action::Put(20)), (TO, Action::Put(21))],
        ],
    ];
    let config = Config { block: 1, blocks: 1, ..Config::default() };
    BLOCKS.set(1);
    let network = Network { owners: 3, failures: 0, tears: &[] };
    for scripts in SCRIPTS {
        let checked = check_linear::<Each<Lanes<u64>>, TwoLanes, WORDS>(config, network, scripts);
        let (worlds, _) = checked.expect("every history has an order");
        assert!(worlds > 100, "{worlds}");
    }
}

#[test]
fn detects_mutants() {
    for mutant in [Mutant::ReadyBeforeData, Mutant::Overrun, Mutant::AnyNumber] {
        let checked = with(mutant, || check::<1, { words(1) }>(THREE, &[]));
        assert!(matches!(checked, Err(Stopped::Violation(_))), "{mutant:?}: {checked:?}");
    }
}
