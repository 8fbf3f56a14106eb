/* The calls that go through scripted_server. */
#include "scripted_calls.h"

#include <assert.h>
#include <grpc/byte_buffer_reader.h>
#if __has_include(<grpc/credentials.h>)
#include <grpc/credentials.h>
#endif
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/queue.h>

enum { PUSHED_MAX = 8 };

/* The tag of a gRPC batch: |done| is called when the batch is complete. */
typedef struct batch {
  void (*done)(struct batch *b);
  struct call *call;
  struct pump *pump;
} batch;

/* Forwards the messages of a call in one direction, one at a time. */
typedef struct pump {
  grpc_call *from, *to;
  grpc_byte_buffer *message;
  batch received, sent;
  bool over;
} pump;

typedef struct call {
  method *method;
  order order;
  grpc_call *client, *etcd; /* etcd: NULL if the call is not sent to etcd */
  pump there, back;
  batch arrived, opened, asked, closed, ended, answered;
  int pending; /* number of batches that are not complete */
  bool is_ended, is_answered;
  int cancelled;
  grpc_call_details details;
  grpc_metadata_array headers, etcd_headers, etcd_trailers;
  grpc_metadata forwarded[2];
  /* Messages of scripted_push, which the client gets between the messages of etcd. */
  grpc_byte_buffer *pushed[PUSHED_MAX];
  int n_pushed;
  batch push_sent;
  bool is_sending; /* a message to the client is in flight */
  bool is_ready;   /* back.message, a message of etcd, is ready to be sent */
  grpc_status_code status;
  grpc_slice text;
  LIST_ENTRY(call) link;
} call;

enum { METHODS_MAX = 32 };

/* Guards all variables below. A thread holds it except while it waits for events or for input. */
pthread_mutex_t scripted_mu = PTHREAD_MUTEX_INITIALIZER;
static method methods[METHODS_MAX];
static LIST_HEAD(, call) calls = LIST_HEAD_INITIALIZER(calls);
static grpc_completion_queue *queue;
static grpc_server *server;
static grpc_channel *channel;
static int delivering, delivered;

method *scripted_method(const char *name) {
  method *m = methods;
  while (m->name[0] != '\0' && strcmp(m->name, name) != 0) {
    m++;
  }
  assert(m < methods + METHODS_MAX - 1);
  snprintf(m->name, sizeof m->name, "%s", name);
  return m;
}

static void start(grpc_call *on, const grpc_op *ops, size_t n, batch *b) {
  grpc_call_error rc = grpc_call_start_batch(on, ops, n, b, NULL);
  if (rc != GRPC_CALL_OK) {
    fprintf(stderr, "scripted_server: %s\n", grpc_call_error_to_string(rc));
    abort();
  }
  b->call->pending++;
}

/* ---- the end of a call ---- */

static void come_back(batch *b) {
  call *c = b->call;
  if (--c->pending > 0) return;
  LIST_REMOVE(c, link);
  grpc_call_details_destroy(&c->details);
  grpc_metadata_array_destroy(&c->headers);
  grpc_metadata_array_destroy(&c->etcd_headers);
  grpc_metadata_array_destroy(&c->etcd_trailers);
  grpc_slice_unref(c->text);
  grpc_call_unref(c->client);
  if (c->etcd != NULL) grpc_call_unref(c->etcd);
  free(c);
}

/* Ends the call of the client, when the result is known: with the order's status, or with the
 * status of etcd. */
