/* sim checks: the invariants of every history. */
#include "checks.h"

#include <inttypes.h>

#include "caller.h"
#include "clock.h"
#include "queue.h"

enum {
  MARGIN_MS =
      /* the promised time from the hold deadline to the end of the lease: 200 ms, less rounding */
  198,
  STORM = 20 /* the most keepalives of one session in a second; 2 are usual */
};

void checks_on_change(world *wd, const change *what) {
  world_trace(wd, "store: rev %" PRId64 " n%d/%" PRId64 " %s", what->rev,
              what->after.key_id, what->after.owner,
              what->after.create_rev == 0 ? "deleted" : "put");
  if (!key_is_nested(&what->before)) queue_record(wd, what);
  checks_on_marker(wd, what);
  checks_on_put(wd, what);
  checks_keys_behind(wd, what);
  checks_seen_others(wd);
}

/* ---- requests ---- */

static bool is_of(const peer_entry *at, const call *what) {
  return at->used && at->key_id == what->key_id &&
         at->core.lease == what->lease;
}

bool checks_is_by(const sim_peer *pr, const sim_caller *caller,
                  const peer_entry *at) {
  return caller->is_holder && caller->peer == pr->id &&
         caller->entry == (int)(at - pr->entries);
}

/* Tells whether |caller| holds by the key |key_id| that |what| deletes. */
static bool is_its_key(const world *wd, const call *what,
                       const sim_caller *caller, int key_id) {
  return wd->now_ms < caller->hold_deadline_ms &&
         what->ask.guard_rev == caller->token &&
         caller->token == store_create_rev(&wd->store, key_id, what->lease);
}

void checks_before_apply(world *wd, const call *what) {
  const sim_peer *pr = &wd->peers[what->peer];
  const peer_entry *at = &pr->entries[what->entry];
  int key_ids[NAMES_MAX], n = key_id_all(what->key_id, key_ids);
  if (what->kind != CALL_ENTRY || what->ask.request != EL_REQUEST_DELETE ||
      !is_of(at, what)) {
    return;
  }
  for (int i = 0; i < n * wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i / n];
    if (checks_is_by(pr, caller, at) &&
        is_its_key(wd, what, caller, key_ids[i % n])) {
      world_violate(wd, "I7 safe delete",
                    "p%d deletes the key that caller %d holds", pr->id,
                    caller->id);
    }
  }
}

static void check_stray_key(world *wd, const sim_peer *pr,
                            const peer_entry *at) {
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  if (at->core.state != EL_ENTRY_IDLE || at->core.is_wanted ||
      pr->sessions[at->session].core.state != EL_SESSION_ALIVE) {
    return;
  }
  for (int i = 0; i < n; i++) {
    if (store_create_rev(&wd->store, key_ids[i], at->core.lease) == 0) continue;
    world_violate(wd, "I4 no stray key",
                  "p%d is idle at n%d, but its key exists (lease %" PRId64 ")",
                  pr->id, key_ids[i], at->core.lease);
  }
}

/* Checks that a session that has left its lease to expire has no key of |at|, once |at| is
 * finished. */
static void check_left(world *wd, const sim_peer *pr, const peer_entry *at) {
  const el_session *ses = &pr->sessions[at->session].core;
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  if (ses->state != EL_SESSION_ENDED ||
      ses->end != EL_SESSION_END_LEFT_TO_EXPIRE || at->in_lock_delay ||
      ses->has_put_in_doubt || !el_entry_is_definite(&at->core) ||
      !el_entry_is_finished(&at->core)) {
    return;
  }
  for (int i = 0; i < n; i++) {
    if (store_create_rev(&wd->store, key_ids[i], at->core.lease) == 0) continue;
    world_violate(wd, "I13 lock delay",
                  "p%d was closed, but the key n%d is left on lease %" PRId64,
                  pr->id, key_ids[i], at->core.lease);
  }
}

/* Checks for a stray key, unless a put of the session has an unknown outcome. */
static void check_unexpected(world *wd, const sim_peer *pr,
                             const peer_entry *at) {
  if (!pr->sessions[at->session].core.has_put_in_doubt)
    check_stray_key(wd, pr, at);
}

void checks_after_apply(world *wd, const call *what) {
  const sim_peer *pr = &wd->peers[what->peer];
  static const char *const kinds[] = {"entry",      "read key",  "grant",
                                      "revoke",     "keepalive", "audit",
                                      "contention", "write",     "touch"};
  static const char *const asks[] = {"", " try", " enqueue", " read",
                                     " delete"};
  world_trace(wd, "store: p%d lease %" PRId64 " %s%s%s", what->peer,
              what->lease, kinds[what->kind],
              what->kind == CALL_ENTRY ? asks[what->ask.request] : "",
              what->mute ? " (nobody is told)" : "");
  checks_all_or_none(wd, what);
  if (what->kind == CALL_ENTRY && !wd->faults.peers[pr->id].crashed) {
    checks_all_known(wd, pr);
  }
}

