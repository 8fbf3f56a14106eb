/* sim trouble: faults of a whole peer or cluster. */
#include "trouble.h"

#include "caller.h"
#include "peer.h"

static int pick_peer(world *wd) {
  return (int)rng_between(&wd->dice, 0, wd->n_peers - 1);
}

static int64_t pick_length(world *wd) {
  return rng_chance(&wd->dice, 500)
             ? rng_between(&wd->dice, 10, wd->ttl_ms)
             : rng_between(&wd->dice, wd->ttl_ms, 3 * wd->ttl_ms);
}

/* ---- the network and the cluster ---- */

/* The peer has noticed that the store is unreachable: all its waits fail. */
static void give_up(world *wd, const world_event *ev) {
  if (wd->calm_from_ms != 0 || wd->peers[ev->peer].closed) return;
  world_count(wd, FAULT_AWAY);
  world_trace(wd, "p%d is told that the store is out of reach", ev->peer);
  peer_fail_waiting(wd, ev->peer);
}

static void cut_off(world *wd, int peer, int64_t length_ms) {
  condition *cond = &wd->faults.peers[peer];
  world_trace(wd, "p%d is cut off for %d ms", peer, (int)length_ms);
  cond->partition_until = wd->now_ms + length_ms;
  if (rng_chance(&wd->dice, 500)) stream_break(wd, peer);
  if (rng_chance(&wd->dice, 300)) {
    world_post(wd, wd->now_ms + rng_between(&wd->dice, 0, length_ms), peer,
               give_up);
  }
}

static void partition(world *wd, const world_event *ev) {
  if (wd->calm_from_ms != 0) return;
  (void)ev;
  world_count(wd, FAULT_PARTITION);
  cut_off(wd, pick_peer(wd), pick_length(wd));
}

static void elect(world *wd, const world_event *ev) {
  if (wd->calm_from_ms != 0) return;
  (void)ev;
  world_count(wd, FAULT_ELECTION);
  store_elect(&wd->store, wd->now_ms);
  world_trace(wd, "store: term %d", (int)wd->store.term);
}

/* Elects a new leader. Some peers stay connected to the old leader, which was paused and goes on
 * answering (etcd issue 15247). */
static void depose(world *wd, const world_event *ev) {
  int first = pick_peer(wd), n = (int)rng_between(&wd->dice, 1, 2);
  bool times_out = rng_chance(&wd->dice, 500);
  if (wd->calm_from_ms != 0) return;
  (void)ev;
  world_count(wd, FAULT_DEPOSED);
  for (int i = 0; i < n; i++) {
    int peer = (first + i) % wd->n_peers;
    condition *cond = &wd->faults.peers[peer];
    if (faults_is_deposed(&wd->faults, peer, wd->now_ms)) continue;
    cond->deposed_since = wd->now_ms;
    cond->deposed_until = wd->now_ms + pick_length(wd);
    cond->deposed_times_out = times_out;
    cond->old_rev = wd->store.rev;
    cond->old_term = wd->store.term;
    world_trace(wd, "p%d hangs on the old leader", peer);
  }
  store_elect(&wd->store, wd->now_ms);
  world_trace(wd, "store: term %d", (int)wd->store.term);
}

/* Connects a peer to a member that is busy or badly connected. This member applies all changes
 * late, and answers watches and serializable reads from its old state. */
static void lag(world *wd, const world_event *ev) {
  int peer = pick_peer(wd);
  condition *cond = &wd->faults.peers[peer];
  if (wd->calm_from_ms != 0) return;
  if (faults_is_lagging(&wd->faults, peer, wd->now_ms)) return;
  (void)ev;
  world_count(wd, FAULT_LAGGING);
  cond->lag_ms = rng_between(&wd->dice, 50, 5000);
  cond->lagging_until = wd->now_ms + pick_length(wd);
  cond->lag_rev = wd->store.rev;
  world_trace(wd, "p%d hangs on a member that is %d ms behind", peer,
              (int)cond->lag_ms);
}

static void restart(world *wd, const world_event *ev) {
  int64_t down_ms = rng_between(&wd->dice, 100, 2000);
  if (wd->calm_from_ms != 0) return;
  (void)ev;
  world_count(wd, FAULT_RESTART);
  for (int i = 0; i < wd->n_peers; i++) {
    cut_off(wd, i, down_ms);
  }
  store_elect(&wd->store, wd->now_ms + down_ms);
}

/* ---- peers ---- */

static void stop(world *wd, const world_event *ev) {
  int peer = pick_peer(wd);
  int64_t length_ms = pick_length(wd);
  int64_t *until_ms = &wd->faults.peers[peer].stopped_until;
  if (wd->calm_from_ms != 0) return;
  (void)ev;
  world_count(wd, FAULT_STOP);
  world_trace(wd, "p%d is stopped for %d ms", peer, (int)length_ms);
  if (*until_ms < wd->now_ms + length_ms) *until_ms = wd->now_ms + length_ms;
}

