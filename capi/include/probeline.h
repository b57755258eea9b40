/* The C interface of Probeline: distributed tables, caches, arrays, counters, queues and aggregated messages
 * in the memory of many processes, reached only with one-sided RDMA operations. docs/guide/c.md introduces
 * it.
 *
 * Functions return PROBELINE_OK or the kind of an error; after an error, probeline_last_error() has
 * a sentence about it. A NULL argument or an invalid option is an error, not undefined behaviour,
 * unless the function allows it. Undefined behaviour are the use of a closed handle, and results that
 * overlap other arguments.
 *
 * A handle belongs to the thread that opened it; calls by other threads, even after that one has
 * ended, fail with PROBELINE_ERROR_THREAD. Threads may use handles of their own at the same time.
 * Functions of "any thread" have no handle.
 *
 * Each function says for whom it waits:
 * - "Never waits": for no other rank. Any rank calls it, at any time. (Over MPI a poll may wait for the
 *   CPU of another rank, if the library's atomics need it.)
 * - "Waits for its operations": for the memory of other ranks, which do not take part. Any rank calls it,
 *   at any time. It returns when they have ended, or PROBELINE_ERROR_LOST when a rank is lost (over
 *   UCX when one has not ended after 60 s; over MPI the launcher ends all ranks). Over shared memory
 *   calls notice that: a poll at once, and every 64th of the calls that the CPU runs itself.
 * - "Collective": all ranks of the job call it, in the same order. It waits for the others, at most
 *   `collective_limit_s` seconds.
 *
 * Arrays and structures are aligned as C aligns their types: keys of tables to 8 bytes. Keys and values of
 * maps, elements of arrays, values of queues, messages, outcomes, and single numbers that may be NULL may be at
 * any address.
 *
 * Threads: a function runs in the thread that calls it. The library starts further threads only
 * - under a launcher's PMI or PMIx server: one that finds the ranks while probeline_job_open() waits;
 * - over UCX: for each table, map and container one that progresses UCX for the other ranks, and one while it
 *   opens. They end when it is closed.
 * They inherit the signal mask of the caller. MPI and UCX may start threads of their own.
 *
 * After PROBELINE_ERROR_PANIC the handle can only be closed, and its job can: other ranks get
 * PROBELINE_ERROR_LOST from calls that wait for this one (over MPI only at the job's limit).
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Written by cbindgen: change capi/src, then run PROBELINE_WRITE_HEADER=1 cargo test -p probeline-capi
 * --test header. */

#ifndef PROBELINE_H
#define PROBELINE_H

#include <stddef.h>
#include <stdint.h>

// The major version of this header.
#define PROBELINE_VERSION_MAJOR 0

// The minor version of this header. Before version 1.0 another minor version is incompatible.
#define PROBELINE_VERSION_MINOR 1

// The patch version of this header.
#define PROBELINE_VERSION_PATCH 0

// The transport that the environment variable PROBELINE_TRANSPORT names: "shm", "verbs", "ucx" or
// "mpi"; shared memory without the variable.
#define PROBELINE_TRANSPORT_AUTO 0

// Shared memory between processes of one machine.
#define PROBELINE_TRANSPORT_SHM 1

// RDMA NICs, by libibverbs, which is loaded at run time.
#define PROBELINE_TRANSPORT_VERBS 2

// UCX, by libucp, which is loaded at run time.
#define PROBELINE_TRANSPORT_UCX 3

// MPI RMA, if the library was built with it.
#define PROBELINE_TRANSPORT_MPI 4

// Join the processes that mpirun, mpiexec or srun has started with this one. Without a launcher,
// start `ranks` - 1 copies of this program on this machine, with the same arguments; the copies
// call probeline_job_open() as well. Over MPI RMA, MPI joins the processes.
//
// The copies end with the thread of this process that has opened the job: when it ends, the kernel
// kills those that still run.
#define PROBELINE_START_AUTO 0

// Join processes that were started by hand: `rank`, `ranks` and `rendezvous` say how.
#define PROBELINE_START_MANUAL 1

// Find a key.
#define PROBELINE_FIND 0

// Find a key, or insert it.
#define PROBELINE_FIND_OR_PUT 1

// Ranks that write claim a bucket first: no rank waits for one that has died. The default.
#define PROBELINE_MODE_CLAIMS 0

// A lock for each rank's part, for comparison.
#define PROBELINE_MODE_PART_LOCKS 1

// A lock for each bucket, for comparison.
#define PROBELINE_MODE_BUCKET_LOCKS 2

// No lock and no claim: a put takes two roundtrips. Of two puts into one bucket at the same time one
// may be lost, or both; puts of one key may leave it in two buckets, and a get then may return the
// older value. It never returns the value of another key, or parts of two values.
#define PROBELINE_MODE_UNLOCKED 3

// Get a value.
#define PROBELINE_GET 0

// Put a value, over an older one.
#define PROBELINE_PUT 1

// Put a value unless the key has one.
#define PROBELINE_PUT_IF_ABSENT 2

// Remove a key.
#define PROBELINE_REMOVE 3

// Consecutive elements on each rank.
#define PROBELINE_DISTRIBUTION_BLOCK 0

// Element i on rank i modulo the number of ranks.
#define PROBELINE_DISTRIBUTION_CYCLIC 1

// Add the operand to an element, modulo 2^64.
#define PROBELINE_ADD 0

// Store the operand if the element is larger.
#define PROBELINE_MIN 1

// Store the operand if the element is smaller.
#define PROBELINE_MAX 2

