/* cluster_identity: detects answers from another etcd cluster, or from an earlier state of the same
 * cluster.
 *
 * A fencing token is a revision of etcd's store, so tokens grow only while that revision grows.
 * Another cluster behind the same address, a wiped store, or a store restored from a backup could
 * grant tokens that were granted before. So the first answer that shows such a change ends all
 * holds.
 */
#ifndef ETCDLOCK_PROTOCOL_CLUSTER_IDENTITY_H
#define ETCDLOCK_PROTOCOL_CLUSTER_IDENTITY_H

#include <stdint.h>

#include "base/error.h"

/* el_cluster_identity holds what the answers so far have shown of the cluster. All zero: no answer
 * yet. */
typedef struct el_cluster_identity {
  uint64_t cluster_id; /* of the members that have answered; 0: no answer yet */
  int64_t rev;         /* the largest revision in an answer so far */
} el_cluster_identity;

/* el_cluster_answer is what one answer shows of the cluster. */
typedef struct el_cluster_answer {
  uint64_t cluster_id; /* of the member that answered */
  int64_t rev;         /* the store's revision in the answer */
  /* el_cluster_identity.rev at the time at which the request was sent */
  int64_t rev_at_send;
  enum {
    /* a serializable read: the state of one member, which may be stale */
    EL_ANSWER_SERIALIZABLE,
    EL_ANSWER_LINEARIZABLE, /* a linearizable read */
    /* the request went through the raft log and changed nothing */
    EL_ANSWER_APPLIED,
    EL_ANSWER_WRITTEN /* the request changed the store */
  } kind;
} el_cluster_answer;

/* el_identity_verdict tells whether an answer is from the cluster known so far. */
typedef enum el_identity_verdict {
  EL_IDENTITY_SAME,
  /* the answer may be stale: ignore it, and send a request through the raft log */
  EL_IDENTITY_DOUBTFUL,
  EL_IDENTITY_OTHER /* another cluster, or an earlier state of this one */
} el_identity_verdict;

/* el_cluster_identity_check returns whether |answer| can be from the cluster known so far. If so,
 * it records the answer. A WRITTEN answer must have a revision above |rev_at_send|; one of another
 * kind must not be below |rev_at_send|, but a SERIALIZABLE answer may have any revision.
 * - It returns OTHER, and sets |err| (conflict), if the cluster ID differs, or the revision of a
 *   WRITTEN or an APPLIED answer is too low.
 * - It returns DOUBTFUL if only the revision of a LINEARIZABLE answer is too low, because some
 *   versions of etcd read old state after a member was paused (etcd issue 20418). A request that
 *   went through the raft log cannot read old state.
 *
 * @thread io */
el_identity_verdict el_cluster_identity_check(el_cluster_identity *cluster,
                                              const el_cluster_answer *answer,
                                              el_error *err);

#endif
