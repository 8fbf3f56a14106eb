/* guarded: one transaction that a caller asks for. */
#include "lock/guarded.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/container_of.h"
#include "base/times.h"
#include "lock/request_queue.h"
#include "lock/task.h"
#include "protocol/retry.h"

struct el_guarded {
  el_task task;
  /* The fields up to |deadline_ms| are constant after el_guarded_start. */
  /* guards the transaction by its hold; NULL: |guards| do, if they are used */
  el_lock *lk;
  /* conditions on create_revision and lease of a key; empty: not used */
  el_compare guards[2];
  el_op *ops;
  size_t n_ops;
  bool writes;         /* at least one operation writes */
  bool is_downgrade;   /* it writes the marker key of a downgrade */
  bool is_proclaim;    /* it writes the key of |lk| */
  int64_t deadline_ms; /* when the transaction must have ended (el_now_ms) */

  atomic_bool is_dropped; /* Lua does not wait for the answer */
  el_command command;

  /* Used by the I/O thread only. */
  uint8_t failures; /* failed attempts in a row, for the backoff */
  el_request request;
  bool is_queued; /* it waits in the list of the hold's writes */
  bool has_turn;  /* it is the write in progress of the hold */
  /* |request| is under way; it has a reference to this transaction */
  bool is_sent;
  bool is_finished; /* |answer| is set; an answer that comes later is ignored */
  /* the last answer found a key of |lk| attached to another lease or to none */
  bool is_detached;
  /* In shared->resting, the timer is due at the next attempt, or at the deadline if |is_queued|.
   * While |is_sent|, it is due at the deadline. */
  el_timer timer;
  TAILQ_ENTRY(el_guarded) order_link; /* in the list of the hold's writes */
  TAILQ_ENTRY(el_guarded) link;       /* in shared->resting */

  el_txn_answer *answer; /* written before EL_GUARDED_ANSWERED completes */
};

static void unref(el_guarded *guarded) {
  if (!el_task_unref(&guarded->task)) return;
  for (size_t i = 0; i < guarded->n_ops; i++) {
    el_bytes_free(guarded->ops[i].key);
    el_bytes_free(guarded->ops[i].range_end);
    el_bytes_free(guarded->ops[i].value);
  }
  free(guarded->ops);
  el_bytes_free(guarded->guards[0].key); /* both guards share it */
  if (guarded->answer != NULL) {
    el_txn_answer_free(guarded->answer);
  }
  if (guarded->lk != NULL) {
    el_lock_unref(guarded->lk);
  }
  free(guarded);
}

/* ---- on the I/O thread ---- */

/* Returns the writes of the hold, which are sent in order. NULL: the transaction needs no order,
 * because it only reads or has no hold. */
static el_writes *writes_of(const el_guarded *guarded) {
  return guarded->lk != NULL && guarded->writes ? el_lock_writes(guarded->lk)
                                                : NULL;
}

static void take_turn(el_guarded *guarded);

/* Removes a transaction that is over from the order of the hold's writes, and starts the next
 * write. A write that fails at once does not become the write in progress; the loop then starts the
 * one after it. */
static void leave_order(el_guarded *guarded) {
  el_writes *writes = writes_of(guarded);
  if (guarded->is_queued) {
    guarded->is_queued = false;
    TAILQ_REMOVE(&writes->waiting, guarded, order_link);
  }
  if (!guarded->has_turn) return;
  guarded->has_turn = false;
  el_write_order_end(&writes->order);
  while (!TAILQ_EMPTY(&writes->waiting) &&
         writes->order.state == EL_WRITE_IDLE &&
         guarded->task.shared->closed.code == EL_OK) {
    take_turn(TAILQ_FIRST(&writes->waiting));
  }
}

static void finish(el_guarded *guarded, el_txn_answer *answer) {
  guarded->is_finished = true;
  guarded->answer = answer;
  leave_order(guarded);
  el_completion_complete(&guarded->task.completion, EL_GUARDED_ANSWERED);
  unref(guarded);
}

