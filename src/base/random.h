/* random: numbers that nobody else has. */
#ifndef ETCDLOCK_BASE_RANDOM_H
#define ETCDLOCK_BASE_RANDOM_H

#include <stdint.h>

/* From the kernel, which also a forked child has different ones from.
 * @thread any */
uint64_t el_random(void);

#endif
