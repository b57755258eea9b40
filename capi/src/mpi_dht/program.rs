//! Ranks that meet by calls of the program: the header passes functions that call the program's MPI, so
//! that this library needs none.

use core::ffi::{c_int, c_void};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use probeline::transport::{Exchange, ExchangeError, Owner};

/// The longest wait in a collective call.
pub(super) const LIMIT: Duration = Duration::from_secs(600);
/// The time for which a wait only yields the CPU, and the time between two tests after it, so that there
/// may be more ranks than cores.
const YIELDS_FOR: Duration = Duration::from_micros(200);
const PAUSE: Duration = Duration::from_micros(100);

/// What `start` is to start. Ranks also compare it, to detect calls out of step.
const ALL_GATHER: c_int = 0;
const ALL_TO_ALL: c_int = 1;
const BARRIER: c_int = 2;

/// How ranks meet: `probeline_dht.h` has the same structure.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_dht_meeting {
    pub(super) rank: u32,
    pub(super) ranks: u32,
    /// Passed to the functions.
    state: *mut c_void,
    /// Starts to gather `bytes` bytes of each rank in `all`: the whole `mine` of each, or of the parts in
    /// `mine` the one for this rank. Returns 0 unless it fails.
    start: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            call: c_int,
            mine: *const c_void,
            all: *mut c_void,
            bytes: c_int,
        ) -> c_int,
    >,
    /// Stores whether that has ended.
    test: Option<unsafe extern "C" fn(state: *mut c_void, ended: *mut c_int) -> c_int>,
    /// Frees the state.
    release: Option<unsafe extern "C" fn(state: *mut c_void)>,
    /// The communicator of the program, and its size.
    pub(super) comm: *const c_void,
    pub(super) comm_bytes: usize,
}

/// The ranks of a program.
pub(super) struct Program {
    meeting: probeline_dht_meeting,
    /// The first error.
    error: Option<ExchangeError>,
}

impl Program {
    /// # Safety
    /// The functions behave as described, in this thread, until the value is dropped.
    pub(super) unsafe fn new(meeting: probeline_dht_meeting) -> Self {
        Self { meeting, error: None }
    }

    /// Gathers parts of `each` bytes. The lengths were compared.
    fn gather(&self, call: c_int, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        let failed = |errno| ExchangeError::System { errno };
        let probeline_dht_meeting { state, start, test, ranks, .. } = self.meeting;
        let (Some(start), Some(test)) = (start, test) else { return Err(failed(EINVAL)) };
        let each = c_int::try_from(all.len() / ranks.max(1) as usize);
        let each = each.map_err(|_| failed(EMSGSIZE))?;
        // Copies, because the buffers of a call that does not end must never be freed.
        let sent = Box::into_raw(Box::<[u8]>::from(mine));
        let received = Box::into_raw(vec![0_u8; all.len()].into_boxed_slice());
        // SAFETY: `new` asks for functions that behave so; both buffers have the size that the call
        // needs, and stay until it has ended.
        if unsafe { start(state, call, sent.cast(), received.cast(), each) } != 0 {
            return Err(failed(EIO));
        }
        let begin = Instant::now();
        loop {
            let mut ended = 0;
            // SAFETY: as above, with a live pointer.
            if unsafe { test(state, &raw mut ended) } != 0 {
                return Err(failed(EIO));
            }
            if ended != 0 {
                break;
            }
            let waited = begin.elapsed();
            if waited >= LIMIT {
                let after_s = u32::try_from(LIMIT.as_secs()).unwrap_or(u32::MAX);
                return Err(ExchangeError::TimedOut { after_s, missing: None });
            }
            if waited < YIELDS_FOR { thread::yield_now() } else { thread::sleep(PAUSE) }
        }
        // SAFETY: both were boxes, and the call has ended.
        let (_, received) = unsafe { (Box::from_raw(sent), Box::from_raw(received)) };
        all.copy_from_slice(&received);
        Ok(())
    }

