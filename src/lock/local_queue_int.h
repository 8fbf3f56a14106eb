/* local_queue_int: what the parts of local_queue share. They stand in their order: each
 * calls only those above it. */
#ifndef ETCDLOCK_LOCK_LOCAL_QUEUE_INT_H
#define ETCDLOCK_LOCK_LOCAL_QUEUE_INT_H

#include "base/hash.h"
#include "lock/handoff.h"
#include "lock/local_queue.h"
#include "lock/slots.h"

TAILQ_HEAD(el_owner_list, el_owner);

/* Our place in etcd's queue, in one session. */
struct el_local_place {
  el_entry_driver driver; /* first */
  el_local_queue *queue;
  el_handoff handoff;
  struct el_owner_list fronts; /* drive it, or hold: one, or readers */
  el_owner *releasing;         /* let go; the key is on its way out */
  bool is_downgraded;          /* its writer only reads on */
  TAILQ_ENTRY(el_local_place) link;
};

typedef struct el_inquiry el_inquiry;

TAILQ_HEAD(el_local_place_list, el_local_place);

struct el_local_queue {
  el_local_queues *queues;
  el_entry_world *world;
  char *id;           /* hash key: the name, and what write_id adds to it */
  uint16_t name_len;  /* EL_MODE_MULTI: 0, or that of what an audit has found */
  bool changed : 1;   /* in queues->changed; a byte with the next */
  bool uncertain : 1; /* a place had a request that may be carried out yet */
  uint8_t mode;       /* el_mode */
  uint16_t permits;
  struct el_owner_list waiting; /* the first is served when a place is free */
  struct el_local_place_list places;
  TAILQ_ENTRY(el_local_queue) changed_link;
  UT_hash_handle hh;
};

struct el_local_queues {
  el_sessions *sessions;
  el_entry_world *world; /* of the usual session, first of all */
  el_turn_limits limits;
  el_entry_events place_events;
  el_local_queue *by_id; /* hash */
  TAILQ_HEAD(, el_local_queue) changed;
  el_local_queue orphans; /* nobody's: has the places of earlier sessions */
  TAILQ_HEAD(, el_inquiry) inquiries;
  el_error closed; /* code EL_OK: they are open */
  el_slots slots;  /* of those who want several names */
};

static inline el_timers *timers_of(const el_local_queue *queue) {
  return queue->queues->world->timers;
}

static inline el_counters *counters_of(const el_local_queue *queue) {
  return queue->queues->world->counters;
}

/* Is its session over? */
static inline bool is_orphan(const el_local_place *at) {
  return at->queue == &at->queue->queues->orphans;
}

/* May several hold by one place? */
static inline bool is_shared(const el_local_queue *queue) {
  return queue->mode == EL_MODE_READ;
}

/* ---- local_queue_inquiry.c ---- */

/* Tells those in front of |at|, who only tried, that somebody else has it; |left_ms|: who
 * has crashed, and keeps others out for so long yet at most; 0: who lives, perhaps. */
typedef void el_local_queue_told(el_local_place *at, int64_t left_ms);

/* Has |told| (which stands below this file, in their order) called when it is known whether
 * he lives who has |lease|. False: there is nothing to ask. @thread io */
bool el_local_queue_inquire(el_local_place *at, int64_t lease,
                            el_local_queue_told *told);

/* Do those in front of |at| wait for that? @thread io */
bool el_local_queue_is_inquired(const el_local_place *at);

/* They don't any more; false: they didn't. @thread io */
bool el_local_queue_drop_inquiry(const el_local_place *at);

/* ---- local_queue_places.c ---- */

/* Has settle look at |queue|. @thread io */
void el_local_queue_touch(el_local_queue *queue);

/* NULL: there is no such place. @thread io */
el_local_place *el_local_queue_find_place(const el_local_queue *queue,
                                          uint32_t slot);

/* |name| as of an owner. @thread io */
el_local_place *el_local_queue_new_place(el_local_queue *queue, el_bytes name,
                                         uint32_t slot);

/* Nothing of it may be left in etcd, and nobody be in front. @thread io */
void el_local_queue_free_place(el_local_place *at);

/* The entry of a place may be free for the next owner now, or over. @thread io */
void el_local_queue_stepped(el_entry_driver *driver);

/* Tells |at|, which may be NULL, what has become of those who drove it, if the last of
 * them has gone. @thread io */
void el_local_queue_signal_last(el_local_place *at, int kind);

/* NULL: there is none. EL_MODE_MULTI: that of the slot, |name| is empty. @thread io */
el_local_queue *el_local_queue_find(const el_local_queues *queues,
                                    const el_entry_world *world, el_bytes name,
                                    const el_place *place);

/* The queue of those who want |name| in the mode of |place|, and as many permits, with the
 * session of |world|; a new one if there is none. @thread io */
