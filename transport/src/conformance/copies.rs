//! Cases of READ and WRITE: the words they copy, and when other owners see them.

use core::sync::atomic::Ordering::{Acquire, Release};
use core::time::Duration;
use std::time::Instant;

use super::Case;
use super::rig::{Failure, Rig, local, same, segment, word};
use crate::{LINE_BYTES, LINE_WORDS, Segment, Sizes, Token};

const SIZES: Sizes = Sizes { window_words: 96, slots: 4, slot_words: 64, depth: 16 };
/// One word, two words, a line, more than a line, and a whole slot.
const LENGTHS: [u32; 5] = [1, 2, 8, 13, 64];

pub(super) const CASES: &[Case] = &[
    Case::new("windows_start_at_zero", SIZES, start_at_zero),
    Case::new("geometry_is_the_exchange's", SIZES, geometry),
    Case::new("read_at_every_offset", SIZES, read_offsets),
    Case::new("write_at_every_offset", SIZES, write_offsets),
    Case::new("straddle_lands_in_one_slot", SIZES, straddle),
    Case::new("completed_write_is_seen", SIZES, write_is_seen),
    Case::new("of_two_writers_one_sees_the_other", SIZES, cross).min_owners(2),
    Case::new("barrier_publishes_stores", SIZES, publishes),
    Case::new("direct_is_the_same_memory", SIZES, direct),
    Case::new("words_are_whole_under_a_writer", SIZES, whole_words)
        .min_owners(2)
        .skip(|caps| (!caps.word_reads_whole).then_some("word_reads_whole is false")),
];

