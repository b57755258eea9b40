/* The functions of MPI-DHT over Probeline's map, in the forms that its versions had. Include it as the
 * program does: <DHT/DHT.h>, <DHT_mpi/DHT.h>, <DHT_ucx/DHT.h>, <LUCX/DHT.h> or <LUCX/MPI/DHT.h>.
 *
 *     mpicc -I PREFIX/include/probeline program.c -L PREFIX/lib -lprobeline
 *
 * The include path selects the constants and the way to create a table. DHT_create() takes a
 * DHT_init_t, or (comm, buckets of each process, bytes of a value, bytes of a key, hash function).
 * DHT_free() takes, besides the table, one uint32_t * (reads that saw unfinished writes), two int *
 * (evictions, read misses), or three uint64_t * (evictions, read misses, reads that saw unfinished
 * writes), each a sum over all processes, or NULL. It stores zeros if it fails.
 *
 * Differences from MPI-DHT:
 *
 * - The map has a hash function of its own. The one given to DHT_create() is not called.
 * - A value that is returned is always one that was written for its key. DHT_READ_CORRUPT and
 *   DHT_READ_INVALID do not occur.
 * - A write that meets other writes at the same place may store nothing; it returns DHT_SUCCESS, and the
 *   key is a miss until it is written again. DHT_write_accumulate() tries again, for up to a minute.
 * - DHT_write_accumulate() holds no lock while the callback runs. If another process changes the value
 *   meanwhile, it calls the callback again with the new one, and only the result of the last call is
 *   stored: the stored value is always that of all writes one after another.
 * - DHT_read_location() misses if the bucket has no entry.
 * - The statistics, distribution and index usage are collected if DHT_STATISTICS is defined before the
 *   include; without it the last two are DHT_NOT_IMPLEMENTED. The member `stats` is always there.
 *
 * Keys have at most 1024 bytes, values at most 8192. MPI, if it is used, must run while a table exists.
 * A table belongs to the thread that created it; other threads may call MPI only with
 * MPI_THREAD_MULTIPLE. After an error probeline_last_error() has a sentence about it; DHT_create() also
 * prints it.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PROBELINE_DHT_H
#define PROBELINE_DHT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* What functions return. */
#define DHT_SUCCESS 0
#define DHT_MPI_ERROR (-1)
#define DHT_UCX_ERROR (-1)
#define DHT_READ_MISS (-2)
#if PROBELINE_DHT_FORM == 2023
#define DHT_WRITE_SUCCESS_WITH_EVICTION (-3)
#else
#define DHT_READ_CORRUPT (-3)
#define DHT_READ_INVALID (-4)
#define DHT_WRITE_SUCCESS_WITH_EVICTION (-5)
#endif
#define DHT_WRONG_FILE (-11) /* of other sizes, or cut short */
#define DHT_FILE_IO_ERROR (-12)
#define DHT_FILE_READ_ERROR (-13)
#define DHT_FILE_WRITE_ERROR (-14)
#define DHT_NO_MEM (-15)
#define DHT_NOT_IMPLEMENTED (-32)

