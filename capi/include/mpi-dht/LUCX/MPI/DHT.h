/* MPI-DHT over MPI as of 2024 and 2025: see probeline_dht.h. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PROBELINE_LUCX_MPI_DHT_H
#define PROBELINE_LUCX_MPI_DHT_H

#define PROBELINE_DHT_FORM 2025
#include "../../probeline_dht_mpi.h"

typedef struct DHT_init {
    int key_size;
    int data_size;
    unsigned int bucket_count; /* of each process */
    uint64_t (*hash_func)(int length, const void *key);
    MPI_Comm comm;
} DHT_init_t;

/* Creates a table. All processes call it with the same sizes. Returns NULL if that fails. */
static inline DHT *probeline_dht_create_by(const DHT_init_t *init)
{
    if (init == NULL)
        return NULL;
    return probeline_dht_create_at(init->comm, init->bucket_count, (unsigned int)init->data_size,
                                   (unsigned int)init->key_size, init->hash_func);
}

#ifdef __cplusplus
static inline DHT *DHT_create(const DHT_init_t *init)
{
    return probeline_dht_create_by(init);
}
#endif

#endif
