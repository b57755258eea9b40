//! Jobs: the processes that share tables and maps, and the transport between them.

use core::cell::RefCell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::time::Duration;
use std::rc::Rc;

use probeline::exchange::{Job, Launch, Limits, Options, Rendezvous, Secret, Start};
use probeline::transport::{Alone, Exchange, Sizes};

use crate::call::{call, out, put, room, slice};
use crate::engine::Engine;
use crate::handle::Handle;
use crate::network::{Network, Transport, text};
use crate::options::{self, Extensible};
use crate::status::{Error, probeline_status};

/// The transport that the environment variable PROBELINE_TRANSPORT names: "shm", "verbs", "ucx" or
/// "mpi"; shared memory without the variable.
pub const PROBELINE_TRANSPORT_AUTO: c_int = 0;
/// Shared memory between processes of one machine.
pub const PROBELINE_TRANSPORT_SHM: c_int = 1;
/// RDMA NICs, by libibverbs, which is loaded at run time.
pub const PROBELINE_TRANSPORT_VERBS: c_int = 2;
/// UCX, by libucp, which is loaded at run time.
pub const PROBELINE_TRANSPORT_UCX: c_int = 3;
/// MPI RMA, if the library was built with it.
pub const PROBELINE_TRANSPORT_MPI: c_int = 4;

/// Join the processes that mpirun, mpiexec or srun has started with this one. Without a launcher,
/// start `ranks` - 1 copies of this program on this machine, with the same arguments; the copies
/// call probeline_job_open() as well. Over MPI RMA, MPI joins the processes.
pub const PROBELINE_START_AUTO: c_int = 0;
/// Join processes that were started by hand: `rank`, `ranks` and `rendezvous` say how.
pub const PROBELINE_START_PLACED: c_int = 1;

/// The longest wait for started processes to exit after the job.
const CHILDREN_LEAVE: Duration = Duration::from_secs(10);

/// Options of a job. All ranks give the same transport, number of ranks and rendezvous.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_job_options {
    /// The size of this structure, which probeline_job_options_init() stores.
    pub size: usize,
    /// PROBELINE_TRANSPORT_... [default: PROBELINE_TRANSPORT_AUTO]
    pub transport: c_int,
    /// PROBELINE_START_... [default: PROBELINE_START_AUTO]
    pub start: c_int,
    /// The number of ranks, unless a launcher or MPI says it. [default: 1]
    pub ranks: u32,
    /// This rank, from 0, if `start` is PROBELINE_START_PLACED.
    pub rank: u32,
    /// "HOST:PORT" of rank 0, if the launcher has no PMI server or `start` is
    /// PROBELINE_START_PLACED. All ranks then need the same secret, in a file or in the environment
    /// variable PROBELINE_SECRET. [default: NULL]
    pub rendezvous: *const c_char,
    /// A file with the secret, which only its owner may read. [default: NULL]
    pub secret_file: *const c_char,
    /// Whether other machines may connect to the rendezvous: 0 or 1. [default: 0]
    pub allow_remote: c_int,
    /// Whether to assume, over verbs, UCX and MPI, that no READ brings a torn word: 0 or 1. No
    /// specification promises it. If the assumption is wrong, a table loses data. [default: 0]
    pub word_reads_whole: c_int,
    /// The longest wait for all ranks to join, in seconds. [default: 60]
    pub join_limit_s: u32,
    /// The longest wait in a collective call, in seconds. [default: 600]
    pub collective_limit_s: u32,
    /// The RDMA device, such as "mlx5_0", or UCX's network device, such as "mlx5_0:1". [default:
    /// NULL, the first one that works]
    pub device: *const c_char,
    /// The device's port for verbs, counted from 1. [default: 0, the first active one]
    pub port: c_int,
    /// The index of the GID for verbs and UCX. [default: -1, which selects one]
    pub gid_index: c_int,
    /// UCX's transports, as UCX_TLS. [default: NULL]
    pub ucx_tls: *const c_char,
}

