//! Rings as a kind of structure: their words, and what a client knows of them.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use probeline_pipeline::{ConfigError, Divisor, Error, Kind, Open, Parameter, Plain, words};
use probeline_transport::{LINE_WORDS, Owner, PostError, RemoteWord, Segment, Transport};

use super::Config;
use super::access::{Access, Action};

/// The kind of a [`Queue`](super::Queue) of `V`.
pub struct Ring<V>(PhantomData<V>);

/// Rings whose counters a client remembers.
const VIEWS: usize = 16;

/// The state that all operations of a queue share.
#[derive(Clone, Debug, Hash)]
pub struct Context {
    pub(super) capacity: u64,
    /// Slots of a ring.
    slots: Divisor,
    pub(super) slot_words: u32,
    pub(super) value_bytes: usize,
    tail_word: u64,
    owners: u32,
    me: Owner,
    views: [View; VIEWS],
}

/// Lower bounds that a client knows of the counters of a ring.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct View {
    host: Owner,
    tail: Option<u64>,
    head: Option<u64>,
}

impl Context {
    fn view(&self, host: Owner) -> View {
        let view = self.views.get(host.0 as usize % VIEWS).copied().unwrap_or_default();
        if view.host == host { view } else { View { host, ..View::default() } }
    }

    fn view_mut(&mut self, host: Owner) -> Option<&mut View> {
        let view = self.views.get_mut(host.0 as usize % VIEWS)?;
        if view.host != host {
            *view = View { host, ..View::default() };
        }
        Some(view)
    }

    /// Returns the largest tail that was seen.
    pub(super) fn tail(&self, host: Owner) -> Option<u64> {
        self.view(host).tail
    }

    /// Returns the largest head that was seen.
    pub(super) fn head(&self, host: Owner) -> Option<u64> {
        self.view(host).head
    }

    pub(super) fn saw_tail(&mut self, host: Owner, tail: u64) {
        if let Some(view) = self.view_mut(host) {
            view.tail = view.tail.max(Some(tail));
        }
    }

    pub(super) fn saw_head(&mut self, host: Owner, head: u64) {
        if let Some(view) = self.view_mut(host) {
            view.head = view.head.max(Some(head));
        }
    }

    /// Returns the slots of a ring.
    pub(super) fn slots(&self) -> u64 {
        self.slots.by
    }

    /// Returns the words of the tail and of the head.
    pub(super) fn counters(&self, host: Owner) -> [RemoteWord; 2] {
        let tail = RemoteWord { owner: host, index: self.tail_word };
        [tail, RemoteWord { index: self.tail_word + u64::from(LINE_WORDS), ..tail }]
    }

    /// Returns the slot of a ticket.
    pub(super) fn slot(&self, host: Owner, ticket: u64) -> Segment {
        let first = self.tail_word + 2 * u64::from(LINE_WORDS);
        let index = first + self.slots.divide(ticket).1 * u64::from(self.slot_words);
        Segment { start: RemoteWord { owner: host, index }, words: self.slot_words }
    }
}

impl<V: Plain> Kind for Ring<V> {
    type Config = Config;
    type Context = Context;
    type Key = Owner;
    type Action = Action<V>;
    type Machine = Access<V>;
    type Stats = ();
    const NAME: &'static str = "Queue";

    fn parameters(config: &Config, context: &Context) -> impl Iterator<Item = Parameter> + Clone {
        [
            ("capacity", config.capacity),
            ("in_flight", config.in_flight.into()),
            ("first_word", config.first_word),
            ("bytes of a value", context.value_bytes as u64),
        ]
        .into_iter()
    }

    #[inline]
    fn machine(host: &Owner, action: Action<V>, context: &Context) -> Result<Access<V>, Error> {
        if host.0 >= context.owners {
            return Err(PostError::UnknownOwner.into());
        }
        Ok(Access::new(*host, action))
    }

    fn stats(_: &Context) -> &() {
        &()
    }

    fn reset_stats(_: &mut Context) {}

    fn forget(_: &Config, context: &mut Context) {
        context.views = [View::default(); VIEWS];
    }

    /// Counts the tickets that were taken and not popped.
    fn count(_: &Config, context: &Context, window: &[AtomicU64]) -> Result<u64, Error> {
        let [tail, head] = context.counters(context.me).map(|at| {
            let word = words(window, at.index, 1)?.first();
            Ok::<u64, Error>(word.map_or(0, |word| word.load(Acquire)))
        });
        Ok(tail?.saturating_sub(head?))
    }

    fn empty(_: &Config, context: &Context, window: &[AtomicU64]) -> Result<(), Error> {
        let slots = context.slots() * u64::from(context.slot_words);
        let ring = words(window, context.tail_word, 2 * u64::from(LINE_WORDS) + slots)?;
        ring.iter().for_each(|word| word.store(0, Relaxed));
        Ok(())
    }
}

impl<V: Plain> Open for Ring<V> {
    fn check(
        config: &Config,
        transport: &impl Transport,
        operations: usize,
    ) -> Result<(), ConfigError> {
        let (geometry, caps) = (transport.geometry(), transport.caps());
        let bytes = config.bytes::<V>();
        let ranges = [
            ("capacity", config.capacity, 1, 1 << 48),
            ("the bytes of a value", bytes as u64, 1, V::CAPACITY as u64),
            ("in_flight", config.in_flight.into(), 1, 1 << 20),
        ];
        for (what, found, min, max) in ranges {
            ConfigError::check_range(what, found, min, max)?;
        }
        let most = config.in_flight.into();
        ConfigError::check_range("operations, by in_flight,", operations as u64, 1, most)?;
        let needed = config.end_word::<V>(geometry.owners);
        if needed > geometry.window_words {
            return Err(ConfigError::Window { needed, found: geometry.window_words });
        }
        let (needed, found) =
            (config.slot_words::<V>(), geometry.slot_words.min(caps.words_per_op));
        if needed > found {
            return Err(ConfigError::Slot { needed: needed.into(), found: found.into() });
        }
        Ok(())
    }

    fn context(config: &Config, transport: &impl Transport) -> Context {
        let geometry = transport.geometry();
        Context {
            capacity: config.capacity,
            slots: Divisor::new(config.slots(geometry.owners)),
            slot_words: config.slot_words::<V>(),
            value_bytes: config.bytes::<V>(),
            tail_word: config.tail_word(),
            owners: geometry.owners,
            me: geometry.me,
            views: [View::default(); VIEWS],
        }
    }
}
