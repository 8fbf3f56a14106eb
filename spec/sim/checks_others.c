/* sim checks_others: which keys and acquisitions are before a waiting caller. */
#include "checks_others.h"

#include "queue.h"

const peer_entry *others_find_entry(const world *wd, int key_id,
                                    int64_t lease_id, int *peer) {
  for (int i = 0; i < wd->n_peers; i++) {
    const sim_peer *pr = &wd->peers[i];
    for (int k = 0; k < pr->n_entries; k++) {
      const peer_entry *at = &pr->entries[k];
      if (at->used && at->core.lease == lease_id &&
          (at->key_id == key_id || at->key_id == key_id_whole(key_id))) {
        *peer = i;
        return at;
      }
    }
  }
  return NULL;
}

bool others_use(const world *wd, int peer, const peer_entry *at) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (caller->peer != peer) continue;
    if (caller->is_holder && &wd->peers[peer].entries[caller->entry] == at) {
      return true;
    }
    if (caller->state == CALLER_WAITING && peer_entry_of(caller) == at)
      return true;
  }
  return false;
}

/* ---- acquisitions of the same client ---- */

/* Tells whether |caller| has its key in etcd. A caller that joined later may have its key
 * earlier. */
static bool has_key(const world *wd, const sim_caller *caller) {
  const peer_entry *at = peer_entry_of(caller);
  return at != NULL &&
         store_create_rev(&wd->store, at->key_id, at->core.lease) != 0;
}

static bool is_before(const world *wd, const sim_caller *other,
                      const sim_caller *caller) {
  return other->is_holder ||
         (other->state == CALLER_WAITING &&
          (other->joined_nth < caller->joined_nth || has_key(wd, other)));
}

/* Returns the number of entries in lock delay that conflict with |caller|. Such an entry counts
 * even if its key is gone, because its peer may not know that yet. */
static int count_delaying(const world *wd, const sim_caller *caller) {
  const sim_peer *pr = &wd->peers[caller->peer];
  int n = 0;
  for (int i = 0; i < pr->n_entries; i++) {
    const peer_entry *at = &pr->entries[i];
    n += at->used && at->core.state == EL_ENTRY_LOCK_DELAY &&
         key_id_conflicts(at->key_id, caller->key_id);
  }
  return n;
}

static int count_local(const world *wd, const sim_caller *caller) {
  int n = 0;
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *other = &wd->callers[i];
    n += other != caller && other->peer == caller->peer &&
         is_before(wd, other, caller) &&
         queue_excludes(other->mode, caller->mode) &&
         key_id_is_beside(other->key_id, caller->key_id);
  }
  return n + count_delaying(wd, caller);
}

/* ---- keys in etcd ---- */

typedef struct rival {
  const sim_caller *caller;
  bool is_try;
} rival;

static bool is_own(const sim_caller *caller, const peer_entry *at) {
  return caller->state == CALLER_WAITING && peer_entry_of(caller) == at;
}

/* Tells whether the key of |at|, an entry of |peer|, blocks the caller of |of|. */
static bool counts(const world *wd, const rival *of, const peer_entry *at,
                   int peer) {
  bool is_used = others_use(wd, peer, at);
  bool is_of_live_session =
      at->queue != NONE && !wd->faults.peers[peer].crashed;
  bool is_kept = !is_of_live_session || at->core.state == EL_ENTRY_LOCK_DELAY;
  if (peer != of->caller->peer) return is_used || is_kept || of->is_try;
  /* count_local already counts the permits in use of the same peer. */
  if (is_used) return of->caller->mode != EL_MODE_PERMIT;
  return is_kept || (of->is_try && (at->left_ms == 0 ||
                                    at->left_ms >= of->caller->joined_ms));
}

static int count_at(const world *wd, const rival *of, int key_id) {
  const store *st = &wd->store;
  const peer_entry *own =
      of->caller->state == CALLER_WAITING ? peer_entry_of(of->caller) : NULL;
  int64_t own_rev =
      own != NULL ? store_create_rev(st, key_id_of_name(own->key_id, key_id),
                                     own->core.lease)
                  : 0;
  int n = 0;
  for (int i = 0; i < st->n_keys; i++) {
    const key *it = &st->keys[i];
    int peer = NONE;
    const peer_entry *at;
    if (!queue_is_blocker(st, it, key_id_name(key_id), of->caller->mode))
      continue;
    if (own_rev != 0 && it->create_rev >= own_rev) continue;
    at = others_find_entry(wd, it->key_id, it->owner, &peer);
    if (at != NULL && is_own(of->caller, at)) continue;
    n += at == NULL || counts(wd, of, at, peer);
  }
  return n;
}

static bool are_before(const world *wd, const rival *of) {
  int key_ids[NAMES_MAX], n = key_id_all(of->caller->key_id, key_ids);
  int local = count_local(wd, of->caller);
  for (int i = 0; i < n; i++) {
    if (local + count_at(wd, of, key_ids[i]) >=
        queue_limit(of->caller->key_id)) {
      return true;
    }
  }
  return false;
}

bool others_hinder(const world *wd, const sim_caller *caller) {
  rival of = {caller, false};
  return are_before(wd, &of);
}

bool others_lock(const world *wd, const sim_caller *caller) {
  rival of = {caller, true};
  return are_before(wd, &of);
}
