/* jitter: what keeps those who fail at the same time from coming back so. */
#ifndef ETCDLOCK_BASE_JITTER_H
#define ETCDLOCK_BASE_JITTER_H

#include <stdint.h>

/* A number that nobody else has, for el_jitter. @thread any */
uint64_t el_salt(void);

/* From 0 to |span_ms|, by |salt| and the time, |now_ms|. Pure. @thread any */
int64_t el_jitter(int64_t span_ms, uint64_t salt, int64_t now_ms);

#endif
