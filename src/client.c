/* L3 client: one connection to one etcd cluster. */
#include "client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "client_int.h"
#include "clock.h"
#include "fork_guard.h"
#include "opening.h"

/* ---- settle: from one part to the others ---- */

static void lapse(el_client *cl) {
  el_slot *slot, *next;
  cl->lapsed = false;
  el_trouble_lapse(&cl->trouble);
  for (slot = TAILQ_FIRST(&cl->held); slot != NULL; slot = next) {
    next = TAILQ_NEXT(slot, held_link);
    el_slot_signal(slot, EL_ENTRY_LAPSED);
  }
}

/* The lease is gone: so are its keys. Slots without a request out are freed,
 * the others when it is answered. */
static void bury_session(el_client *cl) {
  el_slot *slot, *next;
  cl->gone = false;
  for (slot = TAILQ_FIRST(&cl->slots); slot != NULL; slot = next) {
    el_line *line = slot->line;
    next = TAILQ_NEXT(slot, link);
    if (line == NULL) continue; /* of an earlier session */
    el_slot_signal(slot, EL_ENTRY_SESSION_DEAD);
    line->slot = NULL;
    slot->line = NULL;
    if (el_entry_is_over(&slot->m)) {
      el_slot_free(slot);
    }
  }
  if (!cl->closing) {
    el_session_io_renew(cl);
  }
}

static void refuse_waiting(el_client *cl) {
  el_line *line, *next;
  el_error err = cl->ses_err;
  cl->refused = false;
  HASH_ITER(hh, cl->lines, line, next) {
    if (line->active == NULL) {
      el_line_fail(line, &err, EL_LOSS_NONE);
    }
  }
}

static void touch_all(el_client *cl) {
  el_line *line, *next;
  cl->ready = false;
  HASH_ITER(hh, cl->lines, line, next) { el_line_touch(line); }
}

static void settle_proving(el_client *cl) {
  bool can_claim = el_session_can_claim(&cl->ses, el_now_ms());
  el_slot *slot, *next;
  for (slot = TAILQ_FIRST(&cl->proving); slot != NULL; slot = next) {
    next = TAILQ_NEXT(slot, proving_link);
    el_slot_signal(slot, can_claim ? EL_ENTRY_CLAIMED : EL_ENTRY_UNPROVEN);
  }
}

static void settle_lines(el_client *cl) {
  el_line *line;
  while ((line = TAILQ_FIRST(&cl->dirty)) != NULL) {
    TAILQ_REMOVE(&cl->dirty, line, dirty_link);
    line->dirty = false;
    el_line_settle(line);
  }
}

static void want_session(el_client *cl) {
  el_session_event want = {.kind = EL_SESSION_WANT};
  cl->wanted = false;
  if (!cl->closing) {
    el_session_io_step(cl, &want);
  }
}

static void tell_holds(el_client *cl) {
  el_session_event holds = {.kind = EL_SESSION_HOLDS, .holds = cl->n_held};
  el_session_io_step(cl, &holds);
}

/* Once closing has done what it can: nothing is waited for any more. */
static void stop_if_closed(el_client *cl) {
  if (cl->closing && !cl->stopping && cl->revocable == 0 &&
      cl->ses.state == EL_SESSION_DEAD) {
    cl->stopping = true;
    el_loop_stop(cl->loop);
  }
}

static void leave_cluster(el_client *cl) {
  el_line *line, *next;
  cl->cluster_changed = false;
  HASH_ITER(hh, cl->lines, line, next) {
    el_line_fail(line, &cl->wrong_cluster, EL_LOSS_CLUSTER);
  }
  el_session_io_drop(cl);
}

static void settle(void *arg) {
  el_client *cl = arg;
  if (cl->stopping) return;
  do {
    if (cl->cluster_changed) leave_cluster(cl);
    if (cl->lapsed) lapse(cl);
    if (cl->gone) bury_session(cl);
    if (cl->refused) refuse_waiting(cl);
    if (cl->ready) touch_all(cl);
    el_claim_set(cl->claim, cl->ses.claim_until);
    settle_proving(cl);
    settle_lines(cl);
    if (cl->wanted) want_session(cl);
    if (cl->n_held != cl->ses.holds) tell_holds(cl);
  } while (cl->cluster_changed || cl->lapsed || cl->gone || cl->refused ||
           cl->ready || cl->wanted || !TAILQ_EMPTY(&cl->dirty));
  stop_if_closed(cl);
}

/* ---- close ---- */

