/* lease: etcd's leases: grant, revoke, time to live, and keepalives. */
#include "etcd/lease.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/random.h"
#include "base/times.h"
#include "etcd.pb-c.h"
#include "etcd/txn.h"
#include "net/stream.h"

/* The most renewals that await an answer: those of one TTL, if one is sent every TTL/10. */
enum { STREAMS_MAX = EL_RENEW_SLOW_DIVISOR };

/* The longest TTL that etcd grants, in seconds (lessor.go, maxLeaseTTL). */
static const int64_t TTL_MAX_S = 9000000000;

int64_t el_lease_new_id(void) {
  uint64_t id = 0;
  while (id == 0) {
    id = el_random() & INT64_MAX; /* with 0, etcd would choose an ID */
  }
  return (int64_t)id;
}

/* ---- grant and revoke ---- */

typedef struct lease_call {
  int64_t id;
  int64_t ttl_s; /* grant: as requested */
  int64_t sent_ms;
  el_lease_done done;
  void *arg;
} lease_call;

static lease_call *new_call(int64_t id, int64_t ttl_s, el_lease_done done,
                            void *arg) {
  lease_call *call = el_alloc(sizeof *call);
  *call = (lease_call){id, ttl_s, el_now_ms(), done, arg};
  return call;
}

/* Rounds up: etcd's TTLs are whole seconds. */
static int64_t seconds_of(int64_t ms) { return (ms + 999) / 1000; }

static void finish(lease_call *call, const el_lease_answer *answer) {
  call->done(call->arg, answer);
  free(call);
}

/* Returns whether an answer can have |header|. */
static bool is_header(const Etcd__ResponseHeader *header) {
  return header != NULL && el_is_revision(header->revision);
}

static void unreadable(el_error *err, const char *from, const char *what) {
  el_error_set(err, EL_PROTOCOL, "etcd %s: the answer to a %s cannot be read",
               from, what);
  err->is_definite = false;
}

/* Returns whether |ttl_s| is at least |requested_s|; if not, fills |err|. etcd grants at least the
 * TTL that was requested, and renews a lease for the TTL that it has granted (lessor.go). With a
 * shorter TTL, a lease could end before the lock delay that it must outlast. */
static bool is_enough(el_error *err, const char *from, int64_t ttl_s,
                      int64_t requested_s) {
  if (ttl_s >= requested_s) return true;
  el_error_set(
      err, EL_PROTOCOL,
      "etcd %s: a lease of %lld s was requested, and one of %lld s was "
      "granted; is this endpoint an etcd?",
      from, (long long)requested_s, (long long)ttl_s);
  err->is_definite = false;
  return false;
}

static void on_grant_answer(void *arg, const el_call_answer *rpc_answer) {
  lease_call *call = arg;
  el_lease_answer answer = {
      .err = rpc_answer->err, .sent_ms = call->sent_ms, .id = call->id};
  if (answer.err.code == EL_OK) {
    Etcd__LeaseGrantResponse *message = etcd__lease_grant_response__unpack(
        NULL, rpc_answer->len, rpc_answer->bytes);
    if (message == NULL || !is_header(message->header) ||
        message->id != call->id || message->ttl <= 0 ||
        message->ttl > TTL_MAX_S) {
      unreadable(&answer.err, rpc_answer->from, "LeaseGrant");
    } else if (is_enough(&answer.err, rpc_answer->from, message->ttl,
                         call->ttl_s)) {
      answer.ttl_ms = message->ttl * 1000;
      answer.term = message->header->raft_term;
      answer.rev = message->header->revision;
      answer.cluster_id = message->header->cluster_id;
      answer.member_id = message->header->member_id;
    }
    if (message != NULL) {
      etcd__lease_grant_response__free_unpacked(message, NULL);
    }
  }
  finish(call, &answer);
}

/* Returns the timeout of a lease call. It includes the time to connect, because a lease call,
 * normally a grant, may be the first on a connection. */
static int64_t timeout_ms(const el_auth *auth) {
  const el_channel *ch = el_auth_channel(auth);
  return el_channel_attempt_ms(ch) + el_channel_connecting_ms(ch);
}

