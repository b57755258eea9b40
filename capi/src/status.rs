//! Values that functions return: the version, codes, outcomes, and the text of the last error.

use core::cell::RefCell;
use core::ffi::{CStr, c_char, c_int};
use core::fmt::Display;
use std::ffi::CString;

use probeline::table::Ended;
use probeline::transport::ExchangeError;
use probeline::{exchange, map, table};

/// The major version of this header.
pub const PROBELINE_VERSION_MAJOR: c_int = 0;
/// The minor version of this header. Before version 1.0 another minor version is incompatible.
pub const PROBELINE_VERSION_MINOR: c_int = 1;
/// The patch version of this header.
pub const PROBELINE_VERSION_PATCH: c_int = 0;

/// Returns the version of the library, such as "0.1.0". Never waits; any thread.
#[unsafe(no_mangle)]
pub extern "C" fn probeline_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Status of a function: PROBELINE_OK, or the kind of its error. probeline_last_error() has the
/// details.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum probeline_status {
    /// The call succeeded.
    PROBELINE_OK = 0,
    /// An argument or an option is invalid. The call changed nothing.
    PROBELINE_ERROR_INVALID = 1,
    /// The library was built without this, or the system lacks it.
    PROBELINE_ERROR_UNSUPPORTED = 2,
    /// The processes of the job did not find each other in time, or are not of one job.
    PROBELINE_ERROR_JOIN = 3,
    /// The transport could not be opened, or there is not enough memory.
    PROBELINE_ERROR_OPEN = 4,
    /// Ranks disagree: they called different functions, or with different options.
    PROBELINE_ERROR_DIFFERS = 5,
    /// A rank or the connection to it was lost. The job cannot continue.
    PROBELINE_ERROR_LOST = 6,
    /// The operation failed; whether it took effect is unknown. A repeated add may count
    /// twice, a repeated push may store two values, a failed pop may have lost a value; to repeat any other
    /// operation is safe.
    PROBELINE_ERROR_FAILED = 7,
    /// All room for submitted operations is in use: poll, then submit again. Or too many blocks of messages are on
    /// their way: call probeline_aggregator_progress(), then send again.
    PROBELINE_ERROR_BUSY = 8,
    /// The handle is in use: by the call that called this one, or by tables, maps and containers of the job.
    PROBELINE_ERROR_IN_USE = 9,
    /// A handle belongs to the thread that opened it, and another thread made the call.
    PROBELINE_ERROR_THREAD = 10,
    /// A file could not be read or written, or has other sizes.
    PROBELINE_ERROR_FILE = 11,
    /// A defect of the library. The handle can only be closed, and then its job. The other ranks lose this
    /// one.
    PROBELINE_ERROR_PANIC = 12,
    /// Another rank could not do its part of a collective call: its own error says why. If an argument was
    /// invalid there, nothing was done on any rank, and the job goes on.
    PROBELINE_ERROR_OTHER_RANK = 13,
    /// Other ranks changed the same word before each of 64 attempts. The operation has changed nothing: try
    /// again. Others of its batch may have taken effect.
    PROBELINE_ERROR_CONTENDED = 14,
    /// A push has not ended, so that a pop cannot pass its value, or has found no slot. Try again later, or call
    /// probeline_queue_skip() if the rank of the push is lost.
    PROBELINE_ERROR_UNFINISHED = 15,
}

/// Outcome of an operation. It has one byte.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum probeline_outcome {
    /// The key is not there.
    PROBELINE_ABSENT = 0,
    /// The key is there.
    PROBELINE_FOUND = 1,
    /// The key was not there and is now.
    PROBELINE_INSERTED = 2,
    /// A table has no room for the key, which is not there.
    PROBELINE_FULL = 3,
    /// A map's value replaced an older one of the key.
    PROBELINE_UPDATED = 4,
    /// A map's entry replaced that of another key.
    PROBELINE_EVICTED = 5,
    /// A map has removed the key.
    PROBELINE_REMOVED = 6,
    /// A map has stored or removed nothing, because other ranks write at the same place.
    PROBELINE_DROPPED = 7,
}

/// A submitted operation that has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct probeline_finished {
    /// The tag with which it was submitted.
    pub tag: u64,
    /// PROBELINE_OK, or the kind of its error.
    pub status: probeline_status,
    /// Its outcome, if its status is PROBELINE_OK.
    pub outcome: probeline_outcome,
}

impl From<Ended> for probeline_outcome {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Found => Self::PROBELINE_FOUND,
            Ended::Inserted => Self::PROBELINE_INSERTED,
            Ended::Full => Self::PROBELINE_FULL,
            Ended::Absent => Self::PROBELINE_ABSENT,
        }
    }
}

