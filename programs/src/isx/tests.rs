use probeline::exchange::threads;
use probeline::shm::Builder;
use probeline::transport::conformance::on_threads;

use super::*;

/// Sorts by this many ranks; returns the keys of all in order of ranks.
fn sort(options: &Options, ranks: u32) -> Vec<u32> {
    let sorted = on_threads(threads(ranks), |mut job| {
        let engine = Builder::new(options.sizes(ranks)).open(&mut job).unwrap();
        run(options, engine, |_| 0, &mut job).unwrap().1
    });
    sorted.concat()
}

#[test]
fn ranks_sort_together() {
    for (carrier, ranks, keys) in [
        (Carrier::Lanes, 1, 1000),
        (Carrier::Queues, 1, 1),
        (Carrier::Lanes, 3, 20_000),
        (Carrier::Queues, 3, 20_000),
        (Carrier::Queues, 2, 40),
    ] {
        let options = Options { keys, carrier, seed: 7 };
        let sorted = sort(&options, ranks);
        let mut expected = Vec::new();
        for rank in 0..ranks {
            let mut sorter = Sorter::new(Owner(rank), ranks);
            sorter.make(keys, 7);
            expected.append(&mut sorter.made);
        }
        expected.sort_unstable();
        assert_eq!(sorted, expected, "{options:?} {ranks}");
    }
}

#[test]
fn finds_wrong_results() {
    let alone = &mut probeline::transport::Alone;
    let sorter = |made: &[u32], received: &[u32]| Sorter {
        made: made.to_vec(),
        part_bits: 0,
        parts: vec![received.to_vec()],
        ..Sorter::new(Owner(0), 1)
    };
    sorter(&[3, 1, 3], &[1, 3, 3]).verify(alone).unwrap();
    for received in [&[3, 1, 3][..], &[1, 3], &[1, 1, 3], &[1, 2, 4]] {
        sorter(&[3, 1, 3], received).verify(alone).unwrap_err();
    }
    let stray = Sorter { ranks: 2, ..sorter(&[], &[1, 1 << 27]) };
    assert!(stray.verify_ranges(alone).unwrap_err().to_string().contains("1 keys"));
    Sorter { ranks: 2, ..sorter(&[], &[1, (1 << 27) - 1]) }.verify_ranges(alone).unwrap();
}
