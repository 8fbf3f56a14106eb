/* guarded: one transaction of a caller's own, on the I/O thread. */
#include "lock/guarded.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"
#include "lock/guarded_int.h"
#include "rules/kind.h"
#include "rules/retry.h"

/* gRPC's own word about a deadline says more than ours. */
enum { GRACE_MS = 100 };

/* The order that a write must keep; NULL: none. */
static el_write_order *order_of(const el_guarded *guarded) {
  return guarded->lk != NULL && guarded->writes ? el_lock_writes(guarded->lk)
                                                : NULL;
}

static void go_on(el_guarded *guarded);

/* It is over, and the next one's turn. */
static void leave_order(el_guarded *guarded) {
  el_write_order *order = order_of(guarded);
  el_guarded *next;
  if (guarded->queued) {
    guarded->queued = false;
    TAILQ_REMOVE(&order->waiting, guarded, order_link);
  }
  if (!guarded->has_turn) return;
  guarded->has_turn = false;
  next = TAILQ_FIRST(&order->waiting);
  if (next == NULL || guarded->world->closed.code != EL_OK) {
    order->busy = false;
    return;
  }
  next->queued = false;
  next->has_turn = true;
  TAILQ_REMOVE(&order->waiting, next, order_link);
  TAILQ_REMOVE(&next->world->resting, next, link);
  el_timers_stop(next->world->timers, &next->timer);
  go_on(next);
}

