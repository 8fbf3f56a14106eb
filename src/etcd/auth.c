/* auth: authentication. */
#include "etcd/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/jitter.h"
#include "base/random.h"
#include "base/text.h"
#include "base/times.h"
#include "etcd.pb-c.h"
#include "net/call.h"

enum {
  /* How often a call is sent again. A new token may become invalid before the call arrives. */
  REPEATS_MAX = 3,
  /* How often a Status with the token is sent. Without an answer to any, the token is invalid. */
  STATUS_MAX = 2
};

typedef struct auth_call {
  el_token_wait wait; /* for a token; must be the first field */
  el_auth *auth;
  el_call_request request;
  uint8_t *bytes;   /* of the request */
  int64_t until_ms; /* when the call must have ended (el_now_ms) */
  el_timer timer;   /* due at |until_ms| while the call waits for a token */
  bool was_delayed; /* it has waited for a token */
  int64_t sent_ms;
  size_t member;         /* that it was sent to */
  unsigned token_number; /* of the token that it carries */
  int n_repeats;
  el_call_done done;
  void *arg;
} auth_call;

/* An Authenticate in flight. */
typedef struct attempt {
  el_auth *auth;
  size_t member; /* that it was sent to */
  int64_t sent_ms;
  bool has_old_password; /* el_auth_set_password was called meanwhile */
  bool is_left;          /* the client has left |member| meanwhile */
} attempt;

struct el_auth {
  el_channel *ch;
  char *user; /* NULL: no token is requested */
  char *password;
  bool is_authenticated; /* the channel has a valid token, or needs none */
  unsigned token_number; /* how often is_authenticated became true */
  /* when etcd accepted a call with the present token last (el_now_ms); 0: never */
  int64_t accepted_ms;
  bool is_checking; /* a token_check is under way */
  /* the Authenticate whose answer is awaited; NULL: none */
  attempt *attempt;
  size_t
      n_in_flight; /* Authenticates, also those that are not awaited any more */
  int n_in_vain; /* Authenticates in a row without an answer, or whose token was never accepted */
  int64_t retry_ms; /* the next Authenticate leaves no earlier (el_now_ms) */
  el_error failure; /* why the last one failed; code EL_OK: it did not */
  el_error refusal; /* the last final refusal of Authenticate */
  int n_refusals;   /* refusals in a row, at most EL_LOGIN_REFUSED_DOUBLINGS */
  /* by el_now_ms; waits fail with |refusal| until then */
  int64_t refusal_until_ms;
  el_timers *timers;
  /* Fails the waits that begin before refusal_until_ms, because el_auth_await_token must not call
   * |done| itself; gives up an Authenticate whose member the client has left; sends the next one.
   */
  el_timer timer;
  /* when the read in flight was sent (el_now_ms); 0: none is */
  int64_t read_sent_ms;
  el_timer read_timer; /* sends the next read */
  /* when etcd answered a read last (el_now_ms); 0: never */
  int64_t read_answered_ms;
  bool was_answered; /* etcd has answered a read or an Authenticate */
  uint64_t salt;     /* varies the jitter */
  STAILQ_HEAD(token_wait_list, el_token_wait) waiting;
  el_failover_listener listener;
  el_authenticate_done on_ended;
  void *arg;
  bool is_stopped;
};

static void send(auth_call *call);

static void free_call(auth_call *call) {
  el_timers_stop(call->auth->timers, &call->timer);
  free(call->bytes);
  free(call);
}

/* Fails a call that was not sent, or that etcd has refused. The error is definite, because etcd has
 * not applied the call. */
static void fail(auth_call *call, const el_error *err) {
  el_call_answer answer = {.err = *err, .from = ""};
  answer.err.is_definite = true;
  call->done(call->arg, &answer);
  free_call(call);
}

/* ---- authenticating ---- */

static void on_token(el_token_wait *wait, const el_error *err) {
  auth_call *call = (auth_call *)wait;
  call->was_delayed = true;
  el_timers_stop(call->auth->timers, &call->timer);
  if (err->code == EL_OK) {
    send(call);
  } else {
    fail(call, err);
  }
}

