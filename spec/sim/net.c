/* sim net: carries requests to the store and answers back, with faults. */
#include "net.h"

#include <string.h>

#include "checks.h"
#include "request.h"
#include "trouble.h"

enum {
  /* A late request is usually applied within APPLY_MAX_MS. A proxy in front of etcd may hold the
   * request back for longer, up to NET_WAY_MAX_MS; so may a partition. */
  APPLY_MAX_MS = 7000,
  ANSWER_MAX_MS = 30000
};

static int64_t latency(world *wd) {
  return faults_latency(&wd->faults, &wd->dice);
}

/* ---- the store's side ---- */

/* Returns the latency of an answer. It may be longer than the timeout of the call: late answers are
 * delivered, too. */
static int64_t answer_latency(world *wd) {
  return latency(wd) + (world_chance(wd, FAULT_ANSWER_LATE)
                            ? rng_between(&wd->dice, 1, ANSWER_MAX_MS)
                            : 0);
}

static void post_reply(world *wd, const call *what, const reply *answer,
                       event_run on_reply, int64_t at_ms) {
  world_event *ev = world_post(wd, at_ms, what->peer, on_reply);
  ev->call = *what;
  ev->reply = *answer;
}

static void expire(world *wd, const world_event *ev) {
  lease *ls = store_find_lease(&wd->store, ev->subject);
  if (!ls->alive) return;
  if (wd->now_ms < ls->expires_at + ls->late_ms) {
    world_post(wd, ls->expires_at + ls->late_ms, NONE, expire)->subject =
        ev->subject;
    return;
  }
  world_trace(wd, "store: lease %d expires", ev->subject);
  store_revoke(&wd->store, ev->subject);
}

static void watch_lease(world *wd, int64_t id) {
  lease *ls = store_find_lease(&wd->store, id);
  world_post(wd, ls->expires_at + ls->late_ms, NONE, expire)->subject = (int)id;
}

/* Returns the revision of the member that answers a serializable read. */
static int64_t member_rev(world *wd, int peer) {
  int64_t rev = faults_member_rev(&wd->faults, peer, wd->now_ms, wd->store.rev);
  if (rev == wd->store.rev && world_chance(wd, FAULT_STALE_READ)) {
    rev -= rng_between(&wd->dice, 1, 20);
  }
  return rev > 1 ? rev : 1;
}

static void apply(world *wd, const call *what, reply *answer) {
  if (request_is_local(what)) {
    request_read_at(&wd->store, what, member_rev(wd, what->peer), answer);
    if (faults_is_deposed(&wd->faults, what->peer, wd->now_ms)) {
      answer->event.term = wd->faults.peers[what->peer].old_term;
    }
    return;
  }
  checks_before_apply(wd, what);
  request_apply(&wd->store, what, wd->now_ms,
                (int)rng_between(&wd->dice, 0, 500), answer);
  checks_after_apply(wd, what);
  /* etcd 3.7 confirms a renewal from the leader's memory (FastLeaseKeepAlive), also if a revoke is
   * committed and not applied yet */
  if (what->kind == CALL_KEEPALIVE && answer->ttl_ms == 0 &&
      world_chance(wd, FAULT_FAST_KEEP)) {
    answer->ttl_ms = store_find_lease(&wd->store, what->lease)->ttl_ms;
  }
  if (what->kind == CALL_ENTRY) trouble_on_put(wd, what);
  if (what->kind == CALL_WRITE || what->kind == CALL_TOUCH) {
    checks_on_written(wd, what, &answer->written);
  }
  if (what->kind == CALL_GRANT) watch_lease(wd, what->lease);
}

static void answer(world *wd, const world_event *ev, const reply *said) {
  post_reply(wd, &ev->call, said, ev->then, wd->now_ms + answer_latency(wd));
}

static bool is_heard(world *wd, const call *what) {
  return !what->mute &&
         !faults_is_partitioned(&wd->faults, what->peer, wd->now_ms) &&
         !world_chance(wd, FAULT_ANSWER_LOST);
}

static void arrive_alone(world *wd, const world_event *ev) {
  reply said;
  wd->flying--;
  apply(wd, &ev->call, &said);
  if (is_heard(wd, &ev->call)) answer(wd, ev, &said);
}

static void arrive(world *wd, const world_event *ev);

static void arrive_no_more(world *wd, const world_event *ev) {
  (void)wd;
  (void)ev;
}

/* Fills |all| with |first| and with the other requests of its batch, which it removes from the
 * event queue. Returns the number of these requests. */
static int gather(world *wd, const world_event *first, world_event *all) {
  int n = 0;
  all[n++] = *first;
  for (int i = 0; i < wd->n_heap && first->call.batch != 0; i++) {
    world_event *ev = &wd->pool[wd->heap[i]];
    if (ev->run == arrive && ev->call.batch == first->call.batch) {
      all[n++] = *ev;
      ev->run = arrive_no_more;
    }
  }
  return n;
}

