/* MPI-DHT as of 2023: see probeline_dht.h. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PROBELINE_DHT_DHT_H
#define PROBELINE_DHT_DHT_H

#define PROBELINE_DHT_FORM 2023
#include "../probeline_dht_mpi.h"

#endif