// SAFETY: repr(C); numbers and pointers, of which the first number is the size.
unsafe impl Extensible for probeline_job_options {
    const DEFAULT: Self = Self {
        size: size_of::<Self>(),
        transport: PROBELINE_TRANSPORT_AUTO,
        start: PROBELINE_START_AUTO,
        ranks: 1,
        rank: 0,
        rendezvous: ptr::null(),
        secret_file: ptr::null(),
        allow_remote: 0,
        word_reads_whole: 0,
        join_limit_s: 60,
        collective_limit_s: 600,
        device: ptr::null(),
        port: 0,
        gid_index: -1,
        ucx_tls: ptr::null(),
    };
}

/// The processes that share tables and maps.
pub struct probeline_job(pub(crate) Handle<Shared>);

/// A job, which its tables and maps use as well.
pub(crate) type Shared = Rc<RefCell<Members>>;

/// The ranks of a job, and how to open engines between them.
pub(crate) struct Members {
    exchange: Meeting,
    transport: Network,
}

/// How the ranks meet.
pub(crate) enum Meeting {
    Alone(Alone),
    Job(Box<Job>),
    #[cfg(feature = "mpi")]
    Mpi(probeline::mpi::Members),
}

impl Meeting {
    fn exchange(&mut self) -> &mut dyn Exchange {
        match self {
            Self::Alone(alone) => alone,
            Self::Job(job) => &mut **job,
            #[cfg(feature = "mpi")]
            Self::Mpi(members) => members,
        }
    }

    /// Joins the job.
    ///
    /// # Safety
    /// The texts of the options are NULL or end with NUL.
    unsafe fn join(options: &probeline_job_options) -> Result<Self, Error> {
        // SAFETY: by the contract.
        let (address, secret) = unsafe {
            (text(options.rendezvous, "rendezvous")?, text(options.secret_file, "secret_file")?)
        };
        let allow_remote = options.allow_remote != 0;
        let rendezvous = address.map(|address| Rendezvous { address, allow_remote });
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let limits = Limits {
            rendezvous: seconds(options.join_limit_s),
            collective: seconds(options.collective_limit_s),
        };
        let secret = secret.map(Secret::from_file).transpose()?;
        let Some(start) = start(options, rendezvous)? else { return Ok(Self::Alone(Alone)) };
        let parameters = format!("c_interface={}", env!("CARGO_PKG_VERSION"));
        let job = probeline::exchange::join(Options { start, parameters, secret, limits })?;
        Ok(Self::Job(Box::new(job)))
    }

    /// Starts MPI, or uses it if the program has started it.
    #[cfg(feature = "mpi")]
    fn join_mpi(limit: Duration) -> Result<Self, Error> {
        // SAFETY: a job belongs to one thread; the header asks for MPI_THREAD_MULTIPLE if others call
        // MPI.
        let world = unsafe { probeline::mpi::World::init_or_attach(limit) }?;
        Ok(Self::Mpi(world.members()?))
    }

    #[cfg(not(feature = "mpi"))]
    fn join_mpi(_: Duration) -> Result<Self, Error> {
        Err(crate::network::not_built("mpi"))
    }
}

/// Returns how the ranks are started; `None` for one that nobody else joins.
fn start(
    options: &probeline_job_options,
    rendezvous: Option<Rendezvous>,
) -> Result<Option<Start>, Error> {
    let (rank, size) = (options.rank, options.ranks);
    match options.start {
        PROBELINE_START_AUTO => {
            if Launch::from_env()?.is_some_and(|launch| launch.size > 1) {
                return Ok(Some(Start::Launched { rendezvous }));
            }
            Ok((size != 1).then_some(Start::Spawn { ranks: size, arguments: None }))
        }
        PROBELINE_START_PLACED => {
            let missing = || Error::invalid("PROBELINE_START_PLACED needs a rendezvous, HOST:PORT");
            let rendezvous = rendezvous.ok_or_else(missing)?;
            Ok(Some(Start::Placed { rank, size, rendezvous }))
        }
        other => Err(Error::invalid(format_args!("start is {other}: give PROBELINE_START_..."))),
    }
}

