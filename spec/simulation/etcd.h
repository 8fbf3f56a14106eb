/* simulation etcd: a simulated etcd cluster, as its clients see it: calls of etcd's gRPC API, with
 * protobuf messages in and out.
 *
 * It can do all that etcd was seen to do, and worse, as far as etcd's promises allow. It simulates
 * no network: messages arrive at once, in both directions. */
#ifndef SIMULATION_ETCD_H
#define SIMULATION_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

typedef struct etcd etcd;
typedef struct etcd_call etcd_call;

enum { ETCD_MEMBERS_MAX = 3, ETCD_CLIENT_ADMIN = -1, ETCD_CLIENT_NONE = -2 };

/* ---- the behaviour of one history ---- */

/* Chances are per mille. The history draws the values; all 0 is an etcd without faults. */
typedef struct etcd_options {
  int n_members;
  uint64_t cluster_id;
  /* how long a write takes until it is applied (disk and followers), and a linearizable read */
  int64_t write_min_us, write_max_us, read_min_us, read_max_us;
  int64_t
      save_us; /* how long one save on the disk takes; later writes share the next */
  bool is_disk_busy; /* other programs write all the time */
  int slow;          /* of requests that take up to |slow_max_us| instead */
  int64_t slow_max_us;
  int late_expiry_ms; /* how much later than its TTL the leader may end a lease */
  int refused;        /* definite failure, worth a retry */
  int unavailable; /* failure of unknown outcome, worth a retry; applied or not */
  int denied;      /* definite failure, for good */
  int no_space;    /* failure of a write by the quota */
  int omits_leases; /* no leases with keys_only, as etcd 3.7; a tenth as often: in any answer */
  int omits_more;       /* an answer without |more| and |count| */
  int keep_break;       /* a keepalive stream ends */
  int64_t keepalive_us; /* how long a keepalive takes */
  int fast_keep; /* a renewal is confirmed after the lease has ended (etcd 3.7) */
  int stale_read; /* a serializable read of an older state */
  int watch_late; /* a watch event is up to 3 s late */
  int watch_lost; /* a watch event is never sent */
  int watch_replayed; /* a new watch gets the old deletions again (etcd issue 15271) */
  int watch_break; /* a watch stream ends */
  int snapshots;   /* a member that comes back gets the state by a snapshot */
  /* how long a member needs for the hash of a password; 0: etcd has no users */
  int64_t hash_us;
  int64_t
      token_us; /* a simple token that is not used expires after this time */
  bool is_jwt;  /* tokens are JWT */
  bool
      checks_lease_calls; /* which need a token: since etcd 3.4.42, 3.5.28, 3.6.9 */
  int replaced_max;       /* how many valid tokens a client may replace */
  bool is_one_hash; /* two Authenticates of a client at once break a promise */
} etcd_options;

/* ---- what happens to the data, for checks ---- */

typedef enum etcd_cause {
  ETCD_BY_TXN,
  ETCD_BY_EXPIRY,
  ETCD_BY_REVOKE,
  ETCD_BY_ADMIN
} etcd_cause;

typedef struct etcd_key {
  el_bytes key, value;
  int64_t create_rev, mod_rev, version, lease;
} etcd_key;

/* One change of one key. */
typedef struct etcd_change {
  int64_t rev;
  const etcd_key *before,
      *after; /* NULL: the key did not exist, or does not any more */
  etcd_cause cause;
  int client; /* whose request caused it: the |client| of etcd_open, or ETCD_CLIENT_… */
} etcd_change;

typedef void (*etcd_on_change)(const etcd_change *change);

/* A deposed leader has renewed a lease for |client|. |client| < 0: such a leader is back. */
typedef void (*etcd_on_false_renewal)(int client);

/* ---- life ---- */

etcd *etcd_new(const etcd_options *options, etcd_on_change on_change);

void etcd_set_on_false_renewal(etcd *cluster, etcd_on_false_renewal call);

/* Frees the cluster. All calls must have ended. */
void etcd_free(etcd *cluster);

