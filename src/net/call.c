/* call: one unary call, bytes in and bytes out.
 *
 * A call is one batch of all six operations of a client. The batch completes once, when the call is
 * over. Its success flag is always set, so only the status tells how the call ended. gRPC core
 * takes over the message; all else that the batch points to lives in the struct |call| until the
 * batch completes. A batch that gRPC core refuses never completes. Then a command ends the call. */
#include "net/call.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "net/net_int.h"

/* ---- metadata ---- */

static void add(el_metadata *md, const char *key, grpc_slice value) {
  grpc_metadata *pair = &md->list[md->n++];
  pair->key = grpc_slice_from_static_string(key);
  pair->value = value;
}

void el_metadata_init(el_metadata *md, bool needs_leader, const char *token) {
  md->n = 0;
  if (needs_leader) {
    add(md, "hasleader", grpc_slice_from_static_string("true"));
  }
  if (token != NULL) {
    add(md, "token", grpc_slice_from_copied_string(token));
  }
}

void el_metadata_destroy(el_metadata *md) {
  for (size_t i = 0; i < md->n; i++) {
    grpc_slice_unref(md->list[i].value);
  }
}

void el_metadata_set_op(grpc_op *op, el_metadata *md) {
  op->op = GRPC_OP_SEND_INITIAL_METADATA;
  op->data.send_initial_metadata.count = md->n;
  op->data.send_initial_metadata.metadata = md->list;
}

/* ---- the end of a call ---- */

typedef struct call {
  el_tag tag;        /* first: the tag of the batch */
  el_live_call live; /* in the loop's list of calls */
  el_timer deadline; /* cancels the call */
  int64_t begun_ms;  /* by el_now_ms */
  el_channel *ch;
  size_t member;
  bool is_pinned; /* the request names |member| */
  /* not used if |is_pinned|; never pending if the request has may_be_slow */
  el_health_call health_call;
  grpc_call *grpc;
  el_metadata metadata;
  grpc_metadata_array initial;
  grpc_metadata_array trailing;
  grpc_byte_buffer *received; /* the message; NULL: none */
  grpc_status_code status;
  grpc_slice details; /* of the status */
  /* why gRPC core refused the batch; GRPC_CALL_OK: it has started */
  grpc_call_error refusal;
  el_command refused_command; /* posted if the batch was refused */
  el_call_done done;
  void *arg;
} call;

static void cancel_for_stop(el_live_call *live) {
  call *it = EL_CONTAINER_OF(live, call, live);
  grpc_call_cancel(it->grpc, NULL);
}

/* The deadline is not passed to gRPC, which would set a timer of its own: that costs more than an
 * el_timer. etcd learns from the cancellation that the call is over. */
static void cancel_for_deadline(el_timer *timer) {
  call *it = EL_CONTAINER_OF(timer, call, deadline);
  grpc_call_cancel_with_status(it->grpc, GRPC_STATUS_DEADLINE_EXCEEDED,
                               "Deadline Exceeded", NULL);
}

static void cancel_for_health(el_health_call *health_call) {
  call *it = EL_CONTAINER_OF(health_call, call, health_call);
  grpc_call_cancel_with_status(it->grpc, GRPC_STATUS_DEADLINE_EXCEEDED,
                               "the member does not answer", NULL);
}

static void free_call(call *it) {
  el_timers_stop(el_loop_timers(el_channel_loop(it->ch)), &it->deadline);
  el_loop_remove_call(el_channel_loop(it->ch), &it->live);
  if (it->received != NULL) {
    grpc_byte_buffer_destroy(it->received);
  }
  el_metadata_destroy(&it->metadata);
  grpc_metadata_array_destroy(&it->initial);
  grpc_metadata_array_destroy(&it->trailing);
  grpc_slice_unref(it->details);
  grpc_call_unref(it->grpc);
  free(it);
}

static const char *address_of(const call *it) {
  return el_channel_address(it->ch, it->member);
}

/* Passes the message to |done| as one piece of memory. */
static void answer_message(call *it) {
  grpc_byte_buffer_reader reader;
  grpc_slice all;
  el_call_answer answer = {.err.code = EL_OK, .from = address_of(it)};
  if (!grpc_byte_buffer_reader_init(&reader, it->received)) {
    el_error_set(&answer.err, EL_PROTOCOL, "etcd %s: the answer cannot be read",
                 answer.from);
    it->done(it->arg, &answer);
    return;
  }
  all = grpc_byte_buffer_reader_readall(&reader);
  answer.bytes = GRPC_SLICE_START_PTR(all);
  answer.len = GRPC_SLICE_LENGTH(all);
  el_channel_record_result(it->ch, it->member, it->begun_ms, false,
                           &answer.err);
  it->done(it->arg, &answer);
  grpc_slice_unref(all);
  grpc_byte_buffer_reader_destroy(&reader);
}

