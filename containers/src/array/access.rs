//! The elements of an array as a container, and the machine of an operation on one.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};

use probeline_pipeline::{
    Completed, Distribution, Error, Machine, Next, Placement, Plain, Port, Run, Step, fill_words,
};
use probeline_transport::line::Compare;
use probeline_transport::{
    Owner, RemoteWord, Segment, SlotRange, Transport, WORD_BYTES, load_bytes, store_bytes,
};

use super::Config;
use super::word::Order;
use crate::element::{Begin, Bounded, Context, Direct, Element, MAX_ATTEMPTS, check_value};

/// Action of an operation on an element. Its result is the element before it; that of a put, which
/// does not look, is the value that it stored. All but the first two are for elements of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action<V> {
    /// Read the element.
    Get,
    /// Store the value.
    Put(V),
    /// Add to the word, modulo 2^64.
    Add(u64),
    /// Store `new` if the word is `expected`.
    CompareAndSwap {
        /// The word to replace.
        expected: u64,
        /// The word to store.
        new: u64,
    },
    /// Store the word if the element's is larger in this order.
    Min(u64, Order),
    /// Store the word if the element's is smaller in this order.
    Max(u64, Order),
}

impl<V> Action<V> {
    /// Returns the word that a minimum or maximum stores over `word`, if it does.
    #[inline(always)]
    pub(crate) fn over(&self, word: u64) -> Option<u64> {
        match *self {
            Self::Min(value, order) if order.rank(value) < order.rank(word) => Some(value),
            Self::Max(value, order) if order.rank(value) > order.rank(word) => Some(value),
            _ => None,
        }
    }
}

/// An operation on the element at `at`.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Access<V> {
    at: Segment,
    action: Action<V>,
    /// Value of the element's word, as far as a minimum or maximum knows.
    expected: u64,
    /// Compare-and-swaps that have failed.
    attempts: u32,
}

impl<V: Plain> Access<V> {
    fn slot(&self, port: &Port<'_, impl Transport>) -> SlotRange {
        SlotRange { slot: port.slot(0), start: 0, words: self.at.words }
    }

    fn put(&self, value: V, port: &mut Port<'_, impl Transport>) -> Next<V> {
        port.reserve(1)?;
        let from = self.slot(port);
        fill_words(value.bytes(), port.staged(from)?);
        port.write(0, from, self.at)?;
        Ok(Step::Wait)
    }
}

impl<V: Plain> Machine for Access<V> {
    type Outcome = V;
    const IDLE: Self = Self {
        at: Segment { start: RemoteWord { owner: Owner(0), index: 0 }, words: 1 },
        action: Action::Get,
        expected: 0,
        attempts: 0,
    };
    const SLOTS: u32 = 1;
}

impl<V: Plain> Run<Context<usize>> for Access<V> {
    #[inline]
    fn advance(&mut self, _: &mut Context<usize>, port: &mut Port<'_, impl Transport>) -> Next<V> {
        let word = self.at.start;
        match self.action {
            Action::Get => port.read(0, self.at, self.slot(port))?,
            Action::Put(value) => return self.put(value, port),
            Action::Add(addend) => port.fetch_add(0, word, addend)?,
            Action::CompareAndSwap { expected, new } => {
                port.compare_and_swap(0, word, expected, new)?;
            }
            // The first guess is the word of a new array. If the action would not change that, it
            // still has to read the word.
            Action::Min(..) | Action::Max(..) => {
                let new = self.action.over(self.expected).unwrap_or(self.expected);
                port.compare_and_swap(0, word, self.expected, new)?;
            }
        }
        Ok(Step::Wait)
    }