static void fail(el_guarded *guarded, const el_error *err) {
  el_txn_answer *answer = el_alloc(sizeof *answer);
  answer->err = *err;
  finish(guarded, answer);
}

static void send(el_guarded *guarded, const el_txn *txn) {
  guarded->is_sent = true;
  guarded->request.deadline_ms = guarded->deadline_ms;
  el_task_ref(&guarded->task);
  el_timers_set(guarded->task.shared->timers, &guarded->timer,
                guarded->deadline_ms);
  el_request_queue_send(guarded->task.shared->requests, &guarded->request, txn);
}

static void send_touch(el_guarded *guarded) {
  EL_UNINITIALIZED el_lock_txn built;
  el_guard writer = el_lock_writer(guarded->lk);
  guarded->request.may_be_slow = false;
  el_lock_txn_build_touch(&built, &writer);
  send(guarded, &built.txn);
}

static void send_operations(el_guarded *guarded) {
  EL_UNINITIALIZED el_lock_txn built;
  const el_writes *writes = writes_of(guarded);
  el_txn txn = {.compares = guarded->guards,
                .n_compares = guarded->guards[0].key.len > 0 ? 2 : 0,
                .then = guarded->ops,
                .n_then = guarded->n_ops};
  if (guarded->lk != NULL) {
    el_guard writer = el_lock_writer(guarded->lk);
    el_lock_txn_build_guarded(&built, &writer,
                              writes != NULL ? &writes->order : NULL,
                              guarded->ops, guarded->n_ops);
    txn = built.txn;
  }
  /* A write of unknown outcome cannot be repeated, so it waits longer for a slow answer. */
  guarded->request.may_be_slow =
      guarded->writes && !guarded->task.shared->fail_fast;
  send(guarded, &txn);
}

/* Fails a write because its hold has ended. The caller reads from the lock how the hold has
 * ended. */
static void fail_hold_ended(el_guarded *guarded) {
  el_error err;
  el_error_set(&err, EL_NOT_HELD, "the hold ended before this write was sent");
  err.is_definite = true;
  fail(guarded, &err);
}

/* Has the write wait until the write in progress of the hold has ended. */
static void queue_up(el_guarded *guarded) {
  guarded->is_queued = true;
  TAILQ_INSERT_TAIL(&writes_of(guarded)->waiting, guarded, order_link);
  TAILQ_INSERT_TAIL(&guarded->task.shared->resting, guarded, link);
  el_timers_set(guarded->task.shared->timers, &guarded->timer,
                guarded->deadline_ms);
}

/* Sends what |action| asks for, or fails the write because its hold has ended. */
static void perform(el_guarded *guarded, el_write_action action) {
  if (action == EL_WRITE_REPORT_NOT_HELD) {
    fail_hold_ended(guarded);
    return;
  }
  guarded->has_turn = true;
  if (action == EL_WRITE_SEND_TOUCH) {
    send_touch(guarded);
  } else {
    send_operations(guarded);
  }
}

/* Sends the transaction, first or again. A transaction with an order first waits for the write in
 * progress. */
static void attempt(el_guarded *guarded) {
  el_writes *writes = writes_of(guarded);
  if (writes == NULL) {
    send_operations(guarded);
  } else if (!guarded->has_turn && writes->order.state != EL_WRITE_IDLE) {
    queue_up(guarded);
  } else {
    perform(guarded, el_write_order_send(&writes->order,
                                         el_lock_is_holding(guarded->lk)));
  }
}

/* Has the transaction wait for its next attempt. Returns false if there is none: the client is
 * closed, calls must fail fast, another cluster answers, or the deadline comes first. */
