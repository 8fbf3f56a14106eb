/* guarded: one transaction of a caller's own, on the I/O thread. */
#include "lock/guarded.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "lock/guarded_int.h"
#include "rules/retry.h"

/* gRPC's own word about a deadline says more than ours. */
enum { GRACE_MS = 100 };

/* The writes among which it has its turn; NULL: it keeps no order. */
static el_writes *writes_of(const el_guarded *guarded) {
  return guarded->lk != NULL && guarded->writes ? el_lock_writes(guarded->lk)
                                                : NULL;
}

static el_write_action step(el_guarded *guarded, el_write_event *event) {
  event->kept = el_lock_is_kept(guarded->lk);
  return el_write_order_step(&writes_of(guarded)->order, event);
}

static void take_turn(el_guarded *guarded);

/* It is over, and the next one's turn: who has none, because nothing of his is to be sent,
 * ends without one. */
static void leave_order(el_guarded *guarded) {
  el_writes *writes = writes_of(guarded);
  el_write_event stop = {.kind = EL_WRITE_STOP};
  if (guarded->queued) {
    guarded->queued = false;
    TAILQ_REMOVE(&writes->waiting, guarded, order_link);
  }
  if (!guarded->has_turn) return;
  guarded->has_turn = false;
  step(guarded, &stop);
  while (!TAILQ_EMPTY(&writes->waiting) &&
         writes->order.state == EL_WRITE_IDLE &&
         guarded->world->closed.code == EL_OK) {
    take_turn(TAILQ_FIRST(&writes->waiting));
  }
}

static void finish(el_guarded *guarded, el_txn_answer *answer) {
  guarded->finished = true;
  guarded->answer = answer;
  leave_order(guarded);
  el_completion_complete(&guarded->news, EL_GUARDED_ANSWERED);
  el_guarded_unref(guarded);
}

static void fail(el_guarded *guarded, const el_error *err) {
  el_txn_answer *answer = el_alloc(sizeof *answer);
  answer->err = *err;
  finish(guarded, answer);
}

static void send(el_guarded *guarded, const el_txn *txn) {
  guarded->sent = true;
  guarded->request.deadline_ms = guarded->deadline_ms;
  atomic_fetch_add(&guarded->refs, 1);
  el_timers_set(guarded->world->timers, &guarded->timer, guarded->deadline_ms);
  el_requests_send(guarded->world->requests, &guarded->request, txn);
}

static void send_touch(el_guarded *guarded) {
  EL_UNCLEARED el_recipe recipe;
  el_writer who = el_lock_writer(guarded->lk);
  guarded->request.patient = false;
  el_recipe_build_touch(&recipe, &who);
  send(guarded, &recipe.txn);
}

/* The operations, as long as the hold has its keys, or another's key is there. */
static void send_operations(el_guarded *guarded) {
  EL_UNCLEARED el_recipe recipe;
  const el_writes *writes = writes_of(guarded);
  el_txn txn = {.compares = guarded->guards,
                .n_compares = guarded->guards[0].key.len > 0 ? 2 : 0,
                .then = guarded->ops,
                .n_then = guarded->n_ops};
  if (guarded->lk != NULL) {
    el_writer who = el_lock_writer(guarded->lk);
    el_recipe_build_guarded(&recipe, &who,
                            writes != NULL ? &writes->order : NULL,
                            guarded->ops, guarded->n_ops);
    txn = recipe.txn;
  }
  /* Whoever would rather be told at once doesn't wait for its answer. */
  guarded->request.patient = guarded->writes && !guarded->world->fail_fast;
  send(guarded, &txn);
}

/* The caller asks the lock how. */
static void fail_let_go(el_guarded *guarded) {
  el_error err;
  el_error_set(&err, EL_NOT_HELD, "the hold ended before this write was sent");
  err.is_definite = true;
  fail(guarded, &err);
}

/* Rests until it is its turn. */
static void queue_up(el_guarded *guarded) {
  guarded->queued = true;
  TAILQ_INSERT_TAIL(&writes_of(guarded)->waiting, guarded, order_link);
  TAILQ_INSERT_TAIL(&guarded->world->resting, guarded, link);
  el_timers_set(guarded->world->timers, &guarded->timer, guarded->deadline_ms);
}

/* What comes before an answer. */
static void perform(el_guarded *guarded, el_write_action action) {
  switch (action) {
    case EL_WRITE_WAIT:
      queue_up(guarded);
      return;
    case EL_WRITE_TOUCH:
      send_touch(guarded);
      return;
    case EL_WRITE_LET_GO:
      fail_let_go(guarded);
      return;
    default: /* EL_WRITE_SEND */
      send_operations(guarded);
  }
}

