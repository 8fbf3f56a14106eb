/* sim peer_behind: who is behind a key? A look tells who is there, and a watch who comes. */
#include "checks.h"
#include "net.h"
#include "peer.h"
#include "queue.h"

static peer_entry *entry_of(world *wd, const world_event *ev) {
  return &wd->peers[ev->peer].entries[ev->call.entry];
}

/* The key was looked for, and is not there, or off its lease. */
static void tell_if_gone(world *wd, const world_event *ev) {
  if (ev->reply.behind == EL_BEHIND_LOST) {
    entry_key_gone(wd, &wd->peers[ev->peer], ev->call.entry, ev->call.rev,
                   ev->reply.event.detached);
  }
}

static uint32_t ask(world *wd, const sim_peer *pr, const peer_entry *at,
                    event_run on_answer) {
  call what = entry_call(wd, pr, at, CALL_CENSUS);
  net_send(wd, &what, on_answer);
  return what.id;
}

/* ---- a look ---- */

static void on_looked(world *wd, const world_event *ev) {
  peer_entry *at = entry_of(wd, ev);
  el_local_event event = {.kind = EL_LOCAL_BEHIND, .behind = ev->reply.behind};
  if (at->look_call != ev->call.id) return; /* answered, or forgotten */
  at->look_call = 0;
  if (ev->reply.behind == EL_BEHIND_SOMEBODY && at->place.looking) {
    checks_on_contended(wd, at);
  }
  at->is_answered = ev->reply.behind == EL_BEHIND_NOBODY;
  if (at->queue != NOBODY) {
    bool counts = at->is_answered && at->place.looking;
    queue_step_entry(wd, &wd->peers[ev->peer], at, &event);
    if (counts) checks_after_nobody(wd, &wd->peers[ev->peer], at);
  }
  at->is_answered = false;
  tell_if_gone(wd, ev);
  peer_settle(wd, &wd->peers[ev->peer]);
}

void behind_look(world *wd, sim_peer *pr, peer_entry *at) {
  at->look_call = ask(wd, pr, at, on_looked);
}

/* ---- a watch ---- */

static void tell_contender(world *wd, sim_peer *pr, peer_entry *at) {
  el_local_event event = {.kind = EL_LOCAL_CONTENDER};
  checks_on_contended(wd, at);
  queue_step_entry(wd, pr, at, &event);
}

/* Without an answer somebody may be there, of whom no watch will tell. */
static void on_looked_first(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  peer_entry *at = entry_of(wd, ev);
  if (at->contenders_call != ev->call.id) return;
  at->contenders_call = 0;
  if (ev->reply.behind == EL_BEHIND_SOMEBODY ||
      ev->reply.behind == EL_BEHIND_UNKNOWN) {
    tell_contender(wd, pr, at);
  }
  tell_if_gone(wd, ev);
  peer_settle(wd, pr);
}

static bool is_behind(const peer_entry *at, const watch_message *message) {
  bool is_own =
      message->owner == at->core.lease && message->key_id == at->key_id;
  return !is_own && message->owner > 0 &&
         message->event.lease == message->owner &&
         !key_id_is_note(message->key_id) &&
         queue_is_in_way(key_id_mode(message->key_id), key_id_mode(at->key_id));
}

void behind_on_watch(world *wd, sim_peer *pr, peer_entry *at,
                     const watch_message *message) {
  switch ((int)message->event.kind) {
    case EL_ENTRY_WATCH_CREATED:
      at->contenders_call = ask(wd, pr, at, on_looked_first);
      return;
    case EL_ENTRY_WATCH_PUT:
      if (is_behind(at, message)) tell_contender(wd, pr, at);
      return;
    case EL_ENTRY_WATCH_REFUSED:
      tell_contender(wd, pr, at);
      return;
    default:
      return;
  }
}

void behind_watch(world *wd, sim_peer *pr, peer_entry *at) {
  checks_on_contender_watch(wd, pr, at, true);
  at->contenders = (watch){.id = world_new_id(wd),
                           .entry = (int)(at - pr->entries),
                           .key_id = at->key_id,
                           .owner = WATCH_BELOW};
  stream_watch(wd, pr->id, &at->contenders);
}

void behind_unwatch(world *wd, sim_peer *pr, peer_entry *at) {
  checks_on_contender_watch(wd, pr, at, false);
  stream_unwatch(wd, pr->id, at->contenders.id);
  at->contenders.id = 0;
  at->contenders_call = 0;
}
