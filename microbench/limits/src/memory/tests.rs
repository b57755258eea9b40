use super::*;

use core::sync::atomic::Ordering::Relaxed;

const MOMENT: Duration = Duration::from_millis(2);

fn rates(memory: &Memory) -> [f64; 5] {
    [
        memory.dependent_reads,
        memory.prefetched_reads,
        memory.keyed_reads,
        memory.reads_then_swaps,
        memory.keyed_reads_then_swaps,
    ]
    .map(|rate| rate.per_second)
}

/// Returns words that are all different, some of them empty.
fn words(count: u64) -> Vec<AtomicU64> {
    (0..count).map(|n| AtomicU64::new(if n % 3 == 0 { 0 } else { n })).collect()
}

#[test]
fn all_rates_are_measured_and_words_are_unchanged() {
    let all = words(1 << 16);
    // Only whole lines of these words are used, although the first one starts within a line.
    for from in 0..8 {
        let memory = measure(&[&all[from..]], MOMENT).unwrap();
        assert!(rates(&memory).iter().all(|rate| rate.is_finite() && *rate > 0.0), "{memory:?}");
        for rate in [memory.prefetched_reads, memory.reads_then_swaps] {
            assert!([8, 16, 32, 64].contains(&rate.by.unwrap().lines), "{rate:?}");
        }
        assert_ne!(memory.prefetched_reads.by.unwrap().hint, Hint::Write);
        assert_eq!(memory.dependent_reads.by, None);
    }
    for (now, before) in all.iter().zip(words(1 << 16)) {
        assert_eq!(now.load(Relaxed), before.into_inner());
    }
}

#[test]
fn parts_are_measured_together() {
    let all = words(1 << 16);
    let parts: Vec<_> = all.chunks(1 << 14).collect();
    let memory = measure(&parts, MOMENT).unwrap();
    assert!(rates(&memory).iter().all(|rate| rate.is_finite() && *rate > 0.0), "{memory:?}");
}

#[test]
fn tiny_memory_is_refused() {
    let all = words(1024 * 8 + 8);
    let lines = crate::lines::whole(&all);
    // The words start within a line, so the first ones form no whole line.
    let begun = &lines.as_flattened()[1..];
    let too_small = |lines| Err(MemoryError::TooSmall { lines, least: 1024 });
    for (words, lines) in [(&begun[..0], 0), (&begun[..6], 0), (&begun[..1023 * 8 + 7], 1023)] {
        assert_eq!(measure(&[words], MOMENT), too_small(lines));
        assert_eq!(measure(&[&all, words], MOMENT), too_small(lines));
    }
    assert_eq!(measure(&[], MOMENT), too_small(0));
    assert!(measure(&[&lines.as_flattened()[..1024 * 8]], MOMENT).is_ok());
}

#[test]
fn a_measurement_takes_the_given_time() {
    let all = words(1 << 16);
    let each = Duration::from_millis(40);
    let start = std::time::Instant::now();
    measure(&[&all], each).unwrap();
    let took = start.elapsed();
    // Five measurements.
    assert!(took >= each * 5, "{took:?}");
}
