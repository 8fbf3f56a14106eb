/* simulation etcd: the calls of the simulated etcd. A request becomes a task, which works for a
 * while, waits if there is no leader, is applied, and is answered when its member has applied it.
 */
#include "etcd.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "etcd_int.h"

enum {
  TIMEOUT_US = 7000 * WORLD_MS, /* etcd's own limit for a request */
  ELECTION_TIMEOUT_US = 1000 * WORLD_MS,
  REQUEST_MAX = 1536 * 1024 /* bytes, for a write */
};

const failure etcd_no_leader = {STATUS_UNAVAILABLE, "etcdserver: no leader"};
const failure etcd_stopped = {STATUS_UNAVAILABLE, "etcdserver: server stopped"};
const failure etcd_malformed = {
    STATUS_INTERNAL, "grpc: failed to unmarshal the received message"};

static const failure success = {STATUS_OK, ""};
static const failure timed_out = {STATUS_UNAVAILABLE,
                                  "etcdserver: request timed out"};
static const failure timed_out_leader = {
    STATUS_UNAVAILABLE,
    "etcdserver: request timed out, possibly due to previous leader failure"};
static const failure timed_out_cut = {
    STATUS_UNAVAILABLE,
    "etcdserver: request timed out, possibly due to connection lost"};
static const failure leader_changed = {STATUS_UNAVAILABLE,
                                       "etcdserver: leader changed"};
static const failure dropped = {STATUS_UNKNOWN, "raft proposal dropped"};
static const failure not_primary = {STATUS_UNKNOWN, "not a primary lessor"};
static const failure no_space = {STATUS_RESOURCE_EXHAUSTED,
                                 "etcdserver: mvcc: database space exceeded"};
static const failure denied = {STATUS_PERMISSION_DENIED,
                               "etcdserver: permission denied"};
static const failure too_many = {STATUS_RESOURCE_EXHAUSTED,
                                 "etcdserver: too many requests"};
static const failure learner = {STATUS_UNAVAILABLE,
                                "etcdserver: rpc not supported for learner"};
static const failure learner_36 = {STATUS_FAILED_PRECONDITION,
                                   "etcdserver: rpc not supported for learner"};
static const failure too_large = {STATUS_INVALID_ARGUMENT,
                                  "etcdserver: request is too large"};
static const failure auth_off = {STATUS_FAILED_PRECONDITION,
                                 "etcdserver: authentication is not enabled"};
static const failure unknown_method = {STATUS_UNIMPLEMENTED, "unknown method"};

/* One method of etcd's API. */
struct method {
  const char *path;
  bool is_stream;
  route route; /* read_txn and begin_unary may choose another */
  /* Decodes a request into |it|. Returns why etcd refuses it at once; NULL: it does not. */
  const failure *(*read)(task *it, const uint8_t *bytes, size_t len);
  /* Applies or reads. Stores the answer if there is one yet. Returns why etcd refuses, or NULL. */
  const failure *(*serve)(task *it);
};

/* ---- small things ---- */

uint8_t *etcd_pack(const ProtobufCMessage *message, size_t *len) {
  uint8_t *bytes = el_alloc(protobuf_c_message_get_packed_size(message) + 1);
  *len = protobuf_c_message_pack(message, bytes);
  return bytes;
}

void check_known(const ProtobufCMessage *message) {
  if (message->n_unknown_fields > 0) {
    world_violate("the simulated etcd knows all that is sent",
                  "field %u of %s is unknown",
                  (unsigned)message->unknown_fields[0].tag,
                  message->descriptor->name);
  }
}

int64_t draw_us(const etcd *cluster, int64_t min_us, int64_t max_us) {
  if (world_chance(cluster->options.slow) &&
      max_us < cluster->options.slow_max_us) {
    max_us = cluster->options.slow_max_us;
  }
  return world_random(min_us, max_us > min_us ? max_us : min_us);
}

/* Tells whether the leader gets the request. The writes of ended calls were sent before their
 * member went down. */
static bool is_reachable(const task *it) {
  bool is_sent = it->call == NULL && world_now_us() < it->at->down_until_us;
  return it->cluster->leader >= 0 && (is_sent || member_is_connected(it->at));
}

/* Returns whether the request may still be applied. */
static bool is_pending(const task *it) {
  return it->route == ROUTE_WRITE && !it->is_applied && !it->is_lost &&
         (it->failure == NULL || it->fate != FATE_NEVER);
}

/* ---- tasks ---- */

