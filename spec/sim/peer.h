/* sim peer: one process that locks, driven as the real driver does it.
 *
 * It has one session at a time. For each name and mode it has a local queue of owners, which
 * has entries. The parts:
 * peer.c is the order in which things are done after every event (settle),
 * peer_session.c, peer_entry.c and peer_queue.c carry out what the step functions answer,
 * peer_behind.c finds out who is behind a key.
 */
#ifndef SIM_PEER_H
#define SIM_PEER_H

#include "caller.h"
#include "rules/entry.h"
#include "rules/local_queue.h"
#include "rules/session.h"
#include "rules/turn.h"
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
  /* The calls that are awaited, 0: none. */
  uint32_t grant_call, keep_call, probe_call, revoke_call, audit_call;
  int64_t grant_id;
  int probe_entry; /* whose key the probe reads */
  int64_t probe_rev;
  int probe_turn;             /* so that every held key gets its probe */
  int holds;                  /* as last told */
  bool lapsed, gone, refused; /* told by the session, not yet dealt with */
  int64_t second_ms;          /* for the figures: this second ... */
  int64_t keepalives;         /* ... has seen so many */
} peer_session;

/* What the one who holds writes. */
typedef struct peer_writes {
  el_write_order order;
  int of;      /* which caller's they are */
  int caller;  /* the same while it holds; else NOBODY */
  int64_t rev; /* create_revision of the hold's key */
  sim_write waiting[WRITES_WAITING_MAX]; /* the first is under way */
  int n;
  uint32_t
      call; /* that is awaited, or the time until it is sent again; 0: none */
  uint8_t failures;
  int answers;   /* both of the first */
  bool detached; /* the last of them found a key off its lease */
} peer_writes;

typedef struct peer_entry {
  bool used;
  el_entry core;
  int key_id, session;
  uint32_t call;    /* that is awaited, 0: none */
  int64_t seen_ms;  /* when the latest request that was answered was sent */
  int64_t heard_ms; /* and when its answer came */
  bool seen_stale;  /* it may have been answered by a member that is behind */
  watch watches[NAMES_MAX]; /* its own */
  int n_watches;
  unsigned created;     /* a bit for each of them that has been */
  int64_t created_rev;  /* the latest of them */
  int64_t deleting_rev; /* of the key that a delete was last sent for */
  bool let_go;          /* by its holder, who hasn't been told how that ended */
  bool delete_unsure;   /* of one that was sent nobody knows what became */
  bool keeps_out; /* when its session ended, its lost hold kept others out */
  bool cut_short; /* its session was told too early that its lease ended */
  bool
      has_unsure_twin; /* another session's, for the same, was forgotten uncertain */
  int queue; /* of the peer's; NOBODY: its session has ended, it is left over */
  el_local_place place;
  uint32_t look_call; /* who is behind its key? that is awaited, 0: none */
  bool is_answered;   /* nobody was, and its queue is just told so */
  watch contenders;   /* its id is 0: none */
  uint32_t contenders_call; /* who was behind when that was created? 0: none */
  int64_t wake_ms;          /* by the peer's clock; 0: no TIMER */
  peer_writes writes;
  int64_t granted_ms; /* when etcd granted the key, ... */
  int n_holds;        /* ... which so many have held since */
  int due;            /* what is to become of it when its last caller leaves */
  int passes_behind;  /* of the key, while another one was behind it */
  int64_t behind_ms;  /* since when one is; 0: none is */
  int64_t contended_ms; /* when that was told; 0: it was not */
  bool is_blind;        /* what its watch was to tell never came */
  int64_t left_ms;      /* when its last caller left it; 0: one has it */
  el_leave left_how;    /* ... in this way */
  bool left_as_reader;  /* ... and was a writer that was downgraded */
  int64_t linger_ms;    /* ... and for how long it may stay */
  bool lingered;        /* it did: an event has passed since */
  int release;          /* as the entry told it last, if it did */
} peer_entry;

/* The owners of one name in one mode, or of one request for several names. */
typedef struct peer_queue {
  bool used;
  bool is_changed; /* since it was settled */
  int id;          /* key_id_queue */
  unsigned names;  /* key_id_names */
  el_local_queue core;
} peer_queue;

typedef struct peer {
  int id;
  int64_t lock_delay_ms; /* nobody follows its holds sooner, if it crashes */
  int lingering;         /* per mille of its requests */
  bool closed;
  int session;     /* NOBODY: none */
  int64_t tick_ms; /* when it is going to look at its timers, by the world's
                      clock; 0: never */
  int n_sessions, n_entries, n_queues;
  bool is_performing; /* the actions of its queues are being carried out */
  peer_session sessions[SESSIONS_MAX];
  peer_entry entries[ENTRIES_MAX];
  peer_queue queues[QUEUES_MAX];
  el_local_queue left_over; /* hears of entries whose session has ended */
  el_local_actions actions; /* to be carried out */
  stream stream;
} sim_peer;

/* ---- for the history ---- */

