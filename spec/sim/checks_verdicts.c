/* sim checks_verdicts: each result that a caller gets is true. */
#include <inttypes.h>

#include "caller.h"
#include "checks.h"
#include "checks_others.h"
#include "queue.h"

enum {
  /* limit in a history without faults, from a free lock to the grant */
  PROMPT_MS = 1000
};

/* Returns the largest token that was granted in a mode that blocks a key of mode |mine|. */
static int64_t last_in_way(const name_record *record, el_mode mine) {
  int64_t last = 0;
  for (int other = 0; other < MODES; other++) {
    if (queue_blocks(mine, (el_mode)other) &&
        record->last_token[other] > last) {
      last = record->last_token[other];
    }
  }
  return last;
}

/* Checks the grant of the key |key_id| in its queue: no older key blocks it, and |token| is larger
 * than the tokens before it. */
static void check_order(world *wd, const sim_peer *pr, int key_id,
                        int64_t token) {
  int name = key_id_name(key_id);
  el_mode mode = key_id_mode(key_id);
  name_record *record = &wd->names[name];
  const key *older = NULL;
  int64_t last = last_in_way(record, mode);
  if (queue_count_older(&wd->store, name, token, mode, &older) >=
      queue_limit(key_id)) {
    world_violate(wd, "I3 FIFO",
                  "p%d is granted n%d at %" PRId64 ", before %" PRId64, pr->id,
                  key_id, token, older->create_rev);
  }
  if (mode == EL_MODE_PERMIT) return; /* several hold at once, in any order */
  if (token <= last) {
    world_violate(wd, "I2 growing tokens",
                  "p%d is granted n%d with %" PRId64 " after %" PRId64, pr->id,
                  key_id, token, last);
  }
  if (token > record->last_token[mode]) record->last_token[mode] = token;
}

/* The time to the grant counts from the end of the last blocking key, or from the time at which
 * |caller| joined, if that is later. */
void checks_on_prompt(world *wd, const sim_peer *pr, const peer_entry *at,
                      const sim_caller *caller) {
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  int64_t since_ms = 0, waited_ms;
  for (int i = 0; i < n; i++) {
    const name_record *record = &wd->names[key_id_name(key_ids[i])];
    int64_t unblocked_ms = record->unblocked_ms[key_id_mode(at->key_id)];
    if (unblocked_ms > since_ms) since_ms = unblocked_ms;
  }
  waited_ms = wd->now_ms - since_ms;
  if (!wd->faults.calm || at->core.failures != 0) return;
  if (caller->joined_ms > wd->now_ms - waited_ms) {
    waited_ms = wd->now_ms - caller->joined_ms;
  }
  if (waited_ms > PROMPT_MS) {
    world_violate(wd, "I5 progress",
                  "p%d gets n%d %" PRId64 " ms after it became free", pr->id,
                  at->key_id, waited_ms);
  }
}

bool checks_is_sabotaged(const store *st, int key_id, int64_t lease_id,
                         int64_t token) {
  int key_ids[NAMES_MAX], n = key_id_all(key_id, key_ids);
  for (int i = 0; i < n; i++) {
    if (store_is_sabotaged(st, key_ids[i], lease_id, token)) return true;
  }
  return false;
}

/* Checks that the grant follows from a state in which the key |key_id| existed. An admin may have
 * deleted the key just before the grant, but not before the entry sent its last read. If a member
 * that may be stale has answered that read, a deletion up to EL_SESSION_FRESH_PROOF_MS before the
 * read is allowed. The grant must come at the same moment as the answer. */
static void check_seen(world *wd, const sim_peer *pr, const peer_entry *at,
                       int key_id, int64_t token) {
  const key *it = store_find(&wd->store, key_id, at->core.lease);
  bool is_ours = it->create_rev == token && it->lease == at->core.lease;
  int64_t slack_ms = at->seen_stale ? EL_SESSION_FRESH_PROOF_MS : 0;
  if (at->answered_ms != wd->now_ms) {
    world_violate(wd, "I1 mutual exclusion",
                  "p%d is granted n%d by a state of %" PRId64 " ms ago", pr->id,
                  at->key_id, wd->now_ms - at->answered_ms);
  }
  if (!is_ours && it->sabotaged_rev >= token &&
      it->sabotaged_ms < at->answer_sent_ms - slack_ms) {
    world_violate(
        wd, "I1 mutual exclusion",
        "p%d is granted n%d, but its last read showed that key %" PRId64 " %s",
        pr->id, at->key_id, token,
        it->create_rev == token ? "is detached" : "is gone");
  }
}

void checks_on_granted(world *wd, const sim_peer *pr, const peer_entry *at,
                       int64_t token) {
  const store *st = &wd->store;
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  if (TAILQ_EMPTY(&at->local.acquisitions)) {
    world_violate(wd, "I8 one true result",
                  "p%d is granted n%d without a caller", pr->id, at->key_id);
    return;
  }
  for (int i = 0; i < n; i++) {
    check_seen(wd, pr, at, key_ids[i], token);
  }
  if (checks_is_sabotaged(st, at->key_id, at->core.lease, token)) return;
  for (int i = 0; i < n; i++) {
    if (store_create_rev(st, key_ids[i], at->core.lease) != token) {
      world_violate(wd, "I1 mutual exclusion",
                    "p%d is granted n%d, whose key %" PRId64 " is gone", pr->id,
                    key_ids[i], token);
    }
    check_order(wd, pr, key_ids[i], token);
  }
}

