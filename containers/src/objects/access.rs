//! The machine of a put or a get.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{
    Bytes, Completed, Distribution, Error, Machine, Next, Placement, Plain, Port, Run, Step,
    fill_words, next_line,
};
use probeline_transport::{
    LINE_WORDS, Owner, RemoteWord, Segment, SlotRange, Transport, WORD_BYTES,
};

use super::Config;
use crate::element::{Begin, Bounded, Context, Direct, Element, bits};
use crate::hash;
use crate::pointer::{MAX_INDEX, Pointer};

/// Bits of the length in a header, below the check.
const LENGTH_BITS: u32 = 16;

/// The parts of the owners of [`Objects`](super::Objects).
pub struct Heap<const N: usize>;

/// Action of an operation in the part of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action<const N: usize> {
    /// Store an object.
    Put(Bytes<N>),
    /// Read the object that a pointer refers to.
    Get(Pointer<[u8]>),
}

impl<const N: usize> Action<N> {
    /// Returns the put of an object.
    ///
    /// # Errors
    /// [`Error::Value`] for more than `N` bytes.
    pub fn put(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self::Put(Bytes::new(bytes).ok_or_else(|| too_long::<N>(bytes))?))
    }
}

/// Returns the error of an object of more than `N` bytes.
pub(super) fn too_long<const N: usize>(bytes: &[u8]) -> Error {
    Error::Value { bits: bits(bytes.len()), max: bits(N) }
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<const N: usize> {
    /// The object was stored.
    Put(Pointer<[u8]>),
    /// The part had no room for the object.
    Full,
    /// The bytes of the object.
    Got(Bytes<N>),
    /// The pointer refers to no object.
    Missing,
}

impl<const N: usize> Outcome<N> {
    /// Returns the pointer to the object of a put.
    #[must_use]
    pub fn pointer(self) -> Option<Pointer<[u8]>> {
        if let Self::Put(pointer) = self { Some(pointer) } else { None }
    }

    /// Returns the bytes of the object of a get.
    #[must_use]
    pub fn bytes(self) -> Option<Bytes<N>> {
        if let Self::Got(bytes) = self { Some(bytes) } else { None }
    }
}

/// Returns the words of an object of this many bytes, its header included.
pub(super) fn object_words(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(WORD_BYTES) + 1).unwrap_or(u32::MAX)
}

/// An operation in the part at `part`.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Access<const N: usize> {
    part: Segment,
    action: Action<N>,
    /// The words of the object, if they are known.
    at: Option<Segment>,
}

impl<const N: usize> Machine for Access<N> {
    type Outcome = Outcome<N>;
    const IDLE: Self = Self {
        part: Segment { start: RemoteWord { owner: Owner(0), index: 0 }, words: 0 },
        action: Action::Get(Pointer::from_word(0)),
        at: None,
    };
    const SLOTS: u32 = 1;
}

/// Returns the place of an object of `words` words after `used` words of a part, or `None` if it has no room.
fn place(part: Segment, used: u64, words: u32) -> Option<Segment> {
    let first = used.checked_add(LINE_WORDS.into())?;
    let is_inside = first.checked_add(words.into())? <= part.words.into();
    let RemoteWord { owner, index } = part.start;
    is_inside.then_some(Segment { start: RemoteWord { owner, index: index + first }, words })
}

/// Returns the place of the object of at most `N` bytes to which a pointer points, or `None` if none can be there.
fn pointed<const N: usize>(part: Segment, pointer: Pointer<[u8]>) -> Option<Segment> {
    let at = pointer.segment();
    let used = at.start.index.checked_sub(part.start.index + u64::from(LINE_WORDS))?;
    let is_sized = (1..=object_words(N)).contains(&at.words);
    place(part, used, at.words).filter(|place| is_sized && *place == at)
}

/// Returns the header of an object: a check of its place, length and words, and the length.
fn header(at: Segment, len: u64, words: impl Iterator<Item = u64>) -> u64 {
    let RemoteWord { owner, index } = at.start;
    let place = hash::hash_words(len << 32 | u64::from(owner.0), core::iter::once(index));
    hash::check(place, words) << LENGTH_BITS | len
}

