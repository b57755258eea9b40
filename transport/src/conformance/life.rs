//! Cases of an engine's life: idle owners, no allocation after opening, leaving, losing a peer.

use core::time::Duration;
use std::time::Instant;

use super::Case;
use super::allocations::{allocations, are_counted};
use super::rig::{Failure, Rig, local, same, segment, word};
use crate::{Completion, Fault, Owner, PostError, Sizes, Token};

const SIZES: Sizes = Sizes { window_words: 64, slots: 4, slot_words: 16, depth: 8 };

pub(super) const CASES: &[Case] = &[
    Case::new("an_idle_owner_stalls_nobody", SIZES, idle_owner)
        .min_owners(2)
        .skip(|caps| caps.needs_owner_progress.then_some("needs_owner_progress is true")),
    Case::new("nothing_is_allocated", SIZES, no_allocation)
        .skip(|_| (!are_counted()).then_some("CountingAllocator is not the global allocator")),
    Case::new("closing_with_work_in_flight", SIZES, close_busy),
    Case::new("a_lost_owner_is_named", SIZES, lost_owner)
        .min_owners(2)
        .skip(|caps| (!caps.names_lost_owners).then_some("names_lost_owners is false")),
];

/// The maximum time after which an engine under traffic reports a lost owner.
const LOST_WITHIN: Duration = Duration::from_secs(1);
/// The maximum time that one turn of a polling loop counts towards that bound. A turn takes
/// microseconds; during a longer turn the machine ran other processes and the engine was not
/// polled.
const MAX_TURN: Duration = Duration::from_millis(1);

/// Lets owner 0 wait in the barrier, outside the transport, while the others access its window.
fn idle_owner(rig: &mut Rig<'_>) -> Result<(), Failure> {
    if rig.me() != 0 {
        for _ in 0..200 {
            rig.faa(word(0, 1), 1)?;
            rig.read(segment(0, 0, 8), local(0, 0, 8))?;
        }
    }
    rig.exchange.barrier()?;
    same("the sum", rig.read_word(word(0, 1))?, 200 * u64::from(rig.owners() - 1))?;
    rig.exchange.barrier()?;
    Ok(())
}

fn no_allocation(rig: &mut Rig<'_>) -> Result<(), Failure> {
    let before = allocations();
    let outcome = mixed_rounds(rig);
    let after = allocations();
    outcome?;
    same("allocations after opening", after - before, 0)?;
    rig.exchange.barrier()?;
    Ok(())
}

fn mixed_rounds(rig: &mut Rig<'_>) -> Result<(), Failure> {
    let peer = rig.peer();
    for round in 0..500 {
        rig.transport.staged(local(1, 0, 8))?.fill(round);
        rig.transport.read(Token(0), segment(peer, 0, 16), local(0, 0, 16))?;
        rig.transport.write(Token(1), local(1, 0, 8), segment(peer, 16, 8))?;
        rig.transport.compare_and_swap(Token(2), word(peer, 40), round, round + 1)?;
        rig.transport.fetch_add(Token(3), word(peer, 41), 1)?;
        rig.transport.kick();
        for _ in 0..4 {
            rig.next()?.result?;
        }
        let words = rig.transport.landed(local(0, 0, 16))?;
        same("words landed", words.len(), 16)?;
        let refused = rig.transport.fetch_add(Token(9), word(u32::MAX, 0), 1);
        same("a refusal", refused, Err(PostError::UnknownOwner))?;
    }
    Ok(())
}

/// Returns with a full queue; the engine is dropped then, and must neither hang nor do harm.
fn close_busy(rig: &mut Rig<'_>) -> Result<(), Failure> {
    let peer = rig.peer();
    for token in 0..rig.transport.caps().depth {
        rig.transport.read(Token(token.into()), segment(peer, 0, 16), local(token % 4, 0, 16))?;
    }
    rig.exchange.barrier()?;
    Ok(())
}

/// Lets the last owner leave. The others keep posting and must report its loss in time, after all
/// completions of what they had posted.
fn lost_owner(rig: &mut Rig<'_>) -> Result<(), Failure> {
    rig.exchange.barrier()?;
    let lost = rig.last();
    if rig.me() == lost {
        return Ok(());
    }
    let limit = rig.limit().plus(LOST_WITHIN);
    let (mut turn, mut polled) = (Instant::now(), Duration::ZERO);
    let mut open = 0_u32;
    let fault = loop {
        match rig.transport.fetch_add(Token(1), word(rig.me(), 2), 1) {
            Ok(()) => open += 1,
            Err(PostError::Full | PostError::Closed) => {}
            Err(refused) => return Err(refused.into()),
        }
        let mut out = [Completion::default(); 2];
        match rig.transport.poll(&mut out) {
            Ok(count) => open -= u32::try_from(count).unwrap_or(u32::MAX),
            Err(fault) => break fault,
        }
        let now = Instant::now();
        polled += (now - turn).min(MAX_TURN);
        turn = now;
        limit.check("the loss was not reported")?;
    };
    same("the fault", fault, Fault::OwnerLost(Owner(lost)))?;
    same("accepted and not reported", (open, rig.transport.in_flight()), (0, 0))?;
    same("noticed in time", polled < LOST_WITHIN, true)?;
    let post = rig.transport.fetch_add(Token(1), word(rig.me(), 2), 1);
    same("a post after the fault", post, Err(PostError::Closed))?;
    let again = rig.transport.poll(&mut [Completion::default()]);
    same("a poll after the fault", again, Err(fault))
}
