//! A client of PMI-1: put, barrier and get, as lines of text over an inherited socket.
//!
//! A line is `cmd=NAME` followed by `key=value` words. Every request has one answer. Source:
//! simple_pmi.c of MPICH, and the answers of MPICH's launcher.

use core::time::Duration;
use std::env;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::KvStore;
use crate::{JoinError, Server};

/// The environment variable with the descriptor of the socket to the launcher.
pub const DESCRIPTOR_VARIABLE: &str = "PMI_FD";

/// The maximum length of an answer. The values of launchers have at most a few kilobytes.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// The maximum length of a request with its newline: PMIU_MAXLINE of simple_pmi.c. Slurm reads a
/// longer one as two requests.
const MAX_REQUEST_BYTES: usize = 1024;

/// The maximum length of a key that all launchers accept.
const MAX_KEY_BYTES: usize = 63;

/// The connection of this process to a launcher that speaks PMI-1.
///
/// A call waits at most until the instant given to [`from_env`](Self::from_env). After an error the
/// connection is unusable. No other code of the process, such as an MPI library, may use the same
/// socket. Dropping the connection does not finalize it. A launcher treats a process that exits
/// without [`finalize`](Self::finalize) as failed.
#[derive(Debug)]
pub struct Pmi1 {
    launcher: BufReader<Launcher>,
    rank: u32,
    /// The name of the job's key-value store.
    space: String,
    /// The maximum length of a value with the longest key.
    max_value_bytes: usize,
}

impl Pmi1 {
    /// Connects `rank` to the launcher through the socket that the environment names.
    ///
    /// # Errors
    /// [`JoinError::NoServer`] or [`JoinError::System`] if no such launcher started this process.
    pub fn from_env(rank: u32, until: Instant) -> Result<Self, JoinError> {
        let no_server = |_| JoinError::NoServer { server: Server::Pmi };
        let value = env::var(DESCRIPTOR_VARIABLE).map_err(no_server)?;
        // No number is as bad as that of no descriptor.
        let copy = copy_of(value.parse().unwrap_or(-1));
        let opened = JoinError::system("opening the socket of the launcher, which PMI_FD names,");
        Self::new(copy.map_err(opened)?.into(), rank, until)
    }

    /// Connects `rank` to the launcher at the other end of `stream`.
    fn new(stream: UnixStream, rank: u32, until: Instant) -> Result<Self, JoinError> {
        stream.set_nonblocking(false).map_err(failed)?;
        let launcher = BufReader::new(Launcher { stream, until });
        let mut client = Self { launcher, rank, space: String::new(), max_value_bytes: 0 };
        client.ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init")?;
        let maxes = client.ask("cmd=get_maxes\n", "maxes")?;
        client.space = client.ask("cmd=get_my_kvsname\n", "my_kvsname")?.word("kvsname")?;
        let others = client.put_request(&"k".repeat(MAX_KEY_BYTES), "").len();
        // Both limits include the NUL of a string in C.
        let Ok(max) = maxes.word("vallen_max")?.parse::<usize>() else {
            return Err(JoinError::Garbage { line: maxes.0 });
        };
        let most = max.min(MAX_REQUEST_BYTES.saturating_sub(others));
        client.max_value_bytes = most.saturating_sub(1);
        Ok(client)
    }

    fn put_request(&self, key: &str, value: &str) -> String {
        format!("cmd=put kvsname={} key={key} value={value}\n", self.space)
    }

    /// Returns the key in the store, whose keys belong to the whole job.
    fn key_of(rank: u32, key: &str) -> String {
        format!("probeline-{key}-{rank}")
    }

    /// Finalizes the client, within a time limit of its own. After that the launcher accepts that this
    /// process exits with status 0.
    ///
    /// # Errors
    /// The launcher has closed the connection, does not answer in time, or answers otherwise.
    pub fn finalize(&mut self, until: Instant) -> Result<(), JoinError> {
        self.launcher.get_mut().until = until;
        self.ask("cmd=finalize\n", "finalize_ack").map(drop)
    }

