//! Entries that a map loses while it is filled, by owners and buckets.

use super::{EntryBytes, Layout, hash};

const CANDIDATES: u32 = 6;

/// Buckets that are full, one bit each.
struct Full(Vec<u64>);

impl Full {
    /// Fills a bucket. Returns false if it was full.
    fn fill(&mut self, at: u64) -> bool {
        let word = &mut self.0[usize::try_from(at / 64).unwrap()];
        let is_new = *word >> (at % 64) & 1 == 0;
        *word |= 1 << (at % 64);
        is_new
    }
}

/// Fills a map to load factors of 0.5 and 0.9 with keys of which each takes its first free
/// candidate, and returns the percentages of the keys that found none.
fn losses(owners: u32, buckets_per_owner: u64, candidates: u32) -> [f64; 2] {
    let layout = Layout {
        owners,
        buckets_per_owner,
        first_word: 0,
        bytes: EntryBytes { key: 8, value: 8 },
        bucket_words: 8,
        used_words: 3,
        candidates,
    };
    let buckets = u64::from(owners) * buckets_per_owner;
    let mut full = Full(vec![0; usize::try_from(buckets.div_ceil(64)).unwrap()]);
    let (mut keys, mut lost) = (0_u64, 0_u64);
    [0.5, 0.9].map(|load_factor| {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let until = (buckets as f64 * load_factor) as u64;
        for key in keys..until {
            let hash = hash(&key);
            let mut candidates = (0..candidates).map(|nth| layout.candidate(hash, nth));
            let is_stored =
                candidates.any(|at| full.fill(u64::from(at.owner) * buckets_per_owner + at.index));
            lost += u64::from(!is_stored);
        }
        keys = until;
        #[allow(clippy::cast_precision_loss)]
        let percent = 100.0 * lost as f64 / keys as f64;
        percent
    })
}

#[test]
fn bounds_losses_at_any_size() {
    let sizes =
        [(1, 1 << 20), (2, 500_009), (7, 100_003), (128, 1 << 14), (640, 1 << 14), (1, 1 << 27)];
    println!("owners buckets/owner: % lost at load factor 0.5, 0.9");
    for (owners, buckets) in sizes {
        let [half, nine_tenths] = losses(owners, buckets, CANDIDATES);
        println!("{owners:4} {buckets:10}: {half:.2} {nine_tenths:.2}");
        assert!(half <= 0.3 && nine_tenths <= 6.5, "{owners} owners of {buckets}");
    }
}

/// The default number of candidates is the smallest that loses so few.
#[test]
fn losses_by_candidates() {
    for candidates in 1..=super::MAX_CANDIDATES {
        let [half, nine_tenths] = losses(3, 300_007, candidates);
        println!("{candidates} candidates: {half:.2} % lost at 0.5, {nine_tenths:.2} % at 0.9");
        let suffices = half <= 0.3 && nine_tenths <= 6.5;
        assert_eq!(suffices, candidates >= CANDIDATES);
    }
    assert_eq!(crate::Config::new(1).candidates, CANDIDATES);
}
