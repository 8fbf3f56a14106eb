/* requests: the gate through which every transaction leaves and returns. */
#include "lock/requests.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/jitter.h"
#include "base/random.h"
#include "rules/identity.h"

enum {
  /* What nobody waits for (the keys of waits that were given up) must not keep
   * an etcd busy that has just come back: so many at once, and so often. */
  BACKGROUND_OUT_MAX = 16,
  BACKGROUND_EVERY_MS = 10,
  /* After an attempt that found etcd away, the others wait for the next one's
   * luck: not thousands of callers find out each for himself. */
  PAUSE_FIRST_MS = 20,
  PAUSE_MAX_MS = 160,
  /* How much earlier than it is due a deadline may come. */
  ROUNDING_MS = 10
};

enum { WRITES, READS, LANES };

struct el_requests {
  el_auth *auth;
  el_timers *timers;
  el_counters *counters;
  el_events *events;

  el_lane lanes[LANES];              /* past |paused_until| */
  struct el_request_list background; /* until there is room */
  el_timer timer;                    /* for both */
  bool answering; /* more may come of what is at hand: nothing leaves yet */
  int background_out;
  int scouts_out;
  int64_t background_at; /* when the next one may leave */
  int64_t paused_until;
  int64_t pause_ms; /* 0: etcd isn't known to be away */
  el_error away;    /* why it is, ... */
  int64_t away_ms; /* ... and when that was found last; 0: it was heard since */
  int64_t heard_ms;  /* when a request was answered last, ... */
  int64_t opened_ms; /* ... and a question about a lease, or a request */
  uint64_t salt;     /* of the pause */

  el_identity identity;
  el_request verify; /* a question about it, ... */
  char *verify_key;
  bool verifying;         /* ... which is out */
  el_error wrong_cluster; /* code EL_OK: it is the right one */
  bool contacted;         /* etcd has answered something */
  bool stopping;
};

/* ---- who answers ---- */

static el_verdict judge(el_requests *requests, const el_sighting *seen) {
  el_error err;
  el_verdict verdict = el_identity_note(&requests->identity, seen, &err);
  if (verdict == EL_IDENTITY_OTHER) {
    requests->wrong_cluster = err;
  }
  return verdict;
}

static void on_verified(el_request *request, el_txn_answer *answer) {
  el_requests *requests = EL_CONTAINER_OF(request, el_requests, verify);
  requests->verifying = false; /* what it says has been judged on its way */
  free(requests->verify_key);
  requests->verify_key = NULL;
  if (answer != NULL) el_txn_answer_free(answer);
}

/* Has etcd send a transaction through raft's log that can't write: no key was
 * created at this revision. Its answer's revision tells the truth. |key| is one
 * that we may write. */
static void verify(el_requests *requests, el_bytes key) {
  el_compare never = {.test = EL_CREATE_REV_IS, .rev = INT64_MAX};
  el_op then = {.kind = EL_OP_PUT};
  el_txn txn = {&never, 1, &then, 1, NULL, 0};
  if (requests->verifying) return;
  requests->verifying = true;
  requests->verify_key = el_strndup(key.data, key.len);
  never.key = then.key = (el_bytes){requests->verify_key, key.len};
  el_requests_send(requests, &requests->verify, &txn);
}

static bool is_answer(const el_error *err) {
  return err->code == EL_OK ||
         (err->is_definite && err->code != EL_UNAVAILABLE &&
          err->code != EL_PROTOCOL);
}

/* What the answer can tell about the cluster. A delete of a key that isn't
 * there changes nothing. */
static int seen_how(const el_request *request, const el_txn_answer *answer) {
  if (request->packed.is_serializable) return EL_SEEN_LOCAL;
  if (request->packed.is_read) return EL_SEEN_READ;
  for (size_t i = 0; i < answer->n_results; i++) {
    const el_op_result *result = &answer->results[i];
    if (result->kind == EL_OP_PUT || result->deleted > 0) {
      return EL_SEEN_WRITTEN;
    }
  }
  return EL_SEEN_APPLIED;
}

