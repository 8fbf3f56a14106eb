/* channel: the way to a cluster. */
#include "net/channel.h"

#include <grpc/grpc_security.h>
#include <grpc/support/sync.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"
#include "base/secret.h"
#include "net/diagnosis.h"
#include "net/net_int.h"

/* How often a member that can't be reached is looked at more closely, and how
 * long what was found is believed. */
enum { DIAGNOSE_EVERY_MS = 2000, BELIEVED_MS = 5000 };

/* How long connecting may take; a crowd of handshakes needs its time. gRPC
 * can't be shut down earlier than that under way, so no longer than needed. */
enum { CONNECT_MS = 1000, CONNECT_TLS_MS = 2500 };

/* The most bytes of a message that is accepted: about what comes before a member counts as silent.
 * It is room for 20 of the largest values, for etcd takes 1.5 MiB in a request by default; for 1000
 * keys of user data in a page of client:queues, and for 100,000 entries in a queue. A watch tells of
 * the changes of one request at a time, and of several only if the member lags behind; if its
 * message is too large the stream ends, and each watch is created anew, upon which its owner reads. */
enum { MESSAGE_BYTES_MAX = 32 << 20 };

/* A member that failed is asked again after this; the others at once. A failed
 * connection is given up after RENEW_MS, and the next call makes another. */
enum { FAILED_FOR_MS = 300, RENEW_MS = 250 };

/* ---- the gate ---- */

/* A gate forbids a gRPC channel to begin attempts to connect. gRPC shows each new socket to
 * a "socket mutator" before it connects the socket. If the mutator returns false, the attempt
 * fails. */
typedef struct grpc_socket_mutator socket_mutator;

/* gRPC documents GRPC_ARG_SOCKET_MUTATOR, but installs no header with this type. The
 * first three functions are those of gRPC 1.0. A later version has added the fourth, which
 * replaces the first unless it is NULL. */
typedef struct mutator_vtable {
  bool (*mutate_fd)(int fd, socket_mutator *gate);
  int (*compare)(socket_mutator *a, socket_mutator *b);
  void (*destroy)(socket_mutator *gate);
  bool (*mutate_fd_2)(const void *info, socket_mutator *gate);
} mutator_vtable;

struct grpc_socket_mutator {
  const mutator_vtable *vtable; /* gRPC reads these two */
  gpr_refcount refs;
  atomic_bool closed;
  atomic_bool has_attempt; /* that may have a connection; may have ended */
};

static bool let_pass(int fd, socket_mutator *gate) {
  (void)fd;
  atomic_store(&gate->has_attempt, true); /* before the gate is seen open */
  if (!atomic_load(&gate->closed)) return true;
  atomic_store(&gate->has_attempt, false);
  return false;
}

static int compare_gates(socket_mutator *a, socket_mutator *b) {
  return (a > b) - (a < b);
}

static void destroy_gate(socket_mutator *gate) { free(gate); }

/* Returns an open gate. */
static socket_mutator *gate_new(void) {
  static const mutator_vtable vtable = {let_pass, compare_gates, destroy_gate,
                                        NULL};
  socket_mutator *gate = el_alloc(sizeof *gate);
  gate->vtable = &vtable;
  gpr_ref_init(&gate->refs, 1);
  return gate;
}

/* Gives |gate| up; its channel may still use it. */
static void gate_unref(socket_mutator *gate) {
  if (gpr_unref(&gate->refs)) destroy_gate(gate);
}

static void *copy_arg(void *gate) {
  gpr_ref(&((socket_mutator *)gate)->refs);
  return gate;
}

static void destroy_arg(void *gate) { gate_unref(gate); }

static int compare_args(void *a, void *b) { return compare_gates(a, b); }

/* Returns the argument by which a channel, when it is created, gets |gate|. The argument
 * is valid as long as |gate|. */
static grpc_arg gate_arg(socket_mutator *gate) {
  static const grpc_arg_pointer_vtable vtable = {copy_arg, destroy_arg,
                                                 compare_args};
  return (grpc_arg){.type = GRPC_ARG_POINTER,
                    .key = (char *)GRPC_ARG_SOCKET_MUTATOR,
                    .value.pointer = {gate, &vtable}};
}

/* gate_close makes each attempt to connect that begins from now on fail, before it has a
 * connection. */
static void gate_close(socket_mutator *gate) {
  atomic_store(&gate->closed, true);
}

/* Returns whether an attempt that began before the gate was closed may be under way. The
 * attempts of a channel follow one another, so there is none after the gate has made one
 * fail. */
static bool gate_may_be_connecting(const socket_mutator *gate) {
  return atomic_load(&gate->has_attempt);
}

/* ---- types ---- */

