/* How the processes of MPI-DHT over UCX meet: see probeline_dht.h. Functions other than
 * UCX_INIT_BSTRAP_MPI are not supported; NULL lets the processes meet through their launcher.
 * UCX_INIT_BSTRAP_MPI is there if DHT_USE_MPI is defined, or if the compiler finds <mpi.h>.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PROBELINE_LUCX_BOOTSTRAP_H
#define PROBELINE_LUCX_BOOTSTRAP_H

#ifndef PROBELINE_DHT_FORM
#define PROBELINE_DHT_FORM 2025
#endif
#if !defined(DHT_USE_MPI) && defined(__has_include)
#if __has_include(<mpi.h>)
#define DHT_USE_MPI
#endif
#endif
#ifdef DHT_USE_MPI
#include "../probeline_dht_mpi.h"
#else
#include "../probeline_dht.h"
#endif

#define UCX_BCAST_NOT_RUN (-1)
#define UCX_BCAST_OK 0
#define UCX_BCAST_ERR 1

/* Fills in a rendezvous. */
typedef int (*probeline_dht_bootstrap)(const void *args, probeline_dht_rendezvous *rendezvous);

#ifdef PROBELINE_DHT_MPI_H
typedef struct ucx_ep_args_mpi {
    MPI_Comm comm;
} ucx_ep_args_mpi_t;

static inline int probeline_dht_bootstrap_mpi(const void *args, probeline_dht_rendezvous *rendezvous)
{
    int failed = probeline_dht_mpi_rendezvous(((const ucx_ep_args_mpi_t *)args)->comm, rendezvous);
    return failed ? UCX_BCAST_ERR : UCX_BCAST_OK;
}

#define UCX_INIT_BSTRAP_MPI probeline_dht_bootstrap_mpi
#define UCX_INIT_BCAST_MPI probeline_dht_bootstrap_mpi
#endif

#endif
