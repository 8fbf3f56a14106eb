/* sim peer: one client process, which drives the state machines of src/protocol as src/lock does.
 *
 * A peer has one session at a time, and for each name and mode a local queue with its entries.
 * peer.c contains the order of the work after each event (settle). peer_session.c, peer_entry.c and
 * peer_queue.c carry out the actions of the step functions. peer_contention.c queries and watches
 * which keys wait behind a key. peer_write.c sends the guarded writes. */
#ifndef SIM_PEER_H
#define SIM_PEER_H

#include "caller.h"
#include "protocol/entry.h"
#include "protocol/local_queue.h"
#include "protocol/session.h"
#include "protocol/handoff_budget.h"
#include "stream.h"
#include "world.h"

enum {
  SESSIONS_MAX = 32,
  ENTRIES_MAX = 512,
  QUEUES_MAX = 256,
  WRITES_WAITING_MAX = 8
};

typedef struct peer_session {
  bool used;
  el_session core;
  /* IDs of the calls in flight; 0: none. */
  uint32_t grant_call, keep_call, read_call, revoke_call, audit_call;
  int64_t grant_id;
  int read_entry; /* index of the entry whose key the read in flight reads */
  int64_t read_rev;
  /* where the next read begins to search, so that each held key is read in turn */
  int next_read;
  int holds; /* number of holds that the session was last told */
  bool expired, gone, refused; /* reported by the session, not handled yet */
  int64_t second_ms;  /* for the figures: when the current second began */
  int64_t keepalives; /* for the figures: keepalives in this second */
} peer_session;

/* The guarded writes of a hold. */
typedef struct peer_writes {
  el_write_order order;
  int of;      /* the caller whose hold this is */
  int caller;  /* that caller while it holds; then NONE */
  int64_t rev; /* create_revision of the hold's key */
  /* writes that have not ended; the first is in progress */
  sim_write waiting[WRITES_WAITING_MAX];
  int n;
  /* ID of the call in flight, or of the backoff before the next attempt; 0: none */
  uint32_t call;
  uint8_t failures;
  int answers; /* number of answers to the write in progress */
  /* the last answer found a key attached to another lease or to none */
  bool detached;
} peer_writes;

typedef struct peer_entry {
  bool used;
  el_entry core;
  int key_id, session;
  uint32_t call;          /* ID of the call in flight; 0: none */
  int64_t answer_sent_ms; /* when the latest answered request was sent */
  int64_t answered_ms;    /* when the answer to that request came */
  bool seen_stale; /* that answer came from one member, and may be stale */
  watch watches[NAMES_MAX]; /* watches of the entry, without |contenders| */
  int n_watches;
  unsigned created; /* set of bits: which of the watches are created */
  /* the largest revision at which one of them was created */
  int64_t created_rev;
  int64_t deleting_rev; /* guard_rev of the latest delete */
  /* its holder has released it and has no result yet */
  bool is_release_awaited;
  bool is_delete_in_doubt; /* a delete has an unknown outcome */
  bool in_lock_delay; /* its lock delay was not over when its session ended */
  bool ended_early;   /* its session ended before the TTL of its lease */
  /* an entry with the same key_id was freed with a request of unknown outcome */
  bool has_twin_in_doubt;
  /* index of its local queue in the peer; NONE: its session has ended */
  int queue;
  el_local_entry local;
  uint32_t query_call; /* ID of the contention query in flight; 0: none */
  /* its queue is handling the answer that no key waits behind this one */
  bool is_answered;
  watch contenders; /* watch for contenders; id 0: none */
  /* ID of the query that follows the creation of that watch, in flight; 0: none */
  uint32_t contenders_call;
  int64_t wake_ms; /* by the peer's clock; 0: no timer */
  peer_writes writes;
  int64_t granted_ms; /* when etcd granted the key */
  int n_holds;        /* number of holds since that grant */
  /* what must happen to the key when its last caller leaves (checks_local.c) */
  int due;
  int passes_behind; /* number of handoffs while another key waited */
  int64_t behind_ms; /* since when another key waits; 0: none does */
  /* since which re-take of the lingering key another key waits; 0: none does */
  int64_t rival_ms;
  /* when its local queue learned that another key waits; 0: it has not */
  int64_t contended_ms;
  bool is_blind;       /* an event of the watch for contenders was lost */
  int64_t left_ms;     /* when its last caller left; 0: it has one */
  el_leave left_how;   /* how its last caller left */
  bool left_as_reader; /* that caller was a downgraded writer */
  int64_t linger_ms;   /* ms for which the key may linger after that */
  bool lingered; /* the key lingers, or has lingered since its last hold */
  int release;   /* result of its latest release */
} peer_entry;

