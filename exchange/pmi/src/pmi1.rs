//! A client of PMI-1: put, barrier, get, in lines of text over an inherited socket.
//!
//! Source: simple_pmi.c of MPICH, and what its launcher answers. A line is `cmd=NAME` and further
//! `key=value` words; every request has one answer.

use core::error::Error;
use core::fmt;
use core::time::Duration;
use std::env;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The environment variable with the number of the socket to the launcher.
pub const DESCRIPTOR_VARIABLE: &str = "PMI_FD";

/// The longest answer taken; launchers have values of a few kilobytes at most.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Bytes moved by one read.
const READ_BYTES: usize = 4096;

/// The longest request, its end included: PMIU_MAXLINE of simple_pmi.c. Slurm takes what is longer
/// for two requests.
const MAX_REQUEST_BYTES: usize = 1024;

/// The longest key, as all launchers take it.
const MAX_KEY_BYTES: usize = 63;

/// One process's connection to a launcher that speaks PMI-1.
///
/// A call waits until the instant it is given; after an error the connection is unusable. Nobody
/// else in the process may speak over the same socket, as an MPI library would. Dropping it does
/// not say farewell; a launcher takes a process that ends without for one that died.
#[derive(Debug)]
pub struct Pmi1 {
    stream: UnixStream,
    /// Received, from the start of an answer on.
    unread: Vec<u8>,
    /// The name of the job's keys and values.
    space: String,
    /// Of a value under the longest key.
    max_value_bytes: usize,
}

impl Pmi1 {
    /// Greets the launcher whose socket the environment names.
    ///
    /// # Errors
    /// [`Pmi1Error::Unset`] and [`Pmi1Error::NotOpen`] without such a launcher.
    pub fn from_env(until: Instant) -> Result<Self, Pmi1Error> {
        let value = env::var(DESCRIPTOR_VARIABLE).map_err(|_| Pmi1Error::Unset)?;
        let not_open = |error: io::Error| Pmi1Error::NotOpen { value: value.clone(), error };
        let number = value.parse().map_err(|_| not_open(ErrorKind::InvalidInput.into()))?;
        let stream = copy_of(number).map(UnixStream::from).map_err(not_open)?;
        Self::new(stream, until)
    }

    /// Greets the launcher at the other end of `stream`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn new(stream: UnixStream, until: Instant) -> Result<Self, Pmi1Error> {
        stream.set_nonblocking(false)?;
        let space = String::new();
        let mut client = Self { stream, unread: Vec::new(), space, max_value_bytes: 0 };
        client.ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", until)?;
        let maxes = client.ask("cmd=get_maxes\n", "maxes", until)?;
        client.space = client.ask("cmd=get_my_kvsname\n", "my_kvsname", until)?.word("kvsname")?;
        let key = [b'k'; MAX_KEY_BYTES];
        let others = client.put_request(&String::from_utf8_lossy(&key), "").len();
        // Both are limits of buffers in C, which end in NUL.
        let most = maxes.number("vallen_max")?.min(MAX_REQUEST_BYTES.saturating_sub(others));
        client.max_value_bytes = most.saturating_sub(1);
        Ok(client)
    }

    /// Puts a value, for everybody to get after the next barrier. A key is put once: some launchers
    /// refuse to put it again, and others go on answering with its first value. Key, of at most 63
    /// bytes, and value are printable and have no space or `=`.
    ///
    /// # Errors
    /// [`Pmi1Error::TooLong`], [`Pmi1Error::Refused`], or why the connection is unusable.
    pub fn put(&mut self, key: &str, value: &str, until: Instant) -> Result<(), Pmi1Error> {
        let (bytes, most) = (value.len(), self.max_value_bytes);
        if bytes > most {
            return Err(Pmi1Error::TooLong { bytes, most });
        }
        let request = self.put_request(key, value);
        self.ask(&request, "put_result", until).map(drop)
    }

    fn put_request(&self, key: &str, value: &str) -> String {
        format!("cmd=put kvsname={} key={key} value={value}\n", self.space)
    }

    /// Waits until all processes of the job have called it.
    ///
    /// # Errors
    /// Why the connection is unusable.
    pub fn barrier(&mut self, until: Instant) -> Result<(), Pmi1Error> {
        self.ask("cmd=barrier_in\n", "barrier_out", until).map(drop)
    }

    /// What anyone has put under `key` before the last barrier; `None` if nobody has.
    ///
    /// # Errors
    /// Why the connection is unusable.
    pub fn get(&mut self, key: &str, until: Instant) -> Result<Option<String>, Pmi1Error> {
        let request = format!("cmd=get kvsname={} key={key}\n", self.space);
        match self.ask(&request, "get_result", until) {
            Ok(answer) => answer.word("value").map(Some),
            Err(Pmi1Error::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes leave of the launcher.
    ///
    /// # Errors
    /// Why the connection is unusable.
    pub fn finalize(&mut self, until: Instant) -> Result<(), Pmi1Error> {
        self.ask("cmd=finalize\n", "finalize_ack", until).map(drop)
    }

    /// Sends a request and takes its answer.
    fn ask(&mut self, request: &str, answer: &str, until: Instant) -> Result<Answer, Pmi1Error> {
        self.send(request.as_bytes(), until)?;
        let answered = Answer(self.line(until)?);
        if answered.word("cmd")? != answer {
            return Err(Pmi1Error::Garbage { line: answered.0 });
        }
        // Commands that cannot fail have no such word.
        match answered.word("rc").as_deref() {
            Err(_) | Ok("0") => Ok(answered),
            Ok(_) => Err(Pmi1Error::Refused { line: answered.0 }),
        }
    }

    fn send(&mut self, mut bytes: &[u8], until: Instant) -> Result<(), Pmi1Error> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(left(until)?))?;
            match self.stream.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) => retried(error)?,
            }
        }
        Ok(())
    }

    /// The next line, without its end.
    fn line(&mut self, until: Instant) -> Result<String, Pmi1Error> {
        let mut bytes = [0; READ_BYTES];
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = self.unread.drain(..=end).collect::<Vec<_>>();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.unread.len() > MAX_LINE_BYTES {
                return Err(Pmi1Error::Garbage { line: "a line without end".to_owned() });
            }
            self.stream.set_read_timeout(Some(left(until)?))?;
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Pmi1Error::Closed),
                Ok(read) => self.unread.extend_from_slice(&bytes[..read]),
                Err(error) => retried(error)?,
            }
        }
    }
}

