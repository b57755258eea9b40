//! The exchange of a job that MPI's launcher has started.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;
use std::rc::Rc;

use ::mpi::ffi;
use probeline_transport::{Exchange, ExchangeError, Owner};

use super::pending::Pending;
use super::world::{Runtime, return_errors};
use super::{Idle, MpiError, OpenError};

/// Processes of the job and their collective calls, for a transport over MPI or any other.
///
/// A call waits at most as long as [`World::init`](super::World::init) was told, giving way to
/// others and then asleep, so that there may be more ranks than cores. It lets MPI go on with
/// others' operations while it waits. After an error, as after a call that took too long, every
/// call gives that error again. A rank that dies ends the others by the launcher, at once where it
/// was killed: they see no error.
#[derive(Debug)]
pub struct Members {
    pub(super) runtime: Rc<Runtime>,
    pub(super) comm: ffi::MPI_Comm,
    /// Its number among the groups of this process.
    pub(super) group: u32,
    /// Windows opened by them.
    pub(super) windows: u64,
    /// What was tried out by the last of them, and with which "acc_single_intrinsic".
    pub(super) tried: Option<(Option<bool>, Idle)>,
    me: u32,
    owners: u32,
    broken: Option<ExchangeError>,
}

impl Members {
    /// The members of a communicator of their own, which is left to the end of MPI: freeing it is
    /// a collective call, which dropping this is not.
    pub(super) fn new(runtime: Rc<Runtime>, comm: ffi::MPI_Comm) -> Result<Self, OpenError> {
        let (mut me, mut owners) = (0, 0);
        // SAFETY: a communicator, and a place of this frame.
        MpiError::check("MPI_Comm_rank", unsafe { ffi::MPI_Comm_rank(comm, &raw mut me) })?;
        // SAFETY: as above.
        MpiError::check("MPI_Comm_size", unsafe { ffi::MPI_Comm_size(comm, &raw mut owners) })?;
        let (me, owners) = (me.unsigned_abs(), owners.unsigned_abs());
        let group = runtime.new_group();
        Ok(Self { runtime, comm, group, windows: 0, tried: None, me, owners, broken: None })
    }

    /// The members that call this with the same `part`, in the order of these. All of them call it.
    ///
    /// # Errors
    /// [`OpenError`]: not everybody called it in time, or MPI failed.
    pub fn split(&mut self, part: u16) -> Result<Self, OpenError> {
        self.barrier()?;
        let mut comm = self.comm;
        // SAFETY: a communicator, whose members all call this now, and a place of this frame.
        let code = unsafe { ffi::MPI_Comm_split(self.comm, part.into(), 0, &raw mut comm) };
        MpiError::check("MPI_Comm_split", code)?;
        return_errors(comm)?;
        Self::new(self.runtime.clone(), comm)
    }

    /// How many of them are on this one's machine.
    pub(super) fn neighbours(&mut self) -> Result<u32, OpenError> {
        self.barrier()?;
        let (mut comm, mut size) = (self.comm, 0);
        // SAFETY: a communicator, whose members all call this now, and places of this frame; the
        // new communicator is asked for its size and freed by all its members.
        let codes = unsafe {
            let (shared, info) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
            [
                ffi::MPI_Comm_split_type(self.comm, shared, 0, info, &raw mut comm),
                ffi::MPI_Comm_size(comm, &raw mut size),
                ffi::MPI_Comm_free(&raw mut comm),
            ]
        };
        codes.into_iter().try_for_each(|code| MpiError::check("MPI_Comm_split_type", code))?;
        Ok(size.unsigned_abs())
    }

