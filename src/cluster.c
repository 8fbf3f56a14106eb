/* L3 cluster: is the etcd that answers still the one that we began with? */
#include "cluster.h"

static bool went_back(const el_cluster *cluster, const el_sighting *seen) {
  if (seen->rev == 0) return false;
  if (seen->wrote) return seen->rev <= seen->rev_then;
  return seen->rev < seen->rev_then && seen->term < cluster->term;
}

bool el_cluster_note(el_cluster *cluster, const el_sighting *seen,
                     el_error *err) {
  if (cluster->id != 0 && seen->id != cluster->id) {
    el_error_set(err, EL_CONFLICT,
                 "another cluster answers: its id is %llx, and was %llx; "
                 "connect anew",
                 (unsigned long long)seen->id, (unsigned long long)cluster->id);
    return false;
  }
  if (went_back(cluster, seen)) {
    el_error_set(err, EL_CONFLICT,
                 "the cluster's revision went back from %lld to %lld: it was "
                 "wiped or restored; connect anew",
                 (long long)seen->rev_then, (long long)seen->rev);
    return false;
  }
  cluster->id = seen->id;
  if (seen->rev > cluster->rev) cluster->rev = seen->rev;
  if (seen->term > cluster->term) cluster->term = seen->term;
  return true;
}
