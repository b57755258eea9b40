//! Cases of posting and polling: refusals, depth, and one completion for each operation.
// The casts are of indices of a few words and slots.
#![allow(clippy::cast_possible_truncation)]

use super::Case;
use super::rig::{Failure, ODD, Rig, local, same, segment, word};
use crate::{Completion, PostError, Segment, Sizes, SlotRange, Token};

const SIZES: Sizes = Sizes { window_words: 64, slots: 4, slot_words: 16, depth: 8 };

pub(super) const CASES: &[Case] = &[
    Case::new("full_exactly_at_depth", SIZES, depth),
    Case::new("bad_ranges_are_refused", SIZES, refusals),
    Case::new("tokens_come_back_as_given", SIZES, tokens),
    Case::new("small_poll_buffers", SIZES, small_buffers),
    Case::new("progress_without_kick", SIZES, no_kick),
    Case::new("a_busy_slot_is_not_shown", SIZES, busy_slot),
    Case::new("a_random_mix_ends_once_each", SIZES, random_mix),
];

fn depth(rig: &mut Rig<'_>) -> Result<(), Failure> {
    rig.alone(0, |rig| {
        let (depth, mut added) = (rig.transport.caps().depth, 0);
        for round in 0..3 {
            for posted in 0..depth {
                added += u64::from((posted + round) % 4 == 3);
                same("in flight", rig.transport.in_flight(), posted)?;
                post_kind(rig, posted + round, u64::from(posted))?;
            }
            same("in flight at depth", rig.transport.in_flight(), depth)?;
            for kind in 0..4 {
                let refused = post_kind(rig, kind, 99).err().map(|f| f.0);
                let full = Failure::from(PostError::Full).0;
                same("a post beyond depth", refused, Some(full))?;
            }
            rig.finish_all()?;
            nothing_more(rig)?;
        }
        same("the sum of accepted additions", rig.read_word(word(rig.peer(), 9))?, added)
    })
}

/// Checks that no refused operation completes or keeps a slot busy.
fn nothing_more(rig: &mut Rig<'_>) -> Result<(), Failure> {
    same("in flight", rig.transport.in_flight(), 0)?;
    let more = rig.transport.poll(&mut [Completion::default(); 4])?;
    same("completions of refused posts", more, 0)?;
    for slot in [0, 1] {
        same("a free slot", rig.transport.landed(local(slot, 0, 4)).is_ok(), true)?;
    }
    Ok(())
}

fn post_kind(rig: &mut Rig<'_>, kind: u32, token: u64) -> Result<(), Failure> {
    let peer = rig.peer();
    let token = Token(token);
    match kind % 4 {
        0 => rig.transport.read(token, segment(peer, 0, 2), local(0, 0, 2))?,
        1 => rig.transport.write(token, local(1, 0, 2), segment(peer, 4, 2))?,
        2 => rig.transport.compare_and_swap(token, word(peer, 8), 0, 0)?,
        _ => rig.transport.fetch_add(token, word(peer, 9), 1)?,
    }
    Ok(())
}

/// Ranges that no engine of this geometry may accept, each with the expected error.
fn bad_copies(rig: &Rig<'_>) -> Vec<(Segment, SlotRange, PostError)> {
    use PostError::{OutOfRange, UnknownOwner};
    let geometry = rig.transport.geometry();
    let (window, slot) = (geometry.window_words, geometry.slot_words);
    let (peer, good) = (rig.peer(), local(0, 0, 4));
    let mut bad = vec![
        (segment(geometry.owners, 0, 4), good, UnknownOwner),
        (segment(u32::MAX, 0, 4), good, UnknownOwner),
        (segment(peer, window, 4), good, OutOfRange),
        (segment(peer, window - 3, 4), good, OutOfRange),
        (segment(peer, u64::MAX - 1, 4), good, OutOfRange),
        (segment(peer, 0, 0), local(0, 0, 0), OutOfRange),
        (segment(peer, 0, 4), local(0, 0, 3), OutOfRange),
        (segment(peer, 0, 4), local(0, 0, 5), OutOfRange),
        (segment(peer, 0, 4), local(geometry.slots, 0, 4), OutOfRange),
        (segment(peer, 0, 4), local(u32::MAX, 0, 4), OutOfRange),
        (segment(peer, 0, 4), local(0, slot - 3, 4), OutOfRange),
        (segment(peer, 0, 4), local(0, u32::MAX, 4), OutOfRange),
    ];
    let long = rig.transport.caps().words_per_op.saturating_add(1);
    if u64::from(long) <= window && long <= slot {
        bad.push((segment(peer, 0, long), local(0, 0, long), OutOfRange));
    }
    bad
}

