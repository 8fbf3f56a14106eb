/* identity: is the etcd that answers still the one that we began with?
 *
 * A lock's tokens only grow as long as the store's revisions do. A member of
 * another cluster behind the same address, a wiped store, or one restored from
 * a backup would hand out tokens again that somebody holds; so the first sign
 * of it ends everything.
 */
#ifndef ETCDLOCK_RULES_IDENTITY_H
#define ETCDLOCK_RULES_IDENTITY_H

#include <stdint.h>

#include "base/error.h"

/* What the answers so far have shown. Zero-initialised. */
typedef struct el_identity {
  uint64_t id;
  int64_t rev; /* the largest revision seen */
} el_identity;

/* One answer. */
typedef struct el_sighting {
  uint64_t id;      /* cluster_id */
  int64_t rev;      /* the store's revision */
  int64_t rev_then; /* el_identity.rev when the request was sent */
  enum {
    EL_SEEN_LOCAL,   /* one member's state, which may be behind */
    EL_SEEN_READ,    /* a read through the quorum */
    EL_SEEN_APPLIED, /* went through raft's log, and changed nothing */
    EL_SEEN_WRITTEN  /* changed the store */
  } how;
} el_sighting;

typedef enum el_verdict {
  EL_IDENTITY_SAME,
  EL_IDENTITY_DOUBTFUL, /* conclude nothing; ask again through raft's log */
  EL_IDENTITY_OTHER
} el_verdict;

/* Takes note of |seen|. OTHER and |err| (conflict) if it can't be from the
 * cluster known so far: another id, or a revision that isn't at least (or,
 * WRITTEN, above) what was seen before the request was sent. A read that is
 * behind is only DOUBTFUL, because some etcds read from the past after a member
 * stood still (issue 20418); what went through the log can't be. @thread io */
el_verdict el_identity_note(el_identity *cluster, const el_sighting *seen,
                            el_error *err);

#endif
