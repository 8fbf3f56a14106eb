/* sim peer_queue: carries out the actions of the local queues of a peer. All actions are in one
 * list. The actions that follow from an action are appended to the list. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "checks.h"
#include "clock.h"
#include "peer.h"
#include "protocol/conflict_matrix.h"

/* Fewer holds than the defaults of a client, so that a budget is used up more often. */
const el_handoff_limits peer_limits = {.holds = 4, .ms = 400};

/* ---- which queue ---- */

static int find(const sim_peer *pr, int id) {
  for (int i = 0; i < pr->n_queues; i++) {
    if (pr->queues[i].used && pr->queues[i].id == id) return i;
  }
  return NONE;
}

static int find_unused(sim_peer *pr) {
  for (int i = 0; i < pr->n_queues; i++) {
    if (!pr->queues[i].used) return i;
  }
  if (pr->n_queues == QUEUES_MAX) abort();
  return pr->n_queues++;
}

int queue_get(sim_peer *pr, int id) {
  int index = find(pr, id);
  peer_queue *queue;
  if (index != NONE) return index;
  index = find_unused(pr);
  queue = &pr->queues[index];
  queue->used = true;
  queue->is_changed = false;
  queue->id = id;
  queue->names = key_id_names(id);
  el_local_queue_init(&queue->core, key_id_mode(id), key_id_permits(id));
  return index;
}

/* Returns the index of |queue|; NONE: it is |left_over|. */
static int index_of(const sim_peer *pr, const el_local_queue *queue) {
  const peer_queue *it =
      (const peer_queue *)((const char *)queue - offsetof(peer_queue, core));
  return queue != &pr->left_over ? (int)(it - pr->queues) : NONE;
}

static bool is_beside(const peer_queue *one, const peer_queue *other) {
  return other->used && other != one && (one->names & other->names) != 0 &&
         el_modes_conflict(key_id_mode(one->id), key_id_mode(other->id));
}

void queue_change(sim_peer *pr, int queue) {
  peer_queue *it = &pr->queues[queue];
  it->is_changed = true;
  for (int i = 0; i < pr->n_queues; i++) {
    if (is_beside(it, &pr->queues[i])) pr->queues[i].is_changed = true;
  }
}

bool queue_is_beside(const sim_peer *pr, int queue, int other) {
  return is_beside(&pr->queues[queue], &pr->queues[other]);
}

void queues_change(sim_peer *pr) {
  for (int i = 0; i < pr->n_queues; i++) {
    pr->queues[i].is_changed = true;
  }
}

/* ---- the context of an event ---- */

static void look_beside(const sim_peer *pr, const peer_queue *queue,
                        el_local_context *now) {
  for (int i = 0; i < pr->n_queues; i++) {
    const peer_queue *other = &pr->queues[i];
    if (!is_beside(queue, other)) continue;
    now->has_conflicting_waiter |= el_local_queue_has_waiters(&other->core);
    now->has_conflicting_delete |= el_local_queue_is_deleting(&other->core);
  }
}

el_local_context queue_now(const world *wd, const sim_peer *pr,
                           const el_local_queue *queue) {
  el_local_context now = {.now_ms = clock_now(wd, pr->id),
                          .limits = &peer_limits};
  int index = index_of(pr, queue);
  const el_session *core =
      pr->session != NONE ? &pr->sessions[pr->session].core : NULL;
  if (index == NONE) return now;
  now.has_lease = core != NULL && core->state == EL_SESSION_ALIVE;
  now.is_proven = core != NULL && el_session_is_proven(core, now.now_ms);
  look_beside(pr, &pr->queues[index], &now);
  return now;
}

/* ---- steps ---- */

static const char *const events[] = {
    "join",          "leave",        "max hold",
    "downgraded",    "entry report", "contention answer",
    "contender",     "timer",        "unreachable",
    "lease refused", "close",        "settle"};
static const char *const actions[] = {
    "ADD_ENTRY",     "START_ENTRY", "STEP_ENTRY",      "REPORT_GRANTED",
    "REPORT_FAILED", "REPORT_LOST", "REPORT_RELEASED", "QUERY_CONTENTION",
    "START_WATCH",   "STOP_WATCH",  "SET_TIMER"};

static int caller_of(const el_acquisition *owner) {
  return owner != NULL ? caller_acquisition_of(owner)->caller : NONE;
}

static void trace_step(const world *wd, const sim_peer *pr, int index,
                       const el_local_event *event, size_t first) {
  char did[400] = "";
  if (!wd->tracing) return;
  if (event->kind == EL_LOCAL_ON_SETTLE && first == pr->actions.n) return;
  for (size_t i = first; i < pr->actions.n && i < first + 20; i++) {
    strcat(strcat(did, " "), actions[pr->actions.list[i].kind]);
  }
  world_trace(wd, "p%d queue %d: %s (caller %d):%s", pr->id,
              index != NONE ? pr->queues[index].id : NONE, events[event->kind],
              caller_of(event->acquisition), did);
}

static void apply(world *wd, sim_peer *pr, el_local_queue *queue,
                  const el_local_event *event) {
  int index = index_of(pr, queue);
  size_t first = pr->actions.n;
  el_local_context now = queue_now(wd, pr, queue);
  el_local_queue_step(queue, event, &now, &pr->actions);
  trace_step(wd, pr, index, event, first);
  if (index != NONE &&
      (event->kind != EL_LOCAL_ON_SETTLE || pr->actions.n > first)) {
    queue_change(pr, index);
  }
}

static el_local_queue *queue_of(sim_peer *pr, const peer_entry *at) {
  return at->queue != NONE ? &pr->queues[at->queue].core : &pr->left_over;
}