#ifdef __cplusplus
extern "C" {
#endif

/* Operations of this process since DHT_print_statistics() reset them. */
typedef struct DHT_stats {
    int w_access;
    int r_access;
    int read_misses;
    int evictions;
} DHT_stats;

/* A table that all processes of a communicator share. Read its members, and change none but the callback.
 * Do not copy it. */
typedef struct DHT {
    unsigned int key_size;
    unsigned int data_size;
    unsigned int bucket_count; /* of each process */
    unsigned int table_size;   /* the same */
    int evictions;             /* by this process, since the table was created */
    int read_misses;
    int (*accumulate_callback)(int send_size, void *send, int data_size, void *old_data);
    DHT_stats *stats;
    unsigned int probeline_rank;
    unsigned int probeline_ranks;
    unsigned int probeline_candidates;
} DHT;

/* How processes meet; mpi_dht/program.rs has the same structure. */
typedef struct probeline_dht_rendezvous {
    uint32_t rank;
    uint32_t ranks;
    void *state;
    int (*start)(void *state, int call, const void *mine, void *all, int bytes);
    int (*test)(void *state, int *ended);
    void (*release)(void *state);
    const void *comm;
    size_t comm_bytes;
} probeline_dht_rendezvous;

DHT *probeline_dht_create(uint64_t key_size, uint64_t data_size, uint64_t bucket_count, int evicted,
                          int counts_accesses, const probeline_dht_rendezvous *rendezvous);
int probeline_dht_free(DHT *table, uint64_t *evictions, uint64_t *misses, uint64_t *retries);
int probeline_dht_gather_accesses(DHT *table, int by_candidate, int reset, uint64_t *const *rows);
const char *probeline_last_error(void);

#define DHT_write probeline_dht_write
#define DHT_read probeline_dht_read
#define DHT_read_location probeline_dht_read_location
#define DHT_write_accumulate probeline_dht_write_accumulate
#define DHT_barrier probeline_dht_barrier
#define DHT_print_statistics probeline_dht_print_statistics
#define DHT_to_file probeline_dht_to_file
#define DHT_from_file probeline_dht_from_file

/* Writes a value, over an older one of the key: DHT_SUCCESS, DHT_WRITE_SUCCESS_WITH_EVICTION if it
 * replaced the entry of another key, or an error. Stores the process and the index of the bucket; both
 * pointers may be NULL. */
int DHT_write(DHT *table, const void *key, const void *data, uint32_t *proc, uint32_t *index);

/* Reads the value of a key: DHT_SUCCESS, DHT_READ_MISS or an error. */
int DHT_read(DHT *table, const void *key, void *destination);

/* Reads the value in a bucket, whatever its key, as DHT_write() stored process and index. */
int DHT_read_location(DHT *table, uint32_t proc, uint32_t index, void *destination);

/* Sets the function by which DHT_write_accumulate() changes a stored value. */
static inline void DHT_set_accumulate_callback(DHT *table,
                                               int (*callback)(int send_size, void *send,
                                                               int data_size, void *old_data))
{
    table->accumulate_callback = callback;
}

/* Calls the callback with `data` and the value of the key, or zeros, and writes what it leaves there if
 * it returns 0. Stores what it returned; the last three pointers may be NULL. Returns as DHT_write(). */
int DHT_write_accumulate(DHT *table, const void *key, int send_size, void *data, uint32_t *proc,
                         uint32_t *index, int *callback_ret);

/* The following are called by all processes of the table. */

/* Waits until all processes have called it. */
int DHT_barrier(DHT *table);

/* Prints on process 0, for each process and in sum: occupied and free buckets, writes, reads, read
 * misses and evictions. The last four start again at 0. */
int DHT_print_statistics(DHT *table);

/* DHT_to_file() writes all entries to a file, DHT_from_file() writes those of a file to the table, each
 * process a part. The file has the sizes of a key and a value as two int32_t in the machine's byte
 * order, and then each entry's key and value. The numbers of processes and of buckets may differ when
 * it is read. */
int DHT_to_file(DHT *table, const char *filename);
int DHT_from_file(DHT *table, const char *filename);

static inline DHT *probeline_dht_create_of(uint64_t key_size, uint64_t data_size, uint64_t buckets,
                                           const probeline_dht_rendezvous *rendezvous)
{
#if defined(DHT_STATISTICS) || defined(DHT_DISTRIBUTION)
    const int counts_accesses = 1;
#else
    const int counts_accesses = 0;
#endif
    return probeline_dht_create(key_size, data_size, buckets, DHT_WRITE_SUCCESS_WITH_EVICTION,
                                counts_accesses, rendezvous);
}

/* Frees a matrix that one of the next two functions has stored on process 0; on the others they store
 * NULL. */
static inline void DHT_free_distribution(DHT *table, uint64_t **matrix)
{
    unsigned int row;
    if (matrix == NULL)
        return;
    for (row = 0; row < table->probeline_ranks; row++)
        free(matrix[row]);
    free(matrix);
}

static inline int probeline_dht_gather(DHT *table, uint64_t ***matrix, int by_candidate, int reset)
{
    unsigned int row;
    int code, is_full = 1;
    size_t columns = by_candidate ? table->probeline_candidates : table->probeline_ranks;
    uint64_t **rows = (uint64_t **)calloc(table->probeline_ranks, sizeof *rows);
    for (row = 0; rows != NULL && row < table->probeline_ranks; row++) {
        rows[row] = (uint64_t *)calloc(columns, sizeof **rows);
        is_full = is_full && rows[row] != NULL;
    }
    /* Without memory this process still takes part. */
    code = probeline_dht_gather_accesses(table, by_candidate, reset, is_full ? rows : NULL);
    *matrix = code == DHT_SUCCESS && table->probeline_rank == 0 && is_full ? rows : NULL;
    if (*matrix == NULL)
        DHT_free_distribution(table, rows);
    return rows != NULL && is_full ? code : DHT_NO_MEM;
}

/* Stores a matrix: how often each process (row) read or wrote at each one (column). */
static inline int DHT_gather_distribution(DHT *table, uint64_t ***distribution, int reset)
{
    return probeline_dht_gather(table, distribution, 0, reset);
}

/* Stores a matrix: how often each process (row) wrote to the first, second ... bucket in which a key may
 * be (column). */
static inline int DHT_gather_index_usage(DHT *table, uint64_t ***index_usage, int reset)
{
    return probeline_dht_gather(table, index_usage, 1, reset);
}

/* DHT_free() of the forms with fewer counters. */
static inline int probeline_dht_free_one(DHT *table, uint32_t *retries)
{
    uint64_t all_retries = 0;
    int code = probeline_dht_free(table, NULL, NULL, &all_retries);
    if (retries != NULL)
        *retries = (uint32_t)all_retries;
    return code;
}

static inline int probeline_dht_free_two(DHT *table, int *evictions, int *misses)
{
    uint64_t all_evictions = 0, all_misses = 0;
    int code = probeline_dht_free(table, &all_evictions, &all_misses, NULL);
    if (evictions != NULL)
        *evictions = (int)all_evictions;
    if (misses != NULL)
        *misses = (int)all_misses;
    return code;
}

#ifdef __cplusplus
}

static inline int DHT_free(DHT *table, uint32_t *retries)
{
    return probeline_dht_free_one(table, retries);
}
static inline int DHT_free(DHT *table, int *evictions, int *misses)
{
    return probeline_dht_free_two(table, evictions, misses);
}
static inline int DHT_free(DHT *table, uint64_t *evictions, uint64_t *misses, uint64_t *retries)
{
    return probeline_dht_free(table, evictions, misses, retries);
}
#else
/* The function for this number of arguments. */
#define PROBELINE_DHT_SIXTH(a, b, c, d, e, f, ...) f
#define DHT_free(...)                                                                              \
    PROBELINE_DHT_SIXTH(__VA_ARGS__, , probeline_dht_free, probeline_dht_free_two,                 \
                        probeline_dht_free_one, , )                                                \
    (__VA_ARGS__)
#define DHT_create(...)                                                                            \
    PROBELINE_DHT_SIXTH(__VA_ARGS__, probeline_dht_create_at, , , , probeline_dht_create_by, )     \
    (__VA_ARGS__)
#endif

#endif