static bool rest(el_guarded *guarded, const el_txn_answer *answer) {
  const el_shared *shared = guarded->task.shared;
  el_outcome failed = el_outcome_of(&answer->err, answer->sent_ms);
  int64_t at_ms;
  if (shared->closed.code != EL_OK ||
      (shared->fail_fast && el_contact_is_lost(&shared->contact)) ||
      el_request_queue_wrong_cluster(shared->requests) != NULL) {
    return false;
  }
  at_ms = el_retry_next(&failed, el_now_ms(), &guarded->failures, el_random());
  if (at_ms >= guarded->deadline_ms) return false;
  el_timers_set(guarded->task.shared->timers, &guarded->timer, at_ms);
  TAILQ_INSERT_TAIL(&guarded->task.shared->resting, guarded, link);
  return true;
}

/* Ends a transaction that is not under way if the client is closed or Lua has dropped the
 * transaction. Returns whether it has ended. */
static bool end_if_unwanted(el_guarded *guarded) {
  el_error cancelled;
  if (guarded->task.shared->closed.code != EL_OK) {
    fail(guarded, &guarded->task.shared->closed);
    return true;
  }
  if (!atomic_load(&guarded->is_dropped)) return false;
  el_error_set(&cancelled, EL_CANCELLED,
               "the transaction was dropped before it was sent");
  fail(guarded, &cancelled);
  return true;
}

static void take_turn(el_guarded *guarded) {
  guarded->is_queued = false;
  TAILQ_REMOVE(&writes_of(guarded)->waiting, guarded, order_link);
  TAILQ_REMOVE(&guarded->task.shared->resting, guarded, link);
  el_timers_stop(guarded->task.shared->timers, &guarded->timer);
  if (!end_if_unwanted(guarded)) {
    attempt(guarded);
  }
}

static el_write_action judge(el_guarded *guarded, const el_txn_answer *answer) {
  el_writes *writes = writes_of(guarded);
  el_guard writer = {.keys = NULL};
  el_write_answer read;
  if (guarded->lk != NULL) writer = el_lock_writer(guarded->lk);
  read = el_lock_txn_read_guarded(&writer, answer);
  guarded->is_detached = read.is_detached;
  if (writes != NULL) {
    return el_write_order_take_answer(&writes->order, &read,
                                      el_lock_is_holding(guarded->lk),
                                      guarded->is_proclaim);
  }
  if (el_write_may_retry(&read.outcome, guarded->writes)) {
    return EL_WRITE_RETRY_LATER;
  }
  if (!read.outcome.is_done) return EL_WRITE_REPORT_FAILED;
  return read.succeeded ? EL_WRITE_REPORT_DONE : EL_WRITE_REPORT_KEY_GONE;
}

static void take_answer(el_guarded *guarded, el_txn_answer *answer) {
  el_write_action action = judge(guarded, answer);
  if (action == EL_WRITE_RETRY_LATER && !rest(guarded, answer)) {
    /* a write that may be sent again is certainly not applied */
    action = guarded->writes ? EL_WRITE_REPORT_UNSENT : EL_WRITE_REPORT_FAILED;
  }
  switch (action) {
    case EL_WRITE_RETRY_LATER:
      el_txn_answer_free(answer);
      return;
    case EL_WRITE_REPORT_KEY_GONE:
      if (guarded->lk != NULL) {
        el_lock_key_gone(guarded->lk, guarded->is_detached);
      }
      break;
    case EL_WRITE_REPORT_UNSENT:
      answer->err.is_definite = true;
      break;
    case EL_WRITE_REPORT_DONE:
    case EL_WRITE_REPORT_FAILED:
      break;
    default:
      el_txn_answer_free(answer);
      if (!end_if_unwanted(guarded)) {
        perform(guarded, action);
      }
      return;
  }
  finish(guarded, answer);
}

/* Fails a transaction whose request was under way when the client stopped. etcd may still apply
 * it. */
