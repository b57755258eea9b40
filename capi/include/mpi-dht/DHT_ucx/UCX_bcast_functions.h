/* See probeline_dht.h. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "DHT.h"
