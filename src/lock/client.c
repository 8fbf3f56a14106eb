/* client: one client of an etcd cluster, with its I/O thread, session and local queues. */
#include "lock/client.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/process.h"
#include "lock/alarms.h"
#include "lock/entry.h"
#include "lock/guarded.h"
#include "lock/local_queue.h"
#include "lock/request_queue.h"
#include "lock/session.h"
#include "lock/watcher.h"

struct el_client {
  el_shared *shared;

  /* Used by the Lua thread; once a command is posted, also by the I/O thread. */
  el_command open_command, close_command;
  el_options *options; /* the options of connect; NULL after run_open */
  int64_t close_budget_ms;
  el_loop *loop;
  el_breaker *breaker;

  /* Used by the I/O thread only, as are the parts in |shared|. */
  el_channel *channel;
  el_session session;
  el_alarms *alarms;
  /* is told when the channel fails over, or there is a new leader */
  el_failover_listener failover;
  /* the member in use, for the event of a failover */
  size_t member;
  int64_t failed_ms;     /* shared->contact.failed_ms at the last settle */
  bool has_left_cluster; /* another cluster answered */
  bool is_closing;
  bool is_stopping;
  el_timer close_timer; /* due when the budget of close is spent */
};

/* ---- settle: pass events from one part to the others ---- */

/* If another cluster answers, ends all holds as lost and abandons the session. */
static void leave_cluster(el_client *cl) {
  const el_error *wrong = el_request_queue_wrong_cluster(cl->shared->requests);
  if (wrong == NULL || cl->has_left_cluster) return;
  cl->has_left_cluster = true;
  el_session_end_holds(&cl->session, EL_LOSS_CLUSTER);
  /* before the local queues end the holds: the session must know that there were some */
  el_session_abandon(&cl->session);
  el_local_queues_leave_cluster(cl->shared->queues, wrong);
}

static void handle_news(el_client *cl) {
  el_session *session = &cl->session;
  unsigned news = el_session_take_news(session);
  if (news & EL_SESSION_NEWS_EXPIRED) {
    el_local_queues_expire(cl->shared->queues);
  }
  if (news & EL_SESSION_NEWS_ENDED) {
    el_session_end_holds(session, EL_LOSS_REVOKED);
    el_local_queues_end_session(cl->shared->queues, session->lease.end);
    if (!cl->is_closing) {
      el_session_reset(session);
    }
  }
  if (news & EL_SESSION_NEWS_REFUSED) {
    el_local_queues_fail_for_lease(cl->shared->queues);
  }
  if (news & EL_SESSION_NEWS_TOO_SLOW) {
    el_local_queues_fail_waiting(cl->shared->queues,
                                 el_session_last_error(session, 0));
  }
  if (news & EL_SESSION_NEWS_READY) {
    el_local_queues_mark_changed(cl->shared->queues);
  }
}

/* If the option fail_fast is set, fails all waits and wakes all watchers when etcd was found
 * unreachable. */
static void fail_fast(el_client *cl) {
  el_shared *shared = cl->shared;
  if (cl->failed_ms == shared->contact.failed_ms) return;
  cl->failed_ms = shared->contact.failed_ms;
  if (cl->failed_ms != 0 && shared->fail_fast) {
    el_local_queues_fail_waiting(shared->queues, &shared->contact.error);
    el_watcher_wake_all(shared);
  }
}

static bool is_settled(const el_client *cl) {
  return cl->session.news == 0 &&
         el_local_queues_are_served(cl->shared->queues) &&
         (cl->has_left_cluster ||
          el_request_queue_wrong_cluster(cl->shared->requests) == NULL);
}

/* Tells whether the session has ended and nothing is left to delete. The end of the lease deletes
 * its keys. If the session has left its lease to expire, the entries delete their keys instead, so
 * no entry may be left. */
static bool is_session_over(const el_session *session) {
  return el_session_is_over(session) &&
         (session->lease.end != EL_SESSION_END_LEFT_TO_EXPIRE ||
          session->users == 0);
}

