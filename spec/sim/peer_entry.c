/* sim peer_entry: carries out what an entry's step function answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "checks.h"
#include "clock.h"
#include "net.h"
#include "peer.h"

/* ---- requests ---- */

static void tell_lease_gone(world *wd, sim_peer *pr, int session) {
  el_session_event gone = {.kind = EL_SESSION_LEASE_GONE};
  session_step(wd, pr, session, &gone);
}

static void tell_unsure(world *wd, sim_peer *pr, int session) {
  el_session_event unsure = {.kind = EL_SESSION_UNSURE};
  session_step(wd, pr, session, &unsure);
}

static void on_answer(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  peer_entry *at = &pr->entries[ev->call.entry];
  if (at->call != ev->call.id) return; /* answered already */
  at->call = 0;
  if (ev->call.ask.request == EL_REQUEST_DELETE) {
    const el_outcome *outcome = &ev->reply.event.outcome;
    at->delete_unsure |= !outcome->done && !outcome->definite;
  } else if (ev->call.ask.request != EL_REQUEST_LOOK) {
    at->delete_unsure = false;
  }
  if (ev->reply.event.outcome.done) {
    at->seen_ms = clock_when(wd, pr->id, ev->reply.event.outcome.sent_ms);
    at->heard_ms = wd->now_ms;
    at->seen_stale = ev->reply.event.serializable;
  }
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
  if (action->request == EL_REQUEST_DELETE) at->deleting_rev = action->guard;
  net_send(wd, &what, on_answer);
}

/* ---- watches ---- */

/* Has that been said of all its watches, as the entry driver waits for it? */
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

/* Somebody else's key, if |owner| isn't 0; or those of a semaphore. */
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

int entry_key_id_of(const peer_entry *at, const el_place *place) {
  int key_ids[NAMES_MAX];
  key_id_all(at->key_id, key_ids);
  return key_id_make(key_id_name(key_ids[place->name]), place->mode,
                     (int)place->slot);
}

static void watch_other(world *wd, sim_peer *pr, int entry,
                        const el_place *place) {
  const peer_entry *at = &pr->entries[entry];
  const el_keys own = {.mode = key_id_mode(at->key_id)};
  el_place note;
  watch_key(wd, pr, entry, entry_key_id_of(at, place), place->lease);
  if (el_kind_may_change(&own, place, &note)) {
    watch_key(wd, pr, entry, entry_key_id_of(at, &note), note.lease);
  }
}

static void start_watch(world *wd, sim_peer *pr, int entry,
                        const el_place *place) {
  peer_entry *at = &pr->entries[entry];
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  stop_watch(wd, pr, at);
  if (place->rev != 0) {
    watch_other(wd, pr, entry, place);
    return;
  }
  for (int i = 0; i < n; i++) {
    watch_own(wd, pr, entry, key_ids[i]);
  }
}

/* Which of its watches that is; NOBODY: none. */
static int find_watch(const peer_entry *at, uint32_t id) {
  for (int i = 0; i < at->n_watches; i++) {
    if (at->watches[i].id == id) return i;
  }
  return NOBODY;
}

bool peer_is_watching(const world *wd, int id, const watch *what) {
  return find_watch(&wd->peers[id].entries[what->entry], what->id) != NOBODY;
}

void peer_watch_again(world *wd, int id) {
  sim_peer *pr = &wd->peers[id];
  for (int i = 0; i < pr->n_entries; i++) {
    peer_entry *at = &pr->entries[i];
    for (int k = 0; at->used && k < at->n_watches; k++) {
      stream_unwatch(wd, id, at->watches[k].id);
      at->watches[k].id = world_new_id(wd);
      stream_watch(wd, id, &at->watches[k]);
    }
  }
}

void peer_on_watch(world *wd, int id, const watch_message *message) {
  sim_peer *pr = &wd->peers[id];
  peer_entry *at = &pr->entries[message->entry];
  el_entry_event event = message->event;
  int which = find_watch(at, message->watch);
  if (which == NOBODY) return;
  if (event.kind == EL_ENTRY_WATCH_CREATED) {
    if (!are_created(at, which, event.rev)) return;
    event.rev = at->created_rev;
  }
  entry_step(wd, pr, message->entry, &event);
  peer_settle(wd, pr);
}

/* ---- actions ---- */

static void prove(world *wd, sim_peer *pr, int session,
                  const el_entry_action *action) {
  el_session_event proof = {.kind = EL_SESSION_PROOF,
                            .outcome.done = true,
                            .outcome.sent_ms = action->sent_ms,
                            .term = action->term,
                            .rev = action->rev};
  session_step(wd, pr, session, &proof);
}

/* The caller's request is over before it held anything. */
static void fail(world *wd, sim_peer *pr, peer_entry *at,
                 caller_verdict verdict) {
  int caller = at->caller;
  if (caller == NOBODY) return; /* it has left; this is about the release */
  at->caller = NOBODY;
  line_leave(pr, at->key_id, caller);
  caller_on_failed(wd, caller, verdict);
}

static void lose(world *wd, sim_peer *pr, peer_entry *at, el_loss loss) {
  int caller = at->caller;
  checks_on_lost(wd, pr, at, loss);
  if (caller == NOBODY) return;
  at->caller = NOBODY;
  line_leave(pr, at->key_id, caller);
  caller_on_lost(wd, caller, loss);
}

static void restart(sim_peer *pr, peer_entry *at) {
  if (at->caller != NOBODY) pr->lines[key_id_line(at->key_id)].driven = false;
  at->caller = NOBODY;
}

