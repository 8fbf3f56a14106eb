/* simulation network: connections from processes to members. */
#include "network.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/container_of.h"
#include "world.h"

enum {
  /* TCP's first retransmission timeouts, which double: of a SYN; of others, beside a round trip */
  RETRANSMIT_SYN_US = 1000 * WORLD_MS,
  RETRANSMIT_US = 200 * WORLD_MS,
  RETRANSMIT_DOUBLINGS = 6,
  /* after which a member gives up a connection whose client has vanished silently */
  FORGOTTEN_US = 40 * WORLD_S
};

/* What is on its way. A connection takes SYN, ACCEPTED, PREFACE and SETTINGS, in this order. */
typedef enum item_kind {
  ITEM_SYN,
  ITEM_PREFACE,
  ITEM_OPEN,
  ITEM_MESSAGE,
  ITEM_HALF_CLOSE,
  ITEM_CANCEL,
  ITEM_PING,
  ITEM_CLOSE, /* the client is gone */
  ITEM_ACCEPTED,
  ITEM_SETTINGS,
  ITEM_REFUSED,
  ITEM_ANSWER,
  ITEM_STATUS,
  ITEM_PONG,
  ITEM_RESET /* the member is gone */
} item_kind;

typedef struct item {
  el_timer timer;
  item_kind kind;
  connection *conn;
  exchange *ex; /* NULL: about the connection */
  uint8_t *bytes;
  size_t len;
  int status;
  LIST_ENTRY(item) link;
} item;

struct exchange {
  connection *conn;
  char *method;
  bool needs_leader;
  char *token; /* NULL: none */
  etcd_call_events events;
  void *arg;
  bool is_ended_here; /* cancelled, or its connection is gone: no more events */
  etcd_call *call;    /* at the member; NULL: not there, or over */
  TAILQ_ENTRY(exchange) link;
};

struct connection {
  process *of;
  int client; /* whose requests it carries */
  address *at;
  int member;
  connection_events events;
  void *arg;
  bool is_open;
  bool is_closed_here, is_gone_there; /* both: it is freed */
  bool is_mute;
  int64_t last_sent_us, last_answered_us; /* arrival of the last in each way */
  int64_t heard_us; /* when the client received something last */
  int64_t keepalive_us, timeout_us;
  bool is_pinged;
  int64_t
      deferred_us; /* when the last item arrives that waits for the member */
  el_timer ping, resolve;
  LIST_HEAD(, item) items;
  TAILQ_HEAD(, exchange) exchanges;
  TAILQ_ENTRY(connection) link;
};

#define UNCONNECTED "failed to connect to all addresses; last error: UNKNOWN: "

static address addresses[ADDRESSES_MAX];
static int n_addresses;
static TAILQ_HEAD(,
                  connection) connections = TAILQ_HEAD_INITIALIZER(connections);

typedef struct paused {
  const etcd *cluster;
  int64_t until_us[ETCD_MEMBERS_MAX];
} paused;
static paused pauses[ADDRESSES_MAX];

/* ---- addresses ---- */

address *network_add(const char *name, etcd *cluster, int member) {
  address *at = &addresses[n_addresses++];
  *at = (address){.name = name, .cluster = cluster, .n_members = 1};
  at->members[0] = member;
  return at;
}

static address *find(const char *name) {
  for (int i = 0; i < n_addresses; i++) {
    if (strcmp(addresses[i].name, name) == 0) return &addresses[i];
  }
  return NULL;
}

static paused *pauses_of(const etcd *cluster) {
  int i = 0;
  while (pauses[i].cluster != NULL && pauses[i].cluster != cluster)
    i++;
  pauses[i].cluster = cluster;
  return &pauses[i];
}

void network_pause(const etcd *cluster, int member, int64_t until_us) {
  pauses_of(cluster)->until_us[member] = until_us;
}

static int64_t paused_until(const connection *conn) {
  return pauses_of(conn->at->cluster)->until_us[conn->member];
}

/* ---- the end of connections and calls ---- */

