/* request_queue: the requests of one client that have not left yet, and their batches. */
#include "lock/request_queue.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/times.h"
#include "etcd/batch.h"
#include "protocol/cluster_identity.h"

enum {
  /* background requests in flight, for example deletes of keys whose wait was given up */
  BACKGROUND_MAX = 16,
  /* Largest size, in bytes, of one request in a batch, and of a batch. etcd accepts 1.5 MiB, but
   * small requests must not wait for a large one. */
  MEMBER_BYTES_MAX = 4 * 1024,
  BATCH_BYTES_MAX = 256 * 1024
};

/* Guarded writes with |may_be_slow| have a kind of their own, because an early timeout of a batch
 * leaves them with an unknown outcome, while other requests are sent again. */
enum { WRITES, GUARDED_WRITES, READS, BATCHERS };

TAILQ_HEAD(request_list, el_request);

/* The requests of one kind.
 *
 * If nothing of the kind is in flight, or only one request that left alone, the next requests leave
 * at once. Otherwise they wait for an answer, for at most EL_BATCH_WAIT_MS. What leaves together is
 * one batch. A batch of writes costs etcd one raft entry and one write to disk, however many
 * members it has. */
typedef struct el_batcher {
  el_request_queue *queue;
  struct request_list waiting;
  TAILQ_HEAD(, el_batch) in_flight; /* batches, the latest first */
  int64_t unbatched_until; /* nothing is batched before this (el_now_ms) */
} el_batcher;

/* Requests that have left together. */
typedef struct el_batch {
  el_batcher *batcher;
  struct request_list members;
  size_t n;
  int64_t sent_ms;
  int64_t timeout_ms; /* the shortest time_for of the members */
  TAILQ_ENTRY(el_batch) link;
} el_batch;

struct el_request_queue {
  el_shared *shared;
  el_batcher batchers[BATCHERS];  /* foreground requests that wait, by kind */
  struct request_list background; /* background requests that wait */
  el_timer timer;                 /* due when the next request may leave */
  int background_in_flight;
  int attempts_in_flight;
  uint32_t election_reads;  /* in flight: bit N for member N */
  int64_t election_read_at; /* when the next one may be sent */
  int64_t background_at;    /* when the next background request may leave */

  el_cluster_identity identity;
  el_request verify; /* a transaction that checks the cluster's identity */
  char *verify_key;
  bool is_verifying;      /* |verify| is in flight */
  el_error wrong_cluster; /* code EL_OK: no other cluster has answered */
  bool is_stopping;
};

/* ---- cluster identity ---- */

static el_identity_verdict check_identity(el_request_queue *queue,
                                          const el_cluster_answer *seen) {
  el_error err;
  el_identity_verdict verdict =
      el_cluster_identity_check(&queue->identity, seen, &err);
  if (verdict == EL_IDENTITY_OTHER) {
    queue->wrong_cluster = err;
  }
  return verdict;
}

static void on_verified(el_request *request, el_txn_answer *answer) {
  el_request_queue *queue = EL_CONTAINER_OF(request, el_request_queue, verify);
  queue->is_verifying = false; /* check_answer has already used the answer */
  free(queue->verify_key);
  queue->verify_key = NULL;
  if (answer != NULL) el_txn_answer_free(answer);
}

/* verify sends a transaction that goes through the raft log, so that the revision in its answer
 * cannot be stale. The transaction writes nothing, because its condition, an impossible
 * create_revision of |key|, fails. The user must have the permission to write |key|: etcd checks
 * that first. */
static void verify(el_request_queue *queue, el_bytes key) {
  el_compare never = {.test = EL_CREATE_REV_IS, .rev = INT64_MAX};
  el_op then = {.kind = EL_OP_PUT};
  el_txn txn = {&never, 1, &then, 1, NULL, 0};
  if (queue->is_verifying) return;
  queue->is_verifying = true;
  queue->verify_key = el_strndup(key.data, key.len);
  never.key = then.key = (el_bytes){queue->verify_key, key.len};
  el_request_queue_send(queue, &queue->verify, &txn);
}

/* kind_of_answer returns how far |answer| shows the state of the store (el_cluster_answer). A
 * delete that found no key is no write, because it changes nothing. */