/* If nothing may be concluded from |answer|, its error says why, and is
 * retriable: what another cluster must end is ended elsewhere. */
static void judge_answer(el_requests *requests, const el_request *request,
                         el_txn_answer *answer) {
  el_sighting seen = {.id = answer->cluster_id,
                      .rev = answer->rev,
                      .rev_then = request->rev_then};
  if (answer->err.code != EL_OK) return;
  seen.how = seen_how(request, answer);
  switch (judge(requests, &seen)) {
    case EL_IDENTITY_SAME:
      return;
    case EL_IDENTITY_DOUBTFUL:
      verify(requests, request->packed.key);
      el_error_set(&answer->err, EL_UNAVAILABLE,
                   "etcd %s answers from the past: revision %lld, after %lld",
                   el_requests_address(requests), (long long)answer->rev,
                   (long long)request->rev_then);
      break;
    case EL_IDENTITY_OTHER:
      answer->err = requests->wrong_cluster;
      break;
  }
  answer->err.is_retriable = true;
}

/* ---- who may leave ---- */

/* The first after a pause goes alone: if it fails, there is another one. */
static bool has_scout(const el_requests *requests) {
  return requests->pause_ms != 0 && requests->scouts_out > 0;
}

static int64_t later(int64_t a_ms, int64_t b_ms) {
  return a_ms > b_ms ? a_ms : b_ms;
}

/* When the next one may leave; INT64_MAX: an answer decides. */
static int64_t next_ms(const el_requests *requests) {
  int64_t at_ms = INT64_MAX;
  if (has_scout(requests)) return INT64_MAX;
  for (int i = 0; i < LANES; i++) {
    int64_t ready_ms = el_lane_ready_ms(&requests->lanes[i]);
    if (ready_ms < at_ms) at_ms = ready_ms;
  }
  if (requests->background_at < at_ms && !TAILQ_EMPTY(&requests->background) &&
      requests->background_out < BACKGROUND_OUT_MAX) {
    at_ms = requests->background_at;
  }
  return later(at_ms, requests->paused_until);
}

static void set_timer(el_requests *requests) {
  int64_t at_ms = next_ms(requests);
  if (at_ms != INT64_MAX) {
    el_timers_set(requests->timers, &requests->timer, at_ms);
  } else {
    el_timers_stop(requests->timers, &requests->timer);
  }
}

static el_lane *lane_of(el_requests *requests, const el_request *request) {
  return &requests->lanes[request->packed.is_read ? READS : WRITES];
}

static void on_leaving(el_request *request, bool shares) {
  el_requests *requests = request->requests;
  request->is_scout = requests->pause_ms != 0;
  request->rev_then = requests->identity.rev;
  requests->scouts_out += request->is_scout;
  requests->background_out += request->background;
  el_counters_add(requests->counters, request->counted_as, 1);
  EL_COUNT(requests->counters, shared, shares);
}

static void enqueue(el_requests *requests, el_request *request) {
  if (request->background) {
    request->is_queued = true;
    TAILQ_INSERT_TAIL(&requests->background, request, link);
  } else {
    el_lane_add(lane_of(requests, request), request);
  }
}

static void dequeue(el_requests *requests, el_request *request) {
  if (request->background) {
    request->is_queued = false;
    TAILQ_REMOVE(&requests->background, request, link);
  } else {
    el_lane_remove(lane_of(requests, request), request);
  }
}

static bool may_leave(const el_requests *requests, int64_t now_ms) {
  return now_ms >= requests->paused_until && !has_scout(requests);
}

static void let_waiting_go(el_requests *requests, int64_t now_ms) {
  for (int i = 0; i < LANES; i++) {
    el_lane *lane = &requests->lanes[i];
    while (may_leave(requests, now_ms) && el_lane_ready_ms(lane) <= now_ms) {
      el_lane_let_go(lane, requests->pause_ms != 0);
    }
  }
}

