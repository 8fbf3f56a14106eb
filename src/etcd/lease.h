/* lease: etcd's leases: grant, revoke, time to live, and keepalives. */
#ifndef ETCDLOCK_ETCD_LEASE_H
#define ETCDLOCK_ETCD_LEASE_H

#include <stdint.h>

#include "base/alloc.h"
#include "etcd/auth.h"

/* el_lease_answer is etcd's answer to a lease call or a keepalive. It is valid during the callback
 * only. */
typedef struct el_lease_answer {
  /* code EL_OK: the rest is filled (LeaseRevoke: only sent_ms and id; LeaseTimeToLive: not rev and
   * member_id) */
  el_error err;
  /* el_now_ms when the call was made (el_keepalive_send: |now_ms|); set with an error, too */
  int64_t sent_ms;
  int64_t id; /* of the lease */
  /* the TTL that etcd has sent; keepalive: 0 if the lease does not exist */
  int64_t ttl_ms;
  int64_t rev;                    /* the store's revision */
  uint64_t term;                  /* raft term of the member that answered */
  uint64_t cluster_id, member_id; /* of the member that answered */
} el_lease_answer;

/* el_lease_done receives the answer to a lease call. */
typedef void (*el_lease_done)(void *arg, const el_lease_answer *answer);

/* el_lease_new_id returns a random lease ID. @thread any */
int64_t el_lease_new_id(void);

/* el_lease_grant creates lease |id| (positive) of |ttl_ms|, rounded up to seconds. An answer with a
 * shorter TTL is an error. @thread io */
void el_lease_grant(el_auth *auth, int64_t id, int64_t ttl_ms,
                    el_lease_done done, void *arg);

/* el_lease_revoke revokes lease |id|, which deletes its keys. If etcd does not know the lease, the
 * answer is an error with |is_lease_gone|. @thread io */
void el_lease_revoke(el_auth *auth, int64_t id, el_lease_done done, void *arg);

/* el_lease_keys is the answer to el_lease_time_to_live: a lease, and the |n| keys that are attached
 * to it. It is valid during the callback only. */
typedef struct el_lease_keys {
  el_lease_answer lease; /* ttl_ms is 0 if the lease does not exist */
  const el_bytes *keys;
  size_t n;
} el_lease_keys;

/* el_lease_keys_done receives the answer to el_lease_time_to_live. */
typedef void (*el_lease_keys_done)(void *arg, const el_lease_keys *answer);

/* el_lease_time_to_live reads the remaining TTL and the keys of lease |id|. @thread io */
void el_lease_time_to_live(el_auth *auth, int64_t id, el_lease_keys_done done,
                           void *arg);

/* el_keepalive renews leases. It has one keepalive stream, and more while renewals are sent before
 * the last ones are answered. It opens them when it needs them. */
typedef struct el_keepalive el_keepalive;

/* el_keepalive_new returns an el_keepalive without a stream. |done| is called with each answer. An
 * error is the answer to all renewals that await one, for example if a stream ends. @thread io */
el_keepalive *el_keepalive_new(el_auth *auth, el_lease_done done, void *arg);

/* el_keepalive_send requests a renewal of lease |id|, which was granted for at least |ttl_ms|. Its
 * answer has |now_ms| as its sent_ms. If the server allows no more streams, nothing is sent, and no
 * answer comes. All renewals that await an answer must be of the same lease. @thread io */
void el_keepalive_send(el_keepalive *ka, int64_t id, int64_t ttl_ms,
                       int64_t now_ms);

/* el_keepalive_reset closes the streams. |done| is not called for the renewals that await an
 * answer. @thread io */
void el_keepalive_reset(el_keepalive *ka);

/* el_keepalive_awaits_token tells whether a renewal waits for a token. @thread io */
bool el_keepalive_awaits_token(const el_keepalive *ka);

/* el_keepalive_is_refused tells whether renewals cannot be sent, because the server allows no more
 * streams. @thread io */
bool el_keepalive_is_refused(const el_keepalive *ka);

/* el_keepalive_free closes the streams and frees |ka|. @thread io */
void el_keepalive_free(el_keepalive *ka);

#endif