void peer_init(sim_peer *pr, int id);

/* Tells whether nothing is waited for and nothing is out. */
bool peer_is_quiet(const sim_peer *pr);

void peer_close(world *wd, int id);

/* ---- for its callers ---- */

/* The caller asks for its lock. */
void peer_join(world *wd, int id, int caller);

/* It gives up, releases, or has seen that its hold is over, for |loss|. */
void peer_leave(world *wd, int id, int caller, el_leave how, el_loss loss);

/* etcd is out of reach: whoever waits is told. */
void peer_fail_waiting(world *wd, int id);

void peer_max_hold(world *wd, int id, int caller);

/* Its hold is a reader's from now on. */
void peer_downgrade(world *wd, int id, int caller);

/* It writes something by its lock. */
void peer_write(world *wd, int id, int caller, int what);

/* Which entry the caller waits or holds by, NULL if none. */
peer_entry *peer_entry_of(const struct caller *who);

/* ---- for the watch stream ---- */

bool peer_is_watching(const world *wd, int id, const watch *what);

void peer_watch_again(world *wd, int id);

void peer_on_watch(world *wd, int id, const watch_message *message);

/* ---- among the parts ---- */

/* Does what follows from an event, until nothing changes. */
void peer_settle(world *wd, sim_peer *pr);

void session_step(world *wd, sim_peer *pr, int session,
                  const el_session_event *event);

/* A new session, if there is none. */
void session_want(world *wd, sim_peer *pr);

/* How many of its keys are held or about to be. */
int session_count_holds(const sim_peer *pr, int session);

void entry_step(world *wd, sim_peer *pr, int entry,
                const el_entry_event *event);

void entry_step_simple(world *wd, sim_peer *pr, int entry, int kind);

/* Its key of |rev| was looked for, and wasn't there. */
void entry_key_gone(world *wd, sim_peer *pr, int entry, int64_t rev,
                    bool detached);

/* A new one for |queue|, with a slot that no other of its entries has, or with |slot|. */
int entry_add(world *wd, sim_peer *pr, int queue);

int entry_add_at(sim_peer *pr, int queue, int slot);

/* That of the current session for a key at |key_id| that was found, a new one if there is
 * none: of several names that of all of them, if it is still there. */
int entry_of_key(sim_peer *pr, int key_id);

peer_entry *entry_of_place(el_local_place *place);

/* Its session has ended: it leaves its queue, and is forgotten when it is over. */
void entry_leave_over(sim_peer *pr, int entry);

/* Where |place|, of a key that |at| waits for, is. */
int entry_key_id_of(const peer_entry *at, const el_place *place);

/* A call of |kind| about the key of |at|, to be sent. */
call entry_call(world *wd, const sim_peer *pr, const peer_entry *at,
                call_kind kind);

/* ---- peer_queue.c ---- */

extern const el_turn_limits peer_limits;

/* The queue with |id|, a new one if there is none. */
int queue_get(sim_peer *pr, int id);

/* Is |other| another one that is in use, and do the two conflict? */
bool queue_is_beside(const sim_peer *pr, int queue, int other);

/* It and those that conflict are to be settled. */
void queue_change(sim_peer *pr, int queue);

void queues_change(sim_peer *pr);

/* Applies |event| to one queue, and carries out what follows. */
void queue_step(world *wd, sim_peer *pr, int queue, el_local_event *event);

/* The same for the queue of |at|. */
void queue_step_entry(world *wd, sim_peer *pr, peer_entry *at,
                      el_local_event *event);

/* The same, and carries out nothing yet: |verdict| is one of several actions. */
void queue_tell(world *wd, sim_peer *pr, peer_entry *at,
                const el_entry_action *verdict);

/* Carries out what is still to be, unless that is being done already. */
void queues_perform(world *wd, sim_peer *pr);

/* Frees those that nobody is in. */
void queues_forget(sim_peer *pr);

/* Settles a queue that has changed; false: it had not. */
bool queue_settle(world *wd, sim_peer *pr, int queue);

el_local_now queue_now(const world *wd, const sim_peer *pr,
                       const el_local_queue *queue);

/* ---- peer_behind.c ---- */

/* Asks who is behind the key of |at|; its queue is told. */
void behind_look(world *wd, sim_peer *pr, peer_entry *at);

/* Watches for contenders behind the key of |at|; its queue is told. */
void behind_watch(world *wd, sim_peer *pr, peer_entry *at);

void behind_unwatch(world *wd, sim_peer *pr, peer_entry *at);

/* What comes on that watch. */
void behind_on_watch(world *wd, sim_peer *pr, peer_entry *at,
                     const watch_message *message);

/* ---- peer_write.c ---- */

/* |caller| holds by the key of |at|; |mod_rev|: as el_write_order_init. */
void writes_begin(peer_entry *at, int caller, int64_t mod_rev);

/* Its hold is over. What the next one's writes begin with; negative: one may come yet. */
int64_t writes_end(peer_entry *at, int caller);

#endif