void queue_step(world *wd, sim_peer *pr, int queue, el_local_event *event) {
  apply(wd, pr, &pr->queues[queue].core, event);
  queues_perform(wd, pr);
}

void queue_step_entry(world *wd, sim_peer *pr, peer_entry *at,
                      el_local_event *event) {
  event->entry = &at->local;
  apply(wd, pr, queue_of(pr, at), event);
  queues_perform(wd, pr);
}

/* Marks the acquisitions that the actions from |first| on grant by the key of |at|, because etcd
 * has granted them, not a handoff. */
static void mark_granted(sim_peer *pr, peer_entry *at, size_t first) {
  for (; first < pr->actions.n; first++) {
    const el_local_action *action = &pr->actions.list[first];
    if (action->kind == EL_LOCAL_REPORT_GRANTED &&
        action->entry == &at->local) {
      caller_acquisition_of(action->acquisition)->is_new = true;
    }
  }
}

void queue_report(world *wd, sim_peer *pr, peer_entry *at,
                  const el_entry_action *verdict) {
  el_local_event event = {
      .kind = EL_LOCAL_ON_ENTRY_REPORT, .entry = &at->local, .report = verdict};
  size_t first = pr->actions.n;
  apply(wd, pr, queue_of(pr, at), &event);
  if (verdict->kind == EL_ENTRY_REPORT_GRANTED) mark_granted(pr, at, first);
}

/* ---- actions of a queue ---- */

static void grant(world *wd, sim_peer *pr, const el_local_action *action) {
  peer_entry *at = entry_of_local(action->entry);
  int caller = caller_acquisition_of(action->acquisition)->caller;
  if (key_id_mode(at->key_id) != EL_MODE_READ) {
    writes_begin(at, caller, action->mod_rev);
  }
  caller_on_granted(wd, pr, action->acquisition, at);
  at->left_ms = 0;
  at->lingered = false;
}

static void start(world *wd, sim_peer *pr, const el_local_action *action) {
  peer_entry *at = entry_of_local(action->entry);
  at->left_ms = 0;
  checks_seen_others(wd);
  entry_step_simple(wd, pr, (int)(at - pr->entries),
                    action->try_once ? EL_ENTRY_ON_TRY : EL_ENTRY_ON_ACQUIRE);
}

static void perform(world *wd, sim_peer *pr, const el_local_action *action) {
  peer_entry *at = action->entry != NULL ? entry_of_local(action->entry) : NULL;
  int index = index_of(pr, action->queue);
  switch (action->kind) {
    case EL_LOCAL_ADD_ENTRY:
      entry_add(wd, pr, index);
      queue_change(pr, index);
      return;
    case EL_LOCAL_START_ENTRY:
      start(wd, pr, action);
      return;
    case EL_LOCAL_STEP_ENTRY:
      if (action->entry_event == EL_ENTRY_ON_RELEASE)
        checks_on_stop(wd, pr, at);
      entry_step_simple(wd, pr, (int)(at - pr->entries), action->entry_event);
      return;
    case EL_LOCAL_REPORT_GRANTED:
      grant(wd, pr, action);
      return;
    case EL_LOCAL_REPORT_FAILED:
      caller_on_failed(wd, pr, action);
      return;
    case EL_LOCAL_REPORT_LOST:
      caller_on_lost(wd, action->acquisition, action->loss);
      return;
    case EL_LOCAL_REPORT_RELEASED:
      caller_on_released(wd, pr, action);
      return;
    case EL_LOCAL_QUERY_CONTENTION:
      contention_query(wd, pr, at);
      return;
    case EL_LOCAL_START_WATCH:
      contention_watch(wd, pr, at);
      return;
    case EL_LOCAL_STOP_WATCH:
      contention_unwatch(wd, pr, at);
      return;
    case EL_LOCAL_SET_TIMER:
      at->wake_ms = action->at_ms;
      at->lingered |= action->at_ms != 0;
      return;
  }
}

void queues_perform(world *wd, sim_peer *pr) {
  enum { ACTIONS_MAX = 10000 };
  if (pr->is_performing) return;
  pr->is_performing = true;
  for (size_t i = 0; i < pr->actions.n; i++) {
    /* a copy, because the list may move */
    el_local_action action = pr->actions.list[i];
    if (i == ACTIONS_MAX) {
      world_violate(wd, "I5 progress",
                    "p%d: the actions of its queues never end", pr->id);
    }
    if (wd->failed) break;
    perform(wd, pr, &action);
  }
  pr->actions.n = 0;
  pr->is_performing = false;
}

/* ---- settle ---- */

static bool is_in_use(const peer_queue *queue) {
  return !TAILQ_EMPTY(&queue->core.waiting) ||
         !TAILQ_EMPTY(&queue->core.entries);
}

bool queue_settle(world *wd, sim_peer *pr, int queue) {
  el_local_event settle = {.kind = EL_LOCAL_ON_SETTLE};
  peer_queue *it = &pr->queues[queue];
  if (!it->used || !it->is_changed) return false;
  it->is_changed = false;
  queue_step(wd, pr, queue, &settle);
  if (!TAILQ_EMPTY(&it->core.waiting) && !el_local_queue_is_in_use(&it->core) &&
      !queue_now(wd, pr, &it->core).has_lease) {
    session_want(wd, pr);
  }
  return true;
}

void queues_forget(sim_peer *pr) {
  for (int i = 0; i < pr->n_queues; i++) {
    if (pr->queues[i].used && !is_in_use(&pr->queues[i])) {
      pr->queues[i].used = false;
    }
  }
}