impl From<map::Written> for probeline_outcome {
    fn from(written: map::Written) -> Self {
        match written {
            map::Written::Inserted => Self::PROBELINE_INSERTED,
            map::Written::Updated => Self::PROBELINE_UPDATED,
            map::Written::Evicted => Self::PROBELINE_EVICTED,
            map::Written::Present => Self::PROBELINE_FOUND,
            map::Written::Removed => Self::PROBELINE_REMOVED,
            map::Written::Absent => Self::PROBELINE_ABSENT,
            map::Written::Dropped => Self::PROBELINE_DROPPED,
        }
    }
}

/// An error on its way to the caller.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) status: probeline_status,
    text: String,
}

impl Error {
    pub(crate) fn new(status: probeline_status, text: impl Display) -> Self {
        Self { status, text: text.to_string() }
    }

    pub(crate) fn invalid(text: impl Display) -> Self {
        Self::new(probeline_status::PROBELINE_ERROR_INVALID, text)
    }

    /// Returns the error of a transport, which names ranks as owners.
    pub(crate) fn open(error: impl Display) -> Self {
        Self::new(probeline_status::PROBELINE_ERROR_OPEN, error).in_words(&WORDS)
    }

    /// Replaces words of other interfaces. The text must not have any of the program's.
    pub(crate) fn in_words(mut self, words: &[(&str, &str)]) -> Self {
        words.iter().for_each(|(theirs, ours)| self.text = self.text.replace(theirs, ours));
        self
    }

    /// Stores the text for [`probeline_last_error`], and returns the status.
    pub(crate) fn report(self) -> probeline_status {
        let text = CString::new(self.text.replace('\0', " ")).unwrap_or_default();
        // Fails only while the thread ends.
        let _ = LAST.try_with(|last| last.replace(text));
        self.status
    }
}