void el_lease_grant(el_auth *auth, int64_t id, int64_t ttl_ms,
                    el_lease_done done, void *arg) {
  Etcd__LeaseGrantRequest request = ETCD__LEASE_GRANT_REQUEST__INIT;
  uint8_t bytes[32];
  request.id = id;
  request.ttl = seconds_of(ttl_ms);
  el_auth_call(auth,
               &(el_call_request){
                   .method = "/etcdserverpb.Lease/LeaseGrant",
                   .bytes = bytes,
                   .len = etcd__lease_grant_request__pack(&request, bytes),
                   .timeout_ms = timeout_ms(auth)},
               on_grant_answer, new_call(id, request.ttl, done, arg));
}

static void on_revoke_answer(void *arg, const el_call_answer *rpc_answer) {
  lease_call *call = arg;
  el_lease_answer answer = {
      .err = rpc_answer->err, .sent_ms = call->sent_ms, .id = call->id};
  finish(call, &answer);
}

void el_lease_revoke(el_auth *auth, int64_t id, el_lease_done done, void *arg) {
  Etcd__LeaseRevokeRequest request = ETCD__LEASE_REVOKE_REQUEST__INIT;
  uint8_t bytes[16];
  request.id = id;
  el_auth_call(auth,
               &(el_call_request){
                   .method = "/etcdserverpb.Lease/LeaseRevoke",
                   .bytes = bytes,
                   .len = etcd__lease_revoke_request__pack(&request, bytes),
                   .timeout_ms = timeout_ms(auth)},
               on_revoke_answer, new_call(id, 0, done, arg));
}

/* ---- time to live ---- */

typedef struct ttl_call {
  int64_t id;
  int64_t sent_ms;
  el_lease_keys_done done;
  void *arg;
} ttl_call;

static void read_time_to_live(const Etcd__LeaseTimeToLiveResponse *message,
                              el_lease_keys *to) {
  el_bytes *keys = el_alloc(message->n_keys * sizeof *keys);
  for (size_t i = 0; i < message->n_keys; i++) {
    keys[i] =
        (el_bytes){(const char *)message->keys[i].data, message->keys[i].len};
  }
  to->lease.ttl_ms = message->ttl > 0 ? message->ttl * 1000 : 0;
  to->lease.term = message->header->raft_term;
  to->lease.cluster_id = message->header->cluster_id;
  to->keys = keys;
  to->n = message->n_keys;
}

static void on_ttl_answer(void *arg, const el_call_answer *rpc_answer) {
  ttl_call *call = arg;
  Etcd__LeaseTimeToLiveResponse *message = NULL;
  el_lease_keys answer = {.lease = {.err = rpc_answer->err,
                                    .sent_ms = call->sent_ms,
                                    .id = call->id}};
  if (rpc_answer->err.code == EL_OK) {
    message = etcd__lease_time_to_live_response__unpack(NULL, rpc_answer->len,
                                                        rpc_answer->bytes);
    if (message == NULL || !is_header(message->header) ||
        message->id != call->id || message->ttl > TTL_MAX_S) {
      unreadable(&answer.lease.err, rpc_answer->from, "LeaseTimeToLive");
    } else {
      read_time_to_live(message, &answer);
    }
  }
  call->done(call->arg, &answer);
  free((void *)(uintptr_t)answer.keys);
  if (message != NULL) {
    etcd__lease_time_to_live_response__free_unpacked(message, NULL);
  }
  free(call);
}

void el_lease_time_to_live(el_auth *auth, int64_t id, el_lease_keys_done done,
                           void *arg) {
  Etcd__LeaseTimeToLiveRequest request = ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
  uint8_t bytes[16];
  ttl_call *call = el_alloc(sizeof *call);
  *call = (ttl_call){id, el_now_ms(), done, arg};
  request.id = id;
  request.keys = true;
  el_auth_call(
      auth,
      &(el_call_request){
          .method = "/etcdserverpb.Lease/LeaseTimeToLive",
          .bytes = bytes,
          .len = etcd__lease_time_to_live_request__pack(&request, bytes),
          .timeout_ms = timeout_ms(auth)},
      on_ttl_answer, call);
}

/* ---- the keepalives ---- */

