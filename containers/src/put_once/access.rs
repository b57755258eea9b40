//! The machine of an operation on a key, and what the CPU does.

use core::hint::spin_loop;
use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use probeline_pipeline::{Completed, Error, Machine, Next, Plain, Port, Run, Step};
use probeline_transport::{Local, RemoteWord, Segment, Transport};

use super::Config;
use super::bucket::{Home, MAX_BYTES, Seen, Shape, is_written};
#[cfg(test)]
use super::model::{MUTANT, Mutant};
use crate::element::{Context, Element};
use crate::phase::Find;
use crate::placement::Placement;

/// Groups in which a key may be.
const MAX_GROUPS: u64 = 64;
/// READs of a bucket whose value is not written.
const MAX_READS: u32 = if cfg!(test) { 2 } else { 64 };
/// Times that the CPU looks at such a bucket.
const MAX_LOOKS: u32 = 1 << 16;

/// The buckets of a [`PutOnce`](super::PutOnce).
pub struct Buckets<K, V>(PhantomData<(K, V)>);

/// What an operation does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action<V> {
    /// Find its value.
    Find,
    /// Insert it with this value, unless it is there.
    Insert(V),
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<V> {
    /// The key has this value.
    Found(V),
    /// A find has not found the key.
    Absent,
    /// The key was inserted.
    Inserted,
    /// The key was not inserted: all buckets in which it may be hold other keys.
    Full,
    /// Another rank is inserting the key, and has not written its value in 64 roundtrips. Find or insert it
    /// again later; if that rank is lost, the key has no value until the map is cleared.
    Unfinished,
}

impl<V> Outcome<V> {
    /// Returns the value of the key, if it has one.
    #[must_use]
    pub fn found(self) -> Option<V> {
        if let Self::Found(value) = self { Some(value) } else { None }
    }
}

/// The one-sided operation that is due, or in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Post {
    /// Read the group.
    Group,
    /// Read the bucket again.
    Bucket,
    /// Claim the bucket.
    Claim,
    /// Write the words behind the first one.
    Rest,
}

/// An operation on a key.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Access<K, V> {
    /// `None` in idle storage.
    key: Option<K>,
    action: Action<V>,
    home: Home,
    /// Groups passed.
    distance: u64,
    /// Buckets of the group passed.
    passed: u32,
    post: Post,
    reads: u32,
}

impl<K: Plain, V: Plain> Machine for Access<K, V> {
    type Outcome = Outcome<V>;
    const IDLE: Self = Self {
        key: None,
        action: Action::Find,
        home: Home { group: 0, first: 0 },
        distance: 0,
        passed: 0,
        post: Post::Group,
        reads: 0,
    };
    const SLOTS: u32 = 1;
}

/// Returns the group at a distance from a home, which is less than the number of groups.
#[inline(always)]
fn group(home: Home, distance: u64, groups: u64) -> u64 {
    let group = home.group + distance;
    group.checked_sub(groups).unwrap_or(group)
}

/// What follows a completion.
type After<V> = Result<Post, Outcome<V>>;

impl<K: Plain, V: Plain> Access<K, V> {
    /// Returns the words of the bucket from `first` on, in the group and in the slot.
    fn bucket(
        &self,
        first: u32,
        context: &Context<Shape>,
        port: &Port<'_, impl Transport>,
    ) -> Result<(Segment, Local), Error> {
        let shape = &context.detail;
        let (start, words) = (self.passed * shape.words + first, shape.words - first);
        let RemoteWord { owner, index } = self.group(context)?.start;
        let at = RemoteWord { owner, index: index + u64::from(start) };
        Ok((Segment { start: at, words }, Local { slot: port.slot(0), start, words }))
    }

    fn group(&self, context: &Context<Shape>) -> Result<Segment, Error> {
        context.placement.element(group(self.home, self.distance, context.placement.len()))
    }

