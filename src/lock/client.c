/* client: one connection to one etcd cluster. */
#include "lock/client.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/process.h"
#include "etcd/watch.h"
#include "lock/alarms.h"
#include "lock/entry_driver.h"
#include "lock/local_queues.h"
#include "lock/requests.h"
#include "lock/sessions.h"

struct el_client {
  /* Lua's side. */
  el_handle *handle;
  el_command open_command, close_command;
  el_settings *settings;   /* until the client is open */
  int64_t close_budget_ms; /* written before the command is posted */

  /* The I/O thread's own. */
  el_loop *loop;
  el_channel *channel;
  el_auth *auth;
  el_requests *requests;
  el_watches *watches;
  el_watch_cache *watch_cache;
  el_sessions *sessions;
  el_local_queues *queues;
  el_guarded_world guarded;
  el_watcher_world watchers;
  el_status_world statuses;
  el_alarms *alarms;
  el_failover_listener move; /* from one member to another */
  size_t member;             /* the one before it */
  int64_t outage_ms;         /* when it was found last; 0: there is none */
  bool fail_fast;            /* nobody waits for an etcd that is away */
  bool has_left;             /* the cluster, which is another one now */
  bool closing;
  bool stopping;
  el_timer close_timer;
};

/* ---- settle: what one part learnt, to the others ---- */

/* Another cluster answers: nothing that we hold is worth anything. */
static void leave_cluster(el_client *cl) {
  const el_error *wrong = el_requests_wrong_cluster(cl->requests);
  el_entry_world *first = el_sessions_first(cl->sessions), *world;
  if (wrong == NULL || cl->has_left) return;
  cl->has_left = true;
  for (world = first; world != NULL; world = world->next) {
    el_session_driver_end_claim(world->session, EL_LOSS_CLUSTER);
  }
  el_local_queues_leave(cl->queues, wrong);
  for (world = first; world != NULL; world = world->next) {
    el_session_driver_drop(world->session);
  }
}

static void take_news(el_client *cl, el_entry_world *world) {
  el_session_driver *session = world->session;
  unsigned news = el_session_driver_take_news(session);
  if (news & EL_SESSION_NEWS_LAPSED) {
    el_local_queues_lapse(cl->queues, world);
  }
  if (news & EL_SESSION_NEWS_GONE) {
    el_session_driver_end_claim(session, EL_LOSS_REVOKED);
    el_local_queues_bury(cl->queues, world, el_session_driver_end(session));
    if (!cl->closing) {
      el_session_driver_renew(session);
    }
  }
  if (news & EL_SESSION_NEWS_REFUSED) {
    el_local_queues_refuse(cl->queues, world, el_session_driver_cause(session));
  }
  if (news & EL_SESSION_NEWS_READY) {
    el_local_queues_begin(cl->queues, world);
  }
}

/* What attempts have found out, for those who would rather not make one. */
static void tell_outage(el_client *cl) {
  const el_error *why;
  int64_t found_ms = el_requests_outage(cl->requests, &why);
  if (found_ms == cl->outage_ms) return;
  cl->outage_ms = found_ms;
  el_outage_note(&cl->handle->outage, found_ms, why);
  if (found_ms != 0 && cl->fail_fast) {
    el_local_queues_fail_waiting(cl->queues, why);
    el_watcher_world_tell_outage(&cl->watchers);
  }
}

static bool is_settled(const el_client *cl) {
  return !el_sessions_have_news(cl->sessions) &&
         el_local_queues_are_settled(cl->queues) &&
         (cl->has_left || el_requests_wrong_cluster(cl->requests) == NULL);
}

/* Once closing has done what it can: nothing is waited for any more. */
static void stop_if_closed(el_client *cl) {
  if (cl->closing && el_sessions_are_over(cl->sessions)) {
    cl->stopping = true;
    el_loop_stop(cl->loop);
  }
}

/* Runs after every event on the I/O thread, because no step function may be
 * entered from within another's action: what a step has to say to other parts
 * waits until it is over.
 *
 * The order is that of danger. What is lost is told first: a holder must not
 * look held, or a waiter be granted, on the strength of a session that has
 * lapsed, and a renewed session must not inherit holds that it doesn't cover. The
 * claim ends before the holds are told one by one, or some would look held still
 * when others are lost.
 * Only then is the claim published (claim.h wants lost locks to be marked before
 * it grows), after it the grants that it covers, and last the turns of those
 * who wait, because each of the former may have made a place free. The number of
 * holds comes at the end, when it is what it is. */