/* A keepalive stream, with at most one renewal in flight: etcd handles the renewals of a stream one
 * after the other (v3rpc/lease.go), so a second one would wait for the first. */
typedef struct renewal_stream {
  el_keepalive *ka;
  el_stream *st;         /* NULL: opened when there is a token */
  unsigned token_number; /* of the token that |st| carries */
  /* when the renewal in flight was sent (el_now_ms); 0: the stream is idle */
  int64_t sent_ms;
  TAILQ_ENTRY(renewal_stream) link;
} renewal_stream;

struct el_keepalive {
  el_auth *auth;
  /* the idle one first, if there is one; then those that await an answer, the oldest renewal first,
   * and last the one that waits for a token, if there is one */
  TAILQ_HEAD(renewal_streams, renewal_stream) streams;
  int64_t sent_ms; /* when the last renewal was sent */
  /* when the latest renewal that was answered was sent */
  int64_t answered_sent_ms;
  int64_t id;    /* the lease that was renewed last */
  int64_t ttl_s; /* the TTL that was requested for that lease */
  /* since the last answer, a stream was refused: see el_keepalive_is_refused */
  bool was_refused;
  /* the number of the token that etcd has refused last; 0: none */
  unsigned refused_token;
  bool is_repeating; /* the last renewal was sent again, with a new token */
  el_lease_done done;
  void *arg;
  el_failover_listener listener;
  el_token_wait token; /* waits until a stream may be opened */
};

/* Forgets |it|, whose stream is closed, or has ended. */
static void forget(renewal_stream *it) {
  TAILQ_REMOVE(&it->ka->streams, it, link);
  free(it);
}

static void close_stream(renewal_stream *it) {
  if (it->st != NULL) el_stream_close(it->st);
  forget(it);
}

/* Tells whether a stream waits because the server allows no more of them. */
static bool is_refused(const el_keepalive *ka) {
  const renewal_stream *it;
  TAILQ_FOREACH(it, &ka->streams, link) {
    if (it->st != NULL && el_stream_is_refused(it->st)) return true;
  }
  return false;
}

/* Makes |it| the idle stream. If there is one already, closes |it|. */
static void keep_or_close(renewal_stream *it) {
  struct renewal_streams *streams = &it->ka->streams;
  if (TAILQ_FIRST(streams)->sent_ms == 0) {
    close_stream(it);
    return;
  }
  it->sent_ms = 0;
  TAILQ_REMOVE(streams, it, link);
  TAILQ_INSERT_HEAD(streams, it, link);
}

/* Closes all streams. If a renewal awaits an answer, reports |err| once, for all of them. */
static void fail_all(el_keepalive *ka, const el_error *err) {
  const renewal_stream *last = TAILQ_LAST(&ka->streams, renewal_streams);
  el_lease_answer answer = {.err = *err, .sent_ms = ka->sent_ms, .id = ka->id};
  bool is_awaited = last->sent_ms != 0;
  el_keepalive_reset(ka);
  if (is_awaited) {
    ka->done(ka->arg, &answer);
  }
}

static void read_renewal(const renewal_stream *it,
                         const Etcd__LeaseKeepAliveResponse *message,
                         el_lease_answer *to) {
  bool is_gone = message->ttl <= 0;
  if (is_gone || is_enough(&to->err, el_stream_address(it->st), message->ttl,
                           it->ka->ttl_s)) {
    to->ttl_ms = is_gone ? 0 : message->ttl * 1000;
    to->term = message->header->raft_term;
    to->rev = message->header->revision;
    to->cluster_id = message->header->cluster_id;
    to->member_id = message->header->member_id;
  }
}