static int kind_of_answer(const el_request *request,
                          const el_txn_answer *answer) {
  if (request->packed.is_serializable) return EL_ANSWER_SERIALIZABLE;
  if (request->packed.is_read) return EL_ANSWER_LINEARIZABLE;
  for (size_t i = 0; i < answer->n_results; i++) {
    const el_op_result *result = &answer->results[i];
    if (result->kind == EL_OP_PUT || result->deleted > 0) {
      return EL_ANSWER_WRITTEN;
    }
  }
  return EL_ANSWER_APPLIED;
}

/* check_answer sets the error of |answer| to a retriable one if |answer| is stale or from another
 * cluster. If another cluster answers, settle (lock/client.c) later ends all holds. */
static void check_answer(el_request_queue *queue, const el_request *request,
                         el_txn_answer *answer) {
  el_cluster_answer seen = {.cluster_id = answer->cluster_id,
                            .rev = answer->rev,
                            .rev_at_send = request->rev_at_send};
  if (answer->err.code != EL_OK) return;
  seen.kind = kind_of_answer(request, answer);
  switch (check_identity(queue, &seen)) {
    case EL_IDENTITY_SAME:
      return;
    case EL_IDENTITY_DOUBTFUL:
      verify(queue, request->packed.key);
      el_error_set(
          &answer->err, EL_UNAVAILABLE,
          "etcd %s is behind: the answer has revision %lld, an earlier "
          "answer had %lld",
          el_request_queue_address(queue), (long long)answer->rev,
          (long long)request->rev_at_send);
      break;
    case EL_IDENTITY_OTHER:
      answer->err = queue->wrong_cluster;
      break;
  }
  answer->err.is_retriable = true;
}

/* ---- batchers ---- */

static void batcher_add(el_batcher *batcher, el_request *request) {
  TAILQ_INSERT_TAIL(&batcher->waiting, request, link);
  request->is_queued = true;
}

static void batcher_remove(el_batcher *batcher, el_request *request) {
  TAILQ_REMOVE(&batcher->waiting, request, link);
  request->is_queued = false;
}

static int64_t batcher_ready_ms(const el_batcher *batcher) {
  const el_batch *last = TAILQ_FIRST(&batcher->in_flight), *before;
  if (TAILQ_EMPTY(&batcher->waiting)) return INT64_MAX;
  if (last == NULL) return 0;
  before = TAILQ_NEXT(last, link);
  if (before == NULL && last->n == 1) return 0;
  return (before != NULL ? before : last)->sent_ms + EL_BATCH_WAIT_MS;
}

/* Tells whether the queue backs off and an attempt is in flight. No other request leaves then: if
 * the attempt fails, the next request leaves after the pause. */
static bool has_attempt_in_flight(const el_request_queue *queue) {
  return el_contact_is_lost(&queue->shared->contact) &&
         queue->attempts_in_flight > 0;
}

static int64_t later(int64_t a_ms, int64_t b_ms) {
  return a_ms > b_ms ? a_ms : b_ms;
}

/* next_ms returns when the next request may leave (el_now_ms). INT64_MAX: none waits, or none may
 * leave before an answer comes. */
static int64_t next_ms(const el_request_queue *queue) {
  int64_t at_ms = INT64_MAX;
  if (has_attempt_in_flight(queue)) return INT64_MAX;
  for (int i = 0; i < BATCHERS; i++) {
    int64_t ready_ms = batcher_ready_ms(&queue->batchers[i]);
    if (ready_ms < at_ms) at_ms = ready_ms;
  }
  if (queue->background_at < at_ms && !TAILQ_EMPTY(&queue->background) &&
      queue->background_in_flight < BACKGROUND_MAX) {
    at_ms = queue->background_at;
  }
  return later(at_ms, queue->shared->contact.next_ms);
}

static el_batcher *batcher_of(el_request_queue *queue,
                              const el_request *request) {
  return &queue->batchers[request->packed.is_read ? READS
                          : request->may_be_slow  ? GUARDED_WRITES
                                                  : WRITES];
}

static void note_leaving(el_request *request, bool shares) {
  el_request_queue *queue = request->queue;
  request->is_attempt = el_contact_is_lost(&queue->shared->contact);
  request->rev_at_send = queue->identity.rev;
  queue->attempts_in_flight += request->is_attempt;
  queue->background_in_flight += request->is_background;
  el_counters_add(&queue->shared->counters, request->counted_as, 1);
  EL_COUNT(&queue->shared->counters, batched, shares);
}