static void arrive_together(world *wd, const world_event *all, int n) {
  const call *calls[REQUEST_BATCH_MAX];
  reply said[REQUEST_BATCH_MAX];
  for (int i = 0; i < n; i++) {
    calls[i] = &all[i].call;
    checks_before_apply(wd, calls[i]);
  }
  if (!request_apply_batch(&wd->store, calls, n, said)) {
    for (int i = 0; i < n; i++)
      arrive_alone(wd, &all[i]);
    return;
  }
  wd->flying -= n;
  wd->figures->batches++;
  for (int i = 0; i < n; i++)
    checks_after_apply(wd, calls[i]);
  if (!is_heard(wd, calls[0])) return;
  for (int i = 0; i < n; i++)
    answer(wd, &all[i], &said[i]);
}

static void arrive(world *wd, const world_event *ev) {
  world_event all[REQUEST_BATCH_MAX];
  int n = gather(wd, ev, all);
  wd->store.omits_leases = world_chance(wd, FAULT_NO_LEASES);
  wd->faults.has_hidden_leases |= wd->store.omits_leases;
  wd->store.omits_more = world_chance(wd, FAULT_NO_MORE);
  if (n == 1) {
    arrive_alone(wd, ev);
  } else {
    arrive_together(wd, all, n);
  }
}

/* ---- requests on their way to the store ---- */

typedef struct trip {
  const call *what;
  event_run on_reply;
} trip;

static world_event *post_arrival(world *wd, trip go, int64_t at_ms, bool mute) {
  world_event *ev = world_post(wd, at_ms, NONE, arrive);
  ev->call = *go.what;
  ev->call.mute = mute;
  ev->then = go.on_reply;
  wd->flying++;
  return ev;
}

static void post_error(world *wd, trip go, int64_t at_ms, bool definite,
                       bool retriable) {
  reply answer;
  memset(&answer, 0, sizeof answer);
  answer.event.kind = EL_ENTRY_ON_ANSWER;
  answer.event.outcome.sent_ms = go.what->sent_ms;
  answer.event.outcome.is_definite = definite;
  answer.event.outcome.is_retriable = retriable;
  post_reply(wd, go.what, &answer, go.on_reply, at_ms);
}

static int64_t late(world *wd) {
  int64_t most = rng_chance(&wd->dice, 200) ? NET_WAY_MAX_MS : APPLY_MAX_MS;
  return wd->now_ms + rng_between(&wd->dice, wd->faults.attempt_ms, most);
}

static bool can_outgrow_space(const call *what) {
  return what->kind == CALL_GRANT || what->kind == CALL_WRITE ||
         what->kind == CALL_TOUCH ||
         (what->kind == CALL_ENTRY &&
          (what->ask.request == EL_REQUEST_TRY ||
           what->ask.request == EL_REQUEST_ENQUEUE));
}

/* Sends a request during a partition, with one of three results at random. The connection is
 * refused at once; or the request is applied after the partition, without an answer; or it is
 * lost. */
static void send_into_partition(world *wd, trip go, int64_t until_ms) {
  int64_t draw = rng_between(&wd->dice, 0, 9);
  if (draw < 3) {
    post_error(wd, go, wd->now_ms + latency(wd), true, true);
  } else if (draw < 6) {
    world_count(wd, FAULT_LATE);
    post_arrival(wd, go, until_ms + rng_between(&wd->dice, 1, 50), true);
  }
}

static bool send_with_error(world *wd, trip go) {
  int64_t at_ms = wd->now_ms + latency(wd);
  if (world_chance(wd, FAULT_REFUSED)) {
    post_error(wd, go, at_ms, true, true);
  } else if (world_chance(wd, FAULT_DENIED)) {
    post_error(wd, go, at_ms, true, false);
  } else if (world_chance(wd, FAULT_UNAVAILABLE)) {
    post_error(wd, go, at_ms, false, true);
    if (rng_chance(&wd->dice, 500)) post_arrival(wd, go, late(wd), true);
  } else if (can_outgrow_space(go.what) && world_chance(wd, FAULT_NOSPACE)) {
    post_arrival(wd, go, at_ms, true);
    post_error(wd, go, at_ms + latency(wd), false, false);
  } else {
    return false;
  }
  return true;
}

static bool is_write(const call *what) {
  return what->kind == CALL_ENTRY && what->ask.request != EL_REQUEST_READ;
}

/* Returns a write of |peer| in flight; NULL: none. */
static world_event *find_companion(const world *wd, int peer) {
  for (int i = 0; i < wd->n_heap; i++) {
    world_event *ev = &wd->pool[wd->heap[i]];
    if (ev->run == arrive && ev->call.peer == peer && is_write(&ev->call) &&
        !ev->call.mute) {
      return ev;
    }
  }
  return NULL;
}

