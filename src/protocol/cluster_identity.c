/* cluster_identity: detects answers from another etcd cluster, or from an earlier state of the same
 * cluster. */
#include "protocol/cluster_identity.h"

el_identity_verdict el_cluster_identity_check(el_cluster_identity *cluster,
                                              const el_cluster_answer *answer,
                                              el_error *err) {
  int64_t least = answer->kind == EL_ANSWER_SERIALIZABLE ? 0
                  : answer->kind == EL_ANSWER_WRITTEN ? answer->rev_at_send + 1
                                                      : answer->rev_at_send;
  if (cluster->cluster_id != 0 && answer->cluster_id != cluster->cluster_id) {
    el_error_set(err, EL_CONFLICT,
                 "another etcd cluster answers: cluster ID %llx, before %llx; "
                 "connect anew",
                 (unsigned long long)answer->cluster_id,
                 (unsigned long long)cluster->cluster_id);
    return EL_IDENTITY_OTHER;
  }
  if (answer->rev < least && answer->kind == EL_ANSWER_LINEARIZABLE) {
    return EL_IDENTITY_DOUBTFUL;
  }
  if (answer->rev < least) {
    el_error_set(err, EL_CONFLICT,
                 "the revision of etcd went back from %lld to %lld: etcd was "
                 "wiped or restored; connect anew",
                 (long long)answer->rev_at_send, (long long)answer->rev);
    return EL_IDENTITY_OTHER;
  }
  cluster->cluster_id = answer->cluster_id;
  if (answer->rev > cluster->rev) cluster->rev = answer->rev;
  return EL_IDENTITY_SAME;
}
