/* auth: authentication. */
#include "etcd/auth.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/jitter.h"
#include "base/random.h"
#include "etcd.pb-c.h"
#include "net/call.h"

enum {
  /* How long an Authenticate may take. The connection ends earlier if etcd does not answer its pings;
   * this limit is for a proxy that answers them itself. */
  AUTHENTICATE_MAX_MS = 60000,
  /* The longest pause after an Authenticate that may still keep etcd busy. It doubles with each of
   * them in a row, BACKOFF_DOUBLINGS times (8 s), and the pause is a random part of it. */
  BACKOFF_MS = 250,
  BACKOFF_DOUBLINGS = 5,
  /* For how long after etcd has refused Authenticate other calls fail with the same error, without
   * a request. Otherwise many calls with a wrong password would keep etcd busy with hashes. The time
   * doubles with each refusal in a row, REFUSED_DOUBLINGS times. */
  REFUSED_FOR_MS = 1000,
  REFUSED_DOUBLINGS = 3,
  /* How often a call is sent again. A new token may become invalid before the call arrives. */
  REPEATS_MAX = 3,
  /* While an Authenticate is in flight, the pause after the answer to a read without a token. */
  READ_EVERY_MS = 1000,
  /* A call that has waited less, or less than this times what a read took, says nothing about its
   * token: etcd may be busy. */
  SUSPECT_MS = 500,
  SUSPECT_TIMES = 4
};

