//! The rendezvous through the server of a launcher, without an address, port or secret from the
//! user.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use crate::pmi::{KvStore, Pmi1, Pmix};

use crate::coordinator::admit_ranks;
use crate::error::JoinError;
use crate::launch::{Launch, Launcher, Server};
use crate::limits::{Limits, deadline, whole_seconds};
use crate::machine::{addresses, loopback_id};
use crate::member::join_rank_0;
use crate::secret::Secret;
use crate::spawn::listen_on_loopback;
use crate::spec::JobSpec;
use crate::tcp::Job;

/// Joins the job of the launcher whose server speaks this protocol.
///
/// # Errors
/// The reason why the job cannot start, within [`Limits::rendezvous`] on rank 0. The error names
/// the missing ranks if they used the server but did not connect to rank 0.
pub(crate) fn join_by(
    server: Server,
    parameters: String,
    secret: Option<Secret>,
    limits: Limits,
) -> Result<Job, JoinError> {
    let until = deadline(limits.rendezvous);
    let (sender, receiver) = channel();
    let given = secret.clone();
    let run = move || {
        // Fails after the time limit, when the result is not needed.
        let _ = sender.send(look_up(server, given, until));
    };
    // Another thread, because a call of libpmix never returns if the server has stopped. At the time limit
    // the thread keeps running, and joining fails.
    let thread = thread::Builder::new().name("look-up".to_owned()).spawn(run);
    thread.map_err(JoinError::system("starting a thread for the launcher's server"))?;
    let (place, pmi) = match receiver.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        Err(_) | Ok(Err(JoinError::TimedOut)) => {
            let after_s = whole_seconds(limits.rendezvous);
            return Err(JoinError::ServerTimeout { server, after_s });
        }
        Ok(found) => found?,
    };
    let rendezvous = until.saturating_duration_since(Instant::now());
    let mut job = place.join(parameters, secret, Limits { rendezvous, ..limits })?;
    job.pmi = pmi;
    Ok(job)
}

/// Returns this rank's place, and the connection to be finalized when the job ends.
fn look_up(
    server: Server,
    secret: Option<Secret>,
    until: Instant,
) -> Result<(Place, Option<Pmi1>), JoinError> {
    let machine = loopback_id().map_err(JoinError::system("identifying this machine"))?;
    match server {
        Server::Pmix => {
            let mut client = Pmix::init()?;
            let Launch { rank, size, .. } =
                Launch::from_env()?.ok_or(JoinError::NoServer { server })?;
            let place = exchange_cards(&mut client, &machine, rank, size, secret)?;
            client.finalize()?;
            Ok((place, None))
        }
        Server::Pmi => {
            let launch = Launch::by(Launcher::Pmi)?;
            let Launch { rank, size, .. } = launch.ok_or(JoinError::NoServer { server })?;
            let mut client = Pmi1::from_env(rank, until)?;
            let place = exchange_cards(&mut client, &machine, rank, size, secret)?;
            // Not finalized yet: mpiexec of MPICH ignores the failure of a rank that has finalized.
            Ok((place, Some(client)))
        }
    }
}

/// The key under which a rank publishes its machine; rank 0 also publishes its business card.
const MACHINE: &str = "machine";
const BUSINESS_CARD: &str = "business-card";

/// A rank's place in its job, and the business card of rank 0.
#[derive(Debug)]
struct Place {
    rank: u32,
    size: u32,
    card: BusinessCard,
    /// The socket at which rank 0 listens; `None` on other ranks.
    listener: Option<TcpListener>,
}

impl Place {
    fn join(
        self,
        parameters: String,
        given: Option<Secret>,
        limits: Limits,
    ) -> Result<Job, JoinError> {
        let Self { rank, size, card: BusinessCard { secret, addresses }, listener } = self;
        let secret = given.or(secret).ok_or(JoinError::NoSecret)?;
        let spec = JobSpec { rank, size, parameters, secret, limits };
        spec.check()?;
        match listener {
            Some(listener) => admit_ranks(&listener, &spec, &mut || Ok(())),
            None => join_rank_0(&addresses, &spec),
        }
    }
}