    /// Sends a request and reads its answer.
    fn ask(&mut self, request: &str, answer: &str) -> Result<Response, JoinError> {
        self.launcher.get_mut().write_all(request.as_bytes()).map_err(failed)?;
        let mut line = Vec::new();
        let mut limited = self.launcher.by_ref().take(MAX_LINE_BYTES);
        if limited.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Err(failed(ErrorKind::UnexpectedEof.into()));
        }
        let answered = Response(String::from_utf8_lossy(&line).trim_end().to_owned());
        if answered.word("cmd")? != answer {
            return Err(JoinError::Garbage { line: answered.0 });
        }
        // Commands that cannot fail have no `rc`.
        match answered.word("rc").as_deref() {
            Err(_) | Ok("0") => Ok(answered),
            Ok(_) => Err(JoinError::Refused { line: answered.0 }),
        }
    }
}

impl KvStore for Pmi1 {
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        let (bytes, max_bytes) = (value.len(), self.max_value_bytes);
        if bytes > max_bytes {
            return Err(JoinError::TooLong { bytes, max_bytes });
        }
        let request = self.put_request(&Self::key_of(self.rank, key), value);
        self.ask(&request, "put_result").map(drop)
    }

    fn fence(&mut self) -> Result<(), JoinError> {
        self.ask("cmd=barrier_in\n", "barrier_out").map(drop)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError> {
        let key = Self::key_of(rank, key);
        match self.ask(&format!("cmd=get kvsname={} key={key}\n", self.space), "get_result") {
            Ok(answer) => answer.word("value").map(Some),
            Err(JoinError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The socket to the launcher, whose reads and writes fail after an instant.
#[derive(Debug)]
struct Launcher {
    stream: UnixStream,
    until: Instant,
}

impl Launcher {
    /// Returns the time that is left, which is not 0: sockets refuse that.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Launcher {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Launcher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed(error: io::Error) -> JoinError {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => JoinError::TimedOut,
        _ => JoinError::system("the socket to the launcher, whose output may tell more,")(error),
    }
}

/// Duplicates an inherited descriptor, which stays open.
fn copy_of(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl(2) accepts any number, and returns EBADF if it is not an open descriptor.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created the descriptor, and no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The response of the launcher, one line.
struct Response(String);

impl Response {
    /// Returns the value of `key`.
    fn word(&self, key: &str) -> Result<String, JoinError> {
        let mut words = self.0.split_whitespace().filter_map(|word| word.split_once('='));
        let found = words.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned());
        found.ok_or_else(|| JoinError::Garbage { line: self.0.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::thread;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// The time limit of actions that do not wait for a timeout, even on a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);
    const INIT_ANSWERS: [&str; 3] = [
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
        "cmd=my_kvsname kvsname=kvs_7",
    ];

    /// Starts a launcher that answers one request with each of `answers`, and does not answer
    /// later requests. When the client closes the connection, the thread returns the requests.
    fn launcher(answers: &[&str]) -> (UnixStream, thread::JoinHandle<Vec<String>>) {
        let (here, there) = UnixStream::pair().unwrap();
        let answers: Vec<_> = answers.iter().map(|answer| format!("{answer}\n")).collect();
        let server = thread::spawn(move || {
            let mut answers = answers.into_iter();
            let asked = BufReader::new(&there).lines().map(Result::unwrap);
            let answer = |_: &String| {
                if let Some(answer) = answers.next() {
                    (&there).write_all(answer.as_bytes()).unwrap();
                }
            };
            asked.inspect(answer).collect()
        });
        (here, server)
    }

    fn initialized(answers: &[&str]) -> (Pmi1, thread::JoinHandle<Vec<String>>) {
        let (stream, server) = launcher(&[&INIT_ANSWERS, answers].concat());
        (Pmi1::new(stream, 7, Instant::now() + LIMIT).unwrap(), server)
    }

    #[test]
    fn follows_protocol() {
        let (mut client, server) = initialized(&[
            "cmd=put_result rc=0 msg=success",
            "cmd=barrier_out",
            "cmd=get_result rc=0 msg=success value=0a0b",
            "cmd=get_result rc=-1 msg=key_b_not_found value=unknown",
            "cmd=finalize_ack",
        ]);
        let until = Instant::now() + LIMIT;
        let most = 1024 - 1 - "cmd=put kvsname=kvs_7 key= value=\n".len() - 63;
        let result = client.put("a", &"0".repeat(most + 1));
        assert!(matches!(result, Err(JoinError::TooLong { max_bytes, .. }) if max_bytes == most));
        client.put("a", "0a0b").unwrap();
        client.fence().unwrap();
        assert_eq!(client.get(7, "a").unwrap().as_deref(), Some("0a0b"));
        assert_eq!(client.get(6, "a").unwrap(), None);
        client.finalize(until).unwrap();
        drop(client);
        let asked = server.join().unwrap();
        assert_eq!(
            asked,
            [
                "cmd=init pmi_version=1 pmi_subversion=1",
                "cmd=get_maxes",
                "cmd=get_my_kvsname",
                "cmd=put kvsname=kvs_7 key=probeline-a-7 value=0a0b",
                "cmd=barrier_in",
                "cmd=get kvsname=kvs_7 key=probeline-a-7",
                "cmd=get kvsname=kvs_7 key=probeline-a-6",
                "cmd=finalize",
            ]
        );
    }

    /// The launcher neither answers nor reads. A long request has more bytes than the socket buffers hold.
    #[test]
    fn bounds_wait_for_launcher() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all((INIT_ANSWERS.join("\n") + "\n").as_bytes()).unwrap();
        let mut client = Pmi1::new(here, 7, Instant::now() + LIMIT).unwrap();
        for request in ["cmd=barrier_in\n", &"0".repeat(4 << 20)] {
            let start = Instant::now();
            client.launcher.get_mut().until = start + SECOND / 5;
            let result = client.ask(request, "barrier_out").map(drop);
            assert!(matches!(result, Err(JoinError::TimedOut)), "{result:?}");
            assert!((SECOND / 5..LIMIT).contains(&start.elapsed()), "{:?}", start.elapsed());
        }
    }

    /// The launcher closes the connection before a request, after it, and with half of it unread.
    #[test]
    fn detects_launcher_exit() {
        let exits: [fn(UnixStream); 3] = [
            drop,
            |there| assert!(BufReader::new(there).lines().next().is_some()),
            |mut there| there.read_exact(&mut [0]).unwrap(),
        ];
        for exit in exits {
            let (here, there) = UnixStream::pair().unwrap();
            let launcher = thread::spawn(move || exit(there));
            let result = Pmi1::new(here, 7, Instant::now() + LIMIT);
            assert!(matches!(result, Err(JoinError::System { .. })), "{result:?}");
            launcher.join().unwrap();
        }
    }

    #[test]
    fn refuses_other_protocol() {
        let long = "x".repeat(1 << 17);
        for answer in ["HTTP/1.0 400 Bad Request", "cmd=maxes rc=0", "", &long] {
            let (stream, _server) = launcher(&[answer]);
            let result = Pmi1::new(stream, 7, Instant::now() + LIMIT);
            assert!(matches!(result, Err(JoinError::Garbage { .. })), "{answer:.20}: {result:?}");
        }
        let (stream, _server) = launcher(&["cmd=response_to_init pmi_version=2 rc=-1"]);
        let result = Pmi1::new(stream, 7, Instant::now() + LIMIT);
        assert!(matches!(result, Err(JoinError::Refused { .. })), "{result:?}");
    }

    #[test]
    fn refuses_closed_descriptor() {
        assert_eq!(copy_of(-1).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(copy_of(RawFd::MAX).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