task *task_new(etcd_call *call, void (*on_due)(el_timer *timer)) {
  etcd *cluster = call->cluster;
  task *it = el_alloc(sizeof *it);
  it->timer.on_due = on_due;
  it->cluster = cluster;
  it->call = call;
  it->at = call->at;
  it->client = call->client;
  it->how = call->how;
  it->prev = cluster->last_task;
  *(it->prev != NULL ? &it->prev->next : &cluster->first_task) = it;
  cluster->last_task = it;
  return it;
}

void task_free(task *it) {
  etcd *cluster = it->cluster;
  *(it->prev != NULL ? &it->prev->next : &cluster->first_task) = it->next;
  *(it->next != NULL ? &it->next->prev : &cluster->last_task) = it->prev;
  world_stop(&it->timer);
  if (it->txn != NULL) txn_free(it->txn);
  if (it->watch_request != NULL) {
    etcd__watch_request__free_unpacked(it->watch_request, NULL);
  }
  free(it->bytes);
  free(it);
}

/* ---- the end of a call ---- */

static void set_timer(task *it) {
  int64_t at_us = it->due_us;
  if (it->call != NULL && at_us > it->deadline_us) at_us = it->deadline_us;
  if (at_us == INT64_MAX) {
    world_stop(&it->timer);
  } else {
    world_set(&it->timer, at_us);
  }
}

/* Ends the requests and messages of |call|, except writes that may still be applied. */
static void release_tasks(const etcd_call *call) {
  task *next;
  for (task *it = call->cluster->first_task; it != NULL; it = next) {
    next = it->next;
    if (it->call != call) continue;
    it->call = NULL;
    if (is_pending(it)) {
      set_timer(it);
    } else {
      task_free(it);
    }
  }
}

static void remove_call(etcd_call *call) {
  etcd *cluster = call->cluster;
  *(call->prev != NULL ? &call->prev->next : &cluster->calls) = call->next;
  if (call->next != NULL) call->next->prev = call->prev;
  if (cluster->sending == call) cluster->sending = NULL;
  release_tasks(call);
  watches_free(call);
  free(call->token);
  free(call);
}

void call_end(etcd_call *call, const failure *why) {
  const etcd_call_events *events = call->events;
  void *arg = call->arg;
  remove_call(call);
  events->on_status(arg, why->status, why->text);
}

/* In a quarter of the cases, etcd notices in time: it never applies the requests of the call. */
void etcd_cancel(etcd_call *call) {
  bool is_in_time = world_chance(250);
  for (task *it = call->cluster->first_task; it != NULL; it = it->next) {
    if (it->call == call && is_in_time) it->is_lost = true;
  }
  remove_call(call);
}

/* ---- messages that leave later ---- */

static void on_leave(el_timer *timer) {
  task *it = EL_CONTAINER_OF(timer, task, timer);
  etcd_call *call = it->call;
  uint8_t *bytes = it->bytes;
  size_t len = it->len;
  if (it->failure != NULL) {
    call_end(call, it->failure);
    return;
  }
  it->bytes = NULL;
  task_free(it);
  call->events->on_message(call->arg, bytes, len);
  free(bytes);
}

task *send_at(etcd_call *call, int64_t at_us, uint8_t *bytes, size_t len) {
  task *it = task_new(call, on_leave);
  it->bytes = bytes;
  it->len = len;
  world_set(&it->timer, at_us);
  return it;
}

void end_at(etcd_call *call, int64_t at_us, const failure *why) {
  send_at(call, at_us, NULL, 0)->failure = why;
}

/* ---- answers ---- */

static void set_answer(task *it, const ProtobufCMessage *message) {
  free(it->bytes);
  it->bytes = etcd_pack(message, &it->len);
}

static void start_next(etcd_call *call);

/* Sends the answer of |it| to its call, and frees |it|. */
static void answer(task *it) {
  etcd_call *call = it->call;
  etcd *cluster = it->cluster;
  bool is_stream = it->how->is_stream;
  uint8_t *bytes = it->bytes;
  size_t len = it->len;
  it->bytes = NULL;
  task_free(it);
  if (is_stream) {
    start_next(call);
    call->events->on_message(call->arg, bytes, len);
  } else {
    cluster->sending = call;
    call->events->on_message(call->arg, bytes, len);
    if (cluster->sending == call) call_end(call, &success);
  }
  free(bytes);
}

/* ---- a request in work ---- */

/* Returns how long the disk delays a request that arrives now. A member handles nothing of raft
 * while it saves (etcdserver/raft.go): writes wait for the next save, all for the same one. Reads
 * wait for the end of this save, and for up to two saves on other members. */
