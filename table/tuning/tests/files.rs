//! Tunings as texts: what is written is read, and what is no tuning is refused where it stands.

use probeline_table::{FirstClaim, ReadAhead};
use probeline_tuning::{Expected, Tuning};
use proptest::prelude::*;

fn tunings() -> impl Strategy<Value = Tuning> {
    let ahead = prop::sample::select(vec![ReadAhead::Always, ReadAhead::Likely, ReadAhead::Never]);
    let claim = prop::sample::select(vec![FirstClaim::Off, FirstClaim::On, FirstClaim::Auto]);
    let expected = (0.0..=1.0, 0.0..=1.0, 0.0..1e15, 0.0..1e15).prop_map(
        |(load_factor, insert_share, latency_ns, ops_per_s)| Expected {
            load_factor,
            insert_share,
            latency_ns,
            ops_per_s,
        },
    );
    let numbers = (1_u32..=1 << 13, 1_u32..=1 << 16, 1_u32..=1 << 14, prop::option::of(0_u32..=30));
    (any::<String>(), numbers, ahead, claim, any::<bool>(), prop::option::of(expected)).prop_map(
        |(
            origin,
            (lines, max_chunks, in_flight, cache),
            read_ahead,
            first_claim,
            direct,
            expected,
        )| {
            Tuning {
                origin,
                chunk_buckets: 8 * lines,
                max_chunks,
                read_ahead,
                first_claim,
                direct,
                in_flight,
                cache_entries: cache.map_or(0, |power| 1 << power),
                expected,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(tuning in tunings()) {
        prop_assert_eq!(Tuning::parse(&tuning.to_toml()), Ok(tuning));
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>()) {
        prop_assert!(Tuning::parse(&text).is_err());
    }
}

#[test]
fn what_is_no_tuning_is_refused_where_it_stands() {
    let text = Tuning::default().to_toml();
    let cases = [
        ("version = 1", "version = 2", "line 3: version 2 is not 1, which this program reads"),
        ("direct = true", "direct = 1", "this is to be true or false"),
        ("direct = true", "derict = true", "no tuning has the key \"table.derict\""),
        ("in_flight = 32", "", "in_flight is missing: add in_flight"),
        ("in_flight = 32", "in_flight = 0", "whole number from 1 to 16384"),
        ("chunk_buckets = 32", "chunk_buckets = 12", "multiple of 8"),
        ("cache_entries = 0", "cache_entries = 3", "0 or a power of two"),
        ("\"likely\"", "\"perhaps\"", "\"perhaps\" is none of always, likely, never"),
        ("[rank]", "[ranks]", "no tuning has the key \"ranks\""),
        ("[rank]", "[rank", "no TOML"),
        ("[table]", "table = 1\n[more]", "no tuning has the key \"more\""),
    ];
    for (old, new, expected) in cases {
        assert!(text.contains(old), "{old}");
        let said = Tuning::parse(&text.replacen(old, new, 1)).unwrap_err().to_string();
        assert!(said.contains(expected), "{new}: {said}");
    }
    let line = 1 + text[..text.find("direct").unwrap()].matches('\n').count();
    let wrong = text.replace("direct = true", "derict = true");
    assert_eq!(Tuning::parse(&wrong).unwrap_err().line, line);
}

#[test]
fn a_tuning_becomes_a_configuration() {
    let tuning = Tuning { chunk_buckets: 64, max_chunks: 5, direct: false, ..Tuning::default() };
    let config = tuning.config(4096);
    assert_eq!((config.chunk_buckets, config.max_chunks, config.direct), (64, 5, false));
    assert_eq!(config.buckets_per_owner, 4096);
    assert_eq!(Tuning { in_flight: 1, ..tuning }.operations(), 2);
}