    /// Makes a call that gathers `each` bytes of every member into `all` within the time limit: all
    /// of each member's `mine`, or only the part for this member.
    fn gather(
        &self,
        gathering: Gathering,
        mine: &[u8],
        all: &mut [u8],
    ) -> Result<(), ExchangeError> {
        let each = all.len() / self.owners.max(1) as usize;
        let fits = match gathering {
            Gathering::ToAll => mine.len() == each,
            Gathering::Parts => mine.len() == all.len(),
        };
        let too_long = |_| ExchangeError::System { errno: libc::EMSGSIZE };
        let count = i32::try_from(each).map_err(too_long)?;
        if !fits || each * self.owners as usize != all.len() {
            return Err(ExchangeError::System { errno: libc::EINVAL });
        }
        // Copies: what a call that has not ended names must stay for ever.
        let sent: Box<[u8]> = mine.into();
        let received = vec![0_u8; all.len()].into_boxed_slice();
        let (sent, received) = (Box::into_raw(sent), Box::into_raw(received));
        // SAFETY: both are given back below, only when the call has ended; `received` takes `count`
        // bytes of each member, and `sent` has as many bytes, or as many for each member if they
        // are parts: this member checked both above, and every member checks its own.
        let pending = unsafe {
            Pending::start(gathering.name(), |request| {
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
        if !self.judge(ended)? {
            self.runtime.fail();
            return Err(self.runtime.timed_out());
        }
        // SAFETY: both were boxes, and MPI has done with them.
        let (_, received) = unsafe { (Box::from_raw(sent), Box::from_raw(received)) };
        all.copy_from_slice(&received);
        Ok(())
    }

    /// Gathers after the members have exchanged their kind of call and their lengths, so that all
    /// members detect the same mismatch.
    fn gather_checked(
        &self,
        gathering: Gathering,
        mine: &[u8],
        all: &mut [u8],
    ) -> Result<(), ExchangeError> {
        let lengths = [mine.len() as u64, all.len() as u64, gathering as u64];
        let mut told = vec![0; size_of_val(&lengths) * self.owners as usize];
        let words = lengths.map(u64::to_ne_bytes);
        self.gather(Gathering::ToAll, words.as_flattened(), &mut told)?;
        let (words, _) = told.as_chunks();
        let words = words.iter().map(|word| u64::from_ne_bytes(*word)).collect::<Vec<_>>();
        let owners = u64::from(self.owners);
        let saturated = |length| u32::try_from(length).unwrap_or(u32::MAX);
        for (owner, [length, room, theirs]) in (0..).map(Owner).zip(words.as_chunks().0) {
            if *theirs != gathering as u64 {
                return Err(ExchangeError::System { errno: libc::EPROTO });
            }
            let fits = match gathering {
                Gathering::ToAll => length.saturating_mul(owners),
                Gathering::Parts => length / owners * owners,
            };
            for (expected, found) in [(lengths[0], *length), (*room, fits)] {
                if expected != found {
                    let (expected, found) = (saturated(expected), saturated(found));
                    return Err(ExchangeError::LengthDiffers { owner, expected, found });
                }
            }
        }
        // MPI refuses buffers of no bytes, which may be at one place; everybody's are.
        if mine.is_empty() { Ok(()) } else { self.gather(gathering, mine, all) }
    }

    /// What MPI says, as exchanges say it.
    fn judge<T>(&self, result: Result<T, MpiError>) -> Result<T, ExchangeError> {
        result.map_err(|error| {
            self.runtime.fail();
            eprintln!("{}: {error}", self.me());
            ExchangeError::System { errno: libc::EIO }
        })
    }

    /// Makes a call unless an earlier one failed.
    fn call(
        &mut self,
        call: impl FnOnce(&Self) -> Result<(), ExchangeError>,
    ) -> Result<(), ExchangeError> {
        let result = match self.broken {
            Some(error) => Err(error),
            None => call(self),
        };
        self.broken = result.err();
        result
    }
}

/// The part of a contribution that each member receives.
#[derive(Clone, Copy)]
enum Gathering {
    /// Each member receives the whole contribution.
    ToAll,
    /// Each member receives its own part.
    Parts,
}

impl Gathering {
    fn name(self) -> &'static str {
        match self {
            Self::ToAll => "MPI_Iallgather",
            Self::Parts => "MPI_Ialltoall",
        }
    }
}

impl Exchange for Members {
    fn me(&self) -> Owner {
        Owner(self.me)
    }

    fn owners(&self) -> u32 {
        self.owners
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        self.call(|members| members.gather_checked(Gathering::ToAll, mine, all))
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        self.call(|members| members.gather_checked(Gathering::Parts, mine, theirs))
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        // What the CPU has stored is out before anybody hears of it.
        fence(SeqCst);
        self.call(|members| {
            let everybody = members.runtime.barrier(members.comm, members.runtime.limit);
            match members.judge(everybody)? {
                true => Ok(()),
                false => Err(members.runtime.timed_out()),
            }
        })
    }
}