static int64_t disk_us(etcd *cluster, bool is_write) {
  int64_t now_us = world_now_us(), save_us = cluster->options.save_us;
  if (save_us == 0) return 0;
  while (cluster->saved_us <= now_us &&
         (cluster->saves_again || cluster->options.is_disk_busy)) {
    cluster->saved_us += save_us;
    cluster->saves_again = false;
  }
  if (cluster->saved_us > now_us) {
    int64_t others_us =
        cluster->options.n_members > 1 ? world_random(0, 2 * save_us) : 0;
    if (!is_write) return cluster->saved_us - now_us + others_us;
    cluster->saves_again = true;
    return cluster->saved_us - now_us + save_us;
  }
  if (!is_write) return 0;
  cluster->saved_us = now_us + save_us;
  return save_us;
}

static int64_t own_us(const task *it) {
  const etcd_options *options = &it->cluster->options;
  switch (it->route) {
    case ROUTE_WRITE:
      return disk_us(it->cluster, true) +
             draw_us(it->cluster, options->write_min_us, options->write_max_us);
    case ROUTE_LOCAL:
      return draw_us(it->cluster, 0, options->read_min_us);
    default:
      return (it->route == ROUTE_LEADER ? options->keepalive_us : 0) +
             disk_us(it->cluster, false) +
             draw_us(it->cluster, options->read_min_us, options->read_max_us);
  }
}

static bool is_authenticate(const task *it);

static int64_t work_us(const task *it) {
  const etcd_options *options = &it->cluster->options;
  int64_t busy_us = auth_busy_us(it->at);
  if (options->hash_us != 0 && is_authenticate(it)) {
    busy_us += auth_hash_us(it->at);
  }
  return busy_us + own_us(it);
}

/* Waits until a leader or the member is back. A write then gets lost or is applied, even if the
 * client has been told of a timeout meanwhile. */
static void wait_for_leader(task *it) {
  it->stage = STAGE_WAITING;
  it->due_us = INT64_MAX;
  if (it->route == ROUTE_WRITE && world_chance(500)) it->is_lost = true;
  if (it->call == NULL && it->is_lost) {
    task_free(it);
  } else {
    set_timer(it);
  }
}

static const failure *why_timed_out(const task *it) {
  if (it->stage != STAGE_WAITING) return &timed_out;
  if (it->route == ROUTE_LEADER) return &etcd_no_leader;
  if (it->route != ROUTE_WRITE) return &timed_out;
  return member_is_connected(it->at) ? &timed_out_leader : &timed_out_cut;
}

static void catch_up(task *it) {
  it->stage = STAGE_CATCHING_UP;
  it->applied_us = world_now_us();
  it->due_us = it->applied_us;
}

static bool is_caught_up(task *it) {
  int64_t due_us = member_due(it->at, it->applied_us);
  member_advance(it->at);
  if (due_us <= world_now_us()) return true;
  it->due_us = due_us;
  set_timer(it);
  return false;
}

static const failure *check_token(const task *it);

static void serve_and_answer(task *it) {
  const failure *why = check_token(it);
  if (why == NULL) why = it->how->serve(it);
  if (why != NULL) {
    call_end(it->call, why);
  } else if (it->bytes == NULL) {
    wait_for_leader(it);
  } else if (it->route == ROUTE_READ) {
    /* events of watches may overtake the answer */
    it->stage = STAGE_ANSWERING;
    it->due_us = world_now_us() + world_random(0, WORLD_MS);
    set_timer(it);
  } else {
    answer(it);
  }
}

/* Applies a write. If etcd refuses it, the refusal is the answer. */
static void apply(task *it) {
  it->is_applied = true;
  it->failure = it->how->serve(it);
  members_advance(it->cluster);
}

static void step_write(task *it) {
  if (it->stage == STAGE_CATCHING_UP) {
    if (!is_caught_up(it)) return;
    if (it->failure != NULL) {
      call_end(it->call, it->failure);
    } else {
      answer(it);
    }
    return;
  }
  if (!is_reachable(it)) {
    wait_for_leader(it);
    return;
  }
  apply(it);
  if (it->call == NULL) {
    task_free(it);
    return;
  }
  catch_up(it);
  if (is_caught_up(it)) step_write(it);
}

static void step_read(task *it) {
  if (it->stage == STAGE_ANSWERING) {
    answer(it);
    return;
  }
  if (it->stage != STAGE_CATCHING_UP) {
    if (!is_reachable(it)) {
      wait_for_leader(it);
      return;
    }
    catch_up(it);
  }
  if (is_caught_up(it)) serve_and_answer(it);
}

static void step_leader(task *it) {
  if (is_reachable(it) || member_is_deposed(it->at)) {
    serve_and_answer(it);
  } else {
    wait_for_leader(it);
  }
}

