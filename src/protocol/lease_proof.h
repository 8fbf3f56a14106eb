/* lease_proof: until when a lease is proven to be alive, by what etcd has answered so far.
 *
 * The answer to a keepalive alone proves nothing: a leader that was deposed while its disk hung
 * goes on to renew leases in its memory, which its successor lets expire (etcd issue 15247). So a
 * renewal counts only if a sight of a key of the lease proves it. A sight is the answer to a
 * linearizable read, or to a write, that shows the key attached to the lease. It proves the grant,
 * which a quorum has decided. It proves a renewal if
 * - the same member has answered both, in the same raft term, and the store's revision does not
 *   show that the member may have got a snapshot between the two, and
 * - the request of the sight was sent after the keepalive was sent or, once |alive_until| has
 *   passed, after the keepalive was answered.
 *
 * Why. The raft term in an answer is the term of the last entry that the member has applied
 * (setTerm in etcdserver/server.go). The member reads it before the renewal for the answer to a
 * keepalive (v3rpc/lease.go), and after the work for other answers. Let it be T in both answers. R
 * is the leader that renewed the lease. X is the term of the leader that confirmed the sight.
 * 1. The member had applied an entry of T, so it follows no leader of an earlier term: the term of
 *    R is T or later. It had applied an entry of X, so X is T or earlier.
 * 2. A quorum was in the term X after the sight was sent. So each successor of R was elected after
 *    that time, and thus after the keepalive was sent.
 * 3. R gave the lease its TTL from the renewal on. A successor gave it the whole TTL from its
 *    election on (Promote in lease/lessor.go; with lease checkpoints, which etcd may use for a TTL
 *    of more than 5 minutes, it gives less). So no leader lets the lease expire before the TTL has
 *    passed since the keepalive was sent.
 * 4. If the lease may have expired before, a leader may have decided its end, and the members apply
 *    that later. No leader renews a lease that it has seen expire. So the sight must show that R
 *    still led after it had renewed the lease: the sight is sent after the keepalive's answer.
 *
 * Snapshots are the exception to 1: a member that gets the state by a snapshot keeps its earlier
 * raft term until it applies the next entry. So after a time without contact it may confirm a sight
 * of the term X, and answer with the term of the deposed leader. That is why a sight of another
 * member does not count. The member itself, if it was the deposed leader, gets a snapshot only if
 * it has missed 5,000 entries of the raft log (SnapshotCatchUpEntries in etcdserver/server.go).
 * Most entries raise the revision. Two cases remain: 5,000 entries of which more than half do not
 * raise it (lease grants, failed transactions), or a new leader that has just restarted, which
 * keeps fewer entries. Both need a leader that hangs, is deposed and returns within one TTL, and a
 * client that loses its connection before its next keepalive.
 *
 * spec/model/lease_model.c checks this rule on random schedules of a cluster. */
#ifndef ETCDLOCK_PROTOCOL_LEASE_PROOF_H
#define ETCDLOCK_PROTOCOL_LEASE_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/times.h"

/* el_sight is the answer of a quorum that has shown a key of the lease. */
typedef struct el_sight {
  int64_t sent_ms; /* el_now_ms when the request was sent */
  uint64_t member; /* ID of the member that has answered */
  uint64_t term;   /* raft term of the answer */
  int64_t rev;     /* the store's revision in the answer */
} el_sight;

/* el_renewal is one answered keepalive. The grant counts as the first. Times are el_now_ms. */
typedef struct el_renewal {
  int64_t sent_ms;
  int64_t answered_ms; /* 0: there was no such keepalive */
  int64_t ttl_ms;      /* TTL in the answer, without the lock delay */
  uint64_t member;     /* ID of the member that has answered */
  uint64_t term;       /* raft term of the answer */
  int64_t rev;         /* the store's revision in the answer */
  bool is_grant;       /* the renewal is the grant of the lease */
} el_renewal;

enum {
  /* how many renewals are kept: those of one TTL, if one is sent every TTL/10 */
  EL_RENEWALS_MAX = EL_RENEW_SLOW_DIVISOR
};

/* el_lease_proof is what is known about one lease. Times are el_now_ms. */
typedef struct el_lease_proof {
  /* no leader lets the lease expire before this; 0: the lease is not granted yet */
  int64_t alive_until;
  /* the last answered keepalives, the latest first */
  el_renewal renewals[EL_RENEWALS_MAX];
  el_sight seen; /* the sight whose request was sent last */
} el_lease_proof;

/* el_lease_proof_hold_ms returns for how long a hold is valid after a proven renewal of |ttl_ms|
 * was sent: the TTL less a margin. @thread any */
int64_t el_lease_proof_hold_ms(int64_t ttl_ms);

/* el_lease_proof_add_renewal records |renewal|. A grant proves itself. @thread any */
void el_lease_proof_add_renewal(el_lease_proof *proof,
                                const el_renewal *renewal);

/* el_lease_proof_add_sight records |sight| at the time |now_ms|. If |sight| proves renewals, it
 * extends |alive_until| and returns the latest of them. NULL: there are none. @thread any */
const el_renewal *el_lease_proof_add_sight(el_lease_proof *proof,
                                           const el_sight *sight,
                                           int64_t now_ms);

/* el_lease_proof_needs_sight tells whether only a sight whose request is sent after |sent_ms| can
 * prove the latest renewal. @thread any */
bool el_lease_proof_needs_sight(const el_lease_proof *proof, int64_t sent_ms,
                                int64_t now_ms);

#endif
