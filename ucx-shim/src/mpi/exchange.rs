//! The exchange of a job that MPI's launcher started, over MPI's collective calls.

use std::rc::Rc;

use ::mpi::ffi;
use probeline_transport::engine::{Calls, Gathering};
use probeline_transport::{Exchange, ExchangeError, Owner};

use super::OpenError;
use super::request::Pending;
use super::runtime::{Runtime, check};

/// Processes of the job and their collective calls, for a transport over MPI or any other.
///
/// A call waits no longer than the limit of [`World::init`](super::World::init). It first yields
/// the CPU and then sleeps, so that there may be more ranks than cores, and it lets MPI progress
/// peers' operations. After an error, such as a call that took too long, every call returns that
/// error. If a rank dies, the launcher terminates the others, which get no error. If the rank was
/// killed, the launcher does so immediately.
#[derive(Debug)]
pub struct Members {
    pub(super) runtime: Rc<Runtime>,
    pub(super) comm: ffi::MPI_Comm,
    calls: Calls,
}

impl Members {
    /// Creates the members of a communicator that only they use. The communicator is kept until the
    /// end of the runtime, because freeing it is a collective call and dropping this is not.
    pub(super) fn new(runtime: Rc<Runtime>, comm: ffi::MPI_Comm) -> Result<Self, OpenError> {
        let (mut me, mut owners) = (0, 0);
        // SAFETY: a communicator, and a live pointer.
        check("MPI_Comm_rank", unsafe { ffi::MPI_Comm_rank(comm, &raw mut me) })?;
        // SAFETY: a communicator, and a live pointer.
        check("MPI_Comm_size", unsafe { ffi::MPI_Comm_size(comm, &raw mut owners) })?;
        let calls = Calls::new(Owner(me.unsigned_abs()), owners.unsigned_abs());
        runtime.keep(comm);
        Ok(Self { runtime, comm, calls })
    }

    /// Members for tests, who must not call MPI.
    #[cfg(test)]
    pub(super) fn without_mpi(owners: u32) -> Self {
        // SAFETY: a constant of the library.
        let comm = unsafe { ffi::RSMPI_COMM_NULL };
        let runtime = Runtime::new(core::time::Duration::ZERO, comm, true);
        let calls = Calls::new(Owner(0), owners);
        Self { runtime, comm, calls }
    }

    /// Returns the number of members on this machine. All members call it.
    pub(super) fn on_this_machine(&mut self) -> Result<u32, OpenError> {
        self.barrier()?;
        let (mut comm, mut size) = (self.comm, 0);
        // SAFETY: a communicator whose members all call this, and live pointers. The new
        // communicator is freed by all its members.
        let codes = unsafe {
            let (shared, info) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
            [
                ffi::MPI_Comm_split_type(self.comm, shared, 0, info, &raw mut comm),
                ffi::MPI_Comm_size(comm, &raw mut size),
                ffi::MPI_Comm_free(&raw mut comm),
            ]
        };
        codes.into_iter().try_for_each(|code| check("MPI_Comm_split_type", code))?;
        Ok(size.unsigned_abs())
    }

    /// Gathers the contributions of all members into `all` within the time limit: the whole `mine`
    /// of each member, or only the part for this member.
    fn gather(
        &self,
        gathering: Gathering,
        mine: &[u8],
        all: &mut [u8],
    ) -> Result<(), ExchangeError> {
        let each = all.len() / self.owners().max(1) as usize;
        let (name, given) = match gathering {
            Gathering::ToAll => ("MPI_Iallgather", each),
            Gathering::Parts => ("MPI_Ialltoall", all.len()),
        };
        let too_long = |_| ExchangeError::System { errno: libc::EMSGSIZE };
        let count = i32::try_from(each).map_err(too_long)?;
        if mine.len() != given || each * self.owners() as usize != all.len() {
            return Err(ExchangeError::System { errno: libc::EINVAL });
        }
        // Copies, because the buffers of a call that does not complete must never be freed.
        let sent: Box<[u8]> = mine.into();
        let received = vec![0_u8; all.len()].into_boxed_slice();
        let (sent, received) = (Box::into_raw(sent), Box::into_raw(received));
        // SAFETY: both are freed below, only if the call has completed. `received` has room for
        // `count` bytes of each member, and `sent` has `count` bytes, for each member if they are
        // parts: this member checked both above, and every member checks its own.
        let pending = unsafe {
            Pending::start(name, |request| {
                let (byte, comm) = (ffi::RSMPI_UINT8_T, self.comm);
                let (from, to) = (sent.cast(), received.cast());
                let call = match gathering {
                    Gathering::ToAll => ffi::MPI_Iallgather,
                    Gathering::Parts => ffi::MPI_Ialltoall,
                };
                call(from, count, byte, to, count, byte, comm, request)
            })
        };
        let ended = pending.and_then(|pending| pending.wait(self.runtime.limit));
        if !self.system_error(ended)? {
            self.runtime.fail();
            return Err(self.runtime.timed_out());
        }
        // SAFETY: both were boxes, and the call has completed.
        let (_, received) = unsafe { (Box::from_raw(sent), Box::from_raw(received)) };
        all.copy_from_slice(&received);
        Ok(())
    }

    /// Prints an error of MPI and turns it into one of an exchange.
    fn system_error<T>(&self, result: Result<T, OpenError>) -> Result<T, ExchangeError> {
        result.map_err(|error| {
            self.runtime.fail();
            eprintln!("{}: {error}", self.me());
            ExchangeError::System { errno: libc::EIO }
        })
    }
}

probeline_transport::exchange_of_gather!(Members);
