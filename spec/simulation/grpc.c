/* simulation grpc: the part of gRPC core's C API that the product calls, on the simulated network.
 *
 * Each function does what the function of gRPC core 1.51 does as far as a caller can see. What the
 * header leaves open happens in one of the ways that gRPC core was seen to take. */
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#if __has_include(<grpc/credentials.h>)
#include <grpc/credentials.h> /* what gRPC 1.51 declares in grpc_security.h */
#endif
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/container_of.h"
#include "fiber.h"
#include "network.h"
#include "world.h"

/* ---- time ---- */

gpr_timespec gpr_now(gpr_clock_type clock) {
  int64_t us = process_clock_us(process_of_clock());
  return (gpr_timespec){us / WORLD_S, (int32_t)(us % WORLD_S) * 1000, clock};
}

/* Returns |at|, by the clock of the running process, as a time of the world. */
static int64_t world_us(gpr_timespec at) {
  if (gpr_time_cmp(at, gpr_inf_future(at.clock_type)) == 0) return INT64_MAX;
  return process_when_us(process_of_clock(),
                         at.tv_sec * WORLD_S + at.tv_nsec / 1000);
}

/* ---- slices and byte buffers ---- */

struct grpc_slice_refcount {
  int refs; /* 0: static, never freed */
};

static struct grpc_slice_refcount static_slice;

static grpc_slice slice_of(struct grpc_slice_refcount *refs, uint8_t *bytes,
                           size_t len) {
  grpc_slice slice;
  slice.refcount = refs;
  slice.data.refcounted.bytes = bytes;
  slice.data.refcounted.length = len;
  return slice;
}

grpc_slice grpc_slice_from_copied_buffer(const char *source, size_t len) {
  struct grpc_slice_refcount *refs = el_alloc(sizeof *refs + len);
  refs->refs = 1;
  if (len > 0) memcpy(refs + 1, source, len);
  return slice_of(refs, (uint8_t *)(refs + 1), len);
}

grpc_slice grpc_slice_from_copied_string(const char *source) {
  return grpc_slice_from_copied_buffer(source, strlen(source));
}

grpc_slice grpc_slice_from_static_string(const char *source) {
  return slice_of(&static_slice, (uint8_t *)source, strlen(source));
}

grpc_slice grpc_empty_slice(void) { return slice_of(&static_slice, NULL, 0); }

void grpc_slice_unref(grpc_slice slice) {
  if (slice.refcount != &static_slice && --slice.refcount->refs == 0) {
    free(slice.refcount);
  }
}

static grpc_slice ref(grpc_slice slice) {
  if (slice.refcount != &static_slice) slice.refcount->refs++;
  return slice;
}

char *grpc_slice_to_c_string(grpc_slice slice) {
  return el_strndup((const char *)GRPC_SLICE_START_PTR(slice),
                    GRPC_SLICE_LENGTH(slice));
}

static grpc_slice *content(const grpc_byte_buffer *buffer) {
  return (grpc_slice *)&buffer->data.raw.slice_buffer.inlined[0];
}

grpc_byte_buffer *grpc_raw_byte_buffer_create(grpc_slice *slices, size_t n) {
  grpc_byte_buffer *buffer = el_alloc(sizeof *buffer);
  if (n != 1) abort();
  *content(buffer) = ref(slices[0]);
  return buffer;
}

void grpc_byte_buffer_destroy(grpc_byte_buffer *buffer) {
  grpc_slice_unref(*content(buffer));
  free(buffer);
}

int grpc_byte_buffer_reader_init(grpc_byte_buffer_reader *reader,
                                 grpc_byte_buffer *buffer) {
  reader->buffer_in = buffer;
  return 1;
}

void grpc_byte_buffer_reader_destroy(grpc_byte_buffer_reader *reader) {
  reader->buffer_in = NULL;
}

grpc_slice grpc_byte_buffer_reader_readall(grpc_byte_buffer_reader *reader) {
  return ref(*content(reader->buffer_in));
}

void grpc_metadata_array_init(grpc_metadata_array *array) {
  *array = (grpc_metadata_array){0};
}

void grpc_metadata_array_destroy(grpc_metadata_array *array) { (void)array; }

/* ---- the library ---- */

void grpc_init(void) {}

void grpc_shutdown(void) {}