static void fail_unanswered(el_guarded *guarded) {
  el_error err = guarded->task.shared->closed;
  err.is_definite = false;
  if (guarded->writes) err.code = EL_UNAVAILABLE; /* of an unknown outcome */
  fail(guarded, &err);
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  el_guarded *guarded = EL_CONTAINER_OF(request, el_guarded, request);
  guarded->is_sent = false;
  if (!guarded->is_finished) {
    el_timers_stop(guarded->task.shared->timers, &guarded->timer);
  }
  if (guarded->is_finished && answer != NULL) {
    el_txn_answer_free(answer);
  } else if (!guarded->is_finished && answer != NULL) {
    take_answer(guarded, answer);
  } else if (!guarded->is_finished) {
    fail_unanswered(guarded);
  }
  unref(guarded);
}

/* Fails a transaction whose request is still in the request queue at its deadline. The request must
 * not leave later, because after the error the caller may write something else. Returns false if
 * the request has left. */
static bool withdraw(el_guarded *guarded) {
  el_request_queue *requests = guarded->task.shared->requests;
  const el_contact *contact = &guarded->task.shared->contact;
  el_error err;
  if (!el_request_queue_withdraw(requests, &guarded->request)) return false;
  if (el_contact_is_lost(contact)) {
    err = contact->error;
  } else {
    el_error_set(&err, EL_UNAVAILABLE,
                 "etcd %s: the request was not sent in time",
                 el_request_queue_address(requests));
  }
  err.is_definite = true;
  guarded->is_sent = false;
  fail(guarded, &err);
  unref(guarded);
  return true;
}

/* Fails a transaction at its deadline. If its request has left, the call usually ends at its own
 * deadline (net/call.c), with an error that says more. So this function waits for EL_GRACE_MS. */
static void on_deadline(el_guarded *guarded) {
  int64_t last_ms = guarded->deadline_ms + EL_GRACE_MS;
  el_writes *writes = writes_of(guarded);
  el_error err;
  if (withdraw(guarded)) return;
  if (el_now_ms() < last_ms) {
    el_timers_set(guarded->task.shared->timers, &guarded->timer, last_ms);
    return;
  }
  el_error_set(&err, EL_UNAVAILABLE, "etcd %s: no answer in time",
               el_request_queue_address(guarded->task.shared->requests));
  err.is_definite = writes != NULL && el_write_order_give_up(&writes->order);
  fail(guarded, &err);
}

static void fail_queued(el_guarded *guarded) {
  el_error err;
  el_error_set(&err, EL_UNAVAILABLE,
               "etcd %s: no answer in time to an earlier write of this hold",
               el_request_queue_address(guarded->task.shared->requests));
  fail(guarded, &err);
}

static void on_timer(el_timer *timer) {
  el_guarded *guarded = EL_CONTAINER_OF(timer, el_guarded, timer);
  if (guarded->is_sent) {
    on_deadline(guarded);
    return;
  }
  TAILQ_REMOVE(&guarded->task.shared->resting, guarded, link);
  if (guarded->is_queued) {
    fail_queued(guarded);
  } else if (!end_if_unwanted(guarded)) {
    attempt(guarded);
  }
}

static void run_start(el_command *command) {
  el_guarded *guarded = EL_CONTAINER_OF(command, el_guarded, command);
  const el_error *wrong =
      el_request_queue_wrong_cluster(guarded->task.shared->requests);
  if (guarded->task.shared->closed.code != EL_OK) {
    fail(guarded, &guarded->task.shared->closed);
  } else if (wrong != NULL) {
    fail(guarded, wrong);
  } else {
    if (guarded->is_downgrade) el_lock_start_downgrade(guarded->lk);
    attempt(guarded);
  }
}

void el_guarded_fail_all(el_shared *shared) {
  el_guarded *guarded;
  while ((guarded = TAILQ_FIRST(&shared->resting)) != NULL) {
    TAILQ_REMOVE(&shared->resting, guarded, link);
    el_timers_stop(shared->timers, &guarded->timer);
    fail(guarded, &shared->closed);
  }
}

