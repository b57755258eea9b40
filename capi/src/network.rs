//! The transport of a job: which one, its options, and how engines are opened.

use core::ffi::c_int;
use core::fmt::Display;
use std::env;

use probeline::transport::Sizes;

use crate::call::text;
use crate::job_options::{
    PROBELINE_TRANSPORT_MPI, PROBELINE_TRANSPORT_SHM, PROBELINE_TRANSPORT_UCX,
    PROBELINE_TRANSPORT_VERBS, probeline_job_options,
};
use crate::rendezvous::Rendezvous;
use crate::status::Error;
#[cfg(not(all(feature = "shm", feature = "verbs", feature = "ucx", feature = "mpi")))]
use crate::status::not_built;
use crate::structure::Engine;

/// The environment variable with the transport.
const TRANSPORT_VARIABLE: &str = "PROBELINE_TRANSPORT";

/// The transport and its options.
pub(crate) struct Network {
    pub(crate) transport: Transport,
    word_reads_whole: bool,
    device: Option<String>,
    port: Option<u8>,
    gid_index: Option<u8>,
    ucx_tls: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Shm,
    Verbs,
    Ucx,
    Mpi,
}

impl Transport {
    /// Returns the transport that the environment names, if it does.
    pub(crate) fn from_env() -> Result<Option<Self>, Error> {
        env::var(TRANSPORT_VARIABLE).ok().map(|name| Self::named(&name)).transpose()
    }

    /// Returns the transport of an option.
    fn of(option: c_int) -> Result<Self, Error> {
        Ok(match option {
            PROBELINE_TRANSPORT_SHM => Self::Shm,
            PROBELINE_TRANSPORT_VERBS => Self::Verbs,
            PROBELINE_TRANSPORT_UCX => Self::Ucx,
            PROBELINE_TRANSPORT_MPI => Self::Mpi,
            // PROBELINE_TRANSPORT_AUTO.
            _ => Self::from_env()?.unwrap_or(Self::Shm),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Verbs => "verbs",
            Self::Ucx => "ucx",
            Self::Mpi => "mpi",
        }
    }

    fn named(name: &str) -> Result<Self, Error> {
        let all = [Self::Shm, Self::Verbs, Self::Ucx, Self::Mpi];
        let text = "is not a transport: give shm, verbs, ucx or mpi";
        let unknown = || Error::invalid(format_args!("{TRANSPORT_VARIABLE}={name} {text}"));
        all.into_iter().find(|transport| transport.name() == name).ok_or_else(unknown)
    }
}

/// Returns a checked option of a byte; `None` if it is `unset`.
fn byte(value: c_int, unset: c_int) -> Option<u8> {
    u8::try_from(value).ok().filter(|_| value != unset)
}

impl Network {
    /// # Safety
    /// The texts of the options are NULL or end with NUL.
    pub(crate) unsafe fn new(options: &probeline_job_options) -> Result<Self, Error> {
        // SAFETY: the caller passes options whose texts are NULL or end with NUL (# Safety).
        let (device, ucx_tls) =
            unsafe { (text(options.device, "device")?, text(options.ucx_tls, "ucx_tls")?) };
        Ok(Self {
            transport: Transport::of(options.transport)?,
            word_reads_whole: options.word_reads_whole != 0,
            device,
            port: byte(options.port, 0),
            gid_index: byte(options.gid_index, -1),
            ucx_tls,
        })
    }

    /// Returns the name of the transport and its maximum depth; one that was not built has none.
    pub(crate) fn max_depth(&self) -> (&'static str, u32) {
        let depth = match self.transport {
            #[cfg(feature = "shm")]
            Transport::Shm => probeline::shm::MAX_DEPTH,
            #[cfg(feature = "verbs")]
            Transport::Verbs => probeline::verbs::MAX_DEPTH,
            #[cfg(feature = "ucx")]
            Transport::Ucx => probeline::ucx::MAX_DEPTH,
            #[cfg(feature = "mpi")]
            Transport::Mpi => probeline::mpi::MAX_DEPTH,
            #[cfg(not(all(feature = "shm", feature = "verbs", feature = "ucx", feature = "mpi")))]
            _ => u32::MAX,
        };
        (self.transport.name(), depth)
    }

    /// Returns a transport with its default options.
    pub(crate) fn over(transport: Transport) -> Self {
        let (device, port, gid_index, ucx_tls) = (None, None, None, None);
        Self { transport, word_reads_whole: false, device, port, gid_index, ucx_tls }
    }

    /// Opens an engine together with the other ranks.
    pub(crate) fn open(&self, sizes: Sizes, ranks: &mut Rendezvous) -> Result<Engine, Error> {
        match self.transport {
            #[cfg(feature = "shm")]
            Transport::Shm => opened(probeline::shm::Builder::new(sizes).open(ranks.exchange())),
            #[cfg(feature = "verbs")]
            Transport::Verbs => {
                let builder = probeline::verbs::Builder::new(sizes)
                    .device(self.device.as_deref())
                    .port(self.port)
                    .gid_index(self.gid_index)
                    .word_reads_whole(self.word_reads_whole);
                opened(builder.open(ranks.exchange()))
            }
            #[cfg(feature = "ucx")]
            Transport::Ucx => {
                let builder = probeline::ucx::Builder::new(sizes)
                    .tls(self.ucx_tls.as_deref())
                    .device(self.device.as_deref())
                    .gid_index(self.gid_index)
                    .word_reads_whole(self.word_reads_whole);
                opened(builder.open(ranks.exchange()))
            }
            #[cfg(feature = "mpi")]
            Transport::Mpi => {
                let Rendezvous::Mpi(members) = ranks else {
                    return Err(Error::open("the ranks of this job did not meet through MPI"));
                };
                let builder = probeline::mpi::Builder::new(sizes);
                opened(builder.word_reads_whole(self.word_reads_whole).open(members))
            }
            #[cfg(not(all(feature = "shm", feature = "verbs", feature = "ucx", feature = "mpi")))]
            transport => Err(not_built(transport.name())),
        }
    }
}

fn opened<E: Display>(
    engine: Result<impl probeline::transport::Transport + 'static, E>,
) -> Result<Engine, Error> {
    engine.map(Engine::new).map_err(Error::open)
}
