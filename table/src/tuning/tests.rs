//! A written tuning is read back, and an invalid text is rejected with its line.

use proptest::prelude::*;

use super::*;

fn tunings() -> impl Strategy<Value = Tuning> {
    let ahead = prop::sample::select(vec![ReadAhead::Always, ReadAhead::Likely, ReadAhead::Never]);
    let claim = prop::sample::select(vec![OneRoundtrip::Off, OneRoundtrip::On, OneRoundtrip::Auto]);
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
            one_roundtrip,
            direct,
            expected,
        )| {
            Tuning {
                version: Version,
                origin,
                chunk_buckets: 8 * lines,
                max_chunks,
                read_ahead,
                one_roundtrip,
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
    fn write_then_parse(tuning in tunings()) {
        prop_assert_eq!(Tuning::parse(&tuning.to_toml()).unwrap(), tuning);
    }

    #[test]
    fn refuses_any_other_text(text in any::<String>()) {
        prop_assert!(Tuning::parse(&text).is_err());
    }
}

#[test]
fn names_line_of_invalid_text() {
    let text = Tuning::default().to_toml();
    let cases = [
        ("version = 1", "version = 2", "line 3: version 2, but this program reads version 1"),
        ("version = 1", "version = 2\nnew = 1", "run probeline tune again"),
        ("direct = true", "direct = 1", "expected a boolean"),
        ("direct = true", "derict = true", "unknown field `derict`, expected one of"),
        ("in_flight = 32", "", "missing field `in_flight`"),
        ("in_flight = 32", "in_flight = 0", "0 is not between 1 and 16384"),
        ("in_flight = 32", "in_flight = -1", "invalid value"),
        ("chunk_buckets = 32", "chunk_buckets = 12", "12 is not a multiple of 8"),
        ("cache_entries = 0", "cache_entries = 3", "3 is neither 0 nor a power of two"),
        ("\"likely\"", "\"perhaps\"", "unknown variant `perhaps`, expected one of `always`"),
        ("direct = true", "[more]", "unknown field `more`"),
        ("direct = true", "[more", "unclosed table"),
    ];
    for (old, new, expected) in cases {
        assert!(text.contains(old), "{old}");
        let said = Tuning::parse(&text.replacen(old, new, 1)).unwrap_err().to_string();
        assert!(said.contains(expected), "{new}: {said}");
    }
    let line = 1 + text[..text.find("direct").unwrap()].matches('\n').count();
    let wrong = text.replace("direct = true", "derict = true");
    let said = Tuning::parse(&wrong).unwrap_err().to_string();
    assert!(said.starts_with(&format!("line {line}: ")), "{said}");
}

#[test]
fn converts_to_config() {
    let tuning = Tuning { chunk_buckets: 64, max_chunks: 5, direct: false, ..Tuning::default() };
    let config = tuning.config(4096);
    assert_eq!((config.chunk_buckets, config.max_chunks, config.direct), (64, 5, false));
    assert_eq!(config.buckets_per_owner, 4096);
    assert_eq!(Tuning { in_flight: 1, ..tuning }.operations(), 2);
}
