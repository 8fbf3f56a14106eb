/* simulation etcd_watch: the watch streams of the simulated etcd. A watch begins at the present
 * revision of its member, because the client names none (etcd.proto).
 *
 * The messages of one watch keep their order, and so do the answers to creates and cancels of one
 * stream. Messages of different watches may overtake each other, as they do in etcd if a watch is
 * slow. */
#include "etcd_int.h"

#include <stdlib.h>
#include <string.h>

enum { NO_ID = -1, LATE_MAX_US = 3000 * WORLD_MS, SLOW_US = 100 * WORLD_MS };

/* What etcd says in the field cancel_reason. */
#define DENIED \
  "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
#define DUPLICATE_ID "mvcc: duplicate watch ID provided on the WatchStream"
#define EMPTY_RANGE  "mvcc: watcher range is empty"

/* ---- sending ---- */

static uint8_t *pack_response(const member *at, int64_t rev,
                              Etcd__WatchResponse *response, size_t *len) {
  Etcd__ResponseHeader header = ETCD__RESPONSE_HEADER__INIT;
  header.revision = rev;
  member_fill(at, &header);
  response->header = &header;
  return etcd_pack(&response->base, len);
}

/* Sends |response| |delay_us| from now, but after the message that leaves at |*last_us|. */
static task *send_response(etcd_call *call, Etcd__WatchResponse *response,
                           int64_t rev, int64_t delay_us, int64_t *last_us) {
  size_t len;
  uint8_t *bytes = pack_response(call->at, rev, response, &len);
  int64_t at_us = world_now_us() + delay_us;
  if (at_us <= *last_us) at_us = *last_us + 1;
  *last_us = at_us;
  return send_at(call, at_us, bytes, len);
}

static int64_t short_us(const etcd_call *call) {
  return world_random(0, call->cluster->options.read_min_us);
}

static void send_control(etcd_call *call, Etcd__WatchResponse *response) {
  send_response(call, response, 0, short_us(call), &call->last_out_us);
}

/* ---- events ---- */

static void fill_event(Etcd__Event *event, Etcd__KeyValue *kv,
                       const change *it) {
  const etcd_key *key = it->after;
  etcd__event__init(event);
  etcd__key_value__init(kv);
  event->kv = kv;
  kv->mod_revision = it->rev;
  if (key == NULL) {
    event->type = ETCD__EVENT__EVENT_TYPE__DELETE;
    kv->key = data_of(it->before->key);
    return;
  }
  kv->key = data_of(key->key);
  kv->value = data_of(key->value);
  kv->create_revision = key->create_rev;
  kv->version = key->version;
  kv->lease = key->lease;
}

/* What to send of the |n| changes at |changes|. */
typedef struct selection {
  const change *changes;
  size_t n;
  int64_t delay_us;
} selection;

static bool is_seen(const watch *by, const change *it) {
  el_bytes key = (it->after != NULL ? it->after : it->before)->key;
  return is_in_range(key, by->key, by->range_end);
}

/* Sends, in one message, the changes that |by| sees. Returns false if it sees none. */
static bool send_events(etcd_call *call, watch *by, const selection *what) {
  Etcd__WatchResponse response = ETCD__WATCH_RESPONSE__INIT;
  arena memory = {0};
  Etcd__Event *events = arena_take(&memory, what->n * sizeof *events);
  Etcd__KeyValue *kvs = arena_take(&memory, what->n * sizeof *kvs);
  response.events = arena_take(&memory, what->n * sizeof *response.events);
  for (size_t i = 0; i < what->n; i++) {
    size_t k = response.n_events;
    if (!is_seen(by, &what->changes[i])) continue;
    fill_event(&events[k], &kvs[k], &what->changes[i]);
    response.events[k] = &events[k];
    response.n_events++;
  }
  if (response.n_events > 0) {
    task *it;
    response.watch_id = by->id;
    it = send_response(call, &response, what->changes->rev, what->delay_us,
                       &by->last_us);
    it->watch = by;
    it->is_event = true;
  }
  arena_free(&memory);
  return response.n_events > 0;
}

static bool sees_any(const watch *by, const change *changes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (is_seen(by, &changes[i])) return true;
  }
  return false;
}

