//! Formats numbers for readers.

/// Formats three significant digits without an exponent.
pub(crate) fn significant(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if !size.is_finite() => return "-".to_owned(),
        _ if size >= 99.95 || size == 0.0 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.099_95 => 3,
        _ if size >= 0.009_995 => 4,
        _ => 6,
    };
    grouped(&format!("{value:.decimals$}"))
}

/// Formats a number of an axis or a parameter with at most six digits.
pub(crate) fn plain(value: f64) -> String {
    if value.abs() >= 1e6 {
        return significant(value);
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    grouped(if text == "-0" { "0" } else { text })
}

/// Counts ranks in words.
pub(crate) fn ranks_name(ranks: u64) -> String {
    if ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") }
}

/// Formats bytes in the largest unit that divides them.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    fits.map_or_else(|| format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

/// Puts thin spaces between groups of three digits, from 10,000 on.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && whole.len() > 4 && (whole.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.001_234, "0.001234"),
            (0.05, "0.0500"),
            (0.123_4, "0.123"),
            (1.0, "1.00"),
            (12.34, "12.3"),
            (99.97, "100"),
            (1_234.5, "1234"),
            (1_234_567.0, "1\u{202f}234\u{202f}567"),
            (-2.5, "-2.50"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn bytes_use_largest_dividing_unit() {
        assert_eq!(bytes(32 << 20), "32 MiB");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(100), "100 B");
    }

    #[test]
    fn trims_trailing_zeros() {
        for (value, text) in
            [(0.5, "0.5"), (8.0, "8"), (-0.0, "0"), (0.02, "0.02"), (16_384.0, "16\u{202f}384")]
        {
            assert_eq!(plain(value), text);
        }
    }
}