    /// Decides what follows from what was read, for the bucket and those behind it.
    fn decide(
        &mut self,
        key: &K,
        context: &Context<Shape>,
        port: &Port<'_, impl Transport>,
    ) -> Result<After<V>, Error> {
        let shape = &context.detail;
        // Each iteration passes a bucket.
        while self.passed < shape.buckets() {
            let (_, slot) = self.bucket(0, context, port)?;
            let words = port.landed(slot)?.iter().copied();
            let seen = shape.see(words.clone(), key, self.home);
            #[cfg(test)]
            let seen = match seen {
                Seen::Free
                    if MUTANT.get() == Mutant::PassesTornClaims
                        && words.clone().next() != Some(0) =>
                {
                    Seen::Other
                }
                seen => seen,
            };
            return Ok(match (seen, self.action) {
                (Seen::Other, _) => {
                    self.passed += 1;
                    continue;
                }
                (Seen::Same(value), _) => Err(Outcome::Found(value)),
                (Seen::Free, Action::Find) => Err(Outcome::Absent),
                (Seen::Free, Action::Insert(_)) => Ok(Post::Claim),
                #[cfg(test)]
                (Seen::Unfinished, _) if MUTANT.get() == Mutant::TrustsClaims => {
                    Err(Outcome::Found(V::zeroed(shape.value_bytes)))
                }
                (Seen::Unfinished, _) if self.reads == MAX_READS => Err(Outcome::Unfinished),
                (Seen::Unfinished, _) => Ok(Post::Bucket),
            });
        }
        self.passed = 0;
        self.distance += 1;
        let is_last = self.distance == MAX_GROUPS.min(context.placement.len());
        Ok(if is_last { Err(self.action.end()) } else { Ok(Post::Group) })
    }
}

impl<V> Action<V> {
    /// Returns the outcome if all buckets hold other keys.
    fn end(&self) -> Outcome<V> {
        if matches!(self, Self::Find) { Outcome::Absent } else { Outcome::Full }
    }
}

