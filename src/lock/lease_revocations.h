/* lease_revocations: the lease revocation queue, for leases that are not needed any more.
 *
 * The revoke of a lease is repeated until etcd has confirmed or refused it, or the lease has ended
 * by itself. Without the revoke, keys of the lease, also late ones, could block locks until that
 * end. Only one revoke is in flight at a time, because after an outage there may be many leases.
 * I/O thread only. */
#ifndef ETCDLOCK_LOCK_LEASE_REVOCATIONS_H
#define ETCDLOCK_LOCK_LEASE_REVOCATIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/timer.h"
#include "lock/shared.h"

/* el_lease_revocations is the lease revocation queue of one session; embedded in el_session. */
typedef struct el_lease_revocations {
  el_shared *shared;
  STAILQ_HEAD(, el_revocation) list; /* the leases, oldest first */
  /* due at the next attempt after a failure */
  el_timer timer;
  uint8_t failures;  /* failed attempts in a row */
  bool is_in_flight; /* the revoke of the first lease is in flight */
  bool is_stopping;  /* no further revoke is sent */
} el_lease_revocations;

/* el_lease_revocations_init sets up an empty queue. |shared| must outlive it. @thread io */
void el_lease_revocations_init(el_lease_revocations *revocations,
                               el_shared *shared);

/* el_lease_revocations_add adds lease |id| to the queue. The lease ends by itself at most |ttl_ms|
 * from now. @thread io */
void el_lease_revocations_add(el_lease_revocations *revocations, int64_t id,
                              int64_t ttl_ms);

/* el_lease_revocations_stop stops the queue: it sends no further revoke. @thread io */
void el_lease_revocations_stop(el_lease_revocations *revocations);

/* el_lease_revocations_destroy empties the queue; no revoke may be in flight. @thread io */
void el_lease_revocations_destroy(el_lease_revocations *revocations);

#endif