// Status of a function: PROBELINE_OK, or the kind of its error. probeline_last_error() has the
// details.
typedef enum probeline_status {
    // The call succeeded.
    PROBELINE_OK = 0,
    // An argument or an option is invalid. The call changed nothing.
    PROBELINE_ERROR_INVALID = 1,
    // The library was built without this, or the system lacks it.
    PROBELINE_ERROR_UNSUPPORTED = 2,
    // The processes of the job did not find each other in time, or are not of one job.
    PROBELINE_ERROR_JOIN = 3,
    // The transport could not be opened, or there is not enough memory.
    PROBELINE_ERROR_OPEN = 4,
    // Ranks disagree: they called different functions, or with different options.
    PROBELINE_ERROR_DIFFERS = 5,
    // A rank or the connection to it was lost. The job cannot continue.
    PROBELINE_ERROR_LOST = 6,
    // The operation failed; whether it took effect is unknown. A repeated add may count
    // twice, a repeated push may store two values, a failed pop may have lost a value; to repeat any other
    // operation is safe.
    PROBELINE_ERROR_FAILED = 7,
    // All room for submitted operations is in use: poll, then submit again. Or too many blocks of messages are on
    // their way: call probeline_aggregator_progress(), then send again.
    PROBELINE_ERROR_BUSY = 8,
    // The handle is in use: by the call that called this one, or by tables, maps and containers of the job.
    PROBELINE_ERROR_IN_USE = 9,
    // A handle belongs to the thread that opened it, and another thread made the call.
    PROBELINE_ERROR_THREAD = 10,
    // A file could not be read or written, or has other sizes.
    PROBELINE_ERROR_FILE = 11,
    // A defect of the library. The handle can only be closed, and then its job. The other ranks lose this
    // one.
    PROBELINE_ERROR_PANIC = 12,
    // Another rank could not do its part of a collective call: its own error says why. If an argument was
    // invalid there, nothing was done on any rank, and the job goes on.
    PROBELINE_ERROR_OTHER_RANK = 13,
    // Other ranks changed the same word before each of 64 attempts. The operation has changed nothing: try
    // again. Others of its batch may have taken effect.
    PROBELINE_ERROR_CONTENDED = 14,
    // A push has not ended, so that a pop cannot pass its value, or has found no slot. Try again later, or call
    // probeline_queue_skip() if the rank of the push is lost.
    PROBELINE_ERROR_UNFINISHED = 15,
} probeline_status;

// Outcome of an operation. It has one byte.
enum probeline_outcome
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint8_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The key is not there.
    PROBELINE_ABSENT = 0,
    // The key is there.
    PROBELINE_FOUND = 1,
    // The key was not there and is now.
    PROBELINE_INSERTED = 2,
    // A table has no room for the key, which is not there.
    PROBELINE_FULL = 3,
    // A map's value replaced an older one of the key.
    PROBELINE_UPDATED = 4,
    // A map's entry replaced that of another key.
    PROBELINE_EVICTED = 5,
    // A map has removed the key.
    PROBELINE_REMOVED = 6,
    // A map has stored or removed nothing, because other ranks write at the same place.
    PROBELINE_DROPPED = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum probeline_outcome probeline_outcome;
#else
typedef uint8_t probeline_outcome;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// An aggregator of messages between all ranks.
typedef struct probeline_aggregator probeline_aggregator;

// An array in the memory of all ranks.
typedef struct probeline_array probeline_array;

// Counters in the memory of all ranks.
typedef struct probeline_counters probeline_counters;

// The processes that share tables, maps and containers.
typedef struct probeline_job probeline_job;

// A cache of values by keys, in the memory of all ranks.
typedef struct probeline_map probeline_map;

// A queue with a ring on each rank.
typedef struct probeline_queue probeline_queue;

// A set of keys in the memory of all ranks.
typedef struct probeline_table probeline_table;

// Options of a job. All ranks give the same transport, number of ranks and rendezvous, and the secret.
// The others may differ: the limits, the device with its port and GID, and what the rank has by itself.
typedef struct probeline_job_options {
    // The size of this structure, which probeline_job_options_init() stores.
    size_t size;
    // PROBELINE_TRANSPORT_... [default: PROBELINE_TRANSPORT_AUTO]
    int transport;
    // PROBELINE_START_... [default: PROBELINE_START_AUTO]
    int start;
    // The number of ranks, 1 to 4,096, unless a launcher or MPI says it. [default: 1]
    uint32_t ranks;
    // This rank, from 0, if `start` is PROBELINE_START_MANUAL.
    uint32_t rank;
    // "HOST:PORT" of rank 0, if the launcher has no PMI server or `start` is
    // PROBELINE_START_MANUAL. All ranks then need the same secret, in a file or in the environment
    // variable PROBELINE_SECRET. [default: NULL]
    const char *rendezvous;
    // A file with the secret, which only its owner may read. [default: NULL]
    const char *secret_file;
    // Whether other machines may connect to the rendezvous: 0 or 1. [default: 0]
    int allow_remote;
    // Whether to assume, over verbs, UCX and MPI, that no READ brings a torn word: 0 or 1. No
    // specification promises it. If the assumption is wrong, a table loses data. [default: 0]
    int word_reads_whole;
    // The longest wait for all ranks to join, in seconds, at least 1. [default: 60]
    uint32_t join_limit_s;
    // The longest wait in a collective call, in seconds, at least 1. [default: 600]
    uint32_t collective_limit_s;
    // The RDMA device, such as "mlx5_0", or UCX's network device, such as "mlx5_0:1". [default:
    // NULL, the first one that works]
    const char *device;
    // The device's port for verbs, 1 to 255. [default: 0, the first active one]
    int port;
    // The index of the GID for verbs and UCX, 0 to 255. [default: -1, which selects one]
    int gid_index;
    // UCX's transports, as UCX_TLS. [default: NULL]
    const char *ucx_tls;
    // The longest wait of rank 0 in probeline_job_close() for the processes that it has started, in
    // seconds, at least 1. It then kills those that still run. [default: 10]
    uint32_t close_limit_s;
} probeline_job_options;

// Options of a table. `operations` and `direct` may differ between ranks.
typedef struct probeline_table_options {
    // The size of this structure, which probeline_table_options_init() stores.
    size_t size;
    // Keys for which the whole table has room, 1 to 2^48: at this number it is three quarters full.
    // [default: 1,000,000]
    uint64_t keys;
    // 63 for keys of one word below 2^63, which are fastest; or bits of wide keys, a multiple of
    // 64 up to 4096. Wide keys take the room of 2, 4, 8, 16, 32 or 64 words. [default: 63]
    uint32_t key_bits;
    // Operations in flight at once, 1 to 65,536; over UCX at most 21,845 and over verbs 5,461, with wide
    // keys 16,384 and 4,096. A device may have less. [default: 32]
    uint32_t operations;
    // C, the buckets that one READ brings: a multiple of 8, up to 65,536 and to the buckets of a rank.
    // [default: 32]
    uint32_t chunk_buckets;
    // M, the chunks that an operation reads before it finds the table full, 1 to 65,536. [default: 32]
    uint32_t max_chunks;
    // Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    // [default: 1]
    int direct;
} probeline_table_options;