/* ---- progress ---- */

void checks_after_session(world *wd, const sim_peer *pr, int session) {
  const peer_session *ses = &pr->sessions[session];
  const el_session *core = &ses->core;
  bool is_waiting = ses->grant_call != 0 || ses->revoke_call != 0;
  bool is_busy =
      core->state == EL_SESSION_GRANTING || core->state == EL_SESSION_REVOKING;
  if ((core->state == EL_SESSION_ALIVE && core->wake_at == 0) ||
      (core->state == EL_SESSION_ALIVE && core->has_put_in_doubt &&
       ses->audit_call == 0 && core->audit_at == 0) ||
      (is_busy && !is_waiting && core->wake_at == 0)) {
    world_violate(wd, "I5 progress",
                  "p%d: a session in state %s makes no progress", pr->id,
                  el_session_state_str[core->state]);
  }
  if (ses->gone && core->end == EL_SESSION_END_LEFT_TO_EXPIRE) {
    checks_lease_left(wd, pr, core);
  }
  if (ses->keepalives > STORM) {
    world_violate(wd, "I5 progress", "p%d sends %d keepalives in a second",
                  pr->id, (int)ses->keepalives);
  }
  if ((ses->expired || (ses->gone && core->end != EL_SESSION_END_CLOSED)) &&
      wd->quiet_from_ms != 0 && wd->now_ms > wd->quiet_from_ms && !pr->closed) {
    world_violate(wd, "I5 progress", "p%d loses its session without faults",
                  pr->id);
  }
}

void checks_after_entry(world *wd, const sim_peer *pr, const peer_entry *at) {
  const el_entry *core = &at->core;
  bool rests = core->state == EL_ENTRY_IDLE || core->state == EL_ENTRY_HELD ||
               core->state == EL_ENTRY_PROVING || core->state == EL_ENTRY_ENDED;
  bool waits = rests || core->state == EL_ENTRY_CONFIRMING;
  check_unexpected(wd, pr, at);
  check_left(wd, pr, at);
  if (rests && at->is_release_awaited) {
    world_violate(wd, "I8 one true result",
                  "p%d gets no result of its release of n%d", pr->id,
                  at->key_id);
  }
  if (!waits && core->in_flight == EL_REQUEST_NONE && core->wake_at == 0) {
    world_violate(wd, "I5 progress",
                  "p%d: an entry in state %s makes no progress", pr->id,
                  el_entry_state_str[core->state]);
  }
}

/* ---- holders ---- */

static bool is_sabotaged(const world *wd, const sim_caller *caller) {
  int key_ids[NAMES_MAX], n = key_id_all(caller->key_id, key_ids);
  for (int i = 0; i < n; i++) {
    if (store_is_sabotaged(&wd->store, key_ids[i], caller->lease,
                           caller->token)) {
      return true;
    }
  }
  return false;
}

static void check_overlap(world *wd, const sim_caller *a, const sim_caller *b) {
  int64_t end_ms = a->hold_deadline_ms < b->hold_deadline_ms
                       ? a->hold_deadline_ms
                       : b->hold_deadline_ms;
  int64_t overlap_ms = end_ms - wd->now_ms;
  if (is_sabotaged(wd, a) || is_sabotaged(wd, b)) {
    figures_record_max(&wd->figures->sabotaged_overlap_ms, overlap_ms);
    return;
  }
  figures_record_max(&wd->figures->overlap_ms, overlap_ms);
  world_violate(wd, "I1 mutual exclusion",
                "callers %d of p%d and %d of p%d hold n%d for %" PRId64
                " ms at the same time",
                a->id, a->peer, b->id, b->peer, a->key_id, overlap_ms);
}

static bool is_valid(const world *wd, const sim_caller *caller) {
  return caller->is_holder && wd->now_ms < caller->hold_deadline_ms;
}

static bool is_permit(const sim_caller *caller) {
  return key_id_mode(caller->key_id) == EL_MODE_PERMIT;
}

/* Tells whether both callers hold and their holds exclude each other. Two permits count as
 * excluding each other: check_permits counts them. */
static bool is_rival(const world *wd, const sim_caller *other,
                     const sim_caller *caller) {
  return other != caller && key_id_is_beside(other->key_id, caller->key_id) &&
         is_valid(wd, other) && is_valid(wd, caller) &&
         queue_excludes(other->mode, caller->mode);
}

/* Checks that no more callers hold permits of a semaphore than the largest number that one of them
 * names. */
static void check_permits(world *wd, const sim_caller *caller) {
  const sim_caller *last = NULL;
  int holders = 1, most = key_id_permits(caller->key_id);
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *other = &wd->callers[i];
    int permits = key_id_permits(other->key_id);
    if (!is_rival(wd, other, caller) || is_sabotaged(wd, other)) continue;
    last = other;
    holders++;
    if (permits > most) most = permits;
  }
  if (holders > most) check_overlap(wd, caller, last);
}

