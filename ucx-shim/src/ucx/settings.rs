//! What UCX is told to do, and what its own variables say.

use core::fmt;
use std::env;

use super::OpenError;

/// Which of UCP's atomics are used: `UCX_ATOMIC_MODE`, whose third value leaves it to UCX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomics {
    /// Consistent with the CPU's: by the CPU's own instructions where the memory is shared, else by
    /// the owner's CPU in software.
    Cpu,
    /// A network device's own, where UCX finds one with all that UCP has; else by the owner's CPU in
    /// software.
    Device,
}

impl Atomics {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Device => "device",
        }
    }
}

impl fmt::Display for Atomics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Variables of UCX, named without `UCX_`, and their values.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(Vec<(&'static str, String)>);

impl Settings {
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push((name, value.into()));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Fails where a variable of the environment says something else.
    pub(super) fn agree_with_environment(&self) -> Result<(), OpenError> {
        self.agree(|variable| env::var(variable).ok())
    }

    fn agree(&self, environment: impl Fn(&str) -> Option<String>) -> Result<(), OpenError> {
        for (name, asked) in self.iter() {
            let variable = format!("UCX_{name}");
            match environment(&variable) {
                Some(set) if set.trim() != asked => {
                    let asked = asked.to_owned();
                    return Err(OpenError::Contradiction { variable, set, asked });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// UCX's variables in the environment, as `NAME=VALUE`, sorted.
pub(super) fn environment() -> Vec<String> {
    let variables = env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?;
        name.starts_with("UCX_").then(|| format!("{name}={}", value.to_string_lossy()))
    });
    let mut variables: Vec<String> = variables.collect();
    variables.sort_unstable();
    variables
}

/// Whether `tls`, a value of `UCX_TLS`, allows transports that go through memory of this machine.
/// UCX has no handler of lost peers for them.
pub(super) fn allows_shared_memory(tls: Option<&str>) -> bool {
    const SHARED: [&str; 7] = ["all", "sm", "shm", "mm", "posix", "sysv", "xpmem"];
    let Some(tls) = tls else { return true };
    let (tls, excluded) = match tls.trim().strip_prefix('^') {
        Some(tls) => (tls, true),
        None => (tls.trim(), false),
    };
    let named = |one: &str| {
        // A leading backslash makes UCX take the name as it stands.
        tls.split(',').any(|name| name.trim().trim_start_matches('\\') == one)
    };
    if excluded {
        !SHARED[1..4].iter().any(|name| named(name))
    } else {
        SHARED.into_iter().any(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_may_say_the_same_and_nothing_else() {
        let mut settings = Settings::default();
        settings.set("TLS", "tcp");
        settings.set("ATOMIC_MODE", "cpu");
        let tls = |value: &'static str| {
            move |variable: &str| (variable == "UCX_TLS").then(|| value.to_owned())
        };
        assert!(settings.agree(|_| None).is_ok());
        assert!(settings.agree(tls("tcp")).is_ok());
        let Err(OpenError::Contradiction { variable, set, asked }) = settings.agree(tls("rc"))
        else {
            panic!("it contradicts");
        };
        assert_eq!([variable, set, asked], ["UCX_TLS", "rc", "tcp"]);
    }

    #[test]
    fn shared_memory_is_told_from_the_names() {
        for (tls, shared) in [
            (None, true),
            (Some("all"), true),
            (Some("tcp"), false),
            (Some("posix,self"), true),
            (Some("rc,self"), false),
            (Some("rc, sysv"), true),
            (Some("^tcp"), true),
            (Some("^shm"), false),
            (Some("ud,shm"), true),
        ] {
            assert_eq!(allows_shared_memory(tls), shared, "{tls:?}");
        }
    }
}