/// What all ranks open together: a kind of structure and its sizes.
pub(crate) type Shape = [u64; 3];

/// The most operations in flight.
const MAX_OPERATIONS: u32 = 1 << 16;

/// Checks the number of operations in flight.
pub(crate) fn check_operations(operations: u32) -> Result<(), Error> {
    if (1..=MAX_OPERATIONS).contains(&operations) {
        return Ok(());
    }
    let text = format_args!("operations is {operations}: give 1 to {MAX_OPERATIONS}");
    Err(Error::invalid(text))
}

impl Members {
    /// # Safety
    /// The texts of the options are NULL or end with NUL.
    unsafe fn join(options: &probeline_job_options) -> Result<Self, Error> {
        // SAFETY: by the contract.
        let transport = unsafe { Network::new(options) }?;
        let exchange = match transport.transport {
            Transport::Mpi => {
                Meeting::join_mpi(Duration::from_secs(options.collective_limit_s.into()))?
            }
            // SAFETY: by the contract.
            _ => unsafe { Meeting::join(options) }?,
        };
        Ok(Self { exchange, transport })
    }

    /// Creates the job of these members of MPI, over the transport that the environment names, or
    /// else MPI RMA.
    #[cfg(feature = "mpi")]
    pub(crate) fn of_mpi(members: probeline::mpi::Members) -> Result<Self, Error> {
        let is_named = std::env::var_os(crate::network::TRANSPORT_VARIABLE).is_some();
        let transport = if is_named { PROBELINE_TRANSPORT_AUTO } else { PROBELINE_TRANSPORT_MPI };
        let options = probeline_job_options { transport, ..probeline_job_options::DEFAULT };
        // SAFETY: the default has no texts.
        let transport = unsafe { Network::new(&options) }?;
        Ok(Self { exchange: Meeting::Mpi(members), transport })
    }

    pub(crate) fn exchange(&mut self) -> &mut dyn Exchange {
        self.exchange.exchange()
    }

    pub(crate) fn owners(&mut self) -> u32 {
        self.exchange().owners()
    }

    /// Checks that all ranks open the same structure. A rank that cannot, for which `mine` is `None`,
    /// tells the others.
    pub(crate) fn agree(&mut self, mine: Option<Shape>) -> Result<(), Error> {
        const WORDS: usize = 4;
        let exchange = self.exchange();
        let words = mine.map_or([0; WORDS], |[kind, first, second]| [1, kind, first, second]);
        let bytes = words.map(u64::to_le_bytes);
        let mut all = vec![[[0; 8]; WORDS]; exchange.owners() as usize];
        exchange.all_gather(bytes.as_flattened(), all.as_flattened_mut().as_flattened_mut())?;
        if mine.is_none() {
            return Ok(());
        }
        let differs = |text| Error::new(probeline_status::PROBELINE_ERROR_DIFFERS, text);
        for (rank, theirs) in all.iter().enumerate() {
            if *theirs == [[0; 8]; WORDS] {
                return Err(differs(format!("rank {rank} could not open it: see its error")));
            }
            if *theirs != bytes {
                let text = "opened something else: start all ranks with the same options, and open \
                            tables and maps in the same order";
                return Err(differs(format!("rank {rank} {text}")));
            }
        }
        Ok(())
    }

    /// Opens an engine together with the other ranks.
    pub(crate) fn open(&mut self, sizes: Sizes) -> Result<Engine, Error> {
        let Self { exchange, transport: network } = self;
        match network.transport {
            Transport::Shm => network.open_shm(sizes, exchange.exchange()),
            Transport::Verbs => network.open_verbs(sizes, exchange.exchange()),
            Transport::Ucx => network.open_ucx(sizes, exchange.exchange()),
            Transport::Mpi => network.open_mpi(sizes, exchange),
        }
    }

