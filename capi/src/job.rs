//! Jobs: the processes that share structures, and the transport between them.

use core::cell::{RefCell, RefMut};
use core::ffi::{c_int, c_void};
use core::ptr;
use core::time::Duration;
use std::rc::Rc;

use probeline::exchange::MAX_RESULT_BYTES;
use probeline::pipeline::Collective;
use probeline::transport::{Call, Exchange, ExchangeError, Term};

use crate::call::{call, out, product, put, room, slice, text};
use crate::handle::{Abandon, Handle, in_use};
use crate::job_options::*;
use crate::network;
use crate::options::{self, Options};
use crate::rendezvous::Rendezvous;
use crate::status::{Error, probeline_status};

/// The processes that share tables, maps and containers.
pub struct probeline_job(pub(crate) Handle<Shared>);

/// A job, which its structures use as well.
pub(crate) type Shared = Rc<RefCell<Members>>;

/// The ranks of a job, and how to open engines between them.
pub(crate) struct Members {
    pub(crate) exchange: Rendezvous,
    /// PROBELINE_TRANSPORT_..., but not PROBELINE_TRANSPORT_AUTO.
    pub(crate) transport: c_int,
    pub(crate) options: probeline_job_options,
    pub(crate) device: Option<String>,
    pub(crate) ucx_tls: Option<String>,
}

/// Returns the members of a job, unless a collective call is using them and has called this one.
pub(crate) fn members(job: &Shared) -> Result<RefMut<'_, Members>, Error> {
    job.try_borrow_mut().map_err(|_| in_use())
}

impl Abandon for Shared {
    fn abandon(self) -> Option<Self> {
        // No call is using it: the one that panicked has ended.
        if let Ok(mut members) = self.try_borrow_mut() {
            members.exchange.give_up();
        }
        Some(self)
    }
}

impl Members {
    /// Joins the job that the options describe.
    ///
    /// # Safety
    /// The texts of the options are NULL or end with NUL.
    pub(crate) unsafe fn join(options: &probeline_job_options) -> Result<Self, Error> {
        options.check()?;
        // SAFETY: the caller passes options whose texts are NULL or end with NUL (# Safety).
        let (device, ucx_tls) =
            unsafe { (text(options.device, "device")?, text(options.ucx_tls, "ucx_tls")?) };
        let transport = match options.transport {
            PROBELINE_TRANSPORT_AUTO => network::from_env()?.unwrap_or(PROBELINE_TRANSPORT_SHM),
            given => given,
        };
        let exchange = match transport {
            PROBELINE_TRANSPORT_MPI => {
                Rendezvous::join_mpi(Duration::from_secs(options.collective_limit_s.into()))?
            }
            // SAFETY: the caller passes options whose texts are NULL or end with NUL (# Safety).
            _ => unsafe { Rendezvous::join(options) }?,
        };
        Ok(Self { exchange, transport, options: *options, device, ucx_tls })
    }

    pub(crate) fn exchange(&mut self) -> &mut (dyn Exchange + 'static) {
        self.exchange.exchange()
    }

    pub(crate) fn owners(&mut self) -> u32 {
        self.exchange().owners()
    }

    /// Returns what the collective calls of a structure need that was just opened.
    pub(crate) fn opened(&mut self, job: &Shared) -> Opened {
        let exchange = self.exchange();
        let (rank, ranks, call) = (exchange.me().0, exchange.owners(), exchange.calls());
        Opened { job: job.clone(), rank, ranks, call }
    }
}

/// The job of an open structure, for its collective calls.
pub(crate) struct Opened {
    pub(crate) job: Shared,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// The number of the job's call that has opened it.
    call: u64,
}

impl Opened {
    /// Makes a collective call, after a check that all ranks make the one of this name on this structure, with
    /// right arguments. Errors name the function of C, and not what `body` calls.
    pub(crate) fn collective<A, R>(
        &self,
        name: &str,
        arguments: Result<A, Error>,
        body: impl FnOnce(A, &mut dyn Exchange) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut members = members(&self.job)?;
        let exchange = members.exchange();
        let mut call = Collective::new(exchange, Call::new(name), self.call);
        let arguments = call.together(arguments)?;
        body(arguments, call.exchange())
    }

    /// Waits for all ranks, in the call of this name.
    pub(crate) fn barrier(&self, name: &str) -> Result<(), Error> {
        self.collective(name, Ok(()), |(), _| Ok(()))
    }

