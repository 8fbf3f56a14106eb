/* L3 client_int: what the client's own parts (client, session_io, entry_io,
 * line, lock, call) know of each other. Not for L4.
 *
 * After every event on the I/O thread settle (client.c) carries what one part
 * learnt to the others, so that no step function is entered from within
 * another's action.
 */
#ifndef ETCDLOCK_CLIENT_INT_H
#define ETCDLOCK_CLIENT_INT_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <uthash.h>

#include "auth.h"
#include "claim.h"
#include "client.h"
#include "cluster.h"
#include "entry.h"
#include "lease.h"
#include "lock.h"
#include "loop.h"
#include "recipe.h"
#include "session.h"
#include "trouble.h"
#include "waiter.h"
#include "watch.h"

enum {
  /* One attempt of one request, at most; a member that answers nothing at all
   * is left sooner (patience.h). etcd's own limit is 7 s. */
  EL_ATTEMPT_MS = 3000,
  /* A client that never reached its etcd says so after this to those who wait
   * without a time limit: a wrong address should be told, not waited for. */
  EL_FIRST_CONTACT_MS = 5000
};

typedef struct el_line el_line;
typedef struct el_slot el_slot;
struct el_call;

/* The shared part of el_lock is in lock.h's words; who may touch what: */
struct el_lock {
  atomic_int refs;
  el_client *cl;

  /* Set before the I/O thread hears of it, constant afterwards. */
  char *name;
  size_t name_len;
  char *value;
  size_t value_len;
  bool try_once;
  int64_t timeout_ms;
  int64_t deadline_ms; /* INT64_MAX: none */
  int64_t max_hold_ms;

  /* Written by the I/O thread before |decided| completes. */
  el_error err;
  bool waited;
  int64_t token;
  int64_t lease;
  char key[EL_KEY_SIZE];
  size_t key_len;
  el_claim *claim;

  /* Written by the I/O thread before |released| completes. */
  el_error release_err;

  el_waiter decided;  /* held or failed */
  el_waiter released; /* the key is out of etcd, or that failed */
  el_waiter ended;    /* released or lost */

  atomic_int state;           /* el_hold, EL_HOLD_LOST + el_loss: any thread */
  _Atomic int64_t hold_until; /* INT64_MAX: no max_hold; any thread */
  atomic_bool stop_posted, expire_posted;
  el_command start_command, stop_command, expire_command;

  /* The I/O thread's own. */
  el_line *line;  /* NULL: not, or no longer, in one */
  el_timer timer; /* deadline while it waits, max_hold while it is held */
  TAILQ_ENTRY(el_lock) link;
};

TAILQ_HEAD(el_lock_list, el_lock);
TAILQ_HEAD(el_slot_list, el_slot);
TAILQ_HEAD(el_line_list, el_line);
TAILQ_HEAD(el_call_list, el_call);

/* One lock name of one client: those who want it, in order. */
struct el_line {
  el_client *cl;
  char *name; /* hash key */
  size_t name_len;
  struct el_lock_list waiting; /* the first one is served when slot is free */
  el_lock *active;             /* being served, or the holder */
  el_lock *releasing;          /* let go; its key is on its way out */
  el_slot *slot;               /* in the current session; NULL: none */
  bool dirty;                  /* in cl->dirty */
  TAILQ_ENTRY(el_line) dirty_link;
  UT_hash_handle hh;
};

/* An entry with what drives it. Outlives its line's interest until its last
 * request is answered. */
struct el_slot {
  el_client *cl;
  el_line *line; /* NULL: orphaned, its session is dead */
  el_entry m;
  el_queue queue;
  el_entry_action sent; /* the request that is out */
  int64_t rev_then;     /* the cluster's revision when it was sent */
  el_error last_err;    /* of the last failed attempt since a success */
  el_timer timer;
  el_watch watch;
  char watched_key[EL_KEY_SIZE];
  bool in_held;    /* in cl->held: HELD or PROVING */
  bool in_proving; /* in cl->proving */
  TAILQ_ENTRY(el_slot) held_link;
  TAILQ_ENTRY(el_slot) proving_link;
  TAILQ_ENTRY(el_slot) link;
};

struct el_client {
  atomic_int refs;
  unsigned fork_generation;
  bool joined; /* Lua's side: closed, and the loop is gone */

  /* Lua's side, made on demand: for event loops, and for nginx. */
  el_wake *wake;
  el_wake *served;
  el_wake_server *server; /* of |served| */

  /* Constant. */
  el_loop *loop;
  int64_t ttl_ms;

  /* Written by the I/O thread, read by any. */
  _Atomic int64_t lease;
  _Atomic int64_t alive_until;
  _Atomic int64_t counters[sizeof(el_stats) / sizeof(int64_t)];
  el_trouble trouble; /* of the session */

  /* Lua's side writes it before posting the command. */
  el_command close_command;
  int64_t close_budget_ms;

