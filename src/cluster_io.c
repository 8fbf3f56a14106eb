/* L3 cluster_io: takes note of who answers, and settles doubts about it. I/O
 * thread only. */
#include <stdlib.h>

#include "alloc.h"
#include "client_int.h"

static el_verdict note(el_client *cl, const el_sighting *seen) {
  el_error err;
  el_verdict verdict = el_cluster_note(&cl->cluster, seen, &err);
  if (verdict == EL_CLUSTER_OTHER) {
    cl->wrong_cluster = err;
    cl->cluster_changed = true;
  }
  return verdict;
}

/* ---- doubts ---- */

typedef struct question {
  el_client *cl;
  int64_t rev_then;
} question;

static void on_settled(void *arg, el_txn_answer *answer) {
  question *q = arg;
  el_sighting seen = {.id = answer->cluster_id,
                      .rev = answer->rev,
                      .rev_then = q->rev_then,
                      .how = EL_SEEN_APPLIED};
  q->cl->doubting = false;
  if (!q->cl->stopping && answer->err.code == EL_OK) {
    note(q->cl, &seen);
  }
  el_txn_answer_free(answer);
  free(q);
}

/* Has etcd send a transaction through raft's log that can't write: no key was
 * created at this revision. Its answer's revision tells the truth. |key| is one
 * that we may write. */
static void settle_doubt(el_client *cl, el_bytes key) {
  el_compare never = {.test = EL_CREATE_REV_IS, .key = key, .rev = INT64_MAX};
  el_op then = {.kind = EL_OP_PUT, .key = key};
  el_txn txn = {&never, 1, &then, 1, NULL, 0};
  question *q;
  if (cl->doubting) return;
  cl->doubting = true;
  q = el_alloc(sizeof *q);
  *q = (question){cl, cl->cluster.rev};
  EL_COUNT(cl, calls, 1);
  el_kv_txn(cl->auth, &txn, EL_ATTEMPT_MS, on_settled, q);
}

/* ---- answers ---- */

void el_client_note_contact(el_client *cl, const el_error *err) {
  if (err->code == EL_OK || (err->definite && err->code != EL_UNAVAILABLE)) {
    cl->contacted = true;
  }
}

void el_client_note_txn(el_client *cl, el_txn_answer *answer, int how,
                        int64_t rev_then, el_bytes key) {
  el_sighting seen = {
      .id = answer->cluster_id, .rev = answer->rev, .rev_then = rev_then};
  if (answer->err.code != EL_OK) return;
  seen.how = how;
  switch (note(cl, &seen)) {
    case EL_CLUSTER_SAME:
      return;
    case EL_CLUSTER_DOUBTFUL:
      settle_doubt(cl, key);
      el_error_set(&answer->err, EL_UNAVAILABLE,
                   "etcd %s answers from the past: revision %lld, after %lld",
                   el_client_address(cl), (long long)answer->rev,
                   (long long)rev_then);
      break;
    case EL_CLUSTER_OTHER:
      answer->err = cl->wrong_cluster;
      break;
  }
  answer->err.retriable = true; /* settle ends what another cluster must end */
}

bool el_client_note_lease(el_client *cl, const el_lease_answer *answer) {
  el_sighting seen = {.id = answer->cluster_id, .how = EL_SEEN_LOCAL};
  return answer->err.code != EL_OK || seen.id == 0 ||
         note(cl, &seen) == EL_CLUSTER_SAME;
}
