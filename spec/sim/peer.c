/* sim peer: one process that locks, driven as the real driver does it. */
#include "peer.h"

#include <string.h>

#include "caller.h"
#include "checks.h"
#include "clock.h"

void peer_init(sim_peer *pr, int id) {
  memset(pr, 0, offsetof(sim_peer, sessions));
  pr->id = id;
  pr->delay_ms = 0;
  pr->session = NOBODY;
  pr->n_sessions = pr->n_entries = 0;
  memset(pr->lines, 0, sizeof pr->lines);
  pr->n_in_lines = 0;
  pr->tick_ms = 0;
  stream_init(&pr->stream);
}

bool peer_is_quiet(const sim_peer *pr) {
  if (pr->n_in_lines > 0) return false;
  for (int i = 0; i < pr->n_entries; i++) {
    const peer_entry *at = &pr->entries[i];
    if (at->used && !el_entry_is_over(&at->core)) return false;
  }
  return true;
}

/* ---- timers ---- */

static void note_earlier(int64_t *first_ms, int64_t at_ms) {
  if (at_ms != 0 && (*first_ms == 0 || at_ms < *first_ms)) *first_ms = at_ms;
}

static int64_t next_wake(const sim_peer *pr) {
  int64_t first_ms = 0;
  for (int i = 0; i < pr->n_sessions; i++) {
    if (pr->sessions[i].used) {
      note_earlier(&first_ms, pr->sessions[i].core.wake_at);
    }
  }
  for (int i = 0; i < pr->n_entries; i++) {
    if (pr->entries[i].used) {
      note_earlier(&first_ms, pr->entries[i].core.wake_at);
    }
  }
  return first_ms;
}

static bool is_due(const world *wd, const sim_peer *pr, int64_t wake_at) {
  return wake_at != 0 && wake_at <= clock_now(wd, pr->id);
}

static void tick(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  el_session_event timer = {.kind = EL_SESSION_TIMER};
  if (ev->turn != (uint32_t)pr->tick_ms) return; /* another came before */
  pr->tick_ms = 0;
  for (int i = 0; i < pr->n_sessions; i++) {
    if (pr->sessions[i].used && is_due(wd, pr, pr->sessions[i].core.wake_at)) {
      session_step(wd, pr, i, &timer);
    }
  }
  for (int i = 0; i < pr->n_entries; i++) {
    if (pr->entries[i].used && is_due(wd, pr, pr->entries[i].core.wake_at)) {
      entry_step_simple(wd, pr, i, EL_ENTRY_TIMER);
    }
  }
  peer_settle(wd, pr);
}

static void arm(world *wd, sim_peer *pr) {
  int64_t wake_ms = clock_when(wd, pr->id, next_wake(pr));
  if (wake_ms == 0 || (pr->tick_ms != 0 && pr->tick_ms <= wake_ms)) return;
  if (wake_ms < wd->now_ms) wake_ms = wd->now_ms;
  pr->tick_ms = wake_ms;
  wake_ms += rng_between(&wd->dice, 0, wd->faults.tick_late_ms);
  world_post(wd, wake_ms, pr->id, tick)->turn = (uint32_t)pr->tick_ms;
}

/* ---- settle: what follows from an event ---- */

static void spread_lapse(world *wd, sim_peer *pr, int session) {
  pr->sessions[session].lapsed = false;
  for (int i = 0; i < pr->n_entries; i++) {
    const peer_entry *at = &pr->entries[i];
    if (at->used && at->session == session && at->core.state == EL_ENTRY_HELD) {
      entry_step_simple(wd, pr, i, EL_ENTRY_LAPSED);
    }
  }
}

static void retire(world *wd, sim_peer *pr, int session) {
  el_entry_event dead = {.kind = EL_ENTRY_SESSION_DEAD,
                         .end = pr->sessions[session].core.end};
  const el_renewal *last = &pr->sessions[session].core.last;
  pr->sessions[session].gone = false;
  for (int i = 0; i < pr->n_entries; i++) {
    peer_entry *at = &pr->entries[i];
    if (at->used && at->session == session) {
      at->keeps_out = at->core.state == EL_ENTRY_DELAYING;
      at->cut_short =
          dead.end != EL_SESSION_CLOSED && dead.end != EL_SESSION_LEFT &&
          clock_now(wd, pr->id) < last->sent_ms + last->ttl_ms + pr->delay_ms;
      entry_step(wd, pr, i, &dead);
    }
  }
  if (pr->session == session) pr->session = NOBODY;
}