/* The request fails. A write is applied before, later or never. */
static void step_failing(task *it) {
  const failure *why = it->failure;
  if (it->fate == FATE_BEFORE && is_reachable(it)) {
    apply(it);
  } else if (it->fate == FATE_LATER) {
    it->due_us = world_now_us() + world_random(0, TIMEOUT_US);
  } else {
    it->is_lost = true;
  }
  it->failure = NULL;
  if (it->call != NULL) {
    call_end(it->call, why);
  } else if (is_pending(it)) {
    set_timer(it);
  } else {
    task_free(it);
  }
}

static void on_due(el_timer *timer) {
  task *it = EL_CONTAINER_OF(timer, task, timer);
  if (it->call != NULL && world_now_us() >= it->deadline_us) {
    if (it->failure != NULL) {
      step_failing(it);
    } else {
      call_end(it->call, why_timed_out(it));
    }
  } else if (it->failure != NULL && it->stage == STAGE_WORKING) {
    step_failing(it);
  } else if (it->route == ROUTE_WRITE) {
    step_write(it);
  } else if (it->route == ROUTE_READ) {
    step_read(it);
  } else if (it->route == ROUTE_LEADER) {
    step_leader(it);
  } else {
    member_advance(it->at);
    serve_and_answer(it);
  }
}

static bool is_request(const task *it) { return it->timer.on_due == on_due; }

/* A proposal that the last leader has not decided may be lost with it. A read fails, or is asked
 * again of the next leader. */
void tasks_on_lost_leader(etcd *cluster) {
  for (task *it = cluster->first_task; it != NULL; it = it->next) {
    if (!is_request(it) || it->stage != STAGE_WORKING || it->failure != NULL) {
      continue;
    }
    if (it->route == ROUTE_WRITE && it->call != NULL && world_chance(300)) {
      it->is_lost = true;
      it->stage = STAGE_WAITING;
      it->due_us = INT64_MAX;
    } else if (it->route == ROUTE_READ && world_chance(500)) {
      it->failure = &leader_changed;
    }
    set_timer(it);
  }
}

/* A member that waits for a leader, to ask it about a lease, looks once in each election timeout
 * (v3_server.go, waitLeader). */
void tasks_wake(etcd *cluster) {
  for (task *it = cluster->first_task; it != NULL; it = it->next) {
    if (!is_request(it) || it->stage != STAGE_WAITING || it->is_lost ||
        !is_reachable(it)) {
      continue;
    }
    it->stage = STAGE_WORKING;
    it->due_us = world_now_us() + work_us(it);
    if (it->route == ROUTE_LEADER)
      it->due_us += world_random(0, ELECTION_TIMEOUT_US);
    set_timer(it);
  }
}

/* ---- what fails at once, or by a drawn fault ---- */

static const failure *pick(const failure *const *from, int n) {
  return from[world_random(0, n - 1)];
}

static void count_request(const task *it, size_t len);
static bool uses_space(const task *it);
static bool needs_rights(const task *it);

static void draw_no_space(task *it, bool is_drawn) {
  if (!uses_space(it) || it->failure != NULL) return;
  if (it->cluster->is_full) {
    it->failure = &no_space;
    /* The write that uses up the quota is applied, and refused all the same (quota.go). */
    it->fate = world_chance(125) ? FATE_BEFORE : FATE_NEVER;
  } else if (is_drawn) {
    it->failure = &no_space;
    it->fate = world_chance(500) ? FATE_BEFORE : FATE_NEVER;
  }
}

/* Draws each fault, also one that is switched off, so that the draws stay the same until that fault
 * would first have occurred. */
static void draw_faults(task *it) {
  static const failure *const definite[] = {&too_many, &learner, &learner_36};
  static const failure *const unclear[] = {
      &timed_out, &timed_out_leader, &leader_changed, &etcd_stopped, &dropped};
  static const fate fates[] = {FATE_NEVER, FATE_BEFORE, FATE_LATER};
  const etcd_options *options = &it->cluster->options;
  bool is_refused = world_chance(options->refused);
  bool is_denied = world_chance(options->denied);
  bool is_unavailable = world_chance(options->unavailable);
  bool is_no_space = world_chance(options->no_space);
  if (is_refused) {
    it->failure = pick(definite, 3);
  } else if (is_denied && needs_rights(it)) {
    it->failure = &denied;
  } else if (is_unavailable) {
    it->failure = pick(unclear, 5);
    it->fate = fates[world_random(0, 2)];
  }
  draw_no_space(it, is_no_space);
}

/* Begins to work on |it|. Its timeout counts from now; for an Authenticate, from the end of its
 * hash. */
static void start(task *it) {
  it->stage = STAGE_WORKING;
  it->due_us = world_now_us() + work_us(it);
  it->deadline_us =
      (is_authenticate(it) ? it->due_us : world_now_us()) + TIMEOUT_US;
  set_timer(it);
}

