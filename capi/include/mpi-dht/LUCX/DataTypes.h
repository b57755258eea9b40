/* What creates a table of MPI-DHT over UCX: see probeline_dht.h.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PROBELINE_LUCX_DATA_TYPES_H
#define PROBELINE_LUCX_DATA_TYPES_H

#include "Bootstrap.h"

typedef struct DHT_init {
    int key_size;
    int data_size;
    unsigned int bucket_count; /* of each process */
    uint64_t (*hash_func)(int length, const void *key);
    probeline_dht_bootstrap bcast_func;
    const void *bcast_func_args;
} DHT_init_t;

/* Creates a table. All processes call it with the same sizes. Returns NULL if that fails. */
static inline DHT *probeline_dht_create_by(const DHT_init_t *init)
{
    probeline_dht_rendezvous rendezvous;
    if (init == NULL)
        return NULL;
    if (init->bcast_func != NULL && init->bcast_func(init->bcast_func_args, &rendezvous) != UCX_BCAST_OK)
        return NULL;
    return probeline_dht_create_of((uint64_t)init->key_size, (uint64_t)init->data_size,
                                   init->bucket_count,
                                   init->bcast_func != NULL ? &rendezvous : NULL);
}

#ifdef __cplusplus
static inline DHT *DHT_create(const DHT_init_t *init)
{
    return probeline_dht_create_by(init);
}
#endif

#endif