/* Stops the loop when close has nothing more to wait for. */
static void stop_if_closed(el_client *cl) {
  if (cl->is_closing && is_session_over(&cl->session)) {
    cl->is_stopping = true;
    el_loop_stop(cl->loop);
  }
}

/* settle runs after every event on the I/O thread. The session collects what concerns the parts
 * above it as news, because its entries must not change during an event of the session, and settle
 * passes the news on.
 *
 * The order of the steps is important:
 *  1. Losses come first. After the session has expired, no lock may look held and no waiter may
 *     be granted. A new lease must not take over holds of the last one. The hold deadline ends
 *     before the holds are marked as lost one by one; otherwise some of them would still look held
 *     while others are lost.
 *  2. The hold deadline is published after the lost locks are marked (see el_hold_deadline). The
 *     grants that it covers come after that.
 *  3. The local queues start their next waiters, because each step before may have freed an
 *     entry. */
static void settle_once(el_client *cl) {
  el_session *session = &cl->session;
  leave_cluster(cl);
  handle_news(cl);
  fail_fast(cl);
  el_session_publish_hold_deadline(session);
  el_entry_pass_on_proof(session);
  el_local_queues_serve(cl->shared->queues);
  if (session->wanted && !cl->is_closing) {
    el_session_need(session);
  }
  session->wanted = false;
  if (session->users == 0) {
    el_session_set_unused(session);
  }
}

/* Shows to other threads how long a wait without a timeout may last. Once etcd has answered, there
 * is never a limit again. */
static void publish_wait_limit(el_shared *shared) {
  if (atomic_load(&shared->wait_limit_ms) != INT64_MAX) {
    atomic_store(&shared->wait_limit_ms,
                 el_request_queue_wait_limit_ms(shared->requests));
  }
}

static void settle(void *arg) {
  el_client *cl = arg;
  if (cl->is_stopping) return;
  do {
    settle_once(cl);
    if (is_settled(cl)) el_request_queue_send_ready(cl->shared->requests);
  } while (!is_settled(cl)); /* a request may fail while it is sent */
  publish_wait_limit(cl->shared);
  stop_if_closed(cl);
}

/* ---- open and close ---- */

static void on_key_found(el_session *session, int64_t lease, el_bytes key) {
  el_local_queues_add_found_key(session->shared->queues, lease, key);
}

static void on_failover(el_failover_listener *listener, const el_error *why) {
  el_client *cl = EL_CONTAINER_OF(listener, el_client, failover);
  size_t member = cl->member;
  const char *left = el_channel_address(cl->channel, member);
  cl->member = el_channel_member(cl->channel);
  if (cl->is_closing) return;
  el_session_moved(&cl->session);
  if (cl->member == member) return; /* another connection to it */
  el_events_note(&cl->shared->events,
                 &(el_event){.kind = EL_EVENT_FAILOVER,
                             .subject = {left, strlen(left)},
                             .why = {why->text, strlen(why->text)}});
}

static void on_new_leader(el_failover_listener *listener) {
  el_client *cl = EL_CONTAINER_OF(listener, el_client, failover);
  if (!cl->is_closing) el_session_moved(&cl->session);
}

static void on_authenticated(void *arg, int64_t took_ms) {
  el_shared *shared = arg;
  EL_COUNT(&shared->counters, authentications, 1);
  EL_COUNT(&shared->counters, authentication_ms, took_ms);
}

