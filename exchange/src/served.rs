//! Ranks that a launcher's own service brings together: no address, no port, no secret is given.

use core::fmt;
use core::net::SocketAddr;
use std::env;
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use probeline_pmi::{Pmi1, Pmi1Error, Pmix};

use crate::board::{Board, OverPmi1};
use crate::bounds::{deadline, whole_seconds};
use crate::error::JoinError;
use crate::hub::host;
use crate::launcher::{Launch, Launcher};
use crate::member;
use crate::notice::{Notice, machine};
use crate::secret::{Secret, SecretError};
use crate::tcp::Tcp;
use crate::terms::{Limits, Terms};

/// The service of a launcher by which ranks find each other, once in the life of a process.
///
/// Rank 0 leaves a secret of 256 random bits there, unless all were given one, and where it listens: a free port of 127.0.0.1
/// if all ranks are on one machine, else of every address of its machine, which the others try in
/// turn. There they meet over [`Tcp`], which carries all calls: nothing of the service runs beside
/// the job. All take leave of PMIx before, and of PMI by [`Job::finish`](crate::Job::finish).
///
/// The launcher ends the others of a rank that is killed or fails, `srun` if it was told `-K`, and
/// `mpiexec` also those of one that ends without that call. Who waits for a lost rank in a call
/// sees it in any case.
///
/// Whoever can read the launcher's own traffic between nodes can read the secret. Where that
/// matters, give all ranks a secret in [`Options::secret`](crate::Options::secret).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Server {
    /// PMIx, of Open MPI's `mpirun` and `srun --mpi=pmix`. Wants libpmix on every node.
    Pmix,
    /// PMI-1, of MPICH's `mpiexec` and `srun --mpi=pmi2`.
    Pmi,
}

impl Server {
    /// What the launcher of this process serves, by its environment.
    #[must_use]
    pub fn of(launch: &Launch) -> Option<Self> {
        let (server, variable) = match launch.launcher {
            Launcher::Probeline => return None,
            Launcher::Pmi => (Self::Pmi, probeline_pmi::DESCRIPTOR_VARIABLE),
            _ => (Self::Pmix, probeline_pmi::NAMESPACE_VARIABLE),
        };
        env::var_os(variable).map(|_| server)
    }

    /// Meets the other ranks; `parameters` as in [`Terms::parameters`], and `secret` if all have
    /// been given one.
    ///
    /// # Errors
    /// Why the job cannot start, within [`Limits::rendezvous`] on rank 0, as
    /// [`Rendezvous::meet`](crate::Rendezvous::meet) has it. Which rank has not come to the
    /// launcher's service, nobody knows; which has not come to rank 0 from there, rank 0 does.
    pub(crate) fn meet(
        self,
        parameters: String,
        secret: Option<Secret>,
        limits: Limits,
    ) -> Result<(Tcp, Option<Pmi1>), JoinError> {
        let until = deadline(limits.rendezvous);
        let mut found = self.find_within(secret.clone(), limits, until)?;
        let pmi = found.pmi.take();
        let rendezvous = until.saturating_duration_since(Instant::now());
        Ok((found.meet(parameters, secret, Limits { rendezvous, ..limits })?, pmi))
    }

    /// Nothing bounds a call of libpmix whose server has stopped: all are made on a thread that is
    /// left behind when the time is over, by a process that has then nothing more to do.
    fn find_within(
        self,
        secret: Option<Secret>,
        limits: Limits,
        until: Instant,
    ) -> Result<Found, JoinError> {
        let (done, news) = channel();
        let find = move || {
            // Whoever has not waited for it does not want it.
            let _ = done.send(self.find(secret, until));
        };
        thread::Builder::new().name("meet".to_owned()).spawn(find).map_err(|error| {
            JoinError::System { doing: "starting a thread to meet the others", error }
        })?;
        match news.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Err(_) | Ok(Err(JoinError::Pmi(Pmi1Error::Late))) => {
                Err(JoinError::Late { server: self, after_s: whole_seconds(limits.rendezvous) })
            }
            Ok(found) => found,
        }
    }

    fn find(self, secret: Option<Secret>, until: Instant) -> Result<Found, JoinError> {
        let here = machine()?;
        match self {
            Self::Pmix => {
                let client = Pmix::init()?;
                let (rank, size) = (client.rank(), client.job_size()?);
                find(client, &here, rank, size, secret)
            }
            Self::Pmi => {
                let Launch { rank, size, .. } = Launch::by_pmi()?.ok_or(Pmi1Error::Unset)?;
                find(OverPmi1::start(rank, until)?, &here, rank, size, secret)
            }
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pmix => "PMIx",
            Self::Pmi => "PMI",
        })
    }
}

/// What a rank leaves on the board: its machine, and rank 0 where to meet.
const MACHINE: &str = "machine";
const NOTICE: &str = "notice";

/// What a rank knows when it leaves the board.
#[derive(Debug)]
struct Found {
    rank: u32,
    size: u32,
    notice: Notice,
    /// Rank 0's.
    listener: Option<TcpListener>,
    /// Where leave is taken in the end.
    pmi: Option<Pmi1>,
}

