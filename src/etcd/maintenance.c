/* maintenance: the Status call, which returns the state of one member. */
#include "etcd/maintenance.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "etcd.pb-c.h"

typedef struct status_call {
  el_auth *auth;
  el_call_request request;
  size_t n_repeats; /* with a token */
  int64_t sent_us;
  int64_t timeout_ms;       /* of all calls together */
  el_diagnosis_wait wait;   /* waits for the cause of the failure */
  el_member_status failure; /* the answer that |done| gets after |wait| */
  el_maintenance_done done;
  void *arg;
} status_call;

static void read_status(el_member_status *to,
                        const Etcd__StatusResponse *message) {
  to->version = message->version;
  to->id = message->header->member_id;
  to->leader_id = message->leader;
  to->db_size = message->dbsize;
  to->db_in_use = message->dbsizeinuse;
  to->is_learner = message->islearner;
  to->problems = (const char *const *)message->errors;
  to->n_problems = message->n_errors;
}

static void on_diagnosed(el_diagnosis_wait *wait, const el_error *cause) {
  status_call *call = EL_CONTAINER_OF(wait, status_call, wait);
  if (cause != NULL) {
    call->failure.err = *cause;
  }
  call->done(call->arg, &call->failure);
  free(call);
}

static bool await_cause(status_call *call, const el_member_status *status) {
  call->failure = *status;
  return status->err.is_unexplained &&
         el_channel_await_diagnosis(el_auth_channel(call->auth),
                                    call->request.pinned_member - 1,
                                    &call->wait);
}

/* Returns whether the call is sent again: after the first answer, if the member requires a token;
 * later, after a retriable error: another member, which gives a token, may be in use now. */
static bool may_repeat(const status_call *call, const el_error *err) {
  if (call->n_repeats == 0) return err->is_token_bad;
  return err->is_retriable &&
         call->n_repeats < el_channel_count(el_auth_channel(call->auth));
}

static void on_status_answer(void *arg, const el_call_answer *rpc_answer) {
  status_call *call = arg;
  Etcd__StatusResponse *message = NULL;
  int64_t left_ms;
  el_member_status status = {.err = rpc_answer->err,
                             .took_us = el_now_us() - call->sent_us};
  if (rpc_answer->err.code == EL_OK) {
    message =
        etcd__status_response__unpack(NULL, rpc_answer->len, rpc_answer->bytes);
    if (message != NULL && message->header != NULL) {
      read_status(&status, message);
    } else {
      el_error_set(&status.err, EL_PROTOCOL,
                   "etcd %s: the answer to a Status cannot be read",
                   rpc_answer->from);
    }
  }
  left_ms = (call->sent_us - el_now_us()) / 1000 + call->timeout_ms;
  if (left_ms > 0 && may_repeat(call, &rpc_answer->err)) {
    call->n_repeats++;
    call->request.timeout_ms = left_ms;
    el_auth_call(call->auth, &call->request, on_status_answer, call);
    return;
  }
  if (await_cause(call, &status)) return;
  call->done(call->arg, &status);
  if (message != NULL) {
    etcd__status_response__free_unpacked(message, NULL);
  }
  free(call);
}

/* Sends Status at once: old versions of etcd require no token for it (v3rpc/maintenance.go), and
 * the member in use, which gives tokens, may not answer. If |member| requires a token, Status is
 * sent again with one. */
void el_maintenance_status(el_auth *auth, size_t member, int64_t timeout_ms,
                           el_maintenance_done done, void *arg) {
  status_call *call = el_alloc(sizeof *call);
  *call =
      (status_call){.auth = auth,
                    .request = {.method = "/etcdserverpb.Maintenance/Status",
                                .bytes = (const uint8_t *)"",
                                .timeout_ms = timeout_ms,
                                .pinned_member = member + 1},
                    .sent_us = el_now_us(),
                    .timeout_ms = timeout_ms,
                    .wait.done = on_diagnosed,
                    .done = done,
                    .arg = arg};
  el_call_start(el_auth_channel(auth), &call->request, on_status_answer, call);
}
