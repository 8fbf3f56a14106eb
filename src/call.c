/* L3 call: one transaction of a caller's own. */
#include "call.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "client_int.h"
#include "clock.h"
#include "retry.h"

/* gRPC's own word about a deadline says more than ours. */
enum { GRACE_MS = 100 };

struct el_call {
  atomic_int refs;
  el_client *cl;
  el_lock *lk; /* guarded by this lock's token; may be NULL */
  el_compare guard;
  bool guarded;
  el_op *ops;
  size_t n_ops;
  bool writes;
  int64_t deadline_ms;
  int64_t rev_then; /* the cluster's revision when it was sent */
  int attempts;
  bool asked;    /* an attempt is out; it has a reference of its own */
  bool finished; /* its answer comes too late */
  el_command command;
  el_timer timer; /* until the next attempt; in cl->calls meanwhile. Or, while
                     an attempt is out, until the deadline */
  TAILQ_ENTRY(el_call) link;
  el_waiter answered;
  el_txn_answer *answer;
};

/* ---- building ---- */

el_call *el_call_new(el_client *cl) {
  el_call *call = calloc(1, sizeof *call);
  if (call == NULL) return NULL;
  atomic_init(&call->refs, 1);
  call->cl = el_client_ref(cl);
  el_waiter_init(&call->answered);
  return call;
}

static void free_bytes(el_bytes bytes) { free((void *)(uintptr_t)bytes.data); }

static void unref(el_call *call) {
  if (atomic_fetch_sub(&call->refs, 1) != 1) return;
  for (size_t i = 0; i < call->n_ops; i++) {
    free_bytes(call->ops[i].key);
    free_bytes(call->ops[i].range_end);
    free_bytes(call->ops[i].value);
  }
  free(call->ops);
  free_bytes(call->guard.key);
  if (call->answer != NULL) {
    el_txn_answer_free(call->answer);
  }
  if (call->lk != NULL) {
    el_lock_unref(call->lk);
  }
  el_waiter_destroy(&call->answered);
  el_client_unref(call->cl);
  free(call);
}

void el_call_drop(el_call *call) {
  if (!el_client_is_forked(call->cl)) {
    unref(call);
  }
}

static bool copy_bytes(el_bytes *to, el_bytes from) {
  char *copy = malloc(from.len + 1);
  if (copy == NULL) return false;
  if (from.len > 0) {
    memcpy(copy, from.data, from.len);
  }
  *to = (el_bytes){copy, from.len};
  return true;
}

bool el_call_add(el_call *call, const el_op *op) {
  el_op *ops = realloc(call->ops, (call->n_ops + 1) * sizeof *ops);
  el_op *added;
  if (ops == NULL) return false;
  call->ops = ops;
  added = &ops[call->n_ops++];
  *added = *op;
  added->key = added->range_end = added->value = (el_bytes){0};
  call->writes = call->writes || op->kind != EL_OP_RANGE;
  return copy_bytes(&added->key, op->key) &&
         copy_bytes(&added->range_end, op->range_end) &&
         copy_bytes(&added->value, op->value);
}

bool el_call_guard(el_call *call, const char *key, size_t key_len,
                   int64_t rev) {
  call->guarded = true;
  call->guard.test = EL_CREATE_REV_IS;
  call->guard.rev = rev;
  return copy_bytes(&call->guard.key, (el_bytes){key, key_len});
}

bool el_call_guard_lock(el_call *call, el_lock *lk) {
  call->lk = el_lock_ref(lk);
  return el_call_guard(call, lk->key, lk->key_len, lk->token);
}

/* ---- attempts, on the I/O thread ---- */

static void finish(el_call *call, el_txn_answer *answer) {
  call->finished = true;
  call->answer = answer;
  el_waiter_complete(&call->answered);
  unref(call);
}

static void fail(el_call *call, const el_error *err) {
  el_txn_answer *answer = el_alloc(sizeof *answer);
  answer->err = *err;
  finish(call, answer);
}

static void fail_closed(el_call *call) {
  el_error err;
  el_error_set(&err, EL_CLOSED, "the client was closed");
  fail(call, &err);
}

/* The guard failed: our key is gone, whoever took it. */
static void tell_key_gone(el_call *call) {
  el_line *line = call->lk->line;
  if (line != NULL && line->active == call->lk && line->slot != NULL) {
    el_slot_signal(line->slot, EL_ENTRY_KEY_GONE);
  }
}

/* What the answer can tell about the cluster. A delete of a key that isn't
 * there changes nothing. */
static int seen_how(const el_call *call, const el_txn_answer *answer) {
  if (!call->writes) return EL_SEEN_READ;
  for (size_t i = 0; i < answer->n_results; i++) {
    const el_op_result *result = &answer->results[i];
    if (result->kind == EL_OP_PUT || result->deleted > 0) {
      return EL_SEEN_WRITTEN;
    }
  }
  return EL_SEEN_APPLIED;
}