/* ---- on a Lua thread ---- */

el_guarded *el_guarded_new(el_shared *shared) {
  el_guarded *guarded = calloc(1, sizeof *guarded);
  if (guarded == NULL) return NULL;
  el_task_init(&guarded->task, shared);
  guarded->request.counted_as = offsetof(el_stats, calls);
  return guarded;
}

void el_guarded_drop(el_guarded *guarded) {
  if (!el_shared_is_forked(guarded->task.shared)) {
    atomic_store(&guarded->is_dropped, true);
    unref(guarded);
  }
}

static bool copy_bytes(el_bytes *to, el_bytes from) {
  *to = (el_bytes){el_bytes_copy(from), from.len};
  return to->data != NULL;
}

bool el_guarded_add(el_guarded *guarded, const el_op *op) {
  el_op *ops = realloc(guarded->ops, (guarded->n_ops + 1) * sizeof *ops);
  el_op *added;
  if (ops == NULL) return false;
  guarded->ops = ops;
  added = &ops[guarded->n_ops++];
  *added = *op;
  added->key = added->range_end = added->value = (el_bytes){0};
  guarded->writes = guarded->writes || op->kind != EL_OP_RANGE;
  guarded->request.is_unbatched =
      guarded->writes && (guarded->n_ops > 1 || op->range_end.len > 0);
  return copy_bytes(&added->key, op->key) &&
         copy_bytes(&added->range_end, op->range_end) &&
         copy_bytes(&added->value, op->value);
}

bool el_guarded_guard(el_guarded *guarded, el_bytes key, int64_t rev,
                      int64_t lease) {
  el_bytes copy;
  assert(guarded->guards[0].key.len == 0 && guarded->lk == NULL);
  if (!copy_bytes(&copy, key)) return false;
  guarded->guards[0] =
      (el_compare){.test = EL_CREATE_REV_IS, .key = copy, .rev = rev};
  guarded->guards[1] =
      (el_compare){.test = EL_LEASE_IS, .key = copy, .rev = lease};
  return true;
}

void el_guarded_guard_lock(el_guarded *guarded, el_lock *lk) {
  assert(guarded->guards[0].key.len == 0 && guarded->lk == NULL);
  guarded->lk = el_lock_ref(lk);
}

bool el_guarded_downgrade(el_guarded *guarded, el_lock *lk) {
  char key[EL_KEY_SIZE];
  el_guard writer = el_lock_writer(lk);
  el_op put = el_lock_txn_downgrade_op(&writer, key);
  guarded->is_downgrade = true;
  el_guarded_guard_lock(guarded, lk);
  return el_guarded_add(guarded, &put);
}

bool el_guarded_proclaim(el_guarded *guarded, el_lock *lk, el_bytes value) {
  el_guard writer = el_lock_writer(lk);
  el_op put = el_lock_txn_proclaim_op(&writer, value);
  guarded->is_proclaim = true;
  el_guarded_guard_lock(guarded, lk);
  return el_guarded_add(guarded, &put);
}

bool el_guarded_start(el_guarded *guarded, int64_t timeout_ms, el_error *err) {
  if (!el_shared_is_usable(guarded->task.shared, err)) return false;
  guarded->request.done = on_answer;
  guarded->timer.on_due = on_timer;
  guarded->command.run = run_start;
  guarded->deadline_ms = el_now_ms() + timeout_ms;
  return el_task_post(&guarded->task, &guarded->command, err);
}

const el_txn_answer *el_guarded_wait(el_guarded *guarded, int64_t timeout_ms) {
  return el_task_wait(&guarded->task, EL_GUARDED_ANSWERED, timeout_ms)
             ? guarded->answer
             : NULL;
}

el_completion *el_guarded_completion(el_guarded *guarded) {
  return &guarded->task.completion;
}
