//! The [`Kind`] of a map, and the fingerprint by which owners notice that another one runs a build
//! with another layout.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use probeline_pipeline::{
    Collective, CollectiveError, ConfigError, Error, FINGERPRINT, Kind, Open, Parameter, Started,
    words,
};
use probeline_transport::{Exchange, Fingerprint, Transport};

use crate::config::Config;
use crate::context::Context;
use crate::control::{CHECK_BITS, Control, State};
use crate::direct::{self, EngineWords};
use crate::layout::{MAX_CANDIDATES, Place, check, hash, store_entry};
use crate::machine::Access;
use crate::mode::{Mode, written_by};
use crate::outcome::Request;
use crate::stats::Stats;
use probeline_pipeline::Plain;

const MODE: &str = "mode (0 for claims, 1 part locks, 2 bucket locks, 3 unlocked)";

/// Values `V` by keys `K`, in buckets.
pub struct Entries<K, V>(PhantomData<(K, V)>);

impl<K: Plain, V: Plain> Kind for Entries<K, V> {
    type Config = Config;
    type Context = Context;
    type Key = K;
    type Action = Request<V>;
    type Machine = Access<K, V>;
    type Stats = Stats;

    const NAME: &'static str = "Map";

    fn parameters(config: &Config, context: &Context) -> impl Iterator<Item = Parameter> + Clone {
        let layout = context.layout;
        let parameters = [
            (FINGERPRINT, fingerprint()),
            ("size of a key in bytes", layout.bytes.key as u64),
            ("size of a value in bytes", layout.bytes.value as u64),
            ("buckets per owner", layout.buckets_per_owner),
            ("number of candidates", layout.candidates.into()),
            ("first word", layout.first_word),
            (MODE, config.mode as u64),
            ("format of keys and values", config.format),
        ];
        parameters.into_iter()
    }

    fn machine(key: &K, request: Request<V>, context: &Context) -> Result<Access<K, V>, Error> {
        Access::for_map(key, request, context)
    }

    #[inline(always)]
    fn start(
        key: &K,
        request: Request<V>,
        transport: &impl Transport,
        context: &mut Context,
    ) -> Result<Started<Access<K, V>>, Error> {
        let machine = Access::for_map(key, request, context)?;
        if !context.is_direct {
            return Ok(Started::Pending(machine));
        }
        let words = EngineWords { transport, layout: context.layout };
        let outcome = direct::run(words, context, key, hash(key), &request);
        outcome.map(Started::Done).ok_or(Error::Window)
    }

    fn can_be_direct(config: &Config, context: &Context, transport: &impl Transport) -> bool {
        let is_asked = config.direct && config.mode == Mode::Claims;
        is_asked && direct::is_possible(transport, &context.layout)
    }

    fn on_opened(
        context: &mut Context,
        is_direct: bool,
        call: &mut Collective<'_, impl Exchange + ?Sized>,
    ) -> Result<(), CollectiveError> {
        let age = call.exchange().max(context.clock.age().into())?;
        context.is_direct = is_direct;
        context.clock.set(u8::try_from(age).unwrap_or(0));
        Ok(())
    }

    fn stats(context: &Context) -> &Stats {
        &context.stats
    }

    fn reset_stats(context: &mut Context) {
        context.stats = Stats::default();
    }

    fn forget(_: &Config, context: &mut Context) {
        context.clock.set(0);
    }

    fn count(_: &Config, context: &Context, window: &[AtomicU64]) -> Result<u64, Error> {
        let mut entries = 0;
        for_each::<K, V>(context, window, |_, _| entries += 1)?;
        Ok(entries)
    }

    /// Empties all buckets of this owner. An operation that completed in error may leave a bucket
    /// claimed until other clients take it over; no wrong value results.
    fn empty(config: &Config, context: &Context, window: &[AtomicU64]) -> Result<(), Error> {
        let all = words(window, context.layout.first_word, config.words::<K, V>())?;
        all.iter().for_each(|word| word.store(0, Release));
        Ok(())
    }
}

