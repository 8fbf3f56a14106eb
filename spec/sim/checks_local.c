/* sim checks_local: what must hold within a peer: in its local queues, and of what they tell
 * their owners. */
#include <inttypes.h>

#include "caller.h"
#include "checks.h"
#include "checks_others.h"

/* ---- the queues ---- */

void checks_local_queues(world *wd, const sim_peer *pr) {
  for (int i = 0; i < pr->n_queues && !pr->closed; i++) {
    const peer_queue *queue = &pr->queues[i];
    el_local_now now;
    const char *broken;
    if (!queue->used) continue;
    now = queue_now(wd, pr, &queue->core);
    broken = el_local_queue_check(&queue->core, &now);
    if (broken != NULL) {
      world_violate(wd, "I5 progress", "p%d n%d: %s", pr->id, queue->id,
                    broken);
    }
  }
}

void checks_on_contender_watch(world *wd, const sim_peer *pr,
                               const peer_entry *at, bool begins) {
  if (begins == (at->contenders.id != 0)) {
    world_violate(wd, "I5 progress", "p%d %s to watch behind n%d twice", pr->id,
                  begins ? "begins" : "ends", at->key_id);
  }
}

void checks_on_forgotten(world *wd, const sim_peer *pr, const peer_entry *at) {
  if (at->contenders.id != 0 || at->wake_ms != 0) {
    world_violate(wd, "I4 nothing left",
                  "p%d forgets n%d, and what was begun for it goes on", pr->id,
                  at->key_id);
  }
}

/* ---- a grant ---- */

/* Nobody else holds by the same key, unless both only read. */
static void check_alone(world *wd, const sim_peer *pr, const peer_entry *at,
                        const sim_caller *who) {
  if (key_id_mode(at->key_id) == EL_MODE_READ) return;
  for (int i = 0; i < wd->n_callers; i++) {
    if (i != who->id && checks_is_by(pr, &wd->callers[i], at)) {
      world_violate(wd, "I1 exclusion",
                    "callers %d and %d of p%d hold by one key of n%d", i,
                    who->id, pr->id, at->key_id);
    }
  }
}

/* Within a local queue whoever asked first is first, unless several hold at once. */
static void check_order(world *wd, const sim_caller *who) {
  el_mode mode = key_id_mode(who->key_id);
  if (mode != EL_MODE_LOCK && mode != EL_MODE_WRITE) return;
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *other = &wd->callers[i];
    if (other->state == CALLER_WAITING && other->peer == who->peer &&
        key_id_queue(other->key_id) == key_id_queue(who->key_id) &&
        other->asked_nth < who->asked_nth) {
      world_violate(wd, "I3 FIFO",
                    "caller %d of p%d is granted n%d before caller %d", who->id,
                    who->peer, who->key_id, i);
    }
  }
}

void checks_on_grant_told(world *wd, const sim_peer *pr, peer_entry *at,
                          const sim_caller *who) {
  check_alone(wd, pr, at, who);
  check_order(wd, who);
  if (who->owners[who->owner].is_new) {
    checks_on_prompt(wd, pr, at, who);
  } else {
    checks_on_handed_over(wd, pr, at, who);
  }
}

/* ---- the end of a hold ---- */

void checks_on_let_go(world *wd, const sim_caller *who, el_leave how) {
  sim_peer *pr = &wd->peers[who->peer];
  peer_entry *at = &pr->entries[who->entry];
  for (int i = 0; i < wd->n_callers; i++) {
    if (i != who->id && checks_is_by(pr, &wd->callers[i], at)) return;
  }
  at->left_ms = wd->now_ms;
  at->left_how = how;
  at->left_as_reader = who->mode != key_id_mode(who->key_id);
  at->linger_ms =
      how == EL_LEAVE_BY_ITSELF ? who->owners[who->owner].core.linger_ms : 0;
}

/* Another one has its key, or it lingers; or it was deleted, and that was told so. */
void checks_on_release_told(world *wd, const sim_peer *pr,
                            const sim_owner *owner,
                            const el_local_action *released) {
  const peer_entry *at = entry_of_place(released->place);
  bool is_kept = at->core.state == EL_ENTRY_HELD;
  int due = is_kept ? EL_RELEASE_DONE : at->release;
  if ((int)released->release != due) {
    world_violate(wd, "I8 one verdict",
                  "caller %d of p%d is told of its release: %d, not %d",
                  owner->caller, pr->id, (int)released->release, due);
  }
}
