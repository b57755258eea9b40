//! The options of an engine.

use core::fmt;

use probeline_transport::{AtomicScope, Caps, Sizes};

use super::context::Settings;

/// The maximum depth of an engine.
pub const MAX_DEPTH: u32 = 1 << 16;

/// The thread that progresses peers' operations on an owner's window, if UCX needs the owner's CPU
/// for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A thread of the engine, which sleeps while there is nothing to do. It has a worker of its
    /// own, so that the engine's worker takes no lock.
    Thread,
    /// The caller's thread, by polling, also while it waits for others in an [`Exchange`](probeline_transport::Exchange): peers'
    /// operations on its window make no progress while it does not poll.
    Caller,
}

/// The atomics that UCP uses: `UCX_ATOMIC_MODE`, whose third value lets UCX choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomics {
    /// Consistent with the CPU's: by CPU instructions where the memory is shared, otherwise by the
    /// owner's CPU in software.
    Cpu,
    /// Those of a network device, if it has all atomics of UCP, otherwise by the owner's CPU in
    /// software.
    Device,
}

impl fmt::Display for Atomics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Device => "device",
        })
    }
}

/// The sizes of an engine and the transports of UCX that it uses. All owners of a job choose the
/// same sizes, atomics and progress.
///
/// The builder sets UCX's configuration. A variable of the environment with another value, such as
/// `UCX_TLS`, is an error. [`Info::environment`](super::Info::environment) lists UCX's variables.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) sizes: Sizes,
    pub(super) tls: Option<String>,
    device: Option<String>,
    pub(super) gid_index: Option<u8>,
    pub(super) atomics: Atomics,
    pub(super) progress: Progress,
    word_reads_whole: bool,
}

impl Builder {
    /// Configures an engine of these sizes, of a depth up to 2^16, with the transports that UCX
    /// chooses, [`Atomics::Cpu`] and [`Progress::Thread`].
    #[must_use]
    pub fn new(sizes: Sizes) -> Self {
        Self {
            sizes,
            tls: None,
            device: None,
            gid_index: None,
            atomics: Atomics::Cpu,
            progress: Progress::Thread,
            word_reads_whole: false,
        }
    }

    /// Sets the transports that UCX may use, separated by commas, such as `posix,sysv,cma,self`,
    /// `tcp` or `rc`: `UCX_TLS`. With `None` the environment decides, or UCX may use all.
    #[must_use]
    pub fn tls(mut self, tls: Option<&str>) -> Self {
        self.tls = tls.map(str::to_owned);
        self
    }

    /// Sets the network devices that UCX may use, such as `mlx5_0:1` or `eth0`: `UCX_NET_DEVICES`.
    /// With `None` the environment decides, or UCX may use all.
    #[must_use]
    pub fn device(mut self, device: Option<&str>) -> Self {
        self.device = device.map(str::to_owned);
        self
    }

    probeline_transport::setters! {
        /// Sets the index of this node's address in the port's GID table: `UCX_IB_GID_INDEX`. With
        /// `None` the environment or UCX decides.
        gid_index: Option<u8>,

        /// Sets the atomics that UCX uses: `UCX_ATOMIC_MODE`.
        atomics: Atomics,

        /// Sets which thread progresses peers' operations on this owner's window.
        progress: Progress,

        /// States that a READ over these transports never brings a torn word, which neither UCX nor a
        /// specification promises: [`Caps::word_reads_whole`]. If this is wrong, a table loses data.
        word_reads_whole: bool,
    }

    pub(super) fn settings(&self) -> Settings {
        let trimmed = |value: &Option<String>| value.as_ref().map(|value| value.trim().to_owned());
        [
            ("ATOMIC_MODE", Some(self.atomics.to_string())),
            ("TLS", trimmed(&self.tls)),
            ("NET_DEVICES", trimmed(&self.device)),
            ("IB_GID_INDEX", self.gid_index.map(|index| index.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// Returns the capabilities, before it is known whether any operation needs the owner's CPU.
    pub(super) fn caps(&self) -> Caps {
        Caps {
            depth: self.sizes.depth,
            // As `UCX_ATOMIC_MODE` defines them. Where the owner's CPU does atomics in software it
            // uses atomic instructions too, but UCX does not promise that.
            atomics: match self.atomics {
                Atomics::Cpu => AtomicScope::Cpu,
                Atomics::Device => AtomicScope::Device,
            },
            words_per_op: self.sizes.slot_words,
            word_reads_whole: self.word_reads_whole,
            write_then_atomic: false,
            names_lost_owners: false,
            needs_owner_progress: self.progress == Progress::Caller,
            poll_may_wait: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use probeline_transport::MAX_OWNERS;

    use super::*;
    use crate::{OpenError, SetupError};

    #[test]
    fn refuses_too_many_owners() {
        let error = Builder::new(Sizes::new(64))
            .open(&mut probeline_exchange::threads(MAX_OWNERS + 1)[0])
            .unwrap_err();
        let too_many = SetupError::TooManyOwners { found: MAX_OWNERS + 1 };
        assert!(matches!(&error, OpenError::Setup(found) if *found == too_many), "{error:?}");
    }
}