const char *grpc_call_error_to_string(grpc_call_error error) {
  (void)error;
  return "GRPC_CALL_ERROR";
}

/* ---- completion queues ---- */

typedef struct event {
  void *tag;
  bool ok;
  STAILQ_ENTRY(event) link;
} event;

struct grpc_completion_queue {
  STAILQ_HEAD(, event) events;
  int n_pending; /* batches that have not completed */
  bool is_shut;
};

grpc_completion_queue *grpc_completion_queue_create_for_next(void *reserved) {
  grpc_completion_queue *queue = el_alloc(sizeof *queue);
  (void)reserved;
  STAILQ_INIT(&queue->events);
  return queue;
}

void grpc_completion_queue_shutdown(grpc_completion_queue *queue) {
  queue->is_shut = true;
  fiber_wake(queue, 1);
}

void grpc_completion_queue_destroy(grpc_completion_queue *queue) {
  if (!STAILQ_EMPTY(&queue->events) || queue->n_pending > 0) abort();
  free(queue);
}

static void post(grpc_completion_queue *queue, void *tag, bool ok) {
  event *posted = el_alloc(sizeof *posted);
  posted->tag = tag;
  posted->ok = ok;
  STAILQ_INSERT_TAIL(&queue->events, posted, link);
  queue->n_pending--;
  fiber_wake(queue, 1);
}

static grpc_event take(grpc_completion_queue *queue) {
  event *first = STAILQ_FIRST(&queue->events);
  grpc_event taken = {GRPC_OP_COMPLETE, first->ok, first->tag};
  STAILQ_REMOVE_HEAD(&queue->events, link);
  free(first);
  return taken;
}

grpc_event grpc_completion_queue_next(grpc_completion_queue *queue,
                                      gpr_timespec deadline, void *reserved) {
  int64_t until_us = world_us(deadline);
  (void)reserved;
  while (STAILQ_EMPTY(&queue->events)) {
    if (queue->is_shut && queue->n_pending == 0) {
      return (grpc_event){GRPC_QUEUE_SHUTDOWN, 0, NULL};
    }
    if (until_us <= world_now_us()) {
      return (grpc_event){GRPC_QUEUE_TIMEOUT, 0, NULL};
    }
    fiber_wait(queue, until_us);
  }
  return take(queue);
}

/* ---- channels ---- */

/* gRPC's own struct; in src/net/channel.c it is called socket_mutator. */
typedef struct grpc_socket_mutator {
  const struct {
    bool (*mutate_fd)(int fd, struct grpc_socket_mutator *mutator);
  } * vtable;
} grpc_socket_mutator;

struct grpc_channel {
  process *of;
  char *name; /* NULL: a lame channel */
  grpc_connectivity_state state;
  connection *conn; /* also during an attempt; NULL: none */
  char *failure;    /* why the last attempt failed */
  int64_t attempt_us, backoff_us, keepalive_us, keepalive_timeout_us;
  const grpc_arg *mutator; /* NULL: none */
  grpc_arg mutator_copy;
  el_timer attempt; /* the time limit of an attempt, or the end of a backoff */
  TAILQ_HEAD(, grpc_call) calls;
  bool is_destroyed; /* freed with its last call */
};

typedef struct batch {
  void *tag;
  int n; /* operations that have not completed */
  bool ok;
} batch;

typedef struct message {
  grpc_byte_buffer *buffer;
  STAILQ_ENTRY(message) link;
} message;

STAILQ_HEAD(messages, message);

struct grpc_call {
  grpc_channel *channel;
  grpc_completion_queue *queue;
  char *method;
  bool needs_leader;
  char *token;  /* NULL: none */
  int refs;     /* one for the caller, one until the status is received */
  exchange *ex; /* NULL: not sent, or over */
  bool is_started, is_ended;
  struct messages unsent, received;
  bool is_half_closed;
  el_timer deadline;
  int status;
  char *details;
  bool has_initial;
  /* pending operations; NULL: none */
  batch *initial_batch, *message_batch, *status_batch;
  grpc_byte_buffer **message_to;
  grpc_status_code *status_to;
  grpc_slice *details_to;
  TAILQ_ENTRY(grpc_call) link;
};

static void end_call(grpc_call *call, int status, const char *details);
static void send_all(grpc_call *call);