static void let_background_go(el_requests *requests, int64_t now_ms) {
  el_request *request;
  while (may_leave(requests, now_ms) && now_ms >= requests->background_at &&
         requests->background_out < BACKGROUND_OUT_MAX &&
         (request = TAILQ_FIRST(&requests->background)) != NULL) {
    requests->background_at = now_ms + BACKGROUND_EVERY_MS;
    dequeue(requests, request);
    el_lane_pass(lane_of(requests, request), request);
  }
}

static void let_all_go(el_requests *requests) {
  if (requests->answering) return;
  let_waiting_go(requests, el_now_ms());
  let_background_go(requests, el_now_ms());
  set_timer(requests);
}

static void on_timer(el_timer *timer) {
  let_all_go(EL_CONTAINER_OF(timer, el_requests, timer));
}

static void open_gate(el_requests *requests) {
  requests->pause_ms = requests->paused_until = 0;
  requests->away_ms = 0;
  requests->opened_ms = el_now_ms();
}

static void note_away(el_requests *requests, const el_error *err) {
  requests->away = *err;
  requests->away_ms = el_now_ms();
}

/* That there was no answer says nothing about etcd as it is now where there was less time
 * for it than usual, or where it took all of that, and there was another one since. (What
 * is given up sooner is because there was none.) */
static bool is_no_news(const el_requests *requests, const el_request *request,
                       const el_txn_answer *answer) {
  bool took_all = el_now_ms() >= answer->sent_ms + EL_ATTEMPT_MS - ROUNDING_MS;
  return answer->err.is_unanswered &&
         (request->is_short ||
          (took_all && answer->sent_ms < requests->opened_ms));
}

/* Opens the gate, or shuts it for longer than the last time. */
static void note_luck(el_requests *requests, const el_request *request,
                      const el_txn_answer *answer) {
  const el_error *err = &answer->err;
  if (err->code != EL_UNAVAILABLE) {
    open_gate(requests);
  } else if (!err->has_other_member && !is_no_news(requests, request, answer) &&
             el_now_ms() >= requests->paused_until) {
    note_away(requests, err);
    requests->pause_ms = requests->pause_ms == 0 ? PAUSE_FIRST_MS
                         : requests->pause_ms < PAUSE_MAX_MS
                             ? requests->pause_ms * 2
                             : PAUSE_MAX_MS;
    requests->paused_until =
        el_now_ms() + requests->pause_ms -
        el_jitter(requests->pause_ms / 2, requests->salt, el_now_ms());
  }
}

/* ---- in and out ---- */

static void note_failure(el_requests *requests, const el_error *err) {
  EL_COUNT(requests->counters, failed_attempts, 1);
  el_events_note_failure(requests->events, err);
}

/* Nothing that comes of |answer| leaves before all that came with it are told. */
static void on_answered(el_request *request, el_txn_answer *answer) {
  el_requests *requests = request->requests;
  requests->answering = true;
  requests->scouts_out -= request->is_scout;
  requests->background_out -= request->background;
  if (requests->stopping) {
    el_packed_txn_free(&request->packed);
    el_txn_answer_free(answer);
    request->done(request, NULL);
    return;
  }
  note_luck(requests, request, answer);
  if (request->is_short && answer->err.is_unanswered &&
      requests->pause_ms != 0) {
    /* It was too short to find out more than the others have. */
    answer->err = requests->away;
    answer->err.is_definite = false;
  }
  judge_answer(requests, request, answer);
  if (answer->err.code != EL_OK) {
    note_failure(requests, &answer->err);
  }
  if (is_answer(&answer->err)) {
    requests->contacted = true;
    requests->heard_ms = el_now_ms();
  }
  el_packed_txn_free(&request->packed);
  request->done(request, answer);
}

static void drop_all(el_requests *requests) {
  el_request *request;
  for (int i = 0; i < LANES; i++) {
    TAILQ_CONCAT(&requests->background, &requests->lanes[i].waiting, link);
  }
  while ((request = TAILQ_FIRST(&requests->background)) != NULL) {
    TAILQ_REMOVE(&requests->background, request, link);
    request->is_queued = false;
    el_packed_txn_free(&request->packed);
    request->done(request, NULL);
  }
}

