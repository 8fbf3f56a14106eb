/* sim peer_entry: carries out the actions of an entry. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "checks.h"
#include "clock.h"
#include "net.h"
#include "peer.h"

/* ---- requests ---- */

static void tell_lease_gone(world *wd, sim_peer *pr, int session) {
  el_session_event gone = {.kind = EL_SESSION_ON_LEASE_GONE};
  session_step(wd, pr, session, &gone);
}

static void tell_put_in_doubt(world *wd, sim_peer *pr, int session) {
  el_session_event unsure = {.kind = EL_SESSION_ON_PUT_IN_DOUBT};
  session_step(wd, pr, session, &unsure);
}

static void on_answer(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  peer_entry *at = &pr->entries[ev->call.entry];
  if (at->call != ev->call.id) return; /* answered already */
  at->call = 0;
  if (ev->call.ask.request == EL_REQUEST_DELETE) {
    const el_outcome *outcome = &ev->reply.event.outcome;
    at->is_delete_in_doubt |= !outcome->is_done && !outcome->is_definite;
  } else if (ev->call.ask.request != EL_REQUEST_READ) {
    at->is_delete_in_doubt = false;
  }
  if (ev->reply.event.outcome.is_done) {
    at->answer_sent_ms =
        clock_when(wd, pr->id, ev->reply.event.outcome.sent_ms);
    at->answered_ms = wd->now_ms;
    at->seen_stale = ev->reply.event.is_serializable;
  }
  checks_on_holder(wd, pr, at, &ev->reply);
  entry_step(wd, pr, ev->call.entry, &ev->reply.event);
  if (ev->call.ask.request == EL_REQUEST_DELETE) {
    checks_on_delete_answered(wd, pr, at, &ev->reply.event.outcome);
  }
  if (ev->reply.lease_gone) tell_lease_gone(wd, pr, at->session);
  peer_settle(wd, pr);
}

call entry_call(world *wd, const sim_peer *pr, const peer_entry *at,
                call_kind kind) {
  return (call){.kind = kind,
                .id = world_new_id(wd),
                .peer = pr->id,
                .session = at->session,
                .entry = (int)(at - pr->entries),
                .key_id = at->key_id,
                .lease = at->core.lease,
                .rev = at->core.rev,
                .sent_ms = clock_now(wd, pr->id)};
}

static void send(world *wd, sim_peer *pr, int entry,
                 const el_entry_action *action) {
  peer_entry *at = &pr->entries[entry];
  call what = entry_call(wd, pr, at, CALL_ENTRY);
  what.ask = *action;
  at->call = what.id;
  if (action->request == EL_REQUEST_DELETE)
    at->deleting_rev = action->guard_rev;
  net_send(wd, &what, on_answer);
}

/* ---- watches ---- */

/* Records that the watch |which| of |at| was created at |rev|. Tells whether all watches of |at|
 * are created now: the entry is told only then, as by the entry driver. */
static bool are_created(peer_entry *at, int which, int64_t rev) {
  at->created |= 1u << which;
  if (rev > at->created_rev) at->created_rev = rev;
  return at->created == (1u << at->n_watches) - 1;
}

static watch *add_watch(world *wd, sim_peer *pr, int entry, int key_id,
                        int64_t owner) {
  peer_entry *at = &pr->entries[entry];
  watch *what = &at->watches[at->n_watches++];
  *what = (watch){world_new_id(wd), entry, key_id, owner};
  return what;
}

static void watch_own(world *wd, sim_peer *pr, int entry, int key_id) {
  int64_t owner = pr->entries[entry].core.lease;
  stream_watch(wd, pr->id, add_watch(wd, pr, entry, key_id, owner));
}

/* Watches a key of another entry, or, if |owner| is 0, all keys of a semaphore. */
static void watch_key(world *wd, sim_peer *pr, int entry, int key_id,
                      int64_t owner) {
  peer_entry *at = &pr->entries[entry];
  watch *what = add_watch(wd, pr, entry, key_id, owner);
  if (owner != 0 && stream_resume(wd, pr->id, what, at->core.watch_rev)) {
    are_created(at, at->n_watches - 1, at->core.watch_rev);
  } else {
    stream_watch(wd, pr->id, what);
  }
}