static void on_batch_answer(void *arg, el_txn_answer *answer);

/* ---- sending ---- */

static int64_t attempt_ms(const el_request_queue *queue) {
  return el_channel_attempt_ms(el_auth_channel(queue->shared->auth));
}

/* Tells whether |request|, which leaves now, may have a slow answer. An attempt may not, because
 * other requests wait for its answer. */
static bool may_be_slow(const el_request *request) {
  return request->may_be_slow &&
         !el_contact_is_lost(&request->queue->shared->contact);
}

/* Returns how long |request| may take once it has left: at most until its deadline, and at most
 * el_channel_attempt_ms, unless it may have a slow answer and has a deadline. */
static int64_t time_for(const el_request *request, int64_t now_ms) {
  int64_t most_ms = attempt_ms(request->queue), left_ms;
  if (request->deadline_ms == 0) return most_ms;
  left_ms = request->deadline_ms - now_ms;
  if (left_ms >= most_ms && !may_be_slow(request)) return most_ms;
  return left_ms > 0 ? left_ms : 0;
}

/* Adds |request|, which leaves now and may take |most_ms|, the result of time_for. */
static void add_member(el_batch *batch, el_request *request, int64_t most_ms) {
  note_leaving(request, batch->n > 0);
  if (most_ms < batch->timeout_ms) batch->timeout_ms = most_ms;
  TAILQ_INSERT_TAIL(&batch->members, request, link);
  batch->n++;
}

static el_batch *new_batch(el_batcher *batcher, int64_t now_ms) {
  el_batch *batch = el_alloc(sizeof *batch);
  batch->batcher = batcher;
  batch->sent_ms = now_ms;
  batch->timeout_ms = INT64_MAX;
  TAILQ_INIT(&batch->members);
  TAILQ_INSERT_HEAD(&batcher->in_flight, batch, link);
  return batch;
}

static void set_timeout(el_request *request, int64_t timeout_ms) {
  request->timeout_ms = timeout_ms;
  request->has_short_timeout = timeout_ms < attempt_ms(request->queue);
}

/* ---- election reads ---- */

typedef struct election_read {
  el_request_queue *queue;
  size_t member;
  uint64_t term; /* the largest raft term that was known when it was sent */
} election_read;

static void on_election_read(void *arg, el_txn_answer *answer) {
  election_read *read = arg;
  el_request_queue *queue = read->queue;
  queue->election_reads &= ~((uint32_t)1 << read->member);
  if (!queue->is_stopping && answer->err.code == EL_OK) {
    el_channel_saw_leader(el_auth_channel(queue->shared->auth), read->member,
                          read->term, answer->term);
  }
  el_txn_answer_free(answer);
  free(read);
}

/* Sends a read of |key| to |member|, unless one is in flight there. */
static void send_election_read(el_request_queue *queue, el_bytes key,
                               size_t member) {
  el_auth *auth = queue->shared->auth;
  el_op op = {.kind = EL_OP_RANGE, .key = key, .keys_only = true};
  el_packed_txn packed;
  election_read *read;
  if ((queue->election_reads >> member & 1) != 0) return;
  queue->election_reads |= (uint32_t)1 << member;
  read = el_alloc(sizeof *read);
  *read =
      (election_read){queue, member, el_channel_term(el_auth_channel(auth))};
  el_kv_pack(&packed, &(el_txn){NULL, 0, &op, 1, NULL, 0});
  packed.pinned_member = member + 1;
  el_kv_send(auth, &packed, EL_ELECTION_READ_MS, on_election_read, read);
  el_packed_txn_free(&packed);
  EL_COUNT(&queue->shared->counters, looks, 1);
}

/* During an election, a member leaves requests unanswered, and it never answers a write that it has
 * passed on to the last leader. But it answers a read as soon as there is a new leader. So while
 * the member in use has not answered since the failover, such a read waits there and at the member
 * left last. The client may move to the member that answers (el_channel_saw_leader). A member may
 * also refuse the read at once, so a pause separates these reads. */
