/* stream: one bidirectional call, with messages both ways until it ends.
 *
 * There are five kinds of batches: the status alone, which completes last; the initial metadata of
 * each side; one message out; one message in. gRPC core refuses a second message in the same
 * direction while the first is pending. So messages out are queued, and the next read starts when
 * the previous one has completed. The struct lives until each batch has completed. A batch that
 * gRPC core refuses never completes. Then the stream ends, and a command takes the place of the
 * completion. */
#include "net/stream.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/timer.h"
#include "base/times.h"
#include "net/net_int.h"

/* A message that waits to be sent. */
typedef struct outgoing {
  grpc_byte_buffer *message;
  STAILQ_ENTRY(outgoing) link;
} outgoing;

/* The tag of one batch of |st|. */
typedef struct batch {
  el_tag tag; /* first: the tag of the batch */
  el_stream *st;
} batch;

struct el_stream {
  el_live_call live; /* in the loop's list of calls */
  el_channel *ch;
  size_t member;
  grpc_call *call;
  el_stream_events events;
  void *arg;
  /* el_stream_close was called: no callback is called any more */
  bool is_closed;
  int n_pending; /* batches that have not completed */
  batch opened, answered, sent, received, ended;
  bool is_opened; /* the batch |opened| has succeeded */
  bool was_ready; /* the connection was there before the stream */
  /* why gRPC core refused a batch, the first one; GRPC_CALL_OK: none was refused */
  grpc_call_error refusal;
  /* posted in place of the completion of the refused batch */
  el_command refused_command;
  bool is_sending;            /* the batch |sent| is pending */
  el_health_call health_call; /* pending: an answer is awaited */
  STAILQ_HEAD(, outgoing) queue;
  grpc_byte_buffer *incoming; /* the message received; NULL: none */
  /* set at the end of the messages; when it is due, the status is late */
  el_timer late_status;
  el_metadata metadata;
  grpc_metadata_array initial;
  grpc_metadata_array trailing;
  grpc_status_code status;
  grpc_slice details;
};

/* ---- the end ---- */

static void end_health_call(el_stream *st, bool is_answered) {
  if (!st->health_call.is_pending) return;
  el_channel_call_ended(st->ch, st->member, &st->health_call, is_answered);
}

static void cancel_for_health(el_health_call *health_call) {
  el_stream *st = EL_CONTAINER_OF(health_call, el_stream, health_call);
  grpc_call_cancel_with_status(st->call, GRPC_STATUS_DEADLINE_EXCEEDED,
                               "the member does not answer", NULL);
}

/* Ends the call. A server, or a proxy, may end its messages without a status. gRPC core then waits
 * for the end of this side. (With gRPC's retries, which channel.c turns off, gRPC core might not
 * even tell that the messages have ended.) INTERNAL, unlike UNAVAILABLE, says nothing about the
 * connection, so the connection is not examined. */
static void cancel_without_status(el_timer *timer) {
  el_stream *st = EL_CONTAINER_OF(timer, el_stream, late_status);
  grpc_call_cancel_with_status(st->call, GRPC_STATUS_INTERNAL,
                               "the server ended the stream without a status",
                               NULL);
}

static void free_stream(el_stream *st) {
  el_timers_stop(el_loop_timers(el_channel_loop(st->ch)), &st->late_status);
  el_loop_remove_call(el_channel_loop(st->ch), &st->live);
  while (!STAILQ_EMPTY(&st->queue)) {
    outgoing *out = STAILQ_FIRST(&st->queue);
    STAILQ_REMOVE_HEAD(&st->queue, link);
    grpc_byte_buffer_destroy(out->message);
    free(out);
  }
  el_metadata_destroy(&st->metadata);
  grpc_metadata_array_destroy(&st->initial);
  grpc_metadata_array_destroy(&st->trailing);
  grpc_slice_unref(st->details);
  grpc_call_unref(st->call);
  free(st);
}

/* Fills |err| with the reason why the stream has ended. */
static void fill_end(el_stream *st, el_error *err) {
  char *details;
  if (st->refusal != GRPC_CALL_OK) {
    el_channel_set_refusal(st->ch, st->member, st->refusal, err);
    return;
  }
  details = grpc_slice_to_c_string(st->details);
  el_error_from_status(err, (int)st->status, details,
                       el_channel_address(st->ch, st->member));
  gpr_free(details);
  el_channel_record_result(st->ch, st->member, 0, st->health_call.is_given_up,
                           err);
}

/* Counts a batch as completed. After the last one the stream has ended. */
static void batch_completed(el_stream *st) {
  if (--st->n_pending > 0) return;
  if (!st->is_closed) {
    el_error err;
    end_health_call(st, false);
    fill_end(st, &err);
    /* A failover listener may have closed the stream within fill_end. */
    if (!st->is_closed) {
      st->events.on_ended(st->arg, &err);
    }
  }
  free_stream(st);
}

static void on_ended(el_tag *tag, bool ok) {
  (void)ok;
  batch_completed(((batch *)tag)->st);
}

static void on_opened(el_tag *tag, bool ok) {
  el_stream *st = ((batch *)tag)->st;
  st->is_opened = ok;
  batch_completed(st);
}

static void cancel(el_live_call *live) {
  el_stream *st = EL_CONTAINER_OF(live, el_stream, live);
  grpc_call_cancel(st->call, NULL);
}