static void stop_watch(world *wd, const sim_peer *pr, peer_entry *at) {
  while (at->n_watches > 0) {
    stream_unwatch(wd, pr->id, at->watches[--at->n_watches].id);
  }
  at->created = 0;
  at->created_rev = 0;
}

int entry_key_id_of(const peer_entry *at, const el_queue_key *queue_key) {
  int key_ids[NAMES_MAX], name;
  key_id_all(at->key_id, key_ids);
  name = key_id_name(key_ids[queue_key->name_index]);
  return queue_key->mode == EL_MODE_PERMIT
             ? key_id_permit(name, (int)queue_key->slot, queue_key->permits)
             : key_id_make(name, queue_key->mode, (int)queue_key->slot);
}

static void watch_other(world *wd, sim_peer *pr, int entry,
                        const el_queue_key *queue_key) {
  const peer_entry *at = &pr->entries[entry];
  const el_keys own = {.mode = key_id_mode(at->key_id)};
  el_queue_key marker;
  watch_key(wd, pr, entry, entry_key_id_of(at, queue_key), queue_key->lease);
  if (el_conflict_may_downgrade(&own, queue_key, &marker)) {
    watch_key(wd, pr, entry, entry_key_id_of(at, &marker), marker.lease);
  }
}

static void start_watch(world *wd, sim_peer *pr, int entry,
                        const el_queue_key *queue_key) {
  peer_entry *at = &pr->entries[entry];
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  stop_watch(wd, pr, at);
  if (queue_key->rev != 0) {
    watch_other(wd, pr, entry, queue_key);
    return;
  }
  for (int i = 0; i < n; i++) {
    watch_own(wd, pr, entry, key_ids[i]);
  }
}

/* Returns the index of the watch |id|; NONE: none. */
static int find_watch(const peer_entry *at, uint32_t id) {
  for (int i = 0; i < at->n_watches; i++) {
    if (at->watches[i].id == id) return i;
  }
  return NONE;
}

bool peer_is_watching(const world *wd, int id, const watch *what) {
  const peer_entry *at = &wd->peers[id].entries[what->entry];
  return at->contenders.id == what->id || find_watch(at, what->id) != NONE;
}

static void watch_again(world *wd, const sim_peer *pr, watch *what) {
  stream_unwatch(wd, pr->id, what->id);
  what->id = world_new_id(wd);
  stream_watch(wd, pr->id, what);
}

void peer_watch_again(world *wd, int id) {
  sim_peer *pr = &wd->peers[id];
  for (int i = 0; i < pr->n_entries; i++) {
    peer_entry *at = &pr->entries[i];
    for (int k = 0; at->used && k < at->n_watches; k++) {
      watch_again(wd, pr, &at->watches[k]);
    }
    if (at->used && at->contenders.id != 0)
      watch_again(wd, pr, &at->contenders);
  }
}

void peer_on_watch(world *wd, int id, const watch_message *message) {
  sim_peer *pr = &wd->peers[id];
  peer_entry *at = &pr->entries[message->entry];
  el_entry_event event = message->event;
  int which = find_watch(at, message->watch);
  if (at->contenders.id == message->watch) {
    contention_on_watch(wd, pr, at, message);
    peer_settle(wd, pr);
    return;
  }
  if (which == NONE) return;
  if (event.kind == EL_ENTRY_ON_WATCH_CREATED) {
    if (!are_created(at, which, event.rev)) return;
    event.rev = at->created_rev;
  }
  entry_step(wd, pr, message->entry, &event);
  peer_settle(wd, pr);
}

/* ---- actions ---- */

static void prove(world *wd, sim_peer *pr, int session,
                  const el_entry_action *action) {
  el_session_event proof = {.kind = EL_SESSION_ON_PROOF,
                            .outcome.is_done = true,
                            .outcome.sent_ms = action->sent_ms,
                            .term = action->term,
                            .rev = action->rev};
  session_step(wd, pr, session, &proof);
}

static void tell_released(world *wd, sim_peer *pr, peer_entry *at,
                          const el_entry_action *action) {
  bool is_refused = action->kind == EL_ENTRY_REPORT_REFUSED;
  at->is_release_awaited = false;
  at->release = is_refused         ? EL_RELEASE_REFUSED
                : action->is_found ? EL_RELEASE_DONE
                                   : EL_RELEASE_GONE;
  if (!is_refused) {
    checks_on_released(wd, pr, at, action->is_found);
    at->is_delete_in_doubt = false;
  }
  queue_report(wd, pr, at, action);
}

