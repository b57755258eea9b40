//! The retries of a queue pair.

use core::fmt;
use core::time::Duration;

use probeline_transport::SetupError;

/// The time for which a queue pair waits for an acknowledgement, and the number of its retries. No
/// value makes it wait forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    timeout: u8,
    count: u8,
}

const TIMEOUT: &str = "the timeout of a queue pair (1 is 8 us, 0 waits forever)";
const COUNT: &str = "the number of retries (some devices retry forever with 7)";

impl Retry {
    /// Waits 4.096 us times 2^`timeout` (1 to 31) for an acknowledgement, and retries `count` times
    /// (0 to 6) (InfiniBand specification, 9.7.6.1.3).
    ///
    /// # Errors
    /// [`SetupError::Range`] for other values: with 0 the timer is off, the field has five bits, and
    /// Soft-RoCE retries forever with the largest number of retries.
    pub const fn new(timeout: u8, count: u8) -> Result<Self, SetupError> {
        let checked = match SetupError::check(TIMEOUT, timeout as u64, 1, 31) {
            Ok(()) => SetupError::check(COUNT, count as u64, 0, 6),
            refused => refused,
        };
        match checked {
            Ok(()) => Ok(Self { timeout, count }),
            Err(error) => Err(error),
        }
    }

    /// Returns the exponent of the timeout.
    #[must_use]
    pub const fn timeout(&self) -> u8 {
        self.timeout
    }

    /// Returns the number of retries.
    #[must_use]
    pub const fn count(&self) -> u8 {
        self.count
    }

    /// Returns the time after which a request without an answer fails, if the device keeps to the
    /// timer. The specification allows it up to four times as long.
    #[must_use]
    pub const fn bound(&self) -> Duration {
        Duration::from_nanos((4096_u64 << self.timeout) * (self.count as u64 + 1))
    }
}

impl Default for Retry {
    /// Returns 268 ms, seven times: 1.9 s. With less, requests to healthy peers fail on busy virtual
    /// machines.
    fn default() -> Self {
        Self { timeout: 16, count: 6 }
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (timeout, count, bound) = (self.timeout, self.count, self.bound());
        write!(f, "timeout {timeout}, {count} retries: a lost peer fails after {bound:.1?}")
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn refuses_endless_retries() {
        let refused = |what, found, min, max| Err(SetupError::Range { what, found, min, max });
        for timeout in [0, 32] {
            assert_eq!(Retry::new(timeout, 3), refused(TIMEOUT, timeout.into(), 1, 31));
        }
        for count in [7, 200] {
            assert_eq!(Retry::new(14, count), refused(COUNT, count.into(), 0, 6));
        }
    }

    #[test]
    fn displays_bound() {
        assert_eq!(Retry::new(14, 6).unwrap().bound().as_millis(), 469);
        assert_eq!(Retry::default().bound().as_millis(), 1879);
        let text = Retry::default().to_string();
        assert_eq!(text, "timeout 16, 6 retries: a lost peer fails after 1.9s");
    }
}