/// Returns the error of a transport that is not in this build.
pub(crate) fn not_built(name: &str) -> Error {
    let text = "build it with that feature, or choose another transport";
    Error::new(
        probeline_status::PROBELINE_ERROR_UNSUPPORTED,
        format_args!("this library was built without the transport {name}: {text}"),
    )
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Words of Rust in errors, and the program's for them.
const WORDS: [(&str, &str); 3] = [
    ("owner", "rank"),
    ("the limit of collective calls", "the option collective_limit_s"),
    // The only call of Rust that no check in C comes before.
    ("Aggregator::flush", "probeline_aggregator_flush"),
];

/// Converts errors: the kind comes from the error, the text is its own, in these words.
macro_rules! errors {
    ($words:expr, $($(#[$when:meta])? $error:ty: |$name:pat_param| $status:expr;)*) => {$(
        $(#[$when])?
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                let $name = &error;
                Self::new($status, &error).in_words($words)
            }
        }
    )*};
}

use probeline_status::*;

// They have names of files and hosts, which stay as they are.
errors! { &[],
    #[cfg(feature = "mpi")]
    probeline::mpi::OpenError: |_| PROBELINE_ERROR_OPEN;
}

errors! { &WORDS,
    ExchangeError: |error| from_exchange_error(*error);
    table::ConfigError: |_| PROBELINE_ERROR_INVALID;
    table::OperationError: |error| from_operation_error(error);
    table::BatchError: |error| match error {
        table::BatchError::Lengths { .. } => PROBELINE_ERROR_INVALID,
        table::BatchError::Operation(error) | table::BatchError::Failed { error, .. } => from_operation_error(error),
    };
    table::CollectiveError: |error| from_collective_error(error);
}

impl From<map::FileError> for Error {
    fn from(error: map::FileError) -> Self {
        match error {
            map::FileError::Collective(error) => error.into(),
            error => Self::new(PROBELINE_ERROR_FILE, error),
        }
    }
}

/// The advice is in words of Rust and of the command.
impl From<exchange::JoinError> for Error {
    fn from(error: exchange::JoinError) -> Self {
        use exchange::JoinError::{NoRendezvous, NotLaunched, Remote};
        let (from, advice) = match &error {
            Remote { .. } => ("add --", "give allow_remote = 1, or use 127.0.0.1"),
            NoRendezvous { .. } => (
                "--rendezvous",
                "the option rendezvous, \"HOST:PORT\" with the host of rank 0, and a secret",
            ),
            NotLaunched => (
                "join with",
                "give no rendezvous, or PROBELINE_START_MANUAL with rank, ranks and rendezvous",
            ),
            _ => return Self::new(from_join_error(&error), error),
        };
        let text = error.to_string();
        let before = text.rsplit_once(from).map_or(&*text, |(before, _)| before);
        Self::new(from_join_error(&error), format_args!("{before}{advice}"))
    }
}

fn from_exchange_error(error: ExchangeError) -> probeline_status {
    use ExchangeError::{CallsDiffer, Forked, LengthDiffers, TooLarge};
    match error {
        Forked | TooLarge { .. } => PROBELINE_ERROR_INVALID,
        CallsDiffer { .. } | LengthDiffers { .. } => PROBELINE_ERROR_DIFFERS,
        _ => PROBELINE_ERROR_LOST,
    }
}

fn from_join_error(error: &exchange::JoinError) -> probeline_status {
    use exchange::JoinError as E;
    match error {
        E::Size { .. } | E::RankOutOfRange { .. } | E::Address { .. } | E::Remote { .. } => {
            PROBELINE_ERROR_INVALID
        }
        E::NoSecret | E::SecretFile { .. } | E::SecretExposed { .. } => PROBELINE_ERROR_INVALID,
        E::SecretLength { .. } | E::NoRandom => PROBELINE_ERROR_INVALID,
        E::RanksFailed { .. } => PROBELINE_ERROR_LOST,
        _ => PROBELINE_ERROR_JOIN,
    }
}

fn from_operation_error(error: &table::OperationError) -> probeline_status {
    use table::OperationError::{
        Busy, Contended, Fault, Index, Key, Storage, Unfinished, UnknownOwner,
    };
    match error {
        Busy => PROBELINE_ERROR_BUSY,
        Fault(_) => PROBELINE_ERROR_LOST,
        Key { .. } | Index { .. } | UnknownOwner { .. } | Storage { .. } => PROBELINE_ERROR_INVALID,
        Contended { .. } => PROBELINE_ERROR_CONTENDED,
        Unfinished { .. } => PROBELINE_ERROR_UNFINISHED,
        _ => PROBELINE_ERROR_FAILED,
    }
}

fn from_collective_error(error: &table::CollectiveError) -> probeline_status {
    use table::CollectiveError::{Config, Exchange, NotOpened, Operation, PartFailed};
    match error {
        Exchange(error) => from_exchange_error(*error),
        Operation(error) => from_operation_error(error),
        Config(_) => PROBELINE_ERROR_INVALID,
        PartFailed { .. } | NotOpened { .. } => PROBELINE_ERROR_OTHER_RANK,
        _ => PROBELINE_ERROR_DIFFERS,
    }
}

thread_local! {
    /// The text of this thread's last error.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Returns a sentence about the last error of a call by this thread: what failed, on what, why, and
/// what to do. It is empty if there was none, and valid until the next call by this thread that
/// fails: call it after that call, not among the arguments of one printf(). Never waits; any thread.
#[unsafe(no_mangle)]
pub extern "C" fn probeline_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns a short text about a status, such as "invalid argument". Never waits; any thread.
#[unsafe(no_mangle)]
pub extern "C" fn probeline_error_text(status: c_int) -> *const c_char {
    text(status).as_ptr()
}

fn text(status: c_int) -> &'static CStr {
    const TEXTS: [&CStr; 16] = [
        c"success",
        c"invalid argument",
        c"not supported by this build or system",
        c"the processes of the job did not find each other",
        c"the transport cannot be opened",
        c"ranks disagree",
        c"a rank was lost",
        c"the operation failed, its outcome is unknown",
        c"all room for operations is in use",
        c"the handle is in use",
        c"the handle belongs to another thread",
        c"a file cannot be read or written",
        c"a defect of the library",
        c"another rank could not do its part",
        c"other ranks were faster",
        c"a push has not ended",
    ];
    usize::try_from(status).ok().and_then(|status| TEXTS.get(status)).unwrap_or(&c"unknown status")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_use_c_terms() {
        let missing = Some(probeline::transport::Owner(1));
        let error = Error::from(ExchangeError::TimedOut { after_s: 3, missing });
        assert_eq!(error.text, "rank 1 did not arrive within 3 s, the option collective_limit_s");
        let error = Error::from(exchange::JoinError::NotLaunched);
        assert!(
            error.text.ends_with(
                "mpirun or srun, give no rendezvous, or PROBELINE_START_MANUAL with \
                                      rank, ranks and rendezvous"
            ),
            "{error}"
        );
    }

    #[test]
    fn text_matches_code() {
        assert_eq!(text(PROBELINE_ERROR_LOST as c_int), c"a rank was lost");
        let last = probeline_status::PROBELINE_ERROR_UNFINISHED as c_int;
        assert_eq!(text(last), c"a push has not ended");
        assert_eq!((text(last + 1), text(-1)), (c"unknown status", c"unknown status"));
    }

    #[test]
    fn header_has_package_version() {
        let parts = [PROBELINE_VERSION_MAJOR, PROBELINE_VERSION_MINOR, PROBELINE_VERSION_PATCH];
        assert_eq!(parts.map(|part| part.to_string()).join("."), env!("CARGO_PKG_VERSION"));
    }
}