static void check_one_hash(const task *it) {
  if (!it->cluster->options.is_one_hash) return;
  for (const task *at = it->cluster->first_task; at != NULL; at = at->next) {
    if (at != it && is_request(at) && is_authenticate(at) &&
        at->client == it->client) {
      world_violate("one Authenticate of a client at a time", "client %d",
                    it->client);
    }
  }
}

static void begin_unary(etcd_call *call, const uint8_t *bytes, size_t len) {
  task *it = task_new(call, on_due);
  it->route = call->how->route;
  it->failure = call->how->read(it, bytes, len);
  count_request(it, len);
  if (is_authenticate(it) && call->cluster->options.hash_us != 0) {
    it->route = ROUTE_WRITE;
    check_one_hash(it);
    auth_check_need(it->at, it->client);
  }
  if (call->needs_leader && !member_knows_leader(call->at)) {
    it->failure = &etcd_no_leader;
  } else if (it->failure == NULL && it->route == ROUTE_WRITE &&
             len > REQUEST_MAX) {
    it->failure = &too_large;
  } else if (it->failure == NULL) {
    if (it->route == ROUTE_WRITE) it->failure = check_token(it);
    if (it->failure == NULL) draw_faults(it);
  }
  start(it);
}

/* ---- KV ---- */

static const failure *read_txn(task *it, const uint8_t *bytes, size_t len) {
  it->txn = txn_read(bytes, len);
  if (it->txn == NULL) return &etcd_malformed;
  it->route = txn_is_serializable(it->txn) ? ROUTE_LOCAL
              : txn_is_read(it->txn)       ? ROUTE_READ
                                           : ROUTE_WRITE;
  return txn_check(it->txn);
}

static omissions draw_omissions(const etcd_options *options) {
  bool of_names = world_chance(options->omits_leases);
  bool of_all = world_chance(options->omits_leases / 10);
  return (omissions){of_names, of_all, world_chance(options->omits_more)};
}

static int64_t read_rev(const task *it) {
  bool is_stale = world_chance(it->cluster->options.stale_read);
  int64_t rev = it->at->rev;
  if (it->route == ROUTE_LOCAL && is_stale) rev -= world_random(1, 20);
  return rev > 1 ? rev : 1;
}

/* Fills |header|. An answer to a write has the state after the write. */
static void fill_state(const task *it, Etcd__ResponseHeader *header) {
  bool is_write = it->route == ROUTE_WRITE;
  if (is_write) header->revision = it->cluster->store.rev;
  member_fill(it->at, header);
  if (is_write) header->raft_term = it->cluster->term;
}

static const failure *serve_txn(task *it) {
  omissions omits = draw_omissions(&it->cluster->options);
  arena memory = {0};
  Etcd__TxnResponse *response = NULL;
  const failure *why = txn_apply(it->cluster, it->txn, read_rev(it), it->client,
                                 &omits, &memory, &response);
  if (why == NULL) {
    fill_state(it, response->header);
    set_answer(it, &response->base);
  }
  arena_free(&memory);
  return why;
}

/* ---- leases ---- */

static const failure *read_grant(task *it, const uint8_t *bytes, size_t len) {
  Etcd__LeaseGrantRequest *request =
      etcd__lease_grant_request__unpack(NULL, len, bytes);
  if (request == NULL) return &etcd_malformed;
  check_known(&request->base);
  it->lease = request->id;
  it->ttl_s = request->ttl;
  etcd__lease_grant_request__free_unpacked(request, NULL);
  return NULL;
}

static Etcd__ResponseHeader *fill(const task *it,
                                  Etcd__ResponseHeader *header) {
  etcd__response_header__init(header);
  fill_state(it, header);
  return header;
}

static const failure *serve_grant(task *it) {
  Etcd__ResponseHeader header;
  Etcd__LeaseGrantResponse response = ETCD__LEASE_GRANT_RESPONSE__INIT;
  const failure *why = lease_grant(it->cluster, &it->lease, &it->ttl_s);
  if (why != NULL) return why;
  response.header = fill(it, &header);
  response.id = it->lease;
  response.ttl = it->ttl_s;
  set_answer(it, &response.base);
  return NULL;
}

/* The other requests about a lease have its ID as their first field, so all are read as one. */
static const failure *read_lease(task *it, const uint8_t *bytes, size_t len) {
  Etcd__LeaseTimeToLiveRequest *request =
      etcd__lease_time_to_live_request__unpack(NULL, len, bytes);
  if (request == NULL) return &etcd_malformed;
  check_known(&request->base);
  it->lease = request->id;
  it->with_keys = request->keys;
  etcd__lease_time_to_live_request__free_unpacked(request, NULL);
  return NULL;
}