/* No lease is to be had: everybody who needs one is told. */
static void refuse_lines(world *wd, sim_peer *pr, int session) {
  pr->sessions[session].refused = false;
  for (int line = 0; line < LINES_MAX; line++) {
    caller_line *queue = &pr->lines[line];
    while (queue->n > 0 && !queue->driven) {
      int caller = queue->callers[0];
      line_leave(pr, line, caller);
      caller_on_failed(wd, caller, CALLER_REFUSED);
    }
  }
}

static bool settle_session(world *wd, sim_peer *pr, int session) {
  peer_session *ses = &pr->sessions[session];
  bool changed = ses->lapsed || ses->gone || ses->refused;
  if (ses->lapsed) spread_lapse(wd, pr, session);
  if (ses->gone) retire(wd, pr, session);
  if (ses->refused) refuse_lines(wd, pr, session);
  return changed;
}

static bool settle_claims(world *wd, sim_peer *pr) {
  bool changed = false;
  for (int i = 0; i < pr->n_entries; i++) {
    peer_entry *at = &pr->entries[i];
    const el_session *core = &pr->sessions[at->session].core;
    bool can_claim;
    if (at->used && at->core.state == EL_ENTRY_CONFIRMING &&
        core->last.sent_ms >= at->core.confirm_ms) {
      entry_step_simple(wd, pr, i, EL_ENTRY_RENEWED);
      changed = true;
    }
    if (!at->used || at->core.state != EL_ENTRY_PROVING) continue;
    can_claim = el_session_can_claim(core, clock_now(wd, pr->id));
    if (!can_claim && !at->core.fresh) continue; /* it knows */
    entry_step_simple(wd, pr, i,
                      can_claim ? EL_ENTRY_CLAIMED : EL_ENTRY_UNPROVEN);
    changed = true;
  }
  return changed;
}

/* The front of the line drives the entry as soon as that is free. */
static bool start_line(world *wd, sim_peer *pr, int line) {
  caller_line *queue = &pr->lines[line];
  int entry, kind;
  if (queue->n == 0 || queue->driven) return false;
  if (pr->session == NOBODY ||
      pr->sessions[pr->session].core.state != EL_SESSION_ALIVE) {
    session_want(wd, pr);
    return false;
  }
  entry = entry_get(pr, wd->callers[queue->callers[0]].key_id);
  if (!el_entry_is_free(&pr->entries[entry].core)) return false;
  pr->entries[entry].caller = queue->callers[0];
  queue->driven = true;
  kind =
      caller_is_trying(wd, queue->callers[0]) ? EL_ENTRY_TRY : EL_ENTRY_START;
  entry_step_simple(wd, pr, entry, kind);
  return true;
}

static bool settle_holds(world *wd, sim_peer *pr, int session) {
  el_session_event holds = {.kind = EL_SESSION_HOLDS};
  holds.holds = session_count_holds(pr, session);
  if (holds.holds == pr->sessions[session].holds) return false;
  pr->sessions[session].holds = holds.holds;
  session_step(wd, pr, session, &holds);
  return true;
}

static bool end_unused(world *wd, sim_peer *pr) {
  el_session_event unused = {.kind = EL_SESSION_UNUSED};
  const el_session *core;
  if (pr->session == NOBODY || !peer_is_quiet(pr)) return false;
  core = &pr->sessions[pr->session].core;
  if (core->state != EL_SESSION_ALIVE || !core->unsure) return false;
  session_step(wd, pr, pr->session, &unused);
  return core->state != EL_SESSION_ALIVE;
}

/* As the local queue frees its places: what somebody wants again stays, but several
 * names at once are wanted only once. */
static bool is_of_use(const peer_entry *at) {
  return at->core.state != EL_ENTRY_DEAD &&
         (!key_id_is_multi(at->key_id) || at->caller != NOBODY ||
          at->core.wanted);
}

/* Does somebody wait in its queue yet, whose session has ended? */
static bool is_awaited(const world *wd, const peer_entry *gone) {
  const sim_caller *who = &wd->callers[key_id_caller(gone->key_id)];
  return who->key_id == gone->key_id && who->state == CALLER_WAITING;
}

/* As the local queue gives the slot back of |gone|, which it has forgotten: with the last
 * of its places, and if all were certain. */
static bool may_repeat(const world *wd, sim_peer *pr, const peer_entry *gone) {
  bool is_certain = el_entry_is_certain(&gone->core) && !gone->has_unsure_twin;
  bool is_last = true;
  if (!key_id_is_multi(gone->key_id) || key_id_name(gone->key_id) != SEVERAL) {
    return false;
  }
  for (int i = 0; i < pr->n_entries; i++) {
    peer_entry *at = &pr->entries[i];
    if (!at->used || at->key_id != gone->key_id) continue;
    is_last = false;
    at->has_unsure_twin |= !is_certain;
  }
  return is_last && is_certain && !is_awaited(wd, gone);
}

