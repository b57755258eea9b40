//! Cases of compare-and-swap and fetch-and-add: their results, their effects, and the other
//! accesses with which they are atomic.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use super::Case;
use super::rig::{Failure, ODD, Rig, local, same, segment, word};
use crate::{AtomicScope, Sizes, Token};

const SIZES: Sizes = Sizes { window_words: 64, slots: 2, slot_words: 8, depth: 16 };
const ROUNDS: u64 = 400;
/// The extra turns of each owner; two, so that each owner has a turn after all others.
const LAPS: u64 = 2;

pub(super) const CASES: &[Case] = &[
    Case::new("cas_compares_all_64_bits", SIZES, cas_bits),
    Case::new("cas_chain_has_one_winner", SIZES, cas_chain),
    Case::new("faa_sums_exactly", SIZES, faa_sums),
    Case::new("an_atomic_follows_the_write_before_it", SIZES, after_write)
        .skip(|caps| (!caps.write_then_atomic).then_some("write_then_atomic is false")),
    Case::new("atomic_with_the_cpu", SIZES, with_cpu)
        .skip(|caps| (caps.atomics == AtomicScope::Device).then_some("atomics is Device")),
];

fn cas_bits(rig: &mut Rig<'_>) -> Result<(), Failure> {
    rig.alone(rig.last(), |rig| {
        let at = word(0, 9);
        rig.write(&[ODD], at)?;
        for bit in 0..64 {
            let near = ODD ^ (1 << bit);
            same(format_args!("CAS off by bit {bit}"), rig.cas(at, near, 0)?, ODD)?;
            same(format_args!("word after CAS off by bit {bit}"), rig.read_word(at)?, ODD)?;
        }
        same("CAS of the exact value", rig.cas(at, ODD, 5)?, ODD)
    })
}

/// Lets all owners advance one word through 1, 2, 3, ...; exactly one owner wins each step.
fn cas_chain(rig: &mut Rig<'_>) -> Result<(), Failure> {
    let at = word(0, 16);
    let mut won = 0;
    let mut value = 0;
    while value < ROUNDS {
        let old = rig.cas(at, value, value + 1)?;
        if old < value {
            return Err(Failure(format!("the word went back from {value} to {old}")));
        }
        if old == value {
            won += 1;
            value += 1;
        } else {
            value = old;
        }
    }
    let wins = word(rig.last(), 24);
    rig.faa(wins, won)?;
    rig.exchange.barrier()?;
    same("steps won by all", rig.read_word(wins)?, ROUNDS)?;
    same("the chain's end", rig.read_word(at)?, ROUNDS)?;
    rig.exchange.barrier()?;
    Ok(())
}

fn faa_sums(rig: &mut Rig<'_>) -> Result<(), Failure> {
    let addend = u64::from(rig.me()) + 1;
    let mut last = None;
    let mut add = |rig: &mut Rig<'_>| {
        let old = rig.faa(word(0, 20), addend)?;
        if last.is_some_and(|last| old < last + addend) {
            return Err(Failure(format!("the sum went back from {last:?} to {old}")));
        }
        last = Some(old);
        Ok(())
    };
    for _ in 0..ROUNDS {
        add(rig)?;
    }
    in_turns(rig, &mut add)?;
    let owners = u64::from(rig.owners());
    let sum = (ROUNDS + LAPS) * owners * (owners + 1) / 2;
    same("the sum of all", rig.read_word(word(0, 20))?, sum)?;
    rig.exchange.barrier()?;
    Ok(())
}

/// Lets the owners add in turns while the others wait. An add whose load was executed too early, before
/// another owner's turn, undoes that owner's add under any scheduling of the owners.
fn in_turns(
    rig: &mut Rig<'_>,
    mut add: impl FnMut(&mut Rig<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for _ in 0..LAPS {
        for who in 0..rig.owners() {
            rig.alone(who, &mut add)?;
        }
    }
    Ok(())
}

/// Lets owner 0 send messages: a WRITE and, without waiting for its completion, an atomic that counts
/// it. A reader that sees the count must see the message.
fn after_write(rig: &mut Rig<'_>) -> Result<(), Failure> {
    let target = rig.last();
    let (message, count) = (segment(target, 8, 8), word(target, 24));
    if rig.me() == 0 {
        for sent in 1..=ROUNDS {
            rig.transport.staged(local(0, 0, 8))?.fill(sent);
            rig.transport.write(Token(1), local(0, 0, 8), message)?;
            rig.transport.fetch_add(Token(2), word(target, 15), 0)?;
            rig.transport.fetch_add(Token(3), count, 1)?;
            for _ in 0..3 {
                let completion = rig.next()?;
                let old = completion.result?;
                let expected = match completion.token {
                    Token(1) => 0,
                    Token(2) => sent,
                    _ => sent - 1,
                };
                same(format_args!("old value by token {}", completion.token.0), old, expected)?;
            }
        }
    }
    let limit = rig.limit();
    let mut counted = 0;
    while rig.me() != 0 && counted < ROUNDS {
        counted = rig.read_word(count)?;
        let min = rig.read(message, local(1, 0, 8))?.into_iter().min().unwrap_or(0);
        same(format_args!("message {counted} or a later one, not {min}"), min >= counted, true)?;
        limit.check(format_args!("{counted} messages of {ROUNDS}"))?;
    }
    rig.exchange.barrier()?;
    Ok(())
}

/// Lets the owner add with CPU instructions while the others add through the transport.
fn with_cpu(rig: &mut Rig<'_>) -> Result<(), Failure> {
    rig.transport.window()[40].store(0, Release);
    rig.exchange.barrier()?;
    let add = |rig: &mut Rig<'_>| {
        if rig.me() != 0 {
            return rig.faa(word(0, 40), 17).map(drop);
        }
        for _ in 0..16 {
            rig.transport.window()[40].fetch_add(1, AcqRel);
        }
        rig.faa(word(0, 40), 1).map(drop)
    };
    for _ in 0..ROUNDS {
        add(rig)?;
    }
    in_turns(rig, add)?;
    if rig.me() == 0 {
        let sum = rig.transport.window()[40].load(Acquire);
        same("the sum of both", sum, 17 * (ROUNDS + LAPS) * u64::from(rig.owners()))?;
    }
    rig.exchange.barrier()?;
    Ok(())
}