/* Ends all waits that exist now. Their callbacks may begin new waits, which do not end here. */
static void release_waiting(el_auth *auth, const el_error *err) {
  el_token_wait *wait;
  size_t n = 0;
  STAILQ_FOREACH(wait, &auth->waiting, link) { n++; }
  while (n-- > 0 && !STAILQ_EMPTY(&auth->waiting)) {
    wait = STAILQ_FIRST(&auth->waiting);
    STAILQ_REMOVE_HEAD(&auth->waiting, link);
    wait->is_waiting = false;
    wait->done(wait, err);
  }
}

/* Sets |token|, which the member |from| has sent. Refuses a token that is empty or
 * illegal in an HTTP header, because calls with that token would fail without a message that tells
 * the cause. */
static void take_token(el_auth *auth, const char *token, const char *from,
                       el_error *err) {
  size_t illegal_at = el_header_illegal_at(token);
  if (*token == '\0') {
    el_error_set(err, EL_UNAUTHENTICATED,
                 "etcd %s: the answer to Authenticate has no token", from);
  } else if (illegal_at != 0) {
    el_error_set(err, EL_UNAUTHENTICATED,
                 "etcd %s: the token in the answer to Authenticate (not shown) "
                 "has an illegal character at position %zu of %zu, and cannot "
                 "be sent as an HTTP header; is this endpoint an etcd?",
                 from, illegal_at, strlen(token));
  } else {
    el_channel_set_token(auth->ch, token);
  }
}

static void read_token(el_auth *auth, const el_call_answer *answer,
                       el_error *err) {
  Etcd__AuthenticateResponse *message =
      etcd__authenticate_response__unpack(NULL, answer->len, answer->bytes);
  if (message == NULL || message->token == NULL) {
    el_error_set(err, EL_PROTOCOL,
                 "etcd %s: the answer to an Authenticate cannot be read",
                 answer->from);
  } else {
    take_token(auth, message->token, answer->from, err);
    explicit_bzero(message->token, strlen(message->token));
  }
  if (message != NULL) {
    etcd__authenticate_response__free_unpacked(message, NULL);
  }
}

/* Returns how long the next Authenticate waits, because etcd may still compute the hash of the last
 * one. Clients that fail at the same time spread their next Authenticates. */
static int64_t pause_ms(const el_auth *auth) {
  return el_jitter((int64_t)EL_LOGIN_PAUSE_MS << auth->n_in_vain, auth->salt,
                   el_now_ms());
}

static void count_in_vain(el_auth *auth) {
  if (auth->n_in_vain < EL_LOGIN_DOUBLINGS) auth->n_in_vain++;
}

static void note_refusal(el_auth *auth, const el_error *err) {
  auth->refusal = *err;
  auth->refusal_until_ms =
      el_now_ms() + ((int64_t)EL_LOGIN_REFUSED_MS << auth->n_refusals);
  if (auth->n_refusals < EL_LOGIN_REFUSED_DOUBLINGS) auth->n_refusals++;
}

/* If the password ends with a line break, which a file may have added, says so in |err|. */
static void explain_refusal(const el_auth *auth, el_error *err) {
  size_t len = auth->password != NULL ? strlen(auth->password) : 0;
  char text[sizeof err->text];
  if (err->code != EL_UNAUTHENTICATED || len == 0 ||
      (auth->password[len - 1] != '\n' && auth->password[len - 1] != '\r')) {
    return;
  }
  snprintf(text, sizeof text, "%.*s; the password ends with a line break",
           (int)sizeof text - 40, err->text);
  memcpy(err->text, text, sizeof text);
}

static void note_failure(el_auth *auth, const el_error *err) {
  auth->failure = *err;
  if (err->is_definite && !err->is_retriable) {
    note_refusal(auth, err);
  } else if (!err->is_unsent) {
    auth->retry_ms = el_now_ms() + pause_ms(auth);
    /* if etcd itself has answered, for example that it has no leader, it computes no hash any more
     */
    if (!err->is_from_etcd) count_in_vain(auth);
  }
}

static void note_success(el_auth *auth) {
  auth->is_authenticated = true;
  auth->token_number++;
  auth->accepted_ms = 0;
  auth->n_refusals = 0;
  auth->retry_ms = auth->refusal_until_ms = 0;
  auth->failure.code = EL_OK;
}