    /// Gathers numbers of all ranks, each as many, in the call of this name, and returns them one rank after
    /// another.
    pub(crate) fn gather(&self, name: &str, mine: &[u64]) -> Result<Vec<u64>, Error> {
        self.collective(name, Ok(()), |(), exchange| {
            let bytes: Vec<_> = mine.iter().map(|number| number.to_le_bytes()).collect();
            let mut all = vec![[0; 8]; mine.len() * self.ranks as usize];
            exchange.all_gather(bytes.as_flattened(), all.as_flattened_mut())?;
            Ok(all.into_iter().map(u64::from_le_bytes).collect())
        })
    }
}

/// Stores the default options and `size`, which is sizeof(probeline_job_options).
/// Never waits; any thread.
///
/// # Safety
/// `options` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_options_init(
    options: *mut probeline_job_options,
    size: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or `size` bytes (# Safety).
    call(|| unsafe { options::write(options, size, &probeline_job_options::DEFAULT) })
}

/// Joins the job and stores its handle at `job`. `options` may be NULL, for the defaults. Every
/// process of the job calls it; it waits for them, at most `join_limit_s` seconds. Signals and the
/// standard streams stay as they are.
///
/// A program whose ranks the library starts opens one job of several ranks: the copies run the program
/// from its beginning, and would open another job in place of the first. Jobs of one rank may be open
/// before, beside and after it, in the copies as well. Call it from a thread that lives as long as the
/// job: the copies are killed when it ends, even if they have closed the job. Handles belong to the process
/// that opened them. In a fork of it, collective calls fail with PROBELINE_ERROR_INVALID, and no other
/// call is allowed; leave the fork by exec() or _exit(). After an error, NULL is stored at `job`.
///
/// # Safety
/// `options` is NULL or initialized, its texts are NULL or end with NUL, and `job` is NULL or has room
/// for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_open(
    options: *const probeline_job_options,
    job: *mut *mut probeline_job,
) -> probeline_status {
    call(|| {
        // SAFETY: the program passes options, NULL or initialized, and `job`, NULL or a place for a
        // handle (# Safety).
        let (job, options) =
            unsafe { (out(job, "job")?, options::read(options, "probeline_job_options_init")?) };
        job.write(ptr::null_mut());
        // SAFETY: the program initialized the options, whose texts are NULL or end with NUL (# Safety).
        let members = unsafe { Members::join(&options) }?;
        let handle = probeline_job(Handle::new(Rc::new(RefCell::new(members))));
        job.write(Box::into_raw(Box::new(handle)));
        Ok(())
    })
}

/// Uses a job. A panic ends it for all ranks.
///
/// # Safety
/// `job` is NULL or from `probeline_job_open` and not closed.
pub(crate) unsafe fn with_shared<R>(
    job: *mut probeline_job,
    body: impl FnOnce(&Shared) -> Result<R, Error>,
) -> Result<R, Error> {
    // SAFETY: the caller passes NULL or an open job (# Safety).
    let job = unsafe { job.as_ref() }.ok_or_else(|| Error::invalid("job is NULL"))?;
    job.0.with(|job| body(job))
}

/// Runs a call on the members of a job.
///
/// # Safety
/// As for [`with_shared`].
unsafe fn with(
    job: *mut probeline_job,
    body: impl FnOnce(&mut Members) -> Result<(), Error>,
) -> probeline_status {
    // SAFETY: the caller passes NULL or an open job (# Safety).
    call(|| unsafe { with_shared(job, |job| body(&mut *members(job)?)) })
}

/// Leaves the job and frees it; `job` may be NULL. Close its tables, maps and containers before: otherwise it
/// returns PROBELINE_ERROR_IN_USE and frees nothing. Any rank calls it when it needs the job no more.
/// Rank 0 waits up to `close_limit_s` seconds for the processes that it has started, kills those that
/// still run, and reports those that failed.
///
/// # Safety
/// `job` is NULL or from `probeline_job_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_close(job: *mut probeline_job) -> probeline_status {
    call(|| {
        // SAFETY: the program passes NULL or an open job (# Safety).
        let Some(handle) = (unsafe { job.as_ref() }) else { return Ok(()) };
        let shared = handle.0.take_if(|job| {
            let text = "close the tables, maps and containers of the job before the job";
            let in_use = || Error::new(probeline_status::PROBELINE_ERROR_IN_USE, text);
            (Rc::strong_count(job) == 1).then_some(()).ok_or_else(in_use)
        })?;
        // SAFETY: a box from `probeline_job_open`, which the caller does not use again.
        drop(unsafe { Box::from_raw(job) });
        let members = shared.and_then(Rc::into_inner);
        members.map_or(Ok(()), |members| members.into_inner().exchange.leave())
    })
}

