/* sim stream: the watch stream of a peer. */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#include "peer.h"

void stream_init(stream *line) { memset(line, 0, sizeof *line); }

/* ---- on the way to the peer ---- */

/* Delivers the oldest message. */
static void deliver(world *wd, const world_event *ev) {
  stream *line = &wd->peers[ev->peer].stream;
  watch_message message;
  if (ev->generation != line->epoch || line->n_waiting == 0) return;
  message = line->waiting[line->first];
  line->first = (line->first + 1) % STREAM_MAX;
  line->n_waiting--;
  peer_on_watch(wd, ev->peer, &message);
}

static int64_t arrival(world *wd, int peer) {
  const condition *cond = &wd->faults.peers[peer];
  int64_t at_ms = wd->now_ms;
  if (cond->partition_until > at_ms) at_ms = cond->partition_until;
  if (world_chance(wd, FAULT_WATCH_LATE)) {
    at_ms += rng_between(&wd->dice, 1, 3000);
  }
  return at_ms + faults_latency(&wd->faults, &wd->dice);
}

static void push(world *wd, int peer, const watch_message *message) {
  stream *line = &wd->peers[peer].stream;
  int64_t at_ms = arrival(wd, peer);
  if (wd->faults.peers[peer].crashed) return;
  if (line->n_waiting == STREAM_MAX) { /* as etcd cancels slow watchers */
    stream_break(wd, peer);
    return;
  }
  line->waiting[(line->first + line->n_waiting++) % STREAM_MAX] = *message;
  if (at_ms < line->last_at_ms) at_ms = line->last_at_ms;
  line->last_at_ms = at_ms;
  world_post(wd, at_ms, peer, deliver)->generation = line->epoch;
}

/* ---- at the store ---- */

static watch_message message_of(const watch *what, const change *it) {
  watch_message message = {.entry = what->entry, .watch = what->id};
  message.key_id = it->after.key_id;
  message.owner = it->after.owner;
  message.event.rev = it->rev;
  if (it->after.create_rev == 0) {
    message.event.kind = EL_ENTRY_ON_WATCH_DELETED;
  } else {
    message.event.kind = EL_ENTRY_ON_WATCH_PUT;
    message.event.lease = it->after.lease;
    message.event.is_detached = key_is_detached(&it->after);
  }
  return message;
}

/* The member that lags has applied the change with the revision of |ev|. */
static void apply_late(world *wd, const world_event *ev) {
  condition *cond = &wd->faults.peers[ev->call.peer];
  if (ev->call.rev > cond->lag_rev) cond->lag_rev = ev->call.rev;
}

static void apply_later(world *wd, int peer, int64_t rev) {
  int64_t due_ms = faults_lag_due(&wd->faults, peer, wd->now_ms);
  world_event *ev = world_post(wd, due_ms, NONE, apply_late);
  ev->call.peer = peer;
  ev->call.rev = rev;
}

/* Sends a watch event that a lagging or deposed member could not send before. */
static void emit(world *wd, const world_event *ev) {
  stream *line = &wd->peers[ev->call.peer].stream;
  if (ev->generation == line->epoch) push(wd, ev->call.peer, &ev->watch);
}

static void tell(world *wd, int peer, const watch *what, const change *it) {
  watch_message message = message_of(what, it);
  const condition *cond = &wd->faults.peers[peer];
  world_event *ev;
  int64_t at_ms;
  bool is_of_rivals = what->owner == WATCH_BELOW;
  if ((is_of_rivals && wd->faults.hides_rivals) ||
      world_chance(wd, FAULT_SWALLOWED)) {
    if (is_of_rivals) wd->peers[peer].entries[what->entry].is_blind = true;
    return;
  }
  if (faults_is_deposed(&wd->faults, peer, wd->now_ms)) {
    at_ms = cond->deposed_until;
  } else if (faults_is_lagging(&wd->faults, peer, wd->now_ms)) {
    at_ms = cond->lag_due;
  } else {
    push(wd, peer, &message);
    return;
  }
  ev = world_post(wd, at_ms, NONE, emit);
  ev->call.peer = peer;
  ev->watch = message;
  ev->generation = wd->peers[peer].stream.epoch;
}

static bool is_about(const watch *what, const change *it) {
  if (what->owner == WATCH_PERMITS || what->owner == WATCH_BELOW) {
    return key_id_name(what->key_id) == key_id_name(it->after.key_id) &&
           (what->owner == WATCH_BELOW ||
            key_id_mode(it->after.key_id) == EL_MODE_PERMIT);
  }
  return what->key_id == it->after.key_id && what->owner == it->after.owner;
}

void stream_on_change(world *wd, const change *what) {
  for (int i = 0; i < wd->n_peers; i++) {
    stream *line = &wd->peers[i].stream;
    if (faults_is_lagging(&wd->faults, i, wd->now_ms)) {
      apply_later(wd, i, what->rev);
    }
    for (int k = 0; k < line->n_watches; k++) {
      if (is_about(&line->watches[k], what)) {
        tell(wd, i, &line->watches[k], what);
      }
    }
    if (line->n_watches > 0 && world_chance(wd, FAULT_WATCH_BREAK)) {
      stream_break(wd, i);
    }
  }
}