/// Publishes what other ranks need, and reads rank 0's business card. Rank 0 reads the machines of
/// all ranks first, because they decide where it listens.
fn exchange_cards(
    store: &mut impl KvStore,
    machine: &str,
    rank: u32,
    size: u32,
    given: Option<Secret>,
) -> Result<Place, JoinError> {
    store.put(MACHINE, machine)?;
    store.fence()?;
    let mut listener = None;
    if rank == 0 {
        let secret = given.is_none().then(Secret::random).transpose()?;
        let mut one_machine = true;
        for rank in 0..size {
            let other = store.get(rank, MACHINE)?.ok_or(JoinError::Left { rank })?;
            one_machine &= other == machine;
        }
        let (listening, addresses) = listen(one_machine)?;
        store.put(BUSINESS_CARD, &BusinessCard { secret, addresses }.to_text())?;
        listener = Some(listening);
    }
    store.fence()?;
    let text = store.get(0, BUSINESS_CARD)?.ok_or(JoinError::Left { rank: 0 })?;
    Ok(Place { rank, size, card: BusinessCard::from_text(&text)?, listener })
}

/// The maximum number of addresses in a card. Other ranks try each in turn. A card with this
/// number fits the shortest maximum length of a value, 900 bytes of PMI-1.
const MAX_ADDRESSES: usize = 8;

/// The addresses at which rank 0 listens, and the job's secret.
#[derive(Debug)]
pub(crate) struct BusinessCard {
    /// The secret that rank 0 has created; `None` if the ranks were given a secret.
    pub(crate) secret: Option<Secret>,
    /// The addresses of rank 0, at least one. Other machines may have some of them too.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl BusinessCard {
    /// Encodes the card as a text that every launcher's server accepts.
    pub(crate) fn to_text(&self) -> String {
        let secret = self.secret.iter().map(|secret| String::from_utf8_lossy(secret.bytes()));
        let secret = secret.collect();
        let addresses = self.addresses.iter().map(SocketAddr::to_string);
        [secret].into_iter().chain(addresses).collect::<Vec<_>>().join(",")
    }

    /// Parses the text of [`to_text`](Self::to_text).
    pub(crate) fn from_text(text: &str) -> Result<Self, JoinError> {
        const MALFORMED: JoinError = JoinError::Malformed { what: "the address of rank 0" };
        let (secret, addresses) = text.split_once(',').ok_or(MALFORMED)?;
        let addresses: Result<_, _> = addresses.split(',').map(str::parse).collect();
        let addresses = addresses.map_err(|_| MALFORMED)?;
        let secret = (!secret.is_empty()).then(|| Secret::new(secret.into()));
        Ok(Self { secret: secret.transpose()?, addresses })
    }
}