static void on_close_budget_spent(el_timer *timer) {
  el_client *cl =
      (el_client *)((char *)timer - offsetof(el_client, close_timer));
  cl->stopping = true;
  el_loop_stop(cl->loop);
}

static void run_close(el_command *command) {
  el_client *cl =
      (el_client *)((char *)command - offsetof(el_client, close_command));
  el_session_event close_session = {.kind = EL_SESSION_CLOSE};
  el_line *line, *next;
  el_error err;
  cl->closing = true;
  el_error_set(&err, EL_CLOSED, "the client was closed");
  HASH_ITER(hh, cl->lines, line, next) {
    el_line_fail(line, &err, EL_LOSS_CLOSED);
  }
  el_calls_close(cl);
  el_session_io_step(cl, &close_session);
  cl->close_timer.due = on_close_budget_spent;
  el_timers_set(el_loop_timers(cl->loop), &cl->close_timer,
                el_now_ms() + cl->close_budget_ms);
}

/* Nothing is under way any more: every part is freed. */
static void on_stop(void *arg) {
  el_client *cl = arg;
  el_error none = {.code = EL_OK};
  el_line *line, *next_line;
  el_slot *slot;
  el_auth_free(cl->auth); /* first: it ends the calls that wait for it */
  HASH_ITER(hh, cl->lines, line, next_line) {
    if (line->releasing != NULL) {
      el_lock_finish(line->releasing, &none);
      el_lock_unref(line->releasing);
    }
    HASH_DEL(cl->lines, line);
    free(line->name);
    free(line);
  }
  while ((slot = TAILQ_FIRST(&cl->slots)) != NULL) {
    el_slot_free(slot);
  }
  el_keepalive_free(cl->ka);
  el_watches_free(cl->watches);
  el_claim_set(cl->claim, 0);
  el_claim_unref(cl->claim);
  el_channel_free(cl->ch);
}

/* ---- the door ---- */

bool el_client_post(el_client *cl, el_command *command) {
  return !cl->joined && !el_client_is_forked(cl) &&
         el_loop_post(cl->loop, command);
}

const char *el_client_address(const el_client *cl) {
  return el_channel_address(cl->ch, el_channel_member(cl->ch));
}

void el_client_count(el_client *cl, size_t offset, int n) {
  atomic_fetch_add_explicit(&cl->counters[offset / sizeof(int64_t)], n,
                            memory_order_relaxed);
}

void el_client_stats(const el_client *cl, el_stats *stats) {
  int64_t *field = (int64_t *)(void *)stats;
  for (size_t i = 0; i < sizeof *stats / sizeof *field; i++) {
    field[i] = atomic_load_explicit(&cl->counters[i], memory_order_relaxed);
  }
}

int64_t el_client_lease(const el_client *cl) { return atomic_load(&cl->lease); }

int64_t el_client_alive_ms(const el_client *cl) {
  int64_t left = atomic_load(&cl->alive_until) - el_now_ms();
  return left > 0 ? left : 0;
}

bool el_client_is_forked(const el_client *cl) {
  return cl->fork_generation != el_fork_generation();
}

static el_wake *make_wake(el_wake **wake, el_error *err) {
  if (*wake == NULL) {
    *wake = el_wake_new();
  }
  if (*wake == NULL) {
    el_error_set(err, EL_NOMEM, "no descriptor to wait with: %s",
                 strerror(errno));
  }
  return *wake;
}

/* In a forked child it is the parent's to read. */
el_wake *el_client_wake(el_client *cl, el_error *err) {
  bool usable = el_client_is_usable(cl, err);
  if (!usable && (err->code == EL_FORKED || cl->wake == NULL)) return NULL;
  return make_wake(&cl->wake, err);
}

/* ---- alarm ---- */

typedef struct alarm_request {
  el_command command;
  el_client *cl;
  int64_t at_ms;
} alarm_request;

static void on_alarm(el_timer *timer) {
  el_client *cl = (el_client *)((char *)timer - offsetof(el_client, alarm));
  el_wake_push(cl->wake, 0);
}

static void run_alarm(el_command *command) {
  alarm_request *request = (alarm_request *)command;
  el_timer *alarm = &request->cl->alarm;
  if (alarm->slot == 0 || request->at_ms < alarm->at_ms) {
    alarm->due = on_alarm;
    el_timers_set(el_loop_timers(request->cl->loop), alarm, request->at_ms);
  }
  free(request);
}

