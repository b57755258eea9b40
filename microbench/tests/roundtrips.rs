//! Compares `roundtrips` with the figures of the paper's authors.

use std::collections::HashMap;

use crate::common::{Rows, read_rows, rows};

const PUBLISHED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/oortwijn2015-roundtrips.csv");

fn number(row: &HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap()
}

/// Returns pairs of a published and a measured point: C, load factor, published, measured.
fn pairs(published: &Rows, measured: &Rows, column: &str) -> Vec<[f64; 4]> {
    let find = |c: f64, alpha: f64| {
        let same = |row: &&_| {
            number(row, "chunk_buckets") == c && (number(row, "load_factor") - alpha).abs() < 1e-9
        };
        measured.iter().find(same)
    };
    let pair = |row| {
        let (c, alpha) = (number(row, "chunk_size"), number(row, "load_factor"));
        find(c, alpha).map(|found| [c, alpha, number(row, column), number(found, column)])
    };
    published.iter().filter_map(pair).collect()
}

/// Prints and returns the largest deviation in per cent.
fn largest_deviation(pairs: &[[f64; 4]], column: &str) -> f64 {
    let per_cent =
        |[_, _, published, measured]: [f64; 4]| 100.0 * (measured / published - 1.0).abs();
    let worst = pairs.iter().copied().max_by(|a, b| per_cent(*a).total_cmp(&per_cent(*b))).unwrap();
    let [c, alpha, published, measured] = worst;
    println!(
        "{column}, {} points: largest deviation {:.2} % at C = {c}, load factor {alpha}: published \
         {published}, measured {measured:.4}",
        pairs.len(),
        per_cent(worst)
    );
    per_cent(worst)
}

/// The table is 64 times smaller than the authors', which only increases the noise. M is that of
/// their program, since their files are consistent with no other.
#[test]
fn shm_reproduces_paper() {
    let published = read_rows(PUBLISHED);
    assert_eq!(published.len(), 230);
    let (measured, _) = rows(&[
        "roundtrips",
        "--ranks",
        "2",
        "--transport",
        "shm",
        "-M",
        "64",
        "--table-size",
        "32MiB",
        "-C",
        "8,16,32,64,128",
    ]);
    assert_eq!(measured.len(), 230);
    for column in ["outgoing_roundtrips", "effective_roundtrips"] {
        let pairs = pairs(&published, &measured, column);
        assert_eq!(pairs.len(), 230);
        // The minimum is one roundtrip, of which this is 0.02.
        assert!(largest_deviation(&pairs, column) <= 2.0);
    }
}

/// The table is small, so few inserts are averaged; load factors where single inserts matter are
/// omitted.
#[test]
fn simulator_approximates_paper() {
    let mut published = read_rows(PUBLISHED);
    published.retain(|row| number(row, "load_factor") <= 0.7);
    let (measured, _) =
        rows(&["roundtrips", "--transport", "sim", "--table-size", "1MiB", "-C", "8,64"]);
    for column in ["outgoing_roundtrips", "effective_roundtrips"] {
        let pairs = pairs(&published, &measured, column);
        assert_eq!(pairs.len(), 70);
        assert!(largest_deviation(&pairs, column) <= 5.0);
    }
}
