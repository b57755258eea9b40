/* The functions of MPI-DHT over Probeline's map, so that a program written for MPI-DHT runs with another
 * include path and library:
 *
 *     mpicc -I PREFIX/include/probeline program.c -L PREFIX/lib -lprobeline
 *
 * The library has to be built with its feature `mpi` and the MPI library of the program. Differences:
 *
 * - The map has a hash function of its own. The one given to DHT_create() is not called.
 * - A key has no fixed bucket: the rank and the index that DHT_write() stores are those of the
 *   bucket in which most searches for the key end.
 * - A value that is returned is always one that was written for its key. DHT_READ_CORRUPT and
 *   DHT_READ_INVALID do not occur; DHT_free() returns how many reads saw unfinished writes and looked
 *   again.
 * - A write that meets other writes at the same place may store nothing; it returns DHT_SUCCESS, and the
 *   key is a miss until it is written again.
 * - After an error, which DHT_ERROR or NULL reports, probeline_last_error() has a sentence about it.
 *
 * MPI must run while a table exists. A table belongs to the thread that created it; other threads may
 * call MPI only with MPI_THREAD_MULTIPLE. The environment variable PROBELINE_TRANSPORT selects the
 * transport: "mpi" (MPI RMA, the default), "verbs", "ucx" or "shm".
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PROBELINE_MPI_DHT_H
#define PROBELINE_MPI_DHT_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return. */
#define DHT_SUCCESS 0
#define DHT_ERROR (-1)
#define DHT_READ_MISS (-2)
#define DHT_READ_CORRUPT (-3)
#define DHT_READ_INVALID (-4)
#define DHT_WRITE_EVICTED (-5)
#define DHT_FILE_WRONG (-11) /* of other sizes, or cut short */
#define DHT_FILE_IO (-12)
#define DHT_FILE_READ (-13)
#define DHT_FILE_WRITE (-14)

/* A table that all processes of a communicator share. */
typedef struct DHT DHT;

/* Creates a table of keys of key_size bytes, at most 1024, and values of data_size bytes, at most 8192,
 * with bucket_count buckets in each process. All processes of comm call it with the same sizes.
 * Returns NULL if that fails. */
DHT *DHT_create(size_t key_size, size_t data_size, uint64_t bucket_count,
                uint64_t (*hash_func)(int length, const void *key), MPI_Comm comm);

/* Writes a value, over an older one of the key: DHT_SUCCESS, DHT_WRITE_EVICTED if it replaced the entry
 * of another key, or DHT_ERROR. proc and index may be NULL. */
int DHT_write(DHT *table, const void *key, const void *data, uint32_t *proc, uint32_t *index);

/* Reads the value of a key: DHT_SUCCESS, DHT_READ_MISS or DHT_ERROR. */
int DHT_read(DHT *table, const void *key, void *destination);

/* Frees the table. All processes call it. Stores the number of reads of all processes that saw
 * unfinished writes; mismatches may be NULL. */
int DHT_free(DHT *table, uint32_t *mismatches);

/* Waits until all processes have called it. */
int DHT_barrier(DHT *table);

/* Prints on process 0, for each process and in sum: occupied and free buckets, writes, reads, read
 * misses and evictions. The last four start again at 0. All processes call it. */
int DHT_print_statistics(DHT *table);

/* DHT_to_file() writes all entries to a file, DHT_from_file() writes those of a file to the table.
 * All processes call it with a name of the same file, and each writes or reads a part of it. The
 * file has the sizes of a key and a value as two int32_t in the machine's byte order, and then each
 * entry's key and value. The numbers of processes and of buckets may differ when it is read. They
 * return DHT_SUCCESS, DHT_FILE_... or DHT_ERROR, the same on all processes unless they lost each
 * other. */
int DHT_to_file(DHT *table, const char *filename);
int DHT_from_file(DHT *table, const char *filename);

#ifdef __cplusplus
}
#endif

#endif