/// Returns a value whose eight bytes differ from each other and from those of its neighbours.
fn pattern(owner: u32, index: u64) -> u64 {
    (u64::from(owner) << 32 | index).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn fill_window(rig: &Rig<'_>) {
    for (index, word) in rig.transport.window().iter().enumerate() {
        word.store(pattern(rig.me(), index as u64), Release);
    }
}

fn start_at_zero(rig: &mut Rig<'_>) -> Result<(), Failure> {
    for (index, word) in rig.transport.window().iter().enumerate() {
        same(format_args!("word {index} of the own window"), word.load(Acquire), 0)?;
    }
    for owner in 0..rig.owners() {
        let words = rig.read(segment(owner, 0, 64), local(0, 0, 64))?;
        same(format_args!("window of owner {owner}"), words, vec![0; 64])?;
    }
    rig.exchange.barrier()?;
    Ok(())
}

fn geometry(rig: &mut Rig<'_>) -> Result<(), Failure> {
    let geometry = *rig.transport.geometry();
    same("me", geometry.me, rig.exchange.me())?;
    same("owners", geometry.owners, rig.exchange.owners())?;
    same("window", rig.transport.window().len() as u64, geometry.window_words)?;
    for slot in 0..geometry.slots {
        let landed = rig.transport.landed(local(slot, 0, LINE_WORDS))?.as_ptr().addr();
        let staged = rig.transport.staged(local(slot, 0, LINE_WORDS))?.as_ptr().addr();
        let aligned = [landed, staged].map(|address| address.is_multiple_of(LINE_BYTES));
        let what = format_args!("slot {slot} starts at a multiple of 64 bytes, landed and staged");
        same(what, aligned, [true; 2])?;
    }
    rig.exchange.barrier()?;
    Ok(())
}

fn read_offsets(rig: &mut Rig<'_>) -> Result<(), Failure> {
    fill_window(rig);
    rig.exchange.barrier()?;
    for owner in 0..rig.owners() {
        for words in LENGTHS {
            for index in 0..=SIZES.window_words - u64::from(words) {
                // The landing offset varies with the window offset, if the slot has room.
                let start = u32::try_from(index).unwrap_or(0) % (65 - words);
                let found = rig.read(segment(owner, index, words), local(1, start, words))?;
                let expected: Vec<u64> =
                    (index..index + u64::from(words)).map(|i| pattern(owner, i)).collect();
                same(format_args!("{words} words at {index} of owner {owner}"), found, expected)?;
            }
        }
    }
    rig.exchange.barrier()?;
    Ok(())
}

fn write_offsets(rig: &mut Rig<'_>) -> Result<(), Failure> {
    for writer in 0..rig.owners() {
        rig.alone(writer, |rig| {
            let target = (writer + 1) % rig.owners();
            for words in LENGTHS {
                for index in 0..=SIZES.window_words - u64::from(words) {
                    write_one(rig, target, index, words)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Writes a range between zeros and reads it back with its neighbours.
fn write_one(rig: &mut Rig<'_>, owner: u32, index: u64, words: u32) -> Result<(), Failure> {
    let values: Vec<u64> = (0..u64::from(words)).map(|i| pattern(words, index + i)).collect();
    rig.write(&values, word(owner, index))?;
    for at in index.saturating_sub(1)..(index + u64::from(words) + 1).min(SIZES.window_words) {
        let inside = at.checked_sub(index).and_then(|i| values.get(usize::try_from(i).ok()?));
        let expected = inside.copied().unwrap_or(0);
        let found = rig.read_word(word(owner, at))?;
        same(format_args!("word {at} after {words} words at {index}"), found, expected)?;
    }
    rig.write(&vec![0; values.len()], word(owner, index))
}

fn straddle(rig: &mut Rig<'_>) -> Result<(), Failure> {
    fill_window(rig);
    rig.exchange.barrier()?;
    let next = (rig.me() + 1) % rig.owners();
    let last = SIZES.window_words - 3;
    rig.transport.read(Token(7), segment(rig.me(), last, 3), local(2, 8, 3))?;
    rig.transport.read(Token(8), segment(next, 0, 5), local(2, 11, 5))?;
    let tokens = [rig.next()?, rig.next()?].map(|completion| completion.token.0);
    same("both tokens", tokens.contains(&7) && tokens.contains(&8), true)?;
    let mine = (last..SIZES.window_words).map(|i| pattern(rig.me(), i));
    let expected: Vec<u64> = mine.chain((0..5).map(|i| pattern(next, i))).collect();
    same("the chunk", rig.transport.landed(local(2, 8, 8))?.to_vec(), expected)?;
    rig.exchange.barrier()?;
    Ok(())
}

fn write_is_seen(rig: &mut Rig<'_>) -> Result<(), Failure> {
    for writer in 0..rig.owners() {
        let target = (writer + 1) % rig.owners();
        let value = pattern(writer, 5);
        if rig.me() == writer {
            rig.write(&[value], word(target, 5))?;
        }
        rig.exchange.barrier()?;
        same("a WRITE read by a peer", rig.read_word(word(target, 5))?, value)?;
        if rig.me() == target {
            same("a WRITE seen by its owner", rig.transport.window()[5].load(Acquire), value)?;
        }
        rig.exchange.barrier()?;
    }
    Ok(())
}

/// Owners 0 and 1 each write to the other's window and, after the completion, read their own. At
/// least one of them must see the other's WRITE, although CPUs have store buffers.
fn cross(rig: &mut Rig<'_>) -> Result<(), Failure> {
    const ROUNDS: usize = 500;
    let me = rig.me();
    let mut seen = vec![0; ROUNDS];
    for (round, seen) in (1..).zip(&mut seen).take_while(|_| me < 2) {
        rig.faa(word(0, 64), 1)?;
        // Both write as nearly at the same time as possible.
        let limit = rig.limit();
        while rig.read_word(word(0, 64))? < 2 * round {
            limit.check(format_args!("the other owner did not start round {round}"))?;
        }
        rig.write(&[round], word(1 - me, 72))?;
        *seen = u8::from(rig.read_word(word(me, 72))? >= round);
    }
    let mut all = vec![0; seen.len() * rig.owners() as usize];
    rig.exchange.all_gather(&seen, &mut all)?;
    let missed = (0..ROUNDS).filter(|round| all[*round] == 0 && all[ROUNDS + round] == 0).count();
    same("rounds in which neither saw the other's completed WRITE", missed, 0)
}

fn publishes(rig: &mut Rig<'_>) -> Result<(), Failure> {
    for round in 1..=8 {
        for word in rig.transport.window() {
            word.store(pattern(rig.me(), round), Release);
        }
        rig.exchange.barrier()?;
        for owner in 0..rig.owners() {
            let words = rig.read(segment(owner, 32, 64), local(3, 0, 64))?;
            let expected = vec![pattern(owner, round); 64];
            same(format_args!("round {round}, owner {owner}"), words, expected)?;
        }
        rig.exchange.barrier()?;
    }
    Ok(())
}

fn direct(rig: &mut Rig<'_>) -> Result<(), Failure> {
    fill_window(rig);
    rig.exchange.barrier()?;
    for owner in 0..rig.owners() {
        let at = segment(owner, 40, 8);
        let Some(words) = rig.transport.direct(at) else { continue };
        let seen: Vec<u64> = words.iter().map(|w| w.load(Acquire)).collect();
        let expected: Vec<u64> = (40..48).map(|i| pattern(owner, i)).collect();
        same(format_args!("direct words of owner {owner}"), seen, expected)?;
    }
    let outside = Segment { words: 2, ..segment(rig.me(), SIZES.window_words - 1, 2) };
    if rig.transport.geometry().window_words == SIZES.window_words {
        same("direct beyond the window", rig.transport.direct(outside).is_none(), true)?;
    }
    let unknown = segment(rig.owners(), 0, 1);
    same("direct of an unknown owner", rig.transport.direct(unknown).is_none(), true)?;
    rig.exchange.barrier()?;
    Ok(())
}

/// Lets owner 0 flip a word between two values that differ in every byte while the others read it.
fn whole_words(rig: &mut Rig<'_>) -> Result<(), Failure> {
    const VALUES: [u64; 2] = [0x1122_3344_5566_7788, !0x1122_3344_5566_7788];
    /// Bounds on the rounds and on the time, for slow and for fast transports.
    const MIN_ROUNDS: usize = 100;
    const MAX_ROUNDS: usize = 20_000;
    const LOOK: Duration = Duration::from_millis(500);
    rig.alone(0, |rig| rig.write(&[VALUES[0]], word(0, 3)))?;
    let start = Instant::now();
    let mut round = 0;
    while round < MIN_ROUNDS || round < MAX_ROUNDS && start.elapsed() < LOOK {
        if rig.me() == 0 {
            rig.write(&[VALUES[(round + 1) % 2]], word(0, 3))?;
        } else {
            let found = rig.read_word(word(0, 3))?;
            same("a whole word", VALUES.contains(&found).then_some(found), Some(found))?;
        }
        round += 1;
    }
    rig.exchange.barrier()?;
    Ok(())
}
