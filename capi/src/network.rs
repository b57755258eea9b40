//! The transport of a job: which one, its options, and how engines are opened.

use core::ffi::c_int;
use core::fmt::Display;
use std::env;

use probeline::transport::Sizes;

use crate::call::text;
#[cfg(feature = "mpi")]
use crate::job_options::PROBELINE_TRANSPORT_MPI;
use crate::job_options::{
    PROBELINE_TRANSPORT_AUTO, PROBELINE_TRANSPORT_SHM, PROBELINE_TRANSPORT_UCX,
    PROBELINE_TRANSPORT_VERBS, probeline_job_options,
};
use crate::options::Options;
use crate::rendezvous::Rendezvous;
use crate::status::{Error, not_built};
use crate::structure::Engine;

/// The environment variable with the transport.
const TRANSPORT_VARIABLE: &str = "PROBELINE_TRANSPORT";
/// Names of the transports, in the order of their constants.
const NAMES: [&str; 5] = ["auto", "shm", "verbs", "ucx", "mpi"];

/// The transport and its options.
pub(crate) struct Network {
    /// PROBELINE_TRANSPORT_..., but not PROBELINE_TRANSPORT_AUTO.
    pub(crate) transport: c_int,
    options: probeline_job_options,
    device: Option<String>,
    ucx_tls: Option<String>,
}

/// Returns the transport that the environment names, if it does.
pub(crate) fn from_env() -> Result<Option<c_int>, Error> {
    let Ok(name) = env::var(TRANSPORT_VARIABLE) else { return Ok(None) };
    let mut all = (PROBELINE_TRANSPORT_AUTO..).zip(NAMES).skip(1);
    let text = "is not a transport: give shm, verbs, ucx or mpi";
    let unknown = || Error::invalid(format_args!("{TRANSPORT_VARIABLE}={name} {text}"));
    all.find(|(_, known)| *known == name).map(|(found, _)| Some(found)).ok_or_else(unknown)
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
        let transport = match options.transport {
            PROBELINE_TRANSPORT_AUTO => from_env()?.unwrap_or(PROBELINE_TRANSPORT_SHM),
            given => given,
        };
        Ok(Self { transport, options: *options, device, ucx_tls })
    }

    /// Returns a transport with its default options.
    pub(crate) fn over(transport: c_int) -> Self {
        Self { transport, options: probeline_job_options::DEFAULT, device: None, ucx_tls: None }
    }

    fn name(&self) -> &'static str {
        usize::try_from(self.transport).ok().and_then(|at| NAMES.get(at)).unwrap_or(&NAMES[0])
    }

    /// Returns the name of the transport and its maximum depth; one that was not built has none.
    pub(crate) fn max_depth(&self) -> (&'static str, u32) {
        let depth = match self.transport {
            #[cfg(feature = "shm")]
            PROBELINE_TRANSPORT_SHM => probeline::shm::MAX_DEPTH,
            #[cfg(feature = "verbs")]
            PROBELINE_TRANSPORT_VERBS => probeline::verbs::MAX_DEPTH,
            #[cfg(feature = "ucx")]
            PROBELINE_TRANSPORT_UCX => probeline::ucx::MAX_DEPTH,
            #[cfg(feature = "mpi")]
            PROBELINE_TRANSPORT_MPI => probeline::mpi::MAX_DEPTH,
            _ => u32::MAX,
        };
        (self.name(), depth)
    }

    /// Opens an engine together with the other ranks.
    pub(crate) fn open(&self, sizes: Sizes, ranks: &mut Rendezvous) -> Result<Engine, Error> {
        let word_reads_whole = self.options.word_reads_whole != 0;
        let gid_index = byte(self.options.gid_index, -1);
        match self.transport {
            #[cfg(feature = "shm")]
            PROBELINE_TRANSPORT_SHM => {
                opened(probeline::shm::Builder::new(sizes).open(ranks.exchange()))
            }
            #[cfg(feature = "verbs")]
            PROBELINE_TRANSPORT_VERBS => {
                let builder = probeline::verbs::Builder::new(sizes)
                    .device(self.device.as_deref())
                    .port(byte(self.options.port, 0))
                    .gid_index(gid_index)
                    .word_reads_whole(word_reads_whole);
                opened(builder.open(ranks.exchange()))
            }
            #[cfg(feature = "ucx")]
            PROBELINE_TRANSPORT_UCX => {
                let builder = probeline::ucx::Builder::new(sizes)
                    .tls(self.ucx_tls.as_deref())
                    .device(self.device.as_deref())
                    .gid_index(gid_index)
                    .word_reads_whole(word_reads_whole);
                opened(builder.open(ranks.exchange()))
            }
            #[cfg(feature = "mpi")]
            PROBELINE_TRANSPORT_MPI => {
                let Rendezvous::Mpi(members) = ranks else {
                    return Err(Error::open("the ranks of this job did not meet through MPI"));
                };
                let builder = probeline::mpi::Builder::new(sizes);
                opened(builder.word_reads_whole(word_reads_whole).open(members))
            }
            _ => Err(not_built(self.name())),
        }
    }
}

fn opened<E: Display>(
    engine: Result<impl probeline::transport::Transport + 'static, E>,
) -> Result<Engine, Error> {
    engine.map(Engine::new).map_err(Error::open)
}
