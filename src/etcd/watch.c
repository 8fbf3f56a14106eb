/* watch: the watch streams of a client, for any number of keys.
 *
 * One stream serves all watches, unless a proxy limits what a client may send in a call. Then the
 * stream ends before etcd has answered all creates. The number of its watches is halved, and the
 * others go to further streams. */
#include "etcd/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/jitter.h"
#include "base/random.h"
#include "etcd.pb-c.h"
#include "etcd/txn.h"
#include "net/stream.h"

enum {
  NO_ID = -1, /* the ID in etcd's answer when it refuses to create a watch */
  /* The most streams of a client. Proxies allow about 100 on a connection, and other calls need
   * some of them. If the last stream has too many watches, etcd creates none of them, and their
   * owners depend on their periodic reads. */
  STREAMS_MAX = 8
};

/* A stream with its watches. The first stream of the client stands for all. */
struct el_watches {
  int number;       /* of the stream, from 1 to STREAMS_MAX */
  el_watches *next; /* the next stream of the client; NULL: none */
  size_t most;      /* how many watches the stream may have */
  el_auth *auth;
  el_timers *timers;
  el_stream *st;         /* NULL: none */
  unsigned token_number; /* of the token that |st| carries */
  el_watch *by_id;       /* hash of the started watches */
  /* the last ID that a watch here got; IDs start at 1, and none is used twice in one el_watches */
  int64_t last_id;
  /* the ID of the oldest create on this stream that etcd has not answered. If it is above last_id,
   * all are answered. 0: no create was sent on this stream */
  int64_t unanswered_id;
  /* the ID of the last create that on_reopen has sent on this stream; 0: it has sent none */
  int64_t reopened_id;
  el_timer reopen; /* opens the stream again */
  int n_reopens; /* calls of schedule_reopen since on_created or on_failover has reset it */
  uint64_t salt;       /* a random number, for the jitter of the delay */
  el_token_wait token; /* waits until the stream may be opened */
  el_failover_listener listener;
};

static void send_request(el_watches *watches, const Etcd__WatchRequest *req) {
  size_t len = etcd__watch_request__get_packed_size(req);
  uint8_t *bytes = el_alloc(len);
  etcd__watch_request__pack(req, bytes);
  el_stream_send(watches->st, bytes, len);
  free(bytes);
}

/* Returns the range_end for all keys that begin with |prefix|. It has prefix.len bytes, and the
 * caller frees it. */
static uint8_t *end_of_prefix(el_bytes prefix) {
  uint8_t *end = el_alloc(prefix.len);
  memcpy(end, prefix.data, prefix.len);
  end[prefix.len - 1]++;
  return end;
}

static void send_create(el_watches *watches, const el_watch *watch) {
  Etcd__WatchRequest request = ETCD__WATCH_REQUEST__INIT;
  Etcd__WatchCreateRequest create = ETCD__WATCH_CREATE_REQUEST__INIT;
  uint8_t *end = NULL;
  create.key.data = (uint8_t *)(uintptr_t)watch->key.data;
  create.key.len = watch->key.len;
  if (watch->is_prefix) {
    create.range_end.data = end = end_of_prefix(watch->key);
    create.range_end.len = watch->key.len;
  }
  create.watch_id = watch->id;
  if (watches->unanswered_id == 0) watches->unanswered_id = watch->id;
  request.request_union_case =
      ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
  request.create_request = &create;
  send_request(watches, &request);
  free(end);
}

static void send_cancel(el_watches *watches, int64_t id) {
  Etcd__WatchRequest request = ETCD__WATCH_REQUEST__INIT;
  Etcd__WatchCancelRequest cancel = ETCD__WATCH_CANCEL_REQUEST__INIT;
  cancel.watch_id = id;
  request.request_union_case =
      ETCD__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
  request.cancel_request = &cancel;
  send_request(watches, &request);
}

/* ---- the stream ---- */

static el_watch *find(el_watches *watches, int64_t id) {
  el_watch *watch = NULL;
  HASH_FIND(hh, watches->by_id, &id, sizeof id, watch);
  return watch;
}

