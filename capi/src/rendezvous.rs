//! How the ranks of a job find each other: by a launcher, by hand, through MPI, or by calls of the program.

use core::time::Duration;

use probeline::exchange::{self, Job, Limits, Secret, Start};
use probeline::transport::Exchange;

use crate::call::text;
use crate::job_options::*;
use crate::status::Error;

/// The way in which the ranks have found each other, and make collective calls.
pub(crate) enum Rendezvous {
    /// With the longest wait for started processes to exit after the job.
    Job(Box<Job>, Duration),
    /// The program's calls.
    Program(Box<dyn Exchange>),
    #[cfg(feature = "mpi")]
    Mpi(probeline::mpi::Members),
}

impl Rendezvous {
    pub(crate) fn exchange(&mut self) -> &mut (dyn Exchange + 'static) {
        match self {
            Self::Job(job, _) => &mut **job,
            Self::Program(exchange) => &mut **exchange,
            #[cfg(feature = "mpi")]
            Self::Mpi(members) => members,
        }
    }

    /// Joins the job.
    ///
    /// # Safety
    /// The texts of the options are NULL or end with NUL.
    pub(crate) unsafe fn join(options: &probeline_job_options) -> Result<Self, Error> {
        // SAFETY: the caller passes options whose texts are NULL or end with NUL (# Safety).
        let (address, secret) = unsafe {
            (text(options.rendezvous, "rendezvous")?, text(options.secret_file, "secret_file")?)
        };
        let allow_remote = options.allow_remote != 0;
        let rendezvous = address.map(|address| exchange::Rendezvous { address, allow_remote });
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let limits = Limits {
            rendezvous: seconds(options.join_limit_s),
            collective: seconds(options.collective_limit_s),
        };
        let secret = secret.map(Secret::from_file).transpose()?;
        let (rank, size) = (options.rank, options.ranks);
        let start = match (options.start, rendezvous) {
            (PROBELINE_START_MANUAL, None) => {
                return Err(Error::invalid("PROBELINE_START_MANUAL needs a rendezvous, HOST:PORT"));
            }
            (PROBELINE_START_MANUAL, Some(rendezvous)) => {
                Start::Manual { rank, ranks: size, rendezvous }
            }
            // PROBELINE_START_AUTO.
            (_, rendezvous) => Start::Auto { ranks: size, rendezvous },
        };
        let parameters = format!("c_interface={}", env!("CARGO_PKG_VERSION"));
        let job = exchange::join(exchange::Options { start, parameters, secret, limits })?;
        Ok(Self::Job(Box::new(job), seconds(options.close_limit_s)))
    }

    /// Starts MPI, or uses it if the program has started it.
    #[cfg(feature = "mpi")]
    pub(crate) fn join_mpi(limit: Duration) -> Result<Self, Error> {
        // SAFETY: a job belongs to one thread; the header asks for MPI_THREAD_MULTIPLE if others call
        // MPI.
        let world = unsafe { probeline::mpi::World::init_or_attach(limit) }
            .map_err(|error| Error::new(crate::probeline_status::PROBELINE_ERROR_JOIN, error))?;
        Ok(Self::Mpi(world.members()?))
    }

    #[cfg(not(feature = "mpi"))]
    pub(crate) fn join_mpi(_: Duration) -> Result<Self, Error> {
        Err(crate::status::not_built("mpi"))
    }

    /// Ends the job for all ranks, as if this one had died. MPI has no such call: its other ranks
    /// wait for this one until their limit.
    pub(crate) fn give_up(&mut self) {
        if let Self::Job(job, _) = self {
            job.give_up();
        }
    }

    /// Leaves the job.
    pub(crate) fn leave(self) -> Result<(), Error> {
        match self {
            Self::Job(job, limit) => Ok(job.finish(limit)?),
            _ => Ok(()),
        }
    }
}
