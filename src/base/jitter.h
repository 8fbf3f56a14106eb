/* jitter: random parts of retry delays, so that clients that fail at the same
 * time do not retry at the same time. */
#ifndef ETCDLOCK_BASE_JITTER_H
#define ETCDLOCK_BASE_JITTER_H

#include <stdint.h>

/* el_jitter returns 0 to |span_ms| milliseconds. It is a pure function:
 * |salt| is a random number of the client, |now_ms| the time. @thread any */
int64_t el_jitter(int64_t span_ms, uint64_t salt, int64_t now_ms);

#endif
