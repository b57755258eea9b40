//! The bits of a filter as a container: those of a key in a word, and the machine that sets them.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};

use probeline_pipeline::{Completed, Error, Machine, Next, Placement, Port, Run, Step};
use probeline_transport::line::Compare;
use probeline_transport::{Local, Owner, RemoteWord, Segment, Transport};

use super::{Config, MAX_BITS};
use crate::element::{Bounded, Context, Element};
use crate::hash::mix;

/// Compare-and-swaps of one insert.
const MAX_ATTEMPTS: u32 = 64;

/// The bits of a [`Filter`](super::Filter).
pub struct Bits;

/// Action of an operation on its key. Its result is whether the key was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Look for the key.
    Find,
    /// Insert the key.
    Insert,
}

/// Returns the bits of a key in its word. They come from another hash than the word.
#[inline(always)]
fn mask(key: u64, bits: u32) -> u64 {
    let hash = mix(key ^ 0x9e37_79b9_7f4a_7c15);
    (0..bits).fold(0, |mask, nth| mask | 1 << (hash >> (6 * nth) & 63))
}

/// An operation on the word at `at`.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Probe {
    at: RemoteWord,
    mask: u64,
    action: Action,
    /// Value of the word, as far as an insert knows.
    expected: u64,
    /// Compare-and-swaps that have failed.
    attempts: u32,
}

impl Probe {
    fn slot(port: &Port<'_, impl Transport>) -> Local {
        Local { slot: port.slot(0), start: 0, words: 1 }
    }
}

impl Machine for Probe {
    type Outcome = bool;
    const IDLE: Self = Self {
        at: RemoteWord { owner: Owner(0), index: 0 },
        mask: 0,
        action: Action::Find,
        expected: 0,
        attempts: 0,
    };
    const SLOTS: u32 = 1;
}

impl Run<Context<u32>> for Probe {
    #[inline]
    fn advance(&mut self, _: &mut Context<u32>, port: &mut Port<'_, impl Transport>) -> Next<bool> {
        match self.action {
            Action::Find => port.read(0, Segment { start: self.at, words: 1 }, Self::slot(port))?,
            // The first guess is an empty word; the answer is the true one.
            Action::Insert => {
                port.compare_and_swap(0, self.at, self.expected, self.expected | self.mask)?;
            }
        }
        Ok(Step::Wait)
    }

    #[inline]
    fn on_completion(
        &mut self,
        Completed { word, .. }: Completed,
        context: &mut Context<u32>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<bool> {
        if self.action == Action::Find {
            let word = port.landed(Self::slot(port))?.first().copied().unwrap_or_default();
            return Ok(Step::Done(word & self.mask == self.mask));
        }
        if word & self.mask == self.mask {
            return Ok(Step::Done(true));
        }
        if word == self.expected {
            return Ok(Step::Done(false));
        }
        #[cfg(test)]
        if super::model::TRUSTS_STALE_WORDS.get() {
            return Ok(Step::Done(false));
        }
        self.attempts += 1;
        if self.attempts == MAX_ATTEMPTS {
            return Err(Error::Contended { attempts: MAX_ATTEMPTS }.into());
        }
        self.expected = word;
        self.advance(context, port)
    }
}

impl Element for Bits {
    type Config = Config;
    type Key = u64;
    type Home = u64;
    type Action = Action;
    type Machine = Probe;
    type Detail = u32;
    const NAME: &'static str = "Filter";

    fn placement(config: &Config, owners: u32) -> Placement {
        config.placement(owners)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        [("bits of a key", config.bits.into(), 1..=MAX_BITS.into())].into_iter()
    }

    fn detail(config: &Config) -> u32 {
        config.bits
    }

    fn allows_direct(config: &Config) -> bool {
        config.direct
    }

    /// Returns the hash of the key as a fraction of the words.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    fn home(key: &u64, context: &Context<u32>) -> u64 {
        ((u128::from(mix(*key)) * u128::from(context.placement.len())) >> 64) as u64
    }

    #[inline(always)]
    fn index(home: &u64) -> u64 {
        *home
    }

    #[inline(always)]
    fn machine(
        at: Segment,
        (key, _): (&u64, u64),
        action: Action,
        context: &Context<u32>,
    ) -> Result<Probe, Error> {
        Ok(Probe { at: at.start, mask: mask(*key, context.detail), action, ..Probe::IDLE })
    }

    #[inline(always)]
    fn run<'t, C: Compare>(
        element: &'t [AtomicU64],
        _: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        (key, _): (&u64, u64),
        action: &Action,
        context: &Context<u32>,
    ) -> Result<bool, Error> {
        let (word, mask) = (element.first().ok_or(Error::Window)?, mask(*key, context.detail));
        if word.load(Acquire) & mask == mask || *action == Action::Find {
            return Ok(word.load(Acquire) & mask == mask);
        }
        Ok(word.fetch_or(mask, SeqCst) & mask == mask)
    }

    /// Returns the number of bits that are set.
    fn count(part: &[AtomicU64], _: &Context<u32>) -> u64 {
        part.iter().map(|word| u64::from(word.load(Acquire).count_ones())).sum()
    }
}