static void settle_once(el_client *cl) {
  el_entry_world *first = el_sessions_first(cl->sessions), *world;
  leave_cluster(cl);
  for (world = first; world != NULL; world = world->next) {
    take_news(cl, world);
  }
  tell_outage(cl);
  for (world = first; world != NULL; world = world->next) {
    el_session_driver_publish_claim(world->session);
    el_entry_world_settle_proving(world);
  }
  el_local_queues_settle(cl->queues);
  for (world = first; world != NULL; world = world->next) {
    if (world->wanted && !cl->closing) {
      el_session_driver_want(world->session);
    }
    world->wanted = false;
    el_session_driver_tell_holds(world->session);
    if (world->users == 0) {
      el_session_driver_note_unused(world->session);
    }
  }
}

static void settle(void *arg) {
  el_client *cl = arg;
  if (cl->stopping) return;
  do {
    settle_once(cl);
  } while (!is_settled(cl));
  stop_if_closed(cl);
}

/* ---- open and close ---- */

static void on_key_found(void *arg, int64_t lease, el_bytes key) {
  el_client *cl = arg;
  el_local_queues_find_key(cl->queues, lease, key);
}

static void on_moved(el_failover_listener *move, const el_error *why) {
  el_client *cl = EL_CONTAINER_OF(move, el_client, move);
  const char *left = el_channel_address(cl->channel, cl->member);
  cl->member = el_channel_member(cl->channel);
  el_events_note(&cl->handle->events,
                 &(el_event){.kind = EL_EVENT_MEMBER_LEFT,
                             .subject = {left, strlen(left)},
                             .why = {why->text, strlen(why->text)}});
}

/* The parts that only the I/O thread may touch are made there. */
static void run_open(el_command *command) {
  el_client *cl = EL_CONTAINER_OF(command, el_client, open_command);
  el_settings *settings = cl->settings;
  el_timers *timers = el_loop_timers(cl->loop);
  el_session_world session;
  el_entry_world world;
  cl->channel =
      el_channel_new(cl->loop, settings->endpoints, settings->n, settings->tls);
  cl->member = el_channel_member(cl->channel);
  cl->move.on_failover = on_moved;
  el_channel_add_listener(cl->channel, &cl->move);
  cl->auth = el_auth_new(cl->channel, timers, settings->user,
                         settings->password, settings->token);
  settings->tls = NULL; /* theirs now */
  settings->user = settings->password = NULL;
  cl->fail_fast = settings->plain.fail_fast;
  cl->requests = el_requests_new(cl->auth, timers, &cl->handle->counters,
                                 &cl->handle->events);
  session = (el_session_world){.auth = cl->auth,
                               .requests = cl->requests,
                               .timers = timers,
                               .handle = cl->handle,
                               .ttl_ms = settings->plain.ttl_ms,
                               .found_key = on_key_found,
                               .arg = cl};
  cl->watches = el_watches_new(cl->auth, timers);
  cl->watch_cache = el_watch_cache_new(cl->watches, timers);
  world = (el_entry_world){.auth = cl->auth,
                           .requests = cl->requests,
                           .watches = cl->watches,
                           .watch_cache = cl->watch_cache,
                           .timers = timers,
                           .counters = &cl->handle->counters};
  cl->sessions = el_sessions_new(&session, &world);
  cl->queues = el_local_queues_new(cl->sessions, &settings->plain.handoff);
  cl->handle->queues = cl->queues;
  el_guarded_world_init(&cl->guarded, cl->requests, timers,
                        settings->plain.fail_fast);
  el_watcher_world_init(&cl->watchers, cl->watches, &cl->handle->counters);
  el_status_world_init(&cl->statuses, cl->auth, &cl->handle->counters);
  cl->alarms = el_alarms_new(timers);
  el_settings_free(settings);
  cl->settings = NULL;
}

static void on_close_budget_spent(el_timer *timer) {
  el_client *cl = EL_CONTAINER_OF(timer, el_client, close_timer);
  cl->stopping = true;
  el_loop_stop(cl->loop);
}

static void run_close(el_command *command) {
  el_client *cl = EL_CONTAINER_OF(command, el_client, close_command);
  el_entry_world *world = el_sessions_first(cl->sessions);
  el_error err;
  cl->closing = true;
  el_error_set(&err, EL_CLOSED, "the client was closed");
  el_local_queues_close(cl->queues, &err);
  el_guarded_world_close(&cl->guarded, &err);
  el_watcher_world_close(&cl->watchers, &err);
  el_status_world_close(&cl->statuses, &err);
  for (; world != NULL; world = world->next) {
    el_session_driver_close(world->session);
  }
  cl->close_timer.on_due = on_close_budget_spent;
  el_timers_set(el_loop_timers(cl->loop), &cl->close_timer,
                el_now_ms() + cl->close_budget_ms);
}