/* The present token is invalid. If etcd has never accepted it, the next one may not help either. */
static void reject_token(el_auth *auth) {
  auth->is_authenticated = false;
  if (auth->accepted_ms == 0) {
    auth->retry_ms = el_now_ms() + pause_ms(auth);
    count_in_vain(auth);
  }
}

static void accept_token(el_auth *auth) {
  auth->accepted_ms = el_now_ms();
  auth->n_in_vain = 0;
}

static void get_token(el_auth *auth);

/* Reads the result of an Authenticate into |err|, and sets the token. */
static void take_result(el_auth *auth, const el_call_answer *answer,
                        el_error *err) {
  *err = answer->err;
  if (err->code != EL_UNAVAILABLE) auth->was_answered = true;
  if (err->code == EL_OK) {
    read_token(auth, answer, err);
  } else if (err->is_auth_off) {
    /* authentication is disabled, so no token is needed */
    err->code = EL_OK;
    el_channel_set_token(auth->ch, NULL);
  }
}

/* If etcd has answered nothing for as long as an Authenticate may take, leaves the member. */
static void leave_if_silent(el_auth *auth, const attempt *it,
                            const el_error *err) {
  if (err->is_unanswered && auth->read_answered_ms < it->sent_ms) {
    el_channel_leave(auth->ch, it->member, err);
  }
}

/* Tells whether the refusal |err| says nothing about the next Authenticate, because that has
 * another password or goes to another member. But a wrong password is wrong at all members. */
static bool is_outdated(const attempt *it, const el_error *err) {
  return it->has_old_password ||
         (it->is_left && err->code != EL_UNAUTHENTICATED);
}

/* Takes the answer to an Authenticate. If it is not awaited any more (give_up_left), its token is
 * taken all the same, because all members know the token; its failure is ignored. */
static void on_authenticated(void *arg, const el_call_answer *answer) {
  attempt it = *(attempt *)arg;
  el_auth *auth = it.auth;
  bool is_awaited = auth->attempt == arg;
  el_error err;
  free(arg);
  if (is_awaited) auth->attempt = NULL;
  auth->n_in_flight--;
  if (auth->is_stopped) return;
  if (auth->on_ended != NULL && !answer->err.is_unsent) {
    auth->on_ended(auth->arg, el_now_ms() - it.sent_ms);
  }
  if (auth->is_authenticated) return; /* another one has brought a token */
  take_result(auth, answer, &err);
  if (err.code == EL_OK) {
    note_success(auth);
  } else if (!is_awaited) {
    return;
  } else if (err.is_definite && is_outdated(&it, &err)) {
    get_token(auth);
    return;
  } else {
    explain_refusal(auth, &err);
    note_failure(auth, &err);
    leave_if_silent(auth, &it, &err);
  }
  release_waiting(auth, &err);
}

static void send_read(el_auth *auth);

static void authenticate(el_auth *auth) {
  Etcd__AuthenticateRequest request = ETCD__AUTHENTICATE_REQUEST__INIT;
  size_t len;
  uint8_t *bytes;
  attempt *it = el_alloc(sizeof *it);
  *it = (attempt){.auth = auth,
                  .member = el_channel_member(auth->ch),
                  .sent_ms = el_now_ms()};
  auth->attempt = it;
  auth->n_in_flight++;
  request.name = auth->user;
  request.password = auth->password;
  len = etcd__authenticate_request__get_packed_size(&request);
  bytes = el_alloc(len);
  etcd__authenticate_request__pack(&request, bytes);
  el_call_start(auth->ch,
                &(el_call_request){.method = "/etcdserverpb.Auth/Authenticate",
                                   .bytes = bytes,
                                   .len = len,
                                   .timeout_ms = EL_AUTHENTICATE_MS,
                                   .may_be_slow = true,
                                   .has_no_token = true},
                on_authenticated, it);
  explicit_bzero(bytes, len);
  free(bytes);
  if (el_channel_count(auth->ch) > 1) {
    send_read(auth);
  } else {
    el_timers_set(auth->timers, &auth->read_timer,
                  it->sent_ms + EL_LOGIN_READ_MS);
  }
}

