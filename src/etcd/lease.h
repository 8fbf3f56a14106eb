/* lease: etcd's leases: grant, revoke, ask, and the stream on which one is kept
 * alive. */
#ifndef ETCDLOCK_ETCD_LEASE_H
#define ETCDLOCK_ETCD_LEASE_H

#include <stdint.h>

#include "base/bytes.h"
#include "etcd/auth.h"

typedef struct el_lease_answer {
  el_error err;    /* code EL_OK when the rest is filled */
  int64_t sent_ms; /* when the request left us */
  int64_t id;
  int64_t ttl_ms; /* as etcd counts it; keepalive: 0 means the lease is gone */
  uint64_t term;  /* raft term of the member that answered */
  uint64_t cluster_id;
} el_lease_answer;

typedef void (*el_lease_done)(void *arg, const el_lease_answer *answer);

/* A random id for a lease. @thread any */
int64_t el_lease_new_id(void);

/* Asks for lease |id| (chosen by us, positive) of |ttl_ms|, and accepts no shorter one.
 * @thread io */
void el_lease_grant(el_auth *auth, int64_t id, int64_t ttl_ms,
                    int64_t timeout_ms, el_lease_done done, void *arg);

/* Revokes lease |id| and so deletes its keys. A lease that etcd doesn't know
 * is an error with lease_gone set. @thread io */
void el_lease_revoke(el_auth *auth, int64_t id, int64_t timeout_ms,
                     el_lease_done done, void *arg);

/* Which keys hang on a lease. */
typedef struct el_lease_keys {
  el_lease_answer lease; /* ttl_ms 0: there is no such lease */
  const el_bytes *keys;
  size_t n;
} el_lease_keys;

typedef void (*el_lease_keys_done)(void *arg, const el_lease_keys *answer);

/* Asks for the keys of lease |id|, which are valid during |done|. @thread io */
void el_lease_time_to_live(el_auth *auth, int64_t id, int64_t timeout_ms,
                           el_lease_keys_done done, void *arg);

/* The keepalive stream. */
typedef struct el_keepalive el_keepalive;

/* |done| is called for every answer, and, with an error, when the stream
 * breaks while an answer is awaited. @thread io */
el_keepalive *el_keepalive_new(el_auth *auth, el_lease_done done, void *arg);

/* Asks etcd to renew lease |id|, of |ttl_ms| as asked for, over a new stream if there
 * is none. At most one request may be out at a time, because an answer says only for
 * which lease it is, not for which request. @thread io */
void el_keepalive_send(el_keepalive *ka, int64_t id, int64_t ttl_ms);

/* Drops the stream, and with it an answer that is out. @thread io */
void el_keepalive_reset(el_keepalive *ka);

/* The same for an answer that doesn't come: leaves the member too.
 * @thread io */
void el_keepalive_fail_over(el_keepalive *ka, const el_error *why);

/* @thread io */
void el_keepalive_free(el_keepalive *ka);

#endif
