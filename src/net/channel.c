/* channel: the connections of a client to the members of a cluster. */
#include "net/channel.h"

#if __has_include(<grpc/credentials.h>)
#include <grpc/credentials.h> /* what gRPC 1.51 declares in grpc_security.h */
#endif
#include <grpc/grpc_security.h>
#include <grpc/support/sync.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/times.h"
#include "net/diagnosis.h"
#include "net/net_int.h"

/* The size limit of a message from etcd, 32 MiB. It is enough for 20 of the largest values (etcd
 * accepts 1.5 MiB in a request by default), for 1000 keys of user data in a page of client:queues,
 * and for 100,000 entries in a queue. A watch message holds the changes of one request, or of
 * several if the member lags behind. If a watch message is too large, the stream ends, and each
 * watch is created anew. The owner of a watch then reads what it may have missed. */
enum { MESSAGE_BYTES_MAX = 32 << 20 };

/* The limit of the memory, in bytes, for what the members have sent of answers that are not
 * complete: four of the largest messages. gRPC compares MESSAGE_BYTES_MAX with whole messages only,
 * and would store a message without an end. At this limit it ends calls, one after the other, with
 * "Buffers full", which base/error.c translates. */
enum { RECEIVED_BYTES_MAX = 4 * MESSAGE_BYTES_MAX };

typedef struct socket_mutator socket_mutator;

typedef struct member_state {
  el_channel *ch;
  el_endpoint endpoint;
  /* what the calls name as the host; with TLS, etcd's certificate must contain it */
  grpc_slice authority;
  grpc_channel *grpc;          /* NULL: the next call creates it */
  socket_mutator *mutator;     /* the socket mutator of |grpc| */
  int dns_ms, connect_ms;      /* the time limits of its attempts to connect */
  int64_t connecting_since_ms; /* when |grpc| was created; 0: connected */
  el_timer recreate;           /* checks |grpc| after a failed call */
  int64_t failed_until_ms;     /* by el_now_ms; unhealthy until then */
  int64_t heard_ms;            /* the last sign of life (el_now_ms); 0: none */
  /* when it was last tried in vain (el_now_ms): it was silent or late, or could not be connected
   * to; 0: never */
  int64_t vain_ms;
  /* its last keepalive to the present leader was late */
  bool is_renewing_late;
  el_diagnosis *diagnosis; /* under way; NULL: none */
  /* |diagnosis| began before the certificates were replaced */
  bool is_diagnosis_stale;
  /* el_now_ms at the start of the last diagnosis; 0: none */
  int64_t diagnosed_ms;
  int64_t cause_until_ms; /* by el_now_ms; |cause| is reported until then */
  /* why connections fail; the last diagnosis found it */
  el_error cause;
  STAILQ_HEAD(, el_diagnosis_wait) waits;
} member_state;

struct el_channel {
  el_loop *loop;
  member_state *members;
  size_t n;
  size_t current;   /* the member in use */
  bool is_doubtful; /* see el_channel_is_doubtful */
  size_t left;      /* see el_channel_left_member */
  /* the term in which el_channel_saw_leader last called the client back */
  uint64_t called_term;
  char *token;      /* NULL: none */
  el_tls *tls;      /* NULL: no member uses TLS */
  uint64_t term;    /* the largest raft term that an answer had */
  bool is_dns_slow; /* the next attempt waits longer for an address */
  el_health health; /* of the member in use */
  /* RECEIVED_BYTES_MAX, for the connections to all members */
  grpc_resource_quota *quota;
  TAILQ_HEAD(, el_failover_listener) listeners;
};

/* ---- socket mutator ---- */

/* gRPC shows each new socket to a "socket mutator" before it connects the socket. If the mutator
 * returns false, the attempt to connect fails. Before this file destroys a channel, it uses the
 * mutator to make all new attempts of the channel fail.
 *
 * gRPC documents GRPC_ARG_SOCKET_MUTATOR, but installs no header with the type below. The fourth
 * function is newer than the others, and replaces the first one unless it is NULL. The type is the
 * same in gRPC 1.51 and 1.83, with which the specs run. */
typedef struct mutator_vtable {
  bool (*mutate_fd)(int fd, socket_mutator *mutator);
  int (*compare)(socket_mutator *a, socket_mutator *b);
  void (*destroy)(socket_mutator *mutator);
  bool (*mutate_fd_2)(const void *info, socket_mutator *mutator);
} mutator_vtable;

struct socket_mutator {
  const mutator_vtable *vtable; /* gRPC also uses this field and |refs| */
  gpr_refcount refs;
  /* The fields below are atomic, because gRPC may call mutate_fd on a thread of its own. */
  atomic_bool blocks; /* new attempts to connect fail */
  /* when the last attempt that was allowed began (el_now_ms); 0: none. It may be under way. */
  _Atomic int64_t attempt_ms;
};