static void await_leader(el_request_queue *queue, el_bytes key) {
  const el_channel *ch = el_auth_channel(queue->shared->auth);
  int64_t now_ms = el_now_ms();
  if (!el_channel_is_doubtful(ch) || now_ms < queue->election_read_at) return;
  queue->election_read_at = now_ms + EL_ANSWER_MS;
  send_election_read(queue, key, el_channel_member(ch));
  send_election_read(queue, key, el_channel_left_member(ch));
}

/* ---- sending ---- */

static void send_one(el_batch *batch) {
  el_request *request = TAILQ_FIRST(&batch->members);
  el_request_queue *queue = request->queue;
  set_timeout(request, batch->timeout_ms);
  request->packed.may_be_slow = may_be_slow(request);
  el_kv_send(queue->shared->auth, &request->packed, request->timeout_ms,
             on_batch_answer, batch);
  await_leader(queue, request->packed.key);
}

static void send_many(el_batch *batch) {
  const el_packed_txn *members[EL_BATCH_OPS_MAX];
  el_packed_txn packed;
  el_request *request;
  size_t n = 0;
  TAILQ_FOREACH(request, &batch->members, link) {
    members[n++] = &request->packed;
    set_timeout(request, batch->timeout_ms);
  }
  el_batch_pack(&packed, members, n);
  /* |may_be_slow| is the same for all members */
  packed.may_be_slow = may_be_slow(TAILQ_FIRST(&batch->members));
  el_kv_send(batch->batcher->queue->shared->auth, &packed, batch->timeout_ms,
             on_batch_answer, batch);
  el_packed_txn_free(&packed);
}

/* Tells whether |request| may be a member of a batch. */
static bool can_be_batched(const el_request *request) {
  return !request->was_refused_in_batch && !request->is_unbatched &&
         request->packed.len <= MEMBER_BYTES_MAX &&
         el_batch_cost(&request->packed) <= EL_BATCH_OPS_MAX;
}

/* Tells whether two requests with the times |a_ms| and |b_ms| may share a batch, which has the
 * shorter time. A time above EL_CALL_MS counts as EL_CALL_MS. */
static bool is_same_time(int64_t a_ms, int64_t b_ms) {
  if (a_ms > EL_CALL_MS) a_ms = EL_CALL_MS;
  if (b_ms > EL_CALL_MS) b_ms = EL_CALL_MS;
  return a_ms - b_ms <= EL_BATCH_SPREAD_MS && b_ms - a_ms <= EL_BATCH_SPREAD_MS;
}

/* Tells whether a member of |batch| puts a key into the lock queue that |request| changes. Then
 * |request| must not join the batch, because all writes of a batch have the same revision. Two keys
 * would have no order. And if |request| deletes the key for which the member then waits, the watch
 * of that key, which begins after this revision, would not report the deletion. */
static bool follows_enqueue(const el_batch *batch, const el_request *request) {
  const el_request *member;
  TAILQ_FOREACH(member, &batch->members, link) {
    if (member->is_enqueue && member->lock_queue == request->lock_queue) {
      return true;
    }
  }
  return false;
}

/* fill adds the next waiting requests to |batch|, in order, as long as they fit. */
static void fill(el_batch *batch) {
  el_batcher *batcher = batch->batcher;
  const el_request *first = TAILQ_FIRST(&batch->members);
  size_t cost, bytes;
  int64_t first_ms = batch->timeout_ms, most_ms;
  el_request *next;
  if (TAILQ_EMPTY(&batcher->waiting) ||
      batch->sent_ms < batcher->unbatched_until || !can_be_batched(first)) {
    return;
  }
  cost = el_batch_cost(&first->packed);
  bytes = first->packed.len;
  while ((next = TAILQ_FIRST(&batcher->waiting)) != NULL &&
         can_be_batched(next) && !follows_enqueue(batch, next)) {
    most_ms = time_for(next, batch->sent_ms);
    if (!is_same_time(first_ms, most_ms)) return;
    cost += el_batch_cost(&next->packed);
    bytes += next->packed.len;
    if (cost > EL_BATCH_OPS_MAX || bytes > BATCH_BYTES_MAX) return;
    batcher_remove(batcher, next);
    add_member(batch, next, most_ms);
  }
}