/* Makes the parts of the client that only the I/O thread uses. */
static void run_open(el_command *command) {
  el_client *cl = EL_CONTAINER_OF(command, el_client, open_command);
  el_shared *shared = cl->shared;
  el_options *options = cl->options;
  el_timers *timers = el_loop_timers(cl->loop);
  cl->channel =
      el_channel_new(cl->loop, options->endpoints, options->n, options->tls);
  cl->member = el_channel_member(cl->channel);
  cl->failover.on_failover = on_failover;
  cl->failover.on_new_leader = on_new_leader;
  el_channel_add_listener(cl->channel, &cl->failover);
  shared->auth =
      el_auth_new(cl->channel, timers, options->user, options->password,
                  options->token, on_authenticated, shared);
  options->tls = NULL;                      /* the channel owns it */
  options->user = options->password = NULL; /* el_auth owns them */
  shared->fail_fast = options->plain.fail_fast;
  shared->timers = timers;
  shared->requests = el_request_queue_new(shared);
  shared->watches = el_watches_new(shared->auth, timers);
  cl->session =
      (el_session){.shared = shared,
                   .watch_cache = el_watch_cache_new(shared->watches, timers),
                   .ttl_ms = options->plain.ttl_ms,
                   .lock_delay_ms = options->plain.lock_delay_ms,
                   .key_checked = el_entry_key_checked,
                   .found_key = on_key_found};
  el_session_init(&cl->session);
  shared->queues = el_local_queues_new(&cl->session, &options->plain.handoff);
  cl->alarms = el_alarms_new(timers);
  el_options_free(options);
  cl->options = NULL;
}

static void on_close_budget_spent(el_timer *timer) {
  el_client *cl = EL_CONTAINER_OF(timer, el_client, close_timer);
  cl->is_stopping = true;
  el_loop_stop(cl->loop);
}

static void run_close(el_command *command) {
  el_client *cl = EL_CONTAINER_OF(command, el_client, close_command);
  el_error err;
  cl->is_closing = true;
  el_error_set(&err, EL_CLOSED, "the client was closed");
  el_local_queues_close(cl->shared->queues, &err);
  cl->shared->closed = err;
  el_guarded_fail_all(cl->shared);
  el_watcher_close_all(cl->shared);
  el_session_close(&cl->session);
  cl->close_timer.on_due = on_close_budget_spent;
  el_timers_set(el_loop_timers(cl->loop), &cl->close_timer,
                el_now_ms() + cl->close_budget_ms);
}

/* Stops the parts, because the loop is about to cancel all calls. After this, an answer to a call
 * is only freed. */
static void on_stopping(void *arg) {
  el_client *cl = arg;
  el_session_stop(&cl->session);
  el_request_queue_stop(cl->shared->requests);
  el_auth_stop(cl->shared->auth);
}

/* Frees the parts of the client when no call is under way. Except for |auth|, a part that uses
 * another part is freed before that part. */
static void on_stopped(void *arg) {
  el_client *cl = arg;
  /* el_auth_free comes first, because it ends the calls that wait for a token. */
  el_auth_free(cl->shared->auth);
  el_local_queues_free(cl->shared->queues);
  el_alarms_free(cl->alarms);
  el_session_destroy(&cl->session);
  el_watcher_free_all(cl->shared);
  el_watch_cache_free(cl->session.watch_cache);
  el_watches_free(cl->shared->watches);
  el_request_queue_free(cl->shared->requests);
  el_channel_free(cl->channel);
}

/* ---- alarms ---- */

typedef struct alarm_command {
  el_command command;
  el_client *cl;
  el_wake *wake;
  uint64_t id;
  int64_t at_ms; /* when the alarm is due (el_now_ms); 0: cancel it */
} alarm_command;

static void run_alarm(el_command *command) {
  alarm_command *alarm = EL_CONTAINER_OF(command, alarm_command, command);
  if (alarm->at_ms != 0) {
    el_alarms_set(alarm->cl->alarms, alarm->wake, alarm->id, alarm->at_ms);
  } else {
    el_alarms_cancel(alarm->cl->alarms, alarm->id);
  }
  free(alarm);
}

bool el_client_alarm(el_client *cl, el_wake *wake, uint64_t id, int64_t ms) {
  alarm_command *alarm = malloc(sizeof *alarm);
  if (alarm == NULL) return false;
  *alarm = (alarm_command){.command.run = run_alarm,
                           .cl = cl,
                           .wake = wake,
                           .id = id,
                           .at_ms = ms >= 0 ? el_now_ms() + ms : 0};
  if (el_shared_post(cl->shared, &alarm->command)) return true;
  free(alarm);
  return false;
}