impl Found {
    fn meet(
        self,
        parameters: String,
        given: Option<Secret>,
        limits: Limits,
    ) -> Result<Tcp, JoinError> {
        let Self { rank, size, notice: Notice { secret, addresses }, listener, .. } = self;
        let secret = given.or(secret).ok_or(SecretError::Unset)?;
        let terms = Terms { rank, size, parameters, secret, limits };
        terms.check()?;
        let links = match listener {
            Some(listener) => host(&listener, &terms, &mut || Ok(()))?,
            None => vec![member::meet(&in_words(&addresses), &addresses, &terms)?],
        };
        Ok(Tcp::new(&terms, links))
    }
}

fn in_words(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" or ")
}

/// Finds the others; `here` is this rank's machine. Rank 0 has to know where all are before it can
/// say where it listens.
fn find(
    mut board: impl Board,
    here: &str,
    rank: u32,
    size: u32,
    given: Option<Secret>,
) -> Result<Found, JoinError> {
    board.put(MACHINE, here)?;
    board.fence()?;
    let mut listener = None;
    if rank == 0 {
        let fresh = given.is_none().then(Secret::random).transpose()?;
        let (open, notice) = Notice::open(all_here(&mut board, here, size)?, fresh)?;
        board.put(NOTICE, &notice.to_text())?;
        listener = Some(open);
    }
    board.fence()?;
    let text = board.get(0, NOTICE)?.ok_or(JoinError::Left { rank: 0 })?;
    let notice = Notice::from_text(&text)?;
    Ok(Found { rank, size, notice, listener, pmi: board.part()? })
}

fn all_here(board: &mut impl Board, here: &str, size: u32) -> Result<bool, JoinError> {
    let mut all = true;
    for rank in 0..size {
        let there = board.get(rank, MACHINE)?.ok_or(JoinError::Left { rank })?;
        all &= there == here;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::collections::HashMap;
    use std::sync::{Arc, Barrier, Mutex};

    use probeline_transport::Exchange;

    use super::*;

    /// A board of threads.
    #[derive(Clone)]
    struct Texts {
        rank: u32,
        texts: Arc<Mutex<HashMap<(u32, String), String>>>,
        all: Arc<Barrier>,
    }

    impl Texts {
        fn of(size: u32) -> impl Iterator<Item = Self> {
            let (texts, all) = (Arc::default(), Arc::new(Barrier::new(size as usize)));
            let board = Self { rank: 0, texts, all };
            (0..size).map(move |rank| Self { rank, ..board.clone() })
        }
    }

    impl Board for Texts {
        fn put(&mut self, what: &str, text: &str) -> Result<(), JoinError> {
            let key = (self.rank, what.to_owned());
            assert_eq!(self.texts.lock().unwrap().insert(key, text.to_owned()), None);
            Ok(())
        }

        fn fence(&mut self) -> Result<(), JoinError> {
            self.all.wait();
            Ok(())
        }

        fn get(&mut self, rank: u32, what: &str) -> Result<Option<String>, JoinError> {
            Ok(self.texts.lock().unwrap().get(&(rank, what.to_owned())).cloned())
        }

        fn part(self) -> Result<Option<Pmi1>, JoinError> {
            Ok(None)
        }
    }

    const LIMIT: Duration = Duration::from_secs(10);

    /// Each rank is on the machine of that name and was given this secret; all gather.
    fn meet<const N: usize>(
        machines: [&'static str; N],
        given: [Option<&'static str>; N],
    ) -> Vec<Result<bool, JoinError>> {
        let limits = Limits { rendezvous: LIMIT, collective: LIMIT };
        let size = u32::try_from(N).unwrap();
        let ranks = Texts::of(size).zip(machines.into_iter().zip(given));
        let start = |(board, (here, given)): (Texts, (&'static str, Option<&str>))| {
            let given = given.map(|text| Secret::new(text.into()).unwrap());
            thread::spawn(move || {
                let rank = board.rank;
                let found = find(board, here, rank, size, given.clone())?;
                let one_machine = found.notice.addresses.iter().all(|at| at.ip().is_loopback());
                assert_eq!(found.notice.secret.is_none(), given.is_some() && rank == 0);
                let mut tcp = found.meet(String::new(), given, limits)?;
                let (mine, mut all) = ([u8::try_from(rank).unwrap()], [9; N]);
                tcp.all_gather(&mine, &mut all).unwrap();
                assert!(all.iter().enumerate().all(|(at, rank)| at == usize::from(*rank)));
                Ok(one_machine)
            })
        };
        let ranks: Vec<_> = ranks.map(start).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    }

    #[test]
    fn ranks_of_one_machine_meet_over_loopback() {
        for one_machine in meet(["a"; 4], [None; 4]) {
            assert!(one_machine.unwrap());
        }
        assert!(meet(["a"], [None]).remove(0).unwrap());
    }

    #[test]
    fn ranks_of_two_machines_meet_at_an_address_that_both_reach() {
        assert!(!probeline_pmi::addresses().unwrap().is_empty(), "this machine has loopback only");
        for machines in [["a", "a", "b"], ["a", "b", "b"]] {
            for one_machine in meet(machines, [None; 3]) {
                assert!(!one_machine.unwrap());
            }
        }
    }

    #[test]
    fn a_rank_that_has_left_nothing_is_named() {
        let mut boards = Texts::of(2);
        let (first, mut second) = (boards.next().unwrap(), boards.next().unwrap());
        let rank_0 = thread::spawn(move || find(first, "a", 0, 2, None));
        second.fence().unwrap();
        let end = rank_0.join().unwrap();
        assert!(matches!(end, Err(JoinError::Left { rank: 1 })), "{end:?}");
    }
}
