/* A stand-in device with the calls of libibverbs, for programs linked without that library. */
#ifndef DEVICE_H
#define DEVICE_H

/* Returns the call of this name, or abort() for a call that no program here uses. */
void *device_symbol(const char *name);

#endif