static void crash(world *wd, const world_event *ev) {
  int peer = pick_peer(wd);
  if (wd->calm_from_ms != 0) return;
  (void)ev;
  world_count(wd, FAULT_CRASH);
  world_trace(wd, "p%d crashes", peer);
  wd->faults.peers[peer].crashed = true;
}

static void close_peer(world *wd, const world_event *ev) {
  if (wd->calm_from_ms != 0) return;
  world_count(wd, FAULT_CLOSE);
  world_trace(wd, "p%d closes", ev->peer);
  peer_close(wd, ev->peer);
}

void trouble_on_lost(world *wd, int peer) {
  enum { PER_MILLE = 100 };
  int64_t lock_delay_ms = wd->peers[peer].lock_delay_ms;
  if (lock_delay_ms == 0 || wd->faults.times[FAULT_CLOSE] == 0 ||
      !rng_chance(&wd->dice, PER_MILLE)) {
    return;
  }
  world_post(wd, wd->now_ms + rng_between(&wd->dice, 0, lock_delay_ms), peer,
             close_peer);
}

/* ---- admins ---- */

/* Returns a key of some lock; NULL: there is none. */
static const key *pick_key(world *wd) {
  const store *st = &wd->store;
  int first;
  if (st->n_keys == 0) return NULL;
  first = (int)rng_between(&wd->dice, 0, st->n_keys - 1);
  for (int i = 0; i < st->n_keys; i++) {
    const key *it = &st->keys[(first + i) % st->n_keys];
    if (it->create_rev != 0 && !key_is_nested(it) && !key_is_data(it) &&
        !key_id_is_marker(it->key_id)) {
      return it;
    }
  }
  return NULL;
}

static bool is_running(const world *wd, int peer) {
  return !wd->faults.peers[peer].crashed &&
         wd->faults.peers[peer].stopped_until <= wd->now_ms;
}

/* Makes the holder of the key |it| write, so that a write is in flight when an admin deletes the
 * key. */
static void write_meanwhile(world *wd, const key *it) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (caller->is_holder && caller->lease == it->owner &&
        caller->key_id == key_id_whole(it->key_id) &&
        is_running(wd, caller->peer)) {
      peer_write(wd, caller->peer, i, WRITE_DATA);
    }
  }
}

static void take_key(world *wd, const key *it) {
  if (it == NULL || it->create_rev == 0) return;
  world_count(wd, FAULT_ADMIN_DELETE);
  world_trace(wd, "admin deletes n%d/%d", it->key_id, (int)it->owner);
  store_mark_sabotaged(&wd->store, it->key_id, it->owner, wd->now_ms);
  store_delete(&wd->store, it->key_id, it->owner);
}

static void delete_key(world *wd, const world_event *ev) {
  const key *it = pick_key(wd);
  (void)ev;
  if (wd->calm_from_ms != 0) return;
  if (it != NULL) write_meanwhile(wd, it);
  take_key(wd, it);
}

static void take_new_key(world *wd, const world_event *ev) {
  if (wd->calm_from_ms != 0) return;
  take_key(wd, store_find(&wd->store, ev->call.key_id, ev->call.lease));
}

void trouble_on_put(world *wd, const call *what) {
  enum { PER_MILLE = 20, UNTIL_WATCHED_MS = 150 };
  int key_ids[NAMES_MAX], n = key_id_all(what->key_id, key_ids);
  world_event *ev;
  if (wd->faults.times[FAULT_ADMIN_DELETE] == 0 ||
      !rng_chance(&wd->dice, PER_MILLE) ||
      store_create_rev(&wd->store, key_ids[0], what->lease) != wd->store.rev) {
    return;
  }
  ev = world_post(wd, wd->now_ms + rng_between(&wd->dice, 0, UNTIL_WATCHED_MS),
                  NONE, take_new_key);
  ev->call.key_id = key_ids[rng_between(&wd->dice, 0, n - 1)];
  ev->call.lease = what->lease;
}

/* Returns the key of a keeper; NULL: there is none. */
static const key *pick_kept(world *wd) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    int key_ids[NAMES_MAX], n = key_id_all(caller->key_id, key_ids);
    if (!caller->keeper || !caller->is_holder) continue;
    return store_find(&wd->store, key_ids[rng_between(&wd->dice, 0, n - 1)],
                      caller->lease);
  }
  return NULL;
}

void trouble_strike_last(world *wd) {
  int *chance = &wd->faults.chance[FAULT_SWALLOWED], was = *chance;
  const key *kept = pick_kept(wd);
  if (wd->faults.calm) return;
  *chance = 1000;
  take_key(wd, kept != NULL ? kept : pick_key(wd));
  *chance = was;
}

/* Draws a lease for user data: a live lease other than |but|, or 0 for none. */
static int64_t pick_lease(world *wd, int64_t but) {
  store *st = &wd->store;
  int64_t id = rng_between(&wd->dice, 1, st->n_leases);
  return id != but && store_find_lease(st, id)->alive ? id : 0;
}