/* The local queue of one name and mode, or of one multi-lock. */
typedef struct peer_queue {
  bool used;
  bool is_changed; /* since the last settle */
  int id;          /* key_id_queue */
  unsigned names;  /* key_id_names */
  el_local_queue core;
} peer_queue;

typedef struct peer {
  int id;
  int64_t lock_delay_ms; /* lock delay of its session */
  int lingering;         /* per mille of its acquisitions that may linger */
  bool closed;
  int session;     /* NONE: none */
  int64_t tick_ms; /* when it checks its timers, by the world's
                      clock; 0: never */
  int n_sessions, n_entries, n_queues;
  bool is_performing; /* it is carrying out the actions of its queues */
  peer_session sessions[SESSIONS_MAX];
  peer_entry entries[ENTRIES_MAX];
  peer_queue queues[QUEUES_MAX];
  el_local_queue left_over; /* entries whose session has ended */
  el_local_actions actions; /* to be carried out */
  stream stream;
} sim_peer;

/* ---- for the history ---- */

void peer_init(sim_peer *pr, int id);

/* Tells whether no wait and no request is in progress. */
bool peer_is_quiet(const sim_peer *pr);

void peer_close(world *wd, int id);

/* ---- for its callers ---- */

/* Caller |caller_id| begins an acquisition. */
void peer_join(world *wd, int id, int caller_id);

/* Caller |caller_id| gives up its wait or releases its hold, in the way |how|. If |how| is
 * EL_LEAVE_LOST, the caller has seen that its hold is lost for the reason |loss|. */
void peer_leave(world *wd, int id, int caller_id, el_leave how, el_loss loss);

/* Lets all waits of the peer fail, because etcd is unreachable. */
void peer_fail_waiting(world *wd, int id);

void peer_max_hold(world *wd, int id, int caller_id);

/* Turns the write hold of caller |caller_id| into a read hold. */
void peer_downgrade(world *wd, int id, int caller_id);

/* Caller |caller_id| makes the guarded write |what| (the first field of sim_write). */
void peer_write(world *wd, int id, int caller_id, int what);

/* Returns the entry by which |caller| waits or holds; NULL: none. */
peer_entry *peer_entry_of(const struct caller *caller);

/* ---- for the watch stream ---- */

bool peer_is_watching(const world *wd, int id, const watch *what);

void peer_watch_again(world *wd, int id);

void peer_on_watch(world *wd, int id, const watch_message *message);

/* ---- among the parts ---- */

/* Does the work that follows from an event, in rounds, until a round changes nothing. */
void peer_settle(world *wd, sim_peer *pr);

void session_step(world *wd, sim_peer *pr, int session,
                  const el_session_event *event);

/* Starts a session if there is none. */
void session_want(world *wd, sim_peer *pr);

/* Returns how many keys of the session are held or about to be. */
int session_count_holds(const sim_peer *pr, int session);

void entry_step(world *wd, sim_peer *pr, int entry,
                const el_entry_event *event);

void entry_step_simple(world *wd, sim_peer *pr, int entry, int kind);