static void notify(etcd_call *call, watch *by, const change *changes,
                   size_t n) {
  const etcd_options *options = &call->cluster->options;
  bool is_lost, is_late;
  if (!sees_any(by, changes, n)) return;
  is_lost = world_chance(options->watch_lost);
  is_late = world_chance(options->watch_late);
  if (!is_lost) {
    send_events(
        call, by,
        &(selection){changes, n,
                     is_late ? world_random(1, LATE_MAX_US) : short_us(call)});
  }
  if (world_chance(options->watch_break)) {
    end_at(call, world_now_us(), &etcd_stopped);
  }
}

void watches_notify(member *at, const change *changes, size_t n) {
  for (etcd_call *call = at->cluster->calls; call != NULL; call = call->next) {
    for (size_t i = 0; call->at == at && i < call->n_watches; i++) {
      notify(call, call->watches[i], changes, n);
    }
  }
}

/* Sends a new watch old deletions again, as a restored member does (etcd issue 15271). */
static void replay(etcd_call *call, watch *by) {
  const store *st = &call->cluster->store;
  if (!world_chance(call->cluster->options.watch_replayed)) return;
  for (size_t i = 0; i < st->n_changes; i++) {
    const change *it = &st->changes[i];
    if (it->after == NULL && it->rev <= call->at->rev) {
      send_events(call, by, &(selection){it, 1, 0});
    }
  }
}

/* ---- creating and cancelling ---- */

static watch *find(const etcd_call *call, int64_t id) {
  for (size_t i = 0; i < call->n_watches; i++) {
    if (call->watches[i]->id == id) return call->watches[i];
  }
  return NULL;
}

static void free_watch(watch *it) {
  free((void *)(uintptr_t)it->key.data);
  free(it);
}

/* Returns a new watch, with copies of the ends of its range. */
static watch *new_watch(int64_t id, el_bytes key, el_bytes range_end) {
  watch *it = el_alloc(sizeof *it);
  char *data = el_alloc(key.len + range_end.len + 1);
  memcpy(data, key.data, key.len);
  if (range_end.len > 0) {
    memcpy(data + key.len, range_end.data, range_end.len);
  }
  *it = (watch){.id = id,
                .key = {data, key.len},
                .range_end = {data + key.len, range_end.len}};
  return it;
}

static void refuse(etcd_call *call, const char *reason) {
  Etcd__WatchResponse response = ETCD__WATCH_RESPONSE__INIT;
  response.watch_id = NO_ID;
  response.created = response.canceled = true;
  response.cancel_reason = (char *)(uintptr_t)reason;
  send_control(call, &response);
}

/* Fills the header when the answer leaves, so its revision may be above that of a first event. */
static void on_created_due(el_timer *timer) {
  task *it = EL_CONTAINER_OF(timer, task, timer);
  etcd_call *call = it->call;
  Etcd__WatchResponse response = ETCD__WATCH_RESPONSE__INIT;
  uint8_t *bytes;
  size_t len;
  member_advance(it->at);
  response.watch_id = it->rev;
  response.created = true;
  bytes = pack_response(it->at, 0, &response, &len);
  task_free(it);
  call->events->on_message(call->arg, bytes, len);
  free(bytes);
}

static void send_created(etcd_call *call, watch *by) {
  task *it = task_new(call, on_created_due);
  int64_t at_us = world_now_us() + short_us(call);
  if (at_us <= call->last_out_us) at_us = call->last_out_us + 1;
  call->last_out_us = by->last_us = at_us;
  it->rev = by->id;
  world_set(&it->timer, at_us);
}

static bool is_empty(el_bytes key, el_bytes range_end) {
  bool is_to_end = range_end.len == 1 && range_end.data[0] == '\0';
  return range_end.len > 0 && !is_to_end && etcd_compare(key, range_end) >= 0;
}

