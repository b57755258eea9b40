/* MPI-DHT as of 2024 and 2025, over UCX, or over MPI with LUCX_MPI_IMPL: see probeline_dht.h.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifdef LUCX_MPI_IMPL
#include "MPI/DHT.h"
#else
#include "Bootstrap.h"
#include "DataTypes.h"
#endif