/// Returns the outcome of a get that found these words.
fn check<const N: usize>(at: Segment, mut words: impl Iterator<Item = u64> + Clone) -> Outcome<N> {
    let found = words.next().unwrap_or(0);
    let len = found & ((1 << LENGTH_BITS) - 1);
    let bytes = usize::try_from(len).unwrap_or(usize::MAX);
    let is_valid = bytes <= N && object_words(bytes) == at.words;
    let is_object = is_valid && found == header(at, len, words.clone());
    if is_object { Outcome::Got(Bytes::from_words(&mut words, bytes)) } else { Outcome::Missing }
}

impl<const N: usize> Run<Context<()>> for Access<N> {
    fn advance(
        &mut self,
        _: &mut Context<()>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome<N>> {
        let words = self.at.map_or(0, |at| at.words);
        let local = SlotRange { slot: port.slot(0), start: 0, words };
        match (self.action, self.at) {
            (Action::Put(bytes), None) => {
                port.fetch_add(0, self.part.start, object_words(bytes.bytes().len()).into())?;
            }
            (Action::Put(bytes), Some(at)) => {
                port.reserve(1)?;
                let bytes = bytes.bytes();
                if let Some((first, rest)) = port.staged(local)?.split_first_mut() {
                    fill_words(bytes, rest);
                    *first = header(at, bytes.len() as u64, rest.iter().copied());
                }
                port.write(0, local, at)?;
            }
            (Action::Get(_), Some(at)) => port.read(0, at, local)?,
            (Action::Get(_), None) => return Ok(Step::Done(Outcome::Missing)),
        }
        Ok(Step::Wait)
    }

    fn on_completion(
        &mut self,
        Completed { word, .. }: Completed,
        context: &mut Context<()>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome<N>> {
        let outcome = match (self.action, self.at) {
            (Action::Put(bytes), None) => {
                self.at = place(self.part, word, object_words(bytes.bytes().len()));
                if self.at.is_some() {
                    return self.advance(context, port);
                }
                Outcome::Full
            }
            (Action::Put(_), Some(at)) => Pointer::new(at).map_or(Outcome::Full, Outcome::Put),
            (Action::Get(_), Some(at)) => {
                let slot = SlotRange { slot: port.slot(0), start: 0, words: at.words };
                check(at, port.landed(slot)?.iter().copied())
            }
            (Action::Get(_), None) => Outcome::Missing,
        };
        Ok(Step::Done(outcome))
    }
}

impl<const N: usize> Direct<()> for Access<N> {}

impl<const N: usize> Element for Heap<N> {
    type Config = Config;
    type Key = Owner;
    type Home = ();
    type Action = Action<N>;
    type Machine = Access<N>;
    type Detail = ();
    const NAME: &'static str = "Objects";

    /// Returns the places of the owners' parts: the counter on a line, and the words behind it.
    fn context(config: &Config, owners: u32) -> Context<()> {
        let (part, first_word) =
            (config.words.saturating_add(LINE_WORDS), next_line(config.first_word));
        let places = Placement::new(owners.into(), part, first_word, Distribution::Block, owners);
        Context::new(places, (), false)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        let end = Self::context(config, 1).placement.sizes(0, 0).window_words;
        [
            ("bytes of the longest object", N as u64, 1..=super::MAX_BYTES as u64),
            ("the last word of a part", end, 0..=MAX_INDEX),
        ]
        .into_iter()
    }

    fn slot_words(_: &Context<()>) -> u32 {
        object_words(N)
    }

    fn home(host: &Owner, _: &Context<()>) -> (u64, ()) {
        (host.0.into(), ())
    }

    fn missing(host: &Owner, _: u64, context: &Context<()>) -> Error {
        context.placement.missing(*host)
    }

    fn machine(begin: Begin<'_, Self>, _: &Context<()>) -> Result<Access<N>, Error> {
        let Begin { at: part, action, .. } = begin;
        let at = match action {
            Action::Put(_) => None,
            Action::Get(pointer) => pointed::<N>(part, pointer),
        };
        Ok(Access { part, action, at })
    }

    /// Returns the words in use.
    fn count(part: &[AtomicU64], _: &Context<()>) -> u64 {
        part.first().map_or(0, |word| word.load(Acquire))
    }
}
