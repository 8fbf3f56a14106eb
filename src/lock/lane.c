/* lane: requests of one kind on their way. */
#include "lock/lane.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "etcd/batch.h"

enum {
  /* Beside a single request others may leave; then, or beside many, the next ones
   * gather until there is an answer, unless that takes so long: a member that hangs
   * must not hold up what another may answer. (Two batches out at once were smaller,
   * and cost etcd and us a sixth more.) */
  HOLD_UP_MS = 100,
  /* Of one request, and of a batch: etcd takes 1.5 MiB, and who writes that much
   * must not have others wait for it. */
  MEMBER_BYTES_MAX = 4 * 1024,
  BATCH_BYTES_MAX = 256 * 1024,
  /* How long none is put into a batch after one was told that there is no space:
   * what is nested passes etcd by when it asks for that (quota.go, costTxnReq). */
  APART_MS = 10000
};

/* Those that left together. */
typedef struct el_batch_out {
  el_lane *lane;
  struct el_request_list members;
  size_t n;
  int64_t sent_ms;
  TAILQ_ENTRY(el_batch_out) link;
} el_batch_out;

void el_lane_init(el_lane *lane) {
  TAILQ_INIT(&lane->waiting);
  TAILQ_INIT(&lane->out);
}

void el_lane_add(el_lane *lane, el_request *request) {
  TAILQ_INSERT_TAIL(&lane->waiting, request, link);
  request->is_queued = true;
}

void el_lane_remove(el_lane *lane, el_request *request) {
  TAILQ_REMOVE(&lane->waiting, request, link);
  request->is_queued = false;
}

int64_t el_lane_ready_ms(const el_lane *lane) {
  const el_batch_out *last = TAILQ_FIRST(&lane->out), *before;
  if (TAILQ_EMPTY(&lane->waiting)) return INT64_MAX;
  if (last == NULL) return 0;
  before = TAILQ_NEXT(last, link);
  if (before == NULL && last->n == 1) return 0;
  return (before != NULL ? before : last)->sent_ms + HOLD_UP_MS;
}

/* ---- back ---- */

/* Is |err|, of a batch, perhaps due to one member only, with none carried out? */
static bool is_one_members(const el_error *err) {
  return err->code != EL_OK && err->is_definite && !err->is_retriable;
}

/* Each member gets its own attempt. */
static void send_apart(el_batch_out *batch) {
  el_lane *lane = batch->lane;
  el_request *request;
  while ((request = TAILQ_LAST(&batch->members, el_request_list)) != NULL) {
    TAILQ_REMOVE(&batch->members, request, link);
    TAILQ_INSERT_HEAD(&lane->waiting, request, link);
    request->is_queued = request->is_alone = true;
  }
}

static el_txn_answer *failed_like(const el_txn_answer *whole) {
  el_txn_answer *answer = el_alloc(sizeof *answer);
  answer->err = whole->err;
  answer->sent_ms = whole->sent_ms;
  return answer;
}

static void answer_each(el_batch_out *batch, el_txn_answer *whole) {
  bool ok = whole->err.code == EL_OK;
  el_request *request;
  size_t at = 0;
  while ((request = TAILQ_FIRST(&batch->members)) != NULL) {
    TAILQ_REMOVE(&batch->members, request, link);
    batch->lane->answered(request,
                          ok ? el_batch_take(whole, &request->packed, &at)
                             : failed_like(whole));
  }
}

static void on_answer(void *arg, el_txn_answer *answer) {
  el_batch_out *batch = arg;
  el_lane *lane = batch->lane;
  el_request *first = TAILQ_FIRST(&batch->members);
  TAILQ_REMOVE(&lane->out, batch, link);
  if (answer->err.code == EL_NO_SPACE) {
    lane->apart_until = el_now_ms() + APART_MS;
  }
  if (batch->n == 1) {
    TAILQ_REMOVE(&batch->members, first, link);
    lane->answered(first, answer);
  } else if (is_one_members(&answer->err)) {
    send_apart(batch);
    el_txn_answer_free(answer);
  } else {
    answer_each(batch, answer);
    el_txn_answer_free(answer);
  }
  free(batch);
  lane->returned(lane);
}

/* ---- out ---- */

