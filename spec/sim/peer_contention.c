/* sim peer_contention: queries the contention for a key, and watches for contenders. */
#include "checks.h"
#include "clock.h"
#include "net.h"
#include "peer.h"
#include "queue.h"

static peer_entry *entry_of(world *wd, const world_event *ev) {
  return &wd->peers[ev->peer].entries[ev->call.entry];
}

/* Tells the entry if the query did not find its key, or found it attached to another lease or to
 * none. */
static void tell_if_gone(world *wd, const world_event *ev) {
  if (ev->reply.contention == EL_CONTENTION_KEY_LOST) {
    entry_key_gone(wd, &wd->peers[ev->peer], ev->call.entry, ev->call.rev,
                   ev->reply.event.is_detached);
  }
}

static uint32_t ask(world *wd, const sim_peer *pr, const peer_entry *at,
                    event_run on_answer) {
  call what = entry_call(wd, pr, at, CALL_CONTENTION);
  net_send(wd, &what, on_answer);
  return what.id;
}

/* ---- the contention query ---- */

static void on_query_answer(world *wd, const world_event *ev) {
  peer_entry *at = entry_of(wd, ev);
  el_local_event event = {.kind = EL_LOCAL_ON_CONTENTION_ANSWER,
                          .contention = ev->reply.contention};
  if (at->query_call != ev->call.id) return; /* answered, or cancelled */
  at->query_call = 0;
  if (ev->reply.contention == EL_CONTENTION_WAITERS && at->local.is_querying) {
    checks_on_contended(wd, at);
  }
  at->is_answered = ev->reply.contention == EL_CONTENTION_NONE;
  if (at->queue != NONE) {
    bool counts = at->is_answered && at->local.is_querying;
    queue_step_entry(wd, &wd->peers[ev->peer], at, &event);
    if (counts) checks_after_no_contender(wd, &wd->peers[ev->peer], at);
  }
  at->is_answered = false;
  tell_if_gone(wd, ev);
  peer_settle(wd, &wd->peers[ev->peer]);
}

void contention_query(world *wd, sim_peer *pr, peer_entry *at) {
  at->query_call = ask(wd, pr, at, on_query_answer);
}

/* ---- a watch ---- */

static void tell_contender(world *wd, sim_peer *pr, peer_entry *at) {
  el_local_event event = {.kind = EL_LOCAL_ON_CONTENDER};
  checks_on_contended(wd, at);
  queue_step_entry(wd, pr, at, &event);
}

/* Handles the answer to the query that follows the creation of the watch. If there is no answer, a
 * key may wait that the watch does not report. The local queue is then told that one waits. */
static void on_first_answer(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  peer_entry *at = entry_of(wd, ev);
  if (at->contenders_call != ev->call.id) return;
  at->contenders_call = 0;
  if (ev->reply.contention == EL_CONTENTION_WAITERS ||
      ev->reply.contention == EL_CONTENTION_UNKNOWN) {
    tell_contender(wd, pr, at);
  }
  tell_if_gone(wd, ev);
  peer_settle(wd, pr);
}

static void look_later(world *wd, const sim_peer *pr, const peer_entry *at);

/* Looks for a key that waits, because the watch may be silent. */
static void on_look(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  peer_entry *at = entry_of(wd, ev);
  if (!at->used || at->contenders.id != ev->call.id) return;
  if (at->contenders_call == 0) {
    at->contenders_call = ask(wd, pr, at, on_first_answer);
  }
  look_later(wd, pr, at);
}

static void look_later(world *wd, const sim_peer *pr, const peer_entry *at) {
  int64_t at_ms = clock_now(wd, pr->id) + wd->ttl_ms / 3;
  world_event *ev =
      world_post(wd, clock_when(wd, pr->id, at_ms), pr->id, on_look);
  ev->call = (call){.id = at->contenders.id, .entry = (int)(at - pr->entries)};
}

static bool is_behind(const peer_entry *at, const watch_message *message) {
  bool is_own =
      message->owner == at->core.lease && message->key_id == at->key_id;
  return !is_own && message->owner > 0 &&
         message->event.lease == message->owner &&
         !key_id_is_marker(message->key_id) &&
         queue_blocks(key_id_mode(message->key_id), key_id_mode(at->key_id));
}

void contention_on_watch(world *wd, sim_peer *pr, peer_entry *at,
                         const watch_message *message) {
  switch ((int)message->event.kind) {
    case EL_ENTRY_ON_WATCH_CREATED:
      at->contenders_call = ask(wd, pr, at, on_first_answer);
      return;
    case EL_ENTRY_ON_WATCH_PUT:
      if (is_behind(at, message)) tell_contender(wd, pr, at);
      return;
    case EL_ENTRY_ON_WATCH_REFUSED:
      tell_contender(wd, pr, at);
      return;
    default:
      return;
  }
}

void contention_watch(world *wd, sim_peer *pr, peer_entry *at) {
  checks_on_contender_watch(wd, pr, at, true);
  at->contenders = (watch){.id = world_new_id(wd),
                           .entry = (int)(at - pr->entries),
                           .key_id = at->key_id,
                           .owner = WATCH_BELOW};
  stream_watch(wd, pr->id, &at->contenders);
  look_later(wd, pr, at);
}

void contention_unwatch(world *wd, sim_peer *pr, peer_entry *at) {
  checks_on_contender_watch(wd, pr, at, false);
  stream_unwatch(wd, pr->id, at->contenders.id);
  at->contenders.id = 0;
  at->contenders_call = 0;
}