/// Stores the rank of this process, from 0, and the number of ranks. Each may be NULL. Never waits.
///
/// # Safety
/// `job` is NULL or open, and `rank` and `ranks` are NULL or have room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_rank(
    job: *mut probeline_job,
    rank: *mut u32,
    ranks: *mut u32,
) -> probeline_status {
    let body = |members: &mut Members| {
        let exchange = members.exchange();
        // SAFETY: the program passes NULL or places for numbers (# Safety).
        unsafe {
            put(rank, exchange.me().0);
            put(ranks, exchange.owners());
        }
        Ok(())
    };
    // SAFETY: the program passes NULL or an open job (# Safety).
    unsafe { with(job, body) }
}

/// Waits until all ranks have called it. Collective.
///
/// # Safety
/// `job` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_barrier(job: *mut probeline_job) -> probeline_status {
    let name = const { Call::new("probeline_job_barrier") };
    // SAFETY: the program passes NULL or an open job (# Safety).
    unsafe { with(job, |members| Ok(members.exchange().reduce(name, &mut [])?)) }
}

/// Gathers `bytes` bytes of each rank into `all`, in the order of ranks: at most 4 MiB in all.
/// Collective. If an argument is wrong on one rank, or `bytes` differs between ranks, it fails on all
/// of them, and the job goes on.
///
/// # Safety
/// `job` is NULL or open, `mine` is NULL or has `bytes` bytes, and `all` is NULL or has room for
/// `bytes` bytes of each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_all_gather(
    job: *mut probeline_job,
    mine: *const c_void,
    bytes: usize,
    all: *mut c_void,
) -> probeline_status {
    let body = |members: &mut Members| {
        let ranks = members.owners() as usize;
        let name = const { Call::new("probeline_job_all_gather") };
        let mut call = Collective::new(members.exchange(), name, 0);
        let arguments = product(ranks, bytes).and_then(|count| {
            if count > MAX_RESULT_BYTES {
                let (found, max) = (count as u64, MAX_RESULT_BYTES as u64);
                return Err(Error::invalid(ExchangeError::TooLarge { found, max }));
            }
            // SAFETY: the program passes `mine` of `bytes` bytes, and `all` with room for those of each rank
            // (# Safety).
            unsafe { Ok((slice(mine.cast(), bytes, "mine")?, room(all.cast(), count, "all")?)) }
        });
        let (mine, all) = call.together(arguments)?;
        call.compare("number of bytes", bytes as u64)?;
        let mut gathered = vec![0; all.len()];
        call.exchange().all_gather(mine, &mut gathered)?;
        all.write_copy_of_slice(&gathered);
        Ok(())
    };
    // SAFETY: the program passes NULL or an open job (# Safety).
    unsafe { with(job, body) }
}

/// Stores the sum of `mine` over all ranks at `sum`, at most `UINT64_MAX`. Collective.
///
/// # Safety
/// `job` is NULL or open, and `sum` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_sum(
    job: *mut probeline_job,
    mine: u64,
    sum: *mut u64,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open job, and NULL or a place for a number (# Safety).
    unsafe { reduce(job, "probeline_job_sum", Term::Sum(mine), sum) }
}

/// Stores the smallest `mine` of all ranks at `min`. Collective.
///
/// # Safety
/// `job` is NULL or open, and `min` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_min(
    job: *mut probeline_job,
    mine: u64,
    min: *mut u64,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open job, and NULL or a place for a number (# Safety).
    unsafe { reduce(job, "probeline_job_min", Term::Min(mine), min) }
}

/// Stores the largest `mine` of all ranks at `max`. Collective.
///
/// # Safety
/// `job` is NULL or open, and `max` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_max(
    job: *mut probeline_job,
    mine: u64,
    max: *mut u64,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open job, and NULL or a place for a number (# Safety).
    unsafe { reduce(job, "probeline_job_max", Term::Max(mine), max) }
}

