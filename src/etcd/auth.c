/* auth: who we are to etcd. */
#include "etcd/auth.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "etcd.pb-c.h"
#include "base/secret.h"
#include "base/of.h"
#include "net/call.h"

enum {
  /* A password's hash takes etcd up to a second, one after the other; twice as
   * long after each silence. */
  ATTEMPT_MS = 750,
  ATTEMPT_DOUBLINGS = 2,
  /* After a refusal the same answer is given for a while: no storm of wrong
   * passwords. */
  REFUSED_FOR_MS = 1000,
  /* A token may be spoilt again while the call is on its way. */
  REPEATS_MAX = 3
};

typedef struct auth_call {
  el_token_wait token; /* first: until there is one */
  el_auth *auth;
  el_call_request request;
  uint8_t *bytes;    /* the request's */
  unsigned renewals; /* auth->renewals when it was sent */
  int repeats;
  el_call_done done;
  void *arg;
} auth_call;

struct el_auth {
  el_channel *ch;
  char *user; /* NULL: no token of ours */
  char *password;
  bool authenticated; /* the channel has a token, or needs none */
  bool authenticating;
  unsigned renewals;
  int silences;     /* requests for a token without an answer, in a row */
  el_error refused; /* the last definite refusal ... */
  int64_t refused_until;
  el_timers *timers;
  el_timer refuse; /* answers, a moment later, calls that come meanwhile */
  STAILQ_HEAD(token_wait_list, el_token_wait) waiting;
  el_failover_listener move;
  bool stopping;
};

static void send(auth_call *call);

static void free_call(auth_call *call) {
  free(call->bytes);
  free(call);
}

/* The call itself was never sent. */
static void fail(auth_call *call, const el_error *err) {
  el_call_answer answer = {.err = *err, .from = ""};
  answer.err.definite = true;
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

/* Those who begin to wait meanwhile are left for the next time. */
static void release_waiting(el_auth *auth, const el_error *err) {
  el_token_wait *wait;
  size_t n = 0;
  STAILQ_FOREACH(wait, &auth->waiting, link) { n++; }
  while (n-- > 0 && !STAILQ_EMPTY(&auth->waiting)) {
    wait = STAILQ_FIRST(&auth->waiting);
    STAILQ_REMOVE_HEAD(&auth->waiting, link);
    wait->waiting = false;
    wait->done(wait, err);
  }
}

/* Sets |token|, which etcd |from| has given. Refuses it here if no call could carry it:
 * later calls would fail without telling the cause. */
static void take_token(el_auth *auth, const char *token, const char *from,
                       el_error *err) {
  size_t illegal_at = el_header_illegal_at(token);
  if (*token == '\0') {
    el_error_set(err, EL_UNAUTHENTICATED,
                 "etcd %s: its answer to Authenticate has no token", from);
  } else if (illegal_at != 0) {
    el_error_set(err, EL_UNAUTHENTICATED,
                 "etcd %s: the token in its answer to Authenticate (not shown) "
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
                 "etcd %s: the answer to an Authenticate can't be read",
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
  auth->authenticating = false;
  auth->silences = err.code == EL_UNAVAILABLE ? auth->silences + 1 : 0;
  if (err.code == EL_OK) {
    read_token(auth, answer, &err);
  } else if (err.auth_off) {
    err.code = EL_OK; /* nobody is asked who he is: no token is needed */
  }
  if (err.code == EL_OK) {
    auth->authenticated = true;
    auth->renewals++;
  } else if (err.definite) {
    auth->refused = err;
    auth->refused_until = el_now_ms() + REFUSED_FOR_MS;
  }
  release_waiting(auth, &err);
}

static int64_t attempt_ms(const el_auth *auth) {
  return (int64_t)ATTEMPT_MS
         << (auth->silences < ATTEMPT_DOUBLINGS ? auth->silences
                                                : ATTEMPT_DOUBLINGS);
}

static void authenticate(el_auth *auth) {
  Etcd__AuthenticateRequest request = ETCD__AUTHENTICATE_REQUEST__INIT;
  size_t len;
  uint8_t *bytes;
  if (auth->authenticating) return;
  request.name = auth->user;
  request.password = auth->password;
  len = etcd__authenticate_request__get_packed_size(&request);
  bytes = el_alloc(len);
  etcd__authenticate_request__pack(&request, bytes);
  auth->authenticating = true;
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
  el_auth *auth = EL_OF(timer, el_auth, refuse);
  release_waiting(auth, &auth->refused);
}

static void get_token(el_auth *auth) {
  if (auth->stopping) return;
  if (el_now_ms() < auth->refused_until) {
    el_timers_set(auth->timers, &auth->refuse, el_now_ms());
  } else {
    authenticate(auth);
  }
}

/* A token is another member's affair. */
static void on_moved(el_failover_listener *move, const el_error *why) {
  el_auth *auth = EL_OF(move, el_auth, move);
  (void)why;
  if (auth->user != NULL) {
    auth->authenticated = false;
  }
}

/* ---- calls ---- */

static void on_answer(void *arg, const el_call_answer *answer) {
  auth_call *call = arg;
  el_auth *auth = call->auth;
  bool spoilt = answer->err.token_bad || answer->err.silent;
  if (spoilt && call->renewals == auth->renewals) {
    /* Else it was renewed meanwhile. To a token from before it was wiped or
     * restored, an etcd says nothing until it has as many revisions again
     * (simple_token.go, isValidSimpleToken). */
    auth->authenticated = false;
  }
  if (answer->err.token_bad && call->repeats < REPEATS_MAX) {
    call->repeats++;
    send(call);
    return;
  }
  call->done(call->arg, answer);
  free_call(call);
}

/* A token that comes while the client stops starts nothing any more. */
static void send(auth_call *call) {
  el_auth *auth = call->auth;
  el_error closed;
  if (auth->stopping) {
    el_error_set(&closed, EL_CLOSED, "the client was closed");
    fail(call, &closed);
    return;
  }
  if (!auth->authenticated) {
    el_auth_await(auth, &call->token);
    return;
  }
  call->renewals = auth->renewals;
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
  return auth->user == NULL || auth->authenticated;
}

void el_auth_await(el_auth *auth, el_token_wait *wait) {
  if (!wait->waiting) {
    wait->waiting = true;
    STAILQ_INSERT_TAIL(&auth->waiting, wait, link);
  }
  get_token(auth);
}

void el_auth_forget(el_auth *auth, el_token_wait *wait) {
  if (wait->waiting) {
    wait->waiting = false;
    STAILQ_REMOVE(&auth->waiting, wait, el_token_wait, link);
  }
}

void el_auth_note(el_auth *auth, const el_error *err) {
  if (err->token_bad && auth->user != NULL) {
    auth->authenticated = false;
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
  auth->refuse.due = on_refuse;
  auth->move.on_failover = on_moved;
  STAILQ_INIT(&auth->waiting);
  el_channel_add_listener(ch, &auth->move);
  if (token != NULL) {
    el_channel_set_token(ch, token);
  }
  return auth;
}

void el_auth_stop(el_auth *auth) {
  el_error closed;
  auth->stopping = true;
  el_timers_stop(auth->timers, &auth->refuse);
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