static void fail_calls(grpc_channel *channel, const char *why) {
  grpc_call *call, *next;
  for (call = TAILQ_FIRST(&channel->calls); call != NULL; call = next) {
    next = TAILQ_NEXT(call, link);
    if (call->is_started) end_call(call, GRPC_STATUS_UNAVAILABLE, why);
  }
}

static void start_attempt(grpc_channel *channel);

static void fail_attempt(grpc_channel *channel, const char *why) {
  free(channel->failure);
  channel->failure = el_strndup(why, strlen(why));
  channel->state = GRPC_CHANNEL_TRANSIENT_FAILURE;
  world_set(&channel->attempt, world_now_us() + channel->backoff_us);
  fail_calls(channel, why);
}

static void on_open(void *arg) {
  grpc_channel *channel = arg;
  grpc_call *call;
  channel->state = GRPC_CHANNEL_READY;
  world_stop(&channel->attempt);
  TAILQ_FOREACH(call, &channel->calls, link) { send_all(call); }
}

static void on_broken(void *arg, const char *why) {
  grpc_channel *channel = arg;
  channel->conn = NULL;
  if (channel->state == GRPC_CHANNEL_READY) {
    channel->state = GRPC_CHANNEL_IDLE;
    fail_calls(channel, why);
  } else {
    fail_attempt(channel, why);
  }
}

/* The attempt has reached its time limit, or the backoff is over. */
static void on_attempt(el_timer *timer) {
  grpc_channel *channel = EL_CONTAINER_OF(timer, grpc_channel, attempt);
  if (channel->conn == NULL) {
    start_attempt(channel);
    return;
  }
  network_close(channel->conn);
  channel->conn = NULL;
  fail_attempt(channel, "failed to connect to all addresses; last error: "
                        "UNKNOWN: tcp handshaker shutdown");
}

static void start_attempt(grpc_channel *channel) {
  static const connection_events events = {on_open, on_broken};
  grpc_socket_mutator *mutator =
      channel->mutator != NULL ? channel->mutator_copy.value.pointer.p : NULL;
  if (mutator != NULL && !mutator->vtable->mutate_fd(-1, mutator)) {
    fail_attempt(channel, "grpc_socket_mutator failed.");
    return;
  }
  if (channel->state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    channel->state = GRPC_CHANNEL_CONNECTING;
  }
  world_set(&channel->attempt, world_now_us() + channel->attempt_us);
  channel->conn =
      network_connect(channel->of, channel->name, channel->keepalive_us,
                      channel->keepalive_timeout_us, &events, channel);
}

static void take_arg(grpc_channel *channel, const grpc_arg *arg) {
  int64_t us = arg->type == GRPC_ARG_INTEGER
                   ? (int64_t)arg->value.integer * WORLD_MS
                   : 0;
  if (strcmp(arg->key, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS) == 0) {
    channel->attempt_us = us;
  } else if (strcmp(arg->key, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS) == 0) {
    channel->backoff_us = us;
  } else if (strcmp(arg->key, GRPC_ARG_KEEPALIVE_TIME_MS) == 0) {
    channel->keepalive_us = us;
  } else if (strcmp(arg->key, GRPC_ARG_KEEPALIVE_TIMEOUT_MS) == 0) {
    channel->keepalive_timeout_us = us;
  } else if (strcmp(arg->key, GRPC_ARG_SOCKET_MUTATOR) == 0) {
    channel->mutator_copy = *arg;
    channel->mutator_copy.value.pointer.p =
        arg->value.pointer.vtable->copy(arg->value.pointer.p);
    channel->mutator = &channel->mutator_copy;
  }
}

static grpc_channel *new_channel(void) {
  grpc_channel *channel = el_alloc(sizeof *channel);
  channel->of = process_self();
  channel->attempt_us = 20 * (int64_t)WORLD_S;
  channel->backoff_us = WORLD_S;
  channel->keepalive_us = INT64_MAX / 4;
  channel->attempt.on_due = on_attempt;
  TAILQ_INIT(&channel->calls);
  return channel;
}

grpc_channel *grpc_lame_client_channel_create(const char *target,
                                              grpc_status_code code,
                                              const char *message_text) {
  (void)target;
  (void)code;
  (void)message_text;
  return new_channel();
}