static void on_keepalive_message(void *arg, const uint8_t *bytes, size_t len) {
  renewal_stream *it = arg;
  el_keepalive *ka = it->ka;
  el_lease_answer answer = {.sent_ms = it->sent_ms};
  Etcd__LeaseKeepAliveResponse *message =
      etcd__lease_keep_alive_response__unpack(NULL, len, bytes);
  if (message == NULL || !is_header(message->header) ||
      message->ttl > TTL_MAX_S) {
    unreadable(&answer.err, el_stream_address(it->st), "LeaseKeepAlive");
    answer.id = ka->id;
  } else {
    answer.id = message->id;
    read_renewal(it, message, &answer);
  }
  if (message != NULL) {
    etcd__lease_keep_alive_response__free_unpacked(message, NULL);
  }
  /* an answer that nobody awaits is ignored */
  if (it->sent_ms == 0 || answer.id != ka->id) return;
  ka->was_refused = ka->is_repeating = false;
  if (answer.err.code != EL_OK) {
    fail_all(ka, &answer.err);
    return;
  }
  if (answer.sent_ms > ka->answered_sent_ms)
    ka->answered_sent_ms = answer.sent_ms;
  keep_or_close(it);
  ka->done(ka->arg, &answer);
}

static void repeat(el_keepalive *ka);

/* Tells whether a renewal that was refused with the error |err| and token |number| is sent again
 * with another token. */
static bool may_repeat(const el_keepalive *ka, unsigned number,
                       const el_error *err) {
  return err->is_token_bad && !ka->is_repeating &&
         (!el_auth_is_ready(ka->auth) ||
          number != el_auth_token_number(ka->auth));
}

static void on_keepalive_ended(void *arg, const el_error *err) {
  renewal_stream *it = arg;
  el_keepalive *ka = it->ka;
  bool is_awaited = it->sent_ms > ka->answered_sent_ms;
  unsigned number = it->token_number;
  if (err->is_token_bad) ka->refused_token = number;
  el_auth_report(ka->auth, number, err);
  it->st = NULL;
  if (is_awaited && may_repeat(ka, number, err)) {
    repeat(ka);
  } else if (is_awaited) {
    fail_all(ka, err);
  } else {
    forget(it);
  }
}

/* Ends the awaited renewals with an error. The session then renews the lease at the new member. */
static void on_failover(el_failover_listener *listener, const el_error *cause) {
  el_keepalive *ka = EL_CONTAINER_OF(listener, el_keepalive, listener);
  el_error err;
  if (TAILQ_EMPTY(&ka->streams) || TAILQ_FIRST(&ka->streams)->st == NULL)
    return;
  el_error_set(&err, EL_UNAVAILABLE, "%s", cause->text);
  err.is_definite = false;
  err.is_retriable = true;
  err.has_other_member = el_channel_is_healthy(el_auth_channel(ka->auth));
  fail_all(ka, &err);
}

static void send_renewal(renewal_stream *it) {
  static const el_stream_events events = {on_keepalive_message,
                                          on_keepalive_ended};
  Etcd__LeaseKeepAliveRequest request = ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
  uint8_t bytes[16];
  if (it->st == NULL) {
    it->st = el_stream_open(el_auth_channel(it->ka->auth),
                            "/etcdserverpb.Lease/LeaseKeepAlive", &events, it);
    it->token_number = el_auth_token_number(it->ka->auth);
  }
  request.id = it->ka->id;
  el_stream_send(it->st, bytes,
                 etcd__lease_keep_alive_request__pack(&request, bytes));
  el_stream_await_answer(it->st);
}

static void on_token(el_token_wait *wait, const el_error *err) {
  el_keepalive *ka = EL_CONTAINER_OF(wait, el_keepalive, token);
  if (err->code != EL_OK) {
    fail_all(ka, err);
  } else {
    send_renewal(TAILQ_LAST(&ka->streams, renewal_streams));
  }
}

el_keepalive *el_keepalive_new(el_auth *auth, el_lease_done done, void *arg) {
  el_keepalive *ka = el_alloc(sizeof *ka);
  ka->auth = auth;
  TAILQ_INIT(&ka->streams);
  ka->done = done;
  ka->arg = arg;
  ka->listener.on_failover = on_failover;
  ka->token.done = on_token;
  el_channel_add_listener(el_auth_channel(auth), &ka->listener);
  return ka;
}

/* Closes the streams of renewals that are still not answered, although a later one was. */
static void close_late(el_keepalive *ka) {
  renewal_stream *it = TAILQ_FIRST(&ka->streams), *next;
  for (; it != NULL; it = next) {
    next = TAILQ_NEXT(it, link);
    if (it->sent_ms != 0 && it->sent_ms < ka->answered_sent_ms)
      close_stream(it);
  }
}

