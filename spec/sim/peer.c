/* sim peer: one client process, which drives the state machines of src/protocol as src/lock
 * does. */
#include "peer.h"

#include <string.h>

#include "caller.h"
#include "checks.h"
#include "clock.h"

void peer_init(sim_peer *pr, int id) {
  memset(pr, 0, offsetof(sim_peer, sessions));
  pr->id = id;
  pr->session = NONE;
  el_local_queue_init(&pr->left_over, EL_MODE_LOCK, 0);
  pr->actions.n = 0;
  stream_init(&pr->stream);
}

bool peer_is_quiet(const sim_peer *pr) {
  for (int i = 0; i < pr->n_queues; i++) {
    const peer_queue *queue = &pr->queues[i];
    if (queue->used && !TAILQ_EMPTY(&queue->core.waiting)) return false;
  }
  for (int i = 0; i < pr->n_entries; i++) {
    const peer_entry *at = &pr->entries[i];
    if (at->used && !el_entry_is_finished(&at->core)) return false;
  }
  return true;
}

/* ---- timers ---- */

static void keep_earliest(int64_t *first_ms, int64_t at_ms) {
  if (at_ms != 0 && (*first_ms == 0 || at_ms < *first_ms)) *first_ms = at_ms;
}

static int64_t next_wake(const sim_peer *pr) {
  int64_t first_ms = 0;
  for (int i = 0; i < pr->n_sessions; i++) {
    if (pr->sessions[i].used) {
      keep_earliest(&first_ms, pr->sessions[i].core.wake_at);
    }
  }
  for (int i = 0; i < pr->n_entries; i++) {
    if (pr->entries[i].used) {
      keep_earliest(&first_ms, pr->entries[i].core.wake_at);
      keep_earliest(&first_ms, pr->entries[i].wake_ms);
    }
  }
  return first_ms;
}

static bool is_due(const world *wd, const sim_peer *pr, int64_t wake_at) {
  return wake_at != 0 && wake_at <= clock_now(wd, pr->id);
}

static void tell_time(world *wd, sim_peer *pr, peer_entry *at) {
  el_local_event event = {.kind = EL_LOCAL_ON_TIMER};
  at->wake_ms = 0;
  queue_step_entry(wd, pr, at, &event);
}

