/* sim peer: one client process, driven as src/lock does it.
 *
 * It has one session at a time, and for each name and mode a local queue with its entries. peer.c
 * has the order of work after each event (settle); peer_session.c, peer_entry.c and peer_queue.c
 * carry out the actions of the step functions; peer_contention.c queries the contention for a key.
 */
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
  /* The calls in flight; 0: none. */
  uint32_t grant_call, keep_call, read_call, revoke_call, audit_call;
  int64_t grant_id;
  int read_entry; /* whose key the read in flight reads */
  int64_t read_rev;
  int next_read;               /* so that each held key is read in turn */
  int holds;                   /* as last reported to the session */
  bool expired, gone, refused; /* reported by the session, not handled yet */
  int64_t second_ms;           /* for the figures: begin of this second ... */
  int64_t keepalives;          /* ... and keepalives in it */
} peer_session;

/* The guarded writes of a hold. */
typedef struct peer_writes {
  el_write_order order;
  int of;                                /* the caller that writes */
  int caller;                            /* the same while it holds, else
                                            NONE */
  int64_t rev;                           /* create_revision of the hold's key */
  sim_write waiting[WRITES_WAITING_MAX]; /* the first is in progress */
  int n;
  uint32_t call; /* in flight, or the backoff before
                    the next attempt; 0: none */
  uint8_t failures;
  int answers;   /* to the first one so far */
  bool detached; /* the last answer found a key off
                    its lease */
} peer_writes;

typedef struct peer_entry {
  bool used;
  el_entry core;
  int key_id, session;
  uint32_t call;            /* in flight; 0: none */
  int64_t answer_sent_ms;   /* when the latest answered request was sent */
  int64_t answered_ms;      /* when its answer came */
  bool seen_stale;          /* it was answered by one member, perhaps a stale
                               one */
  watch watches[NAMES_MAX]; /* of the entry itself */
  int n_watches;
  unsigned created;        /* a bit for each watch that was created */
  int64_t created_rev;     /* the largest revision of these */
  int64_t deleting_rev;    /* guard_rev of the latest delete */
  bool is_release_awaited; /* released by its holder, which has no result
                              yet */
  bool is_delete_in_doubt; /* a delete has an unknown outcome */
  bool in_lock_delay;      /* when its session ended, its lock delay was not
                              over */
  bool ended_early;        /* its session ended before the TTL of its lease */
  bool has_twin_in_doubt;  /* an entry of an earlier session with the same
                              key has a request in doubt */
  int queue;               /* index in the peer; NONE: its session has
                              ended */
  el_local_entry local;
  uint32_t query_call; /* contention query in flight; 0: none */
  bool is_answered;    /* its queue is getting the answer that no key waits */
  watch contenders;    /* watch for contenders; id 0: none */
  uint32_t contenders_call; /* query after its creation, in flight; 0: none */
  int64_t wake_ms;          /* by the peer's clock; 0: no timer */
  peer_writes writes;
  int64_t granted_ms;   /* when etcd granted the key, ... */
  int n_holds;          /* ... and how many holds it had since */
  int due;              /* what has to happen when its last caller leaves */
  int passes_behind;    /* handoffs while another key waited */
  int64_t behind_ms;    /* since when another key waits; 0: none does */
  int64_t contended_ms; /* when the queue got that event; 0: it did not */
  bool is_blind;        /* an event of its watch was swallowed */
  int64_t left_ms;      /* when its last caller left; 0: it has one */
  el_leave left_how;    /* ... how */
  bool left_as_reader;  /* ... and whether that was a downgraded writer */
  int64_t linger_ms;    /* ... and for how long the key may linger */
  bool lingered;        /* it lingers */
  int release;          /* last result of a release, if any */
} peer_entry;

/* The acquisitions of one name and mode, or one multi-lock. */
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
  bool is_performing; /* carrying out the actions of its queues */
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

/* Caller |caller_id| gives up the wait, releases, or has seen that its hold is lost, for |loss|. */
void peer_leave(world *wd, int id, int caller_id, el_leave how, el_loss loss);

/* etcd is unreachable: all waits of the peer fail. */
void peer_fail_waiting(world *wd, int id);

void peer_max_hold(world *wd, int id, int caller_id);

/* Caller |caller_id|, a writer that holds, only reads from now on. */
void peer_downgrade(world *wd, int id, int caller_id);

/* Caller |caller_id| makes a guarded write. */
void peer_write(world *wd, int id, int caller_id, int what);

/* Returns the entry by which |caller| waits or holds; NULL: none. */
peer_entry *peer_entry_of(const struct caller *caller);

/* ---- for the watch stream ---- */

bool peer_is_watching(const world *wd, int id, const watch *what);

void peer_watch_again(world *wd, int id);

void peer_on_watch(world *wd, int id, const watch_message *message);

/* ---- among the parts ---- */

/* Does what follows from an event, until nothing changes. */
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

/* The key with create_revision |rev| was not found, or was |detached|. */
void entry_key_gone(world *wd, sim_peer *pr, int entry, int64_t rev,
                    bool detached);

/* Adds an entry to |queue|, with an unused slot, or with |slot|; returns its index. */
int entry_add(world *wd, sim_peer *pr, int queue);

int entry_add_at(sim_peer *pr, int queue, int slot);

/* Returns the entry of the current session for the key |key_id| that an audit has found; adds one
 * if there is none. For a key of a multi-lock it is the entry of the multi-lock, if that exists. */
int entry_of_key(sim_peer *pr, int key_id);

peer_entry *entry_of_local(el_local_entry *local);

/* The session of |entry| has ended: it leaves its queue, and is freed when it is finished. */
void entry_leave_over(sim_peer *pr, int entry);

/* Returns the key_id of |key|, for which |at| waits. */
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

/* The same for the queue of |at|. */
void queue_step_entry(world *wd, sim_peer *pr, peer_entry *at,
                      el_local_event *event);

/* Applies |report| to the queue of |at|; the actions are carried out later. */
void queue_report(world *wd, sim_peer *pr, peer_entry *at,
                  const el_entry_action *report);

/* Carries out the actions of the queues, unless this runs already. */
void queues_perform(world *wd, sim_peer *pr);

/* Frees the queues without acquisitions and entries. */
void queues_forget(sim_peer *pr);

/* Settles |queue| if it has changed. False: it has not. */
bool queue_settle(world *wd, sim_peer *pr, int queue);

el_local_context queue_now(const world *wd, const sim_peer *pr,
                           const el_local_queue *queue);

/* ---- peer_contention.c ---- */

/* Queries the contention for the key of |at| for its queue. */
void contention_query(world *wd, sim_peer *pr, peer_entry *at);

/* Watches for contenders behind the key of |at| for its queue. */
void contention_watch(world *wd, sim_peer *pr, peer_entry *at);

void contention_unwatch(world *wd, sim_peer *pr, peer_entry *at);

/* Handles a message of that watch. */
void contention_on_watch(world *wd, sim_peer *pr, peer_entry *at,
                         const watch_message *message);

/* ---- peer_write.c ---- */

/* |caller| holds by the key of |at|; |mod_rev| as in el_write_order_init. */
void writes_begin(peer_entry *at, int caller, int64_t mod_rev);

/* The hold is over. Returns el_write_order_handoff_rev. */
int64_t writes_end(peer_entry *at, int caller);

#endif
