use super::*;
use proptest::prelude::*;

/// READs on the paper's cluster as the simulator models them: latency as a function of size, and
/// the picoseconds by which one of two READs in flight follows the other.
const PAPER: (ReadCost, u64) = (ReadCost { base_ps: 3_310_000, bucket_ps: 11_930 }, 1_311_000);
/// A link on which a bucket costs almost nothing, and one on which 30 buckets cost as much as the
/// base of a READ.
const WIDE: (ReadCost, u64) = (ReadCost { base_ps: 2_000_000, bucket_ps: 640 }, 10_000);
const NARROW: (ReadCost, u64) = (ReadCost { base_ps: 600_000, bucket_ps: 20_000 }, 0);

/// The largest C and the probe limit in these tests, in buckets.
const MAX_BUCKETS: u32 = 128;
const PROBE_LIMIT: u32 = 1 << 12;

/// Simulates the READs of one operation and returns the picoseconds until its last chunk lands.
fn waited_ps(buckets: u32, chunk: u32, ahead_from: u32, (cost, apart_ps): (ReadCost, u64)) -> u64 {
    let read_ps = cost.base_ps + cost.bucket_ps * u64::from(chunk);
    let (mut now_ps, mut free_ps) = (0, 0);
    let mut request = |now_ps: u64| {
        let start_ps = now_ps.max(free_ps);
        free_ps = start_ps + apart_ps;
        start_ps + read_ps
    };
    let mut ahead_ps = None;
    for nth in 0..buckets.div_ceil(chunk) {
        let lands_ps = ahead_ps.take().unwrap_or_else(|| request(now_ps));
        if nth >= ahead_from {
            ahead_ps = Some(request(now_ps));
        }
        now_ps = now_ps.max(lands_ps);
    }
    now_ps
}

/// Fills a table of 2^20 buckets from empty to a load factor of 0.92. For every step of 0.02 it
/// divides the wait with adaptive C by the wait with the best fixed C. Returns the worst ratio, its
/// load factor in percent, and the last C chosen.
fn worst_ratio(read: (ReadCost, u64), ahead: ReadAhead) -> (f64, u32, u32) {
    const BUCKETS: usize = 1 << 20;
    let mut occupied = vec![false; BUCKETS];
    let mut adaptive = Chooser::new(ChunkChoice::Adaptive(read.0), MAX_BUCKETS, ahead);
    let mut fixed: Vec<Chooser> =
        (8..=MAX_BUCKETS).step_by(8).map(|c| Chooser::new(ChunkChoice::Fixed, c, ahead)).collect();
    let (mut worst, mut hash, mut held) = ((0.0, 0), 7_u64, 0);
    for step in 1..=46 {
        let mut adaptive_ps = 0;
        let mut fixed_ps = vec![0; fixed.len()];
        while held < BUCKETS * step as usize / 50 {
            // A permutation of 2^64 (splitmix64), so that all keys are new.
            hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mut at = (mixed >> 44) as usize;
            let mut buckets = 1;
            while occupied[at] && buckets < PROBE_LIMIT {
                at = (at + 1) % BUCKETS;
                buckets += 1;
            }
            occupied[at] = true;
            held += 1;
            let ended = |chooser: &mut Chooser| {
                let (chunk, ahead_from) = chooser.chunks(false);
                let ps = waited_ps(buckets, chunk, ahead_from, read);
                chooser.ended(buckets);
                ps
            };
            adaptive_ps += ended(&mut adaptive);
            for (chooser, ps) in fixed.iter_mut().zip(&mut fixed_ps) {
                *ps += ended(chooser);
            }
        }
        let best_ps = fixed_ps.into_iter().min().unwrap();
        let ratio = adaptive_ps as f64 / best_ps as f64;
        if ratio > worst.0 {
            worst = (ratio, step * 2);
        }
    }
    (worst.0, worst.1, adaptive.chunks(false).0)
}

#[test]
fn adaptive_approaches_best_fixed_c() {
    for (name, read) in [("paper", PAPER), ("wide", WIDE), ("narrow", NARROW)] {
        for ahead in [ReadAhead::Always, ReadAhead::Likely, ReadAhead::Never] {
            let (ratio, percent, last) = worst_ratio(read, ahead);
            println!(
                "{name} {ahead:?}: {ratio:.4} of the best fixed C at load {percent} %; at last C = \
                 {last}"
            );
            assert!(ratio <= 1.02, "{name} {ahead:?}: {ratio:.4} at load {percent} %");
            assert!(last > 16, "{name} {ahead:?}: C stayed {last}");
        }
    }
}

/// Computes `Chooser::best` operation by operation.
fn brute(needed: &[u32], chooser: &Chooser, one_in: u32) -> Choice {
    let mut best = (u128::MAX, chooser.choices[0]);
    for lines in chooser.min_lines..=chooser.max_lines {
        let chunks = |buckets: u32| buckets.div_ceil(lines * 8);
        let reached = |chunk: u32| needed.iter().filter(|&&x| chunks(x) > chunk).count();
        let ahead_from = match chooser.ahead {
            ReadAhead::Always => 0,
            ReadAhead::Never => u32::MAX,
            ReadAhead::Likely => (0..=LINES / lines)
                .find(|&i| reached(i) > 0 && one_in as usize * reached(i + 1) >= reached(i))
                .unwrap_or(u32::MAX),
        };
        let halves = |x: &u32| {
            let whole = chunks(*x).min(ahead_from.saturating_add(1));
            u128::from(whole + chunks(*x))
        };
        let waited = needed.iter().map(halves).sum::<u128>() * chooser.cost.of(lines);
        if waited < best.0 {
            best = (waited, Choice { chunk_buckets: lines * 8, ahead_from });
        }
    }
    best.1
}