/* What keeps no order starts at once, and again, too. */
static void attempt(el_guarded *guarded, int kind) {
  el_write_event event = {.kind = kind, .renews = guarded->proclaims};
  el_write_action action = EL_WRITE_SEND;
  if (writes_of(guarded) != NULL) {
    action = step(guarded, &event);
    guarded->has_turn = guarded->has_turn || action == EL_WRITE_TOUCH ||
                        action == EL_WRITE_SEND;
  }
  perform(guarded, action);
}

/* Rests until the next attempt, if there is one: false if not. */
static bool rest(el_guarded *guarded, const el_txn_answer *answer) {
  const el_guarded_world *world = guarded->world;
  el_outcome failed = el_outcome_of(&answer->err, answer->sent_ms);
  int64_t at_ms;
  if (world->closed.code != EL_OK ||
      (world->fail_fast && el_requests_away(world->requests) != NULL) ||
      el_requests_wrong_cluster(world->requests) != NULL) {
    return false;
  }
  at_ms = el_retry_next(&failed, el_now_ms(), &guarded->failures,
                        (uint64_t)(uintptr_t)guarded);
  if (at_ms >= guarded->deadline_ms) return false;
  el_timers_set(guarded->world->timers, &guarded->timer, at_ms);
  TAILQ_INSERT_TAIL(&guarded->world->resting, guarded, link);
  return true;
}

/* Does nobody want it any more, of which nothing is carried out yet? Then it is over. */
static bool is_over(el_guarded *guarded) {
  el_error cancelled;
  if (guarded->world->closed.code != EL_OK) {
    fail(guarded, &guarded->world->closed);
    return true;
  }
  if (!atomic_load(&guarded->dropped)) return false;
  el_error_set(&cancelled, EL_CANCELLED, "nobody waits for it any more");
  fail(guarded, &cancelled);
  return true;
}

static void take_turn(el_guarded *guarded) {
  guarded->queued = false;
  TAILQ_REMOVE(&writes_of(guarded)->waiting, guarded, order_link);
  TAILQ_REMOVE(&guarded->world->resting, guarded, link);
  el_timers_stop(guarded->world->timers, &guarded->timer);
  if (!is_over(guarded)) {
    attempt(guarded, EL_WRITE_START);
  }
}

static el_write_action judge(el_guarded *guarded, const el_txn_answer *answer) {
  el_writer who = {.keys = NULL};
  el_write_event event;
  if (guarded->lk != NULL) who = el_lock_writer(guarded->lk);
  el_recipe_read_guarded(&who, answer, &event);
  guarded->detached = event.detached;
  if (writes_of(guarded) != NULL) return step(guarded, &event);
  if (el_write_may_repeat(&event.outcome, guarded->writes)) {
    return EL_WRITE_AGAIN;
  }
  if (!event.outcome.is_done) return EL_WRITE_FAILED;
  return event.succeeded ? EL_WRITE_DONE : EL_WRITE_KEY_GONE;
}

/* It isn't sent again. */
static el_write_action give_up(el_guarded *guarded) {
  el_write_event stop = {.kind = EL_WRITE_STOP};
  return writes_of(guarded) != NULL ? step(guarded, &stop) : EL_WRITE_FAILED;
}

static void take_answer(el_guarded *guarded, el_txn_answer *answer) {
  el_write_action action = judge(guarded, answer);
  if (action == EL_WRITE_AGAIN && !rest(guarded, answer)) {
    action = give_up(guarded);
  }
  switch (action) {
    case EL_WRITE_AGAIN:
      el_txn_answer_free(answer);
      return;
    case EL_WRITE_KEY_GONE:
      if (guarded->lk != NULL) {
        el_lock_key_gone(guarded->lk, guarded->detached); /* whoever took it */
      }
      break;
    case EL_WRITE_UNSENT:
      answer->err.is_definite = true;
      break;
    case EL_WRITE_DONE:
    case EL_WRITE_FAILED:
      break;
    default:
      el_txn_answer_free(answer);
      if (!is_over(guarded)) {
        perform(guarded, action);
      }
      return;
  }
  finish(guarded, answer);
}

