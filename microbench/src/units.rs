//! Times and rates in a unit that fits, with three significant digits.

/// A time with its unit: ns, us, ms or s.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 999.5 => format!("{} ns", significant(ns)),
        ns if ns < 999.5e3 => format!("{} us", significant(ns / 1e3)),
        ns if ns < 999.5e6 => format!("{} ms", significant(ns / 1e6)),
        ns => format!("{} s", significant(ns / 1e9)),
    }
}

/// A rate with its unit: /s, k/s or M/s.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        rate if rate < 999.5 => format!("{} /s", significant(rate)),
        rate if rate < 999.5e3 => format!("{} k/s", significant(rate / 1e3)),
        rate => format!("{} M/s", significant(rate / 1e6)),
    }
}

/// Three significant digits.
pub(crate) fn significant(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_unit_that_fits() {
        for (per_s, text) in
            [(85.3, "85.3 /s"), (1_862.0, "1.86 k/s"), (5e7, "50.0 M/s"), (999_900.0, "1.00 M/s")]
        {
            assert_eq!(rate(per_s), text);
        }
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        for (ns, text) in [
            (4.56, "4.56 ns"),
            (853.0, "853 ns"),
            (999.7, "1.00 us"),
            (1_862.0, "1.86 us"),
            (5e7, "50.0 ms"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