static void answer_failure(call *it) {
  el_call_answer answer = {.from = address_of(it)};
  char *details = grpc_slice_to_c_string(it->details);
  el_error_from_status(&answer.err, (int)it->status, details, answer.from);
  gpr_free(details);
  if (it->health_call.is_restarted) {
    answer.err.has_other_member = true; /* the member is not at fault */
  } else {
    el_channel_record_result(it->ch, it->member, it->begun_ms,
                             it->health_call.is_given_up, &answer.err);
  }
  it->done(it->arg, &answer);
}

/* Returns whether |status| counts as an answer of etcd. UNAVAILABLE, CANCELLED and
 * DEADLINE_EXCEEDED do not, because gRPC itself sets them if no answer comes. */
static bool is_answered(grpc_status_code status) {
  return status != GRPC_STATUS_UNAVAILABLE && status != GRPC_STATUS_CANCELLED &&
         status != GRPC_STATUS_DEADLINE_EXCEEDED;
}

static void on_done(el_tag *tag, bool ok) {
  call *it = (call *)tag;
  (void)ok;
  if (!it->is_pinned) {
    el_channel_call_ended(it->ch, it->member, &it->health_call,
                          is_answered(it->status));
  }
  if (it->status == GRPC_STATUS_OK && it->received != NULL) {
    answer_message(it);
  } else {
    answer_failure(it);
  }
  free_call(it);
}

static void on_refused(el_command *command) {
  call *it = EL_CONTAINER_OF(command, call, refused_command);
  el_call_answer answer = {.from = address_of(it)};
  if (!it->is_pinned) {
    el_channel_call_ended(it->ch, it->member, &it->health_call, false);
  }
  el_channel_set_refusal(it->ch, it->member, it->refusal, &answer.err);
  it->done(it->arg, &answer);
  free_call(it);
}

/* ---- the start ---- */

static void start_batch(call *it, grpc_byte_buffer *message) {
  grpc_op ops[6];
  memset(ops, 0, sizeof ops);
  el_metadata_set_op(&ops[0], &it->metadata);
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = message;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &it->initial;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &it->received;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &it->trailing;
  ops[5].data.recv_status_on_client.status = &it->status;
  ops[5].data.recv_status_on_client.status_details = &it->details;
  it->refusal = grpc_call_start_batch(it->grpc, ops, 6, &it->tag, NULL);
  if (it->refusal != GRPC_CALL_OK) {
    /* A command ends the call later, because |done| must not be called within el_call_start. */
    el_loop_post(el_channel_loop(it->ch), &it->refused_command);
  }
}

void el_call_start(el_channel *ch, const el_call_request *request,
                   el_call_done done, void *arg) {
  grpc_slice slice =
      grpc_slice_from_copied_buffer((const char *)request->bytes, request->len);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  call *it = el_alloc(sizeof *it);
  it->tag.done = on_done;
  it->live.cancel = cancel_for_stop;
  it->refused_command.run = on_refused;
  it->ch = ch;
  it->is_pinned = request->pinned_member != 0;
  it->member =
      it->is_pinned ? request->pinned_member - 1 : el_channel_member(ch);
  it->done = done;
  it->arg = arg;
  it->details = grpc_empty_slice();
  el_metadata_init(&it->metadata, !it->is_pinned,
                   request->has_no_token ? NULL : el_channel_token(ch));
  grpc_metadata_array_init(&it->initial);
  grpc_metadata_array_init(&it->trailing);
  it->grpc = el_channel_new_call(ch, it->member, request->method);
  it->deadline.on_due = cancel_for_deadline;
  it->begun_ms = el_now_ms();
  el_timers_set(el_loop_timers(el_channel_loop(ch)), &it->deadline,
                it->begun_ms + request->timeout_ms);
  el_loop_add_call(el_channel_loop(ch), &it->live);
  it->health_call.cancel = cancel_for_health;
  if (!request->may_be_slow && !it->is_pinned) {
    el_channel_call_started(ch, &it->health_call);
  }
  start_batch(it, message);
  grpc_byte_buffer_destroy(message);
  grpc_slice_unref(slice);
}