static bool may_repeat(const el_call *call, const el_error *err) {
  return err->code != EL_OK && err->retriable &&
         (err->definite || !call->writes) &&
         call->cl->wrong_cluster.code == EL_OK;
}

static int64_t next_attempt(el_call *call, const el_txn_answer *answer) {
  el_outcome failed = {answer->err.definite, answer->err.retriable,
                       answer->err.elsewhere, answer->sent_ms};
  call->attempts += !answer->err.elsewhere;
  return el_retry_at(&failed, el_now_ms(), call->attempts);
}

static void take_answer(el_call *call, el_txn_answer *answer) {
  int64_t retry_at = next_attempt(call, answer);
  if (!call->cl->stopping) {
    el_client_note_txn(call->cl, answer, seen_how(call, answer), call->rev_then,
                       call->n_ops > 0 ? call->ops[0].key : call->guard.key);
  }
  if (answer->err.code != EL_OK) {
    EL_COUNT(call->cl, failed_attempts, 1);
  }
  el_client_note_contact(call->cl, &answer->err);
  if (!call->cl->closing && may_repeat(call, &answer->err) &&
      retry_at < call->deadline_ms) {
    el_txn_answer_free(answer);
    el_timers_set(el_loop_timers(call->cl->loop), &call->timer, retry_at);
    TAILQ_INSERT_TAIL(&call->cl->calls, call, link);
    return;
  }
  if (answer->err.code == EL_OK && !answer->succeeded && call->lk != NULL &&
      !call->cl->stopping) {
    tell_key_gone(call);
  }
  finish(call, answer);
}

static void on_answer(void *arg, el_txn_answer *answer) {
  el_call *call = arg;
  call->asked = false;
  if (call->finished) {
    el_txn_answer_free(answer);
  } else {
    el_timers_stop(el_loop_timers(call->cl->loop), &call->timer);
    take_answer(call, answer);
  }
  unref(call);
}

/* An attempt that has to get a token first is not bound by gRPC's deadline. */
static void on_deadline(el_call *call) {
  el_error err;
  el_error_set(&err, EL_UNAVAILABLE, "etcd %s: no answer in time",
               el_client_address(call->cl));
  err.definite = false;
  fail(call, &err);
}

static void attempt(el_call *call) {
  el_txn txn = {.compares = &call->guard,
                .n_compares = call->guarded ? 1 : 0,
                .then = call->ops,
                .n_then = call->n_ops};
  int64_t left = call->deadline_ms - el_now_ms();
  if (left > EL_ATTEMPT_MS) left = EL_ATTEMPT_MS;
  EL_COUNT(call->cl, calls, 1);
  call->asked = true;
  atomic_fetch_add(&call->refs, 1);
  el_timers_set(el_loop_timers(call->cl->loop), &call->timer,
                call->deadline_ms + GRACE_MS);
  call->rev_then = call->cl->cluster.rev;
  el_kv_txn(call->cl->auth, &txn, left > 0 ? left : 0, on_answer, call);
}

static void on_timer(el_timer *timer) {
  el_call *call = (el_call *)((char *)timer - offsetof(el_call, timer));
  if (call->asked) {
    on_deadline(call);
  } else {
    TAILQ_REMOVE(&call->cl->calls, call, link);
    attempt(call);
  }
}

void el_calls_close(el_client *cl) {
  el_call *call;
  while ((call = TAILQ_FIRST(&cl->calls)) != NULL) {
    TAILQ_REMOVE(&cl->calls, call, link);
    el_timers_stop(el_loop_timers(cl->loop), &call->timer);
    fail_closed(call);
  }
}

static void run_start(el_command *command) {
  el_call *call = (el_call *)((char *)command - offsetof(el_call, command));
  if (call->cl->closing) {
    fail_closed(call);
  } else if (call->cl->wrong_cluster.code != EL_OK) {
    fail(call, &call->cl->wrong_cluster);
  } else {
    attempt(call);
  }
}

/* ---- Lua's side ---- */

bool el_call_start(el_call *call, int64_t timeout_ms, el_error *err) {
  if (!el_client_is_usable(call->cl, err)) return false;
  call->deadline_ms = el_now_ms() + timeout_ms;
  call->timer.due = on_timer;
  call->command.run = run_start;
  atomic_fetch_add(&call->refs, 1);
  if (!el_client_post(call->cl, &call->command)) {
    unref(call);
    el_error_set(err, EL_CLOSED, "the client is closed");
    return false;
  }
  return true;
}

const el_txn_answer *el_call_wait(el_call *call, int64_t timeout_ms) {
  return el_waiter_wait(&call->answered, timeout_ms) ? call->answer : NULL;
}

bool el_call_arm(el_call *call, el_wake *wake, uint64_t id) {
  return el_waiter_arm(&call->answered, wake, id);
}

el_client *el_call_client(const el_call *call) { return call->cl; }
