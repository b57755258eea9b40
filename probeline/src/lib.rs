//! Data structures in the memory of many processes, reached only with one-sided RDMA operations.
//!
//! The processes of a job each own a part of the memory, a *window*, and access all windows with
//! READ, WRITE, compare-and-swap and fetch-and-add; over `shm` and `verbs` the CPU of the owner takes no
//! part, over UCX and MPI the library decides. The
//! structures are [`table`]: find-or-put of 63-bit keys and of wide keys, after W. Oortwijn, T. van
//! Dijk and J. van de Pol, *A Distributed Hash Table for Shared Memory* (PPAM 2015); `map`: a lossy
//! key-value cache of fixed-size keys and values for expensive results; and `containers`: arrays,
//! counters, maps, queues, Bloom filters, objects and aggregated messages; and `dsm`: shared memory by
//! pages with release consistency. After opening, the structures and the transports `shm` and
//! `verbs` do not allocate, block or make a system call, and no structure starts threads: the caller's
//! loop polls. (UCX and MPI do as their libraries do. The transport over UCX starts one, and joining through a launcher's server one. Plain memory, feature
//! `dsm-fault`, protects pages by system calls and handles SIGSEGV or SIGBUS.)
//!
//! # First program
//!
//! ```toml
//! [dependencies]
//! probeline = { path = "../probeline/probeline" }
//! ```
//!
//! One process over shared memory:
//!
//! ```
//! use probeline::shm;
//! use probeline::table::{Config, Finished, Intent, Operation, Outcome, Table, Tag};
//! use probeline::transport::Alone;
//!
//! let mut job = Alone; // a job of one rank
//! let config = Config::for_keys(100_000, 1);
//! let engine = shm::Builder::new(config.sizes(32)).open(&mut job)?;
//! let mut table = Table::open(engine, config, [Operation::EMPTY; 32], &mut job)?;
//!
//! assert_eq!(table.find_or_put(42)?, Outcome::Inserted);
//! assert_eq!(table.find_or_put(42)?, Outcome::Found);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # In a poll loop
//!
//! [`submit`](table::Table::submit) starts an operation under a [`Tag`](table::Tag) of the caller,
//! [`poll_into`](pipeline::Structure::poll_into) makes progress and returns what has finished:
//!
//! ```
//! # use probeline::shm;
//! # use probeline::table::{Config, Ended, Finished, Intent, Operation, Table, Tag};
//! # let mut job = probeline::transport::Alone;
//! # let config = Config::for_keys(100_000, 1);
//! # let engine = shm::Builder::new(config.sizes(32)).open(&mut job)?;
//! # let mut table = Table::open(engine, config, [Operation::EMPTY; 32], &mut job)?;
//! let mut finished = [Finished::default(); 32];
//! let (mut next, mut inserted) = (0, 0);
//! while next < 1000 || table.in_flight() > 0 {
//!     while next < 1000 && table.has_room() {
//!         table.submit(Tag(next), next, Intent::FindOrPut)?;
//!         next += 1;
//!     }
//!     for operation in table.poll_into(&mut finished)? {
//!         inserted += u64::from(operation.result? == Ended::Inserted);
//!     }
//!     // Other work of the loop.
//! }
//! assert_eq!(inserted, 1000);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Batches ([`find_or_put_batch`](table::Table::find_or_put_batch)) and futures
//! ([`Shared`](table::Shared)) run on the same operations.
//!
//! # Several processes
//!
//! With the feature `exchange`, `exchange::join` starts the other ranks or meets them: spawned on
//! this machine, over TCP with a shared secret, or under `mpirun` and `srun`. It replaces `Alone`
//! above. `Job::rank` and `Job::ranks` say which process this is; to a structure each rank is an
//! *owner* of a part of the memory. Over RDMA NICs, feature `verbs`, only the builder differs. The
//! guide in `docs/guide/` shows two processes, two nodes, and the order of closing.
//!
//! # Choosing C and M
//!
//! A chunk READ brings C buckets (`chunk_buckets`); an operation gives up after M chunks
//! (`max_chunks`) with [`Outcome::Full`](table::Outcome::Full). Larger C costs bytes, smaller C costs
//! roundtrips at high load factors. The command `probeline tune` measures a network and writes the
//! best values to a file, which the feature `tuning` loads.
//!
//! Examples in the modules name the crates behind them: `probeline_table` is `probeline::table`.
//!
//! # Features
//!
//! | feature | module | needs |
//! |---|---|---|
//! | | [`transport`], [`pipeline`], [`table`] | core only |
//! | `containers` (default) | `containers`: arrays, counters, maps, queues, Bloom filters, objects, messages | core only |
//! | `dsm` (default) | `dsm`: shared memory by pages | core only |
//! | `dsm-fault` | regions of `dsm` as plain memory, by page faults | Linux |
//! | `postcard` | objects of any serde type in `containers` | core only |
//! | `map` (default) | `map`: key-value cache | core only |
//! | `map-files` | saving maps to files, and loading them | std |
//! | `shm` (default) | `shm`: processes of one machine | Linux |
//! | `sim` | `sim`: simulated owners in virtual time; with `std`, `sim::stage` runs blocking code on them | alloc |
//! | `verbs` | `verbs`: RDMA NICs; with `pin` it allocates the window | alloc; libibverbs at run time |
//! | `ucx`, `mpi` | `ucx`, `mpi`: for comparison | libucp at run time; an MPI library to build |
//! | `exchange` | `exchange`: the ranks of a job | std |
//! | `pin`, `hwloc` | `pin`: cores, NUMA nodes, huge pages | Linux; libhwloc to build |
//! | `tuning` | `tuning`: the file of `probeline tune` | std |
//! | `conformance` | [`transport`]`::conformance`: the suite for your own transport | std |
//! | `serde` | the table's counters with serde | |
#![no_std]
#![forbid(unsafe_code)]