/// What is left until then; a timeout of 0 would be none.
fn left(until: Instant) -> Result<Duration, Pmi1Error> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Pmi1Error::Late) } else { Ok(left) }
}

/// Interrupted calls are made again, and so are those whose time is over, to find that it is.
fn retried(error: io::Error) -> Result<(), Pmi1Error> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
        _ => Err(error.into()),
    }
}

/// A copy of an inherited descriptor, which stays open itself.
fn copy_of(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl(2) takes any number for a descriptor, and answers EBADF for one that is none.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for this call, so nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// A line of the launcher.
struct Answer(String);

impl Answer {
    /// The value of `key`.
    fn word(&self, key: &str) -> Result<String, Pmi1Error> {
        let mut words = self.0.split_whitespace().filter_map(|word| word.split_once('='));
        let found = words.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned());
        found.ok_or_else(|| Pmi1Error::Garbage { line: self.0.clone() })
    }

    fn number(&self, key: &str) -> Result<usize, Pmi1Error> {
        let number = self.word(key)?.parse();
        number.map_err(|_| Pmi1Error::Garbage { line: self.0.clone() })
    }
}

/// Why a call of PMI-1 failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Pmi1Error {
    /// The environment has no [`DESCRIPTOR_VARIABLE`].
    Unset,
    /// What the variable says is no open socket.
    NotOpen {
        /// As it is there.
        value: String,
        /// Why not.
        error: io::Error,
    },
    /// A value is longer than the launcher takes.
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// The launcher did not answer in time.
    Late,
    /// The launcher has closed the connection.
    Closed,
    /// The launcher said something else.
    Garbage {
        /// What.
        line: String,
    },
    /// The launcher says no.
    Refused {
        /// In its words.
        line: String,
    },
    /// The system's.
    Io(io::Error),
}

impl From<io::Error> for Pmi1Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Pmi1Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => write!(
                f,
                "there is no {DESCRIPTOR_VARIABLE}: start this with mpiexec of MPICH or with srun \
                 --mpi=pmi2"
            ),
            Self::NotOpen { value, error } => write!(
                f,
                "{DESCRIPTOR_VARIABLE}={value} is no socket of a launcher ({error}): start the \
                 command by the launcher itself, or unset what an earlier launch left there"
            ),
            Self::TooLong { bytes, most } => write!(
                f,
                "the launcher takes values of {most} bytes at most and this one has {bytes}: use \
                 another of its services, or none"
            ),
            Self::Late => f.write_str("the launcher did not answer in time: see what it says"),
            Self::Closed => f.write_str("the launcher has ended: see what it says"),
            Self::Garbage { line } => {
                write!(f, "the launcher does not speak PMI-1; it said {line:?}")
            }
            Self::Refused { line } => write!(f, "the launcher refused; it said {line:?}"),
            Self::Io(error) => write!(f, "the socket to the launcher: {error}"),
        }
    }
}