    /// Leaves the job.
    fn leave(self) -> Result<(), Error> {
        match self.exchange {
            Meeting::Job(job) => Ok(job.finish(CHILDREN_LEAVE)?),
            _ => Ok(()),
        }
    }
}

/// Stores the default options and `size`, which is sizeof(probeline_job_options).
///
/// # Safety
/// `options` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_options_init(
    options: *mut probeline_job_options,
    size: usize,
) -> probeline_status {
    // SAFETY: by the contract.
    call(|| unsafe { options::write(options, size, &probeline_job_options::DEFAULT) })
}

/// Joins the job and stores its handle at `job`. `options` may be NULL, for the defaults. Every
/// process of the job calls it. Signals, threads and the standard streams stay as they are.
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
        // SAFETY: by the contract.
        let (job, options) =
            unsafe { (out(job, "job")?, options::read(options, "probeline_job_options_init")?) };
        job.write(ptr::null_mut());
        // SAFETY: by the contract.
        let members = unsafe { Members::join(&options) }?;
        let handle = probeline_job(Handle::new(Rc::new(RefCell::new(members))));
        job.write(Box::into_raw(Box::new(handle)));
        Ok(())
    })
}

/// Returns a job.
///
/// # Safety
/// `job` is NULL or from `probeline_job_open` and not closed.
pub(crate) unsafe fn shared(job: *mut probeline_job) -> Result<Shared, Error> {
    // SAFETY: by the contract.
    let job = unsafe { job.as_ref() }.ok_or_else(|| Error::invalid("job is NULL"))?;
    job.0.with(|job| Ok(job.clone()))
}

/// Runs a call on the members of a job.
///
/// # Safety
/// As for [`shared`].
unsafe fn with(
    job: *mut probeline_job,
    body: impl FnOnce(&mut Members) -> Result<(), Error>,
) -> probeline_status {
    // SAFETY: by the contract.
    call(|| body(&mut unsafe { shared(job) }?.borrow_mut()))
}

/// Leaves the job and frees it; `job` may be NULL. Close its tables and maps before: otherwise it
/// returns PROBELINE_ERROR_IN_USE and frees nothing. Rank 0 waits up to 10 seconds for the processes
/// that it has started, and reports those that failed.
///
/// # Safety
/// `job` is NULL or from `probeline_job_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_close(job: *mut probeline_job) -> probeline_status {
    call(|| {
        if job.is_null() {
            return Ok(());
        }
        // SAFETY: by the contract.
        if Rc::strong_count(&unsafe { shared(job) }?) > 2 {
            let text = "close the tables and maps of the job before the job";
            return Err(Error::new(probeline_status::PROBELINE_ERROR_IN_USE, text));
        }
        // SAFETY: a box from `probeline_job_open`, which the caller does not use again.
        let members = unsafe { Box::from_raw(job) }.0.take()?.and_then(Rc::into_inner);
        members.map_or(Ok(()), |members| members.into_inner().leave())
    })
}

/// Stores the rank of this process, from 0, and the number of ranks. Each may be NULL.
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
        // SAFETY: by the contract.
        unsafe {
            put(rank, exchange.me().0);
            put(ranks, exchange.owners());
        }
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(job, body) }
}

/// Waits until all ranks have called it. Collective.
///
/// # Safety
/// `job` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_job_barrier(job: *mut probeline_job) -> probeline_status {
    // SAFETY: by the contract.
    unsafe { with(job, |members| Ok(members.exchange().barrier()?)) }
}

/// Gathers `bytes` bytes of each rank into `all`, in the order of ranks. Collective.
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
        let count = crate::call::product(members.owners() as usize, bytes)?;
        // SAFETY: by the contract.
        let (mine, all) = unsafe {
            (slice(mine.cast::<u8>(), bytes, "mine")?, room(all.cast::<u8>(), count, "all")?)
        };
        let mut gathered = vec![0; count];
        members.exchange().all_gather(mine, &mut gathered)?;
        all.iter_mut().zip(gathered).for_each(|(to, byte)| {
            to.write(byte);
        });
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { with(job, body) }
}
