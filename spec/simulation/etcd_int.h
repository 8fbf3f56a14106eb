/* simulation etcd_int: the parts of the simulated etcd, for each other.
 *
 * etcd.c has the calls and their faults; etcd_members.c the members, their faults, elections and
 * the times at which a member applies what the cluster has decided; etcd_store.c the keys with
 * their history; etcd_txn.c transactions; etcd_lease.c leases; etcd_watch.c watches; etcd_auth.c
 * users and tokens.
 *
 * What the cluster has decided is one state, which each write changes when it is applied. A member
 * that lags or is cut off answers from that state as it was at an older revision. */
#ifndef SIMULATION_ETCD_INT_H
#define SIMULATION_ETCD_INT_H

#include "etcd.h"

#include "base/container_of.h"
#include "base/timer.h"
#include "etcd.pb-c.h"
#include "world.h"

/* A status of gRPC and etcd's text. */
typedef struct failure {
  int status;
  const char *text;
} failure;

enum {
  STATUS_OK = 0,
  STATUS_UNKNOWN = 2,
  STATUS_INVALID_ARGUMENT = 3,
  STATUS_NOT_FOUND = 5,
  STATUS_PERMISSION_DENIED = 7,
  STATUS_RESOURCE_EXHAUSTED = 8,
  STATUS_FAILED_PRECONDITION = 9,
  STATUS_OUT_OF_RANGE = 11,
  STATUS_UNIMPLEMENTED = 12,
  STATUS_INTERNAL = 13,
  STATUS_UNAVAILABLE = 14,
  STATUS_UNAUTHENTICATED = 16
};

extern const failure etcd_no_leader, etcd_lease_not_found, etcd_malformed,
    etcd_stopped;

/* ---- memory of one answer ---- */

typedef struct arena {
  struct arena_block *blocks;
} arena;

/* Returns |size| zeroed bytes, which arena_free frees. */
void *arena_take(arena *from, size_t size);
void arena_free(arena *all);

/* ---- the keys and their history ---- */

/* A change and the key before and after it. The history owns all versions of all keys. */
typedef struct change {
  int64_t rev;
  int64_t at_us; /* when it was applied by the cluster */
  const etcd_key *before, *after;
} change;

/* The keys as of |rev|, in their order; valid until the next change or view. */
typedef struct view {
  int64_t rev;
  const etcd_key *const *keys;
  size_t n;
} view;

typedef struct store {
  int64_t rev;
  int64_t compacted_rev; /* reads of older revisions are refused */
  const etcd_key **keys; /* the keys that exist, in their order */
  size_t n_keys, room_keys;
  change *changes;
  size_t n_changes, room_changes;
  const etcd_key **old; /* the keys as of |old_rev| */
  size_t n_old, room_old;
  int64_t old_rev;
  size_t old_n_changes; /* n_changes when |old| was made */
  bool is_written;      /* the present transaction has its revision */
  etcd_cause cause;     /* of the present transaction */
  int client;
  etcd_on_change on_change;
} store;

void store_init(store *st, etcd_on_change on_change);
void store_destroy(store *st);

/* Begins a transaction: all its changes get one revision. */
void store_begin(store *st, etcd_cause cause, int client);

/* |value|.data and |key|.data are copied. */
void store_put(store *st, el_bytes key, el_bytes value, int64_t lease);

/* Deletes the keys of a range, and returns their number. */
int64_t store_delete(store *st, el_bytes key, el_bytes range_end);

void store_delete_of_lease(store *st, int64_t lease);

/* Returns the keys as of |rev|, or the present ones if |rev| is above st->rev. */
view store_view(store *st, int64_t rev);

/* Returns the keys of |all| in the range that begins with |key|, as etcd defines ranges. */
view view_range(const view *all, el_bytes key, el_bytes range_end);

/* Returns whether |it| is in the range. */
bool is_in_range(el_bytes it, el_bytes key, el_bytes range_end);

int etcd_compare(el_bytes a, el_bytes b);

/* Converts between the byte ranges of protobuf-c and those of the project. */
el_bytes bytes_of(ProtobufCBinaryData data);
ProtobufCBinaryData data_of(el_bytes bytes);

/* ---- transactions ---- */

/* A transaction of a client and those nested in it. */
typedef struct txn txn;

/* Decodes a transaction. Returns NULL if it is malformed or nested too deeply. */
txn *txn_read(const uint8_t *bytes, size_t len);
void txn_free(txn *it);

/* Returns why etcd refuses the transaction, whatever the state is; NULL: it does not. */
const failure *txn_check(const txn *it);

/* txn_is_read returns whether the transaction only reads; txn_is_serializable, whether the state of
 * its member is enough for these reads. */
bool txn_is_read(const txn *it);
bool txn_is_serializable(const txn *it);

/* Returns whether the transaction uses space, by etcd's quota. */
bool txn_puts(const txn *it);

/* What the answer to a transaction does not tell. */
typedef struct omissions {
  bool leases_of_names; /* leases if keys_only */
  bool leases;
  bool more;
} omissions;