static void free_item(item *it) {
  world_stop(&it->timer);
  LIST_REMOVE(it, link);
  free(it->bytes);
  free(it);
}

static void free_exchange(exchange *ex) {
  item *it = LIST_FIRST(&ex->conn->items), *next;
  for (; it != NULL; it = next) {
    next = LIST_NEXT(it, link);
    if (it->ex == ex) free_item(it);
  }
  TAILQ_REMOVE(&ex->conn->exchanges, ex, link);
  free(ex->method);
  free(ex->token);
  free(ex);
}

static void free_connection(connection *conn) {
  while (!TAILQ_EMPTY(&conn->exchanges)) {
    free_exchange(TAILQ_FIRST(&conn->exchanges));
  }
  while (!LIST_EMPTY(&conn->items))
    free_item(LIST_FIRST(&conn->items));
  world_stop(&conn->ping);
  world_stop(&conn->resolve);
  TAILQ_REMOVE(&connections, conn, link);
  free(conn);
}

static void free_if_over(connection *conn) {
  if (conn->is_closed_here && conn->is_gone_there) free_connection(conn);
}

/* Ends |conn| at the member, with all its calls. */
static void end_there(connection *conn) {
  exchange *ex;
  TAILQ_FOREACH(ex, &conn->exchanges, link) {
    if (ex->call != NULL) etcd_cancel(ex->call);
    ex->call = NULL;
  }
  conn->is_gone_there = true;
  free_if_over(conn);
}

/* The client learns that |conn| is gone. */
static void break_here(connection *conn, const char *why) {
  exchange *ex;
  if (conn->is_closed_here) return;
  conn->is_closed_here = true;
  TAILQ_FOREACH(ex, &conn->exchanges, link) { ex->is_ended_here = true; }
  world_stop(&conn->ping);
  world_trace("p%d: connection to %s is gone: %s", conn->of->id, conn->at->name,
              why);
  conn->events.on_broken(conn->arg, why);
  free_if_over(conn);
}

/* ---- on the way ---- */

static path *path_of(const connection *conn) {
  return &conn->at->paths[conn->of->id];
}

/* Returns the time at which a packet that is sent now arrives. */
static int64_t arrival(const connection *conn, bool is_syn) {
  const path *way = path_of(conn);
  int64_t at_us = world_now_us() + world_random(way->min_us, way->max_us);
  int64_t again_us =
      is_syn ? RETRANSMIT_SYN_US : 2 * way->max_us + RETRANSMIT_US;
  if (world_chance(way->slow)) at_us += world_random(0, way->slow_max_us);
  for (int i = 0; i < RETRANSMIT_DOUBLINGS && world_chance(way->lost); i++) {
    at_us += again_us;
    again_us *= 2;
  }
  if (at_us < way->partitioned_until_us) {
    int64_t waited_us = way->partitioned_until_us - world_now_us();
    at_us = way->partitioned_until_us + world_random(0, waited_us);
  }
  return at_us;
}

static void on_arrived(el_timer *timer);

static item *new_item(connection *conn, item_kind kind, exchange *ex) {
  item *it = el_alloc(sizeof *it);
  it->timer.on_due = on_arrived;
  it->kind = kind;
  it->conn = conn;
  it->ex = ex;
  LIST_INSERT_HEAD(&conn->items, it, link);
  return it;
}

/* Lets |it| arrive after the item before it, which arrives at |*last_us|. On a mute connection only
 * the close arrives, and late. */
static void depart(item *it, int64_t *last_us) {
  connection *conn = it->conn;
  int64_t at_us =
      arrival(conn, it->kind == ITEM_SYN || it->kind == ITEM_ACCEPTED);
  if (conn->is_mute && it->kind == ITEM_CLOSE) at_us += FORGOTTEN_US;
  if (conn->is_mute && it->kind != ITEM_CLOSE) {
    free_item(it);
    return;
  }
  if (it->kind != ITEM_SYN && at_us < paused_until(conn)) {
    at_us = paused_until(conn);
  }
  if (at_us <= *last_us) at_us = *last_us + 1;
  *last_us = at_us;
  world_set(&it->timer, at_us);
}