// A submitted operation that has ended.
typedef struct probeline_finished {
    // The tag with which it was submitted.
    uint64_t tag;
    // PROBELINE_OK, or the kind of its error.
    enum probeline_status status;
    // Its outcome, if its status is PROBELINE_OK.
    probeline_outcome outcome;
} probeline_finished;

// Receives a key and the pointer given with the function. It must return: no longjmp, no exception.
typedef void (*probeline_table_visit)(const uint64_t *key,
                                      void *context);

// Costs of operations of this rank on a table since it was opened.
typedef struct probeline_table_stats {
    // The size of this structure.
    size_t size;
    // Operations that found their key.
    uint64_t found;
    // Operations that inserted their key.
    uint64_t inserted;
    // Operations that found no room.
    uint64_t full;
    // Finds without their key.
    uint64_t absent;
    // Operations that failed.
    uint64_t failed;
    // READs of chunks that operations waited for.
    uint64_t effective_roundtrips;
    // READs of chunks posted.
    uint64_t outgoing_roundtrips;
    // Compare-and-swaps of buckets.
    uint64_t claims;
    // Cache lines that the CPU examined.
    uint64_t lines;
} probeline_table_stats;

// Options of a map. `operations`, `claim_ticks`, `claims_with_read` and `direct` may differ between
// ranks.
typedef struct probeline_map_options {
    // The size of this structure, which probeline_map_options_init() stores.
    size_t size;
    // Bytes of a key, 1 to 1024. Keys are equal if their bytes are, so padding must be 0. [no
    // default]
    size_t key_bytes;
    // Bytes of a value, 1 to 8192. [no default]
    size_t value_bytes;
    // Entries for which the whole map has room, 1 to 2^48: at this number it is half full and has lost
    // 0.2 %. [default: 1,000,000]
    uint64_t entries;
    // Buckets of each rank, up to 2^48; 0 computes them from `entries`, which is unused otherwise.
    // [default: 0]
    uint64_t buckets_per_rank;
    // Buckets in which a key may be, 1 to 8. [default: 6]
    uint32_t candidates;
    // Operations in flight at once, 1 to 65,536; over UCX at most 32,768 and over verbs 8,192. A device
    // may have less. [default: 32]
    uint32_t operations;
    // Ticks after which other ranks take over an unfinished write, because its rank seems dead, 1
    // to 24. A tick is a number of writes of one rank: an eighth of the buckets of a part, but at
    // least 1,024. [default: 8]
    uint32_t claim_ticks;
    // Whether an insert takes a roundtrip less and an overwrite one atomic more: 0 or 1.
    // [default: 1]
    int claims_with_read;
    // Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    // [default: 1]
    int direct;
    // A number for what the bytes of keys and values mean, of your choice. All ranks give the same,
    // and probeline_map_load() refuses a file that was saved with another one. [default: 0]
    uint64_t format;
    // PROBELINE_MODE_..., how ranks that use a bucket at the same time are synchronized. In all but
    // the default, the CPU does not access the memory of all ranks itself.
    // [default: PROBELINE_MODE_CLAIMS]
    int mode;
} probeline_map_options;

// Receives a key, its value, and the pointer given with the function. It must return: no longjmp, no
// exception.
typedef void (*probeline_map_visit)(const void *key,
                                    const void *value,
                                    void *context);

// Counts of operations of this rank on a map since it was opened.
typedef struct probeline_map_stats {
    // The size of this structure.
    size_t size;
    // Gets that found the key.
    uint64_t hits;
    // Gets that did not.
    uint64_t misses;
    // The misses that gave up because other ranks write at the same place.
    uint64_t busy;
    // Puts of new keys.
    uint64_t inserts;
    // Puts over an older value.
    uint64_t updates;
    // Puts in place of another key.
    uint64_t evictions;
    // Puts that stored nothing.
    uint64_t drops;
    // Puts-if-absent that found the key.
    uint64_t present;
    // Removes that removed the key.
    uint64_t removes;
    // Removes that did not.
    uint64_t absent;
    // Operations that failed.
    uint64_t failed;
    // Looks at buckets.
    uint64_t bucket_reads;
    // The bucket reads whose check failed, because other ranks wrote meanwhile.
    uint64_t failed_checks;
    // Entries destroyed beyond updates and evictions.
    uint64_t lost_entries;
} probeline_map_stats;

// Counts of probeline_map_load(), in the whole map.
typedef struct probeline_map_loaded {
    // The size of this structure.
    size_t size;
    // Entries of the file.
    uint64_t entries;
    // Entries stored in places without an entry.
    uint64_t inserted;
    // Entries stored in place of others, which are lost.
    uint64_t evicted;
    // Entries whose keys were there already, and kept the values that they had.
    uint64_t present;
    // Entries not stored, because ranks wrote at the same places.
    uint64_t dropped;
} probeline_map_loaded;

// Options of an array. `operations` and `direct` may differ between ranks.
typedef struct probeline_array_options {
    // The size of this structure, which probeline_array_options_init() stores.
    size_t size;
    // Elements of the whole array, 1 to 2^48. [no default]
    uint64_t len;
    // Bytes of an element, 1 to 1024; atomics need 8. Elements take whole words of 8 bytes. [default: 8]
    size_t element_bytes;
    // PROBELINE_DISTRIBUTION_... [default: PROBELINE_DISTRIBUTION_BLOCK]
    int distribution;
    // Operations of a batch in flight at once, 1 to 65,536; over verbs at most 16,384. A device may have
    // less. [default: 32]
    uint32_t operations;
    // Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    // [default: 1]
    int direct;
} probeline_array_options;

// Receives the index of an element, the element, aligned to 8 bytes, and the pointer given with the
// function. It must return: no longjmp, no exception.
typedef void (*probeline_array_visit)(uint64_t index,
                                      const void *value,
                                      void *context);