static void get_token(el_auth *auth) {
  int64_t now_ms = el_now_ms();
  if (auth->is_stopped || auth->attempt != NULL) return;
  if (now_ms < auth->refusal_until_ms) {
    el_timers_set(auth->timers, &auth->timer, now_ms);
  } else if (now_ms < auth->retry_ms) {
    el_timers_set(auth->timers, &auth->timer, auth->retry_ms);
  } else {
    authenticate(auth);
  }
}

/* Gives up the Authenticate that is awaited, if the client has left its member. At most half of the
 * members may be given up: if more do not answer, they are not dead, but busy with hashes. */
static void give_up_left(el_auth *auth) {
  if (auth->attempt == NULL || !auth->attempt->is_left) return;
  if (auth->n_in_flight <= el_channel_count(auth->ch) / 2) {
    auth->attempt = NULL;
    count_in_vain(auth);
  } else {
    el_timers_set(auth->timers, &auth->timer, el_now_ms() + EL_LOGIN_PAUSE_MS);
  }
}

static void on_timer(el_timer *timer) {
  el_auth *auth = EL_CONTAINER_OF(timer, el_auth, timer);
  give_up_left(auth);
  if (el_now_ms() < auth->refusal_until_ms) {
    release_waiting(auth, &auth->refusal);
  } else if (!auth->is_authenticated && !STAILQ_EMPTY(&auth->waiting)) {
    get_token(auth);
  }
}

/* After a failover:
 * - The token is kept: each member knows the tokens of all members, until they expire there.
 * - An Authenticate in flight is given up after a pause (give_up_left), because the member that was
 *   left may never answer.
 * - A refusal is forgotten, unless the password is wrong: other refusals concern one member. */
static void on_failover(el_failover_listener *listener, const el_error *cause) {
  el_auth *auth = EL_CONTAINER_OF(listener, el_auth, listener);
  (void)cause;
  if (auth->is_stopped || el_channel_count(auth->ch) == 1) return;
  if (auth->refusal.code != EL_UNAUTHENTICATED) auth->refusal_until_ms = 0;
  auth->read_answered_ms = 0;
  if (auth->attempt == NULL || auth->attempt->is_left) return;
  auth->attempt->is_left = true;
  el_timers_set(auth->timers, &auth->timer, el_now_ms() + pause_ms(auth));
}

/* ---- reads during an Authenticate ---- */

/* While an Authenticate is in flight, the answer to a linearizable read without a token shows that
 * the member is alive, and busy with the hashes of passwords. (etcd waits for its leader before it
 * refuses the read: v3_server.go, Txn.) Without an answer, the health check gives up the member. If
 * there is no other member, the read may be slow (net/call.h), because a new connection would not
 * be quicker. */

static void on_read(void *arg, const el_call_answer *answer) {
  el_auth *auth = arg;
  int64_t now_ms = el_now_ms(), took_ms = now_ms - auth->read_sent_ms;
  auth->read_sent_ms = 0;
  if (auth->is_stopped) return;
  if (answer->err.code != EL_UNAVAILABLE) {
    auth->read_answered_ms = now_ms;
    auth->was_answered = true;
    if (el_channel_count(auth->ch) == 1) {
      el_channel_note_answer(auth->ch, 0, took_ms);
    }
  }
  if (auth->attempt != NULL) {
    el_timers_set(auth->timers, &auth->read_timer, now_ms + EL_LOGIN_READ_MS);
  }
}

static void send_read(el_auth *auth) {
  Etcd__RangeRequest range = ETCD__RANGE_REQUEST__INIT;
  Etcd__RequestOp op = ETCD__REQUEST_OP__INIT, *ops[] = {&op};
  Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;
  bool is_alone = el_channel_count(auth->ch) == 1;
  uint8_t bytes[32];
  if (auth->read_sent_ms != 0) return;
  auth->read_sent_ms = el_now_ms();
  range.key.data = (uint8_t *)"x";
  range.key.len = 1;
  op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
  op.request_range = &range;
  txn.success = ops;
  txn.n_success = 1;
  el_call_start(auth->ch,
                &(el_call_request){
                    .method = "/etcdserverpb.KV/Txn",
                    .bytes = bytes,
                    .len = etcd__txn_request__pack(&txn, bytes),
                    .timeout_ms = is_alone ? EL_AUTHENTICATE_MS
                                           : el_channel_attempt_ms(auth->ch),
                    .may_be_slow = is_alone,
                    .has_no_token = true},
                on_read, auth);
}

