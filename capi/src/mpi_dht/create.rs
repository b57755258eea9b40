//! Creates a table: how its ranks meet, and the transport between them.

use core::cell::RefCell;
use core::ffi::{CStr, c_int};
use core::hash::{Hash, Hasher};
use core::ptr;
use std::hash::DefaultHasher;
use std::io::Write as _;
use std::rc::Rc;

use probeline::transport::Exchange;

use super::program::Program;
use super::statistics::{Accesses, Visible};
use super::{DHT, Table, probeline_dht_rendezvous};
use crate::call::call;
use crate::handle::Handle;
use crate::job::{Members, Shared};
use crate::job_options::*;
use crate::map::{probeline_map, probeline_map_options};
use crate::network;
use crate::options::Options;
use crate::rendezvous::Rendezvous;
use crate::status::{Error, probeline_last_error, probeline_status};
use crate::structure::open_as;

/// Names of the options of a map, and those that programs of MPI-DHT know.
const WORDS: [(&str, &str); 3] =
    [("key_bytes", "key_size"), ("value_bytes", "data_size"), ("buckets_per_rank", "bucket_count")];

/// Opens a job among the ranks of a program, or of its launcher if it has passed none.
fn job(rendezvous: Option<probeline_dht_rendezvous>) -> Result<Shared, Error> {
    let options = probeline_job_options::DEFAULT;
    let met =
        |exchange, transport| Members { exchange, transport, options, device: None, ucx_tls: None };
    let members = match rendezvous {
        // SAFETY: the default has no texts.
        None => unsafe { Members::join(&options) }?,
        Some(rendezvous) => {
            // SAFETY: the header's functions, which `DHT.h` asks to call in one thread.
            let mut program = unsafe { Program::new(rendezvous) };
            match choose_transport(&mut program)? {
                PROBELINE_TRANSPORT_MPI => met(attach(&rendezvous)?, PROBELINE_TRANSPORT_MPI),
                transport => met(Rendezvous::Program(Box::new(program)), transport),
            }
        }
    };
    Ok(Rc::new(RefCell::new(members)))
}

/// Returns the transport that the environment names, or else shared memory if all ranks are on one
/// machine, or else MPI RMA if this library has it. All ranks return the same.
fn choose_transport(ranks: &mut dyn Exchange) -> Result<c_int, Error> {
    let named = network::from_env();
    let choice = named.as_ref().map_or(-1, |named| named.unwrap_or(PROBELINE_TRANSPORT_AUTO));
    let mine = [machine().to_ne_bytes(), i64::from(choice).to_ne_bytes()];
    let mut all = vec![[[0; 8]; 2]; ranks.owners() as usize];
    ranks.all_gather(mine.as_flattened(), all.as_flattened_mut().as_flattened_mut())?;
    let named = named?;
    if let Some(rank) = all.iter().position(|theirs| theirs[1] != mine[1]) {
        return Err(Error::new(
            probeline_status::PROBELINE_ERROR_DIFFERS,
            format_args!("rank {rank} has another PROBELINE_TRANSPORT: give all ranks the same"),
        ));
    }
    match named {
        Some(transport) => Ok(transport),
        None if all.iter().all(|theirs| theirs[0] == mine[0]) => Ok(PROBELINE_TRANSPORT_SHM),
        None if cfg!(feature = "mpi") => Ok(PROBELINE_TRANSPORT_MPI),
        None => Err(Error::open(
            "the ranks run on several machines: set PROBELINE_TRANSPORT to verbs or ucx on all of them",
        )),
    }
}

/// Returns a number that processes have in common if they can share memory: their machine has started
/// once, and they see each other's process numbers.
fn machine() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/random/boot_id").ok().hash(&mut hasher);
    std::fs::read_link("/proc/self/ns/pid").ok().hash(&mut hasher);
    hasher.finish()
}

/// Lets the ranks of the program's communicator meet through the MPI library of this build.
#[cfg(feature = "mpi")]
fn attach(rendezvous: &probeline_dht_rendezvous) -> Result<Rendezvous, Error> {
    use probeline::mpi::{RawComm, World};
    if rendezvous.comm.is_null() || rendezvous.comm_bytes != size_of::<RawComm>() {
        return Err(Error::open(
            "the program uses another MPI library than this one was built with",
        ));
    }
    // SAFETY: the header passes the place of its communicator, whose type has this size; `DHT.h` asks
    // for MPI_THREAD_MULTIPLE if other threads call MPI.
    let world = unsafe {
        World::attach(rendezvous.comm.cast::<RawComm>().read_unaligned(), super::program::LIMIT)
    }?;
    Ok(Rendezvous::Mpi(world.members()?))
}

#[cfg(not(feature = "mpi"))]
fn attach(_: &probeline_dht_rendezvous) -> Result<Rendezvous, Error> {
    Err(crate::status::not_built("mpi"))
}

/// Creates a table; collective. NULL if that fails, and a sentence on standard error. A write that evicts
/// returns `evicted`. Without a rendezvous the ranks meet through their launcher.
///
/// # Safety
/// `rendezvous` is NULL, or its functions behave as described, in this thread, until the table is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_dht_create(
    key_size: u64,
    data_size: u64,
    bucket_count: u64,
    evicted: c_int,
    counts_accesses: c_int,
    rendezvous: *const probeline_dht_rendezvous,
) -> *mut DHT {
    // A size that does not fit is refused as too large.
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let options = probeline_map_options {
        key_bytes: size(key_size),
        value_bytes: size(data_size),
        buckets_per_rank: bucket_count,
        entries: 0,
        ..probeline_map_options::DEFAULT
    };
    let mut table = ptr::null_mut();
    let created = call(|| {
        // SAFETY: the program passes NULL or a rendezvous (# Safety).
        let job = job(unsafe { rendezvous.as_ref() }.copied())?;
        let map = open_as::<probeline_map>("DHT_create", &job, Ok(options))
            .map_err(|error| error.in_words(&WORDS))?;
        let visible = Visible::new(&map);
        let accesses = Accesses::new(map.opened.ranks, map.options.candidates);
        let accesses = (counts_accesses != 0).then_some(accesses);
        let (counts, reset_at) = Default::default();
        let opened = Table { map, evicted, counts, reset_at, accesses };
        table = Box::into_raw(Box::new(DHT { visible, table: Handle::new(opened) }));
        // SAFETY: it was just created.
        unsafe { (*table).visible.stats = &raw mut (*table).visible.own_stats };
        Ok(())
    });
    if created != probeline_status::PROBELINE_OK {
        // SAFETY: a text of this thread.
        let text = unsafe { CStr::from_ptr(probeline_last_error()) }.to_string_lossy();
        // Programs of MPI-DHT know only NULL. One write, because other ranks print as well.
        let _ = std::io::stderr().write_all(format!("DHT_create: {text}\n").as_bytes());
    }
    table
}