impl Error for Pmi1Error {}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::thread;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// The limit of everything that does not wait for a timeout, even on a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);
    const GREETING: [&str; 3] = [
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
        "cmd=my_kvsname kvsname=kvs_7",
    ];

    /// A launcher that gives these answers, one a request, and then keeps silent until the other
    /// end is closed; what it was asked.
    fn launcher(answers: &[&str]) -> (UnixStream, thread::JoinHandle<Vec<String>>) {
        let (here, there) = UnixStream::pair().unwrap();
        let answers: Vec<_> = answers.iter().map(|answer| format!("{answer}\n")).collect();
        let talk = thread::spawn(move || {
            let mut answers = answers.into_iter();
            let asked = BufReader::new(&there).lines().map(Result::unwrap);
            let answer = |_: &String| {
                if let Some(answer) = answers.next() {
                    (&there).write_all(answer.as_bytes()).unwrap();
                }
            };
            asked.inspect(answer).collect()
        });
        (here, talk)
    }

    fn greeted(answers: &[&str]) -> (Pmi1, thread::JoinHandle<Vec<String>>) {
        let (stream, talk) = launcher(&[&GREETING, answers].concat());
        (Pmi1::new(stream, Instant::now() + LIMIT).unwrap(), talk)
    }

    #[test]
    fn requests_are_those_of_the_protocol() {
        let (mut client, talk) = greeted(&[
            "cmd=put_result rc=0 msg=success",
            "cmd=barrier_out",
            "cmd=get_result rc=0 msg=success value=0a0b",
            "cmd=get_result rc=-1 msg=key_b_not_found value=unknown",
            "cmd=finalize_ack",
        ]);
        let until = Instant::now() + LIMIT;
        let most = 1024 - 1 - "cmd=put kvsname=kvs_7 key= value=\n".len() - 63;
        let end = client.put("a", &"0".repeat(most + 1), until);
        assert!(matches!(end, Err(Pmi1Error::TooLong { most: found, .. }) if found == most));
        client.put("a", "0a0b", until).unwrap();
        client.barrier(until).unwrap();
        assert_eq!(client.get("a", until).unwrap().as_deref(), Some("0a0b"));
        assert_eq!(client.get("b", until).unwrap(), None);
        client.finalize(until).unwrap();
        drop(client);
        let asked = talk.join().unwrap();
        assert_eq!(
            asked,
            [
                "cmd=init pmi_version=1 pmi_subversion=1",
                "cmd=get_maxes",
                "cmd=get_my_kvsname",
                "cmd=put kvsname=kvs_7 key=a value=0a0b",
                "cmd=barrier_in",
                "cmd=get kvsname=kvs_7 key=a",
                "cmd=get kvsname=kvs_7 key=b",
                "cmd=finalize",
            ]
        );
    }

    #[test]
    fn a_silent_launcher_is_waited_for_as_long_as_was_said() {
        let (mut client, _talk) = greeted(&[]);
        let start = Instant::now();
        let end = client.barrier(start + SECOND / 5);
        assert!(matches!(end, Err(Pmi1Error::Late)), "{end:?}");
        assert!((SECOND / 5..LIMIT).contains(&start.elapsed()), "{:?}", start.elapsed());
    }

    #[test]
    fn a_launcher_that_does_not_read_is_waited_for_as_long_as_was_said() {
        let (here, there) = UnixStream::pair().unwrap();
        let greet = thread::spawn(move || {
            for answer in GREETING {
                (&there).write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
            there
        });
        let until = Instant::now() + LIMIT;
        let mut client = Pmi1::new(here, until).unwrap();
        let _deaf = greet.join().unwrap();
        // More than a socket holds.
        let end = client.send(&vec![b'0'; 4 << 20], Instant::now() + SECOND / 5);
        assert!(matches!(end, Err(Pmi1Error::Late)), "{end:?}");
        assert!(Instant::now() < until);
    }

    /// The service ends before a request, and during one.
    #[test]
    fn a_launcher_that_ends_is_noticed_at_once() {
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        let end = Pmi1::new(here, Instant::now() + LIMIT);
        let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        assert!(matches!(&end, Err(Pmi1Error::Io(error)) if broken(error)), "{end:?}");

        let (here, there) = UnixStream::pair().unwrap();
        let ends = thread::spawn(move || BufReader::new(there).lines().next());
        let end = Pmi1::new(here, Instant::now() + LIMIT);
        assert!(matches!(end, Err(Pmi1Error::Closed)), "{end:?}");
        assert!(ends.join().unwrap().is_some());
    }

    #[test]
    fn what_speaks_something_else_is_no_launcher() {
        let long = "x".repeat(2 * MAX_LINE_BYTES);
        for answer in ["HTTP/1.0 400 Bad Request", "cmd=maxes rc=0", "", &long] {
            let (stream, _talk) = launcher(&[answer]);
            let end = Pmi1::new(stream, Instant::now() + LIMIT);
            assert!(matches!(end, Err(Pmi1Error::Garbage { .. })), "{answer:.20}: {end:?}");
        }
        let (stream, _talk) = launcher(&["cmd=response_to_init pmi_version=2 rc=-1"]);
        let end = Pmi1::new(stream, Instant::now() + LIMIT);
        assert!(matches!(end, Err(Pmi1Error::Refused { .. })), "{end:?}");
    }

    #[test]
    fn a_number_that_is_not_open_is_an_error() {
        assert_eq!(copy_of(-1).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(copy_of(RawFd::MAX).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