static void tell_granted(world *wd, sim_peer *pr, peer_entry *at,
                         const el_entry_action *action) {
  checks_on_granted(wd, pr, at, action->key.rev);
  at->passes_behind = 0;
  at->behind_ms = at->contended_ms = at->rival_ms = 0;
  at->granted_ms = wd->now_ms;
  at->n_holds = 0;
  at->is_blind = false;
  queue_report(wd, pr, at, action);
}

static void perform(world *wd, sim_peer *pr, int entry,
                    const el_entry_action *action) {
  static const el_session_event confirm = {.kind = EL_SESSION_ON_CONFIRM};
  peer_entry *at = &pr->entries[entry];
  switch (action->kind) {
    case EL_ENTRY_SEND_REQUEST:
      send(wd, pr, entry, action);
      return;
    case EL_ENTRY_START_WATCH:
      start_watch(wd, pr, entry, &action->key);
      checks_on_wait(wd, pr, at);
      return;
    case EL_ENTRY_STOP_WATCH:
      stop_watch(wd, pr, at);
      return;
    case EL_ENTRY_REPORT_PROOF:
      prove(wd, pr, at->session, action);
      return;
    case EL_ENTRY_CONFIRM_LEASE:
      session_step(wd, pr, at->session, &confirm);
      return;
    case EL_ENTRY_REPORT_PUT_IN_DOUBT:
      tell_put_in_doubt(wd, pr, at->session);
      return;
    case EL_ENTRY_REPORT_GRANTED:
      tell_granted(wd, pr, at, action);
      return;
    case EL_ENTRY_REPORT_REFUSED:
    case EL_ENTRY_REPORT_RELEASED:
      tell_released(wd, pr, at, action);
      return;
    case EL_ENTRY_REPORT_LOST:
      checks_on_lost(wd, pr, at, action->loss);
      queue_report(wd, pr, at, action);
      return;
    case EL_ENTRY_REPORT_KEY_LOST:
      checks_on_lost(wd, pr, at, EL_LOSS_DELETED);
      queue_report(wd, pr, at, action);
      return;
    case EL_ENTRY_REPORT_LOCKED:
    case EL_ENTRY_REPORT_RESTART:
      queue_report(wd, pr, at, action);
      return;
  }
}

static void trace_step(const world *wd, const sim_peer *pr,
                       const peer_entry *at, const el_entry *was,
                       const el_entry_event *event,
                       const el_entry_actions *out) {
  static const char *const events[] = {
      "acquire",        "try",           "release",
      "answer",         "watch created", "watch deleted",
      "watch put",      "watch refused", "lease proven",
      "lease unproven", "expired",       "lease confirmed",
      "max hold",       "handed off",    "key gone",
      "key found",      "session ended", "timer"};
  static const char *const actions[] = {
      "SEND_REQUEST",        "START_WATCH",     "STOP_WATCH",
      "REPORT_PROOF",        "REPORT_GRANTED",  "REPORT_REFUSED",
      "REPORT_LOCKED",       "REPORT_KEY_LOST", "REPORT_RESTART",
      "REPORT_PUT_IN_DOUBT", "CONFIRM_LEASE",   "REPORT_LOST",
      "REPORT_RELEASED"};
  static const char *const requests[] = {"", "(try)", "(enqueue)", "(read)",
                                         "(delete)"};
  char did[300] = "";
  if (!wd->tracing) return;
  for (int i = 0; i < out->n; i++) {
    strcat(strcat(did, " "), actions[out->list[i].kind]);
    strcat(did, requests[out->list[i].request]);
  }
  world_trace(wd, "p%d n%d lease %d %s%s%s: %s -> %s rev %d%s", pr->id,
              at->key_id, (int)was->lease, events[event->kind],
              event->kind == EL_ENTRY_ON_ANSWER ? requests[was->in_flight] : "",
              event->kind != EL_ENTRY_ON_ANSWER ? ""
              : event->outcome.is_done          ? " done"
                                                : " failed",
              el_entry_state_str[was->state],
              el_entry_state_str[at->core.state], (int)at->core.rev, did);
}

