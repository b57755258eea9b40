/* MPI-DHT over MPI as of late 2023: see probeline_dht.h. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "../DHT/DHT.h"