// Options of counters. `operations` and `direct` may differ between ranks.
typedef struct probeline_counters_options {
    // The size of this structure, which probeline_counters_options_init() stores.
    size_t size;
    // Keys for which there is room on all ranks together, 1 to 2^48: at this number three quarters of it
    // are in use. [default: 1,000,000]
    uint64_t keys;
    // Bits of a key, 1 to 62. A word holds key and count: a count has 57 + floor(log2(words / 8)) - key_bits
    // bits, at most 57. With the defaults, counts stay at 4,095. [default: 62]
    uint32_t key_bits;
    // Operations of a batch in flight at once, 1 to 65,536; over verbs at most 16,384. A device may have
    // less. [default: 32]
    uint32_t operations;
    // Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    // [default: 1]
    int direct;
} probeline_counters_options;

// Receives a key, its count, and the pointer given with the function. It must return: no longjmp, no
// exception.
typedef void (*probeline_counters_visit)(uint64_t key,
                                         uint64_t count,
                                         void *context);

// Options of a queue. All ranks give the same.
typedef struct probeline_queue_options {
    // The size of this structure, which probeline_queue_options_init() stores.
    size_t size;
    // Bytes of a value, 1 to 1024. [no default]
    size_t value_bytes;
    // Values that the ring of each rank holds before it is full, 1 to 2^48. [default: 1024]
    uint64_t capacity;
    // Values of a batch that travel together, 1 to 65,536; over verbs at most 16,384. A device may have less.
    // Each ring has two further slots for each of them and each rank. [default: 64]
    uint32_t operations;
} probeline_queue_options;

// Options of an aggregator. `operations` may differ between ranks.
typedef struct probeline_aggregator_options {
    // The size of this structure, which probeline_aggregator_options_init() stores.
    size_t size;
    // Bytes of a message, 1 to 1024. [no default]
    size_t message_bytes;
    // Messages that travel together, 1 to 65,536. [default: 254]
    uint32_t block;
    // Blocks that may be on their way from one rank to another, 1 to 64. Each rank stores this number and 2
    // more for each rank, in a job of more than 64 for some twice the square root of their number. [default: 4]
    uint32_t blocks;
    // Operations in flight at once, 1 to 65,536; over verbs at most 16,384. A device may have less. Two for
    // each rank are enough. [default: 16]
    uint32_t operations;
} probeline_aggregator_options;