static void create(etcd_call *call, const Etcd__WatchCreateRequest *request) {
  el_bytes key = bytes_of(request->key);
  el_bytes range_end = bytes_of(request->range_end);
  int64_t id = request->watch_id;
  bool is_denied = world_chance(call->cluster->options.denied);
  const failure *bad = call->cluster->options.hash_us != 0
                           ? auth_check(call->at, call->token)
                           : NULL;
  watch *it;
  if (bad != NULL) {
    refuse(call, bad->text);
    return;
  }
  if (key.len == 0) key = (el_bytes){"", 1}; /* the smallest key */
  if (is_denied || is_empty(key, range_end) ||
      (id != 0 && find(call, id) != NULL)) {
    refuse(call, is_denied                  ? DENIED
                 : is_empty(key, range_end) ? EMPTY_RANGE
                                            : DUPLICATE_ID);
    return;
  }
  while (id == 0 && find(call, call->next_watch_id) != NULL) {
    call->next_watch_id++;
  }
  if (id == 0) id = call->next_watch_id++;
  member_advance(call->at);
  it = new_watch(id, key, range_end);
  call->watches = etcd_grow(call->watches, call->n_watches, &call->room_watches,
                            sizeof *call->watches);
  call->watches[call->n_watches++] = it;
  costs_of(call->cluster, call->client)->n_watches++;
  send_created(call, it);
  replay(call, it);
}

/* Ends |by|. Its events that have not left yet never leave. */
static void remove_watch(etcd_call *call, watch *by) {
  task *next;
  for (task *it = call->cluster->first_task; it != NULL; it = next) {
    next = it->next;
    if (it->is_event && it->watch == by) task_free(it);
  }
  for (size_t i = 0; i < call->n_watches; i++) {
    if (call->watches[i] != by) continue;
    memmove(&call->watches[i], &call->watches[i + 1],
            (call->n_watches - i - 1) * sizeof *call->watches);
    break;
  }
  call->n_watches--;
  free_watch(by);
}

static void cancel(etcd_call *call, int64_t id) {
  Etcd__WatchResponse response = ETCD__WATCH_RESPONSE__INIT;
  watch *it = find(call, id);
  if (it == NULL) return; /* etcd does not answer */
  remove_watch(call, it);
  response.watch_id = id;
  response.canceled = true;
  send_control(call, &response);
}

static void on_request_due(el_timer *timer) {
  task *it = EL_CONTAINER_OF(timer, task, timer);
  const Etcd__WatchRequest *request = it->watch_request;
  if (request->request_union_case ==
      ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST) {
    check_known(&request->create_request->base);
    create(it->call, request->create_request);
  } else if (request->request_union_case ==
             ETCD__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST) {
    cancel(it->call, request->cancel_request->watch_id);
  }
  task_free(it);
}

void watch_on_message(etcd_call *call, const uint8_t *bytes, size_t len) {
  Etcd__WatchRequest *request = etcd__watch_request__unpack(NULL, len, bytes);
  int64_t at_us = world_now_us() + short_us(call);
  task *it;
  if (request == NULL) {
    end_at(call, world_now_us(), &etcd_malformed);
    return;
  }
  check_known(&request->base);
  it = task_new(call, on_request_due);
  it->watch_request = request;
  if (at_us <= call->last_in_us) at_us = call->last_in_us + 1;
  call->last_in_us = at_us;
  world_set(&it->timer, at_us);
}

/* ---- compaction ---- */

/* Returns whether an event for the watch |by| will be sent later than in SLOW_US. etcd then reads
 * it from the history. */
static bool is_slow(const etcd *cluster, const watch *by) {
  for (const task *it = cluster->first_task; it != NULL; it = it->next) {
    if (it->is_event && it->watch == by &&
        it->timer.at_ms > world_now_us() + SLOW_US) {
      return true;
    }
  }
  return false;
}

static void compact_stream(etcd_call *call) {
  for (size_t i = 0; i < call->n_watches;) {
    Etcd__WatchResponse response = ETCD__WATCH_RESPONSE__INIT;
    watch *it = call->watches[i];
    if (!is_slow(call->cluster, it) || !world_chance(500)) {
      i++;
      continue;
    }
    response.watch_id = it->id;
    response.canceled = true;
    response.compact_revision = call->cluster->store.compacted_rev;
    remove_watch(call, it);
    send_control(call, &response);
  }
}

/* May cancel watches whose next event etcd reads from the history, which lacks it now. */
void watches_compact(etcd *cluster) {
  for (etcd_call *call = cluster->calls; call != NULL; call = call->next) {
    compact_stream(call);
  }
}

void watches_free(etcd_call *call) {
  for (size_t i = 0; i < call->n_watches; i++) {
    free_watch(call->watches[i]);
  }
  free(call->watches);
}
