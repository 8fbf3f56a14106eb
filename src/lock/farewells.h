/* farewells: ends leases that nobody needs any more. Each is revoked until etcd has
 * said so, or its time is over: what may still be put on it would stand in a queue
 * for that long. One after the other: after an outage there may be many.
 */
#ifndef ETCDLOCK_LOCK_FAREWELLS_H
#define ETCDLOCK_LOCK_FAREWELLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/timer.h"
#include "etcd/auth.h"
#include "lock/shared.h"

/* Embedded in the session's driver. */
typedef struct el_farewells {
  el_auth *auth;
  el_timers *timers;
  el_counters *counters;
  STAILQ_HEAD(, el_farewell) list;
  el_timer timer;   /* until the next attempt */
  uint8_t failures; /* in a row */
  bool is_out;      /* a revoke, of the first */
  bool stopping;
} el_farewells;

/* |auth|, |timers| and |counters| are set. @thread io */
void el_farewells_init(el_farewells *farewells);

/* Revokes lease |id|, which etcd may keep for |ttl_ms| yet. @thread io */
void el_farewells_add(el_farewells *farewells, int64_t id, int64_t ttl_ms);

/* Nothing is sent any more. @thread io */
void el_farewells_stop(el_farewells *farewells);

/* Nothing may be out. @thread io */
void el_farewells_destroy(el_farewells *farewells);

#endif