/* Gives |watch| a new ID, for its create on the present stream. The IDs of the creates on one
 * stream have no gaps. */
static void give_id(el_watches *watches, el_watch *watch) {
  watch->id = ++watches->last_id;
  watch->is_created = false;
  HASH_ADD(hh, watches->by_id, id, sizeof watch->id, watch);
}

/* Opens the stream again after a pause, which grows until etcd has created a watch. */
static void schedule_reopen(el_watches *watches) {
  int64_t now_ms = el_now_ms();
  if (watches->n_reopens < INT_MAX) watches->n_reopens++;
  el_timers_set(watches->timers, &watches->reopen,
                now_ms +
                    el_pause_ms(watches->n_reopens, watches->salt, now_ms));
}

static void restart_stream(el_watches *watches) {
  el_stream_close(watches->st);
  watches->st = NULL;
  schedule_reopen(watches);
}

/* Returns the ID of the create that |message| answers, and counts it as answered. Returns 0 if
 * |message| answers no create that was sent. etcd answers the creates in their order. Since 3.4,
 * its answer to a create that it refuses has the ID -1. */
static int64_t take_answered(el_watches *watches,
                             const Etcd__WatchResponse *message) {
  int64_t id = watches->unanswered_id;
  bool fits = message->watch_id == id ||
              (message->watch_id == NO_ID && message->canceled);
  if (id > watches->last_id || !fits) return 0;
  watches->unanswered_id++;
  return id;
}

/* Ends |watch|, which will not be created again, and tells its owner. */
static void refuse(el_watches *watches, el_watch *watch,
                   const el_watch_event *event) {
  HASH_DEL(watches->by_id, watch);
  watch->id = 0;
  watch->is_created = false;
  watch->on_event(watch, event);
}

/* Called when etcd has ended |watch| or has refused to create it. The reason "permission denied"
 * concerns only |watch|. After any other reason (the token, compaction, a fault of the member), all
 * watches of this stream are created anew on a new stream. */
static void on_canceled(el_watches *watches, el_watch *watch,
                        const char *reason) {
  el_watch_event event = {.kind = EL_WATCH_REFUSED};
  if (strstr(reason, "permission denied") == NULL) {
    event.err.is_token_bad = strstr(reason, "auth token") != NULL ||
                             strstr(reason, "auth store is old") != NULL;
    el_auth_report(watches->auth, watches->token_number, &event.err);
    restart_stream(watches);
    return;
  }
  el_error_set(&event.err, EL_DENIED, "etcd %s: watch of \"%.*s\": %s",
               el_stream_address(watches->st), (int)watch->key.len,
               watch->key.data, reason);
  el_auth_name_user(watches->auth, &event.err);
  refuse(watches, watch, &event);
}

static void on_events(el_watches *watches, int64_t id,
                      const Etcd__WatchResponse *message) {
  for (size_t i = 0; i < message->n_events; i++) {
    const Etcd__Event *from = message->events[i];
    /* The owner may have stopped the watch in the previous event. */
    el_watch *watch = find(watches, id);
    el_watch_event event = {0};
    if (watch == NULL) return;
    event.kind = from->type == ETCD__EVENT__EVENT_TYPE__DELETE
                     ? EL_WATCH_DELETED
                     : EL_WATCH_PUT;
    event.rev = from->kv->mod_revision;
    event.lease = from->kv->lease;
    event.key = (el_bytes){(const char *)from->kv->key.data, from->kv->key.len};
    watch->on_event(watch, &event);
  }
}

/* Returns whether |message| has a header, and each of its events a KeyValue, and whether all their
 * revisions are possible (0: the revision is missing). */
static bool is_whole(const Etcd__WatchResponse *message) {
  if (message->header == NULL || !el_is_revision(message->header->revision)) {
    return false;
  }
  for (size_t i = 0; i < message->n_events; i++) {
    const Etcd__KeyValue *kv = message->events[i]->kv;
    if (kv == NULL || !el_is_revision(kv->mod_revision)) return false;
  }
  return true;
}