static const failure *serve_revoke(task *it) {
  Etcd__ResponseHeader header;
  Etcd__LeaseRevokeResponse response = ETCD__LEASE_REVOKE_RESPONSE__INIT;
  const failure *why =
      lease_revoke(it->cluster, it->lease, ETCD_BY_REVOKE, it->client);
  if (why != NULL) return why;
  response.header = fill(it, &header);
  set_answer(it, &response.base);
  return NULL;
}

static const failure *serve_time_to_live(task *it) {
  const member *deposed = member_is_deposed(it->at) ? it->at : NULL;
  Etcd__ResponseHeader header;
  Etcd__LeaseTimeToLiveResponse response =
      ETCD__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
  arena memory = {0};
  lease_time_to_live(it->cluster, deposed, it->lease, it->with_keys, &memory,
                     &response);
  response.header = fill(it, &header);
  set_answer(it, &response.base);
  arena_free(&memory);
  return NULL;
}

/* ---- the keepalive stream ---- */

/* Starts the request of a keepalive stream that has waited longest. Without one, ends a stream that
 * is half-closed. */
static void start_next(etcd_call *call) {
  static const failure *const breaks[] = {&timed_out, &etcd_stopped,
                                          &etcd_no_leader};
  task *it = call->cluster->first_task;
  while (it != NULL &&
         (it->call != call || it->stage != STAGE_QUEUED || !is_request(it))) {
    it = it->next;
  }
  call->is_busy = it != NULL;
  if (it == NULL) {
    if (call->is_half_closed) end_at(call, world_now_us(), &success);
    return;
  }
  if (it->failure == NULL && world_chance(call->cluster->options.keep_break)) {
    it->failure = pick(breaks, 3);
  }
  /* set now, because etcd fills the header before it renews the lease */
  it->rev = it->at->rev;
  it->term = it->at->term;
  start(it);
}

static void begin_keepalive(etcd_call *call, const uint8_t *bytes, size_t len) {
  task *it = task_new(call, on_due);
  it->route = ROUTE_LEADER;
  it->failure = call->how->read(it, bytes, len);
  count_request(it, len);
  it->deadline_us = INT64_MAX;
  if (!call->is_busy) start_next(call);
}

static const failure *serve_keepalive(task *it) {
  Etcd__ResponseHeader header;
  Etcd__LeaseKeepAliveResponse response = ETCD__LEASE_KEEP_ALIVE_RESPONSE__INIT;
  bool is_deposed = member_is_deposed(it->at);
  if (is_deposed && !it->at->is_renewing) return &not_primary;
  response.id = it->lease;
  response.ttl = is_deposed ? lease_renew_old(it->cluster, it->at, it->lease)
                            : lease_renew(it->cluster, it->lease);
  if (response.ttl < 0) return NULL; /* there is no answer yet */
  if (is_deposed && response.ttl > 0) {
    it->at->has_renewed = true;
    if (it->cluster->on_false_renewal != NULL) {
      it->cluster->on_false_renewal(it->client);
    }
  }
  response.header = fill(it, &header);
  header.revision = it->rev;
  header.raft_term = it->term;
  set_answer(it, &response.base);
  return NULL;
}

/* ---- the other methods ---- */

static const failure *read_nothing(task *it, const uint8_t *bytes, size_t len) {
  (void)it;
  (void)bytes;
  (void)len;
  return NULL;
}

static uint64_t leader_id(const member *as_seen_by) {
  const etcd *cluster = as_seen_by->cluster;
  if (member_is_deposed(as_seen_by)) return as_seen_by->id;
  if (!member_knows_leader(as_seen_by)) return 0;
  return cluster->members[cluster->last_leader].id;
}

static const failure *serve_status(task *it) {
  Etcd__ResponseHeader header;
  Etcd__StatusResponse response = ETCD__STATUS_RESPONSE__INIT;
  char *errors[2];
  response.header = fill(it, &header);
  response.version = (char *)"3.5.34";
  response.dbsize = response.dbsizeinuse =
      20480 + 256 * (int64_t)it->cluster->store.n_changes;
  response.leader = leader_id(it->at);
  response.raftterm = header.raft_term;
  response.raftindex = (uint64_t)it->at->rev;
  response.errors = errors;
  if (response.leader == 0) {
    errors[response.n_errors++] = (char *)"etcdserver: no leader";
  }
  if (it->cluster->is_full) {
    errors[response.n_errors++] = (char *)"memberID:1 alarm:NOSPACE ";
  }
  set_answer(it, &response.base);
  return NULL;
}