/* Closes the stream of the oldest renewal if as many as STREAMS_MAX await an answer. */
static void close_oldest(el_keepalive *ka) {
  renewal_stream *it, *oldest = NULL;
  int n = 0;
  TAILQ_FOREACH(it, &ka->streams, link) {
    if (it->sent_ms == 0) continue;
    if (n++ == 0) oldest = it;
  }
  if (n >= STREAMS_MAX) close_stream(oldest);
}

/* Returns the stream for the next renewal: the stream that waits for a token, else the idle stream,
 * else a new one. It is then the last of the list. NULL: the server allows no more streams. */
static renewal_stream *take_stream(el_keepalive *ka) {
  renewal_stream *it = TAILQ_LAST(&ka->streams, renewal_streams);
  if (it != NULL && it->st == NULL) return it;
  it = TAILQ_FIRST(&ka->streams);
  if (it == NULL || it->sent_ms != 0) {
    if (is_refused(ka)) return NULL;
    it = el_alloc(sizeof *it);
    it->ka = ka;
  } else {
    TAILQ_REMOVE(&ka->streams, it, link);
  }
  TAILQ_INSERT_TAIL(&ka->streams, it, link);
  return it;
}

/* Has the last renewal sent again with a new token, as soon as there is one. It counts from when it
 * was sent first. */
static void repeat(el_keepalive *ka) {
  renewal_stream *it;
  el_keepalive_reset(ka);
  it = take_stream(ka);
  if (it == NULL) return;
  ka->is_repeating = true;
  it->sent_ms = ka->sent_ms;
  if (el_auth_is_ready(ka->auth)) {
    send_renewal(it);
  } else {
    el_auth_await_token(ka->auth, &ka->token);
  }
}

/* Tells whether a stream may be opened now. An invalid token is used until etcd has refused it
 * for a keepalive: before 3.4.42, 3.5.28 and 3.6.9, etcd does not look at that token
 * (checkLeaseRenew), and the lease must not end while etcd computes the hash for the next token. */
static bool may_open(const el_keepalive *ka) {
  return el_auth_is_ready(ka->auth) ||
         (el_auth_has_token(ka->auth) &&
          el_auth_token_number(ka->auth) != ka->refused_token);
}

/* Closes the idle stream if its token is not the present one, which is valid: the server may refuse
 * a renewal with the old one. */
static void close_outdated(el_keepalive *ka) {
  renewal_stream *idle = TAILQ_FIRST(&ka->streams);
  if (idle != NULL && idle->sent_ms == 0 && el_auth_is_ready(ka->auth) &&
      idle->token_number != el_auth_token_number(ka->auth)) {
    close_stream(idle);
  }
}

void el_keepalive_send(el_keepalive *ka, int64_t id, int64_t ttl_ms,
                       int64_t now_ms) {
  renewal_stream *it;
  ka->id = id;
  ka->ttl_s = seconds_of(ttl_ms);
  ka->sent_ms = now_ms;
  ka->is_repeating = false;
  close_late(ka);
  close_oldest(ka);
  close_outdated(ka);
  it = take_stream(ka);
  if (it == NULL) return;
  it->sent_ms = now_ms;
  if (it->st == NULL && !may_open(ka)) {
    el_auth_await_token(ka->auth, &ka->token);
  } else {
    el_auth_cancel_wait(ka->auth, &ka->token);
    send_renewal(it);
  }
}

void el_keepalive_reset(el_keepalive *ka) {
  el_auth_cancel_wait(ka->auth, &ka->token);
  ka->was_refused = el_keepalive_is_refused(ka);
  while (!TAILQ_EMPTY(&ka->streams)) {
    close_stream(TAILQ_FIRST(&ka->streams));
  }
}

bool el_keepalive_awaits_token(const el_keepalive *ka) {
  return ka->token.is_waiting;
}

bool el_keepalive_is_refused(const el_keepalive *ka) {
  return ka->was_refused || is_refused(ka);
}

void el_keepalive_free(el_keepalive *ka) {
  el_keepalive_reset(ka);
  free(ka);
}
