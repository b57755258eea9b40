//! Rings as a container: their words, and what a client knows of them.

use core::marker::PhantomData;
use core::num::NonZeroU64;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{ConfigError, Distribution, Error, Placement, Plain, next_line};
use probeline_transport::{LINE_WORDS, Owner, RemoteWord, Segment, Transport};

use super::Config;
use super::access::{Access, Action};
use crate::element::{self, Begin, Bounded, Element};

/// The rings of a [`Queue`](super::Queue) of `V`.
pub struct Ring<V>(PhantomData<V>);

/// The words of the tail and of the head, a line each.
const COUNTER_WORDS: u64 = 2 * LINE_WORDS as u64;
/// Rings whose counters a client remembers.
const VIEWS: usize = 16;

/// The sizes of rings, and what a client knows of them.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Rings {
    pub(super) capacity: u64,
    /// Slots of a ring.
    slots: NonZeroU64,
    pub(super) value_bytes: usize,
    views: [View; VIEWS],
}

/// The state that all operations of a queue share.
pub(super) type Context = element::Context<Rings>;

/// Lower bounds that a client knows of the counters of a ring.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct View {
    host: Owner,
    pub(super) tail: Option<u64>,
    pub(super) head: Option<u64>,
}

impl Context {
    /// Returns what the client knows of a ring: nothing, if it has kept the counters of another one instead.
    pub(super) fn view(&self, host: Owner) -> View {
        let view = self.detail.views[host.0 as usize % VIEWS];
        if view.host == host { view } else { View { host, ..View::default() } }
    }

    /// Stores counters of a ring that were seen.
    pub(super) fn saw(&mut self, host: Owner, (tail, head): (Option<u64>, Option<u64>)) {
        let view = self.view(host);
        let view = View { host, tail: view.tail.max(tail), head: view.head.max(head) };
        self.detail.views[host.0 as usize % VIEWS] = view;
    }

    /// Returns the slots of a ring.
    pub(super) fn slots(&self) -> u64 {
        self.detail.slots.get()
    }

    /// Returns the words of the tail and of the head.
    pub(super) fn counters(&self, host: Owner) -> [RemoteWord; 2] {
        let tail = RemoteWord { owner: host, index: self.placement.first_word() };
        [tail, RemoteWord { index: tail.index + u64::from(LINE_WORDS), ..tail }]
    }

    /// Returns the slot of a ticket.
    pub(super) fn slot(&self, host: Owner, ticket: u64) -> Segment {
        let (first, words) = (self.placement.first_word() + COUNTER_WORDS, self.placement.words());
        let index = first + ticket % self.detail.slots * u64::from(words);
        Segment { start: RemoteWord { owner: host, index }, words }
    }
}

impl<V: Plain> Element for Ring<V> {
    type Config = Config;
    type Key = Owner;
    type Home = ();
    type Action = Action<V>;
    type Machine = Access<V>;
    type Detail = Rings;
    const NAME: &'static str = "Queue";

    /// Returns the places of all slots; those that begin an owner's part are of its counters instead.
    fn context(config: &Config, owners: u32) -> Context {
        let (words, slots) = (config.slot_words::<V>(), config.slots(owners));
        let all = slots.saturating_add(COUNTER_WORDS.div_ceil(words.into()));
        let (all, first_word) = (all.saturating_mul(owners.into()), next_line(config.first_word));
        let rings = Rings {
            capacity: config.capacity,
            slots: NonZeroU64::new(slots).unwrap_or(NonZeroU64::MIN),
            value_bytes: config.bytes::<V>(),
            views: [View::default(); VIEWS],
        };
        let places = Placement::new(all, words, first_word, Distribution::Block, owners);
        Context::new(places, rings, false)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        [
            ("capacity", config.capacity, 1..=1 << 48),
            ("in_flight", config.in_flight.into(), 1..=1 << 20),
            ("bytes of a value", config.bytes::<V>() as u64, 1..=V::CAPACITY as u64),
        ]
        .into_iter()
    }

    fn check(config: &Config, _: &impl Transport, operations: usize) -> Result<(), ConfigError> {
        let most = config.in_flight.into();
        ConfigError::check_range("operations, by in_flight,", operations as u64, 1, most)
    }

    #[inline]
    fn home(host: &Owner, context: &Context) -> (u64, ()) {
        (context.placement.first_of(*host), ())
    }

    fn missing(host: &Owner, _: u64, context: &Context) -> Error {
        context.placement.missing(*host)
    }

    #[inline]
    fn machine(begin: Begin<'_, Self>, context: &Context) -> Result<Access<V>, Error> {
        Access::new(*begin.key, begin.action, context)
    }

    /// Counts the tickets that were taken and not popped.
    fn count(part: &[AtomicU64], _: &Context) -> u64 {
        let counter = |word| part.get(word as usize).map_or(0, |word| word.load(Acquire));
        counter(0).saturating_sub(counter(LINE_WORDS))
    }

    fn forget(context: &mut Context) {
        context.detail.views = [View::default(); VIEWS];
    }
}