static const failure *serve_authenticate(task *it) {
  Etcd__ResponseHeader header;
  Etcd__AuthenticateResponse response = ETCD__AUTHENTICATE_RESPONSE__INIT;
  if (it->cluster->options.hash_us == 0) return &auth_off;
  response.header = fill(it, &header);
  response.token = (char *)(uintptr_t)auth_assign(it->cluster, it->client);
  set_answer(it, &response.base);
  return NULL;
}

static const method methods[] = {
    {"/etcdserverpb.KV/Txn", false, ROUTE_WRITE, read_txn, serve_txn},
    {"/etcdserverpb.Lease/LeaseGrant", false, ROUTE_WRITE, read_grant,
     serve_grant},
    {"/etcdserverpb.Lease/LeaseRevoke", false, ROUTE_WRITE, read_lease,
     serve_revoke},
    {"/etcdserverpb.Lease/LeaseTimeToLive", false, ROUTE_LEADER, read_lease,
     serve_time_to_live},
    {"/etcdserverpb.Lease/LeaseKeepAlive", true, ROUTE_LEADER, read_lease,
     serve_keepalive},
    {"/etcdserverpb.Watch/Watch", true, ROUTE_LOCAL, NULL, NULL},
    {"/etcdserverpb.Maintenance/Status", false, ROUTE_LOCAL, read_nothing,
     serve_status},
    {"/etcdserverpb.Auth/Authenticate", false, ROUTE_READ, read_nothing,
     serve_authenticate},
};

enum { METHODS = sizeof methods / sizeof *methods };

static bool uses_space(const task *it) {
  return it->how->serve == serve_grant ||
         (it->txn != NULL && it->route == ROUTE_WRITE && txn_puts(it->txn));
}

/* Status and Authenticate need no rights. */
static bool needs_rights(const task *it) {
  return it->how->serve != serve_status && it->how->serve != serve_authenticate;
}

static bool is_about_lease(const task *it) {
  return it->how->read == read_lease || it->how->read == read_grant;
}

static bool is_authenticate(const task *it) {
  return it->how->serve == serve_authenticate;
}

/* Returns why etcd refuses |it| because of its token; NULL: it does not. Without checks_lease_calls
 * etcd serves calls about leases without a token, and keepalives with any. */
static const failure *check_token(const task *it) {
  const etcd_options *options = &it->cluster->options;
  const char *token = it->call != NULL ? it->call->token : NULL;
  if (options->hash_us == 0 || it->call == NULL || !needs_rights(it)) {
    return NULL;
  }
  if (it->txn == NULL && !options->checks_lease_calls &&
      (token == NULL || it->how->serve == serve_keepalive)) {
    return NULL;
  }
  return auth_check(it->at, token);
}

/* ---- what clients cost ---- */

etcd_costs *costs_of(etcd *cluster, int client) {
  size_t n = (size_t)client + 1;
  if (n > cluster->n_costs) {
    cluster->costs = el_realloc(cluster->costs, n * sizeof *cluster->costs);
    memset(cluster->costs + cluster->n_costs, 0,
           (n - cluster->n_costs) * sizeof *cluster->costs);
    cluster->n_costs = n;
  }
  return &cluster->costs[client];
}

etcd_costs etcd_costs_of(const etcd *cluster, int client) {
  return (size_t)client < cluster->n_costs ? cluster->costs[client]
                                           : (etcd_costs){0};
}

int etcd_n_watches(const etcd *cluster, int client) {
  int n = 0;
  for (const etcd_call *it = cluster->calls; it != NULL; it = it->next) {
    if (it->client == client) n += (int)it->n_watches;
  }
  return n;
}

static void count_request(const task *it, size_t len) {
  etcd_costs *to = costs_of(it->cluster, it->client);
  if (it->txn != NULL && it->route == ROUTE_WRITE) {
    to->n_writes++;
    if (len > to->largest_write) to->largest_write = len;
  } else if (it->txn != NULL) {
    to->n_reads++;
  } else if (it->how->serve == serve_keepalive) {
    to->n_keepalives++;
  } else if (is_about_lease(it)) {
    to->n_lease_calls++;
  } else {
    to->n_others++;
  }
}

/* ---- calls ---- */