static void answer(call *c) {
  grpc_op ops[2] = {{.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
                    {.op = GRPC_OP_SEND_INITIAL_METADATA}};
  if (c->is_answered || c->order.when == NEVER) return;
  if (c->etcd != NULL && !(c->is_ended && c->back.over)) return;
  c->is_answered = true;
  if (c->order.when != PASS) {
    grpc_slice_unref(c->text);
    c->text = grpc_slice_from_copied_string(c->order.text);
    c->status = (grpc_status_code)c->order.status;
  }
  ops[0].data.send_status_from_server.status = c->status;
  ops[0].data.send_status_from_server.status_details = &c->text;
  start(c->client, ops, c->etcd == NULL ? 2 : 1, &c->answered);
}

/* The call has ended at the client: it is complete, or the client has cancelled it. */
static void on_closed(batch *b) {
  bool is_late = b->call->order.when == LATE;
  if (b->call->cancelled && b->call->etcd != NULL && !is_late) {
    grpc_call_cancel(b->call->etcd, NULL);
  }
  come_back(b);
}

static void on_ended(batch *b) {
  call *c = b->call;
  c->is_ended = true;
  if (c->status != GRPC_STATUS_OK && !c->cancelled) {
    order *heard = &c->method->heard;
    heard->status = (int)c->status;
    snprintf(heard->text, sizeof heard->text, "%.*s",
             (int)GRPC_SLICE_LENGTH(c->text),
             (const char *)GRPC_SLICE_START_PTR(c->text));
  }
  answer(c);
  come_back(b);
}

/* ---- messages ---- */

static void receive(pump *p) {
  grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
  op.data.recv_message.recv_message = &p->message;
  start(p->from, &op, 1, &p->received);
}

/* Sends the client its next message, unless another message to it is in flight. */
static void send_back(call *c) {
  grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
  grpc_byte_buffer **message =
      c->n_pushed > 0 ? &c->pushed[0] : &c->back.message;
  if (c->is_sending || (c->n_pushed == 0 && !c->is_ready)) return;
  c->is_sending = true;
  op.data.send_message.send_message = *message;
  start(c->client, &op, 1, c->n_pushed > 0 ? &c->push_sent : &c->back.sent);
  grpc_byte_buffer_destroy(*message);
  *message = NULL;
}

static void on_push_sent(batch *b) {
  call *c = b->call;
  c->is_sending = false;
  c->n_pushed--;
  memmove(c->pushed, c->pushed + 1, (size_t)c->n_pushed * sizeof *c->pushed);
  send_back(c);
  come_back(b);
}

static void on_sent(batch *b) {
  call *c = b->call;
  receive(b->pump);
  if (b->pump == &c->back) {
    c->is_sending = c->is_ready = false;
    send_back(c);
  }
  come_back(b);
}

static void end_messages(call *c, pump *p) {
  grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
  p->over = true;
  if (p == &c->there) {
    start(p->to, &op, 1, &p->sent);
  } else {
    answer(c);
  }
}

/* Returns the length of the header in |message|. etcd writes the header first: a tag, one byte with
 * the length of the rest, and the rest. */
static size_t header_of(grpc_slice message) {
  const uint8_t *bytes = GRPC_SLICE_START_PTR(message);
  assert(GRPC_SLICE_LENGTH(message) >= 2 && bytes[0] == 0x0a);
  return 2 + (size_t)bytes[1];
}

static grpc_slice read_file(const char *path) {
  grpc_slice content;
  FILE *file = fopen(path, "rb");
  assert(file != NULL);
  fseek(file, 0, SEEK_END);
  content = grpc_slice_malloc((size_t)ftell(file));
  rewind(file);
  if (fread(GRPC_SLICE_START_PTR(content), 1, GRPC_SLICE_LENGTH(content),
            file) != GRPC_SLICE_LENGTH(content)) {
    abort();
  }
  fclose(file);
  return content;
}

/* Reads the varint at |*at| and moves |*at| behind it. */
static uint64_t read_varint(const uint8_t **at) {
  uint64_t number = 0;
  int shift = 0;
  for (;; shift += 7) {
    uint8_t byte = *(*at)++;
    number |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
}

static size_t write_varint(uint8_t *to, uint64_t number) {
  size_t len = 0;
  for (; number >= 0x80; number >>= 7) {
    to[len++] = (uint8_t)(number | 0x80);
  }
  to[len++] = (uint8_t)number;
  return len;
}

/* Copies the message |from| of |len| bytes to |to|, which has room for as many, without one field.
 * |path| has the numbers of the fields from the outermost message to the removed field, and ends
 * with 0. Returns the number of bytes written. */
static size_t copy_without(uint8_t *to, const uint8_t *from, size_t len,
                           const int *path) {
  const uint8_t *end = from + len;
  uint8_t *out = to;
  while (from < end) {
    const uint8_t *start = from;
    uint64_t tag = read_varint(&from), size = 0;
    int wire = (int)(tag & 7);
    if (wire == 0) read_varint(&from);
    if (wire == 2) size = read_varint(&from);
    if (wire == 1) size = 8;
    if (wire == 5) size = 4;
    if ((int)(tag >> 3) != path[0]) {
      memcpy(out, start, (size_t)(from - start) + size);
      out += (size_t)(from - start) + size;
    } else if (path[1] != 0 && wire == 2) {
      uint8_t *inner = malloc(size + 1);
      size_t left = copy_without(inner, from, size, path + 1);
      out += write_varint(out, tag);
      out += write_varint(out, left);
      memcpy(out, inner, left);
      out += left;
      free(inner);
    }
    from += size;
  }
  return (size_t)(out - to);
}

/* Returns |message| without the field |path|, such as "1.3". */
static grpc_slice without_field(grpc_byte_buffer *message, const char *path) {
  enum { DEPTH_MAX = 8 };
  int numbers[DEPTH_MAX + 1] = {0};
  grpc_byte_buffer_reader reader;
  grpc_slice whole, left;
  for (int n = 0; n < DEPTH_MAX && *path != '\0'; n++) {
    numbers[n] = (int)strtol(path, (char **)&path, 10);
    path += *path == '.';
  }
  grpc_byte_buffer_reader_init(&reader, message);
  whole = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  left = grpc_slice_malloc(GRPC_SLICE_LENGTH(whole));
  GRPC_SLICE_SET_LENGTH(left, copy_without(GRPC_SLICE_START_PTR(left),
                                           GRPC_SLICE_START_PTR(whole),
                                           GRPC_SLICE_LENGTH(whole), numbers));
  grpc_slice_unref(whole);
  return left;
}

static void omit(call *c, pump *p) {
  grpc_slice left = without_field(p->message, c->order.text);
  grpc_byte_buffer_destroy(p->message);
  p->message = grpc_raw_byte_buffer_create(&left, 1);
  grpc_slice_unref(left);
  c->order.when = PASS;
}

/* Changes etcd's message in |p| as ordered. Later messages of the call are forwarded unchanged. */
static void forge(call *c, pump *p) {
  grpc_byte_buffer_reader reader;
  grpc_slice parts[2] = {grpc_empty_slice(), read_file(c->order.text)};
  if (c->order.when != REPLACED) {
    grpc_byte_buffer_reader_init(&reader, p->message);
    parts[0] = grpc_byte_buffer_reader_readall(&reader);
    if (c->order.when == FORGED) {
      GRPC_SLICE_SET_LENGTH(parts[0], header_of(parts[0]));
    }
    grpc_byte_buffer_reader_destroy(&reader);
  }
  grpc_byte_buffer_destroy(p->message);
  p->message = grpc_raw_byte_buffer_create(parts, 2);
  grpc_slice_unref(parts[0]);
  grpc_slice_unref(parts[1]);
  c->order.when = PASS;
}

static bool is_forged(const call *c) {
  return c->order.when == FORGED || c->order.when == EXTENDED ||
         c->order.when == REPLACED;
}

static int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void on_received(batch *b) {
  pump *p = b->pump;
  call *c = b->call;
  grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
  if (p->message != NULL && p == &c->there) c->method->arrived_us = now_us();
  if (p->message != NULL && p == &c->back) {
    if (is_forged(c)) forge(c, p);
    if (c->order.when == OMITTED) omit(c, p);
  }
  if (p->message == NULL) {
    b->pump->sent.done = come_back;
    end_messages(c, p);
  } else if (p == &c->back && c->order.when == HELD) {
    come_back(b);
    return; /* the message stays in |p| */
  } else if (p == &c->back && c->order.when != PASS) {
    receive(p); /* etcd's message is discarded */
  } else if (p == &c->back) {
    c->is_ready = true;
    send_back(c);
    come_back(b);
    return;
  } else {
    op.data.send_message.send_message = p->message;
    start(p->to, &op, 1, &p->sent);
  }
  grpc_byte_buffer_destroy(p->message);
  p->message = NULL;
  come_back(b);
}

static void start_pump(call *c, pump *p, grpc_call *from, grpc_call *to) {
  p->from = from;
  p->to = to;
  p->received = (batch){on_received, c, p};
  p->sent = (batch){on_sent, c, p};
  receive(p);
}

/* ---- asking etcd ---- */

/* Copies to c->forwarded the headers that etcd needs and that gRPC does not set by itself. Returns
 * their number. */
static size_t forward_headers(call *c) {
  size_t n = 0;
  for (size_t i = 0; i < c->headers.count && n < 2; i++) {
    const grpc_metadata *header = &c->headers.metadata[i];
    if (grpc_slice_str_cmp(header->key, "token") == 0 ||
        grpc_slice_str_cmp(header->key, "hasleader") == 0) {
      c->forwarded[n++] = *header;
    }
  }
  return n;
}

static void ask_etcd(call *c) {
  grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
  grpc_op headers[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                        {.op = GRPC_OP_RECV_INITIAL_METADATA}};
  grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
  c->etcd = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                     queue, c->details.method, NULL,
                                     c->details.deadline, NULL);
  status.data.recv_status_on_client.trailing_metadata = &c->etcd_trailers;
  status.data.recv_status_on_client.status = &c->status;
  status.data.recv_status_on_client.status_details = &c->text;
  start(c->etcd, &status, 1, &c->ended);
  headers[0].data.send_initial_metadata.metadata = c->forwarded;
  headers[0].data.send_initial_metadata.count = forward_headers(c);
  headers[1].data.recv_initial_metadata.recv_initial_metadata =
      &c->etcd_headers;
  start(c->etcd, headers, 2, &c->asked);
  start(c->client, &open, 1, &c->opened);
  start_pump(c, &c->there, c->client, c->etcd);
  start_pump(c, &c->back, c->etcd, c->client);
}

/* ---- calls that etcd gets late ---- */

/* Ends the call at the client, and keeps the call and its message for scripted_deliver: the
 * additional count in |pending| keeps the call from being freed. */
static void on_late_message(batch *b) {
  call *c = b->call;
  assert(c->there.message != NULL);
  c->pending++;
  answer(c);
  come_back(b);
}

static void keep(call *c) {
  c->there.from = c->client;
  c->there.received = (batch){on_late_message, c, NULL};
  receive(&c->there);
}

static void on_delivered(batch *b) {
  call *c = b->call;
  grpc_byte_buffer_destroy(c->there.message);
  grpc_byte_buffer_destroy(c->back.message);
  c->there.message = NULL;
  if (--delivering == 0) printf("%d\n", delivered);
  c->pending--;
  come_back(b);
}

static void deliver(call *c) {
  grpc_op ops[6] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                    {.op = GRPC_OP_SEND_MESSAGE},
                    {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
                    {.op = GRPC_OP_RECV_INITIAL_METADATA},
                    {.op = GRPC_OP_RECV_MESSAGE},
                    {.op = GRPC_OP_RECV_STATUS_ON_CLIENT}};
  c->etcd = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                     queue, c->details.method, NULL,
                                     gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_slice_unref(c->text);
  c->text = grpc_empty_slice();
  ops[0].data.send_initial_metadata.metadata = c->forwarded;
  ops[0].data.send_initial_metadata.count = forward_headers(c);
  ops[1].data.send_message.send_message = c->there.message;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &c->etcd_headers;
  ops[4].data.recv_message.recv_message = &c->back.message;
  ops[5].data.recv_status_on_client.trailing_metadata = &c->etcd_trailers;
  ops[5].data.recv_status_on_client.status = &c->status;
  ops[5].data.recv_status_on_client.status_details = &c->text;
  c->ended.done = on_delivered;
  start(c->etcd, ops, 6, &c->ended);
}

void scripted_deliver(const method *m) {
  call *c;
  delivering = delivered = 0;
  LIST_FOREACH(c, &calls, link) {
    if (c->method == m && c->order.when == LATE && c->etcd == NULL &&
        c->there.message != NULL) {
      deliver(c);
      delivering++;
      delivered++;
    }
  }
  if (delivered == 0) puts("0");
}

/* ---- answers that the client gets late ---- */

static bool is_held(const call *c, const method *m) {
  return c->method == m && c->order.when == HELD && c->back.message != NULL;
}

int scripted_count_held(const method *m) {
  const call *c;
  int n = 0;
  LIST_FOREACH(c, &calls, link) { n += is_held(c, m); }
  return n;
}

void scripted_tell(const method *m) {
  call *c;
  LIST_FOREACH(c, &calls, link) {
    if (!is_held(c, m)) continue;
    c->order.when = PASS;
    c->is_ready = true;
    send_back(c);
  }
}

/* ---- messages that etcd has not sent ---- */

int scripted_push(const method *m, const char *path) {
  call *c;
  int n = 0;
  LIST_FOREACH(c, &calls, link) {
    grpc_slice content;
    if (c->method != m || c->etcd == NULL || c->is_answered || c->cancelled) {
      continue;
    }
    assert(c->n_pushed < PUSHED_MAX);
    content = read_file(path);
    c->pushed[c->n_pushed++] = grpc_raw_byte_buffer_create(&content, 1);
    grpc_slice_unref(content);
    send_back(c);
    n++;
  }
  return n;
}

/* ---- calls ---- */

static void await_call(void);

static void on_arrived(batch *b) {
  call *c = b->call;
  grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
  char name[128] = "";
  size_t len = GRPC_SLICE_LENGTH(c->details.method);
  await_call();
  memcpy(name, GRPC_SLICE_START_PTR(c->details.method),
         len < sizeof name ? len : sizeof name - 1);
  c->method = scripted_method(strrchr(name, '/') + 1);
  c->method->calls++;
  if (c->method->times != 0) {
    c->order = c->method->order;
    c->method->times -= c->method->times > 0;
  }
  op.data.recv_close_on_server.cancelled = &c->cancelled;
  start(c->client, &op, 1, &c->closed);
  if (c->order.when == BEFORE) {
    answer(c);
  } else if (c->order.when == LATE) {
    keep(c);
  } else {
    ask_etcd(c);
  }
  come_back(b);
}

static void await_call(void) {
  call *c = calloc(1, sizeof *c);
  grpc_call_details_init(&c->details);
  grpc_metadata_array_init(&c->headers);
  grpc_metadata_array_init(&c->etcd_headers);
  grpc_metadata_array_init(&c->etcd_trailers);
  c->text = grpc_empty_slice();
  c->arrived = (batch){on_arrived, c, NULL};
  c->opened = c->asked = c->answered = (batch){come_back, c, NULL};
  c->push_sent = (batch){on_push_sent, c, NULL};
  c->closed = (batch){on_closed, c, NULL};
  c->ended = (batch){on_ended, c, NULL};
  c->pending = 1;
  LIST_INSERT_HEAD(&calls, c, link);
  grpc_server_request_call(server, &c->client, &c->details, &c->headers, queue,
                           queue, &c->arrived);
}

static void *run(void *arg) {
  for (;;) {
    grpc_event event = grpc_completion_queue_next(
        queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    batch *b = event.tag;
    pthread_mutex_lock(&scripted_mu);
    b->done(b);
    pthread_mutex_unlock(&scripted_mu);
  }
  return arg;
}

/* ---- orders ---- */

void scripted_pass(void) {
  for (method *m = methods; m->name[0] != '\0'; m++) {
    m->times = 0;
  }
}

void scripted_break(const method *m, const order *o) {
  call *c;
  LIST_FOREACH(c, &calls, link) {
    if (c->method == m && c->etcd != NULL && !c->is_answered) {
      c->order = *o;
      grpc_call_cancel(c->etcd, NULL);
    }
  }
}

/* ---- serving ---- */

void scripted_serve(const char *etcd, int max_streams) {
  /* Clients may send HTTP/2 pings as often as they want. */
  grpc_arg list[] = {
      {.type = GRPC_ARG_INTEGER,
       .key = (char *)GRPC_ARG_HTTP2_MAX_PING_STRIKES,
       .value.integer = 0},
      {.type = GRPC_ARG_INTEGER,
       .key = (char *)GRPC_ARG_MAX_CONCURRENT_STREAMS,
       .value.integer = max_streams},
  };
  grpc_channel_args args = {2, list};
  grpc_server_credentials *open;
  grpc_channel_credentials *plain;
  pthread_t thread;
  grpc_init();
  open = grpc_insecure_server_credentials_create();
  plain = grpc_insecure_credentials_create();
  queue = grpc_completion_queue_create_for_next(NULL);
  channel = grpc_channel_create(etcd, plain, NULL);
  server = grpc_server_create(&args, NULL);
  grpc_server_register_completion_queue(server, queue, NULL);
  printf("port %d\n", grpc_server_add_http2_port(server, "127.0.0.1:0", open));
  grpc_server_start(server);
  await_call();
  pthread_create(&thread, NULL, run, NULL);
}