typedef struct peer {
  el_channel *ch;
  el_endpoint endpoint;
  grpc_channel *grpc;      /* NULL: the next call makes it */
  socket_mutator *gate;    /* of |grpc| */
  el_timer renew;          /* looks at a connection that has failed */
  int64_t failed_until;    /* not worth asking before */
  el_diagnosis *diagnosis; /* under way */
  bool outdated;           /* it asks with what we showed and trusted before */
  int64_t diagnosed_ms;    /* when the last one began */
  int64_t believed_until;
  el_error verdict; /* what it found */
  STAILQ_HEAD(, el_reason_wait) curious;
} peer;

struct el_channel {
  el_loop *loop;
  peer *members;
  size_t n;
  size_t at;          /* the member in use */
  char *token;        /* NULL: none */
  el_tls *tls;        /* NULL: no member wants it */
  el_silence silence; /* with the member in use */
  TAILQ_HEAD(, el_move) moves;
};

/* ---- one member's connection ---- */

static grpc_channel_credentials *tls_credentials(const el_tls *tls) {
  el_tls_texts texts = el_tls_get_texts(tls);
  grpc_ssl_pem_key_cert_pair pair = {.private_key = texts.key,
                                     .cert_chain = texts.cert};
  return grpc_ssl_credentials_create_ex(
      texts.cas, texts.cert != NULL ? &pair : NULL, NULL, NULL);
}

static int connect_ms_of(const el_endpoint *endpoint) {
  return endpoint->tls ? CONNECT_TLS_MS : CONNECT_MS;
}

static grpc_channel *open_channel(const el_endpoint *endpoint,
                                  const el_tls *tls, socket_mutator *gate) {
  int connect_ms = connect_ms_of(endpoint);
#define INT_ARG(name, number) \
  {.type = GRPC_ARG_INTEGER, .key = (char *)(name), .value.integer = (number)}
  grpc_arg list[] = {
      /* A lock service inside a cluster isn't behind a web proxy. */
      INT_ARG(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
      /* Clients of one process share no connection and no back-off. */
      INT_ARG(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
      /* We repeat ourselves. gRPC's own retrying aborts the process when a
       * member says goodbye while a call is on its way. */
      INT_ARG(GRPC_ARG_ENABLE_RETRIES, 0),
      /* gRPC's 20 s to connect outlive every lease; the "min reconnect
       * backoff" is in truth the time to connect, if the others aren't longer.
       * It never comes to a reconnection: see on_renew. */
      INT_ARG(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, connect_ms),
      INT_ARG(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, connect_ms),
      INT_ARG(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, connect_ms),
      /* Find half-open connections. etcd punishes pings more frequent than
       * 5 s; without 0 here the probing of an idle watch stops after two. */
      INT_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, 6000),
      INT_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000),
      INT_ARG(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0),
      INT_ARG(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
      INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, MESSAGE_BYTES_MAX),
      gate_arg(gate),
      /* Last, because it isn't always used: whom the certificate must name. */
      {.type = GRPC_ARG_STRING, .key = (char *)GRPC_ARG_DEFAULT_AUTHORITY},
  };
#undef INT_ARG
  grpc_channel_args args = {.num_args = sizeof list / sizeof *list - 1,
                            .args = list};
  grpc_channel_credentials *creds =
      endpoint->tls ? tls_credentials(tls) : grpc_insecure_credentials_create();
  grpc_channel *channel;
  if (endpoint->tls && el_tls_server_name(tls) != NULL) {
    list[args.num_args++].value.string = (char *)el_tls_server_name(tls);
  }
  channel = grpc_channel_create(endpoint->target, creds, &args);
  grpc_channel_credentials_release(creds);
  return channel;
}

/* ---- the end of a connection ---- */

/* gRPC 1.51 never closes a connection whose channel is destroyed after the TCP
 * connection and before the peer's SETTINGS, if these still come: in
 * Subchannel::OnConnectingFinishedLocked it drops the finished connection without a
 * destructor. So a channel is destroyed when no attempt to connect can be under way. */
typedef struct remains {
  grpc_channel *grpc;
  socket_mutator *gate;
  int64_t until_ms; /* every attempt has ended, by its own deadline */
} remains;

/* may_be_connecting returns whether an attempt that began before the gate was closed may be
 * under way. gRPC sets the state CONNECTING before the first attempt, and keeps
 * TRANSIENT_FAILURE during the attempts that follow a failed one. */
static bool may_be_connecting(const remains *left) {
  grpc_connectivity_state state =
      grpc_channel_check_connectivity_state(left->grpc, 0);
  return (state == GRPC_CHANNEL_CONNECTING ||
          state == GRPC_CHANNEL_TRANSIENT_FAILURE) &&
         gate_may_be_connecting(left->gate) && el_now_ms() < left->until_ms;
}

