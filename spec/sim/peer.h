/* sim peer: one process that locks, driven as the real driver does it.
 *
 * It has one session at a time, at most one entry per session and key_id, and per key_id a
 * line of callers whose front drives the entry. The parts:
 * peer.c is the order in which things are done after every event (settle),
 * peer_session.c and peer_entry.c carry out what the step functions answer.
 */
#ifndef SIM_PEER_H
#define SIM_PEER_H

#include "rules/entry.h"
#include "rules/session.h"
#include "rules/turn.h"
#include "stream.h"
#include "world.h"

enum {
  SESSIONS_MAX = 32,
  ENTRIES_MAX = 64,
  LINE_MAX = CALLERS_MAX,
  WRITE_LINE_MAX = 8
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
  uint32_t share;
  int64_t rev;                    /* of the key that he holds by */
  sim_write line[WRITE_LINE_MAX]; /* the first is under way */
  int n;
  uint32_t
      call; /* that is awaited, or the time until it is sent again; 0: none */
  uint8_t failures;
  int answers; /* both of the first */
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
  int caller;          /* who drives it, NOBODY: no one any more */
  el_turn turn;
  uint32_t census_call; /* that is awaited, 0: none */
  peer_writes writes;
  int passes_behind;  /* of the key, while another one was behind it */
  int64_t behind_ms;  /* since when one was seen there; 0: none is */
  bool is_downgraded; /* its holder only reads: nobody gets the key from him */
} peer_entry;

typedef struct caller_line {
  int callers[LINE_MAX]; /* the front comes first */
  int n;
  bool driven; /* the front drives the entry */
} caller_line;

typedef struct peer {
  int id;
  int64_t delay_ms; /* nobody follows its holds sooner, if it crashes */
  bool closed;
  int session; /* NOBODY: none */
  peer_session sessions[SESSIONS_MAX];
  int n_sessions;
  peer_entry entries[ENTRIES_MAX];
  int n_entries;
  caller_line lines[LINES_MAX];
  int n_in_lines; /* callers, in all of them */
  stream stream;
  int64_t tick_ms; /* when it is going to look at its timers, by the world's
                      clock; 0: never */
} sim_peer;

/* ---- for the history ---- */

void peer_init(sim_peer *pr, int id);

/* Tells whether nothing is waited for and nothing is out. */
bool peer_is_quiet(const sim_peer *pr);

void peer_close(world *wd, int id);

/* ---- for its callers ---- */

/* The caller queues for its lock. */
void peer_request(world *wd, int id, int caller);

/* It gives up, or releases. */
void peer_stop(world *wd, int id, int caller);

/* The caller looks at the clock: has its hold ended? */
void peer_notice_end(world *wd, int id, int caller);

void peer_max_hold(world *wd, int id, int caller);

/* Its hold is a reader's from now on. */
void peer_downgrade(world *wd, int id, int caller);

/* It writes something by its lock. */
void peer_write(world *wd, int id, int caller, int what);

/* Which entry the caller drives, NULL if none. */
peer_entry *peer_find_driven(sim_peer *pr, int caller);

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
void entry_key_gone(world *wd, sim_peer *pr, int entry, int64_t rev);

/* The entry of the current session at |key_id|, a new one if there is none. */
int entry_get(sim_peer *pr, int key_id);

/* The same for a key at |key_id| that was found: of several that of all of them, if it is
 * still there. */
int entry_of_key(sim_peer *pr, int key_id);

/* Where |place|, of a key that |at| waits for, is. */
int entry_key_id_of(const peer_entry *at, const el_place *place);

/* A call of |kind| about the key of |at|, to be sent. */
call entry_call(world *wd, const sim_peer *pr, const peer_entry *at,
                call_kind kind);

/* ---- peer_handoff.c ---- */

extern const el_turn_limits peer_limits;

/* The store has granted the key. */
void handoff_begin(const world *wd, const sim_peer *pr, peer_entry *at);

/* The next in the line gets the key from the one who drives |at|, and has left the
 * line; false: he has to queue for it. */
bool handoff_pass(world *wd, sim_peer *pr, peer_entry *at);

/* ---- peer_write.c ---- */

/* Another one holds by the key of |at|, which has, or had, |mod_rev|. */
void writes_begin(peer_entry *at, int64_t mod_rev);

/* Takes the caller out of its line. */
void line_leave(sim_peer *pr, int key_id, int caller);

#endif