static void on_created(el_watches *watches, el_watch *watch, int64_t rev) {
  el_watch_event event = {.kind = EL_WATCH_CREATED, .rev = rev};
  watches->n_reopens = 0;
  watch->is_created = true;
  watch->on_event(watch, &event);
}

/* Handles |message|. A message about a watch that was stopped meanwhile is ignored. */
static void on_response(el_watches *watches,
                        const Etcd__WatchResponse *message) {
  int64_t id =
      message->created ? take_answered(watches, message) : message->watch_id;
  el_watch *watch = find(watches, id);
  if (message->created && id == 0) {
    restart_stream(watches); /* it is unknown which watches etcd has created */
  } else if (watch == NULL) {
    return;
  } else if (message->canceled) {
    on_canceled(watches, watch, message->cancel_reason);
  } else if (message->created) {
    on_created(watches, watch, message->header->revision);
  } else {
    on_events(watches, id, message);
  }
}

static void on_message(void *arg, const uint8_t *bytes, size_t len) {
  el_watches *watches = arg;
  Etcd__WatchResponse *message = etcd__watch_response__unpack(NULL, len, bytes);
  if (message != NULL && is_whole(message)) {
    on_response(watches, message);
  } else {
    restart_stream(watches); /* an event may be lost */
  }
  if (message != NULL) etcd__watch_response__free_unpacked(message, NULL);
}

static void open_stream(el_watches *watches);
static void start(el_watches *watches, el_watch *watch);

/* Tells whether the stream, which has ended with |err|, may have had too many watches: what was
 * sent when it was opened again was too much for a proxy. (A stream that is older may end because
 * of all that was sent in its life. It can be opened again.) */
static bool has_too_many(const el_watches *watches, const el_error *err) {
  return err->is_over_limit && watches->unanswered_id <= watches->reopened_id &&
         HASH_COUNT(watches->by_id) > 1;
}

static void on_ended(void *arg, const el_error *err) {
  el_watches *watches = arg;
  el_auth_report(watches->auth, watches->token_number, err);
  watches->st = NULL;
  if (has_too_many(watches, err) && watches->number < STREAMS_MAX) {
    watches->most = HASH_COUNT(watches->by_id) / 2;
  }
  if (watches->by_id != NULL) {
    schedule_reopen(watches);
  }
}

static void on_reopen(el_timer *timer) {
  el_watches *watches = EL_CONTAINER_OF(timer, el_watches, reopen);
  el_watch *old = watches->by_id, *watch, *next;
  if (watches->st != NULL || old == NULL) return;
  open_stream(watches);
  if (watches->st == NULL) return; /* open_stream waits for a token */
  watches->by_id = NULL;
  HASH_ITER(hh, old, watch, next) {
    HASH_DEL(old, watch);
    start(watches, watch);
  }
  watches->reopened_id = watches->last_id;
}

/* Opens the stream. If a token is needed first, waits for the token, and on_token then opens the
 * stream. */
static void open_stream(el_watches *watches) {
  static const el_stream_events events = {on_message, on_ended};
  if (!el_auth_is_ready(watches->auth)) {
    el_auth_await_token(watches->auth, &watches->token);
    return;
  }
  watches->unanswered_id = watches->reopened_id = 0;
  watches->st = el_stream_open(el_auth_channel(watches->auth),
                               "/etcdserverpb.Watch/Watch", &events, watches);
  watches->token_number = el_auth_token_number(watches->auth);
}

static void on_token(el_token_wait *wait, const el_error *err) {
  el_watches *watches = EL_CONTAINER_OF(wait, el_watches, token);
  if (err->code == EL_OK) {
    on_reopen(&watches->reopen);
  } else if (watches->st == NULL && watches->by_id != NULL) {
    schedule_reopen(watches);
  }
}

/* Closes the stream. If it has watches, opens a stream to the new member: at once, or after a pause
 * if a call to the new member has also just failed. */
