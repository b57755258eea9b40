//! A time limit that a busy host does not use up.

use core::time::Duration;
use std::fs;
use std::time::Instant;

/// Of the time in which processes of the host waited for a CPU, this part counts nevertheless, so that
/// every limit ends: after at most 8 times its length.
const COUNTED_SHARE: u32 = 8;

/// A limit that does not count time in which processes of the host waited for a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    start: Instant,
    pressure: Option<Duration>,
    length: Duration,
}

impl Limit {
    /// Starts a limit of this length on a quiet host.
    pub(crate) fn start(length: Duration) -> Self {
        Self { start: Instant::now(), pressure: pressure(), length }
    }

    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// Returns the minimum time until the limit ends; zero once it has ended.
    pub(crate) fn left(&self) -> Duration {
        let waited = pressure().zip(self.pressure).map(|(now, then)| now.saturating_sub(then));
        self.length.saturating_sub(counted(self.start.elapsed(), waited.unwrap_or_default()))
    }
}

fn counted(elapsed: Duration, waited: Duration) -> Duration {
    elapsed.saturating_sub(waited).max(elapsed / COUNTED_SHARE)
}

/// Returns the time since boot in which some process waited for a CPU (kernel documentation:
/// Documentation/accounting/psi.rst); `None` if the kernel does not count it.
fn pressure() -> Option<Duration> {
    parse(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn parse(text: &str) -> Option<Duration> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discounts_cpu_waits_within_limit() {
        let s = Duration::from_secs;
        assert_eq!(counted(s(100), s(0)), s(100));
        assert_eq!(counted(s(100), s(60)), s(40));
        assert_eq!(counted(s(80), s(80)), s(10));
        assert_eq!(counted(s(80), s(90)), s(10));
    }

    #[test]
    fn parses_pressure() {
        let text = "some avg10=99.28 avg60=99.45 avg300=99.41 total=2677145925\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(parse(text), Some(Duration::from_micros(2_677_145_925)));
        assert_eq!(parse(""), None);
    }
}
