/* jitter: random parts of retry delays. Without them, clients that fail at the same time would also
 * retry at the same time. */
#ifndef ETCDLOCK_BASE_JITTER_H
#define ETCDLOCK_BASE_JITTER_H

#include <stdint.h>

/* el_jitter returns a random time of 0 to |span_ms| milliseconds, which depends only on the
 * arguments. |salt| is a random number of the client, |now_ms| the present time. @thread any */
int64_t el_jitter(int64_t span_ms, uint64_t salt, int64_t now_ms);

/* el_pause_ms returns how long to wait after |n| failures in a row (1 or more), in milliseconds:
 * from EL_PAUSE_FIRST_MS, doubling, to EL_PAUSE_LAST_MS, less a jitter of up to a quarter.
 * @thread any */
int64_t el_pause_ms(int n, uint64_t salt, int64_t now_ms);

#endif
