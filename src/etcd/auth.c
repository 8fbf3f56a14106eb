/* auth: authentication. */
#include "etcd/auth.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "etcd.pb-c.h"
#include "net/call.h"

enum {
  /* The timeout of Authenticate. It doubles after each Authenticate that is not answered, at most
   * ATTEMPT_DOUBLINGS times. The timeout grows, because etcd computes the hashes of passwords one
   * after the other, and needs up to a second for each. */
  ATTEMPT_MS = 750,
  ATTEMPT_DOUBLINGS = 2,
  /* For how long after etcd has refused Authenticate other calls fail with the same error, without
   * a request. Otherwise many calls with a wrong password would flood etcd. */
  REFUSED_FOR_MS = 1000,
  /* How often a call is sent again. A new token may become invalid before the call arrives. */
  REPEATS_MAX = 3
};

typedef struct auth_call {
  el_token_wait token; /* first: waits for a token */
  el_auth *auth;
  el_call_request request;
  uint8_t *bytes;    /* of the request */
  unsigned n_tokens; /* auth->n_tokens when the call was sent */
  int n_repeats;
  el_call_done done;
  void *arg;
} auth_call;

struct el_auth {
  el_channel *ch;
  char *user; /* NULL: no token is requested */
  char *password;
  bool is_authenticated;  /* the channel has a token, or needs none */
  bool is_authenticating; /* Authenticate was sent, and has not ended */
  unsigned n_tokens;      /* how often is_authenticated became true */
  /* the number of Authenticates without an answer, in a row */
  int n_timeouts;
  el_error refusal; /* the last definite refusal of Authenticate */
  /* by el_now_ms; waits fail with |refusal| until then */
  int64_t refusal_until_ms;
  el_timers *timers;
  /* fails the waits that begin before refusal_until_ms. A timer does this, because
   * el_auth_await_token must not call |done| itself. */
  el_timer refuse_timer;
  STAILQ_HEAD(token_wait_list, el_token_wait) waiting;
  el_failover_listener listener;
  bool is_stopped;
};

static void send(auth_call *call);

