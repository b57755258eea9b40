//! Options of jobs.

use core::ffi::{c_char, c_int};
use core::ptr;

use probeline::exchange::MAX_RANKS;

use crate::options::Allowed::{Constants, Flag, Range};
use crate::options::{Extensible, options};

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
///
/// The copies end with the thread of this process that has opened the job: when it ends, the kernel
/// kills those that still run.
pub const PROBELINE_START_AUTO: c_int = 0;
/// Join processes that were started by hand: `rank`, `ranks` and `rendezvous` say how.
pub const PROBELINE_START_MANUAL: c_int = 1;

/// Options of a job. All ranks give the same transport, number of ranks and rendezvous, and the secret.
/// The others may differ: the limits, the device with its port and GID, and what the rank has by itself.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_job_options {
    /// The size of this structure, which probeline_job_options_init() stores.
    pub size: usize,
    /// PROBELINE_TRANSPORT_... [default: PROBELINE_TRANSPORT_AUTO]
    pub transport: c_int,
    /// PROBELINE_START_... [default: PROBELINE_START_AUTO]
    pub start: c_int,
    /// The number of ranks, 1 to 4,096, unless a launcher or MPI says it. [default: 1]
    pub ranks: u32,
    /// This rank, from 0, if `start` is PROBELINE_START_MANUAL.
    pub rank: u32,
    /// "HOST:PORT" of rank 0, if the launcher has no PMI server or `start` is
    /// PROBELINE_START_MANUAL. All ranks then need the same secret, in a file or in the environment
    /// variable PROBELINE_SECRET. [default: NULL]
    pub rendezvous: *const c_char,
    /// A file with the secret, which only its owner may read. [default: NULL]
    pub secret_file: *const c_char,
    /// Whether other machines may connect to the rendezvous: 0 or 1. [default: 0]
    pub allow_remote: c_int,
    /// Whether to assume, over verbs, UCX and MPI, that no READ brings a torn word: 0 or 1. No
    /// specification promises it. If the assumption is wrong, a table loses data. [default: 0]
    pub word_reads_whole: c_int,
    /// The longest wait for all ranks to join, in seconds, at least 1. [default: 60]
    pub join_limit_s: u32,
    /// The longest wait in a collective call, in seconds, at least 1. [default: 600]
    pub collective_limit_s: u32,
    /// The RDMA device, such as "mlx5_0", or UCX's network device, such as "mlx5_0:1". [default:
    /// NULL, the first one that works]
    pub device: *const c_char,
    /// The device's port for verbs, 1 to 255. [default: 0, the first active one]
    pub port: c_int,
    /// The index of the GID for verbs and UCX, 0 to 255. [default: -1, which selects one]
    pub gid_index: c_int,
    /// UCX's transports, as UCX_TLS. [default: NULL]
    pub ucx_tls: *const c_char,
    /// The longest wait of rank 0 in probeline_job_close() for the processes that it has started, in
    /// seconds, at least 1. It then kills those that still run. [default: 10]
    pub close_limit_s: u32,
}

// SAFETY: repr(C); numbers and pointers, of which the first number is the size.
unsafe impl Extensible for probeline_job_options {}

options!(probeline_job_options |_|
    transport = PROBELINE_TRANSPORT_AUTO, Constants(&[
        "PROBELINE_TRANSPORT_AUTO",
        "PROBELINE_TRANSPORT_SHM",
        "PROBELINE_TRANSPORT_VERBS",
        "PROBELINE_TRANSPORT_UCX",
        "PROBELINE_TRANSPORT_MPI",
    ]);
    start = PROBELINE_START_AUTO, Constants(&["PROBELINE_START_AUTO", "PROBELINE_START_MANUAL"]);
    ranks = 1, Range(1, MAX_RANKS.into());
    rank = 0, Range(0, u64::from(MAX_RANKS) - 1);
    rendezvous = ptr::null();
    secret_file = ptr::null();
    allow_remote = 0, Flag;
    word_reads_whole = 0, Flag;
    join_limit_s = 60, Range(1, u32::MAX.into());
    collective_limit_s = 600, Range(1, u32::MAX.into());
    device = ptr::null();
    port = 0, Range(0, 255);
    gid_index = -1, Range(-1, 255);
    ucx_tls = ptr::null();
    close_limit_s = 10, Range(1, u32::MAX.into());
);