static bool look_at_remains(void *arg) {
  remains *left = arg;
  if (may_be_connecting(left)) return true;
  grpc_channel_destroy(left->grpc);
  gate_unref(left->gate);
  free(left);
  return false;
}

/* The next call opens a new connection. */
static void drop_connection(peer *member) {
  remains *left;
  if (member->grpc == NULL) return;
  left = el_alloc(sizeof *left);
  *left = (remains){member->grpc, member->gate,
                    el_now_ms() + 2 * connect_ms_of(&member->endpoint)};
  member->grpc = NULL;
  member->gate = NULL;
  gate_close(left->gate);
  if (gate_may_be_connecting(left->gate)) {
    /* A pause between two attempts ends now, and the gate refuses the next one. */
    grpc_channel_reset_connect_backoff(left->grpc);
  }
  if (look_at_remains(left)) {
    el_loop_linger(member->ch->loop, look_at_remains, left);
  }
}

/* A channel that failed would connect again by itself, and nobody can see when:
 * its state stays that of the failure. A new one, which the next call makes,
 * tells. */
static void on_renew(el_timer *timer) {
  peer *member = EL_OF(timer, peer, renew);
  if (member->grpc == NULL) return;
  switch (grpc_channel_check_connectivity_state(member->grpc, 0)) {
    case GRPC_CHANNEL_TRANSIENT_FAILURE:
      drop_connection(member);
      return;
    case GRPC_CHANNEL_CONNECTING:
      el_timers_set(el_loop_timers(member->ch->loop), timer,
                    el_now_ms() + RENEW_MS);
      return;
    default:
      return;
  }
}

static void renew_soon(peer *member) {
  if (member->renew.slot == 0) {
    el_timers_set(el_loop_timers(member->ch->loop), &member->renew,
                  el_now_ms() + RENEW_MS);
  }
}

/* ---- the members ---- */

static void on_silent(el_silence *silence) {
  el_channel *ch = EL_OF(silence, el_channel, silence);
  el_error silent;
  el_error_set(&silent, EL_UNAVAILABLE, "etcd %s: no answer in time",
               el_channel_address(ch, ch->at));
  el_channel_leave(ch, ch->at, &silent);
}

el_channel *el_channel_new(el_loop *loop, const el_endpoint *endpoints,
                           size_t n, el_tls *tls) {
  el_channel *ch = el_alloc(sizeof *ch);
  ch->tls = tls;
  ch->loop = loop;
  ch->members = el_alloc(n * sizeof *ch->members);
  ch->n = n;
  TAILQ_INIT(&ch->moves);
  el_silence_init(&ch->silence, el_loop_timers(loop), on_silent);
  for (size_t i = 0; i < n; i++) {
    ch->members[i].ch = ch;
    ch->members[i].renew.due = on_renew;
    ch->members[i].endpoint = endpoints[i];
    STAILQ_INIT(&ch->members[i].curious);
  }
  return ch;
}

/* The next calls open new connections. */
static void close_members(el_channel *ch) {
  for (size_t i = 0; i < ch->n; i++) {
    el_timers_stop(el_loop_timers(ch->loop), &ch->members[i].renew);
    drop_connection(&ch->members[i]);
  }
}

static void tell_reason(peer *member, const el_error *reason) {
  el_reason_wait *wait;
  while ((wait = STAILQ_FIRST(&member->curious)) != NULL) {
    STAILQ_REMOVE_HEAD(&member->curious, link);
    wait->done(wait, reason);
  }
}

void el_channel_set_token(el_channel *ch, const char *token) {
  el_secret_free(ch->token);
  ch->token = token != NULL ? el_strndup(token, strlen(token)) : NULL;
}

const char *el_channel_token(const el_channel *ch) { return ch->token; }

void el_channel_free(el_channel *ch) {
  el_channel_set_token(ch, NULL);
  el_silence_destroy(&ch->silence);
  close_members(ch);
  for (size_t i = 0; i < ch->n; i++) {
    if (ch->members[i].diagnosis != NULL) {
      el_diagnosis_stop(ch->members[i].diagnosis);
    }
    tell_reason(&ch->members[i], NULL);
  }
  if (ch->tls != NULL) {
    el_tls_unref(ch->tls);
  }
  free(ch->members);
  free(ch);
}

const char *el_channel_address(const el_channel *ch, size_t member) {
  return ch->members[member].endpoint.address;
}

el_transport el_channel_transport(const el_channel *ch, size_t member) {
  return el_endpoint_transport(&ch->members[member].endpoint);
}

size_t el_channel_member(const el_channel *ch) { return ch->at; }

size_t el_channel_count(const el_channel *ch) { return ch->n; }

el_loop *el_channel_loop(const el_channel *ch) { return ch->loop; }