static void free_call(auth_call *call) {
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

/* Sets |token|, which the member |from| has sent. Refuses a token that is illegal in an HTTP
 * header, because calls with that token would fail without a message that tells the cause. */
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

static void on_authenticated(void *arg, const el_call_answer *answer) {
  el_auth *auth = arg;
  el_error err = answer->err;
  auth->is_authenticating = false;
  auth->n_timeouts = err.code == EL_UNAVAILABLE ? auth->n_timeouts + 1 : 0;
  if (err.code == EL_OK) {
    read_token(auth, answer, &err);
  } else if (err.is_auth_off) {
    err.code = EL_OK; /* authentication is disabled, so no token is needed */
  }
  if (err.code == EL_OK) {
    auth->is_authenticated = true;
    auth->n_tokens++;
  } else if (err.is_definite) {
    auth->refusal = err;
    auth->refusal_until_ms = el_now_ms() + REFUSED_FOR_MS;
  }
  release_waiting(auth, &err);
}

static int64_t attempt_ms(const el_auth *auth) {
  return (int64_t)ATTEMPT_MS
         << (auth->n_timeouts < ATTEMPT_DOUBLINGS ? auth->n_timeouts
                                                  : ATTEMPT_DOUBLINGS);
}

static void authenticate(el_auth *auth) {
  Etcd__AuthenticateRequest request = ETCD__AUTHENTICATE_REQUEST__INIT;
  size_t len;
  uint8_t *bytes;
  if (auth->is_authenticating) return;
  request.name = auth->user;
  request.password = auth->password;
  len = etcd__authenticate_request__get_packed_size(&request);
  bytes = el_alloc(len);
  etcd__authenticate_request__pack(&request, bytes);
  auth->is_authenticating = true;
  el_channel_set_token(auth->ch, NULL);
  el_call_start(auth->ch,
                &(el_call_request){.method = "/etcdserverpb.Auth/Authenticate",
                                   .bytes = bytes,
                                   .len = len,
                                   .timeout_ms = attempt_ms(auth),
                                   .may_be_slow = true},
                on_authenticated, auth);
  explicit_bzero(bytes, len);
  free(bytes);
}

static void on_refuse(el_timer *timer) {
  el_auth *auth = EL_CONTAINER_OF(timer, el_auth, refuse_timer);
  release_waiting(auth, &auth->refusal);
}

static void get_token(el_auth *auth) {
  if (auth->is_stopped) return;
  if (el_now_ms() < auth->refusal_until_ms) {
    el_timers_set(auth->timers, &auth->refuse_timer, el_now_ms());
  } else {
    authenticate(auth);
  }
}

/* The new member may not know the token that was valid at the previous member. */
static void on_failover(el_failover_listener *listener, const el_error *cause) {
  el_auth *auth = EL_CONTAINER_OF(listener, el_auth, listener);
  (void)cause;
  if (auth->user != NULL) {
    auth->is_authenticated = false;
  }
}

/* ---- calls ---- */

static void on_answer(void *arg, const el_call_answer *answer) {
  auth_call *call = arg;
  el_auth *auth = call->auth;
  bool is_token_suspect = answer->err.is_token_bad || answer->err.is_unanswered;
  if (is_token_suspect && call->n_tokens == auth->n_tokens) {
    /* No new token has come since the call was sent, so the token of the call may be invalid. A
     * timeout is a sign of that as well. A token contains a raft index, and an etcd that was wiped
     * or restored does not answer a call whose token has a higher index than its own
     * (simple_token.go, isValidSimpleToken). */
    auth->is_authenticated = false;
  }
  if (answer->err.is_token_bad && call->n_repeats < REPEATS_MAX) {
    call->n_repeats++;
    send(call);
    return;
  }
  call->done(call->arg, answer);
  free_call(call);
}

/* Sends |call|, or makes it wait for a token. After el_auth_stop, |call| fails, because a token
 * that comes while the client closes must not start a request. */
static void send(auth_call *call) {
  el_auth *auth = call->auth;
  el_error closed;
  if (auth->is_stopped) {
    el_error_set(&closed, EL_CLOSED, "the client was closed");
    fail(call, &closed);
    return;
  }
  if (!auth->is_authenticated) {
    el_auth_await_token(auth, &call->token);
    return;
  }
  call->n_tokens = auth->n_tokens;
  el_call_start(auth->ch, &call->request, on_answer, call);
}

void el_auth_call(el_auth *auth, const el_call_request *request,
                  el_call_done done, void *arg) {
  auth_call *call;
  if (auth->user == NULL) {
    el_call_start(auth->ch, request, done, arg);
    return;
  }
  call = el_alloc(sizeof *call);
  call->token.done = on_token;
  call->auth = auth;
  call->bytes = el_alloc(request->len);
  memcpy(call->bytes, request->bytes, request->len);
  call->request = *request;
  call->request.bytes = call->bytes;
  call->done = done;
  call->arg = arg;
  send(call);
}

/* ---- streams ---- */

bool el_auth_is_ready(const el_auth *auth) {
  return auth->user == NULL || auth->is_authenticated;
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

void el_auth_report(el_auth *auth, const el_error *err) {
  if (err->is_token_bad && auth->user != NULL) {
    auth->is_authenticated = false;
    get_token(auth);
  }
}

/* ---- life ---- */

el_auth *el_auth_new(el_channel *ch, el_timers *timers, char *user,
                     char *password, const char *token) {
  el_auth *auth = el_alloc(sizeof *auth);
  auth->ch = ch;
  auth->timers = timers;
  auth->user = user;
  auth->password = password;
  auth->refuse_timer.on_due = on_refuse;
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
  el_timers_stop(auth->timers, &auth->refuse_timer);
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