static void send_there(connection *conn, item_kind kind, exchange *ex) {
  depart(new_item(conn, kind, ex), &conn->last_sent_us);
}

static void send_here(connection *conn, item_kind kind, exchange *ex) {
  depart(new_item(conn, kind, ex), &conn->last_answered_us);
}

static void fill(item *it, const uint8_t *bytes, size_t len) {
  it->bytes = el_alloc(len + 1);
  it->len = len;
  memcpy(it->bytes, bytes, len);
}

/* ---- at the member ---- */

static void on_call_message(void *arg, const uint8_t *bytes, size_t len) {
  exchange *ex = arg;
  item *it = new_item(ex->conn, ITEM_ANSWER, ex);
  fill(it, bytes, len);
  depart(it, &ex->conn->last_answered_us);
}

static void on_call_status(void *arg, int status, const char *text) {
  exchange *ex = arg;
  item *it = new_item(ex->conn, ITEM_STATUS, ex);
  ex->call = NULL;
  it->status = status;
  fill(it, (const uint8_t *)text, strlen(text));
  depart(it, &ex->conn->last_answered_us);
}

static bool is_up(const connection *conn) {
  return etcd_is_up(conn->at->cluster, conn->member);
}

static void arrive_there(item *it) {
  static const etcd_call_events events = {on_call_message, on_call_status};
  connection *conn = it->conn;
  exchange *ex = it->ex;
  switch (it->kind) {
    case ITEM_SYN:
      send_here(conn, is_up(conn) ? ITEM_ACCEPTED : ITEM_REFUSED, NULL);
      return;
    case ITEM_PREFACE:
      conn->is_gone_there = !is_up(conn);
      send_here(conn, conn->is_gone_there ? ITEM_RESET : ITEM_SETTINGS, NULL);
      return;
    case ITEM_OPEN:
      ex->call =
          etcd_open(conn->at->cluster, conn->member, conn->client, ex->method,
                    ex->needs_leader, ex->token, &events, ex);
      return;
    case ITEM_MESSAGE:
      if (ex->call != NULL) etcd_message(ex->call, it->bytes, it->len);
      return;
    case ITEM_HALF_CLOSE:
      if (ex->call != NULL) etcd_half_close(ex->call);
      return;
    case ITEM_PING:
      send_here(conn, ITEM_PONG, NULL);
      return;
    default:
      return;
  }
}

/* ---- at the client ---- */

static void arrive_here(item *it) {
  connection *conn = it->conn;
  exchange *ex = it->ex;
  conn->heard_us = world_now_us();
  conn->is_pinged = false;
  switch (it->kind) {
    case ITEM_ACCEPTED:
      send_there(conn, ITEM_PREFACE, NULL);
      return;
    case ITEM_SETTINGS:
      conn->is_open = true;
      world_trace("p%d: connected to %s", conn->of->id, conn->at->name);
      world_set(&conn->ping, world_now_us() + conn->keepalive_us);
      conn->events.on_open(conn->arg);
      return;
    case ITEM_ANSWER:
      if (!ex->is_ended_here) {
        ex->events.on_message(ex->arg, it->bytes, it->len);
      }
      return;
    default:
      return;
  }
}

/* Handles an item after which the call or the connection may be freed. */
static void arrive_last(item_kind kind, connection *conn, exchange *ex,
                        int status, const char *text) {
  switch (kind) {
    case ITEM_CANCEL:
      if (ex->call != NULL) etcd_cancel(ex->call);
      free_exchange(ex);
      return;
    case ITEM_STATUS:
      if (ex->is_ended_here) return; /* ITEM_CANCEL or the close frees it */
      ex->events.on_status(ex->arg, status, text);
      free_exchange(ex);
      return;
    case ITEM_CLOSE:
      end_there(conn);
      return;
    case ITEM_REFUSED:
      conn->is_gone_there = true;
      break_here(conn, UNCONNECTED
                 "Failed to connect to remote host: Connection refused");
      return;
    case ITEM_RESET:
      break_here(conn,
                 conn->is_open ? "Socket closed" : UNCONNECTED "Socket closed");
      return;
    default:
      return;
  }
}