// Receives the rank that has sent a message, the message, aligned to 8 bytes, and the pointer given with the
// function. It must return: no longjmp, no exception. It may call other structures, but not this one, and
// in a flush make no collective call: those fail with PROBELINE_ERROR_IN_USE.
typedef void (*probeline_aggregator_deliver)(uint32_t from,
                                             const void *message,
                                             void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library, such as "0.1.0". Never waits; any thread.
const char *probeline_version(void);

// Returns a sentence about the last error of a call by this thread: what failed, on what, why, and
// what to do. It is empty if there was none, and valid until the next call by this thread that
// fails: call it after that call, not among the arguments of one printf(). Never waits; any thread.
const char *probeline_last_error(void);

// Returns a short text about a status, such as "invalid argument". Never waits; any thread.
const char *probeline_error_text(int status);

// Stores the default options and `size`, which is sizeof(probeline_job_options).
// Never waits; any thread.
enum probeline_status probeline_job_options_init(struct probeline_job_options *options,
                                                 size_t size);

// Joins the job and stores its handle at `job`. `options` may be NULL, for the defaults. Every
// process of the job calls it; it waits for them, at most `join_limit_s` seconds. Signals and the
// standard streams stay as they are.
//
// A program whose ranks the library starts opens one job of several ranks: the copies run the program
// from its beginning, and would open another job in place of the first. Jobs of one rank may be open
// before, beside and after it, in the copies as well. Call it from a thread that lives as long as the
// job: the copies are killed when it ends, even if they have closed the job. Handles belong to the process
// that opened them. In a fork of it, collective calls fail with PROBELINE_ERROR_INVALID, and no other
// call is allowed; leave the fork by exec() or _exit(). After an error, NULL is stored at `job`.
enum probeline_status probeline_job_open(const struct probeline_job_options *options,
                                         struct probeline_job **job);

// Leaves the job and frees it; `job` may be NULL. Close its tables, maps and containers before: otherwise it
// returns PROBELINE_ERROR_IN_USE and frees nothing. Any rank calls it when it needs the job no more.
// Rank 0 waits up to `close_limit_s` seconds for the processes that it has started, kills those that
// still run, and reports those that failed.
enum probeline_status probeline_job_close(struct probeline_job *job);

// Stores the rank of this process, from 0, and the number of ranks. Each may be NULL. Never waits.
enum probeline_status probeline_job_rank(struct probeline_job *job,
                                         uint32_t *rank,
                                         uint32_t *ranks);

// Waits until all ranks have called it. Collective.
enum probeline_status probeline_job_barrier(struct probeline_job *job);

// Gathers `bytes` bytes of each rank into `all`, in the order of ranks: at most 4 MiB in all.
// Collective. If an argument is wrong on one rank, or `bytes` differs between ranks, it fails on all
// of them, and the job goes on.
enum probeline_status probeline_job_all_gather(struct probeline_job *job,
                                               const void *mine,
                                               size_t bytes,
                                               void *all);

// Stores the sum of `mine` over all ranks at `sum`, at most `UINT64_MAX`. Collective.
enum probeline_status probeline_job_sum(struct probeline_job *job,
                                        uint64_t mine,
                                        uint64_t *sum);

// Stores the smallest `mine` of all ranks at `min`. Collective.
enum probeline_status probeline_job_min(struct probeline_job *job,
                                        uint64_t mine,
                                        uint64_t *min);

// Stores the largest `mine` of all ranks at `max`. Collective.
enum probeline_status probeline_job_max(struct probeline_job *job,
                                        uint64_t mine,
                                        uint64_t *max);

// Stores the default options and `size`, which is sizeof(probeline_table_options).
// Never waits; any thread.
enum probeline_status probeline_table_options_init(struct probeline_table_options *options,
                                                   size_t size);

// Opens an empty table and stores its handle at `table`. `options` may be NULL, for the defaults.
// Collective.
enum probeline_status probeline_table_open(struct probeline_job *job,
                                           const struct probeline_table_options *options,
                                           struct probeline_table **table);

// Waits for all ranks, closes the table and frees it; `table` may be NULL. Collective.
enum probeline_status probeline_table_close(struct probeline_table *table);

// Finds the key, or inserts it: PROBELINE_FOUND, PROBELINE_INSERTED or PROBELINE_FULL. The key has
// one word, or as many as key_bits says. `outcome` may be NULL. Waits for its operation.
enum probeline_status probeline_table_find_or_put(struct probeline_table *table,
                                                  const uint64_t *key,
                                                  probeline_outcome *outcome);

// Finds the key: PROBELINE_FOUND or PROBELINE_ABSENT. Waits for its operation.
enum probeline_status probeline_table_find(struct probeline_table *table,
                                           const uint64_t *key,
                                           probeline_outcome *outcome);

// Runs PROBELINE_FIND_OR_PUT or PROBELINE_FIND for the `count` keys of the array `keys`, with as
// many in flight as the options allow, and stores the outcome of each. If it fails, the outcomes
// are undefined. Waits for its operations.
enum probeline_status probeline_table_batch(struct probeline_table *table,
                                            int operation,
                                            const uint64_t *keys,
                                            size_t count,
                                            probeline_outcome *outcomes);

// Starts PROBELINE_FIND_OR_PUT or PROBELINE_FIND, which probeline_table_poll() reports under `tag`.
// Returns PROBELINE_ERROR_BUSY while as many operations are in flight as the options say. The key is
// copied. Never waits.
enum probeline_status probeline_table_submit(struct probeline_table *table,
                                             uint64_t tag,
                                             int operation,
                                             const uint64_t *key);

// Makes progress, and stores at most `capacity` operations that have ended, and their number. Never
// waits.
enum probeline_status probeline_table_poll(struct probeline_table *table,
                                           struct probeline_finished *finished,
                                           size_t capacity,
                                           size_t *count);

// Stores the number of keys in the whole table. Collective.
enum probeline_status probeline_table_len(struct probeline_table *table,
                                          uint64_t *len);

// Removes all keys from the whole table. Collective.
enum probeline_status probeline_table_clear(struct probeline_table *table);

// Calls `visit` with every key in this rank's part of the table, in this thread. The result is exact
// between barriers. Keys of 63 bits: never waits. Wide keys are read from their ranks, after all operations
// in flight have ended.
enum probeline_status probeline_table_for_each_local(struct probeline_table *table,
                                                     probeline_table_visit visit,
                                                     void *context);

// Stores the counters of this rank's operations in a structure of `size` bytes, which is
// sizeof(probeline_table_stats). Never waits.
enum probeline_status probeline_table_get_stats(struct probeline_table *table,
                                                struct probeline_table_stats *stats,
                                                size_t size);

// Stores the default options and `size`, which is sizeof(probeline_map_options).
// Never waits; any thread.
enum probeline_status probeline_map_options_init(struct probeline_map_options *options,
                                                 size_t size);

// Opens an empty map and stores its handle at `map`. The options must have sizes of keys and values.
// Collective.
enum probeline_status probeline_map_open(struct probeline_job *job,
                                         const struct probeline_map_options *options,
                                         struct probeline_map **map);

// Waits for all ranks, closes the map and frees it; `map` may be NULL. Collective.
enum probeline_status probeline_map_close(struct probeline_map *map);

// Stores the value of the key at `value`: PROBELINE_FOUND, or PROBELINE_ABSENT, which leaves `value`
// as it is. A map may forget keys, but never returns a wrong value. Waits for its operation.
enum probeline_status probeline_map_get(struct probeline_map *map,
                                        const void *key,
                                        void *value,
                                        probeline_outcome *outcome);

// Stores a value for the key, over an older one: PROBELINE_INSERTED, PROBELINE_UPDATED,
// PROBELINE_EVICTED or PROBELINE_DROPPED. `outcome` may be NULL. Waits for its operation.
enum probeline_status probeline_map_put(struct probeline_map *map,
                                        const void *key,
                                        const void *value,
                                        probeline_outcome *outcome);

// As probeline_map_put(), but leaves an older value as it is: PROBELINE_FOUND. Waits for its operation.
enum probeline_status probeline_map_put_if_absent(struct probeline_map *map,
                                                  const void *key,
                                                  const void *value,
                                                  probeline_outcome *outcome);

// Removes the key: PROBELINE_REMOVED, PROBELINE_ABSENT or PROBELINE_DROPPED. `outcome` may be NULL.
// Waits for its operation.
enum probeline_status probeline_map_remove(struct probeline_map *map,
                                           const void *key,
                                           probeline_outcome *outcome);

// Gets the values of `count` keys, one after another in `keys`, and stores the outcome of each, as
// many in flight as there is room for. Values of keys that are absent stay as they are. If it fails,
// values and outcomes are undefined. Waits for its operations.
enum probeline_status probeline_map_get_batch(struct probeline_map *map,
                                              const void *keys,
                                              size_t count,
                                              void *values,
                                              probeline_outcome *outcomes);

// Runs PROBELINE_PUT, PROBELINE_PUT_IF_ABSENT or PROBELINE_REMOVE for `count` keys, one after another
// in `keys`, with the values in `values`, which may be NULL for PROBELINE_REMOVE. Stores the outcome
// of each. If it fails, outcomes are undefined. Waits for its operations.
enum probeline_status probeline_map_write_batch(struct probeline_map *map,
                                                int operation,
                                                const void *keys,
                                                const void *values,
                                                size_t count,
                                                probeline_outcome *outcomes);

// Starts PROBELINE_GET. If the key has a value, a poll stores it at `value`. The memory there must
// stay valid until probeline_map_poll() has reported `tag`. Returns PROBELINE_ERROR_BUSY while as
// many operations are in flight as the options say. The key is copied. Never waits.
enum probeline_status probeline_map_submit_get(struct probeline_map *map,
                                               uint64_t tag,
                                               const void *key,
                                               void *value);

// Starts PROBELINE_PUT, PROBELINE_PUT_IF_ABSENT or PROBELINE_REMOVE, which probeline_map_poll()
// reports under `tag`. Key and value are copied; `value` may be NULL for PROBELINE_REMOVE. Returns
// PROBELINE_ERROR_BUSY as probeline_map_submit_get() does. Never waits.
enum probeline_status probeline_map_submit_write(struct probeline_map *map,
                                                 uint64_t tag,
                                                 int operation,
                                                 const void *key,
                                                 const void *value);

// Makes progress, and stores at most `capacity` operations that have ended, and their number. Never
// waits.
enum probeline_status probeline_map_poll(struct probeline_map *map,
                                         struct probeline_finished *finished,
                                         size_t capacity,
                                         size_t *count);

// Stores the number of entries in the whole map. Collective.
enum probeline_status probeline_map_len(struct probeline_map *map,
                                        uint64_t *len);

// Removes all entries from the whole map. Collective.
enum probeline_status probeline_map_clear(struct probeline_map *map);

// Lets every entry so far look older than those that follow, for evictions: call it on every rank after each
// step of a simulation. Never waits.
enum probeline_status probeline_map_advance_age(struct probeline_map *map);

// Calls `visit` with every entry in this rank's part of the map, in this thread. The result is exact
// between barriers. Never waits.
enum probeline_status probeline_map_for_each_local(struct probeline_map *map,
                                                   probeline_map_visit visit,
                                                   void *context);

// Stores the counters of this rank's operations in a structure of `size` bytes, which is
// sizeof(probeline_map_stats). Never waits.
enum probeline_status probeline_map_get_stats(struct probeline_map *map,
                                              struct probeline_map_stats *stats,
                                              size_t size);

// Saves all entries to a file in a file system that all ranks share, and stores their number at
// `entries`, which may be NULL. No rank writes to the map meanwhile. If it fails, an older file of this
// name stays as it was. Collective.
enum probeline_status probeline_map_save(struct probeline_map *map,
                                         const char *name,
                                         uint64_t *entries);

// Checks that probeline_map_save() may write a file of this name, so that a wrong name is known before
// the work whose results are saved. Creates `name`.partial and removes it. Collective.
enum probeline_status probeline_map_check_save(struct probeline_map *map,
                                               const char *name);

// Loads the entries of a file that probeline_map_save() or a program in Rust has written with any number
// of ranks and buckets, but the same sizes of keys and values and the same `format`. A key that is
// present keeps its value. Stores what it has done in a structure of `size` bytes, which is
// sizeof(probeline_map_loaded); `loaded` may be NULL. If it fails, the map has some of the entries.
// Collective.
enum probeline_status probeline_map_load(struct probeline_map *map,
                                         const char *name,
                                         struct probeline_map_loaded *loaded,
                                         size_t size);

// Stores the default options and `size`, which is sizeof(probeline_array_options).
// Never waits; any thread.
enum probeline_status probeline_array_options_init(struct probeline_array_options *options,
                                                   size_t size);

// Opens an array, all bytes 0, and stores its handle at `array`. The options must have a length.
// Collective.
enum probeline_status probeline_array_open(struct probeline_job *job,
                                           const struct probeline_array_options *options,
                                           struct probeline_array **array);

// Waits for all ranks, closes the array and frees it; `array` may be NULL. Collective.
enum probeline_status probeline_array_close(struct probeline_array *array);

// Stores an element at `value`. Beside a put, it may be the old or the new one, and of more than 8 bytes a
// mixture. Waits for its operation.
enum probeline_status probeline_array_get(struct probeline_array *array,
                                          uint64_t index,
                                          void *value);

// Stores `value` in an element. Every get that begins after it has ended returns it. Waits for its
// operation.
enum probeline_status probeline_array_put(struct probeline_array *array,
                                          uint64_t index,
                                          const void *value);

// Gets the elements at `count` indices, with as many in flight as the options allow, and stores them one
// after another in `values`. If it fails, they are undefined. Waits for its operations.
enum probeline_status probeline_array_gather(struct probeline_array *array,
                                             const uint64_t *indices,
                                             size_t count,
                                             void *values);

// Stores `count` values, one after another in `values`, in the elements at `indices`, with as many in
// flight as the options allow. Of an index that occurs twice, either value remains. If it fails, some elements
// are changed. Waits for its operations.
enum probeline_status probeline_array_scatter(struct probeline_array *array,
                                              const uint64_t *indices,
                                              const void *values,
                                              size_t count);

// Runs PROBELINE_ADD, PROBELINE_MIN or PROBELINE_MAX on an element, an unsigned number of 8 bytes, and
// stores the number before, unless `before` is NULL. Atomic beside other atomics, not beside puts. Returns
// PROBELINE_ERROR_CONTENDED if a minimum or maximum was too late 64 times. Waits for its operation.
enum probeline_status probeline_array_update(struct probeline_array *array,
                                             int operation,
                                             uint64_t index,
                                             uint64_t operand,
                                             uint64_t *before);

// Stores `desired` in an element of 8 bytes if it is `expected`. Stores the element as it was, `expected` if
// it succeeded, unless `before` is NULL. Atomic as probeline_array_update(). Waits for its operation.
enum probeline_status probeline_array_compare_and_swap(struct probeline_array *array,
                                                       uint64_t index,
                                                       uint64_t expected,
                                                       uint64_t desired,
                                                       uint64_t *before);

// Runs an operation of probeline_array_update() on each of the elements at `count` indices, with the
// operand at the same place of `operands`, with as many in flight as the options allow, and stores the
// numbers before, unless `before` is NULL. If it fails, some elements are changed, and `before` is undefined.
// Waits for its operations.
enum probeline_status probeline_array_update_batch(struct probeline_array *array,
                                                   int operation,
                                                   const uint64_t *indices,
                                                   const uint64_t *operands,
                                                   size_t count,
                                                   uint64_t *before);

// Starts to get an element, which a poll stores at `value`. The memory there must stay valid until
// probeline_array_poll() has reported `tag`. Returns PROBELINE_ERROR_BUSY while as many operations are in flight
// as the options say. Never waits.
enum probeline_status probeline_array_submit_get(struct probeline_array *array,
                                                 uint64_t tag,
                                                 uint64_t index,
                                                 void *value);

// Starts to store `value`, which is copied, in an element: see probeline_array_submit_get(). Never waits.
enum probeline_status probeline_array_submit_put(struct probeline_array *array,
                                                 uint64_t tag,
                                                 uint64_t index,
                                                 const void *value);

// Starts an operation of probeline_array_update(): see probeline_array_submit_get(). `before` may be NULL. Never
// waits.
enum probeline_status probeline_array_submit_update(struct probeline_array *array,
                                                    uint64_t tag,
                                                    int operation,
                                                    uint64_t index,
                                                    uint64_t operand,
                                                    uint64_t *before);

// Starts probeline_array_compare_and_swap(): see probeline_array_submit_get(). `before` may be NULL. Never waits.
enum probeline_status probeline_array_submit_compare_and_swap(struct probeline_array *array,
                                                              uint64_t tag,
                                                              uint64_t index,
                                                              uint64_t expected,
                                                              uint64_t desired,
                                                              uint64_t *before);

// Makes progress, and stores at most `capacity` operations that have ended, and their number. The outcome of one
// that has succeeded is PROBELINE_FOUND. Never waits.
enum probeline_status probeline_array_poll(struct probeline_array *array,
                                           struct probeline_finished *finished,
                                           size_t capacity,
                                           size_t *count);

// Stores `value` in all elements. Collective.
enum probeline_status probeline_array_fill(struct probeline_array *array,
                                           const void *value);

// Stores the sum of all elements, at most `UINT64_MAX`, for PROBELINE_ADD, the smallest for
// PROBELINE_MIN, or the largest for PROBELINE_MAX. Elements have 8 bytes. Collective.
enum probeline_status probeline_array_reduce(struct probeline_array *array,
                                             int operation,
                                             uint64_t *result);

// Calls `visit` with every element in this rank's part of the array, in this thread. The result is exact
// between barriers. Never waits.
enum probeline_status probeline_array_for_each_local(struct probeline_array *array,
                                                     probeline_array_visit visit,
                                                     void *context);

// Stores the default options and `size`, which is sizeof(probeline_counters_options).
// Never waits; any thread.
enum probeline_status probeline_counters_options_init(struct probeline_counters_options *options,
                                                      size_t size);

// Opens counters without keys and stores their handle at `counters`. `options` may be NULL, for the
// defaults. Collective.
enum probeline_status probeline_counters_open(struct probeline_job *job,
                                              const struct probeline_counters_options *options,
                                              struct probeline_counters **counters);

// Waits for all ranks, closes the counters and frees them; `counters` may be NULL. Collective.
enum probeline_status probeline_counters_close(struct probeline_counters *counters);

// Adds to the count of a key, at most up to the largest count, and stores the count before at `before`, which may
// be NULL: 0 for a key that had none. Stores 1 at `full` if there is no room for the key, and nothing was
// counted, or else 0. Returns PROBELINE_ERROR_CONTENDED if other adds were faster 64 times. Waits for its
// operation.
enum probeline_status probeline_counters_add(struct probeline_counters *counters,
                                             uint64_t key,
                                             uint64_t addend,
                                             uint64_t *before,
                                             uint64_t *full);

// Stores the count of a key at `count`: 0 if it has none. Waits for its operation.
enum probeline_status probeline_counters_get(struct probeline_counters *counters,
                                             uint64_t key,
                                             uint64_t *count);

// Adds 1 to the counts of `count` keys, with as many in flight as the options allow, and stores at `full`
// how many found no room: they have no count. If it fails, some are counted. Waits for its operations.
enum probeline_status probeline_counters_add_batch(struct probeline_counters *counters,
                                                   const uint64_t *keys,
                                                   size_t count,
                                                   uint64_t *full);

// Gets the counts of `count` keys, with as many in flight as the options allow, and stores them in
// `counts`. If it fails, they are undefined. Waits for its operations.
enum probeline_status probeline_counters_get_batch(struct probeline_counters *counters,
                                                   const uint64_t *keys,
                                                   size_t count,
                                                   uint64_t *counts);

// Starts to add to the count of a key. A poll stores the count before at `before`, which may be NULL; the memory
// there must stay valid until probeline_counters_poll() has reported `tag`. Returns PROBELINE_ERROR_BUSY while as
// many operations are in flight as the options say. Never waits.
enum probeline_status probeline_counters_submit_add(struct probeline_counters *counters,
                                                    uint64_t tag,
                                                    uint64_t key,
                                                    uint64_t addend,
                                                    uint64_t *before);

// Starts to get the count of a key, which a poll stores at `count`: see probeline_counters_submit_add(). Never
// waits.
enum probeline_status probeline_counters_submit_get(struct probeline_counters *counters,
                                                    uint64_t tag,
                                                    uint64_t key,
                                                    uint64_t *count);

// Makes progress, and stores at most `capacity` operations that have ended, and their number. The outcome is
// PROBELINE_FOUND if the key had a count before, PROBELINE_ABSENT if it had none, and PROBELINE_FULL if there is no
// room for it. Never waits.
enum probeline_status probeline_counters_poll(struct probeline_counters *counters,
                                              struct probeline_finished *finished,
                                              size_t capacity,
                                              size_t *count);

// Stores the largest count, at which counts stay. Never waits.
enum probeline_status probeline_counters_max_count(struct probeline_counters *counters,
                                                   uint64_t *count);

// Stores the number of keys that have a count, on all ranks together. Collective.
enum probeline_status probeline_counters_len(struct probeline_counters *counters,
                                             uint64_t *len);

// Removes all keys and their counts. Collective.
enum probeline_status probeline_counters_clear(struct probeline_counters *counters);

// Calls `visit` with every key in this rank's part of the counters, in this thread. Each key is in the part
// of one rank. The result is exact between barriers. Never waits.
enum probeline_status probeline_counters_for_each_local(struct probeline_counters *counters,
                                                        probeline_counters_visit visit,
                                                        void *context);

// Stores the default options and `size`, which is sizeof(probeline_queue_options).
// Never waits; any thread.
enum probeline_status probeline_queue_options_init(struct probeline_queue_options *options,
                                                   size_t size);

// Opens a queue of empty rings and stores its handle at `queue`. The options must have a size of values.
// Collective.
enum probeline_status probeline_queue_open(struct probeline_job *job,
                                           const struct probeline_queue_options *options,
                                           struct probeline_queue **queue);

// Waits for all ranks, closes the queue and frees it with the values in its rings; `queue` may be NULL.
// Collective.
enum probeline_status probeline_queue_close(struct probeline_queue *queue);

// Pushes a value to the ring of the rank `host`, and stores at `pushed` 1, or 0 if the ring is full. If it fails,
// the value may be in the ring. Waits for its operation.
enum probeline_status probeline_queue_push(struct probeline_queue *queue,
                                           uint32_t host,
                                           const void *value,
                                           size_t *pushed);

// Pops the oldest value from the ring of the rank `host`, and stores at `popped` 1, or 0 if the ring is empty,
// which leaves `value` as it is. Returns PROBELINE_ERROR_UNFINISHED if the push of the oldest value has not
// ended, and PROBELINE_ERROR_CONTENDED if other pops were faster 64 times. Waits for its operation.
enum probeline_status probeline_queue_pop(struct probeline_queue *queue,
                                          uint32_t host,
                                          void *value,
                                          size_t *popped);

// Pushes `count` values, one after another in `values`, to the ring of the rank `host` in this order, and
// stores at `pushed` how many it had room for. If it fails, some of them may be in the ring. Waits for its
// operations.
enum probeline_status probeline_queue_push_batch(struct probeline_queue *queue,
                                                 uint32_t host,
                                                 const void *values,
                                                 size_t count,
                                                 size_t *pushed);

// Pops the oldest values, at most `capacity`, from the ring of the rank `host`, stores them one after
// another in `values`, and their number at `popped`. Fails as probeline_queue_pop(), if it has popped
// none. Waits for its operations.
enum probeline_status probeline_queue_pop_batch(struct probeline_queue *queue,
                                                uint32_t host,
                                                void *values,
                                                size_t capacity,
                                                size_t *popped);

// Starts to push a value, which is copied, to the ring of the rank `host`. Values that are in flight together get
// into the ring in any order. Returns PROBELINE_ERROR_BUSY while as many operations are in flight as the options
// say. Never waits.
enum probeline_status probeline_queue_submit_push(struct probeline_queue *queue,
                                                  uint64_t tag,
                                                  uint32_t host,
                                                  const void *value);

// Starts to pop the oldest value from the ring of the rank `host`, which a poll stores at `value`. The memory there
// must stay valid until probeline_queue_poll() has reported `tag`. Returns PROBELINE_ERROR_BUSY as
// probeline_queue_submit_push() does. Never waits.
enum probeline_status probeline_queue_submit_pop(struct probeline_queue *queue,
                                                 uint64_t tag,
                                                 uint32_t host,
                                                 void *value);

// Makes progress, and stores at most `capacity` operations that have ended, and their number. The outcome of a push
// is PROBELINE_INSERTED or PROBELINE_FULL, that of a pop PROBELINE_FOUND or PROBELINE_ABSENT; errors are those of
// probeline_queue_push() and probeline_queue_pop(). Never waits.
enum probeline_status probeline_queue_poll(struct probeline_queue *queue,
                                           struct probeline_finished *finished,
                                           size_t capacity,
                                           size_t *count);

// Passes the value whose push the last probeline_queue_pop() or probeline_queue_pop_batch() of this handle has found
// unfinished, in the ring of the rank `host`. Stores at `skipped` 1, or 0 if it is no longer the oldest. Call it only if the rank of the push is
// lost: a value that arrives later could destroy a newer one. Waits for its operation.
enum probeline_status probeline_queue_skip(struct probeline_queue *queue,
                                           uint32_t host,
                                           size_t *skipped);

// Stores the default options and `size`, which is sizeof(probeline_aggregator_options).
// Never waits; any thread.
enum probeline_status probeline_aggregator_options_init(struct probeline_aggregator_options *options,
                                                        size_t size);

// Opens an aggregator, in a job of at most 1,024 ranks, and stores its handle at `aggregator`. The options
// must have a size of messages. In a job of more than 64 ranks, messages pass another rank on their way.
// Collective.
enum probeline_status probeline_aggregator_open(struct probeline_job *job,
                                                const struct probeline_aggregator_options *options,
                                                struct probeline_aggregator **aggregator);

// Waits for all ranks, closes the aggregator and frees it; `aggregator` may be NULL. It delivers nothing: flush
// before. If a rank has sent messages after its last flush, nothing is closed on any rank: that rank gets
// PROBELINE_ERROR_INVALID, the others PROBELINE_ERROR_OTHER_RANK. Collective.
enum probeline_status probeline_aggregator_close(struct probeline_aggregator *aggregator);

// Sends a message to the rank `to`, which may be this one. Returns PROBELINE_ERROR_BUSY if the message was
// not taken, because as many blocks as the options say are on their way to that rank: call
// probeline_aggregator_progress(), and send it again. Never waits.
enum probeline_status probeline_aggregator_send(struct probeline_aggregator *aggregator,
                                                uint32_t to,
                                                const void *message);

// Sends full blocks, and calls `deliver`, in this thread, with each message that has arrived, in the order
// of each sender. Call it even when nothing is to be sent: a rank that does not call it takes no blocks, and
// others cannot send to it any more. Never waits.
enum probeline_status probeline_aggregator_progress(struct probeline_aggregator *aggregator,
                                                    probeline_aggregator_deliver deliver,
                                                    void *context);

// Sends all messages, and delivers those of all ranks as probeline_aggregator_progress() does, until none is
// left: the numbers sent and delivered are compared. If it fails, messages may be lost, and every later call but
// closing fails; it fails on ranks that wait for another one for some minutes. If `deliver` is NULL on one rank,
// only that one fails, and the others wait until it flushes. Collective.
enum probeline_status probeline_aggregator_flush(struct probeline_aggregator *aggregator,
                                                 probeline_aggregator_deliver deliver,
                                                 void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PROBELINE_H */