fn refusals(rig: &mut Rig<'_>) -> Result<(), Failure> {
    rig.alone(0, |rig| {
        let peer = rig.peer();
        for (remote, at, why) in bad_copies(rig) {
            let what = format!("{remote:?} and {at:?}");
            same(format_args!("READ {what}"), rig.transport.read(Token(1), remote, at), Err(why))?;
            same(
                format_args!("WRITE {what}"),
                rig.transport.write(Token(1), at, remote),
                Err(why),
            )?;
        }
        let geometry = *rig.transport.geometry();
        for (at, why) in [
            (word(geometry.owners, 0), PostError::UnknownOwner),
            (word(peer, geometry.window_words), PostError::OutOfRange),
            (word(peer, u64::MAX), PostError::OutOfRange),
        ] {
            let cas = rig.transport.compare_and_swap(Token(1), at, 0, 1);
            same(format_args!("CAS at {at:?}"), cas, Err(why))?;
            same(
                format_args!("FAA at {at:?}"),
                rig.transport.fetch_add(Token(1), at, 1),
                Err(why),
            )?;
        }
        for at in [local(0, 0, 0), local(0, geometry.slot_words, 1), local(geometry.slots, 0, 1)] {
            let error = Some(PostError::OutOfRange);
            same(format_args!("landed {at:?}"), rig.transport.landed(at).err(), error)?;
            same(format_args!("staged {at:?}"), rig.transport.staged(at).err(), error)?;
        }
        nothing_more(rig)
    })
}

fn tokens(rig: &mut Rig<'_>) -> Result<(), Failure> {
    rig.alone(0, |rig| {
        let peer = rig.peer();
        for token in [0, 1, u64::MAX, 1 << 63, 0xdead_beef] {
            rig.transport.fetch_add(Token(token), word(peer, 21), 1)?;
            let completion = rig.next()?;
            same("token", completion.token.0, token)?;
        }
        rig.transport.read(Token(5), segment(peer, 0, 1), local(0, 0, 1))?;
        rig.transport.fetch_add(Token(5), word(peer, 21), 1)?;
        same("one token used twice", [rig.next()?, rig.next()?].map(|e| e.token.0), [5, 5])
    })
}

fn small_buffers(rig: &mut Rig<'_>) -> Result<(), Failure> {
    rig.alone(0, |rig| {
        let peer = rig.peer();
        for token in 0..4 {
            rig.transport.fetch_add(Token(token), word(peer, 22), 1)?;
        }
        for _ in 0..100 {
            same("poll into nothing", rig.transport.poll(&mut [])?, 0)?;
        }
        same("in flight", rig.transport.in_flight(), 4)?;
        rig.finish_all()?;
        same("nothing more", rig.transport.poll(&mut [Completion::default(); 2])?, 0)
    })
}

/// Checks that `kick` is an optimisation: polling alone completes every operation, and so does kick with poll.
fn no_kick(rig: &mut Rig<'_>) -> Result<(), Failure> {
    rig.alone(0, |rig| {
        let peer = rig.peer();
        rig.transport.fetch_add(Token(1), word(peer, 23), 1)?;
        rig.finish(1)?;
        rig.transport.kick();
        rig.transport.fetch_add(Token(2), word(peer, 23), 1)?;
        rig.transport.kick();
        rig.transport.kick();
        rig.finish(2)?;
        same("the sum", rig.read_word(word(peer, 23))?, 2)
    })
}

fn busy_slot(rig: &mut Rig<'_>) -> Result<(), Failure> {
    rig.alone(0, |rig| {
        let peer = rig.peer();
        let busy = Some(PostError::Busy);
        rig.transport.read(Token(1), segment(peer, 0, 4), local(2, 0, 4))?;
        rig.transport.write(Token(2), local(3, 0, 4), segment(peer, 32, 4))?;
        for slot in [2, 3] {
            let elsewhere = local(slot, 8, 2);
            same("a view of a busy slot", rig.transport.landed(elsewhere).err(), busy)?;
            same("staging in a busy slot", rig.transport.staged(elsewhere).err(), busy)?;
        }
        same("another slot", rig.transport.landed(local(1, 0, 4)).err(), None)?;
        rig.next()?;
        rig.next()?;
        for slot in [2, 3] {
            same("a free slot", rig.transport.landed(local(slot, 0, 4)).err(), None)?;
            same("staging in a free slot", rig.transport.staged(local(slot, 0, 4)).err(), None)?;
        }
        Ok(())
    })
}

