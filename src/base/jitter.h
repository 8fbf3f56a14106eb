/* jitter: what keeps those who fail at the same time from coming back so. */
#ifndef ETCDLOCK_BASE_JITTER_H
#define ETCDLOCK_BASE_JITTER_H

#include <stdint.h>

/* From 0 to |span_ms|, by |salt|, a random number, and the time, |now_ms|.
 * @thread any */
int64_t el_jitter(int64_t span_ms, uint64_t salt, int64_t now_ms);

#endif