    #[inline]
    fn on_completion(
        &mut self,
        Completed { word, .. }: Completed,
        context: &mut Context<usize>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<V> {
        let old = || V::from_words(&mut core::iter::once(word), context.detail);
        match self.action {
            Action::Get => {
                let words = port.landed(self.slot(port))?;
                Ok(Step::Done(V::from_words(&mut words.iter().copied(), context.detail)))
            }
            Action::Put(value) => Ok(Step::Done(value)),
            Action::Add(_) | Action::CompareAndSwap { .. } => Ok(Step::Done(old())),
            Action::Min(..) | Action::Max(..) => {
                if word == self.expected || self.action.over(word).is_none() {
                    return Ok(Step::Done(old()));
                }
                self.attempts += 1;
                if self.attempts == MAX_ATTEMPTS {
                    return Err(Error::Contended { attempts: MAX_ATTEMPTS }.into());
                }
                self.expected = word;
                self.advance(context, port)
            }
        }
    }
}

impl<V: Plain> Direct<usize> for Access<V> {
    #[inline(always)]
    fn run<'t, C: Compare>(
        &self,
        element: &'t [AtomicU64],
        _: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        context: &Context<usize>,
    ) -> Result<V, Error> {
        let old = match (self.action, element) {
            (Action::Put(value), _) => {
                store_bytes(value.bytes(), element);
                return Ok(value);
            }
            (Action::Get, [word]) => word.load(Acquire),
            (Action::Add(addend), [word]) => word.fetch_add(addend, SeqCst),
            (Action::CompareAndSwap { expected, new }, [word]) => {
                word.compare_exchange(expected, new, SeqCst, SeqCst).unwrap_or_else(|found| found)
            }
            (Action::Min(..) | Action::Max(..), [word]) => replace(word, &self.action)?,
            // A get of several words: atomics are of one word.
            _ => {
                let mut value = V::zeroed(context.detail);
                load_bytes(element, value.bytes_mut());
                return Ok(value);
            }
        };
        Ok(V::from_words(&mut core::iter::once(old), context.detail))
    }
}

/// Replaces a word by that of a minimum or maximum, and returns the word before.
fn replace<V>(word: &AtomicU64, action: &Action<V>) -> Result<u64, Error> {
    let mut found = word.load(Acquire);
    for _ in 0..MAX_ATTEMPTS {
        let Some(new) = action.over(found) else { return Ok(found) };
        match word.compare_exchange(found, new, SeqCst, SeqCst) {
            Ok(old) => return Ok(old),
            Err(other) => found = other,
        }
    }
    Err(Error::Contended { attempts: MAX_ATTEMPTS })
}

/// The elements of an [`Array`](super::Array) of `V`.
pub struct Elements<V>(PhantomData<V>);

impl<V: Plain> Element for Elements<V> {
    type Config = Config;
    type Key = u64;
    type Home = ();
    type Action = Action<V>;
    type Machine = Access<V>;
    type Detail = usize;
    const NAME: &'static str = "Array";
    const DISTRIBUTION: Option<Distribution> = None;

    fn context(config: &Config, owners: u32) -> Context<usize> {
        let &Config { len, distribution, first_word, direct, .. } = config;
        let bytes = config.bytes::<V>();
        let words = u32::try_from(bytes.div_ceil(WORD_BYTES).max(1)).unwrap_or(u32::MAX);
        Context::new(Placement::new(len, words, first_word, distribution, owners), bytes, direct)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        [("bytes of an element", config.bytes::<V>() as u64, 1..=V::CAPACITY as u64)].into_iter()
    }

    #[inline(always)]
    fn home(index: &u64, _: &Context<usize>) -> (u64, ()) {
        (*index, ())
    }

    #[inline(always)]
    fn machine(begin: Begin<'_, Self>, context: &Context<usize>) -> Result<Access<V>, Error> {
        let Begin { at, action, .. } = begin;
        if let Action::Put(value) = &action {
            check_value(value, context.detail)?;
        }
        // Atomics act on elements of one word.
        if at.words == 1 || matches!(action, Action::Get | Action::Put(_)) {
            return Ok(Access { at, action, ..Access::IDLE });
        }
        Err(Error::Key { bits: at.words.saturating_mul(u64::BITS), max: u64::BITS })
    }

    fn count(_: &[AtomicU64], context: &Context<usize>) -> u64 {
        context.placement.count(context.me)
    }
}