/* gRPC has set TCP_USER_TIMEOUT to EL_BUSY_MS. A Unix socket has no such option. */
static void set_user_timeout(int fd) {
  int ms = EL_USER_TIMEOUT_MS;
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static bool mutate_fd(int fd, socket_mutator *mutator) {
  set_user_timeout(fd);
  /* The order matters. This function sets |attempt_ms| before it reads |blocks|, and drop_channel
   * sets |blocks| before it reads |attempt_ms|. So at least one of the two threads sees what the
   * other one has set. */
  atomic_store(&mutator->attempt_ms, el_now_ms());
  if (!atomic_load(&mutator->blocks)) return true;
  /* A channel of gRPC 1.51 makes one attempt after the other, so its previous attempt has ended. */
  atomic_store(&mutator->attempt_ms, 0);
  return false;
}

static int compare_mutators(socket_mutator *a, socket_mutator *b) {
  return (a > b) - (a < b);
}

static void destroy_mutator(socket_mutator *mutator) { free(mutator); }

static socket_mutator *new_mutator(void) {
  static const mutator_vtable vtable = {mutate_fd, compare_mutators,
                                        destroy_mutator, NULL};
  socket_mutator *mutator = el_alloc(sizeof *mutator);
  mutator->vtable = &vtable;
  gpr_ref_init(&mutator->refs, 1);
  return mutator;
}

static void unref_mutator(socket_mutator *mutator) {
  if (gpr_unref(&mutator->refs)) destroy_mutator(mutator);
}

static void *copy_arg(void *mutator) {
  gpr_ref(&((socket_mutator *)mutator)->refs);
  return mutator;
}

static void destroy_arg(void *mutator) { unref_mutator(mutator); }

static int compare_args(void *a, void *b) { return compare_mutators(a, b); }

/* Returns the channel argument that passes |mutator| to gRPC. It is valid as long as |mutator|. */
static grpc_arg mutator_arg(socket_mutator *mutator) {
  static const grpc_arg_pointer_vtable vtable = {copy_arg, destroy_arg,
                                                 compare_args};
  return (grpc_arg){.type = GRPC_ARG_POINTER,
                    .key = (char *)GRPC_ARG_SOCKET_MUTATOR,
                    .value.pointer = {mutator, &vtable}};
}

/* ---- gRPC channels ---- */

static grpc_channel_credentials *tls_credentials(const el_tls *tls) {
  el_tls_texts texts = el_tls_get_texts(tls);
  grpc_ssl_pem_key_cert_pair pair = {.private_key = texts.key,
                                     .cert_chain = texts.cert};
  return grpc_ssl_credentials_create_ex(
      texts.cas, texts.cert != NULL ? &pair : NULL, NULL, NULL);
}

static int connect_timeout_ms(const member_state *at) {
  int64_t limit =
      el_patience_ms(&at->ch->health.patience) *
      (at->endpoint.is_tls ? EL_CONNECT_TLS_ANSWERS : EL_CONNECT_ANSWERS);
  return (int)(limit < EL_CONNECT_MOST_MS ? limit : EL_CONNECT_MOST_MS);
}

static const char *authority_of(const el_endpoint *endpoint,
                                const el_tls *tls) {
  const char *name = endpoint->is_tls ? el_tls_server_name(tls) : NULL;
  if (name != NULL) return name;
  return endpoint->is_unix ? "localhost" : endpoint->address;
}

static grpc_channel *create_channel(const el_endpoint *endpoint,
                                    const el_tls *tls,
                                    grpc_resource_quota *quota,
                                    socket_mutator *mutator, int connect_ms,
                                    int dns_ms) {
  int backoff_ms = connect_ms / 6 * 5;
#define INT_ARG(name, number) \
  {.type = GRPC_ARG_INTEGER, .key = (char *)(name), .value.integer = (number)}
  grpc_arg list[] = {
      /* Ignores http_proxy: a lock service inside a cluster is not behind a web proxy. */
      INT_ARG(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
      /* Clients of one process share no connection and no backoff. */
      INT_ARG(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
      /* etcdlock retries by itself. With gRPC's retries, gRPC would abort the process if a member
       * sends GOAWAY while a call is being sent. */
      INT_ARG(GRPC_ARG_ENABLE_RETRIES, 0),
      /* Each filter costs time in each call. etcd does not compress its answers, and
       * el_channel_new_call names the authority. */
      INT_ARG(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
      INT_ARG(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
      INT_ARG(GRPC_ARG_DISABLE_CLIENT_AUTHORITY_FILTER, 1),
      /* By default gRPC tries to connect for 20 s, which is longer than the default TTL. The "min
       * reconnect backoff" is in fact the time limit of an attempt, unless the backoff is longer.
       * After the first attempt, gRPC changes the backoff at random by up to a fifth, up or down,
       * so 5/6 of the limit never exceed it. The backoff counts from the start of an attempt.
       * on_recreate drops the channel about EL_FAILED_MS after a call has failed. So gRPC makes a
       * second attempt only if the backoff ends before that. */
      INT_ARG(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, backoff_ms),
      INT_ARG(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, connect_ms),
      INT_ARG(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, backoff_ms),
      /* These four, and set_user_timeout, detect half-open connections.
       * HTTP2_MAX_PINGS_WITHOUT_DATA is 0 (no limit), because by default gRPC stops after two pings
       * on an idle watch stream. */
      INT_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, EL_PING_EVERY_MS),
      INT_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, EL_BUSY_MS),
      INT_ARG(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0),
      INT_ARG(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
      INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, MESSAGE_BYTES_MAX),
      /* The time limit of a name server in one attempt to connect; by default 120 s. In one
       * attempt, gRPC repeats its query after 5 s, 11 s and 20 s. The next attempt asks at once. */
      INT_ARG(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, dns_ms),
      {.type = GRPC_ARG_POINTER,
       .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
       .value.pointer = {quota, grpc_resource_quota_arg_vtable()}},
      mutator_arg(mutator),
      /* The name that etcd's certificate must contain. */
      {.type = GRPC_ARG_STRING,
       .key = (char *)GRPC_ARG_DEFAULT_AUTHORITY,
       .value.string = (char *)authority_of(endpoint, tls)},
  };
#undef INT_ARG
  grpc_channel_args args = {.num_args = sizeof list / sizeof *list,
                            .args = list};
  grpc_channel_credentials *creds = endpoint->is_tls
                                        ? tls_credentials(tls)
                                        : grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(endpoint->target, creds, &args);
  grpc_channel_credentials_release(creds);
  return channel;
}

/* A channel that is about to be destroyed. It is destroyed only when no attempt to connect can be
 * under way, because otherwise gRPC 1.51 may never close the connection. This happens if the
 * channel is destroyed after the TCP connection is established, but before the peer's SETTINGS
 * frame has come. If the frame comes later, Subchannel::OnConnectingFinishedLocked drops the
 * finished connection without a destructor. */
typedef struct closing_channel {
  grpc_channel *grpc;
  socket_mutator *mutator; /* blocks new attempts */
  int connect_ms;          /* the time limit of an attempt */
} closing_channel;

/* Returns whether an attempt of the channel to connect may be under way. The state of the channel
 * does not tell it exactly: gRPC sets CONNECTING before the first attempt, but keeps
 * TRANSIENT_FAILURE during the attempts after a failed one. */
static bool may_be_connecting(const closing_channel *closing) {
  grpc_connectivity_state state =
      grpc_channel_check_connectivity_state(closing->grpc, 0);
  int64_t begun_ms = atomic_load(&closing->mutator->attempt_ms);
  return (state == GRPC_CHANNEL_CONNECTING ||
          state == GRPC_CHANNEL_TRANSIENT_FAILURE) &&
         begun_ms != 0 &&
         el_now_ms() < begun_ms + closing->connect_ms + EL_CONNECT_MARGIN_MS;
}

static bool try_free_channel(void *arg) {
  closing_channel *closing = arg;
  if (may_be_connecting(closing)) return false;
  grpc_channel_destroy(closing->grpc);
  unref_mutator(closing->mutator);
  free(closing);
  return true;
}

/* Closes the connection to the member |at|. The next call to the member opens a new one. */
static void drop_channel(member_state *at) {
  closing_channel *closing;
  if (at->grpc == NULL) return;
  closing = el_alloc(sizeof *closing);
  *closing = (closing_channel){at->grpc, at->mutator, at->connect_ms};
  at->grpc = NULL;
  at->mutator = NULL;
  atomic_store(&closing->mutator->blocks, true);
  if (atomic_load(&closing->mutator->attempt_ms) != 0) {
    /* If gRPC pauses between two attempts, this ends the pause: the next attempt starts now, and
     * the mutator makes it fail. */
    grpc_channel_reset_connect_backoff(closing->grpc);
  }
  if (!try_free_channel(closing)) {
    el_loop_defer_free(at->ch->loop, try_free_channel, closing);
  }
}

/* Tells whether the attempt to connect took longer than an answer may take. A refused connection
 * takes less, and says nothing about how slow the other members are. */
static bool took_long(const member_state *at) {
  return at->connecting_since_ms != 0 &&
         el_now_ms() >=
             at->connecting_since_ms + el_health_limit_ms(&at->ch->health);
}

/* Tells whether gRPC has found an address of the member, and so has tried to connect to it. */
static bool has_address(const member_state *at) {
  return atomic_load(&at->mutator->attempt_ms) != 0;
}

/* If no address was found in time, gives the next attempt the other limit, EL_NAME_MS or
 * EL_NAME_LONG_MS. */
static void note_dns(const member_state *at) {
  if (!has_address(at)) at->ch->is_dns_slow = at->dns_ms == EL_NAME_MS;
}

static bool is_in_state(const member_state *at, grpc_connectivity_state state) {
  return at->grpc != NULL &&
         grpc_channel_check_connectivity_state(at->grpc, 0) == state;
}

static bool is_connecting(const member_state *at) {
  return is_in_state(at, GRPC_CHANNEL_CONNECTING);
}

/* Tells whether the member was tried in vain and has shown no sign of life since. A connection that
 * has opened is such a sign, too. */
static bool is_vain(const member_state *at) {
  bool has_opened =
      at->connecting_since_ms != 0 && is_in_state(at, GRPC_CHANNEL_READY);
  return at->vain_ms != 0 && at->vain_ms >= at->heard_ms && !has_opened;
}

/* Tells whether the member was tried in vain after the last sign of life of any member. */
static bool is_tried(const member_state *at) {
  const el_channel *ch = at->ch;
  for (size_t i = 0; i < ch->n; i++) {
    if (ch->members[i].heard_ms > at->vain_ms) return false;
  }
  return is_vain(at);
}

/* Doubles the time for an answer, unless a member is left to try: a request to that one helps more
 * than a long wait. */
static void lengthen_patience(el_channel *ch) {
  for (size_t i = 0; i < ch->n; i++) {
    if (!is_tried(&ch->members[i])) return;
  }
  el_patience_expired(&ch->health.patience);
}

/* Destroys the member's gRPC channel if it has failed to connect; the next call creates a new one.
 * gRPC would connect again by itself, but at a time that cannot be observed, because the state of
 * the channel remains TRANSIENT_FAILURE. The first attempt of a new channel can be observed: its
 * state is CONNECTING. */
static void on_recreate(el_timer *timer) {
  member_state *at = EL_CONTAINER_OF(timer, member_state, recreate);
  if (at->grpc == NULL) return;
  switch (grpc_channel_check_connectivity_state(at->grpc, 0)) {
    case GRPC_CHANNEL_TRANSIENT_FAILURE:
      note_dns(at);
      at->vain_ms = el_now_ms();
      /* If the time for an answer doubles, the next attempt can fail by itself, and tell the cause,
       * before calls go on to the next member. */
      if (took_long(at)) lengthen_patience(at->ch);
      drop_channel(at);
      return;
    case GRPC_CHANNEL_CONNECTING:
      el_timers_set(el_loop_timers(at->ch->loop), timer,
                    el_now_ms() + EL_FAILED_MS);
      return;
    default:
      return;
  }
}

static void recreate_soon(member_state *at) {
  if (at->recreate.slot == 0) {
    el_timers_set(el_loop_timers(at->ch->loop), &at->recreate,
                  el_now_ms() + EL_FAILED_MS);
  }
}

/* ---- life ---- */

static void use(el_channel *ch, size_t member, const el_error *cause) {
  el_failover_listener *listener;
  ch->current = member;
  ch->is_doubtful = true;
  el_health_moved(&ch->health);
  TAILQ_FOREACH(listener, &ch->listeners, link) {
    listener->on_failover(listener, cause);
  }
}

/* Tells whether |a| is to be tried before |b|. The members whose keepalive was late come last. In
 * both groups, the members that were not tried in vain come first, the one with the latest sign of
 * life before the others. The rest follow, the one that was tried longest ago before the others, so
 * that each gets its turn. */
static bool is_livelier(const member_state *a, const member_state *b) {
  bool is_a_vain = is_vain(a), is_b_vain = is_vain(b);
  if (a->is_renewing_late != b->is_renewing_late) return b->is_renewing_late;
  if (is_a_vain != is_b_vain) return is_b_vain;
  return is_a_vain ? a->vain_ms < b->vain_ms : a->heard_ms > b->heard_ms;
}

/* Returns the member to use next: of the other members to which no attempt to connect is under way,
 * the first by is_livelier. If the client is still connecting to the current one, a connected
 * member that was not tried in vain comes first. If neither exists, returns the current one. */
static size_t next_member(const el_channel *ch) {
  bool is_waiting = is_connecting(&ch->members[ch->current]);
  size_t found = ch->current;
  for (size_t i = 1; i < ch->n; i++) {
    size_t next = (ch->current + i) % ch->n;
    const member_state *at = &ch->members[next];
    if (is_waiting && !is_vain(at) && is_in_state(at, GRPC_CHANNEL_READY)) {
      return next;
    }
    if (!is_connecting(at) &&
        (found == ch->current || is_livelier(at, &ch->members[found]))) {
      found = next;
    }
  }
  return found;
}

static void heard(member_state *at) { at->heard_ms = el_now_ms(); }

/* Notes that a connection to |at|, the member in use, has opened. */
static void note_connected(member_state *at) {
  el_health_connected(&at->ch->health, el_now_ms() - at->connecting_since_ms);
  at->connecting_since_ms = 0;
  heard(at);
}

static bool is_connected(el_health *health) {
  el_channel *ch = EL_CONTAINER_OF(health, el_channel, health);
  member_state *at = &ch->members[ch->current];
  if (!is_in_state(at, GRPC_CHANNEL_READY)) return false;
  if (at->connecting_since_ms != 0) note_connected(at);
  return true;
}

/* Tells whether another member is connected, and was not tried in vain (is_vain), while the client
 * still connects to the one in use. */
static bool is_overtaken(el_health *health) {
  el_channel *ch = EL_CONTAINER_OF(health, el_channel, health);
  size_t next = next_member(ch);
  return is_connecting(&ch->members[ch->current]) &&
         !is_vain(&ch->members[next]) && el_channel_is_connected(ch, next);
}

/* Tells whether the member in use is to be left when its time for an answer has passed. An attempt
 * to connect has its own limit: during the attempt, the member is left only if there is a member to
 * which the client is not connecting. If the member has just been connected, it gets the time for
 * an answer again: more if the connection took long. */
static bool is_unresponsive(el_health *health) {
  el_channel *ch = EL_CONTAINER_OF(health, el_channel, health);
  member_state *at = &ch->members[ch->current];
  if (is_connecting(at)) {
    if (next_member(ch) != ch->current) return true;
    el_health_heard(health);
    return false;
  }
  if (at->connecting_since_ms == 0 || at->grpc == NULL) return true;
  note_connected(at);
  return false;
}

/* What shows that the member in use is to be left. */
typedef enum leave_sign {
  SIGN_SILENT, /* calls and keepalives got no answer in time */
  /* the attempt to connect takes longer than an answer, or another member is connected */
  SIGN_LATE,
  SIGN_LATE_KEEPALIVE, /* calls are answered, but a keepalive was not */
  /* a connection has failed, or the member has refused a call: for example, it has no leader */
  SIGN_FAILED
} leave_sign;

/* Leaves the member in use, because of |sign| and |cause|. This function alone decides what follows
 * from a sign:
 * - The next call goes to the next member (next_member), if there is one.
 * - If the member is silent, and is the only one or was tried in vain before (is_vain), its
 *   connection is closed: a firewall may have forgotten it, or the address may stand for several
 *   members. If there are others, the first silence does not close it: a member without a leader is
 *   silent, too, until the members have elected one.
 * - If the member is silent, and no other is left to try, the time for an answer doubles. It also
 *   doubles if the member is silent and etcd has never answered. A late attempt to connect
 *   doubles it only when the attempt has failed (on_recreate). */
static void leave(el_channel *ch, leave_sign sign, const el_error *cause) {
  member_state *at = &ch->members[ch->current];
  bool was_vain = is_vain(at);
  size_t next;
  if (sign != SIGN_FAILED) at->vain_ms = el_now_ms();
  switch (sign) {
    case SIGN_SILENT:
      if (ch->n == 1 || was_vain) drop_channel(at);
      if (ch->health.patience.is_answered) {
        lengthen_patience(ch);
      } else {
        el_patience_expired(&ch->health.patience);
      }
      break;
    case SIGN_LATE:
      note_dns(at);
      break;
    case SIGN_LATE_KEEPALIVE:
      at->is_renewing_late = true;
      break;
    case SIGN_FAILED:
      break;
  }
  next = next_member(ch);
  ch->left = sign != SIGN_FAILED ? ch->current : next;
  use(ch, next, cause);
}

static void on_unresponsive(el_health *health) {
  el_channel *ch = EL_CONTAINER_OF(health, el_channel, health);
  el_error cause;
  el_error_set(&cause, EL_UNAVAILABLE, "etcd %s: no answer in time",
               el_channel_address(ch, ch->current));
  leave(ch, is_connecting(&ch->members[ch->current]) ? SIGN_LATE : SIGN_SILENT,
        &cause);
}

static void on_late_keepalive(el_health *health) {
  el_channel *ch = EL_CONTAINER_OF(health, el_channel, health);
  el_error cause;
  if (ch->n == 1) return;
  el_error_set(&cause, EL_UNAVAILABLE,
               "etcd %s: a keepalive was not answered in time",
               el_channel_address(ch, ch->current));
  leave(ch, SIGN_LATE_KEEPALIVE, &cause);
}

el_channel *el_channel_new(el_loop *loop, const el_endpoint *endpoints,
                           size_t n, el_tls *tls) {
  el_channel *ch = el_alloc(sizeof *ch);
  ch->tls = tls;
  ch->loop = loop;
  ch->members = el_alloc(n * sizeof *ch->members);
  ch->n = n;
  ch->quota = grpc_resource_quota_create("etcdlock");
  grpc_resource_quota_resize(ch->quota, RECEIVED_BYTES_MAX);
  TAILQ_INIT(&ch->listeners);
  el_health_init(&ch->health, el_loop_timers(loop), is_connected, is_overtaken,
                 is_unresponsive, on_unresponsive, on_late_keepalive);
  ch->health.is_alone = n == 1;
  for (size_t i = 0; i < n; i++) {
    ch->members[i].ch = ch;
    ch->members[i].recreate.on_due = on_recreate;
    ch->members[i].endpoint = endpoints[i];
    ch->members[i].authority =
        grpc_slice_from_copied_string(authority_of(&endpoints[i], tls));
    STAILQ_INIT(&ch->members[i].waits);
  }
  return ch;
}

static void drop_all_channels(el_channel *ch) {
  for (size_t i = 0; i < ch->n; i++) {
    el_timers_stop(el_loop_timers(ch->loop), &ch->members[i].recreate);
    drop_channel(&ch->members[i]);
  }
}

static void end_waits(member_state *at, const el_error *cause) {
  el_diagnosis_wait *wait;
  while ((wait = STAILQ_FIRST(&at->waits)) != NULL) {
    STAILQ_REMOVE_HEAD(&at->waits, link);
    wait->done(wait, cause);
  }
}

void el_channel_set_token(el_channel *ch, const char *token) {
  el_secret_free(ch->token);
  ch->token = token != NULL ? el_strndup(token, strlen(token)) : NULL;
}

const char *el_channel_token(const el_channel *ch) { return ch->token; }

bool el_channel_client_name(const el_channel *ch, char *to, int size) {
  return ch->tls != NULL && el_tls_client_name(ch->tls, to, size);
}

void el_channel_free(el_channel *ch) {
  int64_t until_ms = el_now_ms() + EL_DIAGNOSES_STOP_MS;
  el_channel_set_token(ch, NULL);
  el_health_destroy(&ch->health);
  drop_all_channels(ch);
  for (size_t i = 0; i < ch->n; i++) {
    if (ch->members[i].diagnosis != NULL) {
      el_diagnosis_cancel(ch->members[i].diagnosis);
    }
  }
  for (size_t i = 0; i < ch->n; i++) {
    if (ch->members[i].diagnosis != NULL) {
      el_diagnosis_stop(ch->members[i].diagnosis, until_ms);
    }
    end_waits(&ch->members[i], NULL);
    grpc_slice_unref(ch->members[i].authority);
  }
  if (ch->tls != NULL) {
    el_tls_unref(ch->tls);
  }
  grpc_resource_quota_unref(ch->quota);
  free(ch->members);
  free(ch);
}

/* ---- members and calls ---- */

const char *el_channel_address(const el_channel *ch, size_t member) {
  return ch->members[member].endpoint.address;
}

el_transport el_channel_transport(const el_channel *ch, size_t member) {
  return el_endpoint_transport(&ch->members[member].endpoint);
}

size_t el_channel_member(const el_channel *ch) { return ch->current; }

size_t el_channel_count(const el_channel *ch) { return ch->n; }

el_loop *el_channel_loop(const el_channel *ch) { return ch->loop; }

grpc_call *el_channel_new_call(el_channel *ch, size_t member,
                               const char *method) {
  member_state *at = &ch->members[member];
  if (at->grpc == NULL) {
    at->mutator = new_mutator();
    at->connect_ms = connect_timeout_ms(at);
    at->dns_ms = ch->is_dns_slow ? EL_NAME_LONG_MS : EL_NAME_MS;
    at->connecting_since_ms = el_now_ms();
    at->grpc = create_channel(&at->endpoint, ch->tls, ch->quota, at->mutator,
                              at->connect_ms, at->dns_ms);
  }
  return grpc_channel_create_call(
      at->grpc, NULL, GRPC_PROPAGATE_DEFAULTS, el_loop_queue(ch->loop),
      grpc_slice_from_static_string(method), &at->authority,
      gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

void el_channel_set_refusal(const el_channel *ch, size_t member,
                            grpc_call_error rc, el_error *err) {
  el_error_set(err, EL_INVALID,
               "etcd %s: gRPC has refused to send the request: %s",
               el_channel_address(ch, member), grpc_call_error_to_string(rc));
}

/* ---- failover ---- */

void el_channel_add_listener(el_channel *ch, el_failover_listener *listener) {
  TAILQ_INSERT_TAIL(&ch->listeners, listener, link);
}

void el_channel_leave(el_channel *ch, size_t member, const el_error *cause) {
  if (member == ch->current) leave(ch, SIGN_SILENT, cause);
}

bool el_channel_is_healthy(const el_channel *ch) {
  return ch->members[ch->current].failed_until_ms <= el_now_ms();
}

void el_channel_call_started(el_channel *ch, el_health_call *call) {
  bool is_ready = el_channel_is_connected(ch, ch->current);
  member_state *at = &ch->members[ch->current];
  if (is_ready && at->connecting_since_ms != 0 &&
      TAILQ_EMPTY(&ch->health.pending)) {
    /* No call has waited for this connection, so it is unknown how long it took. */
    at->connecting_since_ms = 0;
    heard(at);
  }
  el_health_call_started(&ch->health, call, is_ready);
}

void el_channel_call_ended(el_channel *ch, size_t member, el_health_call *call,
                           bool is_answered) {
  member_state *at = &ch->members[member];
  if (is_answered) {
    if (at->connecting_since_ms != 0 && !is_connecting(at)) {
      at->connecting_since_ms = 0;
    }
    if (call->is_keepalive) at->is_renewing_late = false;
    if (member == ch->current) ch->is_doubtful = false;
    heard(at);
  }
  el_health_call_ended(&ch->health, call, is_answered && member == ch->current);
}

/* Has the calls in flight sent again, because they may be lost with the previous leader. */
static void restart_with_leader(el_channel *ch) {
  el_failover_listener *listener;
  el_health_restart(&ch->health);
  for (size_t i = 0; i < ch->n; i++) {
    ch->members[i].is_renewing_late =
        false; /* the previous leader was at fault */
  }
  TAILQ_FOREACH(listener, &ch->listeners, link) {
    if (listener->on_new_leader != NULL) listener->on_new_leader(listener);
  }
}

void el_channel_saw_term(el_channel *ch, uint64_t term) {
  bool is_first = ch->term == 0;
  if (term <= ch->term) return;
  ch->term = term;
  if (!is_first) restart_with_leader(ch);
}

uint64_t el_channel_term(const el_channel *ch) { return ch->term; }

size_t el_channel_left_member(const el_channel *ch) { return ch->left; }

/* Uses |member|, which has shown a new leader, unless the member in use has answered since the last
 * failover. Returns whether |member| came into use. */
static bool call_back(el_channel *ch, size_t member, const el_error *cause) {
  if (member == ch->current || !ch->is_doubtful) return false;
  use(ch, member, cause);
  return true;
}

void el_channel_saw_leader(el_channel *ch, size_t member, uint64_t old_term,
                           uint64_t term) {
  heard(&ch->members[member]);
  if (old_term != 0 && term > old_term && term > ch->called_term) {
    el_error cause;
    el_error_set(&cause, EL_UNAVAILABLE,
                 "etcd %s: no answer yet, but %s has a new leader",
                 el_channel_address(ch, ch->current),
                 el_channel_address(ch, member));
    if (call_back(ch, member, &cause)) ch->called_term = term;
  }
  el_channel_saw_term(ch, term);
}

const el_patience *el_channel_patience(const el_channel *ch) {
  return &ch->health.patience;
}

void el_channel_note_answer(el_channel *ch, size_t member, int64_t took_ms) {
  if (member != ch->current) return;
  ch->is_doubtful = false;
  heard(&ch->members[member]);
  el_health_answered(&ch->health, took_ms);
}

int64_t el_channel_attempt_ms(const el_channel *ch) {
  return EL_ATTEMPT_ANSWERS * el_health_limit_ms(&ch->health);
}

bool el_channel_is_doubtful(const el_channel *ch) { return ch->is_doubtful; }

bool el_channel_is_connected(const el_channel *ch, size_t member) {
  return is_in_state(&ch->members[member], GRPC_CHANNEL_READY);
}

int64_t el_channel_connecting_ms(const el_channel *ch) {
  return el_channel_is_connected(ch, ch->current)
             ? 0
             : connect_timeout_ms(&ch->members[ch->current]);
}

/* ---- why connections fail ---- */

static void on_diagnosed(void *arg, bool is_found, const el_error *err) {
  member_state *at = arg;
  at->diagnosis = NULL;
  is_found = is_found && !at->is_diagnosis_stale;
  at->is_diagnosis_stale = false;
  if (is_found) at->cause = *err;
  at->cause_until_ms = is_found ? el_now_ms() + EL_CAUSE_MS : 0;
  end_waits(at, is_found ? err : NULL);
}

/* Starts a diagnosis of the member, unless one is under way or began less than EL_DIAGNOSE_EVERY_MS
 * ago. gRPC does not promise its texts, so they cannot tell the cause reliably. */
static void diagnose(member_state *at) {
  int64_t now = el_now_ms();
  if (at->diagnosis != NULL ||
      (at->diagnosed_ms != 0 &&
       now < at->diagnosed_ms + EL_DIAGNOSE_EVERY_MS)) {
    return;
  }
  at->diagnosed_ms = now;
  at->diagnosis = el_diagnosis_start(
      at->ch->loop, at->endpoint.is_tls ? at->ch->tls : NULL,
      at->endpoint.address, at->endpoint.is_unix, on_diagnosed, at);
}

/* Tells whether the cause that a diagnosis has found is still to be reported. */
static bool has_cause(const member_state *at) {
  return at->cause_until_ms > el_now_ms();
}

/* Tells whether it is known why connections to the member fail. The last cause counts until the
 * next diagnosis has ended, because a name server that is silent makes a diagnosis take long. But
 * it says nothing about a connection that is open, or is being opened to a known address. */
static bool is_failing(const member_state *at) {
  bool is_opened = is_in_state(at, GRPC_CHANNEL_READY) ||
                   (is_connecting(at) && has_address(at));
  return !is_opened &&
         (has_cause(at) || (at->cause_until_ms != 0 && at->diagnosis != NULL));
}

bool el_channel_is_failing(const el_channel *ch) {
  for (size_t i = 0; i < ch->n; i++) {
    if (!is_failing(&ch->members[i])) return false;
  }
  return true;
}

/* Returns whether connections to every member fail, each for a cause that a retry does not
 * remove. */
static bool is_hopeless(const el_channel *ch) {
  for (size_t i = 0; i < ch->n; i++) {
    const member_state *at = &ch->members[i];
    if (!has_cause(at) || at->cause.is_retriable) return false;
  }
  return true;
}

/* Drops all gRPC channels and all causes that diagnoses have found. It is called after the
 * certificates were replaced, because earlier connections and diagnoses say nothing about
 * connections with the new certificates. */
static void start_anew(el_channel *ch) {
  drop_all_channels(ch);
  for (size_t i = 0; i < ch->n; i++) {
    member_state *at = &ch->members[i];
    at->cause_until_ms = at->diagnosed_ms = 0;
    at->is_diagnosis_stale = at->diagnosis != NULL;
  }
}

/* Replaces |err| by the cause, if a diagnosis has found one. Starts a diagnosis from time to time,
 * because the cause may change. */
static void explain(el_channel *ch, member_state *at, el_error *err) {
  if (!err->is_unexplained) return; /* the cause is known */
  if (has_cause(at)) {
    /* The diagnosis tells why the client cannot connect. It does not tell whether etcd has applied
     * a request that was sent before its connection broke. So the error is definite only for a
     * request that was not sent, and only if a retry is useless. */
    bool is_unsent = err->is_unsent;
    *err = at->cause;
    err->is_unsent = is_unsent;
    err->is_retriable = !is_hopeless(ch);
    /* a retry may succeed, so the code of the cause would be too final */
    if (err->is_retriable) err->code = EL_UNAVAILABLE;
    err->is_definite = is_unsent && !err->is_retriable;
  }
  diagnose(at);
}

/* If a request got no answer because the address of the member is not known yet, says so. */
static void explain_timeout(const member_state *at, el_error *err) {
  el_error cause;
  if (!err->is_unanswered || !is_connecting(at) || has_address(at)) return;
  el_error_set(&cause, EL_UNAVAILABLE,
               "etcd %s: the host name cannot be resolved: no answer in time",
               at->endpoint.address);
  memcpy(err->text, cause.text, sizeof err->text);
}

void el_channel_record_result(el_channel *ch, size_t member, int64_t begun_ms,
                              bool is_given_up, el_error *err) {
  member_state *at = &ch->members[member];
  bool is_seen_silent, is_called_back;
  if (err->code == EL_OK) {
    at->cause_until_ms = at->connecting_since_ms = 0;
    return;
  }
  if (err->code != EL_UNAVAILABLE && err->code != EL_PROTOCOL) return;
  explain_timeout(at, err);
  is_seen_silent = err->is_unanswered &&
                   (is_given_up || el_health_was_silent(&ch->health, begun_ms));
  if (err->is_unanswered && !is_seen_silent) return; /* it is only slow */
  is_called_back = err->has_new_leader && call_back(ch, member, err);
  if (!err->is_unanswered && member == ch->current &&
      el_channel_is_connected(ch, member)) {
    /* The member refuses the request, but is not silent. Because this is noted, the client returns
     * to it during an election, and not to a member that it has to connect to. */
    el_health_heard(&ch->health);
    heard(at);
    if (err->has_new_leader &&
        (is_called_back || at->failed_until_ms <= el_now_ms())) {
      at->failed_until_ms = el_now_ms() + EL_FAILED_MS;
      err->has_other_member = true; /* this member may answer now */
      restart_with_leader(ch);
      return;
    }
  }
  recreate_soon(at);
  if (ch->tls != NULL && err->is_unexplained && el_tls_reload(ch->tls)) {
    start_anew(ch);
  }
  explain(ch, at, err);
  at->failed_until_ms = el_now_ms() + EL_FAILED_MS;
  if (member == ch->current && ch->n > 1 && !is_given_up) {
    leave(ch, is_seen_silent && !is_connecting(at) ? SIGN_SILENT : SIGN_FAILED,
          err);
  }
  err->has_other_member = el_channel_is_healthy(ch);
}

bool el_channel_await_diagnosis(el_channel *ch, size_t member,
                                el_diagnosis_wait *wait) {
  member_state *at = &ch->members[member];
  if (at->diagnosis == NULL) return false;
  STAILQ_INSERT_TAIL(&at->waits, wait, link);
  return true;
}