proptest! {
    #[test]
    fn best_equals_brute_force(
        needed in prop::collection::vec(1..=LINES * LINE_BUCKETS, 1..250),
        base_ps in 0..10_000_u64, bucket_ps in 0..1_000_u64,
        max in 1..=200_u32, likely in 0..3,
    ) {
        let ahead = [ReadAhead::Always, ReadAhead::Likely, ReadAhead::Never][likely as usize];
        let mut chooser = Chooser::new(ChunkChoice::Adaptive(ReadCost { base_ps, bucket_ps }), max * 8, ahead);
        chooser.needed = [0; LINES as usize];
        chooser.left = u32::MAX;
        needed.iter().for_each(|&buckets| chooser.ended(buckets));
        for one_in in ONE_IN {
            prop_assert_eq!(chooser.best(one_in), brute(&needed, &chooser, one_in));
        }
    }

    #[test]
    fn estimates_tail_within_10_percent(
        further in prop::collection::vec(LINES * 8 + 1..4_000, 200..300), lines in 1..=64_u32,
    ) {
        let mut chooser = Chooser::new(ChunkChoice::Adaptive(PAPER.0), 512, ReadAhead::Never);
        chooser.needed = [0; LINES as usize];
        chooser.left = u32::MAX;
        further.iter().for_each(|&buckets| chooser.ended(buckets));
        let halves = chooser.waits(&chooser.survivors(), lines, u32::MAX);
        let chunks: u32 = further.iter().map(|x| x.div_ceil(lines * 8)).sum();
        let exact = u64::from(chunks * 2 * ONE);
        prop_assert!(halves.abs_diff(exact) <= exact / 10, "{} {}", halves, exact);
    }

    #[test]
    fn fits_collinear_measurements_exactly(
        base_ns in 0..100_000_u64, bucket_ns in 0..1_000_u64,
        sizes in prop::collection::btree_set(1..=MAX_BUCKETS, 2..20),
    ) {
        let measured: Vec<_> =
            sizes.iter().map(|&x| (x, base_ns + bucket_ns * u64::from(x))).collect();
        let expected = ReadCost { base_ps: base_ns * 1_000, bucket_ps: bucket_ns * 1_000 };
        prop_assert_eq!(ReadCost::from_measurements(&measured), Some(expected));
    }
}

#[test]
fn fits_nearest_nonnegative_line() {
    let of = ReadCost::from_measurements;
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[(8, 100), (8, 200)]), None);
    // Longer READs are faster: the slope is 0 and the base is the mean. The best line has a
    // negative base: it goes through the origin instead.
    assert_eq!(of(&[(8, 200), (16, 100)]), Some(ReadCost { base_ps: 150_000, bucket_ps: 0 }));
    assert_eq!(of(&[(10, 0), (20, 100)]), Some(ReadCost { base_ps: 0, bucket_ps: 4_000 }));
    // Noise around 1000 + 2 x.
    let noisy = [(8, 1_026), (16, 1_022), (32, 1_074), (64, 1_118), (128, 1_266)];
    let found = of(&noisy).unwrap();
    assert!(found.base_ps.abs_diff(1_000_000) < 10_000, "{found:?}");
    assert!(found.bucket_ps.abs_diff(2_000) < 150, "{found:?}");
    // Neither an unlimited length nor the maximum number of measurements changes the fit.
    let flat = [(8, 1_000), (u32::MAX, 1_000)].repeat(1 << 15);
    assert_eq!(of(&flat), Some(ReadCost { base_ps: 1_000_000, bucket_ps: 0 }));
}

#[test]
fn extreme_measurements_overflow_nothing() {
    let of = ReadCost::from_measurements;
    const MAX: (u32, u64) = (u32::MAX, u64::MAX);
    for times in [1, 1 << 15, 1 << 17] {
        assert_eq!(of(&[MAX].repeat(times)), None, "one length is no line");
        for pair in [[(0, 0), MAX], [(0, u64::MAX), (u32::MAX, 0)], [(1, u64::MAX), MAX]] {
            assert!(of(&pair.repeat(times)).is_some(), "{pair:?}");
        }
    }
    let spread: Vec<_> = (0..1 << 17).map(|i: u32| (i.wrapping_mul(65_535), u64::MAX)).collect();
    assert!(of(&spread).is_some());
}

#[test]
fn expect_resets_to_one_line() {
    let mut chooser = Chooser::new(ChunkChoice::Adaptive(PAPER.0), 128, ReadAhead::Likely);
    let first = chooser.chunks(false);
    assert_eq!(first, (8, u32::MAX));
    for _ in 0..FIRST_INTERVAL {
        chooser.ended(100);
    }
    assert_eq!(chooser.chunks(false).0, 104, "the table is full of others' keys");
    chooser.expect(1);
    assert_eq!(chooser.chunks(false), first);
}

#[test]
fn extreme_costs_choose_valid_c() {
    let dear = ReadCost { base_ps: u64::MAX, bucket_ps: u64::MAX };
    let free = ReadCost { base_ps: 0, bucket_ps: 0 };
    for cost in [dear, free] {
        for max in [0, 7, 8, 64, u32::MAX] {
            let mut chooser = Chooser::new(ChunkChoice::Adaptive(cost), max, ReadAhead::Likely);
            for buckets in [0, 1, u32::MAX].iter().cycle().take(100_000) {
                chooser.ended(*buckets);
                let c = chooser.chunks(false).0;
                assert!(c >= 8 && c.is_multiple_of(8) && c <= max.max(8));
            }
        }
    }
    let odd = Chooser::new(ChunkChoice::Fixed, 1 << 16, ReadAhead::Likely);
    assert_eq!(odd.chunks(false), (1 << 16, u32::MAX));
}