static void perform(world *wd, sim_peer *pr, int entry,
                    const el_entry_action *action) {
  static const el_session_event confirm = {.kind = EL_SESSION_CONFIRM};
  peer_entry *at = &pr->entries[entry];
  switch (action->kind) {
    case EL_ENTRY_SEND:
      send(wd, pr, entry, action);
      return;
    case EL_ENTRY_WATCH:
      start_watch(wd, pr, entry, &action->place);
      checks_on_wait(wd, pr, at);
      return;
    case EL_ENTRY_UNWATCH:
      stop_watch(wd, pr, at);
      return;
    case EL_ENTRY_PROOF:
      prove(wd, pr, at->session, action);
      return;
    case EL_ENTRY_GRANTED:
      checks_on_granted(wd, pr, at, action->place.rev);
      handoff_begin(wd, pr, at);
      if (at->caller != NOBODY) {
        caller_on_granted(wd, at->caller, action->place.rev);
      }
      return;
    case EL_ENTRY_REFUSED:
      at->let_go = false;
      fail(wd, pr, at, CALLER_REFUSED);
      return;
    case EL_ENTRY_CONFLICT:
      checks_on_conflict(wd, pr, at, action->place.permits);
      fail(wd, pr, at, CALLER_CONFLICT);
      return;
    case EL_ENTRY_LOCKED:
      fail(wd, pr, at, CALLER_LOCKED);
      return;
    case EL_ENTRY_PLACE_LOST:
      checks_on_lost(wd, pr, at, EL_LOSS_DELETED);
      fail(wd, pr, at, CALLER_PLACE_LOST);
      return;
    case EL_ENTRY_RESTART:
      restart(pr, at);
      return;
    case EL_ENTRY_CONFIRM:
      session_step(wd, pr, at->session, &confirm);
      return;
    case EL_ENTRY_UNSURE:
      tell_unsure(wd, pr, at->session);
      return;
    case EL_ENTRY_LOST:
      lose(wd, pr, at, action->loss);
      return;
    case EL_ENTRY_RELEASED:
      at->let_go = false;
      checks_on_released(wd, pr, at, action->found);
      at->delete_unsure = false;
      return;
  }
}

static void trace_step(const world *wd, const sim_peer *pr,
                       const peer_entry *at, const el_entry *was,
                       const el_entry_event *event,
                       const el_entry_actions *out) {
  static const char *const events[] = {
      "start",        "try",     "stop",     "answer",   "watch created",
      "deleted",      "put",     "no watch", "claimed",  "unproven",
      "lapsed",       "renewed", "max hold", "handed off", "key gone", "key found",
      "session dead", "timer"};
  static const char *const actions[] = {
      "SEND",    "WATCH",   "UNWATCH",  "PROOF",      "GRANTED",
      "REFUSED", "LOCKED",  "CONFLICT", "PLACE_LOST", "RESTART",
      "UNSURE",  "CONFIRM", "LOST",     "RELEASED"};
  static const char *const requests[] = {"", "(try)", "(enqueue)", "(look)",
                                         "(delete)"};
  char did[300] = "";
  if (!wd->tracing) return;
  for (int i = 0; i < out->n; i++) {
    strcat(strcat(did, " "), actions[out->list[i].kind]);
    strcat(did, requests[out->list[i].request]);
  }
  world_trace(wd, "p%d n%d lease %d %s%s%s: %s -> %s rev %d%s", pr->id,
              at->key_id, (int)was->lease, events[event->kind],
              event->kind == EL_ENTRY_ANSWER ? requests[was->busy] : "",
              event->kind != EL_ENTRY_ANSWER ? ""
              : event->outcome.done          ? " done"
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
  at->let_go |= event->kind == EL_ENTRY_STOP && was.state == EL_ENTRY_HELD;
  trace_step(wd, pr, at, &was, event, &out);
  for (int i = 0; i < out.n; i++) {
    perform(wd, pr, entry, &out.list[i]);
  }
  checks_after_entry(wd, pr, at);
}

void entry_step_simple(world *wd, sim_peer *pr, int entry, int kind) {
  el_entry_event event = {.kind = kind};
  entry_step(wd, pr, entry, &event);
}

void entry_key_gone(world *wd, sim_peer *pr, int entry, int64_t rev) {
  el_entry_event event = {.kind = EL_ENTRY_KEY_GONE, .rev = rev};
  entry_step(wd, pr, entry, &event);
}

/* ---- their lives ---- */

static int add_entry(sim_peer *pr) {
  for (int i = 0; i < ENTRIES_MAX; i++) {
    peer_entry *at = &pr->entries[i];
    if (i < pr->n_entries && at->used) continue;
    if (i == pr->n_entries) pr->n_entries++;
    memset(at, 0, sizeof *at);
    at->used = true;
    return i;
  }
  abort();
}

static int find(const sim_peer *pr, int key_id) {
  for (int i = 0; i < pr->n_entries; i++) {
    const peer_entry *at = &pr->entries[i];
    if (at->used && at->key_id == key_id && at->session == pr->session)
      return i;
  }
  return NOBODY;
}

int entry_of_key(sim_peer *pr, int key_id) {
  int index = find(pr, key_id_whole(key_id));
  return index != NOBODY ? index : entry_get(pr, key_id);
}

int entry_get(sim_peer *pr, int key_id) {
  int index = find(pr, key_id);
  if (index != NOBODY) return index;
  index = add_entry(pr);
  pr->entries[index].key_id = key_id;
  pr->entries[index].session = pr->session;
  pr->entries[index].caller = NOBODY;
  el_entry_init(&pr->entries[index].core, key_id_mode(key_id),
                &pr->sessions[pr->session].core);
  return index;
}

peer_entry *peer_find_driven(sim_peer *pr, int caller) {
  for (int i = 0; i < pr->n_entries; i++) {
    if (pr->entries[i].used && pr->entries[i].caller == caller) {
      return &pr->entries[i];
    }
  }
  return NULL;
}
