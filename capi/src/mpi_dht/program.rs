//! Ranks that meet by calls of the program: the header passes functions that call the program's MPI, so
//! that this library needs none.

use core::ffi::{c_int, c_void};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use probeline::transport::{ExchangeError, Owner};
use probeline_transport::engine::{Calls, Gathering};

/// The longest wait in a collective call.
pub(super) const LIMIT: Duration = Duration::from_secs(600);
/// The time for which a wait only yields the CPU, and the time between two tests after it, so that there
/// may be more ranks than cores.
const YIELDS_FOR: Duration = Duration::from_micros(200);
const PAUSE: Duration = Duration::from_micros(100);

/// Part that `start` starts.
const ALL_GATHER: c_int = 0;
const ALL_TO_ALL: c_int = 1;

/// The rendezvous of a program's ranks: `probeline_dht.h` has the same structure.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_dht_rendezvous {
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
    rendezvous: probeline_dht_rendezvous,
    calls: Calls,
}

impl Program {
    /// Creates the calls of these functions of the program.
    ///
    /// # Safety
    /// The functions behave as described, in this thread, until the value is dropped.
    pub(super) unsafe fn new(rendezvous: probeline_dht_rendezvous) -> Self {
        Self { rendezvous, calls: Calls::new(Owner(rendezvous.rank), rendezvous.ranks) }
    }

    /// Gathers parts of `each` bytes. The lengths were compared.
    fn gather(&self, how: Gathering, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        let call = match how {
            Gathering::ToAll => ALL_GATHER,
            Gathering::Parts => ALL_TO_ALL,
        };
        let failed = |errno| ExchangeError::System { errno };
        let probeline_dht_rendezvous { state, start, test, ranks, .. } = self.rendezvous;
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
            // SAFETY: `new` asks for functions that behave so (# Safety); the pointer is live.
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
}

probeline_transport::exchange_of_gather!(Program);

/// Codes of Linux.
const EIO: i32 = 5;
const EINVAL: i32 = 22;
const EMSGSIZE: i32 = 90;

impl Drop for Program {
    fn drop(&mut self) {
        // After an error a call may be in progress, and the others may not free theirs.
        if let (Some(release), None) = (self.rendezvous.release, self.calls.error()) {
            // SAFETY: `new` asks for it; no call is in progress.
            unsafe { release(self.rendezvous.state) };
        }
    }
}

#[cfg(test)]
mod tests {
    use probeline::transport::Exchange;

    use super::*;

    /// Creates the calls of a program of one rank, whose gathering copies.
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
        let rendezvous = probeline_dht_rendezvous {
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
        unsafe { Program::new(rendezvous) }
    }

    #[test]
    fn compares_lengths() {
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
    fn refuses_missing_functions() {
        assert_eq!(alone(true).barrier(), Err(ExchangeError::System { errno: EINVAL }));
    }
}