static void batcher_send(el_batcher *batcher, bool only_one, int64_t now_ms) {
  el_request *first = TAILQ_FIRST(&batcher->waiting);
  el_batch *batch = new_batch(batcher, now_ms);
  batcher_remove(batcher, first);
  add_member(batch, first, time_for(first, now_ms));
  if (!only_one) {
    fill(batch);
  }
  if (batch->n == 1) {
    send_one(batch);
  } else {
    send_many(batch);
  }
}

static void batcher_send_alone(el_batcher *batcher, el_request *request,
                               int64_t now_ms) {
  el_batch *batch = new_batch(batcher, now_ms);
  add_member(batch, request, time_for(request, now_ms));
  send_one(batch);
}

/* ---- the queue ---- */

static void enqueue(el_request_queue *queue, el_request *request) {
  if (request->is_background) {
    request->is_queued = true;
    TAILQ_INSERT_TAIL(&queue->background, request, link);
  } else {
    batcher_add(batcher_of(queue, request), request);
  }
}

static void dequeue(el_request_queue *queue, el_request *request) {
  if (request->is_background) {
    request->is_queued = false;
    TAILQ_REMOVE(&queue->background, request, link);
  } else {
    batcher_remove(batcher_of(queue, request), request);
  }
}

static bool may_leave(const el_request_queue *queue, int64_t now_ms) {
  return now_ms >= queue->shared->contact.next_ms &&
         !has_attempt_in_flight(queue);
}

static void send_foreground(el_request_queue *queue, int64_t now_ms) {
  for (int i = 0; i < BATCHERS; i++) {
    el_batcher *batcher = &queue->batchers[i];
    while (may_leave(queue, now_ms) && batcher_ready_ms(batcher) <= now_ms) {
      batcher_send(batcher, el_contact_is_lost(&queue->shared->contact),
                   now_ms);
    }
  }
}

static void send_background(el_request_queue *queue, int64_t now_ms) {
  el_request *request;
  while (may_leave(queue, now_ms) && now_ms >= queue->background_at &&
         queue->background_in_flight < BACKGROUND_MAX &&
         (request = TAILQ_FIRST(&queue->background)) != NULL) {
    queue->background_at = now_ms + EL_BACKGROUND_EVERY_MS;
    dequeue(queue, request);
    batcher_send_alone(batcher_of(queue, request), request, now_ms);
  }
}

void el_request_queue_send_ready(el_request_queue *queue) {
  int64_t at_ms = next_ms(queue);
  if (at_ms != INT64_MAX) {
    int64_t now_ms = el_now_ms();
    send_foreground(queue, now_ms);
    send_background(queue, now_ms);
    at_ms = next_ms(queue);
  }
  if (at_ms != INT64_MAX) {
    el_timers_set(queue->shared->timers, &queue->timer, at_ms);
  } else {
    el_timers_stop(queue->shared->timers, &queue->timer);
  }
}

/* settle (lock/client.c) runs after the timers that are due, and sends. */
static void on_timer(el_timer *timer) { (void)timer; }

/* Tells whether |answer| is a timeout that does not show that etcd is unreachable. Either the
 * timeout was shorter than el_channel_attempt_ms; or the request took the whole timeout, and etcd
 * was reached after the request was sent. (A request that ended early does show it: the health
 * check found that the connection answers nothing.) */
static bool is_inconclusive(const el_request_queue *queue,
                            const el_request *request,
                            const el_txn_answer *answer) {
  bool took_all = el_now_ms() >= answer->sent_ms + request->timeout_ms;
  return answer->err.is_unanswered &&
         (request->has_short_timeout ||
          (took_all && answer->sent_ms < queue->shared->contact.reached_ms));
}

/* Notes what |err|, with which a request or a lease call has ended, shows about the contact. |err|
 * is no failure if another member may answer, or if etcd is alive, but busy with passwords. */
static void note_contact(el_request_queue *queue, const el_error *err) {
  el_contact *contact = &queue->shared->contact;
  if (err->code != EL_UNAVAILABLE) {
    el_contact_reached(contact);
    el_events_note_answer(&queue->shared->events);
  } else if (!err->has_other_member && !err->is_busy) {
    el_contact_failed(contact, err);
  }
}

/* ---- answers ---- */

static void note_failure(el_request_queue *queue, const el_error *err) {
  if (err->is_from_etcd) queue->shared->contact.has_answered = true;
  EL_COUNT(&queue->shared->counters, failed_attempts, 1);
  el_events_note_failure(&queue->shared->events, err);
}