static void tick(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  el_session_event timer = {.kind = EL_SESSION_ON_TIMER};
  if (ev->generation != (uint32_t)pr->tick_ms)
    return; /* another tick has replaced this one */
  pr->tick_ms = 0;
  for (int i = 0; i < pr->n_sessions; i++) {
    if (pr->sessions[i].used && is_due(wd, pr, pr->sessions[i].core.wake_at)) {
      session_step(wd, pr, i, &timer);
    }
  }
  for (int i = 0; i < pr->n_entries; i++) {
    if (pr->entries[i].used && is_due(wd, pr, pr->entries[i].core.wake_at)) {
      entry_step_simple(wd, pr, i, EL_ENTRY_ON_TIMER);
    }
    if (pr->entries[i].used && is_due(wd, pr, pr->entries[i].wake_ms)) {
      tell_time(wd, pr, &pr->entries[i]);
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
  world_post(wd, wake_ms, pr->id, tick)->generation = (uint32_t)pr->tick_ms;
}

/* ---- settle: what follows from an event ---- */

static void end_lost_holds(world *wd, sim_peer *pr, int session) {
  pr->sessions[session].expired = false;
  for (int i = 0; i < pr->n_entries; i++) {
    const peer_entry *at = &pr->entries[i];
    if (at->used && at->session == session && at->core.state == EL_ENTRY_HELD) {
      entry_step_simple(wd, pr, i, EL_ENTRY_ON_EXPIRED);
    }
  }
}

static void end_entry(world *wd, sim_peer *pr, int entry, int session) {
  el_entry_event dead = {.kind = EL_ENTRY_ON_SESSION_ENDED,
                         .session_end = pr->sessions[session].core.end};
  const el_renewal *last = &pr->sessions[session].core.latest;
  peer_entry *at = &pr->entries[entry];
  at->in_lock_delay = at->core.state == EL_ENTRY_LOCK_DELAY;
  at->ended_early =
      dead.session_end != EL_SESSION_END_CLOSED &&
      dead.session_end != EL_SESSION_END_LEFT_TO_EXPIRE &&
      clock_now(wd, pr->id) < last->sent_ms + last->ttl_ms + pr->lock_delay_ms;
  entry_step(wd, pr, entry, &dead);
  if (at->queue != NONE && !wd->failed) entry_leave_over(pr, entry);
}

/* Ends the entries of |queue| in reverse order of their start. The acquisitions of each entry wait
 * again, at the head of the queue; because of the reverse order they keep their order. */
static void end_entries(world *wd, sim_peer *pr, int queue, int session) {
  struct el_local_entry_list *entries = &pr->queues[queue].core.entries;
  while (!TAILQ_EMPTY(entries) && !wd->failed) {
    el_local_entry *last = TAILQ_LAST(entries, el_local_entry_list);
    end_entry(wd, pr, (int)(entry_of_local(last) - pr->entries), session);
  }
}

static void retire(world *wd, sim_peer *pr, int session) {
  pr->sessions[session].gone = false;
  if (pr->session == session) {
    for (int i = 0; i < pr->n_queues; i++) {
      if (pr->queues[i].used) end_entries(wd, pr, i, session);
    }
    pr->session = NONE;
    queues_change(pr);
  }
}

/* Lets all waits for a lease fail, because etcd grants none. */
static void refuse(world *wd, sim_peer *pr, int session) {
  pr->sessions[session].refused = false;
  for (int i = 0; i < pr->n_queues; i++) {
    el_local_event event = {.kind = EL_LOCAL_ON_LEASE_REFUSED};
    if (pr->queues[i].used) queue_step(wd, pr, i, &event);
  }
  checks_after_refusal(wd, pr);
}

static bool settle_session(world *wd, sim_peer *pr, int session) {
  peer_session *ses = &pr->sessions[session];
  bool changed = ses->expired || ses->gone || ses->refused;
  if (ses->expired) end_lost_holds(wd, pr, session);
  if (ses->gone) retire(wd, pr, session);
  if (ses->refused) refuse(wd, pr, session);
  return changed;
}

static bool settle_proofs(world *wd, sim_peer *pr) {
  bool changed = false;
  for (int i = 0; i < pr->n_entries; i++) {
    peer_entry *at = &pr->entries[i];
    const el_session *core = &pr->sessions[at->session].core;
    bool is_proven;
    if (at->used && at->core.state == EL_ENTRY_CONFIRMING &&
        core->latest.sent_ms >= at->core.confirm_ms) {
      entry_step_simple(wd, pr, i, EL_ENTRY_ON_LEASE_CONFIRMED);
      changed = true;
    }
    if (!at->used || at->core.state != EL_ENTRY_PROVING) continue;
    is_proven = el_session_is_proven(core, clock_now(wd, pr->id));
    if (!is_proven && !at->core.is_fresh)
      continue; /* the entry already knows that */
    entry_step_simple(wd, pr, i,
                      is_proven ? EL_ENTRY_ON_LEASE_PROVEN
                                : EL_ENTRY_ON_LEASE_UNPROVEN);
    changed = true;
  }
  return changed;
}

static bool settle_holds(world *wd, sim_peer *pr, int session) {
  el_session_event holds = {.kind = EL_SESSION_ON_HOLDS_CHANGED};
  holds.holds = session_count_holds(pr, session);
  if (holds.holds == pr->sessions[session].holds) return false;
  pr->sessions[session].holds = holds.holds;
  session_step(wd, pr, session, &holds);
  return true;
}

static bool end_unused(world *wd, sim_peer *pr) {
  el_session_event unused = {.kind = EL_SESSION_ON_UNUSED};
  const el_session *core;
  if (pr->session == NONE || !peer_is_quiet(pr)) return false;
  core = &pr->sessions[pr->session].core;
  if (core->state != EL_SESSION_ALIVE || !core->has_put_in_doubt) return false;
  session_step(wd, pr, pr->session, &unused);
  return core->state != EL_SESSION_ALIVE;
}

/* Tells whether |at| must be kept: it is in use, or an acquisition waits in its local queue. */
static bool is_of_use(const sim_peer *pr, const peer_entry *at) {
  return !el_local_entry_is_idle(&at->local) ||
         (at->queue != NONE &&
          !TAILQ_EMPTY(&pr->queues[at->queue].core.waiting));
}

/* Tells whether the caller of the multi-lock of |gone| still waits for it. */
static bool is_awaited(const world *wd, const peer_entry *gone) {
  const sim_caller *caller = &wd->callers[key_id_caller(gone->key_id)];
  return caller->key_id == gone->key_id && caller->state == CALLER_WAITING;
}

/* Tells whether the slot of |gone|, an entry that was freed, may be used again. As in src/lock, it
 * may be used if |gone| was the last entry with this key and none of these entries had a request of
 * unknown outcome. */
static bool may_repeat(const world *wd, sim_peer *pr, const peer_entry *gone) {
  bool is_certain =
      el_entry_is_definite(&gone->core) && !gone->has_twin_in_doubt;
  bool is_last = true;
  if (!key_id_is_multi(gone->key_id) || key_id_name(gone->key_id) != SEVERAL) {
    return false;
  }
  for (int i = 0; i < pr->n_entries; i++) {
    peer_entry *at = &pr->entries[i];
    if (!at->used || at->key_id != gone->key_id) continue;
    is_last = false;
    at->has_twin_in_doubt |= !is_certain;
  }
  return is_last && is_certain && !is_awaited(wd, gone);
}

static void forget(sim_peer *pr, peer_entry *at) {
  el_local_queue_remove(at->queue != NONE ? &pr->queues[at->queue].core
                                          : &pr->left_over,
                        &at->local);
  at->used = false;
  at->n_watches = 0;
  at->query_call = at->contenders_call = 0;
}

static void forget_entries(world *wd, sim_peer *pr) {
  bool some = false;
  for (int i = 0; i < pr->n_entries; i++) {
    peer_entry *at = &pr->entries[i];
    if (!at->used || is_of_use(pr, at)) continue;
    checks_on_forgotten(wd, pr, at);
    forget(pr, at);
    if (may_repeat(wd, pr, at)) caller_may_repeat(wd, at->key_id);
    some = true;
  }
  queues_forget(pr);
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
    changed |= settle_proofs(wd, pr);
    for (int i = 0; i < pr->n_queues; i++) {
      changed |= queue_settle(wd, pr, i);
    }
    for (int i = 0; i < pr->n_sessions; i++) {
      if (pr->sessions[i].used) changed |= settle_holds(wd, pr, i);
    }
    changed |= end_unused(wd, pr);
  }
  if (wd->failed) return;
  forget_entries(wd, pr);
  arm(wd, pr);
  checks_after_peer(wd, pr);
}

/* ---- for its callers ---- */

/* Ends the linger of keys that conflict with |queue|. */
static void contend(world *wd, sim_peer *pr, int queue) {
  for (int i = 0; i < pr->n_queues; i++) {
    el_local_event event = {.kind = EL_LOCAL_ON_CONTENDER};
    if (queue_is_beside(pr, queue, i)) queue_step(wd, pr, i, &event);
  }
}

void peer_join(world *wd, int id, int caller_id) {
  sim_peer *pr = &wd->peers[id];
  sim_caller *caller = &wd->callers[caller_id];
  el_local_event join = {.kind = EL_LOCAL_ON_JOIN,
                         .acquisition =
                             &caller->acquisitions[caller->acquisition].core};
  int queue = queue_get(pr, key_id_queue(caller->key_id));
  caller->acquisitions[caller->acquisition].queue = queue;
  contend(wd, pr, queue);
  queue_step(wd, pr, queue, &join);
  peer_settle(wd, pr);
}

/* Applies |event|, with the caller's latest acquisition, to the local queue of this acquisition. */
static void step_owner(world *wd, int id, int caller_id,
                       el_local_event *event) {
  sim_peer *pr = &wd->peers[id];
  sim_caller *caller = &wd->callers[caller_id];
  event->acquisition = &caller->acquisitions[caller->acquisition].core;
  queue_step(wd, pr, caller->acquisitions[caller->acquisition].queue, event);
  peer_settle(wd, pr);
}

void peer_leave(world *wd, int id, int caller_id, el_leave how, el_loss loss) {
  sim_caller *caller = &wd->callers[caller_id];
  peer_entry *at = peer_entry_of(caller);
  el_local_event leave = {.kind = EL_LOCAL_ON_LEAVE,
                          .how = how,
                          .loss = loss,
                          .err = &caller_gave_up};
  if (at != NULL) leave.mod_rev = writes_end(at, caller_id);
  step_owner(wd, id, caller_id, &leave);
}

void peer_max_hold(world *wd, int id, int caller_id) {
  el_local_event event = {.kind = EL_LOCAL_ON_MAX_HOLD};
  step_owner(wd, id, caller_id, &event);
}

void peer_downgrade(world *wd, int id, int caller_id) {
  el_local_event event = {.kind = EL_LOCAL_ON_DOWNGRADED};
  step_owner(wd, id, caller_id, &event);
  peer_write(wd, id, caller_id, WRITE_DOWNGRADE);
}

static void step_all(world *wd, sim_peer *pr, const el_local_event *event) {
  for (int i = 0; i < pr->n_queues; i++) {
    el_local_event it = *event;
    if (pr->queues[i].used) queue_step(wd, pr, i, &it);
  }
}

void peer_fail_waiting(world *wd, int id) {
  el_local_event event = {.kind = EL_LOCAL_ON_UNREACHABLE,
                          .err = &caller_refused};
  step_all(wd, &wd->peers[id], &event);
  checks_after_fail_waiting(wd, &wd->peers[id]);
  peer_settle(wd, &wd->peers[id]);
}

void peer_close(world *wd, int id) {
  sim_peer *pr = &wd->peers[id];
  el_session_event close = {.kind = EL_SESSION_ON_CLOSE};
  el_local_event end = {
      .kind = EL_LOCAL_ON_CLOSE, .loss = EL_LOSS_CLOSED, .err = &caller_closed};
  if (pr->closed) return;
  pr->closed = true;
  step_all(wd, pr, &end);
  for (int i = 0; i < wd->n_callers; i++) {
    if (wd->callers[i].peer == id) caller_on_closed(wd, i);
  }
  if (pr->session != NONE) session_step(wd, pr, pr->session, &close);
  peer_settle(wd, pr);
}