static void on_returned(el_lane *lane) {
  el_requests *requests = lane->requests;
  requests->answering = false;
  if (requests->stopping) {
    drop_all(requests); /* what was to leave once more */
  } else {
    let_all_go(requests);
  }
}

void el_requests_send(el_requests *requests, el_request *request,
                      const el_txn *txn) {
  request->requests = requests;
  request->is_alone = false;
  if (requests->stopping) {
    request->done(request, NULL);
    return;
  }
  el_kv_pack(&request->packed, txn);
  enqueue(requests, request);
  let_all_go(requests);
}

bool el_requests_withdraw(el_requests *requests, el_request *request) {
  if (!request->is_queued) return false;
  dequeue(requests, request);
  el_packed_txn_free(&request->packed);
  set_timer(requests);
  return true;
}

void el_requests_hurry(el_requests *requests, el_request *request) {
  if (!request->background) return;
  if (request->is_queued) {
    dequeue(requests, request);
    request->background = false;
    enqueue(requests, request);
    let_all_go(requests);
  } else { /* it is out */
    requests->background_out--;
    request->background = false;
  }
}

bool el_requests_judge_lease(el_requests *requests,
                             const el_lease_answer *answer) {
  el_sighting seen = {.id = answer->cluster_id, .how = EL_SEEN_LOCAL};
  if (answer->err.code != EL_OK) {
    note_failure(requests, &answer->err);
  }
  requests->contacted = requests->contacted || is_answer(&answer->err);
  if (answer->err.code == EL_OK) {
    open_gate(requests);
    let_all_go(requests);
  } else if (answer->err.code == EL_UNAVAILABLE &&
             !answer->err.has_other_member) {
    note_away(requests, &answer->err);
  }
  return answer->err.code != EL_OK || seen.id == 0 ||
         judge(requests, &seen) == EL_IDENTITY_SAME;
}

/* ---- life ---- */

el_requests *el_requests_new(el_auth *auth, el_timers *timers,
                             el_counters *counters, el_events *events) {
  el_requests *requests = el_alloc(sizeof *requests);
  requests->auth = auth;
  requests->timers = timers;
  requests->counters = counters;
  requests->events = events;
  requests->timer.on_due = on_timer;
  requests->verify.done = on_verified;
  requests->verify.counted_as = offsetof(el_stats, calls);
  for (int i = 0; i < LANES; i++) {
    requests->lanes[i] = (el_lane){.requests = requests,
                                   .auth = auth,
                                   .leaving = on_leaving,
                                   .answered = on_answered,
                                   .returned = on_returned};
    el_lane_init(&requests->lanes[i]);
  }
  TAILQ_INIT(&requests->background);
  requests->salt = el_random();
  return requests;
}

void el_requests_stop(el_requests *requests) {
  requests->stopping = true;
  el_timers_stop(requests->timers, &requests->timer);
  drop_all(requests);
}

void el_requests_free(el_requests *requests) { free(requests); }

/* ---- what is known ---- */

bool el_requests_have_contact(const el_requests *requests) {
  return requests->contacted;
}

bool el_requests_heard_since(const el_requests *requests, int64_t ms) {
  return requests->heard_ms > ms;
}

const el_error *el_requests_wrong_cluster(const el_requests *requests) {
  return requests->wrong_cluster.code != EL_OK ? &requests->wrong_cluster
                                               : NULL;
}

const el_error *el_requests_away(const el_requests *requests) {
  return requests->pause_ms != 0 ? &requests->away : NULL;
}

int64_t el_requests_outage(const el_requests *requests, const el_error **why) {
  *why = &requests->away;
  return requests->away_ms;
}

const char *el_requests_address(const el_requests *requests) {
  const el_channel *ch = el_auth_channel(requests->auth);
  return el_channel_address(ch, el_channel_member(ch));
}