/* Ends the stream after gRPC core has refused a batch. It runs as a command, because a stream must
 * not end within el_stream_open or el_stream_send. */
static void on_refused(el_command *command) {
  batch_completed(EL_CONTAINER_OF(command, el_stream, refused_command));
}

static void start(el_stream *st, const grpc_op *ops, size_t n, batch *b) {
  grpc_call_error rc = grpc_call_start_batch(st->call, ops, n, &b->tag, NULL);
  if (rc == GRPC_CALL_OK) {
    st->n_pending++;
  } else if (st->refusal == GRPC_CALL_OK) {
    st->refusal = rc;
    st->n_pending++;
    el_loop_post(el_channel_loop(st->ch), &st->refused_command);
    cancel(&st->live);
  }
}

const char *el_stream_address(const el_stream *st) {
  return el_channel_address(st->ch, st->member);
}

/* On a connection, gRPC core sends the metadata of a stream at once. If it has not, as many streams
 * and calls are open as the server allows. */
bool el_stream_is_refused(const el_stream *st) {
  return !st->is_opened &&
         (st->was_ready || el_channel_is_connected(st->ch, st->member));
}

void el_stream_close(el_stream *st) {
  end_health_call(st, false);
  st->is_closed = true;
  cancel(&st->live);
}

/* ---- messages out ---- */

static void send_next(el_stream *st);

static void on_sent(el_tag *tag, bool ok) {
  el_stream *st = ((batch *)tag)->st;
  st->is_sending = false;
  if (ok) send_next(st); /* if not, the status will tell why */
  batch_completed(st);
}

static void send_next(el_stream *st) {
  outgoing *out = STAILQ_FIRST(&st->queue);
  grpc_op op;
  if (st->is_sending || out == NULL) return;
  STAILQ_REMOVE_HEAD(&st->queue, link);
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_SEND_MESSAGE;
  op.data.send_message.send_message = out->message;
  st->is_sending = true;
  start(st, &op, 1, &st->sent);
  grpc_byte_buffer_destroy(out->message);
  free(out);
}

void el_stream_send(el_stream *st, const uint8_t *bytes, size_t len) {
  grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes, len);
  outgoing *out = el_alloc(sizeof *out);
  out->message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  STAILQ_INSERT_TAIL(&st->queue, out, link);
  send_next(st);
}

void el_stream_await_answer(el_stream *st) {
  if (st->health_call.is_pending) return;
  st->health_call.cancel = cancel_for_health;
  st->health_call.is_keepalive = true;
  el_channel_call_started(st->ch, &st->health_call);
}

/* ---- messages in ---- */

static void receive_next(el_stream *st) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_MESSAGE;
  op.data.recv_message.recv_message = &st->incoming;
  start(st, &op, 1, &st->received);
}

static void deliver(el_stream *st) {
  grpc_byte_buffer_reader reader;
  if (!st->is_closed) end_health_call(st, true);
  if (!st->is_closed && grpc_byte_buffer_reader_init(&reader, st->incoming)) {
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    st->events.on_message(st->arg, GRPC_SLICE_START_PTR(all),
                          GRPC_SLICE_LENGTH(all));
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
  }
  grpc_byte_buffer_destroy(st->incoming);
  st->incoming = NULL;
}

static void on_received(el_tag *tag, bool ok) {
  el_stream *st = ((batch *)tag)->st;
  (void)ok;
  if (st->incoming != NULL) {
    deliver(st);
    receive_next(st);
  } else { /* only the status is still to come */
    el_timers_set(el_loop_timers(el_channel_loop(st->ch)), &st->late_status,
                  el_now_ms() + EL_GRACE_MS);
  }
  batch_completed(st);
}

/* ---- open ---- */

el_stream *el_stream_open(el_channel *ch, const char *method,
                          const el_stream_events *events, void *arg) {
  el_stream *st = el_alloc(sizeof *st);
  grpc_op ops[1];
  st->live.cancel = cancel;
  st->refused_command.run = on_refused;
  st->late_status.on_due = cancel_without_status;
  st->ch = ch;
  st->member = el_channel_member(ch);
  st->was_ready = el_channel_is_connected(ch, st->member);
  st->events = *events;
  st->arg = arg;
  st->opened = (batch){{on_opened}, st};
  st->answered = (batch){{on_ended}, st};
  st->sent = (batch){{on_sent}, st};
  st->received = (batch){{on_received}, st};
  st->ended = (batch){{on_ended}, st};
  STAILQ_INIT(&st->queue);
  el_metadata_init(&st->metadata, true, el_channel_token(ch));
  grpc_metadata_array_init(&st->initial);
  grpc_metadata_array_init(&st->trailing);
  st->details = grpc_empty_slice();
  st->call = el_channel_new_call(ch, st->member, method);
  el_loop_add_call(el_channel_loop(ch), &st->live);

  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[0].data.recv_status_on_client.trailing_metadata = &st->trailing;
  ops[0].data.recv_status_on_client.status = &st->status;
  ops[0].data.recv_status_on_client.status_details = &st->details;
  start(st, ops, 1, &st->ended);
  memset(ops, 0, sizeof ops);
  el_metadata_set_op(&ops[0], &st->metadata);
  start(st, ops, 1, &st->opened);
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[0].data.recv_initial_metadata.recv_initial_metadata = &st->initial;
  start(st, ops, 1, &st->answered);
  receive_next(st);
  return st;
}