/* Replaces the options; n_members and cluster_id must stay the same. */
void etcd_set_options(etcd *cluster, const etcd_options *options);

/* ---- calls ---- */

typedef struct etcd_call_events {
  /* The member sends a message. |bytes| is valid during the call only. */
  void (*on_message)(void *arg, const uint8_t *bytes, size_t len);
  /* The member ends the call with a status of gRPC. |text| is empty if |status| is 0. It is the
   * last event, and frees the call. */
  void (*on_status)(void *arg, int status, const char *text);
} etcd_call_events;

/* A call of |method|, such as "/etcdserverpb.KV/Txn", arrives at |member|. |client| identifies the
 * client for etcd_change. |token|: the auth token that the call carries; NULL: none. The events may
 * come at any time after the return, also during calls of the functions below. */
etcd_call *etcd_open(etcd *cluster, int member, int client, const char *method,
                     bool needs_leader, const char *token,
                     const etcd_call_events *events, void *arg);

/* A message of the client arrives. */
void etcd_message(etcd_call *call, const uint8_t *bytes, size_t len);

/* The client will send no more messages. */
void etcd_half_close(etcd_call *call);

/* The client has cancelled the call, or its connection is gone. No event follows, and the call is
 * freed. A request that has begun may still be applied. */
void etcd_cancel(etcd_call *call);

/* ---- the data ---- */

int64_t etcd_rev(const etcd *cluster);
size_t etcd_n_keys(const etcd *cluster);
const etcd_key *etcd_key_at(const etcd *cluster,
                            size_t index); /* in the order of keys */
const etcd_key *etcd_find(const etcd *cluster,
                          el_bytes key); /* NULL: there is none */
size_t etcd_n_leases(const etcd *cluster);
bool etcd_has_lease(const etcd *cluster, int64_t lease);

/* Returns the number of requests that have begun and may still be applied. */
size_t etcd_n_pending(const etcd *cluster);

void etcd_admin_put(etcd *cluster, el_bytes key, el_bytes value, int64_t lease);
void etcd_admin_delete(etcd *cluster, el_bytes key);
void etcd_admin_revoke(etcd *cluster, int64_t lease);

/* ---- what clients cost ---- */

/* What one client has sent so far. */
typedef struct etcd_costs {
  int n_writes, n_reads; /* transactions */
  int n_keepalives, n_lease_calls, n_others;
  int n_watches;        /* that it has created */
  int n_in_vain;        /* deletes of what does not exist */
  size_t largest_write; /* bytes of one message */
} etcd_costs;

etcd_costs etcd_costs_of(const etcd *cluster, int client);

/* Returns how many watches of |client| are open. */
int etcd_n_watches(const etcd *cluster, int client);

/* ---- faults of members and of the cluster ---- */

/* The leader is lost. After |pause_us|, or later, when a majority is connected again, another
 * member leads (the same one if no other is connected), with a higher term. It gives each lease its
 * full TTL anew. */
void etcd_elect(etcd *cluster, int64_t pause_us);

/* Until |until_us| |member| hears nothing of the others. If it leads, the others elect; it does not
 * know that yet, and serves what a deposed leader of etcd serves. */
void etcd_cut_off(etcd *cluster, int member, int64_t until_us);

/* Until |until_us| |member| applies writes |lag_us| later than the others. */
void etcd_lag(etcd *cluster, int member, int64_t until_us, int64_t lag_us);

/* |member| was restarted: it ends its calls, and takes part again from |until_us| on. Before that,
 * etcd_is_up is false, and no call may be opened at it. */
void etcd_restart(etcd *cluster, int member, int64_t until_us);
bool etcd_is_up(const etcd *cluster, int member);

/* Returns the member that leads; negative: none does. */
int etcd_leader(const etcd *cluster);

/* Compacts the history of the keys up to the present revision. */
void etcd_compact(etcd *cluster);

/* An admin adds a user. */
void etcd_add_user(etcd *cluster);

/* Puts and grants of leases fail because the quota is used up, until |is_on| is false. */
void etcd_set_no_space(etcd *cluster, bool is_on);

#endif
