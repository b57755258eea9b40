//! Compares `roundtrips` with the figures of the paper's authors.

use std::collections::HashMap;

use crate::common::{number_in, read_rows, rows};

const PUBLISHED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/oortwijn2015-roundtrips.csv");

/// The table is 64 times smaller than the authors', which only increases the noise. M is that of
/// their program, since their files are consistent with no other.
#[test]
fn reproduces_paper() {
    let run = "roundtrips --ranks 2 --transport shm -M 64 --table-size 32MiB -C 8,16,32,64,128";
    let (measured, _) = rows(&run.split(' ').collect::<Vec<_>>());
    let point = |row: &HashMap<String, String>, chunk: &str| {
        [chunk, "load_factor"].map(|column| (number_in(row, column) * 1000.0).round())
    };
    let published = read_rows(PUBLISHED);
    assert_eq!((published.len(), measured.len()), (230, 230));
    for theirs in &published {
        let at = point(theirs, "chunk_size");
        let ours = measured.iter().find(|row| point(row, "chunk_buckets") == at).unwrap();
        for column in ["outgoing_roundtrips", "effective_roundtrips"] {
            let off = number_in(ours, column) / number_in(theirs, column) - 1.0;
            // The minimum is one roundtrip, of which this is 0.02.
            assert!(off.abs() <= 0.02, "{column}: {off} in {ours:?}");
        }
    }
}