  /* The I/O thread's own. */
  el_session ses;
  unsigned ses_generation; /* tells answers to an earlier session apart */
  el_claim *claim;         /* of this session */
  int barren;              /* sessions in a row that claimed nothing */
  el_error ses_err;        /* of the last failed attempt since a success */
  el_timer ses_timer;
  el_channel *ch;
  el_auth *auth;
  el_keepalive *ka;
  el_watches *watches;
  el_line *lines; /* hash by name */
  struct el_line_list dirty;
  struct el_slot_list slots;
  struct el_slot_list held;    /* those HELD or PROVING */
  struct el_slot_list proving; /* those PROVING */
  struct el_call_list calls;   /* those waiting for their next attempt */
  int n_held;
  int revocable; /* grants and revokes that are out */
  bool wanted;   /* a line needs the session */
  bool ready;    /* the session said READY, REFUSED, LAPSED, GONE: */
  bool refused;  /*   to be carried on by settle */
  bool lapsed;
  bool gone;
  bool contacted; /* etcd has answered something */
  el_cluster cluster;
  bool doubting;          /* about it: a question is out */
  el_error wrong_cluster; /* code EL_OK: it is the right one */
  bool cluster_changed;   /* to be carried on by settle */
  bool closing;
  bool stopping; /* callbacks only clean up */
  el_timer close_timer;
  el_timer alarm; /* el_client_alarm */
};

/* ---- client.c ---- */

/* Hands |command| to the I/O thread; false: the client is closed.
 * @thread lua */
bool el_client_post(el_client *cl, el_command *command);

/* Adds |n| to the counter at |offset| in el_stats. @thread io */
void el_client_count(el_client *cl, size_t offset, int n);

/* The member in use, for messages. @thread io */
const char *el_client_address(const el_client *cl);

#define EL_COUNT(cl, field, n) el_client_count(cl, offsetof(el_stats, field), n)

/* ---- cluster_io.c ---- */

/* Takes note of who answered a Txn on |key| that was sent when the cluster's
 * revision was |rev_then|; |how| is el_sighting's. If nothing may be concluded
 * from it, answer->err says why, and is retriable.
 * @thread io */
void el_client_note_txn(el_client *cl, el_txn_answer *answer, int how,
                        int64_t rev_then, el_bytes key);

/* The same for an answer about a lease; false if it is another cluster's.
 * @thread io */
bool el_client_note_lease(el_client *cl, const el_lease_answer *answer);

/* Takes note of whether |err|, the end of a request, shows that an etcd is
 * there. @thread io */
void el_client_note_contact(el_client *cl, const el_error *err);

/* ---- session_io.c ---- */

/* @thread io */
void el_session_io_init(el_client *cl);

/* Steps the session and carries out its actions. @thread io */
void el_session_io_step(el_client *cl, const el_session_event *event);

/* Gives the session up without another word to etcd. @thread io */
void el_session_io_drop(el_client *cl);

/* Makes a new session of one that is gone. @thread io */
void el_session_io_renew(el_client *cl);

/* ---- entry_io.c ---- */

/* A slot for |line| in the current session. @thread io */
el_slot *el_slot_new(el_line *line);

/* Steps the entry and carries out its actions. @thread io */
void el_slot_step(el_slot *slot, const el_entry_event *event);

/* Steps with an event that is only a kind. @thread io */
void el_slot_signal(el_slot *slot, int kind);

/* Frees |slot|, whose entry must have no request out. @thread io */
void el_slot_free(el_slot *slot);

/* ---- line.c ---- */

/* Puts |lk| into the line of its name. @thread io */
void el_line_join(el_lock *lk);

/* Takes |lk| out: gives up its wait or releases it. @thread io */
void el_line_leave(el_lock *lk);

/* What the slot's entry decided for the line; |action| is one of those from
 * GRANTED on. @thread io */
void el_line_on_action(el_line *line, const el_entry_action *action);

/* The next one's turn, or the end of the line. @thread io */
void el_line_settle(el_line *line);

/* Asks for el_line_settle at the end of this event. @thread io */
void el_line_touch(el_line *line);

/* The hold of |lk| has another hard end. @thread io */
void el_line_expire(el_lock *lk);

/* Fails everybody in |line| with |err|; holders lose. @thread io */
void el_line_fail(el_line *line, const el_error *err, el_loss loss);

/* ---- call.c ---- */

/* Ends the calls that wait for their next attempt. @thread io */
void el_calls_close(el_client *cl);

/* ---- lock.c ---- */

/* @thread any */
el_lock *el_lock_ref(el_lock *lk);

/* @thread any */
void el_lock_unref(el_lock *lk);

/* The verdict: held. @thread io */
void el_lock_grant(el_lock *lk, el_place place, const el_queue *queue,
                   el_claim *claim, int64_t now_ms);

/* The verdict: not held. @thread io */
void el_lock_fail(el_lock *lk, const el_error *err);

/* It was held, and is no longer. @thread io */
void el_lock_lose(el_lock *lk, el_loss loss);

/* Its key is out, or etcd refused (|err|). @thread io */
void el_lock_finish(el_lock *lk, const el_error *err);

#endif