etcd_call *etcd_open(etcd *cluster, int index, int client, const char *path,
                     bool needs_leader, const char *token,
                     const etcd_call_events *events, void *arg) {
  etcd_call *call = el_alloc(sizeof *call);
  assert(etcd_is_up(cluster, index));
  *call = (etcd_call){.next = cluster->calls,
                      .cluster = cluster,
                      .at = &cluster->members[index],
                      .client = client,
                      .needs_leader = needs_leader,
                      .token = token != NULL ? el_strndup(token, strlen(token))
                                             : NULL,
                      .events = events,
                      .arg = arg};
  if (call->next != NULL) call->next->prev = call;
  cluster->calls = call;
  for (int i = 0; i < METHODS; i++) {
    if (strcmp(methods[i].path, path) == 0) call->how = &methods[i];
  }
  if (call->how == NULL) {
    end_at(call, world_now_us(), &unknown_method);
  } else if (call->how->is_stream && needs_leader &&
             !member_knows_leader(call->at)) {
    end_at(call, world_now_us(), &etcd_no_leader);
  }
  return call;
}

void etcd_message(etcd_call *call, const uint8_t *bytes, size_t len) {
  if (call->how == NULL) return;
  if (!call->how->is_stream) {
    begin_unary(call, bytes, len);
  } else if (call->how->serve == serve_keepalive) {
    begin_keepalive(call, bytes, len);
  } else {
    watch_on_message(call, bytes, len);
  }
}

/* Ends an idle keepalive stream. A watch stream stays open (v3rpc/watch.go). */
void etcd_half_close(etcd_call *call) {
  call->is_half_closed = true;
  if (call->how != NULL && call->how->serve == serve_keepalive &&
      !call->is_busy) {
    end_at(call, world_now_us(), &success);
  }
}

/* ---- life ---- */

etcd *etcd_new(const etcd_options *options, etcd_on_change on_change) {
  etcd *cluster = el_alloc(sizeof *cluster);
  assert(options->n_members >= 1 && options->n_members <= ETCD_MEMBERS_MAX);
  cluster->options = *options;
  store_init(&cluster->store, on_change);
  members_init(cluster);
  return cluster;
}

void etcd_set_on_false_renewal(etcd *cluster, etcd_on_false_renewal call) {
  cluster->on_false_renewal = call;
}

void etcd_free(etcd *cluster) {
  while (cluster->calls != NULL) {
    remove_call(cluster->calls);
  }
  while (cluster->first_task != NULL) {
    task_free(cluster->first_task);
  }
  members_stop(cluster);
  leases_free(cluster);
  auth_free(cluster);
  free(cluster->log);
  free(cluster->costs);
  store_destroy(&cluster->store);
  free(cluster);
}

void etcd_set_options(etcd *cluster, const etcd_options *options) {
  assert(options->n_members == cluster->options.n_members);
  cluster->options = *options;
}

/* ---- the data ---- */

int64_t etcd_rev(const etcd *cluster) { return cluster->store.rev; }

size_t etcd_n_keys(const etcd *cluster) { return cluster->store.n_keys; }

const etcd_key *etcd_key_at(const etcd *cluster, size_t index) {
  return cluster->store.keys[index];
}

const etcd_key *etcd_find(const etcd *cluster, el_bytes key) {
  view all = {cluster->store.rev, cluster->store.keys, cluster->store.n_keys};
  view found = view_range(&all, key, (el_bytes){0});
  return found.n > 0 ? found.keys[0] : NULL;
}

size_t etcd_n_leases(const etcd *cluster) {
  size_t n = 0;
  for (size_t i = 0; i < cluster->n_leases; i++) {
    n += cluster->leases[i]->ended_us == INT64_MAX;
  }
  return n;
}

bool etcd_has_lease(const etcd *cluster, int64_t id) {
  return lease_find(cluster, id) != NULL;
}

size_t etcd_n_pending(const etcd *cluster) {
  size_t n = 0;
  for (const task *it = cluster->first_task; it != NULL; it = it->next) {
    n += is_request(it) && is_pending(it);
  }
  return n;
}

void etcd_admin_put(etcd *cluster, el_bytes key, el_bytes value,
                    int64_t lease) {
  if (lease != 0 && lease_find(cluster, lease) == NULL) return;
  store_begin(&cluster->store, ETCD_BY_ADMIN, ETCD_CLIENT_ADMIN);
  store_put(&cluster->store, key, value, lease);
  members_advance(cluster);
}

void etcd_admin_delete(etcd *cluster, el_bytes key) {
  store_begin(&cluster->store, ETCD_BY_ADMIN, ETCD_CLIENT_ADMIN);
  store_delete(&cluster->store, key, (el_bytes){0});
  members_advance(cluster);
}

void etcd_admin_revoke(etcd *cluster, int64_t lease) {
  lease_revoke(cluster, lease, ETCD_BY_REVOKE, ETCD_CLIENT_ADMIN);
}

void etcd_compact(etcd *cluster) {
  cluster->store.compacted_rev = cluster->store.rev;
  watches_compact(cluster);
}

void etcd_set_no_space(etcd *cluster, bool is_on) { cluster->is_full = is_on; }