/// Listens at a free port: of loopback if all ranks are on one machine, else of all addresses.
fn listen(one_machine: bool) -> Result<(TcpListener, Vec<SocketAddr>), JoinError> {
    if one_machine {
        return listen_on_loopback().map(|(listener, address)| (listener, vec![address]));
    }
    // An IPv6 socket accepts connections of both families, if the machine has IPv6.
    let all = [(Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::UNSPECIFIED, 0).into()];
    let listener = TcpListener::bind(&all[..])
        .map_err(|error| JoinError::Listen { address: "all addresses".to_owned(), error })?;
    let system = JoinError::system("listing the addresses of this machine");
    let bound = listener.local_addr().map_err(&system)?;
    let addresses: Vec<_> = addresses()
        .map_err(&system)?
        .into_iter()
        .filter(|address| address.is_ipv4() || bound.is_ipv6())
        .map(|address| (address, bound.port()).into())
        .take(MAX_ADDRESSES)
        .collect();
    if addresses.is_empty() {
        return Err(JoinError::NoAddress);
    }
    Ok((listener, addresses))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::collections::HashMap;
    use std::sync::{Arc, Barrier, Mutex};

    use probeline_transport::Exchange;

    use super::*;

    /// A key-value store that threads share.
    #[derive(Clone)]
    struct ThreadStore {
        rank: u32,
        texts: Arc<Mutex<HashMap<(u32, String), String>>>,
        all: Arc<Barrier>,
    }

    impl ThreadStore {
        fn for_ranks(size: u32) -> impl Iterator<Item = Self> {
            let (texts, all) = (Arc::default(), Arc::new(Barrier::new(size as usize)));
            let store = Self { rank: 0, texts, all };
            (0..size).map(move |rank| Self { rank, ..store.clone() })
        }
    }

    impl KvStore for ThreadStore {
        fn put(&mut self, key: &str, text: &str) -> Result<(), JoinError> {
            let key = (self.rank, key.to_owned());
            assert_eq!(self.texts.lock().unwrap().insert(key, text.to_owned()), None);
            Ok(())
        }

        fn fence(&mut self) -> Result<(), JoinError> {
            self.all.wait();
            Ok(())
        }

        fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError> {
            Ok(self.texts.lock().unwrap().get(&(rank, key.to_owned())).cloned())
        }
    }

    const LIMIT: Duration = Duration::from_secs(10);

    /// Runs a job with a machine and a secret for each rank, and an all-gather of all ranks.
    /// Returns whether the ranks listen on loopback.
    fn join_all<const N: usize>(
        machines: [&'static str; N],
        given: [Option<&'static str>; N],
    ) -> Vec<Result<bool, JoinError>> {
        let limits = Limits { rendezvous: LIMIT, collective: LIMIT };
        let size = u32::try_from(N).unwrap();
        let ranks = ThreadStore::for_ranks(size).zip(machines.into_iter().zip(given));
        let start = |(mut store, (machine, given)): (ThreadStore, (&'static str, Option<&str>))| {
            let given = given.map(|text| Secret::new(text.into()).unwrap());
            thread::spawn(move || {
                let rank = store.rank;
                let place = exchange_cards(&mut store, machine, rank, size, given.clone())?;
                let one_machine = place.card.addresses.iter().all(|at| at.ip().is_loopback());
                assert_eq!(place.card.secret.is_none(), given.is_some() && rank == 0);
                let mut tcp = place.join(String::new(), given, limits)?;
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
    fn joins_over_loopback() {
        for one_machine in join_all(["a"; 4], [None; 4]) {
            assert!(one_machine.unwrap());
        }
        assert!(join_all(["a"], [None]).remove(0).unwrap());
    }

    #[test]
    fn joins_over_network() {
        assert!(!crate::machine::addresses().unwrap().is_empty(), "this machine has loopback only");
        for machines in [["a", "a", "b"], ["a", "b", "b"]] {
            for one_machine in join_all(machines, [None; 3]) {
                assert!(!one_machine.unwrap());
            }
        }
    }

    #[test]
    fn names_rank_without_card() {
        let mut stores = ThreadStore::for_ranks(2);
        let (mut first, mut second) = (stores.next().unwrap(), stores.next().unwrap());
        let rank_0 = thread::spawn(move || exchange_cards(&mut first, "a", 0, 2, None));
        second.fence().unwrap();
        let place = rank_0.join().unwrap();
        assert!(matches!(place, Err(JoinError::Left { rank: 1 })), "{place:?}");
    }

    #[test]
    fn round_trips_card_within_limit() {
        let longest = "[2001:db8:1111:2222:3333:4444:5555:6666]:65535";
        let addresses = vec![longest.parse().unwrap(); MAX_ADDRESSES];
        for secret in [Some(Secret::random().unwrap()), None] {
            let card = BusinessCard { secret, addresses: addresses.clone() };
            let text = card.to_text();
            assert!(text.len() <= 900 && text.chars().all(|c| c.is_ascii_graphic() && c != '='));
            let read = BusinessCard::from_text(&text).unwrap();
            let [read_secret, secret] =
                [&read, &card].map(|card| card.secret.as_ref().map(Secret::bytes));
            assert_eq!(read_secret, secret);
            assert_eq!(read.addresses, addresses);
        }
    }

    #[test]
    fn refuses_malformed_card() {
        let secret = "0".repeat(64);
        let texts = ["", &secret, ",", &format!("{secret},"), &format!("{secret},a:b")];
        for text in texts {
            assert!(
                matches!(BusinessCard::from_text(text), Err(JoinError::Malformed { .. })),
                "{text}"
            );
        }
        let short = BusinessCard::from_text("00,127.0.0.1:7");
        assert!(matches!(short, Err(JoinError::SecretLength { .. })), "{short:?}");
    }
}