#[doc(inline)]
pub use probeline_pipeline as pipeline;
#[doc(inline)]
pub use probeline_table as table;
#[doc(inline)]
pub use probeline_transport as transport;

#[cfg(feature = "containers")]
#[doc(inline)]
pub use probeline_containers as containers;
#[cfg(feature = "dsm")]
#[doc(inline)]
pub use probeline_dsm as dsm;
#[cfg(feature = "exchange")]
#[doc(inline)]
pub use probeline_exchange as exchange;
#[cfg(feature = "map")]
#[doc(inline)]
pub use probeline_map as map;
#[cfg(feature = "pin")]
#[doc(inline)]
pub use probeline_pin as pin;
#[cfg(feature = "shm")]
#[doc(inline)]
pub use probeline_shm as shm;
#[cfg(feature = "sim")]
#[doc(inline)]
pub use probeline_sim as sim;
#[cfg(feature = "tuning")]
#[doc(inline)]
pub use probeline_table::tuning;
#[cfg(feature = "mpi")]
#[doc(inline)]
pub use probeline_ucx_shim::mpi;
#[cfg(feature = "ucx")]
#[doc(inline)]
pub use probeline_ucx_shim::ucx;
#[cfg(feature = "verbs")]
#[doc(inline)]
pub use probeline_verbs as verbs;

/// Compiles and runs the examples of the README and the guide.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/guide/embed.md")]
    struct Embed;
    #[doc = include_str!("../../docs/guide/containers.md")]
    struct Containers;
    #[doc = include_str!("../../docs/guide/shared-pages.md")]
    struct SharedPages;
    #[doc = include_str!("../../docs/guide/two-nodes.md")]
    struct TwoNodes;
    #[doc = include_str!("../../docs/guide/write-a-transport.md")]
    struct WriteATransport;
    #[doc = include_str!("../../docs/guide/add-a-structure.md")]
    struct AddAStructure;
}
