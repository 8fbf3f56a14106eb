/* call: one unary call, bytes in and bytes out.
 *
 * One batch of all six operations: it completes once, when the call is over,
 * and its success flag says nothing; the status does. Everything that the
 * batch points to lives in el_rpc until that event. A batch that gRPC core
 * refuses never completes: a command ends that call instead. */
#include "net/call.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/of.h"
#include "net/net_int.h"

/* ---- metadata ---- */

static void add(el_metadata *md, const char *key, grpc_slice value) {
  grpc_metadata *pair = &md->list[md->n++];
  pair->key = grpc_slice_from_static_string(key);
  pair->value = value;
}

void el_metadata_init(el_metadata *md, bool wants_leader, const char *token) {
  md->n = 0;
  if (wants_leader) {
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

void el_metadata_send(grpc_op *op, el_metadata *md) {
  op->op = GRPC_OP_SEND_INITIAL_METADATA;
  op->data.send_initial_metadata.count = md->n;
  op->data.send_initial_metadata.metadata = md->list;
}

/* ---- the call ---- */

typedef struct el_rpc {
  el_tag tag;         /* first: the completion queue's tag */
  el_live_call entry; /* in the loop's list of calls */
  el_channel *ch;
  size_t member;  /* who was asked */
  bool is_chosen; /* by whoever asks */
  el_asked asked; /* unless it outlasts that, or is chosen */
  grpc_call *call;
  el_metadata metadata;
  grpc_metadata_array initial;
  grpc_metadata_array trailing;
  grpc_byte_buffer *received;
  grpc_status_code status;
  grpc_slice details;
  grpc_call_error refusal; /* GRPC_CALL_OK: the batch has started */
  el_command refused;      /* posted if it has not */
  el_rpc_done done;
  void *arg;
} el_rpc;

static void cancel(el_live_call *entry) {
  el_rpc *rpc = EL_OF(entry, el_rpc, entry);
  grpc_call_cancel(rpc->call, NULL);
}

static void give_up(el_asked *asked) {
  el_rpc *rpc = EL_OF(asked, el_rpc, asked);
  grpc_call_cancel_with_status(rpc->call, GRPC_STATUS_DEADLINE_EXCEEDED,
                               "the member is silent", NULL);
}

static void free_rpc(el_rpc *rpc) {
  el_loop_remove_call(el_channel_loop(rpc->ch), &rpc->entry);
  if (rpc->received != NULL) {
    grpc_byte_buffer_destroy(rpc->received);
  }
  el_metadata_destroy(&rpc->metadata);
  grpc_metadata_array_destroy(&rpc->initial);
  grpc_metadata_array_destroy(&rpc->trailing);
  grpc_slice_unref(rpc->details);
  grpc_call_unref(rpc->call);
  free(rpc);
}

static const char *address_of(const el_rpc *rpc) {
  return el_channel_address(rpc->ch, rpc->member);
}

/* Hands the message to |done| as one piece of memory. */
static void answer_message(el_rpc *rpc) {
  grpc_byte_buffer_reader reader;
  grpc_slice all;
  el_rpc_answer answer = {.err.code = EL_OK, .from = address_of(rpc)};
  if (!grpc_byte_buffer_reader_init(&reader, rpc->received)) {
    el_error_set(&answer.err, EL_PROTOCOL, "etcd %s: unreadable message",
                 answer.from);
    rpc->done(rpc->arg, &answer);
    return;
  }
  all = grpc_byte_buffer_reader_readall(&reader);
  answer.bytes = GRPC_SLICE_START_PTR(all);
  answer.len = GRPC_SLICE_LENGTH(all);
  el_channel_note(rpc->ch, rpc->member, &answer.err);
  rpc->done(rpc->arg, &answer);
  grpc_slice_unref(all);
  grpc_byte_buffer_reader_destroy(&reader);
}

static void answer_failure(el_rpc *rpc) {
  el_rpc_answer answer = {.from = address_of(rpc)};
  char *details = grpc_slice_to_c_string(rpc->details);
  el_error_from_status(&answer.err, (int)rpc->status, details, answer.from);
  gpr_free(details);
  el_channel_note(rpc->ch, rpc->member, &answer.err);
  rpc->done(rpc->arg, &answer);
}

/* Is |status| etcd's word, rather than what became of the connection? */
static bool is_answered(grpc_status_code status) {
  return status != GRPC_STATUS_UNAVAILABLE && status != GRPC_STATUS_CANCELLED &&
         status != GRPC_STATUS_DEADLINE_EXCEEDED;
}

static void on_rpc_done(el_tag *tag, bool ok) {
  el_rpc *rpc = (el_rpc *)tag;
  (void)ok;
  if (!rpc->is_chosen) {
    el_channel_ended(rpc->ch, &rpc->asked, is_answered(rpc->status));
  }
  if (rpc->status == GRPC_STATUS_OK && rpc->received != NULL) {
    answer_message(rpc);
  } else {
    answer_failure(rpc);
  }
  free_rpc(rpc);
}

static void on_refused(el_command *command) {
  el_rpc *rpc = EL_OF(command, el_rpc, refused);
  el_rpc_answer answer = {.from = address_of(rpc)};
  if (!rpc->is_chosen) {
    el_channel_ended(rpc->ch, &rpc->asked, false);
  }
  el_channel_refused(rpc->ch, rpc->member, rpc->refusal, &answer.err);
  rpc->done(rpc->arg, &answer);
  free_rpc(rpc);
}

static void start_batch(el_rpc *rpc, grpc_byte_buffer *message) {
  grpc_op ops[6];
  memset(ops, 0, sizeof ops);
  el_metadata_send(&ops[0], &rpc->metadata);
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = message;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &rpc->initial;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &rpc->received;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &rpc->trailing;
  ops[5].data.recv_status_on_client.status = &rpc->status;
  ops[5].data.recv_status_on_client.status_details = &rpc->details;
  rpc->refusal = grpc_call_start_batch(rpc->call, ops, 6, &rpc->tag, NULL);
  if (rpc->refusal != GRPC_CALL_OK) {
    /* Later, because callers of el_rpc_start don't expect the answer within it. */
    el_loop_post(el_channel_loop(rpc->ch), &rpc->refused);
  }
}

void el_rpc_start(el_channel *ch, const el_rpc_request *request,
                  el_rpc_done done, void *arg) {
  grpc_slice slice =
      grpc_slice_from_copied_buffer((const char *)request->bytes, request->len);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  el_rpc *rpc = el_alloc(sizeof *rpc);
  rpc->tag.done = on_rpc_done;
  rpc->entry.cancel = cancel;
  rpc->refused.run = on_refused;
  rpc->ch = ch;
  rpc->is_chosen = request->chosen != 0;
  rpc->member = rpc->is_chosen ? request->chosen - 1 : el_channel_member(ch);
  rpc->done = done;
  rpc->arg = arg;
  rpc->details = grpc_empty_slice();
  /* A member that is asked how it is answers without a leader, too. */
  el_metadata_init(&rpc->metadata, !rpc->is_chosen, el_channel_token(ch));
  grpc_metadata_array_init(&rpc->initial);
  grpc_metadata_array_init(&rpc->trailing);
  rpc->call = el_channel_call(ch, rpc->member, request->method,
                              el_deadline_in(request->timeout_ms));
  el_loop_add_call(el_channel_loop(ch), &rpc->entry);
  rpc->asked.give_up = give_up;
  if (!request->outlasts_silence && !rpc->is_chosen) {
    el_channel_asked(ch, &rpc->asked);
  }
  start_batch(rpc, message);
  grpc_byte_buffer_destroy(message);
  grpc_slice_unref(slice);
}