impl<K: Plain, V: Plain> Run<Context<Shape>> for Access<K, V> {
    fn advance(
        &mut self,
        context: &mut Context<Shape>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome<V>> {
        let shape = &context.detail;
        let mut words = [0; MAX_BYTES / 7 + 1];
        if let (Post::Claim | Post::Rest, Some(key), Action::Insert(value)) =
            (self.post, &self.key, &self.action)
        {
            shape.encode(key, value, words.get_mut(..shape.words as usize).unwrap_or_default());
        }
        match self.post {
            Post::Group => {
                let slot = Local { slot: port.slot(0), start: 0, words: shape.group_words };
                port.read(0, self.group(context)?, slot)?;
            }
            Post::Bucket => {
                let (at, slot) = self.bucket(0, context, port)?;
                port.read(0, at, slot)?;
                self.reads += 1;
            }
            Post::Claim => {
                let (at, _) = self.bucket(0, context, port)?;
                port.compare_and_swap(0, at.start, 0, words[0])?;
            }
            Post::Rest => {
                let (at, slot) = self.bucket(1, context, port)?;
                port.reserve(1)?;
                let staged = port.staged(slot)?;
                staged.iter_mut().zip(&words[1..]).for_each(|(to, word)| *to = *word);
                port.write(0, slot, at)?;
            }
        }
        Ok(Step::Wait)
    }

    fn on_completion(
        &mut self,
        Completed { word, .. }: Completed,
        context: &mut Context<Shape>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome<V>> {
        let shape = &context.detail;
        let Some(key) = self.key else { return Err(Error::Idle.into()) };
        let after = match self.post {
            Post::Group | Post::Bucket => self.decide(&key, context, port)?,
            Post::Claim if word == 0 && shape.words > 1 => Ok(Post::Rest),
            Post::Claim if word == 0 => Err(Outcome::Inserted),
            #[cfg(test)]
            Post::Claim if MUTANT.get() == Mutant::PassesLostClaims => {
                self.passed += 1;
                self.decide(&key, context, port)?
            }
            Post::Claim if shape.matches(word, self.home) => Ok(Post::Bucket),
            Post::Claim => {
                self.passed += 1;
                self.decide(&key, context, port)?
            }
            Post::Rest => Err(Outcome::Inserted),
        };
        match after {
            Err(outcome) => Ok(Step::Done(outcome)),
            Ok(post) => {
                self.post = post;
                self.advance(context, port)
            }
        }
    }
}

/// Runs an action on a bucket by the CPU. Returns `None` if the bucket holds another key.
#[inline(always)]
fn run_bucket<K: Plain, V: Plain>(
    bucket: &[AtomicU64],
    shape: &Shape,
    key: &K,
    home: Home,
    action: &Action<V>,
) -> Option<Outcome<V>> {
    let words = bucket.iter().map(|word| word.load(Acquire));
    // Each iteration but the first one waits for another rank.
    for _ in 0..MAX_LOOKS {
        match (shape.see(words.clone(), key, home), action) {
            (Seen::Other, _) => return None,
            (Seen::Same(value), _) => return Some(Outcome::Found(value)),
            (Seen::Free, Action::Find) => return Some(Outcome::Absent),
            (Seen::Free, Action::Insert(value)) => {
                if insert(bucket, shape, key, value) {
                    return Some(Outcome::Inserted);
                }
            }
            (Seen::Unfinished, _) => spin_loop(),
        }
    }
    Some(Outcome::Unfinished)
}

/// Claims a bucket and writes it. Returns false if it is taken.
fn insert<K: Plain, V: Plain>(bucket: &[AtomicU64], shape: &Shape, key: &K, value: &V) -> bool {
    let mut words = [0; MAX_BYTES / 7 + 1];
    shape.encode(key, value, words.get_mut(..bucket.len()).unwrap_or_default());
    let Some((first, rest)) = bucket.split_first() else { return false };
    let is_free = first.compare_exchange(0, words[0], SeqCst, SeqCst).is_ok();
    if is_free {
        rest.iter().zip(&words[1..]).for_each(|(to, word)| to.store(*word, Release));
    }
    is_free
}

impl<K: Plain, V: Plain> Element for Buckets<K, V> {
    type Config = Config;
    type Key = K;
    type Action = Action<V>;
    type Machine = Access<K, V>;
    type Detail = Shape;
    const NAME: &'static str = "PutOnce";
    const PARAMETER: &'static str = "bytes of a key, and bytes of a value in the upper 32 bits";

    fn placement(config: &Config, owners: u32) -> Placement {
        config.placement::<K, V>(owners)
    }

    fn parameter(config: &Config) -> (u64, u64) {
        let Shape { key_bytes, value_bytes, .. } = config.shape::<K, V>();
        let is_valid = key_bytes > 0 && key_bytes.saturating_add(value_bytes) <= MAX_BYTES;
        ((value_bytes as u64) << 32 | key_bytes as u64, if is_valid { u64::MAX } else { 0 })
    }

    fn detail(config: &Config) -> Shape {
        config.shape::<K, V>()
    }

    fn allows_direct(config: &Config) -> bool {
        config.direct
    }

    #[inline(always)]
    fn index(key: &K, context: &Context<Shape>) -> u64 {
        context.detail.home(key, context.placement.len()).group
    }

    #[inline(always)]
    fn machine(
        _: Segment,
        key: &K,
        action: Action<V>,
        context: &Context<Shape>,
    ) -> Result<Access<K, V>, Error> {
        let home = context.detail.home(key, context.placement.len());
        Ok(Access { key: Some(*key), action, home, ..Access::IDLE })
    }

    #[inline(always)]
    fn run<'t>(
        element: &'t [AtomicU64],
        elements: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        key: &K,
        action: &Action<V>,
        context: &Context<Shape>,
    ) -> Result<Outcome<V>, Error> {
        let (shape, groups) = (&context.detail, context.placement.len());
        let (home, mut group) = (shape.home(key, groups), element);
        for distance in 0..MAX_GROUPS.min(groups) {
            if distance > 0 {
                group = elements(self::group(home, distance, groups)).ok_or(Error::Window)?;
            }
            for bucket in shape.split(group) {
                if let Some(outcome) = run_bucket(bucket, shape, key, home, action) {
                    return Ok(outcome);
                }
            }
        }
        Ok(action.end())
    }

    /// Returns the number of keys.
    fn count(part: &[AtomicU64], context: &Context<Shape>) -> u64 {
        let is_claimed = |bucket: &&[AtomicU64]| {
            bucket.first().is_some_and(|word| is_written(word.load(Acquire)))
        };
        context.detail.split(part).filter(is_claimed).count() as u64
    }
}

impl<K: Plain, V: Plain> Find for Buckets<K, V> {
    const FIND: Action<V> = Action::Find;
}