static bool is_for_client(item_kind kind) { return kind >= ITEM_ACCEPTED; }

static bool is_last(item_kind kind) {
  return kind == ITEM_CANCEL || kind == ITEM_STATUS || kind == ITEM_CLOSE ||
         kind == ITEM_REFUSED || kind == ITEM_RESET;
}

/* A member that hangs reads nothing. Its answer to a SYN waits in depart. */
static bool is_deferred(item *it) {
  connection *conn = it->conn;
  int64_t until_us = paused_until(conn);
  if (is_for_client(it->kind) || it->kind == ITEM_SYN ||
      until_us <= world_now_us()) {
    return false;
  }
  if (until_us <= conn->deferred_us) until_us = conn->deferred_us + 1;
  conn->deferred_us = until_us;
  if (conn->last_sent_us < until_us) conn->last_sent_us = until_us;
  world_set(&it->timer, until_us);
  return true;
}

static void on_arrived(el_timer *timer) {
  item *it = EL_CONTAINER_OF(timer, item, timer), copy = *it;
  bool is_over = is_for_client(it->kind) ? it->conn->is_closed_here
                                         : it->conn->is_gone_there;
  if (is_deferred(it)) return;
  if (is_last(copy.kind)) {
    it->bytes = NULL;
    free_item(it);
    if (!is_over || copy.ex != NULL) {
      arrive_last(copy.kind, copy.conn, copy.ex, copy.status,
                  (const char *)copy.bytes);
    }
    free(copy.bytes);
    return;
  }
  if (!is_over && is_for_client(it->kind)) arrive_here(it);
  if (!is_over && !is_for_client(it->kind)) arrive_there(it);
  free_item(it);
}

/* ---- the client's side ---- */

static void close_here(connection *conn) {
  exchange *ex;
  conn->is_closed_here = true;
  world_stop(&conn->ping);
  TAILQ_FOREACH(ex, &conn->exchanges, link) { ex->is_ended_here = true; }
  if (!conn->is_gone_there) send_there(conn, ITEM_CLOSE, NULL);
  free_if_over(conn);
}

static bool has_calls(const connection *conn) {
  const exchange *ex;
  TAILQ_FOREACH(ex, &conn->exchanges, link) {
    if (!ex->is_ended_here) return true;
  }
  return false;
}

static void on_ping(el_timer *timer) {
  connection *conn = EL_CONTAINER_OF(timer, connection, ping);
  int64_t now_us = world_now_us(), silent_us = now_us - conn->heard_us;
  if (conn->of->stopped_until_us > now_us) {
    world_set(timer, conn->of->stopped_until_us + conn->timeout_us);
  } else if (conn->is_pinged) {
    send_there(conn, ITEM_CLOSE, NULL);
    break_here(conn, "keepalive watchdog timeout");
  } else if (silent_us >= conn->keepalive_us && has_calls(conn)) {
    conn->is_pinged = true;
    send_there(conn, ITEM_PING, NULL);
    world_set(timer, now_us + conn->timeout_us);
  } else {
    world_set(timer, now_us + (silent_us < conn->keepalive_us
                                   ? conn->keepalive_us - silent_us
                                   : conn->keepalive_us));
  }
}

static void on_resolved(el_timer *timer) {
  connection *conn = EL_CONTAINER_OF(timer, connection, resolve);
  if (conn->at->n_members > 0) {
    send_there(conn, ITEM_SYN, NULL);
  } else {
    conn->is_gone_there = true;
    break_here(conn, "DNS resolution failed for the name: not found");
  }
}

