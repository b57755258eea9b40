/* How the processes of an MPI communicator meet, for probeline_dht.h: by the program's own MPI.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PROBELINE_DHT_MPI_H
#define PROBELINE_DHT_MPI_H

#include "probeline_dht.h"

#include <mpi.h>

typedef struct probeline_dht_mpi {
    MPI_Comm comm;
    MPI_Request request;
} probeline_dht_mpi;

static inline int probeline_dht_mpi_start(void *state, int call, const void *mine, void *all,
                                          int bytes)
{
    probeline_dht_mpi *mpi = (probeline_dht_mpi *)state;
    if (call == 0)
        return MPI_Iallgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, mpi->comm,
                              &mpi->request) != MPI_SUCCESS;
    return MPI_Ialltoall(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, mpi->comm, &mpi->request) !=
           MPI_SUCCESS;
}

static inline int probeline_dht_mpi_test(void *state, int *ended)
{
    return MPI_Test(&((probeline_dht_mpi *)state)->request, ended, MPI_STATUS_IGNORE) !=
           MPI_SUCCESS;
}

static inline void probeline_dht_mpi_release(void *state)
{
    MPI_Comm_free(&((probeline_dht_mpi *)state)->comm);
    free(state);
}

/* Fills in a rendezvous of the processes of a communicator; all of them call it. Returns 0 unless it
 * fails. */
static inline int probeline_dht_mpi_rendezvous(MPI_Comm comm, probeline_dht_rendezvous *rendezvous)
{
    int rank = 0, ranks = 0;
    probeline_dht_mpi *mpi = (probeline_dht_mpi *)malloc(sizeof *mpi);
    if (mpi == NULL)
        return 1;
    if (MPI_Comm_dup(comm, &mpi->comm) != MPI_SUCCESS) {
        free(mpi);
        return 1;
    }
    MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi->comm, &rank);
    MPI_Comm_size(mpi->comm, &ranks);
    rendezvous->rank = (uint32_t)rank;
    rendezvous->ranks = (uint32_t)ranks;
    rendezvous->state = mpi;
    rendezvous->start = probeline_dht_mpi_start;
    rendezvous->test = probeline_dht_mpi_test;
    rendezvous->release = probeline_dht_mpi_release;
    rendezvous->comm = &mpi->comm;
    rendezvous->comm_bytes = sizeof mpi->comm;
    return 0;
}

/* Creates a table among the processes of a communicator, with this number of buckets in each. All of
 * them call it with the same sizes. Returns NULL if that fails. */
static inline DHT *probeline_dht_create_at(MPI_Comm comm, uint64_t buckets, unsigned int data_size,
                                           unsigned int key_size,
                                           uint64_t (*hash_func)(int length, const void *key))
{
    probeline_dht_rendezvous rendezvous;
    (void)hash_func;
    if (probeline_dht_mpi_rendezvous(comm, &rendezvous) != 0)
        return NULL;
    return probeline_dht_create_of(key_size, data_size, buckets, &rendezvous);
}

#ifdef __cplusplus
static inline DHT *DHT_create(MPI_Comm comm, uint64_t buckets, unsigned int data_size,
                              unsigned int key_size,
                              uint64_t (*hash_func)(int length, const void *key))
{
    return probeline_dht_create_at(comm, buckets, data_size, key_size, hash_func);
}
#endif

#endif