grpc_channel *grpc_channel_create(const char *target,
                                  grpc_channel_credentials *creds,
                                  const grpc_channel_args *args) {
  grpc_channel *channel = new_channel();
  const char *end = strrchr(target, '/');
  (void)creds;
  if (end == NULL) end = strchr(target, ':');
  channel->name = el_strndup(end + 1, strlen(end + 1));
  for (size_t i = 0; i < args->num_args; i++) {
    take_arg(channel, &args->args[i]);
  }
  return channel;
}

static void free_channel(grpc_channel *channel) {
  if (channel->conn != NULL) network_close(channel->conn);
  world_stop(&channel->attempt);
  if (channel->mutator != NULL) {
    channel->mutator_copy.value.pointer.vtable->destroy(
        channel->mutator_copy.value.pointer.p);
  }
  free(channel->name);
  free(channel->failure);
  free(channel);
}

void grpc_channel_destroy(grpc_channel *channel) {
  channel->is_destroyed = true;
  if (TAILQ_EMPTY(&channel->calls)) free_channel(channel);
}

grpc_connectivity_state
grpc_channel_check_connectivity_state(grpc_channel *channel,
                                      int try_to_connect) {
  (void)try_to_connect;
  return channel->state;
}

void grpc_channel_reset_connect_backoff(grpc_channel *channel) {
  if (channel->state == GRPC_CHANNEL_TRANSIENT_FAILURE &&
      channel->conn == NULL) {
    world_set(&channel->attempt, world_now_us());
  }
}

/* the simulated servers send no message that needs much memory */
grpc_resource_quota *grpc_resource_quota_create(const char *name) {
  (void)name;
  return NULL;
}

void grpc_resource_quota_resize(grpc_resource_quota *quota, size_t size) {
  (void)quota;
  (void)size;
}

void grpc_resource_quota_unref(grpc_resource_quota *quota) { (void)quota; }

const grpc_arg_pointer_vtable *grpc_resource_quota_arg_vtable(void) {
  return NULL;
}

/* the header declares it without a prototype */
grpc_channel_credentials *grpc_insecure_credentials_create(void);

grpc_channel_credentials *grpc_insecure_credentials_create(void) {
  return NULL;
}

grpc_channel_credentials *grpc_ssl_credentials_create_ex(
    const char *roots, grpc_ssl_pem_key_cert_pair *pair,
    const grpc_ssl_verify_peer_options *options, void *reserved) {
  (void)roots;
  (void)pair;
  (void)options;
  (void)reserved;
  return NULL;
}

void grpc_channel_credentials_release(grpc_channel_credentials *creds) {
  (void)creds;
}

/* ---- calls ---- */

static void complete(grpc_call *call, batch **pending, bool ok) {
  batch *done = *pending;
  *pending = NULL;
  done->ok = done->ok && ok;
  if (--done->n > 0) return;
  post(call->queue, done->tag, done->ok);
  free(done);
}

static void drop_messages(struct messages *list) {
  message *first;
  while ((first = STAILQ_FIRST(list)) != NULL) {
    STAILQ_REMOVE_HEAD(list, link);
    grpc_byte_buffer_destroy(first->buffer);
    free(first);
  }
}

static void unref(grpc_call *call) {
  grpc_channel *channel = call->channel;
  if (--call->refs > 0) return;
  TAILQ_REMOVE(&channel->calls, call, link);
  drop_messages(&call->unsent);
  drop_messages(&call->received);
  world_stop(&call->deadline);
  free(call->details);
  free(call->method);
  free(call->token);
  free(call);
  if (channel->is_destroyed && TAILQ_EMPTY(&channel->calls)) {
    free_channel(channel);
  }
}

/* Completes what can be completed: the messages that were received come before the status. */
static void complete_reads(grpc_call *call) {
  message *first = STAILQ_FIRST(&call->received);
  if (call->message_batch != NULL && first != NULL) {
    STAILQ_REMOVE_HEAD(&call->received, link);
    *call->message_to = first->buffer;
    free(first);
    complete(call, &call->message_batch, true);
  }
  if (!call->is_ended || !STAILQ_EMPTY(&call->received)) return;
  if (call->message_batch != NULL) {
    *call->message_to = NULL;
    complete(call, &call->message_batch, call->has_initial);
  }
  if (call->status_batch != NULL) {
    *call->status_to = (grpc_status_code)call->status;
    *call->details_to = grpc_slice_from_copied_string(call->details);
    call->status_batch->ok = true;
    complete(call, &call->status_batch, true);
    unref(call);
  }
}