static void on_failover(el_failover_listener *listener, const el_error *cause) {
  el_watches *watches = EL_CONTAINER_OF(listener, el_watches, listener);
  (void)cause;
  if (watches->st == NULL) return;
  el_stream_close(watches->st);
  watches->st = NULL;
  if (watches->by_id == NULL) return;
  if (el_channel_is_healthy(el_auth_channel(watches->auth))) {
    watches->n_reopens = 0;
    el_timers_set(watches->timers, &watches->reopen, el_now_ms());
  } else {
    schedule_reopen(watches);
  }
}

/* ---- start and stop ---- */

static el_watches *new_stream(el_auth *auth, el_timers *timers, int number,
                              size_t most) {
  el_watches *watches = el_alloc(sizeof *watches);
  watches->number = number;
  watches->most = most;
  watches->auth = auth;
  watches->timers = timers;
  watches->salt = el_random();
  watches->reopen.on_due = on_reopen;
  watches->token.done = on_token;
  watches->listener.on_failover = on_failover;
  el_channel_add_listener(el_auth_channel(auth), &watches->listener);
  return watches;
}

el_watches *el_watches_new(el_auth *auth, el_timers *timers) {
  return new_stream(auth, timers, 1, SIZE_MAX);
}

void el_watches_free(el_watches *watches) {
  if (watches->next != NULL) {
    el_watches_free(watches->next);
  }
  if (watches->st != NULL) {
    el_stream_close(watches->st);
  }
  el_timers_stop(watches->timers, &watches->reopen);
  el_auth_cancel_wait(watches->auth, &watches->token);
  HASH_CLEAR(hh, watches->by_id);
  free(watches);
}

/* Returns the stream after |watches|. The last one takes any number of watches. */
static el_watches *next_stream(el_watches *watches) {
  if (watches->next == NULL) {
    int number = watches->number + 1;
    watches->next = new_stream(watches->auth, watches->timers, number,
                               number < STREAMS_MAX ? watches->most : SIZE_MAX);
  }
  return watches->next;
}

/* Starts |watch| on the stream |watches|, or on the first one after it that may have another
 * watch. */
static void start(el_watches *watches, el_watch *watch) {
  while (HASH_COUNT(watches->by_id) >= watches->most) {
    watches = next_stream(watches);
  }
  give_id(watches, watch);
  if (watches->st == NULL && watches->reopen.slot == 0) {
    open_stream(watches);
  }
  if (watches->st != NULL) {
    send_create(watches, watch);
  } /* otherwise on_reopen or on_token creates it */
}

void el_watch_start(el_watches *watches, el_watch *watch, el_bytes key) {
  watch->key = key;
  watch->is_prefix = false;
  start(watches, watch);
}

void el_watch_start_prefix(el_watches *watches, el_watch *watch,
                           el_bytes prefix) {
  watch->key = prefix;
  watch->is_prefix = true;
  start(watches, watch);
}

/* Returns the stream of |watch|, which is started. |first| is the client's first stream. */
static el_watches *stream_of(el_watches *first, const el_watch *watch) {
  el_watches *watches = first;
  while (find(watches, watch->id) != watch) {
    watches = watches->next;
  }
  return watches;
}

void el_watch_move(el_watches *watches, el_watch *from, el_watch *to,
                   el_bytes key) {
  watches = stream_of(watches, from);
  HASH_DEL(watches->by_id, from);
  to->key = key;
  to->id = from->id;
  to->is_prefix = from->is_prefix;
  to->is_created = from->is_created;
  from->id = 0;
  from->is_created = false;
  HASH_ADD(hh, watches->by_id, id, sizeof to->id, to);
}

void el_watch_stop(el_watches *watches, el_watch *watch) {
  if (watch->id == 0) return;
  watches = stream_of(watches, watch);
  HASH_DEL(watches->by_id, watch);
  if (watches->st != NULL) {
    send_cancel(watches, watch->id);
  }
  watch->id = 0;
  watch->is_created = false;
}
