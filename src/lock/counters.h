/* counters: what a client has done so far, and has now. */
#ifndef ETCDLOCK_LOCK_COUNTERS_H
#define ETCDLOCK_LOCK_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct el_stats {
  /* requests sent to etcd, one round trip each */
  int64_t enqueues, tries, looks, deletes, probes;
  int64_t keepalives, grants, revokes, audits, watches, calls;
  int64_t shared; /* of them, in the round trip of another one */
  /* what came of them */
  int64_t acquired, lost, collected, failed_attempts;
  /* now */
  int64_t held, waiting;
} el_stats;

typedef struct el_counters {
  _Atomic int64_t values[sizeof(el_stats) / sizeof(int64_t)];
} el_counters;

/* Adds |n| to the counter at |offset| in el_stats. @thread any */
void el_counters_add(el_counters *counters, size_t offset, int64_t n);

/* @thread any */
void el_counters_read(const el_counters *counters, el_stats *stats);

/* Adds |n| to the counter |field|. */
#define EL_COUNT(counters, field, n) \
  el_counters_add(counters, offsetof(el_stats, field), n)

#endif
