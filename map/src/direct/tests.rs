use core::cell::Cell;

use probeline_shm::Builder;
use probeline_transport::Alone;

use super::*;
use crate::config::Config;

/// A part whose bucket at `of` gets an entry of another key before its second use.
struct Changing {
    words: Vec<AtomicU64>,
    layout: Layout,
    of: Place,
    uses: Cell<u32>,
    entry: [u64; 3],
}

impl<'t> BucketWords<'t> for &'t Changing {
    fn bucket(&self, at: Place) -> Option<&'t [AtomicU64]> {
        let bucket_words = self.layout.bucket_words as usize;
        let first = usize::try_from(at.index).unwrap() * bucket_words;
        let bucket = self.words.get(first..first + bucket_words)?;
        self.uses.set(self.uses.get() + u32::from(at == self.of));
        if at == self.of && self.uses.get() == 2 {
            bucket.iter().zip(self.entry).for_each(|(word, new)| word.store(new, SeqCst));
        }
        Some(bucket)
    }
}

/// The first candidate is claimed while a put looks at it, and has an entry when the put has claimed
/// the second one: the put gives up, and succeeds when it has looked at the first one again.
#[test]
fn a_put_that_gives_up_looks_at_all_candidates_again() {
    let config = Config::new(64);
    let engine = Builder::new(config.sizes::<u64, u64>(2)).open(&mut Alone).unwrap();
    let mut context = Context::new::<u64, u64>(&engine, &config);
    let layout = context.layout;
    let (key, other, value) = (7_u64, 8_u64, 9_u64);
    let [first, second] = [0, 1].map(|nth| layout.candidate(hash(&key), nth));
    assert_ne!(first, second);
    let full = Control::full(0, check(hash(&other), &value, first));
    let words = (0..layout.part_words()).map(|_| AtomicU64::new(0)).collect();
    let entry = [full.0, other, value];
    let changing = Changing { words, layout, of: first, uses: Cell::new(0), entry };
    let claim = Control::claimed(0, hash(&other), 1);
    changing.words[usize::try_from(first.index).unwrap() * 8].store(claim.0, SeqCst);
    let put = run(&&changing, &mut context, &key, hash(&key), &Request::Put(value));
    assert_eq!(put, Some(Outcome::Written(Written::Inserted)));
    let stats = context.stats;
    assert_eq!((stats.inserts, stats.given_up, stats.looks), (1, 1, 4));
    let get = run::<_, u64>(&&changing, &mut context, &key, hash(&key), &Request::Get);
    assert_eq!(get, Some(Outcome::Hit(value)));
}