connection *network_connect(process *of, const char *name, int64_t keepalive_us,
                            int64_t timeout_us, const connection_events *events,
                            void *arg) {
  connection *conn = el_alloc(sizeof *conn);
  conn->of = of;
  conn->client = of->client;
  conn->at = find(name);
  world_trace("p%d: connects to %s", of->id, name);
  conn->events = *events;
  conn->arg = arg;
  conn->keepalive_us = keepalive_us;
  conn->timeout_us = timeout_us;
  conn->ping.on_due = on_ping;
  conn->resolve.on_due = on_resolved;
  LIST_INIT(&conn->items);
  TAILQ_INIT(&conn->exchanges);
  TAILQ_INSERT_TAIL(&connections, conn, link);
  if (conn->at->n_members > 0) {
    conn->member = conn->at->members[conn->at->next++ % conn->at->n_members];
  }
  if (conn->at->resolve_us >= 0) {
    world_set(&conn->resolve, world_now_us() + conn->at->resolve_us);
  }
  return conn;
}

void network_close(connection *conn) { close_here(conn); }

exchange *network_call(connection *conn, const char *method, bool needs_leader,
                       const char *token, const etcd_call_events *events,
                       void *arg) {
  exchange *ex = el_alloc(sizeof *ex);
  ex->conn = conn;
  ex->method = el_strndup(method, strlen(method));
  ex->needs_leader = needs_leader;
  ex->token = token != NULL ? el_strndup(token, strlen(token)) : NULL;
  ex->events = *events;
  ex->arg = arg;
  TAILQ_INSERT_TAIL(&conn->exchanges, ex, link);
  world_trace("p%d: calls %s at %s", conn->of->id, strrchr(method, '/') + 1,
              conn->at->name);
  send_there(conn, ITEM_OPEN, ex);
  return ex;
}

void network_send(exchange *ex, const uint8_t *bytes, size_t len) {
  item *it = new_item(ex->conn, ITEM_MESSAGE, ex);
  fill(it, bytes, len);
  depart(it, &ex->conn->last_sent_us);
}

void network_half_close(exchange *ex) {
  send_there(ex->conn, ITEM_HALF_CLOSE, ex);
}

void network_cancel(exchange *ex) {
  world_trace("p%d: cancels %s", ex->conn->of->id,
              strrchr(ex->method, '/') + 1);
  ex->is_ended_here = true;
  send_there(ex->conn, ITEM_CANCEL, ex);
}

/* ---- faults ---- */

void network_break(const etcd *cluster, int member) {
  connection *conn, *next;
  for (conn = TAILQ_FIRST(&connections); conn != NULL; conn = next) {
    next = TAILQ_NEXT(conn, link);
    if (conn->at->cluster != cluster || conn->member != member ||
        conn->is_gone_there) {
      continue;
    }
    if (!conn->is_closed_here) send_here(conn, ITEM_RESET, NULL);
    end_there(conn);
  }
}

void network_mute(const process *of) {
  connection *conn;
  TAILQ_FOREACH(conn, &connections, link) {
    if (conn->of == of) conn->is_mute = true;
  }
}

void network_unplug(process *of) {
  connection *conn, *next;
  for (int i = 0; i < n_addresses; i++) {
    addresses[i].paths[of->id].partitioned_until_us = INT64_MAX / 4;
  }
  for (conn = TAILQ_FIRST(&connections); conn != NULL; conn = next) {
    next = TAILQ_NEXT(conn, link);
    if (conn->of == of && !conn->is_gone_there) end_there(conn);
  }
}

void network_reset(void) {
  connection *conn, *next;
  for (conn = TAILQ_FIRST(&connections); conn != NULL; conn = next) {
    next = TAILQ_NEXT(conn, link);
    if (!conn->is_gone_there) end_there(conn);
  }
  for (conn = TAILQ_FIRST(&connections); conn != NULL; conn = next) {
    next = TAILQ_NEXT(conn, link);
    free_connection(conn);
  }
  n_addresses = 0;
  memset(pauses, 0, sizeof pauses);
}

void network_plug_in(process *of) {
  for (int i = 0; i < n_addresses; i++) {
    path *way = &addresses[i].paths[of->id];
    if (way->partitioned_until_us > INT64_MAX / 8)
      way->partitioned_until_us = 0;
  }
}