/* Tells whether all keys of |at| exist and no admin has changed one of them. If a key was changed by
 * its own client, an answer without its lease looks as if an admin had changed the key. */
static bool is_untouched(const world *wd, const peer_entry *at) {
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  for (int i = 0; i < n; i++) {
    const key *it = store_find(&wd->store, key_ids[i], at->core.lease);
    if (it == NULL || it->create_rev == 0 || it->sabotaged_rev != 0 ||
        (wd->faults.has_hidden_leases && it->mod_rev != it->create_rev)) {
      return false;
    }
  }
  return true;
}

void checks_on_lost(world *wd, const sim_peer *pr, const peer_entry *at,
                    el_loss loss) {
  const store *st = &wd->store;
  const lease *ls = store_find_lease(st, at->core.lease);
  if (!others_use(wd, pr->id, at)) return; /* no caller gets the result */
  if (loss != EL_LOSS_DELETED && loss != EL_LOSS_REPLACED &&
      loss != EL_LOSS_REVOKED) {
    return;
  }
  if (pr->closed) return; /* a closed peer reports no result */
  /* A leader that was deposed before the lease was granted answers that the lease does not
   * exist. */
  if (at->core.state == EL_ENTRY_ENDED &&
      wd->faults.peers[pr->id].deposed_since != 0) {
    return;
  }
  if (is_untouched(wd, at) && ls->alive && !ls->sabotaged) {
    world_violate(wd, "I8 one true result",
                  "p%d gets the result that n%d/%" PRId64
                  " is gone, but it exists",
                  pr->id, at->key_id, at->core.lease);
  }
}

/* Checks that |caller| was soon told of the loss of its key |key_id|. The watch of the key tells
 * it, or the read that follows the creation of this watch. If a proclaim of a leader has put the
 * key on its lease again, the key is not lost. */
static void check_told(world *wd, const sim_caller *caller, int key_id) {
  const key *it = store_find(&wd->store, key_id, caller->lease);
  int64_t late_ms;
  if (!wd->faults.calm || !caller->is_holder || it == NULL) return;
  if (it->sabotaged_rev < caller->token) return;
  if (it->create_rev == caller->token && it->lease == caller->lease) return;
  late_ms =
      wd->now_ms - (it->sabotaged_ms > caller->granted_ms ? it->sabotaged_ms
                                                          : caller->granted_ms);
  if (late_ms > PROMPT_MS) {
    world_violate(
        wd, "I5 progress",
        "caller %d of p%d holds n%d without a report of its loss for %" PRId64
        " ms",
        caller->id, caller->peer, caller->key_id, late_ms);
  }
}

void checks_on_hold_end(world *wd, const sim_caller *caller) {
  int key_ids[NAMES_MAX], n = key_id_all(caller->key_id, key_ids);
  for (int i = 0; i < n; i++) {
    check_told(wd, caller, key_ids[i]);
  }
}

void checks_on_holder(world *wd, const sim_peer *pr, const peer_entry *at,
                      const reply *said) {
  wd->figures->holders_named += said->names_holder;
  if (said->is_holder_wrong) {
    world_violate(wd, "I14 true holder", "p%d n%d: the named key is not first",
                  pr->id, at->key_id);
  }
}

/* Checks that a holder is told at once if etcd refuses its release. */
void checks_on_delete_answered(world *wd, const sim_peer *pr,
                               const peer_entry *at,
                               const el_outcome *outcome) {
  bool is_refused =
      !outcome->is_done && outcome->is_definite && !outcome->is_retriable;
  if (is_refused && at->is_release_awaited) {
    world_violate(wd, "I8 one true result",
                  "p%d does not report that the release of n%d is refused",
                  pr->id, at->key_id);
  }
}

/* Tells whether the client of |at| has deleted all keys of |at| as the entry asked in its latest
 * delete. */
static bool was_released(const store *st, const peer_entry *at) {
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  for (int i = 0; i < n; i++) {
    if (!store_was_released(st, key_ids[i], at->core.lease, at->deleting_rev)) {
      return false;
    }
  }
  return true;
}

void checks_on_released(world *wd, const sim_peer *pr, const peer_entry *at,
                        bool found) {
  const store *st = &wd->store;
  const lease *ls = store_find_lease(st, at->core.lease);
  /* A deposed leader has said that the lease is gone, and the delete has no answer. The outcome is
   * unknown and must not be reported as success. */
  bool is_unknown = at->is_delete_in_doubt && at->ended_early;
  /* The entry is for one key of a multi-lock, which an audit has found. No caller waits for the
   * release of this key, and a late delete of the whole multi-lock may have deleted it. */
  bool is_swept =
      key_id_is_multi(at->key_id) && key_id_name(at->key_id) != SEVERAL;
  if (!found && !is_swept && !is_unknown && !wd->faults.has_hidden_leases &&
      (ls->alive || at->is_delete_in_doubt) && !ls->sabotaged &&
      !checks_is_sabotaged(st, at->key_id, at->core.lease, 1)) {
    world_violate(wd, "I8 one true result",
                  "p%d has released n%d, but gets the result that it was gone",
                  pr->id, at->key_id);
  }
  if (found && (is_unknown || !at->is_delete_in_doubt) &&
      !was_released(st, at)) {
    world_violate(wd, "I8 one true result",
                  "p%d gets the result that n%d is released, but it was lost",
                  pr->id, at->key_id);
  }
}