void entry_step(world *wd, sim_peer *pr, int entry,
                const el_entry_event *event) {
  peer_entry *at = &pr->entries[entry];
  el_entry was = at->core;
  el_entry_event known = *event;
  el_entry_actions out;
  int64_t now_ms = clock_now(wd, pr->id);
  known.proven_rev =
      el_session_proven_rev(&pr->sessions[at->session].core, now_ms);
  el_entry_step(&at->core, &known, now_ms, &out);
  at->is_release_awaited |=
      event->kind == EL_ENTRY_ON_RELEASE && was.state == EL_ENTRY_HELD;
  trace_step(wd, pr, at, &was, event, &out);
  for (int i = 0; i < out.n; i++) {
    perform(wd, pr, entry, &out.list[i]);
  }
  checks_after_entry(wd, pr, at);
  if (at->queue != NONE) queue_change(pr, at->queue);
  queues_perform(wd, pr);
}

void entry_step_simple(world *wd, sim_peer *pr, int entry, int kind) {
  el_entry_event event = {.kind = kind};
  entry_step(wd, pr, entry, &event);
}

void entry_key_gone(world *wd, sim_peer *pr, int entry, int64_t rev,
                    bool detached) {
  el_entry_event event = {
      .kind = EL_ENTRY_ON_KEY_GONE, .rev = rev, .is_detached = detached};
  entry_step(wd, pr, entry, &event);
}

/* ---- begin and end of an entry ---- */

static int find_unused(sim_peer *pr) {
  for (int i = 0; i < pr->n_entries; i++) {
    if (!pr->entries[i].used) return i;
  }
  if (pr->n_entries == ENTRIES_MAX) abort();
  return pr->n_entries++;
}

static int find(const sim_peer *pr, int key_id) {
  for (int i = 0; i < pr->n_entries; i++) {
    const peer_entry *at = &pr->entries[i];
    if (at->used && at->key_id == key_id && at->queue != NONE) return i;
  }
  return NONE;
}

int entry_add_at(sim_peer *pr, int queue, int slot) {
  int index = find_unused(pr);
  peer_entry *at = &pr->entries[index];
  memset(at, 0, sizeof *at);
  at->used = true;
  at->key_id = key_id_at_slot(pr->queues[queue].id, slot);
  at->session = pr->session;
  at->queue = queue;
  at->writes.caller = NONE;
  el_entry_init(&at->core, key_id_mode(at->key_id),
                &pr->sessions[pr->session].core);
  el_local_queue_add(&pr->queues[queue].core, &at->local, &at->core);
  return index;
}

int entry_add(world *wd, sim_peer *pr, int queue) {
  int id = pr->queues[queue].id, slot = 0;
  el_mode mode = key_id_mode(id);
  if (mode == EL_MODE_LOCK || mode == EL_MODE_MULTI) {
    if (find(pr, id) != NONE) {
      world_violate(wd, "I7 safe delete", "p%d needs two keys at n%d", pr->id,
                    id);
    }
    return entry_add_at(pr, queue, 0);
  }
  while (find(pr, key_id_at_slot(id, slot)) != NONE) {
    slot++;
  }
  return entry_add_at(pr, queue, slot);
}

int entry_of_key(sim_peer *pr, int key_id) {
  int index = find(pr, key_id_whole(key_id)), queue;
  if (index == NONE) index = find(pr, key_id);
  if (index != NONE) return index;
  queue = queue_get(pr, key_id_queue(key_id));
  return entry_add_at(pr, queue,
                      key_id_is_multi(key_id) ? 0 : (int)key_id_slot(key_id));
}

void entry_leave_over(sim_peer *pr, int entry) {
  peer_entry *at = &pr->entries[entry];
  el_local_queue_remove(&pr->queues[at->queue].core, &at->local);
  queue_change(pr, at->queue);
  el_local_queue_add(&pr->left_over, &at->local, &at->core);
  at->queue = NONE;
  at->wake_ms = 0;
}

peer_entry *entry_of_local(el_local_entry *local) {
  return (peer_entry *)((char *)local - offsetof(peer_entry, local));
}

peer_entry *peer_entry_of(const sim_caller *caller) {
  el_local_entry *local = caller->acquisitions[caller->acquisition].core.entry;
  return local != NULL ? entry_of_local(local) : NULL;
}