/// Reduces a number over all ranks. A rank without a place for the result takes part.
///
/// # Safety
/// `job` is NULL or open, and `to` is NULL or has room for a number.
unsafe fn reduce(
    job: *mut probeline_job,
    name: &str,
    mine: Term,
    to: *mut u64,
) -> probeline_status {
    let body = |members: &mut Members| {
        let mut terms = [mine];
        members.exchange().reduce(Call::new(name), &mut terms)?;
        // SAFETY: the caller passes NULL or a place for a number (# Safety).
        unsafe { out(to, "the place for the result") }?.write(terms[0].value());
        Ok(())
    };
    // SAFETY: the caller passes NULL or an open job (# Safety).
    unsafe { with(job, body) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::probeline_last_error;
    use crate::table::{panic_in_call, probeline_table_close, probeline_table_len};
    use crate::table::{probeline_table, probeline_table_open};
    use core::ffi::CStr;
    use probeline_status::{
        PROBELINE_ERROR_LOST as LOST, PROBELINE_ERROR_PANIC as PANIC, PROBELINE_OK as OK,
    };
    use std::ffi::CString;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::{env, fs, net, process, thread};

    /// Rank and table of a job of two threads.
    struct Rank {
        job: *mut probeline_job,
        table: *mut probeline_table,
    }

    impl Rank {
        fn open(rank: u32, rendezvous: &CStr, secret_file: &CStr) -> Self {
            let (mut job, mut table) = (ptr::null_mut(), ptr::null_mut());
            let options = probeline_job_options {
                transport: PROBELINE_TRANSPORT_SHM,
                start: PROBELINE_START_MANUAL,
                ranks: 2,
                rank,
                rendezvous: rendezvous.as_ptr(),
                secret_file: secret_file.as_ptr(),
                collective_limit_s: 60,
                ..probeline_job_options::DEFAULT
            };
            // SAFETY: valid options and places for the handles.
            unsafe {
                assert_eq!(probeline_job_open(&raw const options, &raw mut job), OK);
                assert_eq!(probeline_table_open(job, ptr::null(), &raw mut table), OK);
            }
            Self { job, table }
        }

        /// Panics in a call on the table, or else on the job, and closes both.
        fn panic(self, in_table: bool) {
            // SAFETY: open handles, which are not used again once they are closed.
            unsafe {
                let panics = || {
                    if in_table {
                        panic_in_call(self.table)
                    } else {
                        with(self.job, |_| panic!("a test"))
                    }
                };
                assert_eq!((panics(), panics()), (PANIC, PANIC));
                assert_eq!(probeline_table_close(self.table), if in_table { OK } else { LOST });
                assert_eq!(probeline_job_close(self.job), OK);
            }
        }

        /// Makes a collective call, from which the panic of the other rank releases it.
        fn wait(self, panicked: u32) {
            // SAFETY: the job and the table are open, and only this thread uses them.
            unsafe {
                assert_eq!(probeline_table_len(self.table, ptr::null_mut()), LOST);
                let text = CStr::from_ptr(probeline_last_error()).to_string_lossy().into_owned();
                assert!(text.contains(&format!("rank {panicked} died or left")), "{text}");
                assert_eq!(probeline_table_close(self.table), LOST);
                assert_eq!(probeline_job_close(self.job), OK);
            }
        }
    }

    #[test]
    fn panic_releases_other_ranks() {
        let secret = env::temp_dir().join(format!("probeline-panic-{}", process::id()));
        let created = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&secret);
        std::io::Write::write_all(&mut created.unwrap(), &[b's'; 32]).unwrap();
        let secret_file = CString::new(secret.to_str().unwrap()).unwrap();
        for (panicking, in_table) in [(0, true), (1, true), (1, false)] {
            let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
            let rendezvous = CString::new(listener.local_addr().unwrap().to_string()).unwrap();
            drop(listener);
            thread::scope(|scope| {
                for rank in 0..2 {
                    let (rendezvous, secret_file) = (&rendezvous, &secret_file);
                    scope.spawn(move || {
                        let opened = Rank::open(rank, rendezvous, secret_file);
                        if rank == panicking {
                            opened.panic(in_table)
                        } else {
                            opened.wait(panicking)
                        }
                    });
                }
            });
        }
        fs::remove_file(secret).unwrap();
    }
}