static void overwrite_key(world *wd, const world_event *ev) {
  const key *it = pick_key(wd);
  (void)ev;
  if (wd->calm_from_ms != 0 || it == NULL) return;
  world_count(wd, FAULT_ADMIN_WRITE);
  world_trace(wd, "admin overwrites n%d/%d", it->key_id, (int)it->owner);
  store_mark_sabotaged(&wd->store, it->key_id, it->owner, wd->now_ms);
  store_put(&wd->store, it->key_id, it->owner, pick_lease(wd, it->owner));
}

static void revoke_lease(world *wd, const world_event *ev) {
  const key *it = pick_key(wd);
  lease *ls = it != NULL ? store_find_lease(&wd->store, it->owner) : NULL;
  (void)ev;
  if (wd->calm_from_ms != 0 || ls == NULL || !ls->alive) return;
  world_count(wd, FAULT_ADMIN_REVOKE);
  world_trace(wd, "admin revokes lease %d", (int)it->owner);
  ls->sabotaged = true;
  for (int i = 0; i < wd->store.n_keys; i++) {
    const key *of = &wd->store.keys[i];
    if (of->owner != it->owner) continue;
    store_mark_sabotaged(&wd->store, of->key_id, of->owner, wd->now_ms);
  }
  store_revoke(&wd->store, it->owner);
}

void trouble_clean_up(world *wd) {
  for (int i = 0; i < wd->store.n_keys; i++) {
    const key *it = &wd->store.keys[i];
    if (key_is_detached(it) && !key_is_data(it)) {
      store_mark_sabotaged(&wd->store, it->key_id, it->owner, wd->now_ms);
      store_delete(&wd->store, it->key_id, it->owner);
    }
  }
}

/* Puts or deletes a key of another lock whose name begins with "name/". Such a key blocks
 * nothing. */
static void meddle_nested(world *wd, const world_event *ev) {
  int name = (int)rng_between(&wd->dice, 0, wd->n_names - 1);
  int key_id = key_id_make(name, EL_MODE_LOCK, 0);
  int64_t which = -rng_between(&wd->dice, 0, NESTED_MAX - 1);
  (void)ev;
  if (!store_delete(&wd->store, key_id, which)) {
    store_put(&wd->store, key_id, which, 0);
  }
}

/* Draws a key_id of the queue of |name|, whose form user data is to have. */
static int pick_data(world *wd, int name) {
  static const el_mode modes[] = {EL_MODE_LOCK, EL_MODE_READ, EL_MODE_WRITE,
                                  EL_MODE_PERMIT, EL_MODE_MULTI};
  el_mode mode = modes[rng_between(&wd->dice, 0, 4)];
  int slot = (int)rng_between(&wd->dice, 1, 2);
  switch (mode) {
    case EL_MODE_PERMIT:
      return key_id_permit(name, slot, PERMITS + slot - 1);
    case EL_MODE_READ:
    case EL_MODE_MULTI:
      return key_id_make(name, mode, slot);
    default:
      return key_id_make(name, mode, 0);
  }
}

/* Puts, overwrites or deletes user data that has the form of an entry. It blocks nothing. */
static void meddle_data(world *wd, const world_event *ev) {
  int name = (int)rng_between(&wd->dice, 0, wd->n_names - 1);
  int key_id = pick_data(wd, name);
  int64_t owner = rng_between(&wd->dice, 1, DATA_LEASES);
  (void)ev;
  if (!rng_chance(&wd->dice, 300) || !store_delete(&wd->store, key_id, owner)) {
    wd->figures->data_puts++;
    store_put(&wd->store, key_id, owner, pick_lease(wd, owner));
  }
}

/* ---- the plan ---- */

static const struct {
  fault what;
  event_run run;
  bool at_peer;
} troubles[] = {
    {FAULT_PARTITION, partition, false},
    {FAULT_ELECTION, elect, false},
    {FAULT_DEPOSED, depose, false},
    {FAULT_LAGGING, lag, false},
    {FAULT_RESTART, restart, false},
    {FAULT_STOP, stop, false},
    {FAULT_CRASH, crash, false},
    {FAULT_CLOSE, close_peer, true},
    {FAULT_ADMIN_DELETE, delete_key, false},
    {FAULT_ADMIN_WRITE, overwrite_key, false},
    {FAULT_ADMIN_REVOKE, revoke_lease, false},
};

/* Schedules |run| |times| times until |end_ms|, in 4 of 10 histories. */
static void plan_often(world *wd, int64_t end_ms, int times, event_run run) {
  if (!rng_chance(&wd->dice, 400)) return;
  for (int i = 0; i < times; i++) {
    world_post(wd, rng_between(&wd->dice, wd->now_ms, end_ms), NONE, run);
  }
}

void trouble_plan(world *wd, int64_t end_ms) {
  int n = (int)(sizeof troubles / sizeof troubles[0]);
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < wd->faults.times[troubles[i].what]; k++) {
      int peer = troubles[i].at_peer ? pick_peer(wd) : NONE;
      world_post(wd, rng_between(&wd->dice, wd->now_ms, end_ms), peer,
                 troubles[i].run);
    }
  }
  plan_often(wd, end_ms, 6, meddle_nested);
  plan_often(wd, end_ms, 20, meddle_data);
}