static void finish(el_guarded *guarded, el_txn_answer *answer) {
  guarded->finished = true;
  guarded->answer = answer;
  el_completion_complete(&guarded->news, EL_GUARDED_ANSWERED);
  leave_order(guarded);
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

/* A write of unknown fate may be carried out at any time later, over what the same
 * hold has written since. So its writes go one at a time, are guarded by the
 * mod_revision of a key as well, and that is touched after such a one, and before the
 * next: then the late one finds another mod_revision, and changes nothing. */
static void touch(el_guarded *guarded) {
  bool is_own = !el_kind_has_notes(el_lock_mode(guarded->lk));
  el_op put = {.kind = EL_OP_PUT,
               .key = guarded->order_key,
               .touch = is_own,
               .lease = is_own ? 0 : el_lock_lease(guarded->lk)};
  el_txn txn = {guarded->guards, guarded->n_guards, &put, 1, NULL, 0};
  send(guarded, &txn);
}

static void write_in_order(el_guarded *guarded, el_write_order *order) {
  size_t n = guarded->n_guards;
  el_op looks[EL_MULTI_MAX];
  el_txn txn = {guarded->guards, n + 1, guarded->ops, guarded->n_ops, looks, n};
  guarded->guards[n] = (el_compare){
      .test = EL_MOD_REV_IS, .key = guarded->order_key, .rev = order->mod_rev};
  for (size_t i = 0; i < n; i++) {
    looks[i] = (el_op){.key = guarded->guards[i].key, .keys_only = true};
  }
  send(guarded, &txn);
}

static void fail_let_go(el_guarded *guarded) {
  el_error err;
  el_error_set(&err, EL_NOT_HELD,
               "the lock was let go of before this write was sent");
  err.definite = true;
  fail(guarded, &err);
}

static void attempt(el_guarded *guarded) {
  el_write_order *order = order_of(guarded);
  el_txn txn = {.compares = guarded->guards,
                .n_compares = guarded->n_guards,
                .then = guarded->ops,
                .n_then = guarded->n_ops};
  if (order != NULL && !el_lock_is_kept(guarded->lk)) {
    fail_let_go(guarded);
    return;
  }
  guarded->touching = order != NULL && order->in_doubt;
  if (guarded->touching) {
    touch(guarded);
  } else if (order != NULL) {
    write_in_order(guarded, order);
  } else {
    send(guarded, &txn);
  }
}

/* A write that may have been carried out is never sent again: between the two,
 * somebody may have written something newer. */
static bool may_repeat(const el_guarded *guarded, const el_error *err) {
  return err->code != EL_OK && err->retriable &&
         (err->definite || guarded->touching || !guarded->writes) &&
         guarded->world->closed.code == EL_OK &&
         !(guarded->world->fail_fast &&
           el_requests_away(guarded->world->requests) != NULL) &&
         el_requests_wrong_cluster(guarded->world->requests) == NULL;
}

/* Rests until the next attempt, if there is one: false if not. */
static bool rest(el_guarded *guarded, const el_txn_answer *answer) {
  el_outcome failed = el_outcome_of(&answer->err, answer->sent_ms);
  int64_t at_ms;
  if (!may_repeat(guarded, &answer->err)) return false;
  guarded->attempts += !failed.elsewhere;
  at_ms = el_retry_at(&failed, el_now_ms(), guarded->attempts,
                      (uint64_t)(uintptr_t)guarded);
  if (at_ms >= guarded->deadline_ms) return false;
  el_timers_set(guarded->world->timers, &guarded->timer, at_ms);
  TAILQ_INSERT_TAIL(&guarded->world->resting, guarded, link);
  return true;
}

/* Are all keys of the hold there? */
static bool is_whole(const el_guarded *guarded, const el_txn_answer *answer) {
  for (size_t i = 0; i < answer->n_results; i++) {
    const el_op_result *look = &answer->results[i];
    if (look->n_kvs != 1 || look->kvs[0].create_rev != guarded->guards[i].rev) {
      return false;
    }
  }
  return answer->n_results == guarded->n_guards;
}

/* Has nothing come of it but that the order's key has another mod_revision now? */
static bool is_out_of_order(const el_guarded *guarded,
                            const el_txn_answer *answer) {
  return order_of(guarded) != NULL && !guarded->touching &&
         answer->err.code == EL_OK && !answer->succeeded &&
         is_whole(guarded, answer);
}

/* What |answer| means for the order of the writes: true if the operations are to
 * be sent now. */
static bool keep_order(el_guarded *guarded, const el_txn_answer *answer) {
  el_write_order *order = order_of(guarded);
  if (order == NULL) return false;
  if (is_out_of_order(guarded, answer)) {
    order->in_doubt = true;
    return true;
  }
  if ((guarded->touching || guarded->proclaims) && answer->err.code == EL_OK &&
      answer->succeeded) {
    order->mod_rev = answer->rev;
    order->in_doubt = false;
    return guarded->touching;
  }
  if (!guarded->touching && answer->err.code != EL_OK &&
      !answer->err.definite) {
    order->in_doubt = true;
  }
  return false;
}

/* The operations, of which nothing is carried out yet. */
static void go_on(el_guarded *guarded) {
  el_error cancelled;
  if (guarded->world->closed.code != EL_OK) {
    fail(guarded, &guarded->world->closed);
  } else if (atomic_load(&guarded->dropped)) {
    el_error_set(&cancelled, EL_CANCELLED, "nobody waits for it any more");
    fail(guarded, &cancelled);
  } else {
    attempt(guarded);
  }
}

static void take_answer(el_guarded *guarded, el_txn_answer *answer) {
  if (keep_order(guarded, answer)) {
    el_txn_answer_free(answer);
    go_on(guarded);
    return;
  }
  if (rest(guarded, answer)) {
    el_txn_answer_free(answer);
    return;
  }
  if (answer->err.code == EL_OK && !answer->succeeded && guarded->lk != NULL) {
    el_lock_key_gone(guarded->lk); /* whoever took it */
  }
  answer->err.definite = answer->err.definite || guarded->touching;
  finish(guarded, answer);
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  el_guarded *guarded = EL_OF(request, el_guarded, request);
  guarded->sent = false;
  if (!guarded->finished) {
    el_timers_stop(guarded->world->timers, &guarded->timer);
  }
  if (guarded->finished && answer != NULL) {
    el_txn_answer_free(answer);
  } else if (!guarded->finished && answer != NULL) {
    take_answer(guarded, answer);
  } else if (!guarded->finished) {
    fail(guarded, &guarded->world->closed);
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
  err.definite = true;
  guarded->sent = false;
  fail(guarded, &err);
  el_guarded_unref(guarded);
  return true;
}

/* gRPC tells the end of an attempt that has left, but not of one that has to get a
 * token first. */
static void on_deadline(el_guarded *guarded) {
  el_write_order *order = order_of(guarded);
  int64_t last_ms = guarded->deadline_ms + GRACE_MS;
  el_error err;
  if (withdraw(guarded)) return;
  if (el_now_ms() < last_ms) {
    el_timers_set(guarded->world->timers, &guarded->timer, last_ms);
    return;
  }
  el_error_set(&err, EL_UNAVAILABLE, "etcd %s: no answer in time",
               el_requests_address(guarded->world->requests));
  err.definite = guarded->touching;
  if (order != NULL && !guarded->touching) {
    order->in_doubt = true;
  }
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
  el_guarded *guarded = EL_OF(timer, el_guarded, timer);
  if (guarded->sent) {
    on_deadline(guarded);
    return;
  }
  TAILQ_REMOVE(&guarded->world->resting, guarded, link);
  if (guarded->queued) {
    fail_behind(guarded);
  } else {
    attempt(guarded);
  }
}

/* Whatever comes before it in its hold first. */
static void begin(el_guarded *guarded) {
  el_write_order *order = order_of(guarded);
  if (guarded->downgrades) {
    el_lock_note_downgrade(guarded->lk);
  }
  if (order == NULL || !order->busy) {
    if (order != NULL) order->busy = guarded->has_turn = true;
    attempt(guarded);
    return;
  }
  guarded->queued = true;
  TAILQ_INSERT_TAIL(&order->waiting, guarded, order_link);
  TAILQ_INSERT_TAIL(&guarded->world->resting, guarded, link);
  el_timers_set(guarded->world->timers, &guarded->timer, guarded->deadline_ms);
}

static void run_start(el_command *command) {
  el_guarded *guarded = EL_OF(command, el_guarded, command);
  const el_error *wrong = el_requests_wrong_cluster(guarded->world->requests);
  if (guarded->world->closed.code != EL_OK) {
    fail(guarded, &guarded->world->closed);
  } else if (wrong != NULL) {
    fail(guarded, wrong);
  } else {
    begin(guarded);
  }
}

/* On Lua's side; once it is posted, it is the I/O thread's. */
bool el_guarded_start(el_guarded *guarded, int64_t timeout_ms, el_error *err) {
  if (!el_handle_is_usable(guarded->handle, err)) return false;
  guarded->request.done = on_answer;
  guarded->timer.due = on_timer;
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