/* Tells whether |request| is a write of which a repeat may do harm, unlike the put of an entry's
 * key. */
static bool is_plain_write(const el_request *request) {
  return !request->packed.is_read && !request->is_enqueue;
}

/* Gives the error of a write that may have been applied the code of an unknown outcome, whatever
 * the cause. For example, etcd has applied the write if only its answer was too large, and perhaps
 * if its database is full (base/error.c). The message still tells the cause. */
static void note_unknown_outcome(el_error *err) {
  if (err->code == EL_INVALID) err->is_retriable = true;
  err->code = EL_UNAVAILABLE;
}

/* Passes |answer| to the sender of |request|. */
static void answer_request(el_request *request, el_txn_answer *answer) {
  el_request_queue *queue = request->queue;
  queue->attempts_in_flight -= request->is_attempt;
  queue->background_in_flight -= request->is_background;
  if (queue->is_stopping) {
    el_packed_txn_free(&request->packed);
    el_txn_answer_free(answer);
    request->done(request, NULL);
    return;
  }
  if (!is_inconclusive(queue, request, answer)) {
    note_contact(queue, &answer->err);
  }
  if (request->has_short_timeout && answer->err.is_unanswered &&
      el_contact_is_lost(&queue->shared->contact)) {
    /* the timeout was short, so it says less than the last error */
    bool is_definite = answer->err.is_definite;
    answer->err = queue->shared->contact.error;
    answer->err.is_definite = is_definite;
  }
  check_answer(queue, request, answer);
  if (answer->err.code != EL_OK) {
    note_failure(queue, &answer->err);
  }
  if (answer->err.code != EL_OK && !answer->err.is_definite &&
      is_plain_write(request)) {
    note_unknown_outcome(&answer->err);
  }
  el_packed_txn_free(&request->packed);
  request->done(request, answer);
}

static void drop_all(el_request_queue *queue) {
  el_request *request;
  for (int i = 0; i < BATCHERS; i++) {
    TAILQ_CONCAT(&queue->background, &queue->batchers[i].waiting, link);
  }
  while ((request = TAILQ_FIRST(&queue->background)) != NULL) {
    TAILQ_REMOVE(&queue->background, request, link);
    request->is_queued = false;
    el_packed_txn_free(&request->packed);
    request->done(request, NULL);
  }
}

/* ---- answers of batches ---- */

/* may_be_of_one_member tells whether |err|, with which a batch failed, may be due to one of its
 * members. etcd has carried out no member of such a batch. */
static bool may_be_of_one_member(const el_error *err) {
  return err->code != EL_OK && err->is_definite && !err->is_retriable;
}

/* Makes the members of |batch| wait again, each to be sent alone. |is_applied|: etcd has carried
 * out the batch. Then only those are sent again for which that is harmless. */
static void send_separately(el_batch *batch, bool is_applied) {
  el_batcher *batcher = batch->batcher;
  el_request *request, *before;
  for (request = TAILQ_LAST(&batch->members, request_list); request != NULL;
       request = before) {
    before = TAILQ_PREV(request, request_list, link);
    if (is_applied && is_plain_write(request)) continue;
    TAILQ_REMOVE(&batch->members, request, link);
    TAILQ_INSERT_HEAD(&batcher->waiting, request, link);
    request->is_queued = request->was_refused_in_batch = true;
  }
}

static el_txn_answer *failed_like(const el_txn_answer *whole) {
  el_txn_answer *answer = el_alloc(sizeof *answer);
  answer->err = whole->err;
  answer->sent_ms = whole->sent_ms;
  return answer;
}

static void answer_each(el_batch *batch, el_txn_answer *whole) {
  bool ok = whole->err.code == EL_OK;
  el_request *request;
  size_t at = 0;
  while ((request = TAILQ_FIRST(&batch->members)) != NULL) {
    TAILQ_REMOVE(&batch->members, request, link);
    answer_request(request, ok ? el_batch_take(whole, &request->packed, &at)
                               : failed_like(whole));
  }
}