typedef struct auth_call {
  el_token_wait token; /* first: waits for a token */
  el_auth *auth;
  el_call_request request;
  uint8_t *bytes;   /* of the request */
  int64_t until_ms; /* when the call must have ended (el_now_ms) */
  el_timer timer;   /* due at |until_ms| while the call waits for a token */
  int64_t sent_ms;
  unsigned n_tokens; /* auth->n_tokens when the call was sent */
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
  unsigned n_tokens;     /* how often is_authenticated became true */
  /* the Authenticate whose answer is awaited; NULL: none */
  attempt *attempt;
  int n_failures; /* Authenticates in a row after which the client backed off */
  int64_t retry_ms; /* the next Authenticate leaves no earlier (el_now_ms) */
  el_error failure; /* why the last one failed */
  el_error refusal; /* the last definite refusal of Authenticate */
  int n_refusals;   /* the number of refusals in a row */
  int64_t
      refusal_until_ms; /* by el_now_ms; waits fail with |refusal| until then */
  el_timers *timers;
  /* Fails the waits that begin before refusal_until_ms, because el_auth_await_token must not call
   * |done| itself; or sends the next Authenticate. */
  el_timer timer;
  el_timer read_timer; /* sends the next read without a token */
  int64_t
      reading_ms; /* when the read in flight was sent (el_now_ms); 0: none is */
  /* when etcd answered such a read last, and no call with a token since (el_now_ms); 0: never */
  int64_t read_ms;
  int64_t read_took_ms; /* how long that answer took */
  bool was_answered;    /* etcd has answered a read or an Authenticate */
  uint64_t salt;        /* varies the jitter */
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

/* Returns how long the next Authenticate waits for etcd to compute the hash of the last one. Clients
 * that fail at the same time spread their next Authenticates. */
static int64_t pause_ms(const el_auth *auth) {
  return el_jitter((int64_t)BACKOFF_MS << auth->n_failures, auth->salt,
                   el_now_ms());
}

/* Counts an Authenticate that was in vain, and may still keep etcd busy. */
static void note_wasted(el_auth *auth) {
  if (auth->n_failures < BACKOFF_DOUBLINGS) auth->n_failures++;
}

static void note_refusal(el_auth *auth, const el_error *err) {
  auth->refusal = *err;
  auth->refusal_until_ms =
      el_now_ms() + ((int64_t)REFUSED_FOR_MS << auth->n_refusals);
  if (auth->n_refusals < REFUSED_DOUBLINGS) auth->n_refusals++;
}

static void note_failure(el_auth *auth, const el_error *err) {
  if (err->is_definite) {
    note_refusal(auth, err);
  } else if (!err->is_unsent) {
    auth->failure = *err;
    auth->retry_ms = el_now_ms() + pause_ms(auth);
    /* an answer, for example that there is no leader, tells that no hash is computed any more */
    if (!err->is_from_etcd) note_wasted(auth);
  }
}

static void note_success(el_auth *auth, const attempt *it) {
  auth->is_authenticated = true;
  auth->n_tokens++;
  auth->n_failures = auth->n_refusals = 0;
  auth->retry_ms = auth->refusal_until_ms = auth->read_ms = 0;
  el_channel_note_answer(auth->ch, it->member, el_now_ms() - it->sent_ms);
}

static void send_read(el_auth *auth);
static void get_token(el_auth *auth);

/* Takes the answer to an Authenticate. A token is also taken from a member that the client has left
 * meanwhile, because all members know it. */
static void on_authenticated(void *arg, const el_call_answer *answer) {
  attempt *it = arg;
  el_auth *auth = it->auth;
  bool is_awaited = auth->attempt == it, is_stale;
  el_error err = answer->err;
  if (auth->on_ended != NULL) {
    auth->on_ended(auth->arg, el_now_ms() - it->sent_ms);
  }
  if (is_awaited) auth->attempt = NULL;
  if (err.code != EL_UNAVAILABLE) auth->was_answered = true;
  if (err.code == EL_OK) {
    read_token(auth, answer, &err);
  } else if (err.is_auth_off) {
    /* authentication is disabled, so no token is needed; etcd would refuse an old one */
    err.code = EL_OK;
    el_channel_set_token(auth->ch, NULL);
  }
  is_stale = err.code != EL_OK && err.is_definite && it->has_old_password;
  if (err.code == EL_OK) {
    note_success(auth, it);
  } else if (is_awaited && !is_stale) {
    note_failure(auth, &err);
  }
  free(it);
  if (is_stale) {
    if (is_awaited) get_token(auth); /* with the new password */
  } else if (err.code == EL_OK || is_awaited) {
    release_waiting(auth, &err);
  }
}

static void authenticate(el_auth *auth) {
  Etcd__AuthenticateRequest request = ETCD__AUTHENTICATE_REQUEST__INIT;
  size_t len;
  uint8_t *bytes;
  attempt *it = el_alloc(sizeof *it);
  *it = (attempt){.auth = auth,
                  .member = el_channel_member(auth->ch),
                  .sent_ms = el_now_ms()};
  auth->attempt = it;
  request.name = auth->user;
  request.password = auth->password;
  len = etcd__authenticate_request__get_packed_size(&request);
  bytes = el_alloc(len);
  etcd__authenticate_request__pack(&request, bytes);
  el_call_start(auth->ch,
                &(el_call_request){.method = "/etcdserverpb.Auth/Authenticate",
                                   .bytes = bytes,
                                   .len = len,
                                   .timeout_ms = AUTHENTICATE_MAX_MS,
                                   .may_be_slow = true,
                                   .has_no_token = true},
                on_authenticated, it);
  explicit_bzero(bytes, len);
  free(bytes);
  if (el_channel_count(auth->ch) > 1) {
    send_read(auth);
  } else {
    el_timers_set(auth->timers, &auth->read_timer, it->sent_ms + READ_EVERY_MS);
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

/* Sends the next Authenticate, if one is needed. */
static void on_timer(el_timer *timer) {
  el_auth *auth = EL_CONTAINER_OF(timer, el_auth, timer);
  if (auth->attempt != NULL && auth->attempt->is_left) {
    auth->attempt = NULL;
    note_wasted(auth);
  }
  if (el_now_ms() < auth->refusal_until_ms) {
    release_waiting(auth, &auth->refusal);
  } else if (!auth->is_authenticated && !STAILQ_EMPTY(&auth->waiting)) {
    get_token(auth);
  }
}

/* The token is kept, because each member knows the tokens of all members, until they expire. An
 * Authenticate in flight is awaited only for a pause if there is another member to ask, because the
 * first may never answer. */
static void on_failover(el_failover_listener *listener, const el_error *cause) {
  el_auth *auth = EL_CONTAINER_OF(listener, el_auth, listener);
  (void)cause;
  if (auth->attempt == NULL || auth->attempt->is_left ||
      el_channel_count(auth->ch) == 1) {
    return;
  }
  auth->attempt->is_left = true;
  el_timers_set(auth->timers, &auth->timer, el_now_ms() + pause_ms(auth));
}

/* ---- reads without a token ---- */

/* A read that carries no token tells whether etcd answers. It has two uses.
 *
 * While an Authenticate is in flight, its answer shows that the member is alive, and busy with the
 * hashes of passwords. Without an answer, the health check gives up the member. If there is no other
 * member, the health check leaves the read out, because a new connection would not be quicker.
 *
 * It also tells an invalid token from a silent etcd. A simple token contains a raft index, and an etcd
 * that was wiped or restored does not answer a call whose token has a higher index than its own
 * (simple_token.go, isValidSimpleToken). So if etcd answers a read without a token, and does not
 * answer a call with a token that was sent after that, the token counts as invalid. etcd waits for its
 * leader before it looks at the token (v3_server.go, Txn), so a refusal is as good as a result. */

static void on_read(void *arg, const el_call_answer *answer) {
  el_auth *auth = arg;
  if (answer->err.code != EL_UNAVAILABLE) {
    auth->read_ms = el_now_ms();
    auth->read_took_ms = auth->read_ms - auth->reading_ms;
    auth->was_answered = true;
  }
  auth->reading_ms = 0;
  if (auth->attempt != NULL && !auth->is_stopped) {
    el_timers_set(auth->timers, &auth->read_timer, el_now_ms() + READ_EVERY_MS);
  }
}

static void send_read(el_auth *auth) {
  Etcd__RangeRequest range = ETCD__RANGE_REQUEST__INIT;
  Etcd__RequestOp op = ETCD__REQUEST_OP__INIT, *ops[] = {&op};
  Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;
  bool is_alone = el_channel_count(auth->ch) == 1;
  uint8_t bytes[32];
  if (auth->reading_ms != 0 || auth->is_stopped) return;
  auth->reading_ms = el_now_ms();
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
                    .timeout_ms = is_alone ? AUTHENTICATE_MAX_MS
                                           : el_channel_attempt_ms(auth->ch),
                    .may_be_slow = is_alone,
                    .has_no_token = true},
                on_read, auth);
}

static void on_read_due(el_timer *timer) {
  el_auth *auth = EL_CONTAINER_OF(timer, el_auth, read_timer);
  if (auth->attempt != NULL) send_read(auth);
}

/* Tells whether |token| ends with a raft index, unlike a JWT, which has two dots. */
static bool has_index(const char *token) {
  const char *dot = strchr(token, '.');
  return dot != NULL && dot[1] != '\0' &&
         strspn(dot + 1, "0123456789") == strlen(dot + 1);
}

/* Handles that |call|, which carried the present token, had no answer. */
static void suspect_token(el_auth *auth, const auth_call *call) {
  const char *token = el_channel_token(auth->ch);
  int64_t waited_ms = el_now_ms() - call->sent_ms;
  if (token == NULL || !has_index(token) || waited_ms < SUSPECT_MS) return;
  if (auth->read_ms == 0) {
    send_read(auth);
  } else if (call->sent_ms >= auth->read_ms) {
    if (waited_ms >= SUSPECT_TIMES * auth->read_took_ms) {
      auth->is_authenticated = false;
    }
    auth->read_ms = 0;
  }
}

/* ---- calls ---- */

static void on_answer(void *arg, const el_call_answer *answer) {
  auth_call *call = arg;
  el_auth *auth = call->auth;
  const el_error *err = &answer->err;
  if (call->n_tokens ==
      auth->n_tokens) { /* no new token has come since the call was sent */
    if (err->is_token_bad) {
      auth->is_authenticated = false;
    } else if (err->is_unanswered) {
      suspect_token(auth, call);
    } else if (err->code != EL_UNAVAILABLE) {
      auth->read_ms = 0;
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

/* Fails |call|, which has waited for a token for the time that it has. */
static void on_call_due(el_timer *timer) {
  auth_call *call = EL_CONTAINER_OF(timer, auth_call, timer);
  el_error err;
  el_auth_cancel_wait(call->auth, &call->token);
  el_auth_explain_wait(call->auth, &err);
  fail(call, &err);
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
    el_timers_set(auth->timers, &call->timer, call->until_ms);
    el_auth_await_token(auth, &call->token);
    return;
  }
  call->n_tokens = auth->n_tokens;
  call->sent_ms = el_now_ms();
  call->request.timeout_ms = call->until_ms - call->sent_ms;
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
  call->until_ms = el_now_ms() + request->timeout_ms;
  call->timer.on_due = on_call_due;
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

void el_auth_report(el_auth *auth, unsigned n_tokens, const el_error *err) {
  if (err->is_token_bad && auth->user != NULL && n_tokens == auth->n_tokens) {
    auth->is_authenticated = false;
    get_token(auth);
  }
}

unsigned el_auth_token_number(const el_auth *auth) { return auth->n_tokens; }

bool el_auth_was_answered(const el_auth *auth) { return auth->was_answered; }

bool el_auth_explain_wait(const el_auth *auth, el_error *err) {
  const attempt *it = auth->attempt;
  if (auth->user == NULL || auth->is_authenticated) return false;
  if (it != NULL) {
    el_error_set(err, EL_UNAVAILABLE,
                 "etcd %s: %s (Authenticate has taken %.1f s so far)",
                 el_channel_address(auth->ch, it->member),
                 auth->read_ms >= it->sent_ms ? "busy with passwords"
                                              : "no answer in time",
                 (double)(el_now_ms() - it->sent_ms) / 1000);
  } else if (auth->n_failures > 0) {
    *err = auth->failure;
  } else {
    el_error_set(err, EL_UNAVAILABLE, "etcd %s: no auth token yet",
                 el_channel_address(auth->ch, el_channel_member(auth->ch)));
  }
  err->code = EL_UNAVAILABLE;
  err->is_definite = err->is_retriable = true;
  return true;
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