impl<K: Plain, V: Plain> Open for Entries<K, V> {
    fn check(
        config: &Config,
        transport: &impl Transport,
        operations: usize,
    ) -> Result<(), ConfigError> {
        config.check::<K, V>(transport.caps(), transport.geometry(), operations)
    }

    fn context(config: &Config, transport: &impl Transport) -> Context {
        Context::new::<K, V>(transport, config)
    }
}

/// Calls `each` with every entry in this owner's part whose check matches, and returns the number of
/// full buckets whose check does not.
pub(crate) fn for_each<K: Plain, V: Plain>(
    context: &Context,
    window: &[AtomicU64],
    mut each: impl FnMut(&K, &V),
) -> Result<u64, Error> {
    let (owner, layout) = (context.me, context.layout);
    let part = words(window, layout.first_word, layout.part_words())?;
    // `max(1)` removes the panic of `chunks_exact(0)`.
    let bucket_words = layout.bucket_words.max(1) as usize;
    let mut destroyed = 0;
    for (bucket, index) in part.chunks_exact(bucket_words).zip(0..) {
        let words = bucket.iter().map(|word| word.load(Acquire));
        match entry(words, context, Place { owner, index }) {
            Found::Entry(key, value) => each(&key, &value),
            Found::Nothing | Found::Claimed => {}
            Found::Mixed => destroyed += 1,
        }
    }
    Ok(destroyed)
}

/// Content of a bucket, by its words.
pub(crate) enum Found<K, V> {
    Entry(K, V),
    Nothing,
    Claimed,
    /// Words of different times, or an entry that a late WRITE has destroyed.
    Mixed,
}

/// Decodes the words of a bucket.
pub(crate) fn entry<K: Plain, V: Plain>(
    mut words: impl Iterator<Item = u64>,
    context: &Context,
    place: Place,
) -> Found<K, V> {
    let control = context.mode.control(words.next().unwrap_or_default());
    match control.state() {
        State::Empty | State::Dropped => return Found::Nothing,
        State::Claimed => return Found::Claimed,
        State::Full => {}
    }
    let (key, value): (K, V) = context.layout.bytes.unpack(&mut words);
    let check = context.check(hash(&key), value.bytes(), place);
    if control.has_check(check) { Found::Entry(key, value) } else { Found::Mixed }
}

/// Version of what no function computes: the order of operations of each mode.
const VERSION: u64 = 2;
const KEYS: [[u8; 12]; 3] = [[0; 12], *b"twelve bytes", [0xff; 12]];
const VALUE: [u8; 20] = *b"a value of 20 bytes.";

/// Returns the fingerprint of the maps of this build: of the words and places that the hash and the
/// layout give to a few entries.
fn fingerprint() -> u64 {
    let config = Config { first_word: 8, mode: Mode::PartLocks, ..Config::new(1_000) };
    let layout = config.layout::<[u8; 12], [u8; 20]>(3);
    let lock = layout.part_lock(0);
    let all = Fingerprint::new(VERSION).with_all(&[
        config.words::<[u8; 12], [u8; 20]>(),
        lock.index,
        written_by(2),
        Mode::BucketLocks.counts(),
    ]);
    let all = KEYS.iter().fold(all, |all, key| {
        let hash = hash(key);
        let all =
            (0..MAX_CANDIDATES).map(|nth| layout.candidate(hash, nth)).fold(all, |all, at| {
                let (control, body) = (layout.control(at), layout.body(at));
                let check = check(hash, &VALUE, at);
                let full = Control::full(9, check);
                all.with_all(&[control.owner.0.into(), control.index, body.start.index, full.0])
                    .with_all(&[
                        Control::claimed(9, hash, 5).0,
                        Mode::Claims.dropped(full).0,
                        CHECK_BITS.into(),
                    ])
            });
        let mut words = [0; 5];
        store_entry(key, &VALUE, &mut words);
        all.with_all(&words)
    });
    all.get()
}