/* Before calls are cancelled: what they answer is only tidied up. */
static void on_stopping(void *arg) {
  el_client *cl = arg;
  el_sessions_stop(cl->sessions);
  el_requests_stop(cl->requests);
  el_auth_stop(cl->auth);
}

/* Nothing is under way any more: every part is freed, from above to below. */
static void on_stopped(void *arg) {
  el_client *cl = arg;
  el_auth_free(cl->auth); /* first: it ends the calls that wait for it */
  el_local_queues_free(cl->queues);
  el_alarms_free(cl->alarms);
  el_sessions_free(cl->sessions);
  el_watcher_world_free(&cl->watchers);
  el_watch_cache_free(cl->watch_cache);
  el_watches_free(cl->watches);
  el_requests_free(cl->requests);
  el_channel_free(cl->channel);
}

/* ---- alarms ---- */

typedef struct alarm_request {
  el_command command;
  el_client *cl;
  el_wake *wake;
  uint64_t id;
  int64_t at_ms; /* 0: not any more */
} alarm_request;

static void run_alarm(el_command *command) {
  alarm_request *request = EL_CONTAINER_OF(command, alarm_request, command);
  if (request->at_ms != 0) {
    el_alarms_set(request->cl->alarms, request->wake, request->id,
                  request->at_ms);
  } else {
    el_alarms_cancel(request->cl->alarms, request->id);
  }
  free(request);
}

bool el_client_alarm(el_client *cl, el_wake *wake, uint64_t id, int64_t ms) {
  alarm_request *request = malloc(sizeof *request);
  if (request == NULL) return false;
  *request = (alarm_request){.command.run = run_alarm,
                             .cl = cl,
                             .wake = wake,
                             .id = id,
                             .at_ms = ms >= 0 ? el_now_ms() + ms : 0};
  if (el_handle_post(cl->handle, &request->command)) return true;
  free(request);
  return false;
}

/* ---- the door ---- */

el_handle *el_client_handle(const el_client *cl) { return cl->handle; }

el_guarded *el_client_guarded(el_client *cl) {
  return el_guarded_new(cl->handle, &cl->guarded);
}

el_watcher *el_client_watcher(el_client *cl, el_bytes prefix, el_error *err) {
  return el_watcher_new(cl->handle, &cl->watchers, prefix, err);
}

el_status *el_client_status(el_client *cl, int64_t timeout_ms, el_error *err) {
  return el_status_start(cl->handle, &cl->statuses, timeout_ms, err);
}

int64_t el_client_alive_ms(const el_client *cl) {
  int64_t left = atomic_load(&cl->handle->alive_until) - el_now_ms();
  return left > 0 ? left : 0;
}

/* ---- life ---- */

void el_client_begin_close(el_client *cl, int64_t budget_ms) {
  cl->close_budget_ms = budget_ms;
  cl->close_command.run = run_close;
  el_loop_post(cl->loop, &cl->close_command);
}

bool el_client_has_stopped(el_client *cl) {
  return el_loop_has_ended(cl->loop);
}

void el_client_shut(el_client *cl) { cl->handle->loop = NULL; }

void el_client_join(el_client *cl) {
  el_loop_join(cl->loop);
  if (cl->handle->wake_queue != NULL) {
    el_wake_queue_close_fd(cl->handle->wake_queue);
  }
}

void el_client_free(el_client *cl) {
  el_handle_unref(cl->handle);
  free(cl);
}

static bool start(el_client *cl, el_error *err) {
  static const el_loop_events events = {settle, on_stopping, on_stopped};
  cl->loop = el_loop_start(&events, cl, err);
  if (cl->loop == NULL) return false;
  cl->handle->loop = cl->loop;
  cl->open_command.run = run_open;
  el_loop_post(cl->loop, &cl->open_command);
  return true;
}

static el_client *new_client(const el_connect_options *options, el_error *err) {
  el_client *cl = calloc(1, sizeof *cl);
  if (cl == NULL || (cl->handle = el_handle_new()) == NULL) {
    free(cl);
    el_error_set(err, EL_NOMEM, "no memory for a client");
    return NULL;
  }
  cl->settings = el_settings_new(options, err);
  cl->handle->events.are_wanted = options->plain.wants_events;
  if (cl->settings != NULL && start(cl, err)) return cl;
  if (cl->settings != NULL) {
    el_settings_free(cl->settings);
  }
  el_client_free(cl);
  return NULL;
}

el_client *el_client_new(const el_connect_options *options, el_error *err) {
  if (!el_process_use_grpc()) {
    el_error_set(
        err, EL_FORKED,
        "this process was forked after its parent had connected, so it "
        "can't use etcd; connect only after the fork, or run a new "
        "program");
    return NULL;
  }
  return new_client(options, err);
}
