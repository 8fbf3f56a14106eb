/* L3 cluster: is the etcd that answers still the one that we began with?
 *
 * A lock's tokens only grow as long as the store's revisions do. A member of
 * another cluster behind the same address, a wiped store, or one restored from
 * a backup would hand out tokens again that somebody holds; so the first sign
 * of it ends everything.
 */
#ifndef ETCDLOCK_CLUSTER_H
#define ETCDLOCK_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

/* What the answers so far have shown. Zero-initialised. */
typedef struct el_cluster {
  uint64_t id;
  int64_t rev;   /* the largest revision seen */
  uint64_t term; /* the largest raft term seen */
} el_cluster;

/* One answer of the quorum's. */
typedef struct el_sighting {
  uint64_t id;      /* cluster_id */
  int64_t rev;      /* the store's revision; 0: not told */
  uint64_t term;    /* raft term */
  int64_t rev_then; /* el_cluster.rev when the request was sent */
  bool wrote;       /* the request changed the store */
} el_sighting;

/* Takes note of |seen|. False and |err| (conflict) if it can't be from the
 * cluster known so far: another id; or a write whose revision isn't larger
 * than one seen before it was sent; or a read of an older revision in an older
 * term. (A read of an older revision in the same term is a bug of some etcds,
 * issue 20418, and harmless: nothing is concluded from it.) @thread io */
bool el_cluster_note(el_cluster *cluster, const el_sighting *seen,
                     el_error *err);

#endif
