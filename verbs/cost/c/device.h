/* A device behind the names of libibverbs, for programs linked with it instead of the library. */
#ifndef DEVICE_H
#define DEVICE_H

/* The call of this name, or null. */
void *device_symbol(const char *name);

#endif