/* Applies the transaction; one that only reads is evaluated as of |rev|. Sets |*response|, whose
 * header has the revision only, and returns NULL. If etcd refuses the transaction, returns why, and
 * nothing has changed. */
const failure *txn_apply(etcd *cluster, txn *it, int64_t rev, int client,
                         const omissions *omits, arena *memory,
                         Etcd__TxnResponse **response);

/* ---- members ---- */

/* One entry of the raft log. */
typedef struct log_entry {
  int64_t at_us;    /* when it was decided */
  uint64_t term;    /* in which term */
  int64_t rev;      /* the store's revision after it */
  size_t n_changes; /* changes of the keys up to its end */
} log_entry;

typedef struct member {
  etcd *cluster;
  int index;
  uint64_t id;
  int64_t rev;      /* revision that it has applied */
  size_t n_applied; /* changes that it has applied, also by a snapshot */
  size_t n_entries; /* entries that it has applied, also by a snapshot */
  uint64_t term; /* of the last entry that it has applied without a snapshot */
  int64_t lag_until_us, lag_us;
  int64_t cut_until_us;
  int64_t down_until_us;
  int64_t leaderless_us; /* when it notices that there is no leader */
  /* of a member that led when it was cut off */
  int64_t cut_at_us;
  int64_t leads_until_us; /* until then it believes that it leads */
  bool is_renewing;       /* as such, it renews leases (etcd issue 15247) */
  bool has_renewed;       /* as such, it has renewed one */
  int64_t
      hashes_until_us; /* when it has computed the hashes of all Authenticates */
  el_timer catch_up;   /* it applies the next change */
  el_timer back;       /* it is connected again */
  el_timer ends_streams; /* it ends the streams that need a leader */
} member;

void members_init(etcd *cluster);
void members_stop(etcd *cluster);

bool member_is_connected(const member *it);

/* Returns whether the member believes that it leads, although it does not. */
bool member_is_deposed(const member *it);

/* Returns whether the member believes that there is a leader. */
bool member_knows_leader(const member *it);

/* Returns when the member applies what the cluster has applied at |at_us|. */
int64_t member_due(const member *it, int64_t at_us);

/* Applies what is due. */
void member_advance(member *it);

/* Fills the header of an answer with the member's present state; a revision that is set stays. */
void member_fill(const member *it, Etcd__ResponseHeader *header);

/* To be called when the cluster has decided something: adds an entry to the log, which the members
 * apply now or when it is due. */
void members_advance(etcd *cluster);

/* Does what follows if a member was lost or is back: the leader is lost, or one is elected. */
void members_review(etcd *cluster);

/* The leader is lost. */
void members_lose_leader(etcd *cluster, int64_t pause_us);

/* ---- leases ---- */

/* One grant. It stays in the list when it has ended, so that a deposed leader knows it. */
typedef struct grant {
  el_timer expiry;
  etcd *cluster;
  int64_t id;
  int64_t ttl_s;
  int64_t granted_us;
  int64_t ended_us;       /* INT64_MAX: it lives */
  int64_t expires_us;     /* the leader does not end it before this time */
  int64_t old_expires_us; /* the same, for a deposed leader */
} grant;

/* Returns the lease that lives now; NULL: there is none. */
grant *lease_find(const etcd *cluster, int64_t id);

/* Sets |*id| and |*ttl_s| to those of the new lease. Returns why etcd refuses it, or NULL. */
const failure *lease_grant(etcd *cluster, int64_t *id, int64_t *ttl_s);

const failure *lease_revoke(etcd *cluster, int64_t id, etcd_cause cause,
                            int client);

/* Renews the lease at the leader. Returns its TTL; 0: it is gone (see |fast_keep|). */
int64_t lease_renew(etcd *cluster, int64_t id);

/* Renews the lease at |deposed|. Returns its TTL; 0: it is gone; -1: there is no answer. */
int64_t lease_renew_old(etcd *cluster, const member *deposed, int64_t id);

/* Fills the answer of the leader, or of |deposed| if this is not NULL. */
void lease_time_to_live(etcd *cluster, const member *deposed, int64_t id,
                        bool with_keys, arena *memory,
                        Etcd__LeaseTimeToLiveResponse *to);

/* leases_refresh: a new leader was elected. leases_remember: the leader was cut off. */
void leases_refresh(etcd *cluster);
void leases_remember(etcd *cluster);

void leases_free(etcd *cluster);

/* ---- users ---- */

typedef struct auth_token auth_token;

/* Makes |at| compute a hash. Returns how long that takes, with the hashes before it. */
int64_t auth_hash_us(member *at);

/* Returns how much later |at| answers a request because it computes hashes. */
int64_t auth_busy_us(const member *at);

/* Returns a new token, which all members know. */
const char *auth_assign(etcd *cluster, int client);

/* Returns why |at| refuses a call with the token |text|; NULL: it does not. */
const failure *auth_check(member *at, const char *text);

/* |client| asks |at| for a token. Records a violation if it has replaced too many valid ones. */
void auth_check_need(const member *at, int client);

/* |at| forgets all simple tokens. */
void auth_forget(member *at);

void auth_free(etcd *cluster);

/* ---- calls ---- */

