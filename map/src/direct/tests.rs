use core::cell::{Cell, RefCell};

use probeline_shm::Builder;
use probeline_transport::Alone;

use super::*;
use crate::config::Config;
use crate::control::State;
use crate::layout::{check, hash};
use crate::mode::Mode;

type Change<'c> = Box<dyn FnOnce(&Changing<'c>) + 'c>;

/// A part that another client changes before the second use of the bucket at `of`.
struct Changing<'c> {
    words: Vec<AtomicU64>,
    layout: Layout,
    of: Place,
    uses: Cell<u32>,
    change: RefCell<Option<Change<'c>>>,
}

impl<'t> BucketWords<'t> for &'t Changing<'_> {
    fn bucket(&self, at: Place) -> Option<&'t [AtomicU64]> {
        self.uses.set(self.uses.get() + u32::from(at == self.of));
        if at == self.of && self.uses.get() == 2 {
            let change = self.change.take();
            change.into_iter().for_each(|change| change(self));
        }
        let bucket_words = self.layout.bucket_words as usize;
        let first = usize::try_from(at.index).unwrap() * bucket_words;
        self.words.get(first..first + bucket_words)
    }
}

impl<'c> Changing<'c> {
    fn new(layout: Layout, of: Place, change: impl FnOnce(&Self) + 'c) -> Self {
        let words = (0..layout.part_words()).map(|_| AtomicU64::new(0)).collect();
        let change: Change<'c> = Box::new(change);
        Self { words, layout, of, uses: Cell::new(0), change: RefCell::new(Some(change)) }
    }

    fn set(&self, at: Place, words: &[u64]) {
        let first = usize::try_from(at.index).unwrap() * self.layout.bucket_words as usize;
        self.words[first..].iter().zip(words).for_each(|(word, new)| word.store(*new, SeqCst));
    }

    /// Stores an entry as another client does.
    fn set_entry(&self, at: Place, key: u64, value: u64) {
        let full = Control::full(0, check(hash(&key), value.bytes(), at));
        self.set(at, &[full.0, key, value]);
    }

    fn run(&self, context: &mut Context, key: u64, request: &Request<u64>) -> Outcome<u64> {
        let mut value = 0_u64;
        let cpu = Cpu::<_, u64, u64>::new(self, context, (key.bytes(), hash(&key)));
        let outcome = cpu.run_carefully(request.as_bytes(), value.bytes_mut());
        outcome.expect("all words are reached").map(|()| value)
    }
}

const CONFIG: Config = Config { candidates: 2, ..Config::new(64) };
/// The key of most tests.
const KEY: u64 = 7;

/// Returns the context of a client, and the candidates of [`KEY`].
fn client() -> (Context, [Place; 2]) {
    let engine = Builder::new(CONFIG.sizes::<u64, u64>(2)).open(&mut Alone).unwrap();
    let context = Context::new::<u64, u64>(&engine, &CONFIG);
    let candidates = candidates(&context.layout, KEY);
    (context, candidates)
}

fn candidates(layout: &Layout, key: u64) -> [Place; 2] {
    [0, 1].map(|nth| layout.candidate(hash(&key), nth))
}

fn control(part: &Changing<'_>, at: Place) -> Control {
    Control((&part).bucket(at).unwrap()[0].load(SeqCst))
}

/// The first candidate is claimed while a put probes it, and has an entry when the put has claimed
/// the second one: the put gives up, and succeeds when it has probed the first one again.
#[test]
fn put_probes_candidates_again() {
    let (mut context, [first, second]) = client();
    let (other, value) = (8, 9);
    assert_ne!(first, second);
    let changing = Changing::new(context.layout, first, |part| part.set_entry(first, other, value));
    changing.set(first, &[Control::claimed(0, hash(&other), 1).0]);
    let put = changing.run(&mut context, KEY, &Request::Put(value));
    assert_eq!(put, Outcome::Written(Written::Inserted));
    let stats = context.stats;
    assert_eq!((stats.inserts, stats.given_up, stats.bucket_reads), (1, 1, 4));
    assert_eq!(changing.run(&mut context, KEY, &Request::Get), Outcome::Hit(value));
}

/// While a put has claimed its second candidate, another client passes that bucket, stores the key
/// `passed` elsewhere, and the put's key in its first candidate, so that the put gives up. Gets of
/// `passed` must not stop at that bucket afterwards. As if empty again, it would hide the entry: its
/// key would get another bucket, and after a remove the older value. An older entry in it would
/// return, over the value that was put meanwhile.
#[test]
fn keeps_passed_bucket_nonempty() {
    for had_entry in [false, true] {
        let (mut context, [first, second]) = client();
        let (mut other, (old, new)) = (client().0, (1, 2));
        let layout = context.layout;
        let is_passed = |key: &u64| {
            let [at, further] = candidates(&layout, *key);
            at == second && further != first && further != second
        };
        let passed = (8..).find(is_passed).unwrap();
        let changing = Changing::new(layout, first, |part| {
            let put = part.run(&mut other, passed, &Request::Put(new));
            assert_eq!(put, Outcome::Written(Written::Inserted));
            part.set_entry(first, KEY, old);
        });
        changing.set(first, &[Control::claimed(0, !hash(&KEY), 1).0]);
        if had_entry {
            changing.set_entry(second, passed, old);
        }
        let put = changing.run(&mut context, KEY, &Request::Put(new));
        assert_eq!((put, context.stats.given_up), (Outcome::Written(Written::Updated), 1));
        assert_eq!(changing.run(&mut context, passed, &Request::Get), Outcome::Hit(2));
        assert_eq!(context.stats.lost_entries, u64::from(had_entry));
    }
}