/* Sends a new watch the events after |rev| that its member, which lags, has not sent yet. At random
 * it also sends old deletions again, as a restored member of etcd does (etcd issue 15271). */
static void tell_past(world *wd, int peer, const watch *what, int64_t rev) {
  const store *st = &wd->store;
  bool replay = world_chance(wd, FAULT_REPLAYED);
  for (int i = 0; i < st->n_changes; i++) {
    const change *it = &st->changes[i];
    if (!is_about(what, it)) continue;
    if (it->rev > rev) {
      tell(wd, peer, what, it);
    } else if (replay && it->after.create_rev == 0) {
      watch_message message = message_of(what, it);
      push(wd, peer, &message);
    }
  }
}

static void create(world *wd, const world_event *ev) {
  int peer = ev->call.peer;
  stream *line = &wd->peers[peer].stream;
  watch what = {ev->watch.watch, ev->watch.entry, ev->call.key_id,
                ev->call.lease};
  watch_message message = {.entry = what.entry, .watch = what.id};
  if (ev->generation != line->epoch || !peer_is_watching(wd, peer, &what))
    return;
  if (line->n_watches == WATCHES_MAX) abort();
  if (world_chance(wd, FAULT_DENIED)) {
    message.event.kind = EL_ENTRY_ON_WATCH_REFUSED;
    push(wd, peer, &message);
    return;
  }
  line->watches[line->n_watches++] = what;
  message.event.kind = EL_ENTRY_ON_WATCH_CREATED;
  message.event.rev =
      faults_member_rev(&wd->faults, peer, wd->now_ms, wd->store.rev);
  push(wd, peer, &message);
  tell_past(wd, peer, &what, message.event.rev);
}

/* ---- the peer's side ---- */

void stream_watch(world *wd, int peer, const watch *what) {
  world_event *ev = world_post(wd, arrival(wd, peer), NONE, create);
  ev->call.peer = peer;
  ev->call.key_id = what->key_id;
  ev->call.lease = what->owner;
  ev->watch.entry = what->entry;
  ev->watch.watch = what->id;
  ev->generation = wd->peers[peer].stream.epoch;
}

/* Returns the revision of the last change of the key of |what| that the peer's member has
 * applied. */
static int64_t last_change_rev(const world *wd, int peer, const watch *what) {
  int64_t last = 0, member_rev = faults_member_rev(&wd->faults, peer,
                                                   wd->now_ms, wd->store.rev);
  for (int i = 0; i < wd->store.n_changes; i++) {
    const change *it = &wd->store.changes[i];
    if (is_about(what, it) && it->rev <= member_rev) last = it->rev;
  }
  return last;
}

bool stream_resume(world *wd, int peer, const watch *what, int64_t rev) {
  stream *line = &wd->peers[peer].stream;
  int64_t last_rev;
  if (line->is_broken || line->n_watches == WATCHES_MAX ||
      !rng_chance(&wd->dice, 400)) {
    return false;
  }
  wd->figures->watches_kept++;
  line->watches[line->n_watches++] = *what;
  last_rev = last_change_rev(wd, peer, what);
  /* In half of the cases the kept watch has already delivered the last change. */
  if (last_rev > rev && rng_chance(&wd->dice, 500)) {
    watch_message message = {.entry = what->entry, .watch = what->id};
    message.event.kind = EL_ENTRY_ON_WATCH_CREATED;
    message.event.rev = last_rev;
    push(wd, peer, &message);
    tell_past(wd, peer, what, last_rev);
    return false;
  }
  tell_past(wd, peer, what, rev);
  return true;
}

void stream_unwatch(world *wd, int peer, uint32_t id) {
  stream *line = &wd->peers[peer].stream;
  for (int i = 0; i < line->n_watches; i++) {
    if (line->watches[i].id == id) {
      line->watches[i] = line->watches[--line->n_watches];
      return;
    }
  }
}

static void reopen(world *wd, const world_event *ev) {
  stream *line = &wd->peers[ev->peer].stream;
  if (ev->generation == line->epoch) {
    line->is_broken = false;
    peer_watch_again(wd, ev->peer);
  }
}

void stream_break(world *wd, int peer) {
  stream *line = &wd->peers[peer].stream;
  int64_t at_ms = wd->now_ms + rng_between(&wd->dice, 50, 1000);
  world_trace(wd, "p%d watch stream breaks", peer);
  line->epoch++;
  line->is_broken = true;
  line->n_watches = line->n_waiting = 0;
  if (wd->faults.peers[peer].partition_until > at_ms) {
    at_ms = wd->faults.peers[peer].partition_until;
  }
  world_post(wd, at_ms, peer, reopen)->generation = line->epoch;
}