bool el_client_alarm(el_client *cl, int64_t ms) {
  el_error err;
  alarm_request *request = malloc(sizeof *request);
  if (request == NULL) return false;
  request->command.run = run_alarm;
  request->cl = cl;
  request->at_ms = el_now_ms() + ms;
  if (el_client_wake(cl, &err) != NULL && el_client_post(cl, &request->command))
    return true;
  free(request);
  return false;
}

el_wake *el_client_served_wake(el_client *cl) { return cl->served; }

el_wake_server *el_client_wake_server(el_client *cl, el_error *err) {
  if (!el_client_is_usable(cl, err)) return NULL;
  if (cl->server == NULL && make_wake(&cl->served, err) != NULL) {
    cl->server = el_wake_server_start(cl->served, err);
  }
  return cl->server;
}

bool el_client_is_usable(const el_client *cl, el_error *err) {
  if (el_client_is_forked(cl)) {
    el_error_set(err, EL_FORKED,
                 "this client belongs to the parent process, not to this "
                 "forked one");
    return false;
  }
  if (cl->joined) {
    el_error_set(err, EL_CLOSED, "the client is closed");
    return false;
  }
  return true;
}

/* ---- life ---- */

el_client *el_client_ref(el_client *cl) {
  atomic_fetch_add(&cl->refs, 1);
  return cl;
}

void el_client_unref(el_client *cl) {
  if (atomic_fetch_sub(&cl->refs, 1) != 1) return;
  assert(cl->joined);
  el_wake_free(cl->wake);
  el_wake_free(cl->served);
  el_trouble_destroy(&cl->trouble);
  free(cl);
}

void el_client_close(el_client *cl, int64_t budget_ms) {
  if (cl->joined || el_client_is_forked(cl)) return;
  if (cl->server != NULL) { /* first: its thread posts, too */
    el_wake_server_stop(cl->server);
  }
  cl->close_budget_ms = budget_ms;
  cl->close_command.run = run_close;
  el_loop_post(cl->loop, &cl->close_command);
  el_loop_join(cl->loop);
  cl->joined = true;
  if (cl->server != NULL) { /* last: what it serves has ended as closed */
    el_wake_server_free(cl->server);
    cl->server = NULL;
  }
  if (cl->wake != NULL) {
    el_wake_shut(cl->wake);
  }
  if (cl->served != NULL) {
    el_wake_shut(cl->served);
  }
}

/* The parts that only the I/O thread may touch are made there. */
static void run_open(el_command *command) {
  el_opening *open = (el_opening *)command;
  el_client *cl = open->cl;
  el_timers *timers = el_loop_timers(cl->loop);
  cl->ch = el_channel_new(cl->loop, open->endpoints, open->n, open->tls);
  cl->auth =
      el_auth_new(cl->ch, timers, open->user, open->password, open->token);
  open->tls = NULL; /* theirs now */
  open->user = open->password = NULL;
  cl->watches = el_watches_new(cl->auth, timers);
  el_session_io_init(cl);
  el_opening_free(open);
}

static bool start(el_client *cl, el_opening *open, el_error *err) {
  static const el_loop_events events = {settle, on_stop};
  cl->loop = el_loop_start(&events, cl, err);
  if (cl->loop == NULL) return false;
  open->command.run = run_open;
  open->cl = cl;
  el_loop_post(cl->loop, &open->command);
  return true;
}

static el_client *new_client(const el_client_options *options, el_error *err) {
  el_client *cl;
  el_opening *open = el_opening_new(options, err);
  if (open == NULL) return NULL;
  cl = calloc(1, sizeof *cl);
  if (cl == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for a client");
    el_opening_free(open);
    return NULL;
  }
  atomic_init(&cl->refs, 1);
  cl->fork_generation = el_fork_generation();
  cl->ttl_ms = options->ttl_ms;
  el_trouble_init(&cl->trouble);
  TAILQ_INIT(&cl->dirty);
  TAILQ_INIT(&cl->slots);
  TAILQ_INIT(&cl->held);
  TAILQ_INIT(&cl->proving);
  TAILQ_INIT(&cl->calls);
  if (!start(cl, open, err)) {
    el_opening_free(open);
    el_trouble_destroy(&cl->trouble);
    free(cl);
    return NULL;
  }
  return cl;
}

el_client *el_client_new(const el_client_options *options, el_error *err) {
  if (!el_fork_enter()) {
    el_error_set(
        err, EL_FORKED,
        "this process was forked after its parent had connected, so it "
        "can't use etcd; connect only after the fork, or run a new "
        "program");
    return NULL;
  }
  return new_client(options, err);
}
