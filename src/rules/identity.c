/* identity: is the etcd that answers still the one that we began with? */
#include "rules/identity.h"

el_verdict el_identity_note(el_identity *cluster, const el_sighting *seen,
                            el_error *err) {
  int64_t least = seen->how == EL_SEEN_LOCAL     ? 0
                  : seen->how == EL_SEEN_WRITTEN ? seen->rev_then + 1
                                                 : seen->rev_then;
  if (cluster->id != 0 && seen->id != cluster->id) {
    el_error_set(err, EL_CONFLICT,
                 "another cluster answers: its id is %llx, and was %llx; "
                 "connect anew",
                 (unsigned long long)seen->id, (unsigned long long)cluster->id);
    return EL_IDENTITY_OTHER;
  }
  if (seen->rev < least && seen->how == EL_SEEN_READ) {
    return EL_IDENTITY_DOUBTFUL;
  }
  if (seen->rev < least) {
    el_error_set(err, EL_CONFLICT,
                 "the cluster's revision went back from %lld to %lld: it was "
                 "wiped or restored; connect anew",
                 (long long)seen->rev_then, (long long)seen->rev);
    return EL_IDENTITY_OTHER;
  }
  cluster->id = seen->id;
  if (seen->rev > cluster->rev) cluster->rev = seen->rev;
  return EL_IDENTITY_SAME;
}