static void complete_initial(grpc_call *call, bool is_received) {
  call->has_initial = call->has_initial || is_received;
  if (call->initial_batch != NULL) {
    complete(call, &call->initial_batch, is_received);
  }
}

/* |call| lives at least until complete_reads, which drops a reference with the status. */
static void end_call(grpc_call *call, int status, const char *details) {
  if (call->is_ended) return;
  call->is_ended = true;
  call->ex = NULL;
  call->status = status;
  call->details = el_strndup(details, strlen(details));
  world_stop(&call->deadline);
  drop_messages(&call->unsent);
  complete_initial(call, false);
  complete_reads(call);
}

static void on_message(void *arg, const uint8_t *bytes, size_t len) {
  grpc_call *call = arg;
  grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes, len);
  message *got = el_alloc(sizeof *got);
  got->buffer = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  STAILQ_INSERT_TAIL(&call->received, got, link);
  complete_initial(call, true);
  complete_reads(call);
}

static void on_status(void *arg, int status, const char *text) {
  grpc_call *call = arg;
  complete_initial(call, true);
  end_call(call, status, text);
}

/* Ends a call at the client; the member learns of it later. */
static void cancel(grpc_call *call, int status, const char *details) {
  if (call->is_ended) return;
  if (call->ex != NULL) network_cancel(call->ex);
  drop_messages(&call->received);
  end_call(call, status, details);
}

static void on_deadline(el_timer *timer) {
  grpc_call *call = EL_CONTAINER_OF(timer, grpc_call, deadline);
  if (call->channel->of->stopped_until_us > world_now_us()) {
    world_set(timer, call->channel->of->stopped_until_us);
  } else {
    cancel(call, GRPC_STATUS_DEADLINE_EXCEEDED, "Deadline Exceeded");
  }
}