static void on_read_due(el_timer *timer) {
  el_auth *auth = EL_CONTAINER_OF(timer, el_auth, read_timer);
  if (auth->attempt != NULL) send_read(auth);
}

/* ---- an invalid token, or a silent etcd ---- */

/* A simple token contains a raft index, and an etcd that was wiped or restored does not answer a
 * call whose token has a higher index than its own (simple_token.go, isValidSimpleToken). So if a
 * call with such a token gets no answer, the client asks the same member for its Status, first
 * without the token. Old versions of etcd answer it, and so show the index up to which the member
 * knows the log. Others refuse it (etcd issue 21663). Then the client asks with the token, and if
 * that is not answered either, the token is invalid. A Status waits for no leader, and without the
 * token not for the disk: so it tells a wiped etcd from one that is slow. */

typedef struct token_check {
  el_auth *auth;
  unsigned token_number;
  size_t member;
  uint64_t index; /* in the token */
  int64_t begun_ms;
  int n_with_token; /* how many Status with the token were sent */
} token_check;

/* Returns the raft index at the end of |token|. 0: it has none, for example a JWT, which has two
 * dots. */
static uint64_t index_of(const char *token) {
  const char *dot = strchr(token, '.');
  return dot != NULL && strspn(dot + 1, "0123456789") == strlen(dot + 1)
             ? strtoull(dot + 1, NULL, 10)
             : 0;
}

/* Tells whether the Status in |answer| shows that the member does not know the log up to |index|,
 * and is not just cut off from its leader. */
static bool is_below(const el_call_answer *answer, uint64_t index) {
  Etcd__StatusResponse *status =
      etcd__status_response__unpack(NULL, answer->len, answer->bytes);
  bool result = status != NULL && status->leader != 0 &&
                status->raftindex != 0 && status->raftindex < index;
  if (status != NULL) etcd__status_response__free_unpacked(status, NULL);
  return result;
}

/* The token is not one of this etcd. Streams that carry it are silent, too, so they are opened
 * anew. */
static void reject_foreign_token(el_auth *auth, size_t member) {
  el_error cause;
  el_error_set(&cause, EL_UNAVAILABLE,
               "etcd %s: it does not answer the auth token of this client; was "
               "it wiped or restored?",
               el_channel_address(auth->ch, member));
  reject_token(auth);
  el_channel_leave(auth->ch, member, &cause);
}

static void end_check(token_check *check) {
  check->auth->is_checking = false;
  free(check);
}

static void send_status(token_check *check, bool has_token);

static void on_status(void *arg, const el_call_answer *answer) {
  token_check *check = arg;
  el_auth *auth = check->auth;
  const el_error *err = &answer->err;
  /* a call with the token may have been answered meanwhile */
  bool is_open = !auth->is_stopped && auth->is_authenticated &&
                 check->token_number == auth->token_number &&
                 auth->accepted_ms < check->begun_ms;
  bool has_token = check->n_with_token > 0, is_foreign = false;
  if (is_open &&
      (has_token ? err->is_unanswered && check->n_with_token < STATUS_MAX
                 : err->code != EL_OK && !err->is_unanswered)) {
    send_status(check, true);
    return;
  }
  if (is_open) {
    is_foreign = has_token
                     ? err->is_unanswered
                     : err->code == EL_OK && is_below(answer, check->index);
  }
  if (is_foreign) reject_foreign_token(auth, check->member);
  end_check(check);
}

static void send_status(token_check *check, bool has_token) {
  check->n_with_token += has_token;
  el_call_start(
      check->auth->ch,
      &(el_call_request){.method = "/etcdserverpb.Maintenance/Status",
                         .bytes = (const uint8_t *)"",
                         .timeout_ms = el_channel_attempt_ms(check->auth->ch),
                         .pinned_member = check->member + 1,
                         .has_no_token = !has_token},
      on_status, check);
}

