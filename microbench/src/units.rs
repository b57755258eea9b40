//! Formats numbers for people: times and rates with three significant digits and a fitting unit,
//! counts with a comma between groups of three digits.

/// Formats a time with its unit: ns, us, ms or s.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 999.5 => format!("{} ns", significant(ns)),
        ns if ns < 999.5e3 => format!("{} us", significant(ns / 1e3)),
        ns if ns < 999.5e6 => format!("{} ms", significant(ns / 1e6)),
        ns => format!("{} s", significant(ns / 1e9)),
    }
}

/// Formats a rate with its unit: /s, k/s or M/s.
pub(crate) fn rate(per_s: f64) -> String {
    rate_of("", per_s)
}

/// Formats a rate of named things: `2.12 M states/s`.
pub(crate) fn rate_of(what: &str, per_s: f64) -> String {
    let (value, prefix) = match per_s {
        rate if rate < 999.5 => (rate, ""),
        rate if rate < 999.5e3 => (rate / 1e3, "k"),
        rate => (rate / 1e6, "M"),
    };
    let unit = [prefix, what].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
    format!("{} {}/s", significant(value), unit.join(" "))
}

/// Formats a count with its noun: `1 rank`, `2,546,432 states`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {what}{s}", thousands(number))
}

/// Formats a number with a comma between groups of three digits.
pub(crate) fn thousands(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

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
    fn scales_rate_units() {
        for (per_s, text) in
            [(85.3, "85.3 /s"), (1_862.0, "1.86 k/s"), (5e7, "50.0 M/s"), (999_900.0, "1.00 M/s")]
        {
            assert_eq!(rate(per_s), text);
        }
        assert_eq!(rate_of("states", 500.0), "500 states/s");
        assert_eq!(rate_of("states", 2_122_026.7), "2.12 M states/s");
    }

    #[test]
    fn groups_and_pluralizes_counts() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (24_460_016, "24,460,016")]
        {
            assert_eq!(thousands(number), text);
        }
        assert_eq!(counted(1, "rank"), "1 rank");
        assert_eq!(counted(2_546_432, "state"), "2,546,432 states");
    }

    #[test]
    fn scales_time_units() {
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
