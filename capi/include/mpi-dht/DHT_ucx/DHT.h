/* MPI-DHT over UCX as of late 2023, whose tables were first created at a communicator, then by a
 * DHT_init_t: see probeline_dht.h. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PROBELINE_DHT_UCX_DHT_H
#define PROBELINE_DHT_UCX_DHT_H

#include "../DHT/DHT.h"
#include "../LUCX/Bootstrap.h"
#include "../LUCX/DataTypes.h"

#endif
