/* cluster_identity: detects that answers come from another cluster, or from an earlier state.
 *
 * Tokens grow only as long as the store's revision grows. Another cluster behind the same address,
 * a wiped store, or one restored from a backup would grant tokens that were granted before. So the
 * first sign of it ends all holds.
 */
#ifndef ETCDLOCK_PROTOCOL_CLUSTER_IDENTITY_H
#define ETCDLOCK_PROTOCOL_CLUSTER_IDENTITY_H

#include <stdint.h>

#include "base/error.h"

/* el_cluster_identity is what the answers so far have shown of the cluster; zero to begin with. */
typedef struct el_cluster_identity {
  uint64_t cluster_id; /* 0: no answer yet */
  int64_t rev;         /* the largest revision of the store seen */
} el_cluster_identity;

/* el_cluster_answer is what one answer shows of the cluster. */
typedef struct el_cluster_answer {
  uint64_t cluster_id; /* of the member that answered */
  int64_t rev;         /* the store's revision */
  int64_t rev_at_send; /* el_cluster_identity.rev when the request was sent */
  enum {
    EL_ANSWER_SERIALIZABLE, /* a serializable read: one member's state, which
                               may be behind */
    EL_ANSWER_LINEARIZABLE, /* a linearizable read */
    EL_ANSWER_APPLIED,      /* the request went through the raft log and
                               changed nothing */
    EL_ANSWER_WRITTEN       /* the request changed the store */
  } kind;
} el_cluster_answer;

/* el_identity_verdict tells whether an answer is from the cluster known so far. */
typedef enum el_identity_verdict {
  EL_IDENTITY_SAME,
  EL_IDENTITY_DOUBTFUL, /* ignore the answer and ask again through the raft
                           log */
  EL_IDENTITY_OTHER     /* another cluster, or an earlier state of this one */
} el_identity_verdict;

/* el_cluster_identity_check records |answer| and returns whether it can be from the cluster known
 * so far. OTHER, and |err| (conflict): the cluster ID differs, or the revision is below the one
 * known when the request was sent (or, for WRITTEN, not above it). A linearizable read that is
 * behind is DOUBTFUL, because some versions of etcd read old state after a member was paused (etcd
 * issue 20418); a request that went through the raft log cannot. @thread io */
el_identity_verdict el_cluster_identity_check(el_cluster_identity *cluster,
                                              const el_cluster_answer *answer,
                                              el_error *err);

#endif