/// Another client takes the claim of a put over: the put must not replace that client's control word.
#[test]
fn drops_put_after_stolen_claim() {
    let (mut context, [first, second]) = client();
    let taken = Control::claimed(0, !hash(&KEY), 2);
    let changing = Changing::new(context.layout, first, |part| part.set(second, &[taken.0]));
    changing.set(first, &[Control::claimed(0, !hash(&KEY), 1).0]);
    let put = changing.run(&mut context, KEY, &Request::Put(9));
    assert_eq!(put, Outcome::Written(Written::Dropped));
    assert_eq!((context.stats.drops, context.stats.stolen_claims), (1, 1));
    assert_eq!(control(&changing, second), taken);
}

/// Two clients that claimed both candidates for a key may only be slow. A put takes over both claims:
/// if one were left, its client could publish an older value later.
#[test]
fn steals_every_old_claim() {
    let (mut context, candidates) = client();
    let changing = Changing::new(context.layout, candidates[0], |_| ());
    for (at, rank) in candidates.into_iter().zip(1..) {
        changing.set(at, &[Control::claimed(0, hash(&KEY), rank << 16).0]);
    }
    (0..CONFIG.claim_ticks).for_each(|_| context.clock.advance());
    let put = changing.run(&mut context, KEY, &Request::Put(9));
    assert_eq!((put, context.stats.given_up), (Outcome::Written(Written::Inserted), 1));
    let states = candidates.map(|at| control(&changing, at).state());
    assert_eq!(states, [State::Dropped, State::Full]);
    assert_eq!(changing.run(&mut context, KEY, &Request::Get), Outcome::Hit(9));
}

/// A client that is 9 or more ticks behind takes no live claim for that of a dead client.
#[test]
fn claim_ahead_is_alive() {
    for lead in [1, 8, 9, 20, 31] {
        let (mut context, [first, _]) = client();
        let changing = Changing::new(context.layout, first, |_| ());
        let claim = Control::claimed(lead, hash(&KEY), 1 << 16);
        changing.set(first, &[claim.0]);
        let put = changing.run(&mut context, KEY, &Request::Put(9));
        assert_eq!(put, Outcome::Written(Written::Dropped), "{lead} ticks ahead");
        assert_eq!(control(&changing, first), claim);
        assert_eq!(context.clock.age(), 0, "a claim that was only read may be old");
    }
}

/// A client may store in a bucket while another one claims it. The stored word is certain to be
/// recent, unless it drops the bucket: a dropped word has the age of the entry.
#[test]
fn clock_follows_faster_writer() {
    let claim = Control::claimed(20, !hash(&KEY), 1 << 16);
    for (now, age) in [(claim, 20), (Control::full(31, 5), 31), (Mode::Claims.dropped(claim), 0)] {
        let (mut context, [first, _]) = client();
        let changing = Changing::new(context.layout, first, |part| part.set(first, &[now.0]));
        changing.run(&mut context, KEY, &Request::Put(9));
        assert_eq!((context.clock.age(), context.stats.lost_claims), (age, 1), "{now:?}");
    }
}

/// Another client claims the bucket between the probe and the claim of a put that takes the usual
/// course.
#[test]
fn late_quick_put_stores_nothing() {
    for (kind, had_entry) in [(Kind::Key, true), (Kind::Empty, false)] {
        let (mut context, [first, _]) = client();
        let changing = Changing::new(context.layout, first, |_| ());
        if had_entry {
            changing.set_entry(first, KEY, 8);
        }
        let mut cpu = Cpu::<_, u64, u64>::new(&changing, &mut context, (KEY.bytes(), hash(&KEY)));
        let (seen, shown) = Cpu::probe(&mut cpu, 0, true, None).unwrap();
        assert_eq!(shown, if had_entry { Seen::Key } else { Seen::Empty });
        let claim = Control::claimed(20, !hash(&KEY), 1 << 16);
        changing.set(first, &[claim.0]);
        let stored = cpu.store(Target { nth: 0, seen, kind }, 9_u64.bytes());
        assert!(matches!(stored, Ok(None)), "{stored:?}");
        assert_eq!(control(&changing, first), claim);
        assert_eq!((context.clock.age(), context.stats.lost_claims), (20, 1));
    }
}

/// If the key may have another bucket, a put that takes the usual course claims nothing.
#[test]
fn quick_put_avoids_comparisons() {
    let (mut context, [first, second]) = client();
    let changing = Changing::new(context.layout, first, |_| ());
    changing.set_entry(first, 8, 8);
    let mut cpu = Cpu::<_, u64, u64>::new(&changing, &mut context, (KEY.bytes(), hash(&KEY)));
    let put = quick::run(&mut cpu, Request::Put(9_u64.bytes()), &mut []);
    assert!(matches!(put, Ok(None)), "{put:?}");
    assert_eq!(control(&changing, second), Control::EMPTY);
    assert_eq!((context.stats.bucket_reads, context.stats.writes()), (2, 0));
}

/// Another client changes the value between the probe and the claim of a replacement.
#[test]
fn keeps_changed_value() {
    let (mut context, [first, _]) = client();
    let (old, changed, new) = (8, 9, 10);
    let changing = Changing::new(context.layout, first, |part| part.set_entry(first, KEY, changed));
    changing.set_entry(first, KEY, old);
    for (expected, written) in [(old, Written::Present), (changed, Written::Updated)] {
        let replace = Request::Replace(new, ValueHash::from_value(&expected));
        assert_eq!(changing.run(&mut context, KEY, &replace), Outcome::Written(written));
    }
    assert_eq!(changing.run(&mut context, KEY, &Request::Get), Outcome::Hit(new));
    assert_eq!(context.last_put, Some((first, 0)));
}