static void on_batch_answer(void *arg, el_txn_answer *answer) {
  el_batch *batch = arg;
  el_batcher *batcher = batch->batcher;
  el_request *first = TAILQ_FIRST(&batch->members);
  TAILQ_REMOVE(&batcher->in_flight, batch, link);
  el_channel_saw_term(el_auth_channel(batcher->queue->shared->auth),
                      answer->term);
  if (answer->err.code == EL_NO_SPACE) {
    batcher->unbatched_until = el_now_ms() + EL_UNBATCHED_MS;
  }
  if (batch->n == 1) {
    TAILQ_REMOVE(&batch->members, first, link);
    answer_request(first, answer);
  } else if (may_be_of_one_member(&answer->err)) {
    send_separately(batch, false);
    el_txn_answer_free(answer);
  } else {
    if (answer->err.is_too_large) {
      /* the answers may be small enough one by one */
      send_separately(batch, true);
      batcher->unbatched_until = el_now_ms() + EL_UNBATCHED_MS;
    }
    answer_each(batch, answer);
    el_txn_answer_free(answer);
  }
  free(batch);
  if (batcher->queue->is_stopping) {
    /* members of a failed batch, which were to be sent separately */
    drop_all(batcher->queue);
  }
}

/* ---- interface ---- */

void el_request_queue_send(el_request_queue *queue, el_request *request,
                           const el_txn *txn) {
  request->queue = queue;
  request->was_refused_in_batch = false;
  if (queue->is_stopping) {
    request->done(request, NULL);
    return;
  }
  el_kv_pack(&request->packed, txn);
  enqueue(queue, request);
}

bool el_request_queue_withdraw(el_request_queue *queue, el_request *request) {
  if (!request->is_queued) return false;
  dequeue(queue, request);
  el_packed_txn_free(&request->packed);
  return true;
}

void el_request_queue_expedite(el_request_queue *queue, el_request *request) {
  if (!request->is_background) return;
  if (request->is_queued) {
    dequeue(queue, request);
    request->is_background = false;
    enqueue(queue, request);
  } else { /* it is in flight */
    queue->background_in_flight--;
    request->is_background = false;
  }
}

bool el_request_queue_check_lease_answer(el_request_queue *queue,
                                         const el_lease_answer *answer) {
  el_cluster_answer seen = {.cluster_id = answer->cluster_id,
                            .kind = EL_ANSWER_SERIALIZABLE};
  el_channel_saw_term(el_auth_channel(queue->shared->auth), answer->term);
  if (answer->err.code != EL_OK) {
    note_failure(queue, &answer->err);
  }
  note_contact(queue, &answer->err);
  return answer->err.code != EL_OK || seen.cluster_id == 0 ||
         check_identity(queue, &seen) == EL_IDENTITY_SAME;
}

/* ---- life ---- */

el_request_queue *el_request_queue_new(el_shared *shared) {
  el_request_queue *queue = el_alloc(sizeof *queue);
  queue->shared = shared;
  queue->timer.on_due = on_timer;
  queue->verify.done = on_verified;
  queue->verify.counted_as = offsetof(el_stats, calls);
  for (int i = 0; i < BATCHERS; i++) {
    queue->batchers[i].queue = queue;
    TAILQ_INIT(&queue->batchers[i].waiting);
    TAILQ_INIT(&queue->batchers[i].in_flight);
  }
  TAILQ_INIT(&queue->background);
  return queue;
}

void el_request_queue_stop(el_request_queue *queue) {
  queue->is_stopping = true;
  el_timers_stop(queue->shared->timers, &queue->timer);
  drop_all(queue);
}

void el_request_queue_free(el_request_queue *queue) { free(queue); }

/* ---- state ---- */

int64_t el_request_queue_wait_limit_ms(const el_request_queue *queue) {
  if (queue->shared->contact.has_answered ||
      el_auth_was_answered(queue->shared->auth)) {
    return INT64_MAX;
  }
  return el_channel_is_failing(el_auth_channel(queue->shared->auth))
             ? EL_CALL_MS
             : EL_FIRST_CONTACT_MS;
}

const el_error *el_request_queue_wrong_cluster(const el_request_queue *queue) {
  return queue->wrong_cluster.code != EL_OK ? &queue->wrong_cluster : NULL;
}

const char *el_request_queue_address(const el_request_queue *queue) {
  const el_channel *ch = el_auth_channel(queue->shared->auth);
  return el_channel_address(ch, el_channel_member(ch));
}