/* Handles that |call|, which carried the present token, had no answer. */
static void suspect_token(el_auth *auth, const auth_call *call) {
  const char *token = el_channel_token(auth->ch);
  uint64_t index = token != NULL ? index_of(token) : 0;
  token_check *check;
  if (auth->is_checking || auth->is_stopped || index == 0 ||
      call->request.pinned_member != 0 ||
      el_now_ms() < call->sent_ms + EL_ANSWER_MS) {
    return;
  }
  auth->is_checking = true;
  check = el_alloc(sizeof *check);
  *check = (token_check){.auth = auth,
                         .token_number = auth->token_number,
                         .member = call->member,
                         .index = index,
                         .begun_ms = call->sent_ms};
  send_status(check, false);
}

/* ---- calls ---- */

static void on_answer(void *arg, const el_call_answer *answer) {
  auth_call *call = arg;
  el_auth *auth = call->auth;
  const el_error *err = &answer->err;
  if (call->token_number == auth->token_number && auth->is_authenticated) {
    if (err->is_token_bad) {
      reject_token(auth);
    } else if (err->is_unanswered) {
      suspect_token(auth, call);
    } else if (err->code != EL_UNAVAILABLE) {
      accept_token(auth);
    }
  }
  if (err->is_token_bad && call->n_repeats < REPEATS_MAX) {
    call->n_repeats++;
    send(call);
    return;
  }
  call->done(call->arg, answer);
  free_call(call);
}

/* Fails |call|, whose time has passed before it could be sent with a valid token. */
static void fail_late(auth_call *call) {
  el_auth *auth = call->auth;
  el_error err;
  if (!el_auth_explain_wait(auth, &err)) {
    el_error_set(&err, EL_UNAVAILABLE, "etcd %s: no auth token in time",
                 el_channel_address(auth->ch, el_channel_member(auth->ch)));
    err.is_retriable = true;
  }
  err.is_unanswered = true;
  fail(call, &err);
}

static void on_call_due(el_timer *timer) {
  auth_call *call = EL_CONTAINER_OF(timer, auth_call, timer);
  el_auth_cancel_wait(call->auth, &call->wait);
  fail_late(call);
}

/* Sends |call|, makes it wait for a token, or fails it if its time has passed in a wait or before a
 * repeat, or after el_auth_stop: a token that comes while the client closes must not start a
 * request. */
static void send(auth_call *call) {
  el_auth *auth = call->auth;
  int64_t now_ms = el_now_ms();
  el_error closed;
  if (auth->is_stopped) {
    el_error_set(&closed, EL_CLOSED, "the client was closed");
    fail(call, &closed);
  } else if (!auth->is_authenticated) {
    el_timers_set(auth->timers, &call->timer, call->until_ms);
    el_auth_await_token(auth, &call->wait);
  } else if ((call->was_delayed || call->n_repeats > 0) &&
             now_ms >= call->until_ms) {
    /* sent now, its outcome would be unknown */
    fail_late(call);
  } else {
    call->token_number = auth->token_number;
    call->member = el_channel_member(auth->ch);
    call->sent_ms = now_ms;
    call->request.timeout_ms = call->until_ms - now_ms;
    el_call_start(auth->ch, &call->request, on_answer, call);
  }
}

void el_auth_call(el_auth *auth, const el_call_request *request,
                  el_call_done done, void *arg) {
  auth_call *call;
  if (auth->user == NULL) {
    el_call_start(auth->ch, request, done, arg);
    return;
  }
  call = el_alloc(sizeof *call);
  call->wait.done = on_token;
  call->auth = auth;
  call->bytes = el_alloc(request->len);
  memcpy(call->bytes, request->bytes, request->len);
  call->request = *request;
  call->request.bytes = call->bytes;
  call->until_ms = el_now_ms() + request->timeout_ms;
  call->timer.on_due = on_call_due;
  call->done = done;
  call->arg = arg;
  send(call);
}

/* ---- streams ---- */

bool el_auth_is_ready(const el_auth *auth) {
  return auth->user == NULL || (auth->is_authenticated && !auth->is_stopped);
}

void el_auth_await_token(el_auth *auth, el_token_wait *wait) {
  if (!wait->is_waiting) {
    wait->is_waiting = true;
    STAILQ_INSERT_TAIL(&auth->waiting, wait, link);
  }
  get_token(auth);
}

