/* random: random numbers from the kernel. */
#ifndef ETCDLOCK_BASE_RANDOM_H
#define ETCDLOCK_BASE_RANDOM_H

#include <stdint.h>

/* el_random returns a random number from the kernel. This module has no state, so a forked child
 * gets other numbers than its parent. @thread any */
uint64_t el_random(void);

#endif