/* How far a request is. */
typedef enum stage {
  STAGE_QUEUED,      /* waits for the task before it in its stream */
  STAGE_WORKING,     /* is not applied, or read, yet */
  STAGE_WAITING,     /* for a leader, or until the member is connected */
  STAGE_CATCHING_UP, /* waits until the member has applied it */
  STAGE_ANSWERING,   /* of a read: its answer is about to leave */
} stage;

/* Which part of the cluster serves a request. */
typedef enum route {
  ROUTE_LOCAL, /* the member alone */
  ROUTE_READ, /* the member, when the leader has told it what it must have applied */
  ROUTE_LEADER, /* the leader */
  ROUTE_WRITE   /* all members apply it */
} route;

/* Whether a request that fails by a drawn fault is applied all the same. */
typedef enum fate { FATE_NEVER, FATE_BEFORE, FATE_LATER } fate;

typedef struct task task;
typedef struct method method;

/* A request in work, or a message that leaves later. */
struct task {
  el_timer timer;
  task *prev,
      *next; /* all tasks of the cluster, in the order of their creation */
  etcd *cluster;
  etcd_call
      *call; /* NULL: it has ended, and the request may still be applied */
  member *at;
  int client;
  const method *how;

  /* a request */
  stage stage;
  route route;
  int64_t due_us, deadline_us;
  const failure *failure; /* the answer when it is due; NULL: it is served */
  fate fate;              /* if |failure| is set */
  bool is_applied;
  bool is_lost; /* a write that will never be applied */
  int64_t applied_us;
  txn *txn;
  int64_t lease, ttl_s; /* of a request about a lease */
  bool with_keys;
  int64_t rev; /* in the header of a keepalive's answer; or a watch ID */
  uint64_t term;
  Etcd__WatchRequest *watch_request;

  /* an answer, or a message */
  uint8_t *bytes;
  size_t len;
  struct watch *watch; /* of an event */
  bool is_event;       /* an event of |watch|; dropped if |watch| ends */
};

typedef struct watch {
  int64_t id;
  el_bytes key, range_end; /* one allocation, at key.data */
  int64_t last_us;         /* when its last message leaves */
} watch;

struct etcd_call {
  etcd_call *prev, *next; /* all calls of the cluster */
  etcd *cluster;
  member *at;
  int client;
  const method *how;
  bool needs_leader;
  char *token;                  /* NULL: none */
  bool is_half_closed, is_busy; /* of a keepalive stream */
  const etcd_call_events *events;
  void *arg;
  watch **watches; /* of a watch stream */
  size_t n_watches, room_watches;
  int64_t next_watch_id;
  /* when the last request is handled, and the last control message leaves */
  int64_t last_in_us, last_out_us;
};

struct etcd {
  etcd_options options;
  member members[ETCD_MEMBERS_MAX];
  int leader;      /* -1: there is none */
  int last_leader; /* which led last */
  uint64_t term;
  log_entry *log;
  size_t n_log, room_log;
  el_timer election;
  store store;
  etcd_on_false_renewal on_false_renewal;
  grant **leases;
  size_t n_leases, room_leases;
  task *first_task, *last_task;
  etcd_call *calls;
  etcd_call *sending; /* during its on_message; NULL if it has ended in it */
  bool is_full;       /* no space */
  int64_t saved_us;   /* when the last save ends, see etcd_options.save_us */
  bool saves_again;   /* another save follows it */
  auth_token *tokens;
  int64_t n_tokens, auth_rev;
  etcd_costs *costs; /* by client */
  size_t n_costs;
};

/* Returns the record of what |client|, which is no admin, has sent. */
etcd_costs *costs_of(etcd *cluster, int client);

/* Returns |items| with room for one more than |n|. */
void *etcd_grow(void *items, size_t n, size_t *room, size_t size);

/* Makes a task of |call|. */
task *task_new(etcd_call *call, void (*on_due)(el_timer *timer));
void task_free(task *it);

/* Sends |bytes|, which it takes, as a message of |call| at |at_us|. */
task *send_at(etcd_call *call, int64_t at_us, uint8_t *bytes, size_t len);

/* Ends |call| at |at_us|. */
void end_at(etcd_call *call, int64_t at_us, const failure *why);

/* Ends |call| now. */
void call_end(etcd_call *call, const failure *why);

/* Draws how long something takes. */
int64_t draw_us(const etcd *cluster, int64_t min_us, int64_t max_us);

/* The requests in work notice that the leader is lost, or that a leader or a member is back. */
void tasks_on_lost_leader(etcd *cluster);
void tasks_wake(etcd *cluster);

/* Encodes |message|. */
uint8_t *etcd_pack(const ProtobufCMessage *message, size_t *len);

/* Records a violation if |message| has fields that the model does not know. */
void check_known(const ProtobufCMessage *message);

/* ---- watches ---- */

/* A request of a watch stream has arrived. */
void watch_on_message(etcd_call *call, const uint8_t *bytes, size_t len);

/* |at| has applied |n| changes of one revision. */
void watches_notify(member *at, const change *changes, size_t n);

void watches_compact(etcd *cluster);
void watches_free(etcd_call *call);

#endif
