/* sim peer: one process that locks, driven as the real driver does it. */
#include "peer.h"

#include <string.h>

#include "caller.h"
#include "checks.h"
#include "clock.h"

void peer_init(sim_peer *pr, int id) {
  memset(pr, 0, offsetof(sim_peer, sessions));
  pr->id = id;
  pr->session = NOBODY;
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
      note_earlier(&first_ms, pr->entries[i].wake_ms);
    }
  }
  return first_ms;
}

static bool is_due(const world *wd, const sim_peer *pr, int64_t wake_at) {
  return wake_at != 0 && wake_at <= clock_now(wd, pr->id);
}

static void tell_time(world *wd, sim_peer *pr, peer_entry *at) {
  el_local_event event = {.kind = EL_LOCAL_TIMER};
  at->wake_ms = 0;
  queue_step_entry(wd, pr, at, &event);
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

static void end_entry(world *wd, sim_peer *pr, int entry, int session) {
  el_entry_event dead = {.kind = EL_ENTRY_SESSION_DEAD,
                         .end = pr->sessions[session].core.end};
  const el_renewal *last = &pr->sessions[session].core.last;
  peer_entry *at = &pr->entries[entry];
  at->keeps_out = at->core.state == EL_ENTRY_LOCK_DELAY;
  at->cut_short =
      dead.end != EL_SESSION_CLOSED && dead.end != EL_SESSION_LEFT &&
      clock_now(wd, pr->id) < last->sent_ms + last->ttl_ms + pr->lock_delay_ms;
  entry_step(wd, pr, entry, &dead);
  if (at->queue != NOBODY && !wd->failed) entry_leave_over(pr, entry);
}

/* Those that were started last come first: their owners wait again, each before those
 * that do already. */
static void end_entries(world *wd, sim_peer *pr, int queue, int session) {
  struct el_local_place_list *places = &pr->queues[queue].core.places;
  while (!TAILQ_EMPTY(places) && !wd->failed) {
    el_local_place *last = TAILQ_LAST(places, el_local_place_list);
    end_entry(wd, pr, (int)(entry_of_place(last) - pr->entries), session);
  }
}

static void retire(world *wd, sim_peer *pr, int session) {
  pr->sessions[session].gone = false;
  if (pr->session == session) {
    for (int i = 0; i < pr->n_queues; i++) {
      if (pr->queues[i].used) end_entries(wd, pr, i, session);
    }
    pr->session = NOBODY;
    queues_change(pr);
  }
}

/* No lease is to be had: whoever needs one is told. */
static void refuse(world *wd, sim_peer *pr, int session) {
  pr->sessions[session].refused = false;
  for (int i = 0; i < pr->n_queues; i++) {
    el_local_event event = {.kind = EL_LOCAL_REFUSE, .err = &caller_refused};
    if (pr->queues[i].used) queue_step(wd, pr, i, &event);
  }
  checks_after_refusal(wd, pr);
}

static bool settle_session(world *wd, sim_peer *pr, int session) {
  peer_session *ses = &pr->sessions[session];
  bool changed = ses->lapsed || ses->gone || ses->refused;
  if (ses->lapsed) spread_lapse(wd, pr, session);
  if (ses->gone) retire(wd, pr, session);
  if (ses->refused) refuse(wd, pr, session);
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

/* One that has nothing left in etcd, and that no owner waits for. */
static bool is_of_use(const sim_peer *pr, const peer_entry *at) {
  return !el_local_place_is_idle(&at->place) ||
         (at->queue != NOBODY &&
          !TAILQ_EMPTY(&pr->queues[at->queue].core.waiting));
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

static void forget(sim_peer *pr, peer_entry *at) {
  el_local_queue_remove(at->queue != NOBODY ? &pr->queues[at->queue].core
                                            : &pr->left_over,
                        &at->place);
  at->used = false;
  at->n_watches = 0;
  at->look_call = at->contenders_call = 0;
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
    changed |= settle_claims(wd, pr);
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

/* What conflicts with what |queue| wants lingers no longer. */
static void contend(world *wd, sim_peer *pr, int queue) {
  for (int i = 0; i < pr->n_queues; i++) {
    el_local_event event = {.kind = EL_LOCAL_CONTENDER};
    if (queue_is_beside(pr, queue, i)) queue_step(wd, pr, i, &event);
  }
}

void peer_join(world *wd, int id, int caller) {
  sim_peer *pr = &wd->peers[id];
  sim_caller *who = &wd->callers[caller];
  el_local_event join = {.kind = EL_LOCAL_JOIN,
                         .owner = &who->owners[who->owner].core};
  int queue = queue_get(pr, key_id_queue(who->key_id));
  who->owners[who->owner].queue = queue;
  contend(wd, pr, queue);
  queue_step(wd, pr, queue, &join);
  peer_settle(wd, pr);
}

/* |event| of the caller's present owner, if its queue still has it. */
static void step_owner(world *wd, int id, int caller, el_local_event *event) {
  sim_peer *pr = &wd->peers[id];
  sim_caller *who = &wd->callers[caller];
  event->owner = &who->owners[who->owner].core;
  queue_step(wd, pr, who->owners[who->owner].queue, event);
  peer_settle(wd, pr);
}

void peer_leave(world *wd, int id, int caller, el_leave how, el_loss loss) {
  sim_caller *who = &wd->callers[caller];
  peer_entry *at = peer_entry_of(who);
  el_local_event leave = {
      .kind = EL_LOCAL_LEAVE, .how = how, .loss = loss, .err = &caller_gave_up};
  if (at != NULL) leave.mod_rev = writes_end(at, caller);
  step_owner(wd, id, caller, &leave);
}

void peer_max_hold(world *wd, int id, int caller) {
  el_local_event event = {.kind = EL_LOCAL_MAX_HOLD};
  step_owner(wd, id, caller, &event);
}

void peer_downgrade(world *wd, int id, int caller) {
  el_local_event event = {.kind = EL_LOCAL_DOWNGRADE};
  step_owner(wd, id, caller, &event);
  peer_write(wd, id, caller, WRITE_DOWNGRADE);
}

static void step_all(world *wd, sim_peer *pr, const el_local_event *event) {
  for (int i = 0; i < pr->n_queues; i++) {
    el_local_event it = *event;
    if (pr->queues[i].used) queue_step(wd, pr, i, &it);
  }
}

void peer_fail_waiting(world *wd, int id) {
  el_local_event event = {.kind = EL_LOCAL_FAIL_WAITING,
                          .err = &caller_refused};
  step_all(wd, &wd->peers[id], &event);
  checks_after_fail_waiting(wd, &wd->peers[id]);
  peer_settle(wd, &wd->peers[id]);
}

void peer_close(world *wd, int id) {
  sim_peer *pr = &wd->peers[id];
  el_session_event close = {.kind = EL_SESSION_CLOSE};
  el_local_event end = {
      .kind = EL_LOCAL_END, .loss = EL_LOSS_CLOSED, .err = &caller_closed};
  if (pr->closed) return;
  pr->closed = true;
  step_all(wd, pr, &end);
  for (int i = 0; i < wd->n_callers; i++) {
    if (wd->callers[i].peer == id) caller_on_closed(wd, i);
  }
  if (pr->session != NOBODY) session_step(wd, pr, pr->session, &close);
  peer_settle(wd, pr);
}