    /// Gathers after all ranks have compared the kinds and the lengths of their calls.
    fn compare_and_gather(
        &self,
        call: c_int,
        mine: &[u8],
        all: &mut [u8],
    ) -> Result<(), ExchangeError> {
        let ranks = self.meeting.ranks as usize;
        let fits = match call {
            ALL_GATHER => Some(all.len()) == mine.len().checked_mul(ranks),
            _ => all.len() == mine.len() && all.len().is_multiple_of(ranks.max(1)),
        };
        let words = [u64::from(call.unsigned_abs()), all.len() as u64, fits.into()];
        let mut theirs = vec![[[0; 8]; 3]; ranks];
        let bytes = words.map(u64::to_ne_bytes);
        let to = theirs.as_flattened_mut().as_flattened_mut();
        self.gather(ALL_GATHER, bytes.as_flattened(), to)?;
        for (owner, words) in (0..).map(Owner).zip(&theirs) {
            let [theirs, length, fits] = words.map(u64::from_ne_bytes);
            if theirs != u64::from(call.unsigned_abs()) {
                return Err(ExchangeError::System { errno: EPROTO });
            }
            if length != all.len() as u64 || fits == 0 {
                let saturated = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
                let (expected, found) = (saturated(all.len() as u64), saturated(length));
                return Err(ExchangeError::LengthDiffers { owner, expected, found });
            }
        }
        if all.is_empty() { Ok(()) } else { self.gather(call, mine, all) }
    }

    /// Makes a call unless an earlier one failed.
    fn call(&mut self, call: c_int, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        let result = match self.error {
            Some(error) => Err(error),
            None => self.compare_and_gather(call, mine, all),
        };
        self.error = result.err();
        result
    }
}

/// Codes of Linux.
const EIO: i32 = 5;
const EINVAL: i32 = 22;
const EPROTO: i32 = 71;
const EMSGSIZE: i32 = 90;

impl Exchange for Program {
    fn me(&self) -> Owner {
        Owner(self.meeting.rank)
    }

    fn owners(&self) -> u32 {
        self.meeting.ranks
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        self.call(ALL_GATHER, mine, all)
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        self.call(ALL_TO_ALL, mine, theirs)
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        // This CPU's stores take effect before any rank returns.
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        self.call(BARRIER, &[], &mut [])
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // After an error a call may be in progress, and the others may not free theirs.
        if let (Some(release), None) = (self.meeting.release, self.error) {
            // SAFETY: `new` asks for it; no call is in progress.
            unsafe { release(self.meeting.state) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of one rank: gathering copies.
    unsafe extern "C" fn start(
        _: *mut c_void,
        _: c_int,
        mine: *const c_void,
        all: *mut c_void,
        bytes: c_int,
    ) -> c_int {
        // SAFETY: buffers of this many bytes.
        unsafe { mine.cast::<u8>().copy_to(all.cast(), bytes.unsigned_abs() as usize) };
        0
    }

    unsafe extern "C" fn test(_: *mut c_void, ended: *mut c_int) -> c_int {
        // SAFETY: a live pointer.
        unsafe { ended.write(1) };
        0
    }

    fn alone(start_fails: bool) -> Program {
        let comm = core::ptr::null();
        let meeting = probeline_dht_meeting {
            rank: 0,
            ranks: 1,
            state: core::ptr::null_mut(),
            start: (!start_fails).then_some(start),
            test: Some(test),
            release: None,
            comm,
            comm_bytes: 0,
        };
        // SAFETY: functions that behave as described.
        unsafe { Program::new(meeting) }
    }

    #[test]
    fn lengths_are_compared() {
        let mut program = alone(false);
        let mut all = [0; 3];
        program.all_gather(&[1, 2, 3], &mut all).unwrap();
        assert_eq!(all, [1, 2, 3]);
        program.barrier().unwrap();
        let differs = program.all_gather(&[1, 2], &mut all);
        assert!(matches!(differs, Err(ExchangeError::LengthDiffers { .. })), "{differs:?}");
        assert_eq!(program.barrier(), differs, "the first error stays");
    }

    #[test]
    fn missing_functions_are_refused() {
        assert_eq!(alone(true).barrier(), Err(ExchangeError::System { errno: EINVAL }));
    }
}
