//! The transport of a job: which one, its options, and how engines are opened.

use core::ffi::c_int;
use core::fmt::Display;
use std::env;

use probeline::transport::Sizes;

use crate::job::Members;
use crate::job_options::*;
#[cfg(feature = "mpi")]
use crate::rendezvous::Rendezvous;
use crate::status::{Error, not_built};
use crate::structure::Engine;

/// The environment variable with the transport.
const TRANSPORT_VARIABLE: &str = "PROBELINE_TRANSPORT";
/// Names of the transports, in the order of their constants.
const NAMES: [&str; 5] = ["auto", "shm", "verbs", "ucx", "mpi"];

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

fn name(transport: c_int) -> &'static str {
    usize::try_from(transport).ok().and_then(|at| NAMES.get(at)).unwrap_or(&NAMES[0])
}

impl Members {
    /// Checks that the transport can have `depth` posts in flight, which `operations` need. One that was not built
    /// has no limit.
    pub(crate) fn check_depth(&self, operations: u32, depth: u32) -> Result<(), Error> {
        let max_depth = match self.transport {
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
        if depth <= max_depth {
            return Ok(());
        }
        let most = max_depth / (depth / operations.max(1)).max(1);
        let name = name(self.transport);
        Err(Error::invalid(format_args!(
            "operations is {operations}: give 1 to {most} over the transport {name}"
        )))
    }

    /// Opens an engine together with the other ranks.
    pub(crate) fn open(&mut self, sizes: Sizes) -> Result<Engine, Error> {
        let word_reads_whole = self.options.word_reads_whole != 0;
        let gid_index = byte(self.options.gid_index, -1);
        match self.transport {
            #[cfg(feature = "shm")]
            PROBELINE_TRANSPORT_SHM => {
                opened(probeline::shm::Builder::new(sizes).open(self.exchange()))
            }
            #[cfg(feature = "verbs")]
            PROBELINE_TRANSPORT_VERBS => {
                let builder = probeline::verbs::Builder::new(sizes)
                    .device(self.device.as_deref())
                    .port(byte(self.options.port, 0))
                    .gid_index(gid_index)
                    .word_reads_whole(word_reads_whole);
                opened(builder.open(self.exchange()))
            }
            #[cfg(feature = "ucx")]
            PROBELINE_TRANSPORT_UCX => {
                let builder = probeline::ucx::Builder::new(sizes)
                    .tls(self.ucx_tls.as_deref())
                    .device(self.device.as_deref())
                    .gid_index(gid_index)
                    .word_reads_whole(word_reads_whole);
                opened(builder.open(self.exchange()))
            }
            #[cfg(feature = "mpi")]
            PROBELINE_TRANSPORT_MPI => {
                let Rendezvous::Mpi(members) = &mut self.exchange else {
                    return Err(Error::open("the ranks of this job did not meet through MPI"));
                };
                let builder = probeline::mpi::Builder::new(sizes);
                opened(builder.word_reads_whole(word_reads_whole).open(members))
            }
            _ => Err(not_built(name(self.transport))),
        }
    }
}

fn opened<E: Display>(
    engine: Result<impl probeline::transport::Transport + 'static, E>,
) -> Result<Engine, Error> {
    engine.map(Engine::new).map_err(Error::open)
}