static void send_message(grpc_call *call, const grpc_byte_buffer *buffer) {
  grpc_slice slice = *content(buffer);
  network_send(call->ex, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
}

/* Sends what waits for the connection. */
static void send_all(grpc_call *call) {
  static const etcd_call_events events = {on_message, on_status};
  message *waiting;
  if (!call->is_started || call->is_ended || call->ex != NULL) return;
  call->ex = network_call(call->channel->conn, call->method, call->needs_leader,
                          call->token, &events, call);
  STAILQ_FOREACH(waiting, &call->unsent, link) {
    send_message(call, waiting->buffer);
  }
  drop_messages(&call->unsent);
  if (call->is_half_closed) network_half_close(call->ex);
}

static void start_call(grpc_call *call) {
  grpc_channel *channel = call->channel;
  call->is_started = true;
  switch (channel->state) {
    case GRPC_CHANNEL_IDLE:
      start_attempt(channel);
      return;
    case GRPC_CHANNEL_CONNECTING:
      return;
    case GRPC_CHANNEL_READY:
      send_all(call);
      return;
    default:
      end_call(call, GRPC_STATUS_UNAVAILABLE, channel->failure);
      return;
  }
}

/* A client has one watch stream on a connection: another would stay at etcd for ever. */
static void check_one_stream(const grpc_channel *channel, const char *method) {
  const grpc_call *it;
  if (strcmp(method, "/etcdserverpb.Watch/Watch") != 0) return;
  TAILQ_FOREACH(it, &channel->calls, link) {
    if (!it->is_ended && strcmp(it->method, method) == 0) {
      world_violate("costs", "p%d: a second watch stream", channel->of->id);
    }
  }
}

grpc_call *grpc_channel_create_call(grpc_channel *channel, grpc_call *parent,
                                    uint32_t mask, grpc_completion_queue *queue,
                                    grpc_slice method, const grpc_slice *host,
                                    gpr_timespec deadline, void *reserved) {
  grpc_call *call = el_alloc(sizeof *call);
  int64_t until_us = world_us(deadline);
  (void)parent;
  (void)mask;
  (void)host;
  (void)reserved;
  call->channel = channel;
  call->queue = queue;
  call->method = grpc_slice_to_c_string(method);
  check_one_stream(channel, call->method);
  call->refs = 1;
  call->deadline.on_due = on_deadline;
  STAILQ_INIT(&call->unsent);
  STAILQ_INIT(&call->received);
  TAILQ_INSERT_TAIL(&channel->calls, call, link);
  if (until_us != INT64_MAX) world_set(&call->deadline, until_us);
  return call;
}

static void read_metadata(grpc_call *call, const grpc_op *op) {
  for (size_t i = 0; i < op->data.send_initial_metadata.count; i++) {
    grpc_slice key = op->data.send_initial_metadata.metadata[i].key;
    if (GRPC_SLICE_LENGTH(key) == strlen("hasleader")) {
      call->needs_leader = true;
    } else if (call->token == NULL) {
      call->token = grpc_slice_to_c_string(
          op->data.send_initial_metadata.metadata[i].value);
    }
  }
}

static void queue_message(grpc_call *call, const grpc_op *op) {
  grpc_slice *slice = content(op->data.send_message.send_message);
  message *waiting;
  if (call->is_ended) return;
  waiting = el_alloc(sizeof *waiting);
  waiting->buffer = grpc_raw_byte_buffer_create(slice, 1);
  STAILQ_INSERT_TAIL(&call->unsent, waiting, link);
  if (call->ex != NULL) {
    send_message(call, waiting->buffer);
    drop_messages(&call->unsent);
  }
}

/* Prepares |op| if it waits for the member. Returns 1 then, and otherwise 0. */
static int await(grpc_call *call, const grpc_op *op, batch *of) {
  switch (op->op) {
    case GRPC_OP_RECV_INITIAL_METADATA:
      call->initial_batch = of;
      return 1;
    case GRPC_OP_RECV_MESSAGE:
      call->message_batch = of;
      call->message_to = op->data.recv_message.recv_message;
      return 1;
    case GRPC_OP_RECV_STATUS_ON_CLIENT:
      call->status_batch = of;
      call->status_to = op->data.recv_status_on_client.status;
      call->details_to = op->data.recv_status_on_client.status_details;
      call->refs++; /* until the status is there */
      return 1;
    default:
      return 0;
  }
}

/* Carries out |op| if it sends. */
static void carry_out(grpc_call *call, const grpc_op *op, batch *of) {
  switch (op->op) {
    case GRPC_OP_SEND_INITIAL_METADATA:
      read_metadata(call, op);
      break;
    case GRPC_OP_SEND_MESSAGE:
      queue_message(call, op);
      of->ok = of->ok && !call->is_ended;
      break;
    case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
      call->is_half_closed = true;
      if (call->ex != NULL) network_half_close(call->ex);
      break;
    default:
      break;
  }
}

grpc_call_error grpc_call_start_batch(grpc_call *call, const grpc_op *ops,
                                      size_t n, void *tag, void *reserved) {
  batch *started = el_alloc(sizeof *started), *own = started;
  bool starts = false;
  (void)reserved;
  if (call->queue->is_shut) abort();
  call->queue->n_pending++;
  *started = (batch){tag, 1, true};
  for (size_t i = 0; i < n; i++) {
    started->n += await(call, &ops[i], started);
    carry_out(call, &ops[i], started);
    starts = starts || ops[i].op == GRPC_OP_SEND_INITIAL_METADATA;
  }
  call->refs++; /* the batch may end the call */
  if (starts) start_call(call);
  if (call->is_ended || call->has_initial) {
    complete_initial(call, call->has_initial);
  }
  complete_reads(call);
  complete(call, &own, true);
  unref(call);
  return GRPC_CALL_OK;
}

grpc_call_error grpc_call_cancel_with_status(grpc_call *call,
                                             grpc_status_code status,
                                             const char *description,
                                             void *reserved) {
  (void)reserved;
  cancel(call, (int)status, description);
  return GRPC_CALL_OK;
}

grpc_call_error grpc_call_cancel(grpc_call *call, void *reserved) {
  (void)reserved;
  cancel(call, GRPC_STATUS_CANCELLED, "CANCELLED");
  return GRPC_CALL_OK;
}

void grpc_call_unref(grpc_call *call) {
  call->refs++;
  cancel(call, GRPC_STATUS_CANCELLED, "CANCELLED");
  call->refs--;
  unref(call);
}