/* Tells |entry| that a request did not find its key with create_revision |rev|. |detached|: the
 * request found that key, but attached to another lease or to none. */
void entry_key_gone(world *wd, sim_peer *pr, int entry, int64_t rev,
                    bool detached);

/* Adds an entry with an unused slot to |queue| and returns its index. */
int entry_add(world *wd, sim_peer *pr, int queue);

/* Adds an entry with the slot |slot| to |queue| and returns its index. */
int entry_add_at(sim_peer *pr, int queue, int slot);

/* Returns the index of the entry of the current session for the key |key_id|, which an audit has
 * found. A key of a multi-lock belongs to the entry of the whole multi-lock, if that entry exists.
 * If there is no entry for the key, adds one. */
int entry_of_key(sim_peer *pr, int key_id);

peer_entry *entry_of_local(el_local_entry *local);

/* Moves |entry|, whose session has ended, from its local queue to |left_over|. The entry is freed
 * when it is finished. */
void entry_leave_over(sim_peer *pr, int entry);

/* Returns the key_id of |key|, the key that |at| waits for. */
int entry_key_id_of(const peer_entry *at, const el_queue_key *key);

/* Returns a call of |kind| about the key of |at|. */
call entry_call(world *wd, const sim_peer *pr, const peer_entry *at,
                call_kind kind);

/* ---- peer_queue.c ---- */

extern const el_handoff_limits peer_limits;

/* Returns the queue with |id|; adds one if there is none. */
int queue_get(sim_peer *pr, int id);

/* Tells whether |other| is another queue, in use, that conflicts with |queue|. */
bool queue_is_beside(const sim_peer *pr, int queue, int other);

/* Marks |queue|, and those that conflict with it, to be settled. */
void queue_change(sim_peer *pr, int queue);

void queues_change(sim_peer *pr);

/* Applies |event| to |queue| and carries out the actions. */
void queue_step(world *wd, sim_peer *pr, int queue, el_local_event *event);

/* Applies |event| to the local queue of |at| and carries out the actions. */
void queue_step_entry(world *wd, sim_peer *pr, peer_entry *at,
                      el_local_event *event);

/* Applies |report|, of the entry |at|, to the local queue of |at|. queues_perform carries out the
 * actions later. */
void queue_report(world *wd, sim_peer *pr, peer_entry *at,
                  const el_entry_action *report);

/* Carries out the actions of all queues. If a call of it is already running, that call carries them
 * out. */
void queues_perform(world *wd, sim_peer *pr);

/* Frees the queues that have neither acquisitions nor entries. */
void queues_forget(sim_peer *pr);

/* Settles |queue| if it has changed. Returns false if it has not. */
bool queue_settle(world *wd, sim_peer *pr, int queue);

el_local_context queue_now(const world *wd, const sim_peer *pr,
                           const el_local_queue *queue);

/* ---- peer_contention.c ---- */

/* Sends a contention query for the key of |at|. The local queue of |at| gets the answer. */
void contention_query(world *wd, sim_peer *pr, peer_entry *at);

/* Starts to watch for keys that wait behind the key of |at|. The local queue of |at| gets the
 * events. */
void contention_watch(world *wd, sim_peer *pr, peer_entry *at);

void contention_unwatch(world *wd, sim_peer *pr, peer_entry *at);

/* Handles a message of the watch for contenders of |at|. */
void contention_on_watch(world *wd, sim_peer *pr, peer_entry *at,
                         const watch_message *message);

/* ---- peer_write.c ---- */

/* Begins the guarded writes of the hold that |caller| has by the key of |at|. |mod_rev| is that of
 * el_write_order_init. */
void writes_begin(peer_entry *at, int caller, int64_t mod_rev);

/* Ends the guarded writes of the hold of |caller|. Returns the result of
 * el_write_order_handoff_rev, or 0 if the hold is not that of |caller|. */
int64_t writes_end(peer_entry *at, int caller);

#endif