grpc_call *el_channel_call(el_channel *ch, size_t member, const char *method,
                           gpr_timespec deadline) {
  peer *at = &ch->members[member];
  grpc_slice name = grpc_slice_from_copied_string(method);
  grpc_call *call;
  if (at->grpc == NULL) {
    at->gate = gate_new();
    at->grpc = open_channel(&at->endpoint, ch->tls, at->gate);
  }
  call = grpc_channel_create_call(at->grpc, NULL, GRPC_PROPAGATE_DEFAULTS,
                                  el_loop_queue(ch->loop), name, NULL, deadline,
                                  NULL);
  grpc_slice_unref(name);
  return call;
}

void el_channel_refused(const el_channel *ch, size_t member, grpc_call_error rc,
                        el_error *err) {
  el_error_set(err, EL_INVALID,
               "etcd %s: gRPC has refused to send the request: %s",
               el_channel_address(ch, member), grpc_call_error_to_string(rc));
}

/* ---- moving on ---- */

void el_channel_add_move(el_channel *ch, el_move *move) {
  TAILQ_INSERT_TAIL(&ch->moves, move, link);
}

void el_channel_leave(el_channel *ch, size_t member, const el_error *why) {
  el_move *move;
  if (member != ch->at || ch->n == 1) return;
  ch->at = (ch->at + 1) % ch->n;
  TAILQ_FOREACH(move, &ch->moves, link) { move->moved(move, why); }
}

bool el_channel_is_fresh(const el_channel *ch) {
  return ch->members[ch->at].failed_until <= el_now_ms();
}

void el_channel_asked(el_channel *ch, el_asked *asked) {
  el_silence_sent(&ch->silence, asked);
}

void el_channel_ended(el_channel *ch, el_asked *asked, bool answered) {
  el_silence_ended(&ch->silence, asked, answered);
}

/* ---- why a member can't be reached ---- */

static void on_diagnosed(void *arg, bool found, const el_error *err) {
  peer *member = arg;
  member->diagnosis = NULL;
  found = found && !member->outdated;
  member->outdated = false;
  if (found) {
    member->verdict = *err;
    member->believed_until = el_now_ms() + BELIEVED_MS;
  }
  tell_reason(member, found ? err : NULL);
}

/* Connections fail for reasons that gRPC doesn't tell: ask OpenSSL. */
static void diagnose(peer *member) {
  int64_t now = el_now_ms();
  if (member->diagnosis != NULL || member->endpoint.path ||
      (member->diagnosed_ms != 0 &&
       now < member->diagnosed_ms + DIAGNOSE_EVERY_MS)) {
    return;
  }
  member->diagnosed_ms = now;
  member->diagnosis = el_diagnosis_start(
      member->ch->loop, member->endpoint.tls ? member->ch->tls : NULL,
      member->endpoint.address, on_diagnosed, member);
}

/* Is there no member left that might work? */
static bool is_hopeless(const el_channel *ch) {
  int64_t now = el_now_ms();
  for (size_t i = 0; i < ch->n; i++) {
    if (ch->members[i].believed_until <= now) return false;
  }
  return true;
}

/* What we show and trust has changed: what was found before counts no more. */
static void start_anew(el_channel *ch) {
  close_members(ch);
  for (size_t i = 0; i < ch->n; i++) {
    ch->members[i].believed_until = ch->members[i].diagnosed_ms = 0;
    ch->members[i].outdated = ch->members[i].diagnosis != NULL;
  }
}

static void explain(el_channel *ch, peer *member, el_error *err) {
  if (!err->connection) return; /* etcd's own words are believed */
  if (member->believed_until > el_now_ms()) {
    /* It says why there is no connection, and not what became of a request that left on
     * one that broke. */
    bool definite = err->unsent;
    *err = member->verdict;
    err->definite = err->unsent = definite;
    err->retriable = !is_hopeless(ch);
  } else {
    diagnose(member);
  }
}

void el_channel_note(el_channel *ch, size_t member, el_error *err) {
  peer *asked = &ch->members[member];
  if (err->code == EL_OK) {
    asked->believed_until = asked->failed_until = 0;
    return;
  }
  if (err->code != EL_UNAVAILABLE && err->code != EL_PROTOCOL) return;
  renew_soon(asked);
  if (ch->tls != NULL && err->connection && el_tls_reload(ch->tls)) {
    start_anew(ch);
  }
  explain(ch, asked, err);
  asked->failed_until = el_now_ms() + FAILED_FOR_MS;
  el_channel_leave(ch, member, err);
  err->elsewhere = el_channel_is_fresh(ch);
}

bool el_channel_await_reason(el_channel *ch, size_t member,
                             el_reason_wait *wait) {
  peer *asked = &ch->members[member];
  if (asked->diagnosis == NULL) return false;
  STAILQ_INSERT_TAIL(&asked->curious, wait, link);
  return true;
}