/* Records the hold deadline that the session gives the caller, and checks that no rival holds,
 * too. */
static void record_hold_deadline(world *wd, const sim_peer *pr,
                                 const peer_entry *at, sim_caller *caller) {
  int64_t until_ms =
      clock_when(wd, pr->id, pr->sessions[at->session].core.hold_deadline);
  if (wd->now_ms >= caller->hold_deadline_ms && until_ms > wd->now_ms) {
    world_violate(wd, "I6 a loss is final",
                  "caller %d of p%d holds again after its hold deadline",
                  caller->id, pr->id);
  }
  caller->hold_deadline_ms = until_ms;
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *other = &wd->callers[i];
    if (is_rival(wd, other, caller) && !is_permit(caller)) {
      check_overlap(wd, caller, other);
    }
  }
  if (is_permit(caller)) check_permits(wd, caller);
}

/* Returns the promised margin in ms. If the clock of |peer| runs slower than the store's clock, the
 * margin is smaller by this error. */
static int64_t promised_margin(const world *wd, int peer) {
  int64_t slower = -wd->faults.peers[peer].clock_ppm;
  int64_t left_ms = MARGIN_MS - wd->ttl_ms * slower / 1000000;
  return slower <= 0 ? MARGIN_MS : left_ms > 0 ? left_ms : 0;
}

static void check_margin(world *wd, const sim_peer *pr,
                         const peer_session *ses) {
  const lease *ls = store_find_lease(&wd->store, ses->core.id);
  int64_t margin_ms;
  if (!el_session_is_proven(&ses->core, clock_now(wd, pr->id)) ||
      ls->sabotaged) {
    return;
  }
  margin_ms = ls->expires_at - pr->lock_delay_ms -
              clock_when(wd, pr->id, ses->core.hold_deadline);
  if (ses->holds > 0) figures_record_margin(wd->figures, margin_ms);
  if (!ls->alive || margin_ms < promised_margin(wd, pr->id)) {
    world_violate(wd, "I1 mutual exclusion",
                  "p%d has a hold deadline of %" PRId64
                  " ms before the lock delay of lease %" PRId64 " %s",
                  pr->id, margin_ms, ses->core.id,
                  ls->alive ? "begins" : "ended");
  }
}

void checks_after_peer(world *wd, sim_peer *pr) {
  for (int i = 0; i < pr->n_sessions; i++) {
    if (pr->sessions[i].used) check_margin(wd, pr, &pr->sessions[i]);
  }
  for (int i = 0; i < wd->n_callers; i++) {
    sim_caller *caller = &wd->callers[i];
    if (caller->is_holder && caller->peer == pr->id) {
      record_hold_deadline(wd, pr, &pr->entries[caller->entry], caller);
    }
  }
  checks_local_queues(wd, pr);
  checks_unwanted_keys(wd, pr);
}

/* ---- the end ---- */

static bool is_running(const world *wd, int peer) {
  return !wd->faults.peers[peer].crashed;
}

static bool is_idle(const world *wd) {
  for (int i = 0; i < wd->n_callers; i++) {
    if (is_running(wd, wd->callers[i].peer) &&
        (wd->callers[i].state != CALLER_DONE ||
         !caller_is_over(&wd->callers[i]))) {
      return false;
    }
  }
  for (int i = 0; i < wd->n_peers; i++) {
    const sim_peer *pr = &wd->peers[i];
    if (is_running(wd, i) && !peer_is_quiet(pr)) return false;
    if (pr->closed && is_running(wd, i) && pr->session != NONE) return false;
  }
  return true;
}

static const key *find_left(const world *wd) {
  for (int i = 0; i < wd->store.n_keys; i++) {
    const key *it = &wd->store.keys[i];
    if (it->create_rev != 0 && !key_is_nested(it) && !key_is_data(it)) {
      return it;
    }
  }
  return NULL;
}

bool checks_is_clean(world *wd) { return is_idle(wd) && find_left(wd) == NULL; }

void checks_report_unfinished(world *wd) {
  const key *left = find_left(wd);
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (is_running(wd, caller->peer) && caller->state != CALLER_DONE) {
      world_violate(wd, "I5 progress", "caller %d of p%d waits for ever", i,
                    caller->peer);
    }
    if (is_running(wd, caller->peer) && !caller_is_over(caller)) {
      world_violate(wd, "I8 one true result",
                    "caller %d of p%d never gets the result of its release", i,
                    caller->peer);
    }
  }
  if (left != NULL) {
    world_violate(wd, "I4 no stray key", "the key n%d/%" PRId64 " still exists",
                  left->key_id, left->owner);
  }
  world_violate(wd, "I5 progress", "an entry is still busy");
}