static void forget_entries(world *wd, sim_peer *pr) {
  bool some = false;
  for (int i = 0; i < pr->n_entries; i++) {
    peer_entry *at = &pr->entries[i];
    if (!at->used || is_of_use(at) || !el_entry_is_over(&at->core)) continue;
    at->used = false;
    if (may_repeat(wd, pr, at)) caller_may_repeat(wd, at->key_id);
    at->n_watches = 0;
    some = true;
  }
  if (some) checks_all_known(wd, pr);
}

void peer_settle(world *wd, sim_peer *pr) {
  bool changed = true;
  for (int round = 0; changed && !wd->failed; round++) {
    changed = false;
    if (round > 100) world_violate(wd, "I5 progress", "settle never settles");
    for (int i = 0; i < pr->n_sessions; i++) {
      if (pr->sessions[i].used) changed |= settle_session(wd, pr, i);
    }
    changed |= settle_claims(wd, pr);
    for (int i = 0; i < wd->n_callers && pr->n_in_lines > 0; i++) {
      if (wd->callers[i].peer == pr->id) {
        changed |= start_line(wd, pr, key_id_line(wd->callers[i].key_id));
      }
    }
    for (int i = 0; i < pr->n_sessions; i++) {
      if (pr->sessions[i].used) changed |= settle_holds(wd, pr, i);
    }
    changed |= end_unused(wd, pr);
  }
  forget_entries(wd, pr);
  arm(wd, pr);
  checks_after_peer(wd, pr);
}

/* ---- for its callers ---- */

void line_leave(sim_peer *pr, int key_id, int caller) {
  caller_line *queue = &pr->lines[key_id_line(key_id)];
  int i = 0;
  while (i < queue->n && queue->callers[i] != caller) {
    i++;
  }
  if (i == queue->n) return;
  if (i == 0) queue->driven = false;
  queue->n--;
  pr->n_in_lines--;
  for (; i < queue->n; i++) {
    queue->callers[i] = queue->callers[i + 1];
  }
}

void peer_request(world *wd, int id, int caller) {
  sim_peer *pr = &wd->peers[id];
  caller_line *queue = &pr->lines[key_id_line(wd->callers[caller].key_id)];
  queue->callers[queue->n++] = caller;
  pr->n_in_lines++;
  peer_settle(wd, pr);
}

static void step_driven(world *wd, sim_peer *pr, peer_entry *at, int kind) {
  entry_step_simple(wd, pr, (int)(at - pr->entries), kind);
}

static void leave(world *wd, sim_peer *pr, int caller) {
  peer_entry *at = peer_find_driven(pr, caller);
  line_leave(pr, wd->callers[caller].key_id, caller);
  if (at == NULL || handoff_pass(wd, pr, at)) return;
  at->caller = NOBODY;
  step_driven(wd, pr, at, EL_ENTRY_STOP);
}

void peer_stop(world *wd, int id, int caller) {
  sim_peer *pr = &wd->peers[id];
  leave(wd, pr, caller);
  peer_settle(wd, pr);
}

static bool is_claim_over(const world *wd, sim_peer *pr, int caller) {
  const peer_entry *at = peer_find_driven(pr, caller);
  return at != NULL && !el_session_can_claim(&pr->sessions[at->session].core,
                                             clock_now(wd, pr->id));
}

void peer_notice_end(world *wd, int id, int caller) {
  sim_peer *pr = &wd->peers[id];
  if (!is_claim_over(wd, pr, caller)) return;
  step_driven(wd, pr, peer_find_driven(pr, caller), EL_ENTRY_LAPSED);
  peer_settle(wd, pr);
}

void peer_max_hold(world *wd, int id, int caller) {
  sim_peer *pr = &wd->peers[id];
  peer_entry *at = peer_find_driven(pr, caller);
  if (at == NULL) return;
  step_driven(wd, pr, at, EL_ENTRY_MAX_HOLD);
  peer_settle(wd, pr);
}

/* As the local queue closes: the entry is not told. */
static void drop(const world *wd, sim_peer *pr, int caller) {
  peer_entry *at = peer_find_driven(pr, caller);
  line_leave(pr, wd->callers[caller].key_id, caller);
  if (at != NULL) at->caller = NOBODY;
}

void peer_close(world *wd, int id) {
  sim_peer *pr = &wd->peers[id];
  el_session_event close = {.kind = EL_SESSION_CLOSE};
  if (pr->closed) return;
  pr->closed = true;
  for (int i = 0; i < wd->n_callers; i++) {
    if (wd->callers[i].peer == id) {
      caller_on_closed(wd, i, is_claim_over(wd, pr, i));
      drop(wd, pr, i);
    }
  }
  if (pr->session != NOBODY) session_step(wd, pr, pr->session, &close);
  peer_settle(wd, pr);
}