static void add_member(el_batch_out *batch, el_request *request) {
  TAILQ_INSERT_TAIL(&batch->members, request, link);
  batch->n++;
}

static el_batch_out *new_batch(el_lane *lane) {
  el_batch_out *batch = el_alloc(sizeof *batch);
  batch->lane = lane;
  batch->sent_ms = el_now_ms();
  TAILQ_INIT(&batch->members);
  TAILQ_INSERT_HEAD(&lane->out, batch, link);
  return batch;
}

static int64_t time_for(const el_request *request) {
  int64_t left_ms;
  if (request->deadline_ms == 0) return EL_ATTEMPT_MS;
  left_ms = request->deadline_ms - el_now_ms();
  if (left_ms >= EL_ATTEMPT_MS) return EL_ATTEMPT_MS;
  return left_ms > 0 ? left_ms : 0;
}

/* For a scout others wait. */
static bool is_patient(const el_request *request) {
  return request->patient && !request->is_scout;
}

static void send_one(el_batch_out *batch) {
  el_request *request = TAILQ_FIRST(&batch->members);
  int64_t timeout_ms = time_for(request);
  request->is_short = timeout_ms < EL_ATTEMPT_MS;
  batch->lane->leaving(request, false);
  request->packed.may_be_slow = is_patient(request);
  el_kv_send(batch->lane->auth, &request->packed, timeout_ms, on_answer, batch);
}

static void send_many(el_batch_out *batch) {
  const el_packed_txn *members[EL_BATCH_OPS_MAX];
  el_packed_txn packed;
  el_request *request;
  size_t n = 0;
  bool patient = true;
  TAILQ_FOREACH(request, &batch->members, link) {
    members[n++] = &request->packed;
    request->is_short = false;
    batch->lane->leaving(request, n > 1);
    /* One that would rather be sent again isn't kept waiting. */
    patient = patient && is_patient(request);
  }
  el_batch_pack(&packed, members, n);
  packed.may_be_slow = patient;
  el_kv_send(batch->lane->auth, &packed, EL_ATTEMPT_MS, on_answer, batch);
  el_packed_txn_free(&packed);
}

/* One that has less time than the others would have theirs cut short. */
static bool goes_with_others(const el_request *request) {
  return !request->is_alone && !request->by_itself &&
         time_for(request) == EL_ATTEMPT_MS &&
         request->packed.len <= MEMBER_BYTES_MAX &&
         el_batch_cost(&request->packed) <= EL_BATCH_OPS_MAX;
}

/* What leaves together has one revision, which would leave the order of two keys of
 * one queue open. */
static bool is_of_same_queue(const el_batch_out *batch,
                             const el_request *request) {
  const el_request *member;
  if (request->queue == 0) return false;
  TAILQ_FOREACH(member, &batch->members, link) {
    if (member->queue == request->queue) return true;
  }
  return false;
}

/* Takes on who waits, in their order, as long as they fit in. */
static void fill(el_batch_out *batch) {
  el_lane *lane = batch->lane;
  const el_request *first = TAILQ_FIRST(&batch->members);
  size_t cost = el_batch_cost(&first->packed), bytes = first->packed.len;
  el_request *next;
  if (!goes_with_others(first) || batch->sent_ms < lane->apart_until) return;
  while ((next = TAILQ_FIRST(&lane->waiting)) != NULL &&
         goes_with_others(next) && !is_of_same_queue(batch, next)) {
    cost += el_batch_cost(&next->packed);
    bytes += next->packed.len;
    if (cost > EL_BATCH_OPS_MAX || bytes > BATCH_BYTES_MAX) return;
    el_lane_remove(lane, next);
    add_member(batch, next);
  }
}

void el_lane_let_go(el_lane *lane, bool only_one) {
  el_request *first = TAILQ_FIRST(&lane->waiting);
  el_batch_out *batch = new_batch(lane);
  el_lane_remove(lane, first);
  add_member(batch, first);
  if (!only_one) {
    fill(batch);
  }
  if (batch->n == 1) {
    send_one(batch);
  } else {
    send_many(batch);
  }
}

void el_lane_pass(el_lane *lane, el_request *request) {
  el_batch_out *batch = new_batch(lane);
  add_member(batch, request);
  send_one(batch);
}
