use proptest::prelude::*;

use super::*;

/// Returns numbers of all magnitudes, of the common ones, and near decimals of few digits.
fn numbers() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |number| number.is_finite()),
        -1e9..1e9,
        (-1.0..1.0, -30..30).prop_map(|(fraction, power)| fraction * 10_f64.powi(power)),
        // Halves between two decimals, and their neighbours.
        (any::<i32>(), -40..40, 0_u64..3).prop_map(|(digits, power, ulps)| {
            let halfway: f64 = format!("{digits}5e{power}").parse().unwrap();
            f64::from_bits(halfway.to_bits().saturating_add(ulps).saturating_sub(1))
        }),
    ]
}

fn digits() -> impl Strategy<Value = u8> {
    1..=MAX_DIGITS_F64
}

fn by_text(number: f64, digits: u8) -> f64 {
    format!("{number:.*e}", usize::from(digits) - 1).parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn matches_core_formatting(number in numbers(), digits in digits()) {
        // Both round half to even; 0 and -0 print as themselves. Equal results are in the order of
        // the numbers and err by half a unit, as core's do.
        let expected = by_text(number, digits).clamp(f64::MIN, f64::MAX) + 0.0;
        prop_assert_eq!(round_f64(number, digits).to_bits(), expected.to_bits());
        prop_assert_eq!(round_f64(expected, digits).to_bits(), expected.to_bits());
    }

    #[test]
    fn rounds_f32(bits: u32, digits in 1..=MAX_DIGITS_F32) {
        let number = f32::from_bits(bits);
        prop_assume!(number.is_finite());
        let expected: f32 = format!("{number:.*e}", usize::from(digits) - 1).parse().unwrap();
        let expected = expected.clamp(f32::MIN, f32::MAX) + 0.0;
        let once = round_f32(number, digits);
        prop_assert_eq!(once.to_bits(), expected.to_bits());
        prop_assert_eq!(round_f32(once, digits).to_bits(), once.to_bits());
        let next = f32::from_bits(bits.wrapping_add(1));
        if next.is_finite() && number.is_sign_positive() {
            prop_assert!(once <= round_f32(next, digits));
        }
    }

    #[test]
    fn zeroes_keys_below_threshold(number in numbers(), digits in digits()) {
        let rounding = Rounding::<f64, 1>::new([Field::F64(digits)]).unwrap();
        let rounding = rounding.with_zero_below(1.26e-13).unwrap();
        let once = rounding.round(&number);
        prop_assert!(once.to_bits() == 0 || once.abs() >= 1.26e-13);
        prop_assert_eq!(rounding.round(&once).to_bits(), once.to_bits());
        if number.abs() >= 2e-13 {
            prop_assert_eq!(once.to_bits(), round_f64(number, digits).to_bits());
        }
    }
}

#[test]
fn canonicalizes_special_numbers() {
    let nans = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)];
    assert!(nans.iter().all(|nan| round_f64(*nan, 3).to_bits() == f64::NAN.to_bits()));
    let single_nans = [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)];
    assert!(single_nans.iter().all(|nan| round_f32(*nan, 3).to_bits() == f32::NAN.to_bits()));
    assert_eq!((round_f64(-0.0, 3).to_bits(), round_f32(-0.0, 3).to_bits()), (0, 0));
    assert_eq!(round_f64(f64::NEG_INFINITY, 3), f64::NEG_INFINITY);
    assert_eq!(round_f32(f32::INFINITY, 3), f32::INFINITY);
    for (number, digits) in [(f64::MAX, 2), (1.797e308, 2), (f64::MAX, 1)] {
        assert!(round_f64(number, digits).is_finite(), "{number:e}");
    }
    assert_eq!((round_f64(f64::MAX, 2), round_f64(f64::MIN, 2)), (f64::MAX, f64::MIN));
    assert_eq!(round_f32(f32::MAX, 4), f32::MAX);
    let min = f64::from_bits(1);
    assert_eq!((round_f64(min, 1), round_f64(-min, 15)), (min, -min));
    assert_eq!(round_f32(f32::from_bits(1), 3), f32::from_bits(1));
}

#[test]
fn rounds_fields_in_place() {
    let fields = [Field::F32(2), Field::Exact(2), Field::F64(3), Field::Exact(1)];
    let rounding = Rounding::<[u8; 15], 4>::new(fields).unwrap();
    let key = |single: f32, double: f64| -> [u8; 15] {
        let mut key = [7; 15];
        key[..4].copy_from_slice(&single.to_ne_bytes());
        key[6..14].copy_from_slice(&double.to_ne_bytes());
        key
    };
    assert_eq!(rounding.round(&key(1.234, 5.678_9e-30)), key(1.2, 5.68e-30));
}

#[test]
fn refuses_invalid_fields() {
    let message = |result: Result<Rounding<[f64; 2], 2>, ConfigError>| match result {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let new = Rounding::<[f64; 2], 2>::new;
    assert_eq!(
        message(new([Field::F64(3), Field::F32(3)])),
        "the number of bytes of all fields, in the order of those of a key, is 12: it must be 16"
    );
    assert_eq!(
        message(new([Field::F64(3), Field::F64(16)])),
        "the number of digits, if it is not Field::Exact, of field 1 (counted from 0) is 16: it must be 1 to 15"
    );
    assert_eq!(
        message(new([Field::F32(0), Field::Exact(12)])),
        "the number of digits, if it is not Field::Exact, of field 0 (counted from 0) is 0: it must be 1 to 6"
    );
    assert!(message(new([Field::Exact(usize::MAX), Field::F64(1)])).contains("bytes"));
    let valid = new([Field::F64(3), Field::Exact(8)]).unwrap();
    for threshold in [-1e-13, f64::NAN, f64::INFINITY] {
        assert!(message(valid.with_zero_below(threshold)).contains("threshold"));
    }
    assert_eq!(message(valid.with_zero_below(0.0)), "");
}