el_local_queue *el_local_queue_find_or_add(el_local_queues *queues,
                                           el_entry_world *world, el_bytes name,
                                           const el_place *place);

/* The slot of its first place. Who wants several names has one that nobody else has.
 * @thread io */
uint32_t el_local_queue_first_slot(const el_local_queue *queue);

/* With its places; nobody may be in it. @thread io */
void el_local_queue_free(el_local_queue *queue);

/* Does somebody drive a place, or hold by it? @thread io */
bool el_local_queue_has_fronts(const el_local_queue *queue);

/* Does nobody else drive the place of |owner|, or hold by it? @thread io */
bool el_local_queue_is_alone(const el_owner *owner);

/* |owner| waits no more, but drives |at|, or holds by it. @thread io */
void el_local_queue_put_in_front(el_local_place *at, el_owner *owner);

/* Takes |owner| out of its queue, and has settle look at that: it may be the next
 * one's turn. Before he is told, because what he is told may make him ask again.
 * @thread io */
void el_local_queue_detach(el_owner *owner);

/* ---- local_queue_ends.c ---- */

/* What |owner| wants, for messages. @thread any */
typedef struct el_what {
  char text[180];
} el_what;

/* @thread any */
el_what el_owner_what(const el_owner *owner);

/* The wait of |owner| fails with |err|. @thread io */
void el_local_queue_fail(el_owner *owner, const el_error *err);

/* It fails because |waited_ms| have passed. @thread io */
void el_local_queue_fail_in_time(el_owner *owner, int64_t waited_ms);

/* It fails because etcd refuses it. @thread io */
void el_local_queue_fail_refused(el_owner *owner);

/* It fails because etcd is out of reach, for |away|. @thread io */
void el_local_queue_fail_away(el_owner *owner, const el_error *away);

/* It fails because this client has too many delays in use for |delay_ms|, too.
 * @thread io */
void el_local_queue_fail_delays(el_owner *owner, int64_t delay_ms);

/* It fails because its owner wants no more. @thread io */
void el_local_queue_fail_cancelled(el_owner *owner);

/* It fails because somebody else has the lock. @thread io */
void el_local_queue_fail_locked(el_owner *owner);

/* All who drive |at| fail, as el_local_queue_told says. @thread io */
void el_local_queue_fail_kept_out(el_local_place *at, int64_t left_ms);

/* It fails because our key is gone. @thread io */
void el_local_queue_fail_place_lost(el_owner *owner);

/* All who drive |at| fail, because others have that semaphore with |permits|.
 * @thread io */
void el_local_queue_fail_conflict(el_local_place *at, unsigned permits);

/* The hold of |owner| is lost. @thread io */
void el_local_queue_end_lost(el_owner *owner, el_loss loss);

/* |owner|, who is in no queue any more, hears what became of his release.
 * @thread io */
void el_local_queue_end_released(el_owner *owner, const el_error *err);

/* The key of the lock that was let go is out (EL_OK), or never will be.
 * @thread io */
void el_local_queue_finish(el_local_place *at, const el_error *err);

/* The client was closed: what it lets go is not waited for. @thread io */
void el_local_queue_give_up(el_local_place *at);

/* ---- local_queue_verdicts.c ---- */

/* What the entry of a place has decided. @thread io */
void el_local_queue_decided(el_entry_driver *driver,
                            const el_entry_action *action);

/* How long those of |queue| may hand a key on. @thread io */
const el_turn_limits *el_local_queue_limits(const el_local_queue *queue);

/* Sets the timer of a hold to its hard end. @thread io */
void el_local_queue_set_hard_end(el_owner *owner);

/* |owner|, the first who waits, shares the hold of |at|. @thread io */
void el_local_queue_share(el_local_place *at, el_owner *owner);

/* The holder of |owner| has let go of it; |by_itself|: the next one may have it
 * from him. @thread io */
void el_local_queue_let_go(el_owner *owner, bool by_itself);

/* The same for |loss|, where others may hold on by the same key. @thread io */
void el_local_queue_leave_lost(el_owner *owner, el_loss loss);

/* |owner| wants it: those that linger and are in his way end, whatever their mode and
 * their delay. @thread io */
void el_local_queue_contest_for(const el_owner *owner);

/* ---- local_queue_share.c ---- */

/* Does it take only what is free? @thread io */
bool el_local_queue_tries(const el_owner *owner);

/* Has |next|, the first who waits, hold with others, or wait with them. NOT: he needs a
 * place of his own. @thread io */
el_sharing el_local_queue_share_turn(el_local_queue *queue, el_owner *next);

/* ---- local_queue_time.c ---- */

/* Sets the timer of a wait, as long as its owner is willing to wait. @thread io */
void el_local_queue_set_deadline(el_owner *owner);

/* An owner's. @thread io */
void el_local_queue_on_timer(el_timer *timer);

#endif
