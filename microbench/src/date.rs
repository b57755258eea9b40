//! The day, for what is kept.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_A_DAY: u64 = 86_400;

/// Today in UTC, as ISO 8601 has it: 2026-11-21.
pub(crate) fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    day(since.as_secs() / SECONDS_A_DAY)
}

/// The day so many days after 1970-01-01. Years begin with March, so that the odd day is their
/// last, and come in rounds of 400, which are 146097 days.
fn day(days: u64) -> String {
    let days = days + 719_468;
    let (round, of_round) = (days / 146_097, days % 146_097);
    let year = (of_round - of_round / 1_460 + of_round / 36_524 - of_round / 146_096) / 365;
    let of_year = of_round - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", 400 * round + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, date) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (20_778, "2026-11-21"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(day(days), date);
        }
    }
}