static int count_batch(const world *wd, uint32_t batch) {
  int n = 0;
  for (int i = 0; i < wd->n_heap; i++) {
    const world_event *ev = &wd->pool[wd->heap[i]];
    n += ev->run == arrive && ev->call.batch == batch;
  }
  return n;
}

static bool puts_key(const call *what) {
  return what->ask.request == EL_REQUEST_TRY ||
         what->ask.request == EL_REQUEST_ENQUEUE;
}

/* Tells whether |what| and |with|, or |what| and another request of the batch of |with|, put a key
 * into the same queue. */
static bool has_same_queue(const world *wd, const call *what,
                           const world_event *with) {
  for (int i = 0; i < wd->n_heap; i++) {
    const world_event *ev = &wd->pool[wd->heap[i]];
    bool together = ev == with || (ev->run == arrive && with->call.batch != 0 &&
                                   ev->call.batch == with->call.batch);
    if (together && puts_key(&ev->call) && puts_key(what) &&
        key_id_is_beside(ev->call.key_id, what->key_id)) {
      return true;
    }
  }
  return false;
}

/* Lets |go| join the batch of another request, at random. Returns false if it does not join one. */
static bool join(world *wd, trip go) {
  world_event *with;
  uint32_t batch;
  if (!is_write(go.what) || !rng_chance(&wd->dice, wd->faults.batching)) {
    return false;
  }
  with = find_companion(wd, go.what->peer);
  if (with == NULL || has_same_queue(wd, go.what, with)) return false;
  if (with->call.batch == 0) with->call.batch = world_new_id(wd);
  batch = with->call.batch;
  if (count_batch(wd, batch) == REQUEST_BATCH_MAX) return false;
  post_arrival(wd, go, with->at_ms, false)->call.batch = batch;
  return true;
}

static bool needs_quorum(const call *what) { return !request_is_local(what); }

void net_send(world *wd, const call *what, event_run on_reply) {
  const condition *cond = &wd->faults.peers[what->peer];
  trip go = {what, on_reply};
  post_error(wd, go, wd->now_ms + wd->faults.attempt_ms, false, true);
  if (faults_is_partitioned(&wd->faults, what->peer, wd->now_ms)) {
    send_into_partition(wd, go, cond->partition_until);
  } else if (faults_is_deposed(&wd->faults, what->peer, wd->now_ms) &&
             cond->deposed_times_out && needs_quorum(what)) {
    return; /* the old leader waits for a quorum that it has lost */
  } else if (send_with_error(wd, go)) {
    return;
  } else if (world_chance(wd, FAULT_LOST)) {
    return;
  } else if (world_chance(wd, FAULT_LATE)) {
    post_arrival(wd, go, late(wd), true);
  } else if (!join(wd, go)) {
    post_arrival(wd, go, wd->now_ms + latency(wd), false);
  }
}

/* ---- the keepalive stream ---- */

/* Answers a keepalive as a deposed leader does. It renews the leases that were granted before it
 * was deposed, and does not know newer ones. */
static void keep_for_nothing(const world *wd, const call *what, reply *answer) {
  const condition *cond = &wd->faults.peers[what->peer];
  const lease *ls = store_find_lease(&wd->store, what->lease);
  memset(answer, 0, sizeof *answer);
  answer->event.outcome.is_done = true;
  answer->event.outcome.sent_ms = what->sent_ms;
  answer->event.term = cond->old_term;
  if (ls->granted_at != 0 && ls->granted_at < cond->deposed_since) {
    answer->ttl_ms = ls->ttl_ms;
  }
}

static void arrive_keepalive(world *wd, const world_event *ev) {
  reply answer;
  wd->flying--;
  if (faults_is_deposed(&wd->faults, ev->call.peer, wd->now_ms)) {
    keep_for_nothing(wd, &ev->call, &answer);
  } else {
    apply(wd, &ev->call, &answer);
  }
  if (faults_is_partitioned(&wd->faults, ev->call.peer, wd->now_ms)) return;
  post_reply(wd, &ev->call, &answer, ev->then, wd->now_ms + answer_latency(wd));
}

void net_keep_alive(world *wd, const call *what, event_run on_reply) {
  trip go = {what, on_reply};
  world_event *ev;
  if (faults_is_partitioned(&wd->faults, what->peer, wd->now_ms)) return;
  if (world_chance(wd, FAULT_KEEP_BREAK)) {
    post_error(wd, go, wd->now_ms + latency(wd), false, true);
    return;
  }
  ev = world_post(wd, wd->now_ms + latency(wd), NONE, arrive_keepalive);
  ev->call = *what;
  ev->then = on_reply;
  wd->flying++;
}
