/* sim net: carries requests to the store and answers back, or doesn't. */
#include "net.h"

#include <string.h>

#include "checks.h"

enum {
  ATTEMPT_MS = 1500,  /* what a unary call may take */
  APPLY_MAX_MS = 7000 /* etcd applies a request this long after it was sent */
};

static int64_t latency(world *wd) {
  return weather_latency(&wd->weather, &wd->dice);
}

/* ---- the store's side ---- */

static void post_reply(world *wd, const call *what, const reply *answer,
                       event_run on_reply, int64_t at_ms) {
  event *ev = world_post(wd, at_ms, what->peer, on_reply);
  ev->call = *what;
  ev->reply = *answer;
}

static void expire(world *wd, const event *ev) {
  lease *ls = store_find_lease(&wd->store, ev->who);
  if (!ls->alive) return;
  if (wd->now_ms < ls->expires_at + ls->late_ms) {
    world_post(wd, ls->expires_at + ls->late_ms, NOBODY, expire)->who = ev->who;
    return;
  }
  world_trace(wd, "store: lease %d expires", ev->who);
  store_revoke(&wd->store, ev->who);
}

static void watch_lease(world *wd, int64_t id) {
  lease *ls = store_find_lease(&wd->store, id);
  world_post(wd, ls->expires_at + ls->late_ms, NOBODY, expire)->who = (int)id;
}

static bool is_old_state_read(const call *what) {
  return what->kind == CALL_ENTRY && what->ask.request == EL_REQUEST_LOOK &&
         what->ask.serializable;
}

/* The revision that the member has, which a serializable read is served of. */
static int64_t member_rev(world *wd, int peer) {
  const condition *cond = &wd->weather.peers[peer];
  int64_t rev = wd->store.rev;
  if (weather_is_deposed(&wd->weather, peer, wd->now_ms)) return cond->old_rev;
  if (world_chance(wd, FAULT_STALE_LOOK)) {
    rev -= rng_between(&wd->dice, 1, 20);
  }
  return rev > 1 ? rev : 1;
}

static void apply(world *wd, const call *what, reply *answer) {
  if (is_old_state_read(what)) {
    request_look_at(&wd->store, what, member_rev(wd, what->peer), answer);
    if (weather_is_deposed(&wd->weather, what->peer, wd->now_ms)) {
      answer->event.term = wd->weather.peers[what->peer].old_term;
    }
    return;
  }
  checks_before_apply(wd, what);
  request_apply(&wd->store, what, wd->now_ms,
                (int)rng_between(&wd->dice, 0, 500), answer);
  checks_after_apply(wd, what, answer);
  if (what->kind == CALL_GRANT) watch_lease(wd, what->lease);
}

/* ev->who is nonzero if |on_reply| is to hear of it. */
typedef struct carrier {
  event_run arrive, on_reply;
} carrier;

static void arrive(world *wd, const event *ev, event_run on_reply) {
  reply answer;
  wd->flying--;
  apply(wd, &ev->call, &answer);
  if (ev->call.mute ||
      weather_is_partitioned(&wd->weather, ev->call.peer, wd->now_ms)) {
    return;
  }
  if (world_chance(wd, FAULT_ANSWER_LOST)) return;
  post_reply(wd, &ev->call, &answer, on_reply, wd->now_ms + latency(wd));
}