/* ---- password ---- */

typedef struct password_command {
  el_command command;
  el_client *cl;
  char *password;
} password_command;

static void run_set_password(el_command *command) {
  password_command *set = EL_CONTAINER_OF(command, password_command, command);
  el_auth_set_password(set->cl->shared->auth, set->password);
  free(set);
}

bool el_client_set_password(el_client *cl, const char *password,
                            el_error *err) {
  password_command *set = malloc(sizeof *set);
  if (set == NULL) {
    el_error_set(err, EL_NOMEM, "no memory");
    return false;
  }
  *set = (password_command){.command.run = run_set_password, .cl = cl};
  if (!el_secret_copy(&set->password, password)) {
    el_error_set(err, EL_NOMEM, "no memory");
  } else if (!el_shared_post(cl->shared, &set->command)) {
    el_error_set(err, EL_CLOSED, "the client was closed");
    el_secret_free(set->password);
  } else {
    return true;
  }
  free(set);
  return false;
}

/* ---- read fields ---- */

el_shared *el_client_shared(const el_client *cl) { return cl->shared; }

el_breaker *el_client_breaker(const el_client *cl) { return cl->breaker; }

int64_t el_client_wait_limit_ms(const el_client *cl) {
  return atomic_load(&cl->shared->wait_limit_ms);
}

int64_t el_client_alive_ms(const el_client *cl) {
  int64_t left = atomic_load(&cl->shared->alive_until_ms) - el_now_ms();
  return left > 0 ? left : 0;
}

/* ---- new and close ---- */

void el_client_begin_close(el_client *cl, int64_t budget_ms) {
  cl->close_budget_ms = budget_ms;
  cl->close_command.run = run_close;
  el_loop_post(cl->loop, &cl->close_command);
}

bool el_client_has_stopped(el_client *cl) {
  return el_loop_has_ended(cl->loop);
}

void el_client_shut(el_client *cl) { cl->shared->loop = NULL; }

void el_client_join(el_client *cl) {
  el_loop_join(cl->loop);
  if (cl->shared->wake_queue != NULL) {
    el_wake_queue_close_fd(cl->shared->wake_queue);
  }
}

void el_client_free(el_client *cl) {
  el_breaker_free(cl->breaker);
  el_shared_unref(cl->shared);
  free(cl);
}

static bool start(el_client *cl, el_error *err) {
  static const el_loop_events events = {settle, on_stopping, on_stopped};
  cl->loop = el_loop_start(&events, cl, err);
  if (cl->loop == NULL) return false;
  cl->shared->loop = cl->loop;
  cl->open_command.run = run_open;
  el_loop_post(cl->loop, &cl->open_command);
  return true;
}

static el_client *new_client(const el_connect_options *options, el_error *err) {
  el_client *cl = calloc(1, sizeof *cl);
  if (cl == NULL || (cl->shared = el_shared_new()) == NULL) {
    free(cl);
    el_error_set(err, EL_NOMEM, "no memory for a client");
    return NULL;
  }
  cl->breaker = el_breaker_new(cl->shared);
  if (cl->breaker == NULL) {
    el_client_free(cl);
    el_error_set(err, EL_NOMEM, "no memory for a client");
    return NULL;
  }
  cl->options = el_options_new(options, err);
  cl->shared->events.are_wanted = options->plain.wants_events;
  if (cl->options != NULL && start(cl, err)) return cl;
  if (cl->options != NULL) {
    el_options_free(cl->options);
  }
  el_client_free(cl);
  return NULL;
}

el_client *el_client_new(const el_connect_options *options, el_error *err) {
  if (!el_process_use_grpc()) {
    el_error_set(
        err, EL_FORKED,
        "this process was forked after its parent had connected, and cannot "
        "use etcd; connect only after the fork, or run a new program");
    return NULL;
  }
  return new_client(options, err);
}