/// Posts seeded operations of all kinds at once to each owner in turn, on disjoint words that no other owner uses
/// meanwhile. They have the results and effects of the same operations on plain memory; and so have many at full
/// depth.
fn random_mix(rig: &mut Rig<'_>) -> Result<(), Failure> {
    for lap in 0..rig.owners() {
        mix_with(rig, (rig.me() + lap) % rig.owners())?;
    }
    Ok(())
}

fn mix_with(rig: &mut Rig<'_>, peer: u32) -> Result<(), Failure> {
    let mut memory = [0_u64; SIZES.window_words as usize];
    for (index, word_there) in (0..).zip(&mut memory) {
        *word_there = rig.read_word(word(peer, index))?;
    }
    rig.exchange.barrier()?;
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ u64::from(rig.me() << 8 | peer);
    let mut below = move |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % bound
    };
    for round in 0..400 / rig.owners() {
        let (mut used, mut posted) = (0_u64, vec![None; SIZES.slots as usize]);
        for (slot, expected) in (0..).zip(&mut posted) {
            let words = 1 + below(8);
            let start = below(SIZES.window_words + 1 - words);
            let range = ((1 << words) - 1) << start;
            if used & range != 0 {
                continue;
            }
            used |= range;
            let mine = &mut memory[start as usize..][..words as usize];
            let (token, old, words) = (Token(slot.into()), mine[0], words as u32);
            let (at, remote) = (local(slot, below(8) as u32, words), segment(peer, start, words));
            let (name, result, landed) = match below(4) {
                0 => {
                    rig.transport.read(token, remote, at)?;
                    ("READ", 0, Some((at, mine.to_vec())))
                }
                1 => {
                    mine.fill_with(|| ODD.wrapping_mul(below(3)));
                    rig.transport.staged(at)?.copy_from_slice(mine);
                    rig.transport.write(token, at, remote)?;
                    ("WRITE", 0, None)
                }
                2 => {
                    let [expected, desired] = [(); 2].map(|()| ODD.wrapping_mul(below(3)));
                    rig.transport.compare_and_swap(token, remote.start, expected, desired)?;
                    mine[0] = if old == expected { desired } else { old };
                    ("compare-and-swap", old, None)
                }
                _ => {
                    let addend = ODD.wrapping_mul(below(3)).wrapping_sub(ODD);
                    rig.transport.fetch_add(token, remote.start, addend)?;
                    mine[0] = old.wrapping_add(addend);
                    ("fetch-and-add", old, None)
                }
            };
            *expected = Some((name, result, landed));
        }
        let mut all_landed = Vec::new();
        for _ in 0..posted.iter().flatten().count() {
            let Completion { token, result } = rig.next()?;
            let expected = usize::try_from(token.0).ok().and_then(|slot| posted.get_mut(slot));
            let Some((name, old, landed)) = expected.and_then(Option::take) else {
                return Err(Failure(format!("{token:?} was not posted, or completes again")));
            };
            same(format_args!("round {round}, result of a {name}"), result?, old)?;
            all_landed.extend(landed);
        }
        for (at, words) in all_landed {
            same("words of a READ", rig.transport.landed(at)?, &words)?;
        }
    }
    // At full depth, with a new operation for each that has completed.
    let (mut posted, mut completed, depth) = (0, 0, u64::from(rig.transport.caps().depth));
    while completed < 2_000 {
        if posted < 2_000 && posted - completed < depth {
            match posted % 4 {
                0 => rig.transport.read(Token(posted), segment(peer, 8, 8), local(0, 0, 8))?,
                _ => rig.transport.fetch_add(Token(posted), word(peer, 0), 1)?,
            }
            posted += 1;
        } else {
            rig.next()?.result?;
            completed += 1;
        }
    }
    memory[0] = memory[0].wrapping_add(1_500);
    for (index, word_there) in (0..).zip(memory) {
        same(format_args!("word {index}"), rig.read_word(word(peer, index))?, word_there)?;
    }
    rig.exchange.barrier()?;
    Ok(())
}