void el_auth_cancel_wait(el_auth *auth, el_token_wait *wait) {
  if (wait->is_waiting) {
    wait->is_waiting = false;
    STAILQ_REMOVE(&auth->waiting, wait, el_token_wait, link);
  }
}

void el_auth_report(el_auth *auth, unsigned token_number, const el_error *err) {
  if (!err->is_token_bad || auth->user == NULL ||
      token_number != auth->token_number) {
    return;
  }
  if (auth->is_authenticated) reject_token(auth);
  get_token(auth);
}

bool el_auth_has_token(const el_auth *auth) {
  return !auth->is_stopped && el_channel_token(auth->ch) != NULL;
}

unsigned el_auth_token_number(const el_auth *auth) {
  return auth->token_number;
}

bool el_auth_was_answered(const el_auth *auth) { return auth->was_answered; }

bool el_auth_explain_wait(const el_auth *auth, el_error *err) {
  const attempt *it = auth->attempt;
  if (auth->user == NULL || auth->is_authenticated) return false;
  if (it != NULL) {
    bool is_busy = auth->read_answered_ms >= it->sent_ms &&
                   el_now_ms() < auth->read_answered_ms + EL_BUSY_MS;
    el_error_set(err, EL_UNAVAILABLE,
                 "etcd %s: %s (Authenticate has taken %.1f s so far)",
                 el_channel_address(auth->ch, it->member),
                 is_busy ? "busy with passwords" : "no answer in time",
                 (double)(el_now_ms() - it->sent_ms) / 1000);
    err->is_busy = is_busy;
  } else if (auth->failure.code != EL_OK) {
    *err = auth->failure;
  } else {
    el_error_set(err, EL_UNAVAILABLE, "etcd %s: no auth token yet",
                 el_channel_address(auth->ch, el_channel_member(auth->ch)));
  }
  err->code = EL_UNAVAILABLE;
  err->is_definite = err->is_retriable = true;
  return true;
}

/* Without a token, etcd takes the common name of the client certificate as the user. */
void el_auth_name_user(const el_auth *auth, el_error *err) {
  enum { NAME_SIZE = 64 };
  char common_name[NAME_SIZE], text[2 * sizeof err->text];
  const char *user = auth->user;
  if (err->code != EL_DENIED) return;
  if (user == NULL && el_channel_token(auth->ch) == NULL &&
      el_channel_client_name(auth->ch, common_name, NAME_SIZE)) {
    user = common_name;
  }
  if (user == NULL) return;
  snprintf(text, sizeof text, "%s for user \"%s\"", err->text, user);
  el_escape(err->text, sizeof err->text, text);
}

void el_auth_set_password(el_auth *auth, char *password) {
  el_secret_free(auth->password);
  auth->password = password;
  if (auth->attempt != NULL) auth->attempt->has_old_password = true;
  auth->n_refusals = 0;
  auth->refusal_until_ms = 0;
}

/* ---- life ---- */

el_auth *el_auth_new(el_channel *ch, el_timers *timers, char *user,
                     char *password, const char *token,
                     el_authenticate_done on_ended, void *arg) {
  el_auth *auth = el_alloc(sizeof *auth);
  auth->ch = ch;
  auth->timers = timers;
  auth->user = user;
  auth->password = password;
  auth->timer.on_due = on_timer;
  auth->read_timer.on_due = on_read_due;
  auth->salt = el_random();
  auth->on_ended = on_ended;
  auth->arg = arg;
  auth->listener.on_failover = on_failover;
  STAILQ_INIT(&auth->waiting);
  el_channel_add_listener(ch, &auth->listener);
  if (token != NULL) {
    el_channel_set_token(ch, token);
  }
  return auth;
}

void el_auth_stop(el_auth *auth) {
  el_error closed;
  auth->is_stopped = true;
  el_timers_stop(auth->timers, &auth->timer);
  el_timers_stop(auth->timers, &auth->read_timer);
  el_error_set(&closed, EL_CLOSED, "the client was closed");
  release_waiting(auth, &closed);
}

void el_auth_free(el_auth *auth) {
  el_auth_stop(auth);
  el_secret_free(auth->user);
  el_secret_free(auth->password);
  free(auth);
}

el_channel *el_auth_channel(const el_auth *auth) { return auth->ch; }