/* The client is closed, and what was sent may be carried out. */
static void fail_unheard(el_guarded *guarded) {
  el_error err = guarded->world->closed;
  err.is_definite = false;
  fail(guarded, &err);
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  el_guarded *guarded = EL_CONTAINER_OF(request, el_guarded, request);
  guarded->sent = false;
  if (!guarded->finished) {
    el_timers_stop(guarded->world->timers, &guarded->timer);
  }
  if (guarded->finished && answer != NULL) {
    el_txn_answer_free(answer);
  } else if (!guarded->finished && answer != NULL) {
    take_answer(guarded, answer);
  } else if (!guarded->finished) {
    fail_unheard(guarded);
  }
  el_guarded_unref(guarded);
}

/* What hasn't left by now must not leave later: whoever is told that his write has
 * failed may write something else. */
static bool withdraw(el_guarded *guarded) {
  el_requests *requests = guarded->world->requests;
  const el_error *away = el_requests_away(requests);
  el_error err;
  if (!el_requests_withdraw(requests, &guarded->request)) return false;
  if (away != NULL) {
    err = *away;
  } else {
    el_error_set(&err, EL_UNAVAILABLE, "etcd %s: it was not asked in time",
                 el_requests_address(requests));
  }
  err.is_definite = true;
  guarded->sent = false;
  fail(guarded, &err);
  el_guarded_unref(guarded);
  return true;
}

/* gRPC tells the end of an attempt that has left, but not of one that has to get a
 * token first. */
static void on_deadline(el_guarded *guarded) {
  el_write_event unheard = {.kind = EL_WRITE_ANSWER};
  int64_t last_ms = guarded->deadline_ms + GRACE_MS;
  el_error err;
  if (withdraw(guarded)) return;
  if (el_now_ms() < last_ms) {
    el_timers_set(guarded->world->timers, &guarded->timer, last_ms);
    return;
  }
  el_error_set(&err, EL_UNAVAILABLE, "etcd %s: no answer in time",
               el_requests_address(guarded->world->requests));
  err.is_definite =
      writes_of(guarded) != NULL && step(guarded, &unheard) == EL_WRITE_UNSENT;
  fail(guarded, &err);
}

static void fail_behind(el_guarded *guarded) {
  el_error err;
  el_error_set(&err, EL_UNAVAILABLE,
               "etcd %s: it has not answered the write before this one in time",
               el_requests_address(guarded->world->requests));
  fail(guarded, &err);
}

static void on_timer(el_timer *timer) {
  el_guarded *guarded = EL_CONTAINER_OF(timer, el_guarded, timer);
  if (guarded->sent) {
    on_deadline(guarded);
    return;
  }
  TAILQ_REMOVE(&guarded->world->resting, guarded, link);
  if (guarded->queued) {
    fail_behind(guarded);
  } else if (!is_over(guarded)) {
    attempt(guarded, EL_WRITE_RETRY);
  }
}

static void run_start(el_command *command) {
  el_guarded *guarded = EL_CONTAINER_OF(command, el_guarded, command);
  const el_error *wrong = el_requests_wrong_cluster(guarded->world->requests);
  if (guarded->world->closed.code != EL_OK) {
    fail(guarded, &guarded->world->closed);
  } else if (wrong != NULL) {
    fail(guarded, wrong);
  } else {
    if (guarded->downgrades) el_lock_note_downgrade(guarded->lk);
    attempt(guarded, EL_WRITE_START);
  }
}

/* On Lua's side; once it is posted, it is the I/O thread's. */
bool el_guarded_start(el_guarded *guarded, int64_t timeout_ms, el_error *err) {
  if (!el_handle_is_usable(guarded->handle, err)) return false;
  guarded->request.done = on_answer;
  guarded->timer.on_due = on_timer;
  guarded->command.run = run_start;
  guarded->deadline_ms = el_now_ms() + timeout_ms;
  atomic_fetch_add(&guarded->refs, 1);
  if (!el_handle_post(guarded->handle, &guarded->command)) {
    el_guarded_unref(guarded);
    el_error_set(err, EL_CLOSED, "the client is closed");
    return false;
  }
  return true;
}

void el_guarded_world_init(el_guarded_world *world, el_requests *requests,
                           el_timers *timers, bool fail_fast) {
  world->requests = requests;
  world->timers = timers;
  world->fail_fast = fail_fast;
  world->closed.code = EL_OK;
  TAILQ_INIT(&world->resting);
}

void el_guarded_world_close(el_guarded_world *world, const el_error *err) {
  el_guarded *guarded;
  world->closed = *err;
  while ((guarded = TAILQ_FIRST(&world->resting)) != NULL) {
    TAILQ_REMOVE(&world->resting, guarded, link);
    el_timers_stop(world->timers, &guarded->timer);
    fail(guarded, err);
  }
}
